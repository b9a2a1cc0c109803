"""Bounds and weights for which every property of bounded noise is tested."""

import pytest

# (low, high, lam, weight of the column): centred, lopsided, one-sided, narrow, wide, away from zero
CASES = [
    (-1.0, 1.0, 1.0, 1.0),
    (-1.0, 4.0, 0.5, 3.0),
    (0.0, 6.0, 1.0, 2.0),
    (-0.01, 0.02, 1.0, 1.0),
    (-30.0, 25.0, 1e-2, 0.5),
    (2.0, 5.0, 3.0, 1.0),
    (-4.0, -1.0, 2.0, 0.2),
]
every_case = pytest.mark.parametrize("low, high, lam, weight", CASES)
