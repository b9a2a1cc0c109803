"""Noise on whole rows: every column has a scale of its own, and the unit of privacy is the record."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Integers
from onefold._base.validation import OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.domains import Ball, Box, Domain, Frozen, constant
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.mechanisms.mechanism import (
    LARGEST_VALUE_IN_SCALES,
    NO_DOMAIN,
    SMALLEST_SCALE,
    draw_shape,
    unpack,
    voids,
)
from onefold.privacy.samplers import SAMPLERS, ByteStream, Lattice, RandomState, byte_stream
from onefold.privacy.terms import DELTA, NOTHING, Pair, multiplied, number, positive, shown_limit

__all__ = ["RowNoise", "Weights"]

NO_EPSILON = "this noise has no epsilon: a released value can tell the original up to the bounds of the noise"
ENUMERATED = 14  # up to this many columns the corners of a box are tried one by one
LARGEST_CONDITION = 1e14


class Weights(Frozen):
    """Powers of the positive definite matrix Pi, which weighs the columns of a row (002 eq. 4).

    None stands for the identity, one number per column for a diagonal, or a matrix.
    """

    def __init__(self, Pi: Any = None) -> None:
        self.diagonal: Floats = np.ones(())
        self.vectors: Floats | None = None
        if Pi is None:
            return
        try:
            values = np.array(Pi, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError("Pi must hold numbers: one per column, or a square matrix") from None
        if values.ndim == 2:
            values = self._of_matrix(values)
        if values.ndim != 1 or not len(values) or not np.all((values > 0) & np.isfinite(values)):
            raise InvalidInputError("Pi must be positive definite: a positive number per column, or a matrix")
        self.diagonal = values

    def _of_matrix(self, matrix: Floats) -> Floats:
        """Eigenvalues of the matrix, whose eigenvectors are kept unless it is diagonal."""
        if matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise InvalidInputError("Pi must be a square matrix of finite numbers")
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

    def noise_scales(self, lam: float, n_features: int) -> Floats:
        """Standard deviation of each column of the noise of covariance Pi^(-1/2) / sqrt(lam) (002 eq. 9)."""
        return np.sqrt(self.powers(-0.5, n_features)) * math.pow(lam, -0.25)

    def matrix(self, exponent: float, n_features: int) -> Floats:
        """Pi to a power."""
        values = np.broadcast_to(self.diagonal**exponent, n_features)
        return np.diag(values) if self.vectors is None else (self.vectors * values) @ self.vectors.T

    def times(self, rows: Floats, exponent: float) -> Floats:
        """Rows multiplied by Pi to a power."""
        if self.vectors is None:
            return np.asarray(rows * self.diagonal**exponent)
        return rows @ self.matrix(exponent, len(self.diagonal))

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


class RowNoise(Frozen):
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
        if sensitivity is None:
            raise InvalidInputError(NO_DOMAIN)
        check_parameter("sampler", sampler, OneOf(SAMPLERS))
        self.sampler = sampler
        self.domain = sensitivity if isinstance(sensitivity, Domain) else None
        if self.domain is not None and n_features is not None:
            if isinstance(self.domain, Ball):
                raise InvalidInputError(
                    "columns with weights or bounds of their own need a Box as domain, or that of a schema"
                )
            if self.domain.n_features not in (None, n_features):
                raise InvalidInputError(
                    f"the domain has {self.domain.n_features} features, the noise {n_features}"
                )
        self.sensitivity = self.domain.entry if self.domain else positive("sensitivity", sensitivity)
        self.n_features = n_features if n_features or self.domain is None else self.domain.n_features
        scales = self._free_scales(self.n_features or 1)
        if not np.all((scales > SMALLEST_SCALE) & np.isfinite(scales) & (scales < 1 / SMALLEST_SCALE)):
            raise InvalidInputError("the noise would be too small or too large for float64: rescale the data")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lam={self.lam:g}, delta={self.delta:g}, sampler={self.sampler!r})"

    @property
    def hardened(self) -> bool:
        """Whether the noise is exact on a computer, as its guarantee needs."""
        return self.sampler == "hardened"

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
        return self.weights.noise_scales(self.lam, n_features)

    # --- the noise ----------------------------------------------------------------------------------------

    @abstractmethod
    def standard_errors(self, n_features: int) -> Floats:
        """Compute the least root mean square error of an unbiased estimate of an entry, per column.

        Parameters
        ----------
        n_features : int
            Number of columns.

        Returns
        -------
        ndarray of shape (n_features,)
            The errors, in the units of the columns.
        """

    @abstractmethod
    def second_moments(self, n_features: int) -> Floats:
        """Compute the mean square of the noise.

        Parameters
        ----------
        n_features : int
            Number of columns.

        Returns
        -------
        ndarray of shape (n_features,)
            The mean square of each column.
        """

    @abstractmethod
    def _magnitudes(self, n_features: int) -> Floats:
        """Mean absolute noise of each column."""

    @property
    def variance(self) -> float:
        """Mean squared noise, averaged over the columns."""
        return float(np.mean(self.second_moments(self.n_features or 1)))

    @property
    def expected_magnitude(self) -> float:
        """Mean absolute noise, averaged over the columns."""
        return float(np.mean(self._magnitudes(self.n_features or 1)))

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

    def randomise(self, X: Any, random_state: RandomState = None) -> Any:
        """Clip rows to the declared domain, if there is one, and add noise to each.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers; a row is a record.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the noise predictable: use it in tests
            only.

        Returns
        -------
        ndarray or data frame
            The private rows. Data frames keep their columns, not their index, which may name people. float32
            stays float32 (rounded after the noise).
        """
        values, restore = unpack(X)
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
        return restore(self._added(values, random_state))

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

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Return what an :class:`Event` can say beyond (epsilon, delta): nothing unless Gaussian.

        Parameters
        ----------
        unit : {"entry", "record", "person"}
            What changes between neighbouring datasets.
        n_features : int
            Entries of a row.

        Returns
        -------
        dict
            Fields of the event: the family of the noise and its size, or nothing.
        """
        return {}

    def guarantee(
        self, n_features: int, n_samples: int | None = None, rows_per_person: int | None = None
    ) -> Guarantee:
        """State what a release with noise from the operating system promises.

        Parameters
        ----------
        n_features : int
            Entries of a row.
        n_samples : int or None, default=None
            Number of rows; the promise does not depend on it.
        rows_per_person : int or None, default=None
            Largest number of records of a person; None states nothing about persons.

        Returns
        -------
        Guarantee
            The promise.
        """
        check_parameter("n_samples", n_samples, (Whole(0), None))
        check_parameter("rows_per_person", rows_per_person, (Whole(1), None))
        entry, record = self._losses(self._width(n_features))
        person = None if rows_per_person is None else self._person(record, n_features, rows_per_person)
        word = (
            f"no entry of a record changes by more than {shown_limit(self.sensitivity)}, which nothing checks"
        )
        return Guarantee(
            unit="record",
            entry=_finite(entry),
            record=_finite(record),
            n_features=n_features,
            untouched_entries=0.0,
            voided_by=(NO_EPSILON,) * math.isinf(entry[0]) + voids(self.domain, self.sampler),
            mechanism=f"{type(self).__name__} of lam {self.lam:.4g}, {self.sampler} sampler",
            person=None if person is None else _finite(person),
            rows_per_person=rows_per_person,
            clipped=self.domain is not None,
            conditions=() if self.domain else (word,),
            mu=self._gaussian_privacy(n_features, rows_per_person or 1),
        )


def _finite(pair: Pair) -> Pair:
    return pair if math.isfinite(pair[0]) else NOTHING
