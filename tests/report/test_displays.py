"""Displays: the same numbers after storing, the right numbers, pictures that draw, words that say them."""

import json

import numpy as np
import pytest

from onefold import AutoencoderClassifier
from onefold.audit import distance_attack
from onefold.exceptions import InvalidInputError
from onefold.release import Curve, choose
from onefold.report import (
    AccuracyDisplay,
    CalibrationDisplay,
    ClassCountsDisplay,
    ConfusionDisplay,
    CurvesDisplay,
    Display,
    FieldDisplay,
    FoldingDisplay,
    ImagesDisplay,
    MembershipDisplay,
    PointsDisplay,
    PrivacyUtilityDisplay,
)
from onefold.report.displays import read_display

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
    ClassCountsDisplay(["north", "south"], ["a", "b"], [[3, 0], [2000, 5]]),
    FieldDisplay.from_function(lambda rows: np.linalg.norm(rows, axis=1), {"cost $x": RNG.random((9, 2))}, 8),
    FieldDisplay.from_function(
        lambda rows: (rows[:, 0] > 0.5) * 1.0, {"a": [[0, 0], [1, 1]]}, 9, "class", ["left", "right"]
    ),
    PointsDisplay.from_rows({"samples": RNG.random((9, 2)), "images": RNG.random((3, 2))}),
    ImagesDisplay.from_rows({"first": RNG.random((3, 16)), "second": RNG.random((2, 16))}, ["a", "b", "c"]),
    CurvesDisplay([1.0, 10.0, 100.0], {"a": [1.0, 2.0, 4.0], "b": [4.0, 2.0, 1.0]}, "rows", "s", "xy"),
]


@pytest.mark.parametrize("display", EXAMPLES, ids=lambda display: type(display).__name__)
def test_display_is_stored_read_again_described_and_drawn(display: Display) -> None:
    plain = json.loads(json.dumps(display.to_dict(), allow_nan=False))
    again = read_display(plain)
    assert again.to_dict() == display.to_dict()
    assert again.describe() == display.describe()
    assert display.describe().endswith(".")
    pytest.importorskip("matplotlib")
    assert again.to_svg() == display.to_svg()


def test_display_draws_into_given_axes() -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")
    axes = matplotlib.Figure().add_subplot()
    display = EXAMPLES[0].plot(axes)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure


@pytest.mark.parametrize("plain", [{}, {"display": "Path"}, {"display": "ConfusionDisplay"}])
def test_what_is_no_display_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=r"display|ConfusionDisplay"):
        read_display(plain)


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


@pytest.mark.parametrize("groups", [{}, {"a": []}, {"a": [np.nan]}, {"a": [1.0], "b": [np.inf]}])
def test_folding_refuses_groups_without_finite_distances(groups: dict[str, list[float]]) -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        FoldingDisplay.from_distances(groups)


def test_equal_distances_are_in_one_bin() -> None:
    display = FoldingDisplay.from_distances({"a": [2.0, 2.0]}, n_bins=4)
    assert list(display.counts["a"]) == [2, 0, 0, 0]


def test_scores_must_fit_the_epsilons() -> None:
    with pytest.raises(InvalidInputError, match="one score for each epsilon"):
        PrivacyUtilityDisplay([0.5, 1.0], {"a": [0.5]})


def test_field_has_the_value_of_the_function_at_every_point_of_the_grid() -> None:
    display = FieldDisplay.from_function(
        lambda rows: 10 * rows[:, 0] + rows[:, 1], {"a": [[0, 0], [1, 3]]}, 4
    )
    for place, (x, y) in enumerate((x, y) for y in display.y for x in display.x):
        assert display.values[place // 4][place % 4] == pytest.approx(10 * x + y)
    assert (display.x[0], display.y[-1]) == pytest.approx((-0.15, 3.45))


def test_regions_are_told_by_their_share() -> None:
    display = FieldDisplay([0, 1], [0, 1], [[0, 1], [1, 1]], {}, "class", ["left", "right"])
    assert display.describe() == "Regions by class: left 25 %, right 75 % of the picture."


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FieldDisplay([0, 1], [0], [[1.0]]), "one row for each y"),
        (lambda: FieldDisplay([0], [0], [[np.nan]]), "finite"),
        (lambda: PointsDisplay.from_rows({"a": [[1.0, 2.0, 3.0]]}), "two finite numbers"),
        (lambda: PointsDisplay.from_rows({}), "at least one group"),
        (lambda: ImagesDisplay.from_rows({"a": [[1.0, 2.0, 3.0]]}), "square"),
        (lambda: ImagesDisplay([], ["a"]), "needs a name"),
        (lambda: CurvesDisplay([1, 2], {"a": [1.0]}), "one number for each place"),
        (lambda: CurvesDisplay([1], {"a": [1.0]}, logarithmic="z"), "logarithmic"),
    ],
)
def test_numbers_that_cannot_be_drawn_are_refused(make: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()  # type: ignore[operator]
