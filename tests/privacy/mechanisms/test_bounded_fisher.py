"""BoundedFisherNoise: 002 Cor. 2.7 by finite differences, exact samples, and an honest guarantee."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, norm
from tests.tiers import later, thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy import Ball, BoundedFisherNoise, Box, Event, FisherGaussian
from onefold.privacy.mechanisms.ground_state import LARGEST_EPSILON, GroundState, shift_delta, shift_epsilon
from reference import mechanisms as exact
from reference import release as literal
from reference.bounded_noise import CASES, every_case


def bounded(lam: object, bounds: object, Pi: object = None, **options) -> BoundedFisherNoise:
    """The noise in exact arithmetic, for changes of one unless told otherwise."""
    return BoundedFisherNoise(lam, bounds, Pi, **{"sensitivity": 1.0, "sampler": "float", **options})


def fisher(lam: float, Pi: object = None, **options) -> FisherGaussian:
    """The free noise, likewise."""
    return FisherGaussian(lam, Pi, **{"sensitivity": 1.0, "sampler": "float", **options})


def excess(noise: BoundedFisherNoise, epsilon: float, shift: float) -> float:
    return exact.excess_by_quadrature(noise.density, epsilon, shift, reach=60.0, n=20_001)


def make(low: float, high: float, lam: float, weight: float) -> BoundedFisherNoise:
    return bounded(lam, [(low, high)], [weight])


@pytest.mark.parametrize(("low", "high", "lam", "weight"), later(CASES, CASES[1::2]))
def test_density_equals_a_finite_difference_solution(
    low: float, high: float, lam: float, weight: float
) -> None:
    places, density = literal.bounded_density(low, high, lam, weight, points=1201)
    found = make(low, high, lam, weight).density(places)
    assert found == pytest.approx(density, abs=2e-4 * density.max())
    # planted errors: the coordinates not scaled by the root of the weight, or scaled twice
    if weight != 1.0 and high - low > 1:
        for wrong in (1 / weight, weight**3):
            assert np.abs(make(low, high, lam, wrong).density(places) - density).max() > 1e-2 * density.max()


@every_case
def test_moments_and_information_by_quadrature(low: float, high: float, lam: float, weight: float) -> None:
    noise = make(low, high, lam, weight)
    reach = (max(low, -14 * (lam * weight) ** -0.25), min(high, 14 * (lam * weight) ** -0.25))

    def integral(f):
        return quad(f, *reach, limit=400, epsabs=1e-13, epsrel=1e-10)[0]

    density = noise.density
    h = 1e-5 * (high - low)

    def score_squared(v):
        slope = (density(v + h) - density(v - h)) / (2 * h)
        return slope**2 / max(float(density(v)), 1e-200) if density(v) > 1e-12 else 0.0

    assert integral(density) == pytest.approx(1.0, abs=1e-8)
    assert integral(lambda v: v * density(v)) == pytest.approx(noise.mean(1)[0], abs=1e-8 * (high - low))
    assert integral(lambda v: v**2 * density(v)) == pytest.approx(noise.second_moments(1)[0], rel=1e-6)
    assert noise.variance == pytest.approx(noise.second_moments(1)[0])
    assert integral(lambda v: abs(v) * density(v)) == pytest.approx(noise.expected_magnitude, rel=1e-6)
    assert integral(score_squared) == pytest.approx(noise.fisher_information(1)[0, 0], rel=1e-3)
    assert noise.standard_errors(1)[0] == pytest.approx(noise.fisher_information(1)[0, 0] ** -0.5)
    # Cramér and Rao: the noise itself is an unbiased estimate once its mean is subtracted
    assert noise.second_moments(1)[0] - noise.mean(1)[0] ** 2 >= noise.standard_errors(1)[0] ** 2 * (1 - 1e-9)


@every_case
def test_samples_follow_the_density_and_never_leave_the_bounds(
    low: float, high: float, lam: float, weight: float
) -> None:
    noise = make(low, high, lam, weight)
    sample = noise.sample((60000, 1), random_state=5)[:, 0]
    assert sample.min() >= low
    assert sample.max() <= high
    assert kstest(sample, noise.cdf).pvalue > 1e-4
    centre = noise.mean(1)[0]
    for factor in (2 / 3, 3 / 2):  # a wrong scale is seen
        assert kstest(centre + factor * (sample - centre), noise.cdf).pvalue < 1e-10


def test_a_draw_from_the_very_edge_does_not_round_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    high, lam = 3.5, 3.0
    scale = math.pow(lam, -0.25)
    assert scale * (high / scale) > high  # the product rounds outwards
    # As good as never drawn: the density vanishes there.
    monkeypatch.setattr(
        GroundState, "sample", lambda state, size, rng: np.resize([state.low, state.high], size)
    )
    sample = bounded(lam, (-high, high)).sample((2, 1), random_state=0)
    assert sample.ravel().tolist() == [-high, high]


class Scripted:
    """Stands in for a stream: hands out the given numbers, one per call."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def uniform(self, size: int) -> np.ndarray:
        return np.full(size, self.numbers.pop(0))


@pytest.mark.parametrize(
    ("bounds", "share"),
    thinned([(-np.inf, np.inf), (-1.0, 1.0), (0.0, 6.0), (2.0, 5.0)], [0.001, 0.1, 0.4, 0.9, 0.999]),
)
def test_a_height_is_accepted_exactly_below_the_density(bounds: tuple[float, float], share: float) -> None:
    low, high = bounds
    """Cells are so narrow that a wrong height is invisible in samples: each comparison is tried by hand."""
    state = GroundState(low, high)
    cell = int(np.searchsorted(state._shares, share, side="right"))
    step = state._edges[1] - state._edges[0]
    for place in (0.01, 0.5, 0.99):
        t = state._centre + state._half * (state._edges[cell] + place * step)
        least = float(state.density(t)) / state._upper[cell]
        assert 0 < least < 1  # the cell's upper bound is one
        drawn = state.sample(1, Scripted(share, place, least * 0.9999))[0]
        assert drawn == pytest.approx(t, abs=1e-9)
        if least * 1.0001 < 1:
            again = Scripted(share, place, least * 1.0001, 0.5, 0.5, 0.0)
            assert state.sample(1, again)[0] != pytest.approx(t, abs=1e-9)
            assert not again.numbers
    masses = state.cdf(state._centre + state._half * state._edges[1:])
    envelope = np.cumsum(state._upper) * step * state._half
    assert state._shares == pytest.approx(envelope / envelope[-1])  # cells are drawn by their upper bounds
    assert np.all(envelope >= masses - 1e-12)


def test_no_other_noise_has_a_smaller_criterion() -> None:
    """Tr(Pi^-1 I) + lam Tr(V) is smaller than for other densities that vanish at the same bounds."""
    lam, weight = 1.3, 2.0
    noise = make(-1.0, 2.0, lam, weight)
    best = noise.fisher_information(1)[0, 0] / weight + lam * noise.second_moments(1)[0]
    for tilt in (-0.4, -0.1, 0.1, 0.4):

        def root(v: float, tilt: float = tilt) -> float:
            return math.sqrt(float(noise.density(v))) * math.exp(tilt * v)

        def slope(v: float) -> float:
            return (root(v + 1e-5) - root(v - 1e-5)) / 2e-5

        mass = quad(lambda v: root(v) ** 2, -1, 2)[0]
        cost = 4 * quad(lambda v: slope(v) ** 2, -0.9999, 1.9999)[0] / weight
        cost += lam * quad(lambda v: v**2 * root(v) ** 2, -1, 2)[0]
        assert cost / mass > best * (1 + 1e-4)


@pytest.mark.parametrize("reach", [9.0, 100.0, np.inf])
@pytest.mark.parametrize("lam, weight", [(1.0, 1.0), (1e-4, 5.0), (1e6, 0.1)])
def test_wide_bounds_give_the_free_noise(reach: float, lam: float, weight: float) -> None:
    scale = fisher(lam, [weight]).standard_errors(1)[0]
    free = fisher(lam, [weight], sensitivity=scale)
    noise = bounded(lam, (-reach * scale, reach * scale), [weight], sensitivity=scale)
    places = np.linspace(-5, 5, 41) * scale
    assert noise.density(places) * scale == pytest.approx(norm.pdf(places / scale), abs=1e-9)
    assert noise.cdf(places) == pytest.approx(norm.cdf(places / scale), abs=1e-9)
    assert noise.standard_errors(1)[0] == pytest.approx(scale, rel=1e-8)
    entry = noise.guarantee(1).entry[0]
    assert entry == pytest.approx(free.guarantee(1).entry[0], rel=1e-3)


def test_noise_on_a_half_line_worked_out_by_hand() -> None:
    """On (0, inf) the ground state is t exp(-t^2/4): a chi distribution with three degrees of freedom."""
    noise = bounded(1.0, (0, np.inf))
    assert noise.variance == pytest.approx(3.0)
    assert noise.mean(1)[0] == pytest.approx(math.sqrt(8 / math.pi))
    assert noise.fisher_information(1)[0, 0] == pytest.approx(3.0)
    narrow = bounded(1.0, (-1e-3, 1e-3))  # a particle in a box: cos^2
    assert narrow.variance == pytest.approx(1e-6 * (1 / 3 - 2 / math.pi**2), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "change"), thinned([(-40.0, 50.0, 1e-4), (-6.0, 6.0, 1.0), (-6.0, 9.0, 0.3)], [0.1, 1.0])
)
def test_the_entry_guarantee_is_exact(options: tuple[float, float, float], change: float) -> None:
    low, high, lam = options
    delta = 1e-3
    noise = bounded(lam, (low, high), sensitivity=change, delta=delta)
    epsilon = noise.guarantee(1).entry[0]
    lost = [excess(noise, epsilon, shift) for shift in (change, -change)]
    assert max(lost) == pytest.approx(delta, rel=5e-3)
    assert max(lost) <= delta * (1 + 1e-6)
    smaller = [excess(noise, 0.98 * epsilon, shift) for shift in (change, -change)]
    assert max(smaller) > delta


@pytest.mark.parametrize("low, high, lam", [(-40.0, 60.0, 1e-4), (-6.0, 9.0, 0.3)])
def test_mirrored_bounds_give_the_same_guarantee(low: float, high: float, lam: float) -> None:
    one, other = (bounded(lam, b, delta=1e-3).guarantee(1) for b in ((low, high), (-high, -low)))
    assert one.entry[0] == pytest.approx(other.entry[0], rel=1e-6)
    wide = bounded(lam, (-high, high), delta=1e-3).guarantee(1)
    assert wide.entry[0] < 0.99 * one.entry[0]  # the near wall is what costs


def test_a_record_is_the_sum_of_its_columns() -> None:
    noise = bounded(1e-4, (-60, 60), sensitivity=1.0, delta=1e-4)
    single = bounded(1e-4, (-60, 60), sensitivity=1.0, delta=1e-4 / 3)
    assert noise.guarantee(3).record == (pytest.approx(3 * single.guarantee(1).entry[0]), 1e-4)


def test_columns_without_bounds_are_one_gaussian() -> None:
    free = bounded(1e-2, (-np.inf, np.inf)).guarantee(9).record
    assert free == (pytest.approx(fisher(1e-2).guarantee(9).record[0]), 1e-5)
    bounds = [(-60.0, 60.0), (-np.inf, np.inf), (-np.inf, np.inf)]
    mixed = bounded(1e-4, bounds, delta=1e-4).guarantee(3).record[0]
    one = bounded(1e-4, (-60, 60), delta=5e-5).guarantee(1).entry[0]
    assert mixed == pytest.approx(one + fisher(1e-4, delta=5e-5).guarantee(2).record[0])


@given(
    low=st.floats(-3, 1),
    width=st.floats(0.01, 8),
    more=st.floats(0, 3),
    lam=st.sampled_from([1e-3, 1.0, 30.0]),
)
@settings(max_examples=10, deadline=None)
def test_change_wider_than_the_bounds_has_no_guarantee(
    low: float, width: float, more: float, lam: float
) -> None:
    """However small the rounding errors are that a huge factor multiplies."""
    noise = bounded(lam, (low, low + width), sensitivity=width + more)
    assert noise.guarantee(1).entry[0] == math.inf


@every_case
def test_tails_are_bounded_from_either_side(low: float, high: float, lam: float, weight: float) -> None:
    """A slack in u moves both tails by about 2 u times it, upwards or downwards."""
    state = make(low, high, lam, weight)._states(1)[0][0]
    t = np.linspace(state.low, state.high, 41)[1:-1]
    exactly, more, less = (state.tails(t, slack) for slack in (0.0, 1e-6, -1e-6))
    assert exactly[0] == pytest.approx(state.cdf(t), abs=1e-12)
    assert exactly[0] + exactly[1] == pytest.approx(1.0, abs=1e-12)
    for side in (0, 1):
        assert np.all(more[side] > exactly[side])
        assert np.all((less[side] < exactly[side]) | (exactly[side] < 1e-15))
        assert np.all(more[side] - exactly[side] < 1e-4)


def test_narrow_bounds_promise_nothing_and_say_so() -> None:
    guarantee = bounded(1.0, (-1, 1)).guarantee(4)
    assert guarantee.entry == guarantee.record == (math.inf, 1.0)
    assert "no bound on epsilon per record" in str(guarantee)


def test_every_column_has_its_own_bounds_and_weight() -> None:
    noise = bounded(1e-4, [(-18, 30), (0, np.inf), (-1, 1)], sensitivity=Box([18, 0, 0], [90, 9, 1]))
    X = np.column_stack([np.linspace(18, 90, 4000), np.zeros(4000), np.full(4000, 0.5)])
    noisy = noise.randomise(X, random_state=0)
    assert noisy[:, 0].min() >= 0
    assert noisy[:, 0].max() <= 120
    assert noisy[:, 1].min() >= 0
    assert np.abs(noisy[:, 2] - 0.5).max() <= 1
    assert noise.mean(3)[1] > 0 == pytest.approx(noise.mean(3)[2], abs=1e-9)
    with pytest.raises(InvalidInputError, match="3 columns"):
        noise.randomise(X[:, :2])


@pytest.mark.parametrize(
    "bounds",
    [
        (1, 1),
        (2, 1),
        (np.nan, 1),
        (0,),
        (0, 1, 2),
        "ab",
        None,
        [],
        np.ones((0, 2)),
        [(0, 1), (1, 0)],
        (np.inf, np.inf),
    ],
)
def test_invalid_bounds_are_refused(bounds: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^[^\n]*bound[^\n]*$"):
        bounded(1.0, bounds)  # type: ignore[arg-type]


def test_other_invalid_input_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="one entry per column"):
        bounded(1.0, [(-1, 1), (-1, 1)], [1.0, 1.0, 1.0])
    with pytest.raises(InvalidInputError, match="diagonal"):
        bounded(1.0, (-1, 1), [[2.0, 1.0], [1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="Box"):
        bounded(1.0, [(-1, 1)], sensitivity=Ball(1.0))
    with pytest.raises(InvalidInputError, match="too close together"):
        bounded(1.0, (1e15, 1e15 + 2))
    for lam in (0, -1, np.nan, np.inf, "1", None):
        with pytest.raises(InvalidInputError, match=r"^lam must"):
            bounded(lam, (-1, 1))  # type: ignore[arg-type]


def test_ledger_counts_bounded_noise_with_a_guarantee_and_refuses_it_without() -> None:
    event = Event.of(bounded(1e-4, (-60, 60), sampler="hardened"), n_features=2)
    assert event.family is None
    assert event.epsilon > 0


def test_an_entry_of_rows_that_are_shortened_is_promised_no_more_than_its_record() -> None:
    promise = BoundedFisherNoise(0.01, (-30, 30), sensitivity=Ball(0.5)).guarantee(4)
    assert promise.entry == promise.record


@pytest.mark.parametrize(
    ("epsilon", "bounds"),
    thinned([0.1, 1.0, 10.0, 30.0], [(-2.0, 10.0, 0.1), (-5.0, 5.0, 0.03), (-3.0, 3.0, 1.0)]),
)
def test_delta_is_not_below_that_of_any_half_line(epsilon: float, bounds: tuple[float, float, float]) -> None:
    low, high, change = bounds
    state = GroundState(low, high)
    start = low + change  # what lies below cannot come from a shifted value: the worst event at a large loss
    t = np.concatenate([np.linspace(low, high, 3001), start + np.geomspace(1e-6, 0.1, 1000)])
    below = state.tails(t, 0.0)[0] - math.exp(epsilon) * np.where(
        t > start, state.tails(t - change, 0.0)[0], 0.0
    )
    assert below.max() <= shift_delta(state, change, epsilon) <= below.max() * 1.1 + 1e-12
    least = shift_delta(state, change, LARGEST_EPSILON)
    assert shift_epsilon(state, change, least) <= LARGEST_EPSILON  # which is reached, and less never is
    assert shift_epsilon(state, change, least * (1 - 1e-9)) == math.inf
