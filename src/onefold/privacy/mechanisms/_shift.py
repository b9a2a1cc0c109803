"""The exact (epsilon, delta) of one log-concave noise under a shift."""

import math
from functools import lru_cache

import numpy as np

from onefold.privacy.calibration import gaussian_delta
from onefold.privacy.mechanisms._data import Floats
from onefold.privacy.mechanisms._ground_state import GroundState

__all__ = ["shift_delta", "shift_epsilon"]

POINTS = 2**12
LARGEST_EPSILON = 500.0
# A maximum over this many points falls short of the true one by less than this share, ...
SHARE = 2e-3
# ... and the series of u is wrong by less than this, relative to its largest value.
SERIES = 1e-12


def shift_delta(state: GroundState, change: float, epsilon: float) -> float:
    """The least delta at ``epsilon`` when a value moves by ``change`` in either direction, rounded up.

    The likelihood ratio of a log-concave noise and its shift is monotone, so the worst events are half-lines:
    delta is the largest F(t) - e^epsilon F(t - change), and the same from the other end. What is subtracted
    is bounded from below: an error of rounding times e^epsilon would otherwise hide the whole delta.
    """
    if state.free:
        return gaussian_delta(epsilon, 1.0, change)
    worst = max(float(np.max(near - math.exp(epsilon) * far)) for near, far in _tails(state, change))
    return min(1.0, max(worst, 0.0) * (1 + SHARE))


@lru_cache(maxsize=512)
def shift_epsilon(state: GroundState, change: float, delta: float) -> float:
    """The least epsilon at ``delta``; infinite where the shifted noise cannot reach more than delta."""
    if shift_delta(state, change, LARGEST_EPSILON) > delta:
        return math.inf
    low, high = 0.0, LARGEST_EPSILON
    if shift_delta(state, change, low) <= delta:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if shift_delta(state, change, middle) <= delta else (middle, high)
    return high


@lru_cache(maxsize=64)
def _tails(state: GroundState, change: float) -> tuple[tuple[Floats, Floats], ...]:
    """Both half-lines at every point: without the shift bounded from above, with it from below."""
    t = np.linspace(state.low, state.high + change, POINTS)
    most_below, _ = state.tails(t, SERIES)
    least_below, _ = state.tails(t - change, -SERIES)
    _, most_above = state.tails(t - change, SERIES)
    _, least_above = state.tails(t, -SERIES)
    # Outside its interval the noise has no mass at all.
    least_below[t - change <= state.low] = 0.0
    least_above[t >= state.high] = 0.0
    return (most_below, least_below), (most_above, least_above)
