"""The noise that discloses least about a row: Gaussian (002 Thm 2.4), or bounded (Thm 2.6, Cor. 2.7).

Every column has a scale of its own, and the unit of privacy is the record.
"""

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Integers
from onefold._base.validation import OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.domains import Ball, Box, Domain, Frozen, constant
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.mechanisms.ground_state import (
    TOTAL_VARIATION,
    GroundState,
    cell_table,
    grid_for,
    noise_between,
    shift_epsilon,
)
from onefold.privacy.mechanisms.mechanism import (
    LARGEST_VALUE_IN_SCALES,
    SMALLEST_SCALE,
    AddedNoise,
    draw_shape,
)
from onefold.privacy.samplers import (
    ByteStream,
    Lattice,
    RandomState,
    byte_stream,
    lattice_for,
    rounded_gaussian,
)
from onefold.privacy.terms import (
    DELTA,
    NOTHING,
    UNITS,
    Pair,
    multiplied,
    number,
    number_array,
    positive,
    root,
    shown_limit,
)

__all__ = ["BoundedFisherNoise", "FisherGaussian", "RowNoise", "Weights"]

NO_EPSILON = "this noise has no epsilon: a released value can tell the original up to the bounds of the noise"
ENUMERATED = 14  # up to this many columns the corners of a box are tried one by one
LARGEST_CONDITION = 1e14
KEPT = 0.9  # of delta for bounded noise; the rest is for the tables of the hardened sampler


class Weights(Frozen):
    """Powers of the positive definite matrix Pi, which weighs the columns of a row (002 eq. 4).

    None stands for the identity, one number per column for a diagonal, or a matrix.
    """

    def __init__(self, Pi: Any = None) -> None:
        self.diagonal: Floats = np.ones(())
        self.vectors: Floats | None = None
        if Pi is None:
            return
        values = number_array(Pi, "Pi must hold finite numbers: one per column, or a square matrix")
        if values.ndim == 2:
            values = self._of_matrix(values)
        if values.ndim != 1 or not len(values) or not np.all(values > 0):
            raise InvalidInputError("Pi must be positive definite: a positive number per column, or a matrix")
        self.diagonal = values

    def _of_matrix(self, matrix: Floats) -> Floats:
        """Eigenvalues of the matrix, whose eigenvectors are kept unless it is diagonal."""
        if matrix.shape[0] != matrix.shape[1]:
            raise InvalidInputError("Pi must be a square matrix")
        if np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0:
            return np.diag(matrix).copy()
        if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
            raise InvalidInputError("Pi must be symmetric")
        values, self.vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        if not values[0] * LARGEST_CONDITION > values[-1]:
            raise InvalidInputError("Pi must be positive definite, and not nearly singular")
        return values

    @property
    def n_features(self) -> int | None:
        """Columns, or None for the identity of any size."""
        return None if self.diagonal.ndim == 0 else len(self.diagonal)

    @property
    def independent(self) -> bool:
        """The columns of the noise are independent."""
        return self.vectors is None

    def powers(self, exponent: float, n_features: int) -> Floats:
        """Diagonal of Pi to a power."""
        values = np.broadcast_to(self.diagonal**exponent, n_features)
        return values if self.vectors is None else (self.vectors**2) @ values

    def matrix(self, exponent: float, n_features: int) -> Floats:
        """Pi to a power."""
        values = np.broadcast_to(self.diagonal**exponent, n_features)
        return np.diag(values) if self.vectors is None else (self.vectors * values) @ self.vectors.T

    def reach(self, extent: Domain) -> tuple[float, float]:
        """Largest length of Pi^(1/4) d over all d by which one cell, and by which a record can change.

        Exact for independent columns. Otherwise an upper bound: entries that move together may do so with any
        signs, and a record moves all of its columns; beyond few columns the smaller of two bounds is taken,
        since the exact value takes a search over all corners of the box.
        """
        kinds = np.unique(self.diagonal, return_inverse=True)[1] if self.vectors is None else None
        columns, sizes, cells = extent.changes(kinds)
        if self.vectors is None:
            squares = (self.diagonal[columns] ** 0.5 * sizes**2).sum(axis=1)
            largest = np.zeros(cells[-1] + 1)
            np.maximum.at(largest, cells, squares)
            return math.sqrt(float(largest.max())), math.sqrt(float(largest.sum()))
        together = np.abs(self._root)[columns[:, :, np.newaxis], columns[:, np.newaxis]]
        cell = float(np.einsum("mi,mij,mj->m", sizes, together, sizes).max())
        form = extent.widths[:, np.newaxis] * self._root * extent.widths
        p = len(form)
        if p <= ENUMERATED:
            corners = np.array([(1.0, *signs) for signs in itertools.product((-1.0, 1.0), repeat=p - 1)])
            record = float(np.max(np.einsum("ij,ij->i", corners @ form, corners)))
        else:
            record = min(float(np.abs(form).sum()), p * float(np.linalg.eigvalsh(form)[-1]))
        return math.sqrt(cell), math.sqrt(record)

    @cached_property
    def _root(self) -> Floats:
        return constant(self.matrix(0.5, len(self.diagonal)))


class Facts(NamedTuple):
    """What is known of the noise of a column, in standard deviations of the noise without bounds."""

    fisher_information: float
    mean: float
    second_moment: float
    mean_magnitude: float


FREE = Facts(1.0, 0.0, 1.0, math.sqrt(2 / math.pi))


@lru_cache(maxsize=1024)
def _free_grid(change: float, scale: float) -> Lattice:
    """The grid of Gaussian noise on a column."""
    return lattice_for(change, scale / change, 1, 2)


class RowNoise(AddedNoise):
    """Independent noise on every row of a table; every column has a scale of its own.

    The unit of privacy is the record.
    """

    def __init__(
        self,
        lam: float,
        Pi: ArrayLike | None,
        delta: float,
        sensitivity: float | Domain | None,
        n_bounds: int | None,
        sampler: str,
    ) -> None:
        self.lam, self.delta = positive("lam", lam), number("delta", delta, DELTA)
        self.Pi, self.weights = None if Pi is None else np.array(Pi), Weights(Pi)
        n_features = self.weights.n_features or n_bounds
        if n_bounds not in (None, n_features):
            raise InvalidInputError("bounds and Pi must have one entry per column")
        self._declare(sensitivity, sampler)
        if self.domain is not None and n_features is not None:
            if isinstance(self.domain, Ball):
                raise InvalidInputError(
                    "columns with weights or bounds of their own need a Box as domain, or that of a schema"
                )
            if self.domain.n_features not in (None, n_features):
                raise InvalidInputError(
                    f"the domain has {self.domain.n_features} features, the noise {n_features}"
                )
        self.sensitivity = self.domain.entry if self.domain else self._word
        self.n_features = n_features if n_features or self.domain is None else self.domain.n_features
        scales = self._free_scales(self.n_features or 1)
        if not np.all((scales > SMALLEST_SCALE) & np.isfinite(scales) & (scales < 1 / SMALLEST_SCALE)):
            raise InvalidInputError("the noise would be too small or too large for float64: rescale the data")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lam={self.lam:g}, delta={self.delta:g}, sampler={self.sampler!r})"

    def _extent(self, n_features: int) -> Domain:
        """The domain; without one, entries that change by no more than the caller's word says."""
        return (self.domain or Box(0.0, self.sensitivity)).for_features(n_features)

    def _width(self, n_features: int) -> int:
        check_parameter("n_features", n_features, Whole(1))
        if self.n_features not in (None, n_features):
            raise InvalidInputError(f"the noise is for {self.n_features} columns, not for {n_features}")
        return int(n_features)

    def _free_scales(self, n_features: int) -> Floats:
        """Standard deviation of each column of the noise without bounds (002 Thm 2.4)."""
        return np.sqrt(self.weights.powers(-0.5, n_features)) * math.pow(self.lam, -0.25)

    # --- the noise ----------------------------------------------------------------------------------------

    @abstractmethod
    def _states(self, n_features: int) -> Sequence[tuple[Any, float]]:
        """The noise of each column in its own units, and that unit."""

    def _per_column(self, what: Callable[[Any, float], float], n_features: int) -> Floats:
        return np.array([what(state, scale) for state, scale in self._states(self._width(n_features))])

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
        magnitudes = self._per_column(lambda state, s: s * state.mean_magnitude, self.n_features or 1)
        return float(np.mean(magnitudes))

    @abstractmethod
    def _draw(self, shape: tuple[int, ...], stream: ByteStream) -> Floats:
        """Float noise whose last axis runs over the columns."""

    @abstractmethod
    def _noise_in_steps(
        self, stream: ByteStream, n_rows: int, n_features: int
    ) -> Iterator[tuple[Lattice, Integers]]:
        """The grid of each column, and exact noise in steps of that."""

    def _added(self, values: Floats, random_state: RandomState) -> Floats:
        stream = byte_stream(random_state)
        if not self.hardened:
            return values + self._draw(values.shape, stream)
        result, columns = np.empty(values.shape), values.reshape(-1, values.shape[-1])
        for j, (grid, noise) in enumerate(self._noise_in_steps(stream, *columns.shape)):
            result.reshape(columns.shape)[:, j] = grid.value(grid.round(columns[:, j]) + noise)
        return result

    def sample(self, shape: int | tuple[int, ...], random_state: RandomState = None) -> Floats:
        """Draw noise for rows.

        Parameters
        ----------
        shape : int or tuple of int
            Shape of the result, whose last number counts the columns. A single number counts the rows where
            the number of columns is known.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the noise predictable: use it in tests
            only.

        Returns
        -------
        ndarray
            Noise, independent from row to row.
        """
        sizes = draw_shape(shape)
        if len(sizes) == 1 and self.n_features is not None:
            sizes = (*sizes, self.n_features)
        if not sizes or self.n_features not in (None, sizes[-1]):
            raise InvalidInputError(f"the noise is for rows of {self.n_features or 'some'} columns")
        return self._added(np.zeros(sizes), random_state)

    def _randomised(self, values: Floats, random_state: RandomState) -> Floats:
        if values.ndim != 2:
            raise InvalidInputError("expected a 2D table of rows. Reshape your data")
        if values.shape[1] == 0:
            raise InvalidInputError("the table has no columns")
        width = self._width(values.shape[1])
        if self.domain is not None:
            values = self.domain.clip(values)
        # Float addition would round the noise away, and release the values as they are.
        if np.any(np.abs(values) > LARGEST_VALUE_IN_SCALES * self.standard_errors(width)):
            raise InvalidInputError("values are too large for this noise: centre or rescale the data first")
        return self._added(values, random_state)

    # --- the promise --------------------------------------------------------------------------------------

    @abstractmethod
    def _losses(self, n_features: int) -> tuple[Pair, Pair]:
        """(epsilon, delta) of one entry and of a record."""

    def _person(self, record: Pair, n_features: int, n_rows: int) -> Pair:
        """(epsilon, delta) of a person: each of its rows has noise of its own, so the losses add up."""
        return multiplied(n_rows, record[0]), min(1.0, multiplied(n_rows, record[1]))

    def _gaussian_privacy(self, n_features: int, n_rows: int) -> float | None:
        """mu of so many records, for Gaussian noise."""
        return None

    def _promise(self, n_features: int, n_samples: int | None, n_rows: int | None) -> Guarantee:
        entry, record = self._losses(self._width(n_features))
        person = None if n_rows is None else self._person(record, n_features, n_rows)
        word = (
            f"no entry of a record changes by more than {shown_limit(self.sensitivity)}, which nothing checks"
        )
        return Guarantee(
            unit="record",
            entry=_finite(entry),
            record=_finite(record),
            n_features=n_features,
            untouched_entries=0.0,
            voided_by=(NO_EPSILON,) * math.isinf(entry[0]) + self._voided_by,
            mechanism=f"{type(self).__name__} of lam {self.lam:.4g}, {self.sampler} sampler",
            person=None if person is None else _finite(person),
            rows_per_person=n_rows,
            clipped=self.domain is not None,
            conditions=() if self.domain else (word,),
            mu=self._gaussian_privacy(n_features, n_rows or 1),
        )


def _finite(pair: Pair) -> Pair:
    return pair if math.isfinite(pair[0]) else NOTHING


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
        check_parameter("column", column, Whole(0, at_most=len(unit) - 1))
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

    def _states(self, n_features: int) -> list[tuple[Facts, float]]:
        return [(FREE, scale) for scale in self._free_scales(n_features).tolist()]

    def _draw(self, shape: tuple[int, ...], stream: ByteStream) -> Floats:
        standard = stream.normal(math.prod(shape)).reshape(shape)
        weights = self.weights
        if weights.independent:
            return np.asarray(standard * weights.diagonal**-0.25 * math.pow(self.lam, -0.25))
        return np.asarray(standard @ weights.matrix(-0.25, shape[-1]) * math.pow(self.lam, -0.25))

    # --- the hardened noise: every column on a dyadic grid of its own --------------------------------------

    def _grids(self, n_features: int) -> list[Lattice]:
        """The grid of each column."""
        columns = zip(
            self._extent(n_features).widths.tolist(), self._free_scales(n_features).tolist(), strict=True
        )
        return [_free_grid(change, scale) for change, scale in columns]

    def _noise_in_steps(
        self, stream: ByteStream, n_rows: int, n_features: int
    ) -> Iterator[tuple[Lattice, Integers]]:
        for grid, scale in zip(self._grids(n_features), self._free_scales(n_features).tolist(), strict=True):
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
            columns = zip(self._grids(n_features), self._free_scales(n_features).tolist(), strict=True)
            distance += math.hypot(*(grid.step / scale for grid, scale in columns))
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
        return [(noise_between(low, high), scale) for (low, high), scale in pairs]

    def _grids(self, n_features: int) -> list[Lattice]:
        """The grid of each column, for hardened noise."""
        bounds = np.broadcast_to(self.bounds, (n_features, 2)).tolist()
        changes = self._extent(n_features).widths.tolist()
        columns = zip(self._free_scales(n_features).tolist(), bounds, changes, strict=True)
        return [grid_for(scale, low, high, change) for scale, (low, high), change in columns]

    # --- the noise ----------------------------------------------------------------------------------------

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
        kept = share * KEPT if self.hardened else share
        epsilon = sum(self._stated(shift_epsilon(state, change, kept), share, 1) for state, change in parts)
        if free:
            epsilon += self._stated(epsilon_of(free, kept), share, len(moved) - len(parts))
        return epsilon

    def _stated(self, epsilon: float, delta: float, columns: int) -> float:
        """The same for tables instead of the noise: delta grows by (1 + e^epsilon) times their distance."""
        if not self.hardened:
            return epsilon
        most = math.log((1.0 - KEPT) * delta / (columns * TOTAL_VARIATION))
        return epsilon if math.log1p(math.exp(min(epsilon, 700.0))) <= most else math.inf


def _checked_bounds(bounds: ArrayLike) -> Floats:
    refusal = "bounds must be a pair (low, high) of numbers, or one pair per column"
    values = number_array(bounds, refusal, lambda pairs: pairs.ndim in (1, 2) and pairs.shape[-1] == 2)
    if not values.size or not np.all(values[..., 0] < values[..., 1]):
        raise InvalidInputError("every lower bound of the noise must lie below the upper one")
    return values
