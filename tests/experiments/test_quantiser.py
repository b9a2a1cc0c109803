"""The map of three numbers that stored results use."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.operator.quantiser import ArgminInLooks, Quantiser, shifts
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe import EncryptedArgmin


def test_default_map_is_the_rounding_of_the_document() -> None:
    measures = np.random.default_rng(0).random((3, 4, 5))
    for bits in (4, 8, 16):
        assert np.array_equal(Quantiser(bits).quantise(measures), np.rint((2**bits - 1) * measures))


def test_every_map_is_monotone_and_uses_all_numbers() -> None:
    measures = np.linspace(0, 1, 10_001)
    for map_ in ((1.0, 1.0), (0.3, 0.5), (0.01, 4.0), (0.8, 1.0, 0.6), (1.0, 0.5, 0.99)):
        numbers = Quantiser(6, *map_).quantise(measures)
        assert (np.diff(numbers) >= 0).all()
        assert (numbers[0], numbers[-1]) == (0, 63)


def _crowded(seed: int) -> np.ndarray:
    """Winning measures crowd near 0, as folding measures do: eight plain bits cannot tell them apart."""
    rng = np.random.default_rng(seed)
    answers = 0.02 * rng.random((4, 400, 10)) ** 2 + 0.5 * (rng.random((4, 400, 10)) < 0.8)
    return np.minimum(answers, 1.0)


def test_fitted_map_loses_less_than_a_quarter_on_new_rows() -> None:
    held_out, new = _crowded(0), _crowded(1)
    exact = np.argmin(new.min(axis=0), axis=1)
    losses = []
    for quantiser in (Quantiser(8), Quantiser(8).fit(held_out)):
        wins = ArgminInLooks(EncryptedArgmin(4, 10, mode="clear"), quantiser, 1).run(new)
        assert wins[np.arange(400), exact].all()  # ties may appear, the winner never disappears
        losses.append(np.mean(1 - 1 / wins.sum(axis=1)))
    assert losses[1] < losses[0] / 4
    fitted = Quantiser(8).fit(held_out)
    public = Quantiser(8, fitted.clip_, fitted.power_, fitted.floor_)
    assert np.array_equal(public.quantise(new), fitted.quantise(new))
    assert fitted.clip_ < 0.1


def test_fit_spreads_a_narrow_band_far_from_zero() -> None:
    rng = np.random.default_rng(2)
    held_out, new = 0.7 + 0.05 * rng.random((2, 4, 400, 10))
    fitted = Quantiser(8).fit(held_out)
    assert 0.6 < fitted.floor_ < 0.72
    wins = [
        ArgminInLooks(EncryptedArgmin(4, 10, mode="clear"), each, 1).run(new).sum(axis=1)
        for each in (Quantiser(8), fitted)
    ]
    assert np.mean(wins[0] > 1) > 0.5
    assert np.mean(wins[1] > 1) < 0.1


def test_fit_keeps_the_plain_map_if_nothing_ties() -> None:
    answers = np.zeros((2, 5, 3))
    answers[:, :, 1:] = 1.0
    fitted = Quantiser(8).fit(answers)
    assert (fitted.clip_, fitted.power_, fitted.loss_) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bits": 0},
        {"bits": 17},
        {"clip": 0.0},
        {"clip": np.nan},
        {"power": 0.0},
        {"power": np.nan},
        {"floor": -0.1},
        {"floor": 1.0},
        {"floor": np.nan},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidInputError):
        Quantiser(**wrong)


def test_measures_out_of_range_or_of_wrong_shape_are_refused() -> None:
    for wrong in ([-0.1], [1.1], ["a"], [np.inf]):
        with pytest.raises(InvalidInputError):
            Quantiser().quantise(wrong)
    for wrong in (np.zeros((2, 3)), np.zeros((2, 3, 1)), np.full((2, 3, 2), np.nan)):
        with pytest.raises(InvalidInputError):
            Quantiser().fit(wrong)


def test_texts_booleans_and_none_are_refused_as_numbers() -> None:
    for name in ("bits", "clip", "power", "floor"):
        for wrong in ("x", None, True, [1.0], b"1"):
            with pytest.raises(InvalidInputError):
                Quantiser(**{name: wrong})
    for wrong in ("x", None, np.nan, True, 0.6, -0.6):
        with pytest.raises(InvalidInputError, match="shift"):
            Quantiser().quantise([0.5], wrong)
    for wrong in ([True, False], ["0.5"], None, [[0.1], [0.2, 0.3]]):
        with pytest.raises(InvalidInputError):
            Quantiser().quantise(wrong)


def test_shifts_lie_evenly_apart() -> None:
    assert shifts(1) == []
    for looks in (2, 4, 8):
        places = np.sort(np.array([0.0, *shifts(looks)]) % 1)
        assert np.allclose(places, np.arange(looks) / looks)
    assert np.abs(shifts(13)).max() <= 0.5
    for wrong in (0, -1, 1.5, "2", None, True):
        with pytest.raises(InvalidInputError):
            shifts(wrong)


def test_shift_moves_the_boundaries_and_nothing_else() -> None:
    measures = np.linspace(0, 1, 4081)
    plain = Quantiser(4).quantise(measures)
    for shift in shifts(8):
        moved = Quantiser(4).quantise(measures, shift)
        assert (np.diff(moved) >= 0).all()
        assert (moved.min(), moved.max()) == (max(0, round(shift)), 15)
        inside = (measures > 0.1) & (measures < 0.9)
        assert abs(np.mean(moved[inside] - plain[inside]) - shift) < 0.01


@pytest.mark.parametrize("mode", ["clear", "simulate"])
def test_looking_again_leave_fewer_ties(mode: str) -> None:
    rng = np.random.default_rng(3)
    answers = rng.random((3, 300, 4))
    answers[:, :20, 1] = answers[:, :20, 0]  # exact ties stay
    exact = answers.min(axis=0) == answers.min(axis=(0, 2))[:, None]
    extra = []
    for looks in (1, 2, 8):
        wins = ArgminInLooks(EncryptedArgmin(3, 4, 4, mode=mode), Quantiser(4), looks).run(answers)
        assert not np.any(exact & ~wins)  # the winner never disappears
        extra.append(int(np.sum(wins & ~exact)))
    assert extra[2] < extra[1] < extra[0]
    assert extra[2] < extra[0] / 4
