"""BoundedFisherNoise, hardened: a table that is the noise, draws on a grid within bounds, a guarantee."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi, kstest, norm
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy import BoundedFisherNoise, Box
from onefold.privacy.mechanisms.ground_state import TOTAL_VARIATION, CellTable, GroundState, cell_table
from onefold.privacy.samplers import ByteStream
from reference.bounded_noise import every_case


def bounded(lam: float, bounds: object, Pi: object = None, **options) -> BoundedFisherNoise:
    """The noise for changes of one unless told otherwise."""
    return BoundedFisherNoise(lam, bounds, Pi, **{"sensitivity": 1.0, **options})


@pytest.mark.parametrize(
    "bounds, exact_cdf",
    [((-np.inf, np.inf), norm.cdf), ((0.0, np.inf), chi(3).cdf)],  # the two that are known in closed form
)
def test_the_table_is_the_rounded_noise(bounds: tuple[float, float], exact_cdf: Any) -> None:
    state = GroundState(*bounds)
    table = cell_table(state, 1.0, -8)
    weights = np.diff(table.upto, prepend=0)
    assert table.upto[-1] == 2**62
    assert weights.min() >= 0
    edges = (table.first + np.arange(len(weights) + 1) - 0.5) * 2.0**-8
    masses = np.diff(exact_cdf(edges))
    assert np.abs(weights / 2.0**62 - masses).sum() / 2 < TOTAL_VARIATION


def test_draws_compare_whole_numbers() -> None:
    table = CellTable.of(-1, np.array([1 << 60, 3 << 60, 1 << 62]))
    words = np.array([0, (1 << 62) - 1, 1 << 62, (3 << 62) - 1, 3 << 62, 2**64 - 1], dtype="<u8")
    drawn = table.sample(ByteStream(lambda size: words.tobytes()), 6)
    assert drawn.tolist() == [-1, -1, 0, 0, 1, 1]


@every_case
def test_hardened_draws_follow_the_density(low: float, high: float, lam: float, weight: float) -> None:
    noise = bounded(lam, [(low, high)], [weight], sensitivity=high - low)
    step = noise._grids(1)[0].step
    sample = noise.sample((60000, 1), random_state=5)[:, 0]
    assert np.array_equal(sample, np.round(sample / step) * step)
    assert low < sample.min() < sample.max() < high
    smeared = sample + step * (np.random.default_rng(6).random(60000) - 0.5)
    assert kstest(smeared, noise.cdf).pvalue > 1e-4
    centre = noise.mean(1)[0]
    for factor in (2 / 3, 3 / 2):
        assert kstest(centre + factor * (smeared - centre), noise.cdf).pvalue < 1e-10
    assert not np.array_equal(noise.sample(9, random_state=None), noise.sample(9, random_state=None))


@every_case
def test_no_hardened_draw_can_leave_the_bounds(low: float, high: float, lam: float, weight: float) -> None:
    """Draws near a wall are too rare to be seen: the ends of the table, with half a step for the value."""
    noise = bounded(lam, [(low, high)], [weight], sensitivity=high - low)
    (state, scale), grid = noise._states(1)[0], noise._grids(1)[0]
    table = cell_table(state, scale, grid.exponent)
    possible = table.first + np.flatnonzero(np.diff(table.upto, prepend=0))
    assert (possible[0] - 0.5) * grid.step >= low
    assert (possible[-1] + 0.5) * grid.step <= high


def test_hardened_rows_keep_to_the_bounds_and_to_a_grid() -> None:
    noise = bounded(1e-3, [(-1.0, 0.3)], sensitivity=Box(0, 1, 1))
    X = np.random.default_rng(0).random((20000, 1))
    noisy = noise.randomise(X, random_state=1)
    step = noise._grids(1)[0].step
    assert np.array_equal(noisy, np.round(noisy / step) * step)
    assert np.all((noisy - X >= -1.0) & (noisy - X <= 0.3))
    assert np.ptp(noisy - X) > 1.2
    # values that share a place on the grid share everything the release can be
    shifted = noise.randomise(np.round(X / step) * step, random_state=1)
    assert np.array_equal(noisy, shifted)


@pytest.mark.parametrize(
    ("options", "change"), thinned([(-6.0, 6.0, 1.0), (-40.0, 50.0, 1e-4), (-6.0, 9.0, 0.3)], [0.1, 1.0])
)
def test_the_hardened_guarantee_by_the_table(options: tuple[float, float, float], change: float) -> None:
    low, high, lam = options
    """Every shift that rounding can make of a change, summed over the very integers that are drawn from."""
    delta = 1e-3
    noise = bounded(lam, (low, high), sensitivity=change, delta=delta)
    epsilon = noise.guarantee(1).entry[0]
    (state, scale), grid = noise._states(1)[0], noise._grids(1)[0]
    weights = np.diff(cell_table(state, scale, grid.exponent).upto, prepend=0) / 2.0**62
    most = math.floor(change / grid.step) + 1
    lost = {}
    for steps in (most, most - 1, most // 2, 1):
        here, there = np.pad(weights, (0, steps)), np.pad(weights, (steps, 0))
        for one, other in ((here, there), (there, here)):
            for share in (1.0, 0.95):
                excess = np.maximum(one - math.exp(share * epsilon) * other, 0).sum()
                lost[steps, share] = max(lost.get((steps, share), 0.0), excess)
    # a tenth of delta is kept for the table: what is lost must not touch it
    assert max(value for (_, share), value in lost.items() if share == 1.0) <= 0.9 * delta
    assert lost[most, 0.95] > 0.9 * delta
    plain = bounded(lam, (low, high), sensitivity=change, delta=delta, sampler="float").guarantee(1).entry[0]
    assert plain < epsilon < 1.1 * plain


def test_hardened_noise_states_no_epsilon_its_table_cannot_carry() -> None:
    """At delta 1e-9 a table that is right to 1e-11 carries an epsilon of log(10), not one of 5."""
    for options, stated in (({"delta": 1e-9, "lam": 1e-2}, True), ({"delta": 1e-9, "lam": 1.0}, False)):
        hardened = bounded(bounds=(-np.inf, np.inf), **options).guarantee(1)
        assert math.isfinite(hardened.record[0]) == math.isfinite(hardened.entry[0]) == stated
        plain = bounded(bounds=(-np.inf, np.inf), sampler="float", **options).guarantee(1)
        assert math.isfinite(plain.record[0])


def test_hardened_noise_beyond_its_limits_is_refused() -> None:
    strong = bounded(1e-12, (-np.inf, np.inf))
    with pytest.raises(InvalidInputError, match=r"^[^\n]*too strong for the hardened sampler[^\n]*$"):
        strong.sample((3, 1))
    with pytest.raises(InvalidInputError, match="too small or too large"):
        bounded(1.0, (-1e-290, 1e-290))
    assert "hardened" in str(bounded(1e-4, (-60, 60)).guarantee(1))
