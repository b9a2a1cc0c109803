"""What noises on whole rows share: every column has a scale of its own, and the unit is the record."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import positive
from onefold.privacy._streams import RandomState
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.mechanisms._data import Floats, draw_shape, unpack
from onefold.privacy.mechanisms._mechanism import LARGEST_VALUE_IN_SCALES, SMALLEST_SCALE
from onefold.privacy.sensitivity import INFERRED, Box, Domain

__all__ = ["RowNoise"]

Pair = tuple[float, float]


class RowNoise(ABC):
    """Independent noise on every row of a table; the entries of a row may be treated differently."""

    delta: float

    def __init__(self, sensitivity: float | Domain, n_features: int | None) -> None:
        self.domain = sensitivity if isinstance(sensitivity, Domain) else None
        if self.domain is not None and n_features is not None:
            if not isinstance(self.domain, Box):
                raise InvalidInputError("columns with weights or bounds of their own need a Box as domain")
            if self.domain.n_features not in (None, n_features):
                raise InvalidInputError(
                    f"the domain has {self.domain.n_features} features, the noise {n_features}"
                )
        self.sensitivity = self.domain.entry if self.domain else positive("sensitivity", sensitivity)
        self.n_features = n_features if n_features or self.domain is None else self.domain.n_features

    def _changes(self, n_features: int) -> Floats:
        """Largest change of each column."""
        if isinstance(self.domain, Box):
            return np.broadcast_to(self.domain.widths, n_features)
        return np.full(n_features, self.sensitivity)

    def _width(self, n_features: int) -> int:
        check_whole_number("n_features", n_features)
        if self.n_features not in (None, n_features):
            raise InvalidInputError(f"the noise is for {self.n_features} columns, not for {n_features}")
        return int(n_features)

    @staticmethod
    def _check_scales(scales: Floats) -> None:
        if not np.all((scales > SMALLEST_SCALE) & np.isfinite(scales) & (scales < 1 / SMALLEST_SCALE)):
            raise InvalidInputError("the noise would be too small or too large for float64: rescale the data")

    # --- the noise ----------------------------------------------------------------------------------------

    @abstractmethod
    def standard_errors(self, n_features: int) -> Floats:
        """Least root mean square error of an unbiased estimate of an entry, per column."""

    @abstractmethod
    def _draw(self, shape: tuple[int, ...], random_state: RandomState) -> Floats:
        """Noise whose last axis runs over the columns."""

    def _added(self, values: Floats, random_state: RandomState) -> Floats:
        return values + self._draw(values.shape, random_state)

    def sample(self, shape: int | tuple[int, ...], random_state: RandomState = None) -> Floats:
        """Noise for rows: the last number of ``shape`` counts the columns, a single number the rows.

        Without ``random_state`` it comes from the entropy of the system. A seed makes the noise predictable,
        so it is for tests only.
        """
        sizes = draw_shape(shape)
        if len(sizes) == 1 and self.n_features is not None:
            sizes = (*sizes, self.n_features)
        if not sizes or self.n_features not in (None, sizes[-1]):
            raise InvalidInputError(f"the noise is for rows of {self.n_features or 'some'} columns")
        return self._draw(sizes, random_state)

    def randomise(self, X: Any, random_state: RandomState = None) -> Any:
        """Rows with noise, after clipping to the declared domain if there is one.

        Data frames keep their columns and index. float32 stays float32 (rounded after the noise).
        """
        values, restore = unpack(X)
        if values.ndim != 2:
            raise InvalidInputError("expected a 2D table of rows. Reshape your data")
        if values.shape[1] == 0:
            raise InvalidInputError("the table has no columns")
        width = self._width(values.shape[1])
        if self.domain is not None:
            values = np.asarray(self.domain.clip(values), dtype=np.float64)
        # Float addition would round the noise away, and release the values as they are.
        if np.any(np.abs(values) > LARGEST_VALUE_IN_SCALES * self.standard_errors(width)):
            raise InvalidInputError("values are too large for this noise: centre or rescale the data first")
        return restore(self._added(values, random_state))

    # --- the promise --------------------------------------------------------------------------------------

    @abstractmethod
    def _losses(self, n_features: int) -> tuple[Pair, Pair]:
        """(epsilon, delta) of one entry and of a record."""

    @abstractmethod
    def _description(self) -> str:
        """Short words for the noise."""

    @abstractmethod
    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """What an :class:`~onefold.privacy.Event` can say beyond (epsilon, delta)."""

    def guarantee(self, n_features: int, n_samples: int | None = None) -> Guarantee:
        """What a release of rows of ``n_features`` entries promises, per entry and per record."""
        check_whole_number("n_samples", n_samples, at_least=0, or_none=True)
        entry, record = self._losses(self._width(n_features))
        change = "a declared domain" if self.domain else f"changes of at most {self.sensitivity:g} per entry"
        return Guarantee(
            unit="record",
            entry=entry if math.isfinite(entry[0]) else (math.inf, 1.0),
            record=record if math.isfinite(record[0]) else (math.inf, 1.0),
            n_features=n_features,
            untouched_entries=0.0,
            voided_by=(INFERRED,) if self.domain is not None and self.domain.inferred else (),
            mechanism=f"{self._description()}, for {change}",
        )
