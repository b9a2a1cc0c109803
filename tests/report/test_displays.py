"""Displays: the same numbers after storing, the right numbers, pictures that draw, words that say them."""

import json

import numpy as np
import pytest

from onefold import AutoencoderClassifier
from onefold.audit import distance_attack
from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.release import NOISES, Curve, choose
from onefold.report import (
    AccuracyDisplay,
    CalibrationDisplay,
    ClassCountsDisplay,
    ConfusionDisplay,
    Display,
    FoldingDisplay,
    MembershipDisplay,
    PrivacyUtilityDisplay,
)
from onefold.report.displays import display_of, figure_format, write_figure

RNG = np.random.default_rng(0)
CURVE = Curve(
    tuple(choose(2, lam=lam, sensitivity=1.0) for lam in (1e-2, 1.0)),
    {"optimal": np.array([[0.5, 0.7], [0.9, 0.9]])},
    baseline=0.95,
)
EXAMPLES: list[Display] = [
    AccuracyDisplay(["cost $x", "b"], [0.05, 0.9], ["alone", "federated"], [[0.0, 0.1], [0.8, 0.95]]),
    ConfusionDisplay.from_predictions(RNG.integers(0, 3, 50), RNG.integers(0, 3, 50)),
    CalibrationDisplay.from_predictions(
        RNG.integers(0, 2, 200), RNG.dirichlet([1.0, 1.0], 200), np.array([0, 1])
    ),
    FoldingDisplay.from_distances({"near": RNG.random(30), "far": 1 + RNG.random(20)}),
    MembershipDisplay.from_attack(distance_attack(RNG.random(50), RNG.random(40))),
    PrivacyUtilityDisplay.from_curve(CURVE, marked=0.1),
    PrivacyUtilityDisplay([0.5, 1.0], {"forecast": [0.8, 0.9]}, marked=1.0, whole=True),
    ClassCountsDisplay(["north", "south"], ["a", "b"], [[3, 0], [2000, 5]]),
]


@pytest.mark.merge
def test_displays_are_stored_read_again_described_and_drawn() -> None:
    pytest.importorskip("matplotlib")
    for display in EXAMPLES:
        again = display_of(json.loads(json.dumps(display.numbers, allow_nan=False)))
        assert again.numbers == display.numbers, display
        assert again.describe() == display.describe(), display
        assert display.describe().endswith("."), display
        assert again.to_svg() == display.to_svg(), display


def test_display_draws_into_given_axes() -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")
    axes = matplotlib.Figure().add_subplot()
    display = EXAMPLES[0].plot(axes)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure


def test_what_is_no_display_is_refused() -> None:
    for plain in ({}, {"display": "Path"}, {"display": "ConfusionDisplay"}):
        with pytest.raises(InvalidInputError, match=r"display|ConfusionDisplay"):
            display_of(plain)


def test_calibration_error_is_small_for_true_and_large_for_false_probabilities() -> None:
    rng = np.random.default_rng(1)
    sure = rng.uniform(0.5, 1.0, 20_000)
    stated = np.column_stack([sure, 1 - sure])
    true = np.where(rng.random(20_000) < sure, "a", "b")
    assert CalibrationDisplay.from_predictions(true, stated, ["a", "b"]).error < 0.02
    boasting = np.column_stack([np.full(20_000, 0.99), np.full(20_000, 0.01)])
    assert CalibrationDisplay.from_predictions(true, boasting, ["a", "b"]).error > 0.2


def test_confusion_counts_every_row_once_and_texts_meet_numbers() -> None:
    display = ConfusionDisplay.from_predictions(["0", "1", "1"], [0, 1, 0])
    assert display.classes == ["0", "1"]
    assert display.counts == [[1, 0], [1, 1]]
    with pytest.raises(InvalidInputError, match="same length"):
        ConfusionDisplay.from_predictions([0, 1], [0])


def test_folding_of_an_estimator_has_own_class_nearer_than_the_next() -> None:
    rng = np.random.default_rng(2)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 3)) + 6.0 * y[:, None]
    model = AutoencoderClassifier().fit(X[:40], y[:40])
    display = FoldingDisplay.from_estimator(model, X[40:], y[40:])
    middle = {name: np.average(display.edges[1:], weights=counts) for name, counts in display.counts.items()}
    assert {name: sum(counts) for name, counts in display.counts.items()} == {
        "own class": 40,
        "nearest other class": 40,
    }
    assert middle["own class"] < middle["nearest other class"]
    with pytest.raises(InvalidInputError, match="not fitted to"):
        FoldingDisplay.from_estimator(model, X[:2], ["a", "b"])


def test_folding_refuses_groups_without_finite_distances() -> None:
    for groups in ({}, {"a": []}, {"a": [np.nan]}, {"a": [1.0], "b": [np.inf]}):
        with pytest.raises(InvalidInputError, match="finite"):
            FoldingDisplay.from_distances(groups)


def test_equal_distances_are_in_one_bin() -> None:
    display = FoldingDisplay.from_distances({"a": [2.0, 2.0]}, n_bins=4)
    assert list(display.counts["a"]) == [2, 0, 0, 0]


def test_scores_must_fit_the_epsilons() -> None:
    with pytest.raises(InvalidInputError, match="one score for each epsilon"):
        PrivacyUtilityDisplay([0.5, 1.0], {"a": [0.5]})


# --- the curve of a release -------------------------------------------------------------------------------


def texts(figure) -> str:
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def test_curve_of_a_release_has_every_noise_and_says_what_epsilon_is_about() -> None:
    pytest.importorskip("matplotlib")
    lams, scores = [1e-2, 1.0, 1e2], {noise: RNG.random((3, 3)) for noise in NOISES}
    curve = Curve(tuple(choose(2, lam=lam, sensitivity=1.0) for lam in lams), scores, baseline=0.95)
    errors = {"least error for age $": [3.0, 2.0, 1.0]}
    figure = PrivacyUtilityDisplay.from_curve(curve, errors=errors).plot().figure_
    above, below = figure.axes[:2]
    drawn = [line.get_ydata() for line in above.get_lines()]
    for noise in NOISES:
        assert any(np.array_equal(line, curve.mean(noise)) for line in drawn)
    assert np.array_equal(below.get_lines()[0].get_ydata(), [3.0, 2.0, 1.0])
    assert "epsilon per record at delta 1e-05, labels not covered" in texts(figure)
    assert "least error for age" in texts(figure)
    bounds = PrivacyUtilityDisplay.from_curve(curve).plot().figure_.axes[1].get_lines()[0].get_ydata()
    assert np.array_equal(bounds, [strength.bound for strength in curve.strengths])


def test_figures_are_written_in_every_format_and_in_no_other(tmp_path, block_import) -> None:
    pytest.importorskip("matplotlib")
    figure = EXAMPLES[0].plot().figure_
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        write_figure(str(tmp_path / name), figure)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(InvalidInputError, match=r"must end in \.png"):
        figure_format("curve.csv")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_figure(str(tmp_path / "nowhere" / "a.png"), figure)
    block_import("matplotlib")
    with pytest.raises(MissingDependencyError, match="report"):
        figure_format("curve.png")
