"""What floating point gives away, and what it no longer gives away on a grid of exact integers.

The attack: a sampler turns one of 2**53 equally spaced numbers u into noise by a logarithm. Between the
noises of neighbouring u there are gaps, and adding x moves the gaps. An output that no u can bring about from
x was not made from x.
"""

import math

import numpy as np
import pytest

from onefold.privacy import Laplace

PIXEL, NEIGHBOUR = 100 / 255, 101 / 255
N = 2000


def reachable(output: float, x: float) -> bool:
    """Can x plus Laplace noise of scale 1, as the float sampler computes it, be this output?"""
    distance = output - x
    tail = math.exp(-abs(distance))
    # Rounding of x + noise hides the last digits of the noise: as many tails as that leaves are tried.
    width = 4 + math.ceil(2**53 * tail * max(math.ulp(output), math.ulp(distance)))
    places = np.arange(max(0, round(2**53 * tail) - width), min(2**53 - 1, round(2**53 * tail) + width) + 1)
    noise = -np.log((places + 0.5) * 2.0**-53)
    return bool(np.any(x + math.copysign(1.0, distance) * noise == output))


@pytest.fixture(scope="module")
def naive() -> np.ndarray:
    return Laplace(1.0, sensitivity=1.0, sampler="float").randomise(np.full(N, PIXEL), random_state=0)


def test_the_float_sampler_reveals_the_value(naive: np.ndarray) -> None:
    assert all(reachable(output, PIXEL) for output in naive.tolist())
    impossible = np.mean([not reachable(output, NEIGHBOUR) for output in naive.tolist()])
    assert impossible > 0.5  # of single outputs: they prove that the pixel was not its neighbour


@pytest.mark.parametrize("pair", [(PIXEL, NEIGHBOUR), (0.0, 1.0), (1 / 3, 2 / 3)])
def test_the_hardened_sampler_reaches_the_same_outputs_from_both(pair: tuple[float, float]) -> None:
    noise = Laplace(1.0, sensitivity=1.0)
    step = noise._lattice.step
    for x, other in (pair, pair[::-1]):
        outputs = noise.randomise(np.full(N, x), random_state=1)
        steps = outputs / step
        assert np.array_equal(steps, np.rint(steps))  # the grid is the same for every x
        assert np.unique(outputs).size > 0.99 * N
        # The noise that would lead there from the other value is a whole number of steps, and every
        # whole number has a probability, at most exp(epsilon) apart.
        needed = steps - noise._lattice.round(np.array([other]))
        given = steps - noise._lattice.round(np.array([x]))
        loss = float(noise._table.t) * np.abs(np.abs(needed) - np.abs(given))
        assert loss.max() <= 1.0 + 1e-12
        assert np.array_equal(needed, np.rint(needed))


def test_low_digits_of_hardened_outputs_tell_nothing() -> None:
    """The last digits on the grid are fair coins for every value."""
    noise = Laplace(1.0, sensitivity=1.0)
    for x in (PIXEL, NEIGHBOUR, 0.5):
        steps = noise.randomise(np.full(40_000, x), random_state=2) / noise._lattice.step
        for digit in range(3):
            ones = np.mean(np.floor(steps / 2**digit) % 2)
            assert abs(ones - 0.5) < 0.011  # more than four standard errors


def test_noise_that_rounding_would_swallow_is_refused() -> None:
    """1e20 + noise of scale 1 is 1e20: the value would be released as it is."""
    for sampler in ("float", "hardened"):
        with pytest.raises(ValueError, match="too large for this sensitivity"):
            Laplace(1.0, sensitivity=1.0, sampler=sampler).randomise([[1e20]])
