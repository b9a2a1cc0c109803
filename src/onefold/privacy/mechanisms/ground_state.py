"""The least informative noise on an interval: ground state of a one-dimensional Schrödinger operator.

In units of the free noise's standard deviation the density is u^2 with

    -u'' + (t^2 / 4) u = E u   on (low, high),   u = 0 at both ends,   u > 0 inside         (002 eq. 12)

whose solutions are parabolic cylinder functions (the document says Airy). Without bounds u^2 is the standard
normal density. u is expanded in differences of Legendre polynomials that vanish at both ends, which makes the
error fall faster than any power of the number of terms.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from scipy.linalg import eigh

from onefold._base.arrays import Floats, Integers
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import gaussian_delta
from onefold.privacy.samplers import STEP_EXPONENTS, ByteStream, Lattice

__all__ = [
    "TOTAL_VARIATION",
    "CellTable",
    "GroundState",
    "cell_table",
    "grid_for",
    "noise_between",
    "shift_delta",
    "shift_epsilon",
]

TERMS = 160
CELLS = 1024
# The free noise exceeds this many standard deviations with probability 1e-44.
FAR = 14.0
AIRY_LENGTHS = 18.0  # beyond a wall on the slope of the potential, the density is below 1e-40 from here on


@lru_cache(maxsize=8)
def _gauss(points: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre, computed once."""
    nodes, weights = legendre.leggauss(points)
    return nodes, weights


class GroundState:
    """Density, distribution and exact samples of the noise on one interval, in free standard deviations."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = _effective(low, high)
        self._half, self._centre = (self.high - self.low) / 2, (self.high + self.low) / 2
        if not self._half > 1e-12 * abs(self._centre):
            raise InvalidInputError("the bounds of the noise are too close together for its scale")
        self._series = self._solve()
        # No error of rounding may accumulate in the tails: normalise, then integrate the series exactly.
        squared = legendre.legmul(self._series, self._series)
        self._integral = legendre.legint(squared, lbnd=-1) * self._half
        nodes, weights = _gauss(2 * TERMS)
        mass = weights * legendre.legval(nodes, self._series) ** 2 * self._half
        t = self._centre + self._half * nodes
        self.mean = float(mass @ t)
        self.second_moment = float(mass @ t**2)
        slope = legendre.legval(nodes, legendre.legder(self._series)) / self._half
        self.fisher_information = float(4.0 * (weights * self._half) @ slope**2)
        # E|t| is the mean plus twice the integral of the distribution function up to zero (by parts).
        below = legendre.legval(self._position(np.zeros(())), legendre.legint(self._integral, lbnd=-1))
        self.mean_magnitude = abs(self.mean)
        if self.low < 0 < self.high:
            self.mean_magnitude = self.mean + 2.0 * float(below) * self._half
        self._prepare()

    def _solve(self) -> Floats:
        """Coefficients of u in Legendre polynomials of x in [-1, 1], by Galerkin's method."""
        order = np.arange(TERMS)
        nodes, weights = _gauss(TERMS + 8)
        polynomials = legendre.legvander(nodes, TERMS + 1)
        basis = polynomials[:, :-2] - polynomials[:, 2:]  # L_k - L_(k+2) vanishes at both ends
        t = self._centre + self._half * nodes
        floor = 0.0 if self.low < 0 < self.high else min(self.low**2, self.high**2)
        potential = (basis * (weights * (t**2 - floor) / 4)[:, np.newaxis]).T @ basis
        masses = (basis * weights[:, np.newaxis]).T @ basis
        kinetic = np.diag(4.0 * order + 6.0)  # the derivative of L_k - L_(k+2) is -(2k+3) L_(k+1)
        _, vectors = eigh(kinetic + self._half**2 * potential, masses, subset_by_index=[0, 0])
        series = np.zeros(TERMS + 2)
        series[:-2] += vectors[:, 0]
        series[2:] -= vectors[:, 0]
        squares = weights @ legendre.legval(nodes, series) ** 2 * self._half
        sign = math.copysign(1.0, float(weights @ legendre.legval(nodes, series)))
        return np.asarray(series * (sign / math.sqrt(float(squares))), dtype=np.float64)

    def _prepare(self) -> None:
        """Cells for the sampler: bounds of the density from both sides in each."""
        self._edges = np.linspace(-1.0, 1.0, CELLS + 1)
        at_edges = self._density_at(self._edges)
        at_edges[[0, -1]] = 0.0
        inside = self._density_at(np.linspace(-1.0, 1.0, 16 * CELLS + 1)[:-1]).reshape(CELLS, 16)
        # The density is log-concave: monotone in every cell but the one around its top, where the largest of
        # seventeen values falls short by less than the factor below.
        self._upper = np.maximum(inside.max(axis=1), at_edges[1:]) * (1 + 1e-4)
        self._lower = np.minimum(at_edges[:-1], at_edges[1:])
        shares = np.cumsum(self._upper)
        self._shares = shares / shares[-1]

    def _density_at(self, x: Floats) -> Floats:
        return np.square(np.asarray(legendre.legval(x, self._series), dtype=np.float64))

    def _position(self, t: Floats) -> Floats:
        return np.clip((np.asarray(t, dtype=np.float64) - self._centre) / self._half, -1.0, 1.0)

    def density(self, t: Floats) -> Floats:
        """Density; 0 outside the interval."""
        t = np.asarray(t, dtype=np.float64)
        inside = (t > self.low) & (t < self.high)
        return np.where(inside, self._density_at(self._position(t)), 0.0)

    def cdf(self, t: Floats) -> Floats:
        """Probability of noise up to ``t``."""
        return np.clip(legendre.legval(self._position(t), self._integral), 0.0, 1.0)

    @property
    def free(self) -> bool:
        """The bounds are so wide that the noise is standard normal."""
        return self.low <= -FAR and self.high >= FAR

    def tails(self, t: Floats, slack: float) -> tuple[Floats, Floats]:
        """Probabilities below and above ``t``, with u shifted by ``slack`` times its largest value.

        Sums of positive terms from the nearer end: tiny tails keep their leading digits, which differences of
        a distribution function would lose. A small slack of either sign turns them into bounds.
        """
        x = self._position(t)
        cells = self._cell_masses(slack)
        below = np.concatenate([[0.0], np.cumsum(cells)])
        above = np.concatenate([np.cumsum(cells[::-1])[::-1], [0.0]])
        cell = np.clip(((x + 1.0) * (CELLS / 2)).astype(np.intp), 0, CELLS - 1)
        left, right = self._edges[cell], self._edges[cell + 1]
        return (
            below[cell] + self._mass(left, np.maximum(x, left), slack),
            above[cell + 1] + self._mass(np.minimum(x, right), right, slack),
        )

    def masses(self, t: Floats) -> Floats:
        """Probabilities between neighbouring points, each to its own leading digits."""
        x = self._position(t)
        return self._mass(x[:-1], x[1:], 0.0)

    @lru_cache(maxsize=4)  # noqa: B019  # states live as long as their cache anyway
    def _cell_masses(self, slack: float) -> Floats:
        return self._mass(self._edges[:-1], self._edges[1:], slack)

    def _mass(self, left: Floats, right: Floats, slack: float) -> Floats:
        """Integral of the shifted u squared from ``left`` to ``right``, by eight points each."""
        nodes, weights = _gauss(8)
        half = (right - left) / 2
        u = np.asarray(
            legendre.legval((right + left)[:, np.newaxis] / 2 + half[:, np.newaxis] * nodes, self._series)
        )
        shifted = np.maximum(u + slack * math.sqrt(float(self._upper.max())), 0.0)
        return np.asarray((shifted**2) @ weights * half * self._half, dtype=np.float64)

    def sample(self, size: int, stream: ByteStream) -> Floats:
        """Exact draws by rejection: a cell, a place in it, and a height under the cell's upper bound."""
        drawn = np.empty(size)
        pending = np.arange(size)
        while pending.size:
            cell = np.searchsorted(self._shares, stream.uniform(pending.size), side="right")
            cell = np.minimum(cell, CELLS - 1)
            x = self._edges[cell] + stream.uniform(pending.size) * (2.0 / CELLS)
            height = stream.uniform(pending.size) * self._upper[cell]
            accepted = height < self._lower[cell]
            unsure = np.flatnonzero(~accepted)
            accepted[unsure] = height[unsure] < self._density_at(x[unsure])
            drawn[pending[accepted]] = x[accepted]
            pending = pending[~accepted]
        return np.clip(self._centre + self._half * drawn, self.low, self.high)


@lru_cache(maxsize=512)
def noise_between(low: float, high: float) -> GroundState:
    """The noise on (low, high), which may be infinite, in standard deviations of the free noise."""
    return GroundState(low, high)


def _effective(low: float, high: float) -> tuple[float, float]:
    """The part of the interval outside of which the density is below any rounding."""
    if low > 0:
        return low, min(high, low + min(FAR, AIRY_LENGTHS * (low / 2) ** (-1 / 3)))
    if high < 0:
        below, above = _effective(-high, -low)
        return -above, -below
    return max(low, -FAR), min(high, FAR)


# --- epsilon and delta under a shift ----------------------------------------------------------------------

POINTS = 2**12
FINER = 64  # points around the best one, twice over
LARGEST_EPSILON = 500.0
# The series of u is wrong by less than this, relative to its largest value.
SERIES = 1e-12


def shift_delta(state: GroundState, change: float, epsilon: float) -> float:
    """The least delta at ``epsilon`` when a value moves by ``change`` in either direction, rounded up.

    The likelihood ratio of a log-concave noise and its shift is monotone, so the worst events are half-lines:
    delta is the largest F(t) - e^epsilon F(t - change), and the same from the other end. That difference
    rises up to its maximum and falls after it, which therefore lies beside the best of some points. There
    the first part is bounded by its value at the next point and the second by that at the last: both grow.
    What is subtracted is bounded from below: an error of rounding times e^epsilon would otherwise hide the
    whole delta.
    """
    if state.free:
        return gaussian_delta(epsilon, 1.0, change)
    return min(1.0, max(0.0, *(_largest(state, change, epsilon, side) for side in (1, -1))))


def _largest(state: GroundState, change: float, epsilon: float, side: int) -> float:
    factor, (t, near, far) = math.exp(epsilon), _half_lines(state, change, side)
    for _ in range(2):
        best = int(np.argmax(near - factor * far))
        t = np.linspace(t[max(best - 1, 0)], t[min(best + 1, len(t) - 1)], FINER + 1)
        near, far = _tails(state, change, side, t)
    return float(np.max(near[1:] - factor * far[:-1]))


@lru_cache(maxsize=512)
def shift_epsilon(state: GroundState, change: float, delta: float) -> float:
    """The least epsilon at ``delta``; infinite where the shifted noise cannot reach more than delta."""
    if shift_delta(state, change, LARGEST_EPSILON) > delta:
        return math.inf
    if shift_delta(state, change, 0.0) <= delta:
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    for _ in range(60):  # the best of all points falls short of delta by little, and is quick to find
        middle = (low + high) / 2
        low, high = (low, middle) if _about(state, change, middle) <= delta else (middle, high)
    step = 1e-6 * high
    while shift_delta(state, change, high) > delta:
        high, step = min(high + step, LARGEST_EPSILON), 2 * step
    return high


def _about(state: GroundState, change: float, epsilon: float) -> float:
    """delta from below, and nearly exact."""
    if state.free:
        return gaussian_delta(epsilon, 1.0, change)
    lines = (_half_lines(state, change, side) for side in (1, -1))
    return max(float(np.max(near - math.exp(epsilon) * far)) for _, near, far in lines)


@lru_cache(maxsize=128)
def _half_lines(state: GroundState, change: float, side: int) -> tuple[Floats, Floats, Floats]:
    """Points over all that either noise reaches, and both half-lines there."""
    t = np.linspace(state.low, state.high + change, POINTS)[::side]
    return t, *_tails(state, change, side, t)


def _tails(state: GroundState, change: float, side: int, t: Floats) -> tuple[Floats, Floats]:
    """Half-lines that end at ``t``: without the shift bounded from above, with it from below."""
    if side > 0:
        most, least = state.tails(t, SERIES)[0], state.tails(t - change, -SERIES)[0]
        least[t - change <= state.low] = 0.0  # outside its interval the noise has no mass at all
        return most, least
    most, least = state.tails(t - change, SERIES)[1], state.tails(t, -SERIES)[1]
    least[t >= state.high] = 0.0
    return most, least


# --- the hardened sampler ---------------------------------------------------------------------------------
#
# The noise of one column is rounded to multiples of a power of two, and so is the value it is added to.
# Adding then loses nothing: the result depends on the value only through its place on the grid. That place
# moves by at most one step more than the value does, and rounding the noise afterwards discloses nothing.

# The step is finer by this many binary digits than the noise and its bounds, and than the change.
FINENESS, CHANGE_FINENESS = 10, 7
MOST_CELLS = 1 << 18
BITS = 62  # of a probability
GUIDE_BITS = 16  # leading digits by which a place in a table is found
# On no event do the table and the rounded noise differ by more. It covers the error of the series (1e-12 of
# the largest u, times the root of the width), the sums, and rounding every cell to 62 binary digits.
TOTAL_VARIATION = 1e-11


def grid_for(scale: float, low: float, high: float, change: float) -> Lattice:
    """The grid of noise with free standard deviation ``scale`` between ``low`` and ``high``."""
    finest = min(math.ldexp(min(scale, high - low), -FINENESS), math.ldexp(change, -CHANGE_FINENESS))
    exponent = math.frexp(finest)[1] - 1
    if exponent not in STEP_EXPONENTS:
        raise InvalidInputError("the noise is too small or too large for the hardened sampler")
    return Lattice(exponent, Fraction(change) / Fraction(2) ** exponent + 1)


@dataclass(frozen=True)
class CellTable:
    """Noise in steps: ``first``, ``first`` + 1, ... with probabilities that end at ``upto`` / 2**62."""

    first: int
    upto: Integers
    guide: Integers  # the place of the smallest number with given leading digits: mostly it is the right one

    def sample(self, stream: ByteStream, size: int) -> Integers:
        """Independent draws. Whole numbers are compared with whole numbers: no probability is rounded."""
        uniform = (stream.words(size) >> np.uint64(64 - BITS)).astype(np.int64)
        places = self.guide[uniform >> (BITS - GUIDE_BITS)]
        late = np.flatnonzero(self.upto[places] <= uniform)
        places[late] = np.searchsorted(self.upto, uniform[late], side="right")
        return np.asarray(places + self.first, dtype=np.int64)

    @classmethod
    def of(cls, first: int, upto: Integers) -> "CellTable":
        """The table with its guide."""
        leading = np.arange(2**GUIDE_BITS, dtype=np.int64) << (BITS - GUIDE_BITS)
        return cls(first, upto, np.searchsorted(upto, leading, side="right").astype(np.int64))


@lru_cache(maxsize=64)
def cell_table(state: GroundState, scale: float, exponent: int) -> CellTable:
    """Probabilities of the noise ``scale`` x ``state`` rounded to multiples of ``2**exponent``."""
    step = math.ldexp(1.0, exponent) / scale
    first, last = round(state.low / step), round(state.high / step)
    if last - first >= MOST_CELLS:
        raise InvalidInputError(
            "the noise is too strong for the hardened sampler: at most about 30 times the change of a value"
        )
    edges = (np.arange(first, last + 2, dtype=np.float64) - 0.5) * step
    weights = np.rint(state.masses(edges) * 2.0**BITS).astype(np.int64)
    weights[np.argmax(weights)] += 2**BITS - weights.sum()
    return CellTable.of(first, np.cumsum(weights))
