"""The map from measures to whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.federated.fhe import EncryptedArgmin, MeasureMap
from onefold.federated.fhe.quantiser import knots_of


def test_default_map_is_the_rounding_of_the_document() -> None:
    measures = np.random.default_rng(0).random((3, 4, 5))
    for bits in (4, 8, 16):
        assert np.array_equal(MeasureMap(bits).fine(measures), np.rint((2**bits - 1) * measures))


def test_every_map_is_monotone_and_uses_all_numbers() -> None:
    measures = np.linspace(0, 1, 10_001)
    for map_ in ((1.0, 1.0), (0.3, 0.5), (0.01, 4.0), (0.8, 1.0, 0.6), (1.0, 0.5, 0.99)):
        numbers = MeasureMap(6, *map_).fine(measures)
        assert (np.diff(numbers) >= 0).all()
        assert (numbers[0], numbers[-1]) == (0, 63)


def test_map_fitted_to_winning_measures_loses_less_than_a_quarter_on_new_rows() -> None:
    """Winning measures lie in a narrow band: eight plain bits cannot tell them apart."""
    held_out, new = 0.7 + 0.05 * np.random.default_rng(2).random((2, 4, 400, 10))
    exact, losses = np.argmin(new.min(axis=0), axis=1), []
    for knots in ((), knots_of(held_out.min(axis=(0, 2)), 1.0)):
        wins = EncryptedArgmin(4, 10, mode="clear", measure_map=MeasureMap(8, knots=knots)).run(new)
        assert wins[np.arange(400), exact].all()  # ties may appear, the winner never disappears
        losses.append(np.mean(1 - 1 / wins.sum(axis=1)))
    assert losses[1] < losses[0] / 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"bits": 0},
        {"bits": 33},
        {"bound": 0.0},
        {"bound": np.nan},
        {"power": 0.0},
        {"power": np.nan},
        {"floor": -0.1},
        {"floor": 1.0},
        {"floor": np.nan},
        {"looks": 0},
        *(
            {name: value}
            for name in ("bits", "bound", "power", "floor", "looks")
            for value in ("x", None, True)
        ),
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidInputError):
        MeasureMap(**{"bits": 8, **wrong})


def test_measures_out_of_range_and_what_are_no_numbers_are_refused() -> None:
    argmin = EncryptedArgmin(2, 2, mode="clear")
    for wrong in ([-0.1], [1.1], ["a"], [np.inf], [True, False], ["0.5"], None, [[0.1], [0.2, 0.3]], 0.5):
        with pytest.raises(InvalidInputError):
            argmin.run(wrong)


@pytest.mark.parametrize("mode", ["clear", "simulate"])
def test_more_looks_leave_fewer_ties(mode: str) -> None:
    rng = np.random.default_rng(3)
    answers = rng.random((3, 300, 4))
    answers[:, :20, 1] = answers[:, :20, 0]  # exact ties stay
    exact = answers.min(axis=0) == answers.min(axis=(0, 2))[:, None]
    extra = []
    for looks in (1, 2, 8):
        wins = EncryptedArgmin(3, 4, 4, mode, MeasureMap(4, looks=looks)).run(answers)
        assert not np.any(exact & ~wins)  # the winner never disappears
        extra.append(int(np.sum(wins & ~exact)))
    assert extra[2] < extra[1] < extra[0]
    assert extra[2] < extra[0] / 4


def test_encrypted_minimum_of_joined_answers_is_the_plain_one() -> None:
    """A squared distance plus an offset that is the same at every site; NaN where a site lacks a class."""
    rng = np.random.default_rng(3)
    near = rng.random((40, 5))
    squares = near * (1.0 + rng.random((3, 40, 5)))
    squares[0, :, 2] = np.nan
    answers = squares + rng.random((40, 5))
    bound = 3.0  # public: no smallest answer is above it
    exact = np.argmin(np.nanmin(answers, axis=0), axis=1)
    parts = np.minimum(answers / bound, 1.0)
    for mode in ("simulate", "clear"):
        wins = EncryptedArgmin(3, 5, 16, mode=mode).run(parts)
        assert wins[np.arange(40), exact].all()
        assert wins.sum() == 40  # sixteen bits tell all of them apart
