"""lam, the error of an adversary and (epsilon, delta) convert into one another."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy import BoundedFisherNoise, FisherGaussian
from onefold.release import bounded_lam, bounded_lam_of_epsilon, choose, weights_for


@given(lam=st.floats(1e-10, 1e6), p=st.integers(1, 20), width=st.floats(0.01, 100))
@settings(max_examples=50, deadline=None)
def test_choose_converts_there_and_back(lam: float, p: int, width: float) -> None:
    first = choose(p, lam=lam, sensitivity=width)
    error = choose(p, adversary_error=(p - 1, first.standard_errors[-1]), sensitivity=width)
    assert error.lam == pytest.approx(lam, rel=1e-9)
    if 1e-6 < first.epsilon < 1e6:  # beyond, no epsilon is accepted
        assert choose(p, epsilon=first.epsilon, sensitivity=width).lam == pytest.approx(lam, rel=1e-4)


@pytest.mark.parametrize("option", [{"lam": 0.5}, {"adversary_error": (1, 0.7)}, {"epsilon": 2.0}])
def test_choose_passes_every_option_to_the_noise(option: dict) -> None:
    Pi, options = [1.0, 3.0], {"delta": 1e-3, "sensitivity": 0.25, "sampler": "hardened"}
    found = choose(2, Pi, **option, **options)
    noise = FisherGaussian(found.lam, Pi, **options)
    assert (found.epsilon, found.delta) == noise.guarantee(2).record
    assert found.bound == noise.estimation_bound(2)
    if "epsilon" in option:
        assert found.epsilon == pytest.approx(2.0)


def test_choose_respects_the_units_of_columns() -> None:
    Pi = weights_for([1.0, 1000.0])
    strength = choose(2, Pi, adversary_error=(1, 500.0), sensitivity=1.0)
    assert strength.standard_errors == pytest.approx((0.5, 500.0))
    assert strength.lam == pytest.approx(16.0)
    assert strength.unit == "record"
    assert json.loads(json.dumps(asdict(strength)))["bound"] == pytest.approx(strength.bound)
    assert strength.documented_epsilon == FisherGaussian(
        strength.lam, Pi, sensitivity=1.0
    ).documented_epsilon(2)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lam": 1.0, "epsilon": 1.0},
        {"adversary_error": 3.0},
        {"adversary_error": ("a", 1.0)},
        {"lam": -1.0},
        {"epsilon": np.nan},
        {"adversary_error": (0, 0.0)},
        {"adversary_error": (5, 1.0)},
    ],
)
def test_choose_refuses_bad_options(options: dict) -> None:
    with pytest.raises(InvalidInputError):
        choose(2, sensitivity=1.0, **options)


def test_noise_of_unknown_domain_has_no_strength() -> None:
    """Before, a change of at most 1 was taken for granted."""
    with pytest.raises(InvalidInputError, match="declare what may change"):
        choose(2, lam=1.0)
    with pytest.raises(InvalidInputError, match="declare what may change"):
        bounded_lam(0.1, (-0.5, 0.5))
    with pytest.raises(InvalidInputError, match="declare what may change"):
        bounded_lam_of_epsilon(2.0, (-60.0, 60.0))


def test_weights_that_are_not_diagonal_need_the_float_sampler() -> None:
    Pi = [[2.0, 1.0], [1.0, 2.0]]
    with pytest.raises(InvalidInputError, match=r"sampler='float', which promises nothing"):
        choose(2, Pi, lam=1.0, sensitivity=1.0)
    assert choose(2, Pi, lam=1.0, sensitivity=1.0, sampler="float").epsilon > 0


@pytest.mark.parametrize(
    "bounds, share", thinned([(-1.0, 1.0), (-0.25, 0.42), (0.0, 3.0), (-20.0, 30.0)], [0.5, 0.99, 1e-3])
)
def test_bounded_lam_reaches_the_error(bounds: tuple[float, float], share: float) -> None:
    error = share * (bounds[1] - bounds[0]) / (2 * np.pi)
    options = {"sensitivity": 1.0, "sampler": "float"}
    found = BoundedFisherNoise(bounded_lam(error, bounds, **options), bounds, **options).standard_errors(1)[0]
    assert found == pytest.approx(error, rel=1e-8)
    assert found > error * (1 - 1e-14)  # no less than what was asked for


def test_bounded_lam_reaches_the_error_with_hardened_noise() -> None:
    lam = bounded_lam(0.1, (-0.5, 0.5), sensitivity=1.0)
    assert lam < bounded_lam(0.1, (-0.5, 0.5), sensitivity=1.0, sampler="float")
    noise = BoundedFisherNoise(lam, (-0.5, 0.5), sensitivity=1.0)
    assert noise.standard_errors(1)[0] == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize(
    "epsilon, bounds, sampler",
    [
        (3.0, (-60.0, 60.0), "hardened"),
        (4.0, [(-30.0, 50.0), (-np.inf, np.inf)], "float"),
        pytest.param(1.0, (-60.0, 60.0), "hardened", marks=pytest.mark.merge),
        pytest.param(3.0, (-60.0, 60.0), "float", marks=pytest.mark.nightly),
        pytest.param(4.0, [(-30.0, 50.0), (-np.inf, np.inf)], "hardened", marks=pytest.mark.nightly),
        pytest.param(1.0, (-60.0, 60.0), "float", marks=pytest.mark.nightly),
    ],
)
def test_bounded_lam_of_epsilon_reaches_the_epsilon(epsilon: float, bounds: Any, sampler: str) -> None:
    p = 1 if np.ndim(bounds) == 1 else 2
    options: dict[str, Any] = {"sensitivity": 1.0, "sampler": sampler}
    lam = bounded_lam_of_epsilon(epsilon, bounds, **options)
    found = BoundedFisherNoise(lam, bounds, **options).guarantee(p).record
    assert found[0] <= epsilon
    assert found == (pytest.approx(epsilon, rel=1e-4), 1e-5)
    # a little less noise has a larger epsilon: no other lam would be more useful
    assert BoundedFisherNoise(lam * 1.01, bounds, **options).guarantee(p).record[0] > epsilon


def test_bounded_lam_of_epsilon_works_with_weighted_columns() -> None:
    Pi, options = [1.0, 0.3], {"delta": 1e-3, "sensitivity": 0.5}
    lam = bounded_lam_of_epsilon(2.0, (-40.0, 60.0), Pi, n_features=2, **options)
    found = BoundedFisherNoise(lam, (-40.0, 60.0), Pi, **options).guarantee(2).record
    assert found == (pytest.approx(2.0, rel=1e-4), 1e-3)


def test_bounded_lam_of_epsilon_refuses_narrow_bounds() -> None:
    for reach in (0.5, 5.0):
        with pytest.raises(
            InvalidInputError, match=r"^[^\n]*so small an epsilon per record: allow wider ranges$"
        ):
            bounded_lam_of_epsilon(1.0, (-reach, reach), sensitivity=1.0)


def test_bounded_lam_refuses_an_error_beyond_the_bounds() -> None:
    for error in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidInputError):
            bounded_lam(error, (-0.5, 0.5), sensitivity=1.0)
    for error in (0.16, 0.3, 3.0):  # that of a squared cosine of width 1 is 1 / (2 pi)
        with pytest.raises(InvalidInputError, match=r"leaves an error of 0\.1592 at most"):
            bounded_lam(error, (-0.5, 0.5), sensitivity=1.0)
