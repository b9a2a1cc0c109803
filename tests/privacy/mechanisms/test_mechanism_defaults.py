"""What a noise does when nothing is chosen: hardened, resolved at the data, refused without a domain."""

import numpy as np
import pytest
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy import (
    AnalyticGaussian,
    Ball,
    BoundedFisherNoise,
    Box,
    FisherGaussian,
    Gaussian,
    Laplace,
    OptimalNoise,
)

ENTRIES = [Laplace, OptimalNoise, Gaussian, AnalyticGaussian]
ROWS = {
    FisherGaussian: lambda **options: FisherGaussian(1.0, **options),
    BoundedFisherNoise: lambda **options: BoundedFisherNoise(1e-3, (-60, 60), **options),
}
MADE = {kind: (lambda kind=kind, **options: kind(0.5, **options)) for kind in ENTRIES} | ROWS
each = pytest.mark.parametrize("make", MADE.values(), ids=[kind.__name__ for kind in MADE])


@each
def test_noise_is_hardened_unless_the_float_sampler_is_named(make) -> None:
    noise = make(sensitivity=1.0)
    assert (noise.sampler, noise.hardened) == ("hardened", True)
    released = noise.randomise(np.full((500, 1), 100 / 255))
    step = noise._lattice.step if hasattr(noise, "_lattice") else None
    if step is None:
        grid = noise._grids(1)[0]
        step = (grid[0] if isinstance(grid, tuple) else grid).step
    assert np.array_equal(released / step, np.rint(released / step))  # all on the grid
    assert noise.guarantee(1).holds
    assert "hardened sampler" in str(noise.guarantee(1))


@each
def test_the_float_sampler_promises_nothing(make) -> None:
    promise = make(sensitivity=Box(0, 1), sampler="float").guarantee(3)
    assert not promise.holds
    assert promise.voided_by == ("the float sampler was chosen: the numbers hold in exact arithmetic only",)
    assert str(promise).startswith("VOID: the float sampler was chosen")
    assert "void" in promise.odds("record")


@each
def test_noise_without_a_domain_is_refused_in_one_line(make) -> None:
    for options in ({}, {"sensitivity": None}):
        with pytest.raises(InvalidInputError, match=r"^declare what may change: [^\n]*$"):
            make(**options)


@each
def test_a_domain_clips_and_a_number_is_the_callers_word(make) -> None:
    told = make(sensitivity=1.0).guarantee(3)
    assert not told.clipped
    lines = [line for line in str(told).splitlines() if line.startswith(("One entry", "A whole record"))]
    assert len(lines) == 2
    assert all("(not checked)" in line or "under the conditions below" in line for line in lines)
    assert "changes by more than 1" in str(told)
    clipped = make(sensitivity=Box(0, 1))
    assert clipped.guarantee(3).clipped
    assert clipped.guarantee(3).conditions == ()
    far = make(sensitivity=Box(0.0, 1.0)).randomise(np.full((400, 1), 1e6))
    assert np.abs(far).max() < 1e5  # 1e6 was a 1 before the noise


@pytest.mark.parametrize(("kind", "unit"), thinned(ENTRIES, ["record", "person"]))
def test_the_size_of_a_record_is_taken_from_the_data(kind, unit: str) -> None:
    options = {"unit": unit, "rows_per_person": 2 if unit == "person" else None}
    for domain in (Box(0, 1), 3.0, Ball(1.0)):
        later = kind(0.5, sensitivity=domain, **options)
        assert later.n_features is None
        now = kind(0.5, sensitivity=domain, n_features=5, **options)
        X = np.random.default_rng(0).random((20, 5))
        assert np.array_equal(later.randomise(X, 3), now.randomise(X, 3))
        assert np.array_equal(later.sample((20, 5), 3), now.sample((20, 5), 3))
        assert later.guarantee(5) == now.guarantee(5)
        assert later.for_features(5).scale == now.scale
        assert later.for_features(6).n_features == 6
        with pytest.raises(InvalidInputError, match="calibrated for 5 features, the data have 6"):
            now.randomise(np.zeros((2, 6)))
    with pytest.raises(InvalidInputError, match="2D table"):
        later.randomise(np.zeros(5))
    with pytest.raises(InvalidInputError, match="n_features"):
        later.sample(4)


def test_domains_resolved_for_features_are_the_same_domains() -> None:
    box = Box(0.0, 2.0)
    assert box.for_features(4).l1 == 8.0
    assert box.n_features is None
    assert type(box.for_features(4)) is Box
    known = Box([0, 0], [1, 2])
    assert known.for_features(2) is known
    assert Ball(1.0, norm=1).for_features(3).l1 == 2.0
    for domain in (known, Ball(1.0, n_features=2)):
        with pytest.raises(InvalidInputError, match="the domain has 2 features, the data 3"):
            domain.for_features(3)
    with pytest.raises(InvalidInputError, match="the data are one number"):
        Laplace(1.0, sensitivity=known).randomise(0.5)


@pytest.mark.parametrize(
    ("sampler", "options"),
    thinned(["hardened", "float"], [{}, {"unit": "record"}, {"unit": "person", "rows_per_person": 3}]),
)
def test_optimal_noise_without_delta_is_laplace_noise(options: dict, sampler: str) -> None:
    """003 Remark 3: delta in [0, 1]; at 0 the atom is gone."""
    optimal = OptimalNoise(0.7, 0.0, Box(0, 2), sampler=sampler, **options).for_features(3)
    laplace = Laplace(0.7, sensitivity=Box(0, 2), sampler=sampler, **options).for_features(3)
    assert optimal.untouched_share == 0.0
    assert (optimal.scale, optimal.variance) == (laplace.scale, laplace.variance)
    assert optimal.expected_magnitude == laplace.expected_magnitude
    v = np.array([-4.0, -0.1, 0.0, 0.1, 4.0])
    assert np.array_equal(optimal.density(v), laplace.density(v))
    assert np.isfinite(optimal.density(0.0))
    assert np.array_equal(optimal.cdf(v), laplace.cdf(v))
    one, other = optimal.guarantee(3, 50), laplace.guarantee(3, 50)
    for name in ("entry", "record", "person", "untouched_entries", "sensitivity", "voided_by"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.entry[1] == one.record[1] == 0.0
    if sampler == "hardened":  # the same coins, so the same law
        assert optimal._table == laplace._table
        assert np.array_equal(optimal.sample((40, 3), 1), laplace.sample((40, 3), 1))
    assert optimal.accounting("entry", 3).get("atom", 0.0) == 0.0
