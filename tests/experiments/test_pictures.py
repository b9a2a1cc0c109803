"""Pictures of the register: the same numbers after storing, the right numbers, and rules that acted."""

import json

import numpy as np
import pytest

from experiments.pictures import (
    CurvesDisplay,
    FieldDisplay,
    ImagesDisplay,
    PointsDisplay,
    rules_figure,
    write_rules,
)
from onefold import DeepFuzzyAutoencoder, DeepFuzzyModel
from onefold.exceptions import InvalidInputError
from onefold.report import Display
from onefold.report.displays import display_of

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


def test_write_rules_writes_a_file(images: np.ndarray, tmp_path) -> None:
    path = tmp_path / "rules.svg"
    write_rules(str(path), DeepFuzzyAutoencoder(2).fit(images).explain(images[0]))
    assert path.stat().st_size > 1000


def test_rules_figure_refuses_wrong_shapes(images: np.ndarray) -> None:
    explanation = DeepFuzzyAutoencoder(2).fit(images).explain(images[0])
    with pytest.raises(InvalidInputError, match="12 outputs"):
        rules_figure(explanation, (3, 3))


RNG = np.random.default_rng(0)
EXAMPLES: list[Display] = [
    FieldDisplay.from_function(lambda rows: np.linalg.norm(rows, axis=1), {"cost $x": RNG.random((9, 2))}, 8),
    FieldDisplay.from_function(
        lambda rows: (rows[:, 0] > 0.5) * 1.0, {"a": [[0, 0], [1, 1]]}, 9, "class", ["left", "right"]
    ),
    PointsDisplay.from_rows({"samples": RNG.random((9, 2)), "images": RNG.random((3, 2))}),
    ImagesDisplay.from_rows({"first": RNG.random((3, 16)), "second": RNG.random((2, 16))}, ["a", "b", "c"]),
    CurvesDisplay([1.0, 10.0, 100.0], {"a": [1.0, 2.0, 4.0], "b": [4.0, 2.0, 1.0]}, "rows", "s", "xy"),
]


@pytest.mark.merge
def test_pictures_are_stored_read_again_described_and_drawn() -> None:
    for display in EXAMPLES:
        again = display_of(json.loads(json.dumps(display.numbers, allow_nan=False)))
        assert again.numbers == display.numbers, display
        assert again.describe() == display.describe(), display
        assert again.to_svg() == display.to_svg(), display


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


def test_numbers_that_cannot_be_drawn_are_refused() -> None:
    for make, message in (
        (lambda: FieldDisplay([0, 1], [0], [[1.0]]), "one row for each y"),
        (lambda: FieldDisplay([0], [0], [[np.nan]]), "finite"),
        (lambda: PointsDisplay.from_rows({"a": [[1.0, 2.0, 3.0]]}), "two finite numbers"),
        (lambda: PointsDisplay.from_rows({}), "at least one group"),
        (lambda: ImagesDisplay.from_rows({"a": [[1.0, 2.0, 3.0]]}), "square"),
        (lambda: ImagesDisplay([], ["a"]), "needs a name"),
        (lambda: CurvesDisplay([1, 2], {"a": [1.0]}), "one number for each place"),
        (lambda: CurvesDisplay([1], {"a": [1.0]}, logarithmic="z"), "logarithmic"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            make()
