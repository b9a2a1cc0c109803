"""Several looks with few bits are one comparison of finer numbers, and the fitted map is what it says."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.federated.fhe import Client, Querier, Server
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.quantiser import MeasureMap, in_every_look, knots_of, look_at
from reference import looks as by_hand

EXTREMES = [0.0, 5e-324, 1e-300, 0.25, 0.25 + 1e-12, 1.0, 3.0, 1e300, np.inf, np.nan]


def tables(rng: np.random.Generator, kind: str, n_sites: int, n_rows: int, n_classes: int) -> np.ndarray:
    """Measures (sites, rows, classes) that are random, often tied, or extreme; some classes are missing."""
    shape = (n_sites, n_rows, n_classes)
    if kind == "tied":
        found = rng.integers(0, 4, shape) / 4
    elif kind == "extreme":
        found = rng.choice(EXTREMES[:-1], shape)
    elif kind == "close":
        found = 0.73 + 1e-3 * rng.random(shape)
    else:
        found = rng.random(shape)
    found[rng.random(shape) < 0.2] = np.nan
    found[0, :, 0] = rng.choice(EXTREMES[:-1], n_rows)  # every row has an answer
    return found


@pytest.mark.parametrize("looks", [1, 2, 3, 4, 7, 16])
def test_looks_together_find_the_minimum_of_the_fine_numbers(looks: int) -> None:
    rng = np.random.default_rng(looks)
    fine = rng.integers(-1, 3 * looks, (3, 200, 4))
    fine[0, :, 0] = rng.integers(0, 3 * looks, 200)
    stacked = np.concatenate([look_at(fine, look, looks) for look in range(looks)], axis=1)
    found = in_every_look(clear_argmin(stacked), looks)
    np.testing.assert_array_equal(found, clear_argmin(fine))
    for row in range(0, 200, 10):
        assert found[row].tolist() == by_hand.winners_in_every_look(fine[:, row].tolist(), looks)
        assert found[row].tolist() == by_hand.winners(fine[:, row].tolist())


@pytest.mark.parametrize("looks", [1, 3, 4])
@pytest.mark.parametrize("most", [1.0, np.inf])
def test_fitted_map_is_the_one_of_the_definition(looks: int, most: float) -> None:
    rng = np.random.default_rng(5)
    knots = knots_of(0.7 + 0.05 * rng.random(50), most)
    assert np.all(np.diff(knots) > 0)
    values = np.array([*EXTREMES, *rng.random(200), *(0.7 + 0.05 * rng.random(200)), *knots])
    found = MeasureMap(6, knots=knots, looks=looks).fine(values)
    expected = np.array([by_hand.fine_number(float(value), list(knots), 6, looks) for value in values])
    # Where a part lies within rounding of one half, floating point may fall to the other side.
    assert np.all(np.abs(found - expected) <= 1)
    assert np.mean(found != expected) < 0.02
    order = np.argsort(values[:-1][~np.isnan(values[:-1])])
    assert np.all(np.diff(found[:-1][~np.isnan(values[:-1])][order]) >= 0)  # monotone


def test_one_look_at_the_plain_map_is_the_rounding_of_its_definition() -> None:
    values = np.random.default_rng(0).random((40, 5))
    values[3, 2] = np.nan
    for bits, power, floor in ((8, 1.0, 0.0), (6, 0.5, 0.1), (8, 3.0, 0.0)):
        parts = np.clip((values - floor) / (1.0 - floor), 0.0, 1.0) ** power
        expected = np.where(np.isnan(values), -1, np.rint((2**bits - 1) * parts))
        np.testing.assert_array_equal(MeasureMap(bits, 1.0, power, floor).numbers(values), expected)
        twice = MeasureMap(bits, 2.0, power, 2 * floor).numbers(2 * values)
        np.testing.assert_array_equal(twice, expected)


def test_fitted_map_tells_close_measures_apart_and_others_as_well() -> None:
    shown = np.linspace(0.72, 0.75, 100)
    fitted, plain = MeasureMap(8, knots=knots_of(shown, 1.0)), MeasureMap(8)
    close = np.linspace(0.72, 0.75, 400)
    assert len(np.unique(fitted.fine(close))) > 8 * len(np.unique(plain.fine(close)))
    for far in (0.72 / 2.0 ** np.arange(1, 8), 2.0 ** np.arange(-7, 1)):  # of another size than was shown
        assert len(np.unique(fitted.fine(far))) == len(far)
    distances = MeasureMap(8, knots=knots_of(shown, np.inf))
    assert len(np.unique(distances.fine(0.75 * 2.0 ** np.arange(-7, 8)))) == 15


@pytest.mark.parametrize("shown", [[], [0.0, 0.0], [np.nan], [np.inf, 0.0]])
def test_map_cannot_be_fitted_to_nothing(shown: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="--bound"):
        knots_of(shown, 1.0)


def test_map_fitted_to_a_single_measure_or_to_equal_ones_increases() -> None:
    for shown in ([0.3], [0.3] * 40, [1.0], [1e-12, 1e-12], [1e200]):
        for most in (1.0, np.inf):
            knots = np.array(knots_of(shown, most))
            assert np.all(np.diff(knots) > 0)
            assert np.all(np.isfinite(knots))


@pytest.mark.parametrize("kind", ["random", "tied", "extreme", "close"])
def test_encrypted_labels_are_those_of_the_fine_numbers_in_clear(kind: str) -> None:
    pytest.importorskip("seal")
    rng = np.random.default_rng(8)
    measures = tables(rng, kind, 3, 12, 4)
    map_ = MeasureMap(6, looks=3, knots=knots_of(rng.random(30), np.inf))
    querier = Querier(3, 4, 6)
    server = Server(querier.evaluation_keys(check=False))
    sites = [Client(querier.public_key(), f"site-{number}") for number in range(3)]
    sent = [site.encrypt(map_.numbers(own), "q") for site, own in zip(sites, measures, strict=True)]
    wins = in_every_look(querier.decrypt(server.aggregate(sent)), 3)
    np.testing.assert_array_equal(wins, clear_argmin(map_.fine(measures)))
    for row in range(12):
        fine = map_.fine(measures[:, row]).tolist()
        assert wins[row].tolist() == by_hand.winners_in_every_look(fine, 3)
