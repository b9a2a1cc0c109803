"""The Gaussian noise that discloses least about a row for its size (002 Thm 2.4)."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats
from onefold._base.validation import OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.mechanisms.rows import RowNoise, Weights
from onefold.privacy.samplers import (
    Lattice,
    RandomState,
    byte_stream,
    lattice_for,
    rounded_gaussian,
)
from onefold.privacy.sensitivity import Domain
from onefold.privacy.terms import DELTA, UNITS, Pair, multiplied, number, positive, root

__all__ = ["FisherGaussian"]


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
        self.lam, self.delta = positive("lam", lam), number("delta", delta, DELTA)
        self.Pi = None if Pi is None else np.array(Pi)
        self.weights = Weights(Pi)
        super().__init__(sensitivity, self.weights.n_features, sampler)
        if self.hardened and not self.weights.independent:
            raise InvalidInputError("Pi is not diagonal: that takes sampler='float', which promises nothing")
        self._check_scales(self._scales(self.n_features or 1))

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

    def __repr__(self) -> str:
        return f"FisherGaussian(lam={self.lam:g}, delta={self.delta:g}, sampler={self.sampler!r})"

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
        return self._scales(self._width(n_features))

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

    @property
    def variance(self) -> float:
        """Mean squared noise, averaged over the columns."""
        return float(np.mean(self._scales(self.n_features or 1) ** 2))

    @property
    def expected_magnitude(self) -> float:
        """Mean absolute noise, averaged over the columns."""
        return float(np.mean(self._scales(self.n_features or 1))) * math.sqrt(2 / math.pi)

    def _scales(self, n_features: int) -> Floats:
        return self.weights.noise_scales(self.lam, n_features)

    def _draw(self, shape: tuple[int, ...], random_state: RandomState) -> Floats:
        standard = byte_stream(random_state).normal(math.prod(shape)).reshape(shape)
        return self.weights.times(standard, -0.25) * math.pow(self.lam, -0.25)

    # --- the hardened noise: every column on a dyadic grid of its own --------------------------------------

    def _grids(self, n_features: int) -> list[tuple[Lattice, float]]:
        """Grid and standard deviation of each column."""
        changes, scales = self._extent(n_features).widths, self._scales(n_features)
        known: dict[Pair, Lattice] = {}
        for pair in zip(changes.tolist(), scales.tolist(), strict=True):
            if pair not in known:
                known[pair] = lattice_for(pair[0], pair[1] / pair[0], 1, 2)
        return [(known[pair], pair[1]) for pair in zip(changes.tolist(), scales.tolist(), strict=True)]

    def _in_steps(self, values: Floats, random_state: RandomState) -> Floats:
        stream, result = byte_stream(random_state), np.empty(values.shape)
        columns = values.reshape(-1, values.shape[-1])
        for j, (grid, scale) in enumerate(self._grids(values.shape[-1])):
            sigma = scale / grid.step * (1 + 2.0**-50)  # the division may have rounded down
            noise = rounded_gaussian(stream, sigma, len(columns))
            result.reshape(columns.shape)[:, j] = grid.value(grid.round(columns[:, j]) + noise)
        return result

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
        if self.weights.n_features is None:
            return extent.entry, extent.l2
        return self.weights.reach(extent)

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

    def _description(self) -> str:
        return f"FisherGaussian of lam {self.lam:.4g}"

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
