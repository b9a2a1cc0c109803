"""Shamir's secret sharing with Python's whole numbers, one number at a time."""

from __future__ import annotations

import math
from fractions import Fraction

P = 2**61 - 1


def share(secret: int, coefficients: list[int], at: int) -> int:
    """Value of the polynomial with the secret as its constant term."""
    return sum(c * at**power for power, c in enumerate([secret, *coefficients])) % P


def open_shares(shares: dict[int, int], at: int = 0) -> int:
    """Lagrange's formula; at 0 the secret, as a number between -P/2 and P/2."""
    total = 0
    for own, value in shares.items():
        top = math.prod(at - other for other in shares if other != own)
        bottom = math.prod(own - other for other in shares if other != own)
        total += value * top * pow(bottom, -1, P)
    found = total % P
    return found - P if at == 0 and found > P // 2 else found


def coefficients_from(drawn: list[int], secret: int) -> list[int]:
    """Coefficients of the polynomial through the secret at 0 and the drawn values at 1, 2, ..."""
    points = dict(enumerate([secret, *drawn]))
    found = [Fraction(0)] * len(points)
    for own, value in points.items():
        basis = [Fraction(1)]
        for other in points:
            if other != own:  # times (x - other)
                basis = [
                    (basis[k - 1] if k else 0) - other * (basis[k] if k < len(basis) else 0)
                    for k in range(len(basis) + 1)
                ]
        bottom = math.prod(own - other for other in points if other != own)
        for k, coefficient in enumerate(basis):
            found[k] += Fraction(value) * coefficient / bottom
    return [c.numerator * pow(c.denominator, -1, P) % P for c in found[1:]]


def rounded_gaussian_sum(share_sd: float, n_shares: int, reach: int) -> list[float]:
    """Probabilities of -reach ... reach for a sum of rounded Gaussians, by convolution."""
    one = [_cell(k, share_sd) for k in range(-reach, reach + 1)]
    found = one
    for _ in range(n_shares - 1):
        long = [
            math.fsum(found[i] * one[k - i] for i in range(max(0, k - 2 * reach), min(2 * reach, k) + 1))
            for k in range(4 * reach + 1)
        ]
        found = long[reach : 3 * reach + 1]
    return found


def _cell(k: int, sd: float) -> float:
    """P(round(sd z) = k), from the tail on k's side of zero."""
    k = abs(k)
    scale = sd * math.sqrt(2.0)
    return 0.5 * (math.erfc((k - 0.5) / scale) - math.erfc((k + 0.5) / scale))


def ideal_sum(share_sd: float, n_shares: int, at: int, steps: int = 400) -> float:
    """Density at a whole number of a Gaussian of n shares plus as many uniform numbers, by quadrature."""
    # Density of the sum of n uniform numbers on [-1/2, 1/2] (Irwin and Hall), integrated against the
    # Gaussian.
    sd = share_sd * math.sqrt(n_shares)
    width = n_shares / steps
    total = 0.0
    for i in range(steps):
        u = -n_shares / 2 + (i + 0.5) * width
        total += _irwin_hall(u + n_shares / 2, n_shares) * _normal((at - u) / sd) / sd * width
    return total


def _irwin_hall(x: float, n: int) -> float:
    terms = ((-1) ** k * math.comb(n, k) * (x - k) ** (n - 1) for k in range(int(x) + 1))
    return math.fsum(terms) / math.factorial(n - 1)


def _normal(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
