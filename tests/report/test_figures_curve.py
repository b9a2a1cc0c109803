"""The privacy-utility figure: every curve is in it, and it says what its epsilons are about."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.release import NOISES, sweep
from onefold.report.figures import check_figure_format, curve_figure, write_curve


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 3])
    labels, lams = np.repeat([0, 1], 30), [1e-2, 1.0, 1e2]
    return sweep(X, labels, lams, repetitions=3, random_state=0, sensitivity=1.0)


def texts(figure) -> str:
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def test_curve_figure_draws_every_noise_and_says_what_epsilon_is_about(curve) -> None:
    pytest.importorskip("matplotlib")
    figure = curve_figure(curve, "costs $5", {"least error for age": [3.0, 2.0, 1.0]})
    above, below = figure.axes[:2]
    drawn = [line.get_ydata() for line in above.get_lines()]
    for noise in NOISES:
        assert any(np.array_equal(line, curve.mean(noise)) for line in drawn)
    assert np.array_equal(below.get_lines()[0].get_ydata(), [3.0, 2.0, 1.0])
    words = texts(figure)
    assert "per record at delta 1e-05; labels not covered" in words
    assert "least error for age" in words
    assert "VOID" not in words
    assert "VOID" in texts(curve_figure(curve, "t", void=True))
    bounds = curve_figure(curve, "t").axes[1].get_lines()[0].get_ydata()
    assert np.array_equal(bounds, [strength.bound for strength in curve.strengths])


@pytest.mark.parametrize("name, start", [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_write_curve_writes_every_format(curve, tmp_path, name: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    write_curve(str(tmp_path / name), curve, "title")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_check_figure_format_refuses_other_names_and_a_missing_package(tmp_path, block_import) -> None:
    with pytest.raises(InvalidInputError, match=r"must end in \.png"):
        check_figure_format("curve.csv")
    block_import("matplotlib")
    with pytest.raises(MissingDependencyError, match="report"):
        check_figure_format("curve.png")
