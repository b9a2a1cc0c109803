"""The exact (epsilon, delta) of one log-concave noise under a shift."""

import math
from functools import lru_cache

import numpy as np

from onefold.privacy.mechanisms._data import Floats
from onefold.privacy.mechanisms._ground_state import GroundState

__all__ = ["shift_delta", "shift_epsilon"]

POINTS = 2**15
LARGEST_EPSILON = 500.0
# A maximum over this many points falls short of the true one by less than this share, ...
SHARE = 1e-3
# ... and an integral of a tail is wrong by less than this.
ROUNDING = 1e-12


def shift_delta(state: GroundState, change: float, epsilon: float) -> float:
    """The least delta at ``epsilon`` when a value moves by ``change`` in either direction, rounded up.

    The likelihood ratio of a log-concave noise and its shift is monotone, so the worst events are half-lines:
    delta is the largest F(t) - e^epsilon F(t - change), and the same from the other end.
    """
    tails = _tails(state, change)
    worst = max(float(np.max(near - math.exp(epsilon) * far)) for near, far in tails)
    return min(1.0, max(worst, 0.0) * (1 + SHARE) + ROUNDING)


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
    """Probabilities of both half-lines at every point, without and with the shift."""
    t = np.linspace(state.low, state.high + change, POINTS)
    here, there = state.cdf(t), state.cdf(t - change)
    return (here, there), (1.0 - there, 1.0 - here)
