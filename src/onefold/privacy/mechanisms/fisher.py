"""The noise that discloses least about a row: Gaussian (002 Thm 2.4), or bounded (Thm 2.6, Cor. 2.7)."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Integers
from onefold._base.validation import OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.domains import Domain
from onefold.privacy.mechanisms.ground_state import (
    TOTAL_VARIATION,
    GroundState,
    cell_table,
    grid_for,
    ground_state,
    shift_epsilon,
)
from onefold.privacy.mechanisms.rows import RowNoise
from onefold.privacy.samplers import ByteStream, Lattice, lattice_for, rounded_gaussian
from onefold.privacy.terms import UNITS, Pair, multiplied, positive, root

__all__ = ["BoundedFisherNoise", "FisherGaussian"]

KEPT = 0.9  # of delta for bounded noise; the rest is for the tables of the hardened sampler


class FisherGaussian(RowNoise):
    r"""Gaussian noise that discloses least about a row for its size.

    Its covariance is :math:`\Pi^{-1/2} / \sqrt\lambda`. Among all noises it has the smallest
    :math:`\mathrm{Tr}(\Pi^{-1} I) + \lambda \mathrm{Tr}(V)`, where I is the Fisher information about the row
    and V holds the second moments of the noise.

    Parameters
    ----------
    lam : float
        Weight of utility against privacy; the noise shrinks as :math:`\lambda^{-1/4}`.
    Pi : array-like or None, default=None
        None for the identity, one positive number per column, or a positive definite matrix. Columns in
        other units need other weights: for noise in proportion to a column's width, take the width to the
        power -4.
    delta : float, default=1e-5
        Probability with which the stated epsilon may be exceeded.
    sensitivity : float, Box, Ball or None, default=None
        Required: a declared domain to which rows are clipped (no Ball beside ``Pi``); or, as the
        caller's word that nothing checks, the largest change of any entry of a record. Document 002, Theorem
        2.5 takes 1 without saying so.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on dyadic grids. "float" is open to attacks on floating-point
        numbers: its guarantee is void. A ``Pi`` that is not diagonal needs it.

    See Also
    --------
    BoundedFisherNoise : The same criterion for noise between bounds.
    onefold.release.release_iid : Releases a table with this noise.

    Notes
    -----
    *Guarantees.*

    * (epsilon, delta) local differential privacy of a whole record, by the exact formula for Gaussian noise
      at :math:`\mu = \lambda^{1/4} \max \|\Pi^{1/4} d\|_2` over the changes d that the sensitivity allows.
      ``documented_epsilon`` is what 002 Thm 2.5 says; it is **too small** once mu exceeds about 3.4 (at
      delta 1e-5), and nothing here counts it.
    * No unbiased estimate of an entry of column j from the release has a standard error below
      ``standard_errors(p)[j]`` (Cramér and Rao). Somebody who guesses from other knowledge may do better.
    * :math:`E\|\Pi^{1/2}(x - \hat x)\|^2 \ge \mathrm{Tr}(\Pi^{1/2}) / \sqrt\lambda`. 002 eq. 4 prints Pi in
      place of its root, and a second, weaker bound.
    * The float sampler has no guarantee: in exact arithmetic it would, on a computer it has not.
    * Labels, class sizes and the number of rows are not covered.

    References
    ----------
    Document 002, Theorems 2.4 and 2.5, eq. 4, 5 and 9.

    Examples
    --------
    >>> from onefold.privacy import FisherGaussian
    >>> noise = FisherGaussian(1e-2, sensitivity=1.0)
    >>> round(noise.estimation_bound(2), 6), noise.standard_errors(2).round(4).tolist()
    (20.0, [3.1623, 3.1623])
    """

    def __init__(
        self,
        lam: float,
        Pi: ArrayLike | None = None,
        *,
        delta: float = 1e-5,
        sensitivity: float | Domain | None = None,
        sampler: str = "hardened",
    ) -> None:
        super().__init__(lam, Pi, delta, sensitivity, None, sampler)
        if self.hardened and not self.weights.independent:
            raise InvalidInputError("Pi is not diagonal: that takes sampler='float', which promises nothing")

    @classmethod
    def from_epsilon(
        cls,
        epsilon: float,
        n_features: int,
        Pi: ArrayLike | None = None,
        *,
        delta: float = 1e-5,
        rows_per_person: int | None = None,
        **options: Any,
    ) -> Self:
        """Create the noise that makes a record, or a person, (epsilon, delta) private.

        Parameters
        ----------
        epsilon : float
            Privacy loss of a record, or of a person.
        n_features : int
            Entries of a record.
        Pi : array-like or None, default=None
            Weights of the columns.
        delta : float, default=1e-5
            Probability with which the loss may be exceeded.
        rows_per_person : int or None, default=None
            Largest number of records of a person, whom epsilon is then about.
        **options : dict
            Further parameters of the class.

        Returns
        -------
        FisherGaussian
            The noise.
        """
        check_parameter("rows_per_person", rows_per_person, (Whole(1), None))
        mu, noise = mu_of(epsilon, delta), cls(1.0, Pi, delta=delta, **options)
        found = noise._gaussian_privacy(n_features, rows_per_person or 1)
        noise = cls((mu / found) ** 4, Pi, delta=delta, **options)
        # The root may have rounded up; hardened noise pays for its grid.
        while (found := noise._gaussian_privacy(n_features, rows_per_person or 1)) > mu:
            noise = cls(noise.lam * (mu / found) ** 4 * (1 - 2.0**-50), Pi, delta=delta, **options)
        return noise

    @classmethod
    def from_error(
        cls, error: float, column: int, n_features: int, Pi: ArrayLike | None = None, **options: Any
    ) -> Self:
        """Create the noise that keeps unbiased estimates of one column at least ``error`` away.

        Parameters
        ----------
        error : float
            Root mean square error, in the units of the column.
        column : int
            Position of the column.
        n_features : int
            Entries of a record.
        Pi : array-like or None, default=None
            Weights of the columns.
        **options : dict
            Further parameters of the class.

        Returns
        -------
        FisherGaussian
            The noise.
        """
        unit = cls(1.0, Pi, **options).standard_errors(n_features)
        if not 0 <= column < len(unit):
            raise InvalidInputError("column must be the position of a column")
        return cls((float(unit[column]) / positive("error", error)) ** 4, Pi, **options)

    # --- the noise ----------------------------------------------------------------------------------------

    def covariance(self, n_features: int) -> Floats:
        """Compute the covariance of the noise on a row (002 eq. 9).

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            The covariance.
        """
        return self.weights.matrix(-0.5, self._width(n_features)) / math.sqrt(self.lam)

    def fisher_information(self, n_features: int) -> Floats:
        """Compute the Fisher information of the release about a row (002 eq. 5).

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            The inverse of the covariance of the noise.
        """
        return self.weights.matrix(0.5, self._width(n_features)) * math.sqrt(self.lam)

    def standard_errors(self, n_features: int) -> Floats:
        """Compute the least root mean square error of an unbiased estimate of an entry, per column.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features,)
            The errors, in the units of the columns.
        """
        return self._free_scales(self._width(n_features))

    def estimation_bound(self, n_features: int) -> float:
        """Compute the least sum of squared errors in the weights of Pi, Tr(Pi^(1/2)) / sqrt(lam).

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        float
            The bound.
        """
        return float(self.weights.powers(0.5, self._width(n_features)).sum()) / math.sqrt(self.lam)

    def second_moments(self, n_features: int) -> Floats:
        """Compute the mean square of the noise.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features,)
            The mean square of each column.
        """
        return self.standard_errors(n_features) ** 2

    def _magnitudes(self, n_features: int) -> Floats:
        return self.standard_errors(n_features) * math.sqrt(2 / math.pi)

    def _draw(self, shape: tuple[int, ...], stream: ByteStream) -> Floats:
        standard = stream.normal(math.prod(shape)).reshape(shape)
        return self.weights.times(standard, -0.25) * math.pow(self.lam, -0.25)

    # --- the hardened noise: every column on a dyadic grid of its own --------------------------------------

    def _grids(self, n_features: int) -> list[tuple[Lattice, float]]:
        """Grid and standard deviation of each column."""
        changes, scales = self._extent(n_features).widths, self._free_scales(n_features)
        known: dict[Pair, Lattice] = {}
        for pair in zip(changes.tolist(), scales.tolist(), strict=True):
            if pair not in known:
                known[pair] = lattice_for(pair[0], pair[1] / pair[0], 1, 2)
        return [(known[pair], pair[1]) for pair in zip(changes.tolist(), scales.tolist(), strict=True)]

    def _noise_in_steps(
        self, stream: ByteStream, n_rows: int, n_features: int
    ) -> Iterator[tuple[Lattice, Integers]]:
        for grid, scale in self._grids(n_features):
            sigma = scale / grid.step * (1 + 2.0**-50)  # the division may have rounded down
            yield grid, rounded_gaussian(stream, sigma, n_rows)

    # --- the promise --------------------------------------------------------------------------------------

    def mu(self, n_features: int) -> float:
        """Compute how far apart two records may lie, in standard deviations of the noise.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        float
            The parameter mu of Gaussian privacy.
        """
        return self._far(self._reaches(self._width(n_features))[1], n_features)

    def _far(self, reach: float, n_features: int) -> float:
        distance = math.pow(self.lam, 0.25) * reach
        if self.hardened:  # rounding moves the difference of two values by a step at most
            distance += math.hypot(*(grid.step / scale for grid, scale in self._grids(n_features)))
        return distance

    def _reaches(self, n_features: int) -> tuple[float, float]:
        """Largest length of Pi^(1/4) d over the differences d that one cell can make, and two records."""
        extent = self._extent(n_features)
        equal = self.weights.n_features is None
        return (extent.entry, extent.l2) if equal else self.weights.reach(extent)

    def documented_epsilon(self, n_features: int) -> float:
        """Compute the epsilon of 002 Thm 2.5, for comparison only: too small once ``mu`` exceeds about 3.4.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        float
            The stated epsilon, which no guarantee of this package uses.
        """
        return self.mu(n_features) * (1.0 + math.sqrt(2.0 * math.log(1.0 / self.delta)))

    def _entry_mu(self, n_features: int) -> float:
        return min(self.mu(n_features), self._far(self._reaches(n_features)[0], n_features))

    def _losses(self, n_features: int) -> tuple[Pair, Pair]:
        entry, record = self._entry_mu(n_features), self.mu(n_features)
        return (epsilon_of(entry, self.delta), self.delta), (epsilon_of(record, self.delta), self.delta)

    def _person(self, record: Pair, n_features: int, n_rows: int) -> Pair:
        return epsilon_of(self._gaussian_privacy(n_features, n_rows), self.delta), self.delta

    def _gaussian_privacy(self, n_features: int, n_rows: int) -> float:
        return multiplied(self.mu(n_features), root(n_rows))

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Return what an :class:`Event` can say: one Gaussian variable along the change.

        Parameters
        ----------
        unit : {"entry", "record", "person"}
            What changes between neighbouring datasets.
        n_features : int
            Entries of a row.

        Returns
        -------
        dict
            Family, noise multiplier and coordinates.
        """
        width = self._width(n_features)
        check_parameter("unit", unit, OneOf(UNITS))
        if unit == "person":
            return {}  # how many rows a person has is not known to the noise
        mu = self._entry_mu(width) if unit == "entry" else self.mu(width)
        return {"family": "gaussian", "noise_multiplier": 1.0 / mu, "coordinates": 1}


class BoundedFisherNoise(RowNoise):
    r"""Noise that stays between bounds, so that a noisy age stays positive.

    Among all noises on the box of the bounds it has the smallest :math:`\mathrm{Tr}(\Pi^{-1} I) + \lambda
    \mathrm{Tr}(V)`. Its columns are independent; the density of each is the square of the ground state of a
    Schrödinger operator. The document states it in coordinates scaled by :math:`\Pi^{1/2}`.

    Parameters
    ----------
    lam : float
        Weight of utility against privacy.
    bounds : array-like of shape (2,) or (n_features, 2)
        (low, high) of the noise itself, for all columns or one pair per column; infinite ones are allowed.
        ``onefold.release.noise_bounds`` derives them from the range of a column.
    Pi : array-like of shape (n_features,) or None, default=None
        None for the identity, or one positive number per column.
    delta : float, default=1e-5
        Probability with which the stated epsilon may be exceeded.
    sensitivity : float, Box or None, default=None
        Required: a declared domain to which rows are clipped; or, as the caller's word that nothing checks,
        the largest change of any entry of a record.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on dyadic grids. "float" is open to attacks on floating-point
        numbers: its guarantee is void.

    See Also
    --------
    FisherGaussian : The same criterion for noise without bounds.
    onefold.release.release_bounded : Releases a table with this noise.

    Notes
    -----
    *Guarantees.*

    * The noise never leaves its bounds.
    * No unbiased estimate of an entry of column j has a standard error below ``standard_errors(p)[j]``
      (Cramér and Rao).
    * **Whoever sees a value knows the original to within the bounds.** An (epsilon, delta) exists only if
      the noise reaches the edge of what a changed value could not have produced with probability of at most
      delta: bounds much wider than the change. Otherwise ``guarantee`` says that there is none.
    * Where one exists it is exact for one column. For a record, and for a cell that moves two columns, it is
      the sum over the columns, which share delta; columns whose bounds never matter count as one Gaussian.
    * Unequal bounds give the noise a mean other than zero: ``mean(p)`` is public and may be subtracted.
    * The float sampler has no guarantee: in exact arithmetic it would, on a computer it has not.
    * The hardened sampler takes one step of its grid off the bounds at either end, adds one to every change,
      and keeps a tenth of delta for its table of probabilities, which is right to 1e-11 in total variation:
      an epsilon of more than about log(delta / 1e-10) per column is not stated.
    * Labels, class sizes and the number of rows are not covered.

    References
    ----------
    Document 002, Theorem 2.6, Corollary 2.7, eq. 5 and 12.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import BoundedFisherNoise
    >>> noise = BoundedFisherNoise(1.0, (-0.5, 0.5), sensitivity=1.0)
    >>> bool(np.abs(noise.sample((1000, 3), random_state=0)).max() <= 0.5), round(noise.variance, 4)
    (True, 0.0325)
    """

    def __init__(
        self,
        lam: float,
        bounds: ArrayLike,
        Pi: ArrayLike | None = None,
        *,
        delta: float = 1e-5,
        sensitivity: float | Domain | None = None,
        sampler: str = "hardened",
    ) -> None:
        self.bounds = _checked_bounds(bounds)
        n_bounds = None if self.bounds.ndim == 1 else len(self.bounds)
        super().__init__(lam, Pi, delta, sensitivity, n_bounds, sampler)
        if not self.weights.independent:
            raise InvalidInputError("bounded noise needs independent columns: a diagonal Pi")
        self._states(self.n_features or 1)  # refuses now what it could not draw later

    def _states(self, n_features: int) -> list[tuple[GroundState, float]]:
        """The noise of each column in its own units, and that unit."""
        scales, bounds = self._free_scales(n_features), np.broadcast_to(self.bounds, (n_features, 2))
        if self.hardened:  # both roundings together move a value by a step at most
            steps = np.array([grid.step for grid in self._grids(n_features)])
            bounds = bounds + np.outer(steps, (1.0, -1.0))
        pairs = zip((bounds / scales[:, np.newaxis]).tolist(), scales.tolist(), strict=True)
        return [(ground_state(low, high), scale) for (low, high), scale in pairs]

    def _grids(self, n_features: int) -> list[Lattice]:
        """The grid of each column, for hardened noise."""
        bounds = np.broadcast_to(self.bounds, (n_features, 2)).tolist()
        changes = self._extent(n_features).widths.tolist()
        columns = zip(self._free_scales(n_features).tolist(), bounds, changes, strict=True)
        return [grid_for(scale, low, high, change) for scale, (low, high), change in columns]

    def _per_column(self, what: Callable[[GroundState, float], float], n_features: int) -> Floats:
        return np.array([what(state, scale) for state, scale in self._states(self._width(n_features))])

    # --- the noise ----------------------------------------------------------------------------------------

    def standard_errors(self, n_features: int) -> Floats:
        """Compute the least root mean square error of an unbiased estimate of an entry, per column.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features,)
            The errors, in the units of the columns.
        """
        return self._per_column(lambda state, s: s / math.sqrt(state.fisher_information), n_features)

    def fisher_information(self, n_features: int) -> Floats:
        """Compute the Fisher information of the release about a row (002 eq. 5).

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            The information, a diagonal matrix.
        """
        return np.diag(self._per_column(lambda state, s: state.fisher_information / s**2, n_features))

    def mean(self, n_features: int) -> Floats:
        """Compute the mean of the noise, which bounds of unequal size shift away from zero.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features,)
            The mean of each column.
        """
        return self._per_column(lambda state, s: s * state.mean, n_features)

    def second_moments(self, n_features: int) -> Floats:
        """Compute the mean square of the noise.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        ndarray of shape (n_features,)
            The mean square of each column.
        """
        return self._per_column(lambda state, s: s**2 * state.second_moment, n_features)

    def _magnitudes(self, n_features: int) -> Floats:
        return self._per_column(lambda state, s: s * state.mean_magnitude, n_features)

    def density(self, v: ArrayLike, column: int = 0) -> Floats:
        """Density of the noise of one column.

        Parameters
        ----------
        v : array-like
            Values of the noise.
        column : int, default=0
            Position of the column.

        Returns
        -------
        ndarray
            Density at each value; for hardened noise, before it is rounded to the grid.
        """
        state, scale = self._states(self.n_features or column + 1)[column]
        return state.density(np.asarray(v, dtype=np.float64) / scale) / scale

    def cdf(self, v: ArrayLike, column: int = 0) -> Floats:
        """Distribution function of the noise of one column.

        Parameters
        ----------
        v : array-like
            Values of the noise.
        column : int, default=0
            Position of the column.

        Returns
        -------
        ndarray
            Probability of noise up to each value; for hardened noise, before it is rounded to the grid.
        """
        state, scale = self._states(self.n_features or column + 1)[column]
        return state.cdf(np.asarray(v, dtype=np.float64) / scale)

    def _draw(self, shape: tuple[int, ...], stream: ByteStream) -> Floats:
        noise = np.empty(shape)
        columns = noise.reshape(-1, shape[-1])
        bounds = np.broadcast_to(self.bounds, (shape[-1], 2))
        for j, (state, scale) in enumerate(self._states(shape[-1])):
            drawn = scale * state.sample(len(columns), stream)
            columns[:, j] = np.clip(drawn, *bounds[j])  # the product may have rounded outwards
        return noise

    def _noise_in_steps(
        self, stream: ByteStream, n_rows: int, n_features: int
    ) -> Iterator[tuple[Lattice, Integers]]:
        columns = zip(self._grids(n_features), self._states(n_features), strict=True)
        for grid, (state, scale) in columns:
            yield grid, cell_table(state, scale, grid.exponent).sample(stream, n_rows)

    # --- the promise --------------------------------------------------------------------------------------

    def _losses(self, n_features: int) -> tuple[Pair, Pair]:
        steps = [grid.step for grid in self._grids(n_features)] if self.hardened else [0.0] * n_features
        noises = [(*pair, step) for pair, step in zip(self._states(n_features), steps, strict=True)]
        extent, places = self._extent(n_features), {noise: place for place, noise in enumerate(noises)}
        # Entries with the same noise that move as far lose as much: such a change is looked at once.
        kinds = np.array([places[noise] for noise in noises])
        changes = extent.changes(kinds)
        alike = np.hstack([kinds[changes.columns], changes.sizes])
        different = np.unique(alike, axis=0, return_index=True)[1]
        entry = max(
            self._together([noises[j] for j in columns], sizes)
            for columns, sizes in zip(
                changes.columns[different].tolist(), changes.sizes[different].tolist(), strict=True
            )
        )
        return (entry, self.delta), (self._together(noises, extent.widths.tolist()), self.delta)

    def _together(self, noises: Sequence[tuple[GroundState, float, float]], sizes: Sequence[float]) -> float:
        """epsilon of entries that move together."""
        moved = [
            (state, (size + step) / scale)
            for (state, scale, step), size in zip(noises, sizes, strict=True)
            if size > 0
        ]
        # Columns whose bounds never matter are one Gaussian together: squares of their changes add up.
        free = math.hypot(*(change for state, change in moved if state.free))
        parts = [(state, change) for state, change in moved if not state.free]
        share = self.delta / (len(parts) + bool(free))
        epsilon = sum(self._one(state, change, share) for state, change in parts)
        if free:
            kept = share * KEPT if self.hardened else share
            epsilon += self._stated(epsilon_of(free, kept), share, len(moved) - len(parts))
        return epsilon

    def _one(self, state: GroundState, change: float, delta: float) -> float:
        """epsilon of one column."""
        return self._stated(shift_epsilon(state, change, delta * KEPT if self.hardened else delta), delta, 1)

    def _stated(self, epsilon: float, delta: float, columns: int) -> float:
        """The same for tables instead of the noise: delta grows by (1 + e^epsilon) times their distance."""
        if not self.hardened:
            return epsilon
        most = math.log((1.0 - KEPT) * delta / (columns * TOTAL_VARIATION))
        return epsilon if math.log1p(math.exp(min(epsilon, 700.0))) <= most else math.inf


def _checked_bounds(bounds: ArrayLike) -> Floats:
    try:
        values = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("bounds must be a pair of numbers, or one pair per column") from None
    if values.ndim not in (1, 2) or values.shape[-1] != 2 or values.size == 0:
        raise InvalidInputError("bounds must be a pair (low, high), or one pair per column")
    if not np.all(values[..., 0] < values[..., 1]):
        raise InvalidInputError("every lower bound of the noise must lie below the upper one")
    return values
