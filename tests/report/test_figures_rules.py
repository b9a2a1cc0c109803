"""The figure of the rules that acted on a query."""

import numpy as np
import pytest

from onefold import DeepFuzzyAutoencoder, DeepFuzzyModel
from onefold.exceptions import InvalidInputError
from onefold.report.figures import rules_figure, write_rules

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(3).random((60, 12))


def titles(figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def test_rules_figure_has_two_panels_per_rule(images: np.ndarray) -> None:
    explanation = DeepFuzzyAutoencoder(4, width=0.3).fit(images).explain(images[0], n_rules=2)
    figure = rules_figure(explanation, (3, 4))
    assert len(figure.axes) == 6
    for number, share in zip(explanation.rules, explanation.shares, strict=True):
        assert any(f"rule {number}: {share:.1%}" in title for title in titles(figure))
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array(), explanation.output.reshape(3, 4))
    np.testing.assert_array_equal(figure.axes[3].images[0].get_array(), explanation.answers[0].reshape(3, 4))


def test_rules_figure_draws_reasons_and_answers_as_bars() -> None:
    X = np.random.default_rng(4).normal(size=(50, 3))
    explanation = DeepFuzzyModel(width=0.3).fit(X, X[:, 0]).explain(X[0], n_rules=1)
    figure = rules_figure(explanation)
    widths = [bar.get_width() for bar in figure.axes[2].patches]
    expected = explanation.reasons[0][np.argsort(-np.abs(explanation.reasons[0]))]
    np.testing.assert_allclose(widths, expected)
    assert figure.axes[1].patches[0].get_height() == pytest.approx(explanation.output[0])


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_write_rules_writes_every_format(images: np.ndarray, tmp_path, kind: str) -> None:
    path = tmp_path / f"rules.{kind}"
    write_rules(str(path), DeepFuzzyAutoencoder(2).fit(images).explain(images[0]))
    assert path.stat().st_size > 1000


def test_rules_figure_refuses_wrong_shapes_and_names(images: np.ndarray, tmp_path) -> None:
    explanation = DeepFuzzyAutoencoder(2).fit(images).explain(images[0])
    with pytest.raises(InvalidInputError, match="12 outputs"):
        rules_figure(explanation, (3, 3))
    with pytest.raises(InvalidInputError, match="must end in"):
        write_rules(str(tmp_path / "rules.txt"), explanation)
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_rules(str(tmp_path / "nowhere" / "rules.png"), explanation)
