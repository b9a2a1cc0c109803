"""The least informative noise that keeps within bounds (002 Thm 2.6, Cor. 2.7)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.mechanisms.ground_state import (
    TOTAL_VARIATION,
    GroundState,
    cell_table,
    grid_for,
    ground_state,
    shift_epsilon,
)
from onefold.privacy.mechanisms.rows import RowNoise, Weights
from onefold.privacy.samplers import Lattice, RandomState, byte_stream
from onefold.privacy.sensitivity import Domain
from onefold.privacy.terms import DELTA, Pair, number, positive

__all__ = ["BoundedFisherNoise"]

KEPT = 0.9  # of delta for the noise; the rest is for the tables of the hardened sampler


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
        self.lam, self.delta = positive("lam", lam), number("delta", delta, DELTA)
        self.Pi = None if Pi is None else np.array(Pi)
        self.weights, self.bounds = Weights(Pi), _checked_bounds(bounds)
        if not self.weights.independent:
            raise InvalidInputError("bounded noise needs independent columns: a diagonal Pi")
        given = [
            n for n in (self.weights.n_features, None if self.bounds.ndim == 1 else len(self.bounds)) if n
        ]
        if len(set(given)) > 1:
            raise InvalidInputError("bounds and Pi must have one entry per column")
        super().__init__(sensitivity, given[0] if given else None, sampler)
        self._check_scales(self._free_scales(self.n_features or 1))
        self._states(self.n_features or 1)  # refuses now what it could not draw later

    def __repr__(self) -> str:
        return f"BoundedFisherNoise(lam={self.lam:g}, delta={self.delta:g}, sampler={self.sampler!r})"

    def _free_scales(self, n_features: int) -> Floats:
        """Standard deviations of the noise without bounds (Thm 2.4)."""
        return self.weights.noise_scales(self.lam, n_features)

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

    @property
    def variance(self) -> float:
        """Mean squared noise, averaged over the columns."""
        return float(np.mean(self.second_moments(self.n_features or 1)))

    @property
    def expected_magnitude(self) -> float:
        """Mean absolute noise, averaged over the columns."""
        return float(
            np.mean(self._per_column(lambda state, s: s * state.mean_magnitude, self.n_features or 1))
        )

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

    def _draw(self, shape: tuple[int, ...], random_state: RandomState) -> Floats:
        stream, noise = byte_stream(random_state), np.empty(shape)
        columns = noise.reshape(-1, shape[-1])
        bounds = np.broadcast_to(self.bounds, (shape[-1], 2))
        for j, (state, scale) in enumerate(self._states(shape[-1])):
            drawn = scale * state.sample(len(columns), stream)
            columns[:, j] = np.clip(drawn, *bounds[j])  # the product may have rounded outwards
        return noise

    def _in_steps(self, values: Floats, random_state: RandomState) -> Floats:
        stream, result = byte_stream(random_state), np.empty(values.shape)
        columns, p = values.reshape(-1, values.shape[-1]), values.shape[-1]
        for j, (grid, (state, scale)) in enumerate(zip(self._grids(p), self._states(p), strict=True)):
            noise = cell_table(state, scale, grid.exponent).sample(stream, len(columns))
            result.reshape(columns.shape)[:, j] = grid.value(grid.round(columns[:, j]) + noise)
        return result

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

    def _description(self) -> str:
        return f"BoundedFisherNoise of lam {self.lam:.4g}"

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Return nothing: no accountant knows more about this noise than its (epsilon, delta).

        Parameters
        ----------
        unit : {"entry", "record", "person"}
            What changes between neighbouring datasets.
        n_features : int
            Entries of a row.

        Returns
        -------
        dict
            Always empty.
        """
        return {}


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
