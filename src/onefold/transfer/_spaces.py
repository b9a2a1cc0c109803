"""Which way a target's rows take to the source's description."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array
from onefold.exceptions import InvalidInputError
from onefold.transfer.alignment import mapped_rows
from onefold.transfer.source import PrivateSource

__all__ = ["Way"]


@dataclass(frozen=True)
class Way:
    """From rows of the target to placed rows of the source space.

    A user's map gives rows like the source's own, or encoded ones; without a map, rows of the same width go
    the way of the source's rows, and others are multiplied by ``matrix`` (001 eq. 79), if there is one.
    """

    source: PrivateSource | None
    to_source: Any = None
    matrix: NDArray[np.float64] | None = None

    def __call__(self, rows: Array) -> Array:
        """Placed rows."""
        if self.source is None:
            return rows
        if self.matrix is not None:
            return self.source.description_.place(rows @ self.matrix.T)
        return self._enter(rows if self.to_source is None else mapped_rows(self.to_source, rows))

    def is_open(self, n_features: int) -> bool:
        """Is there a way for rows of this width without an alignment?"""
        return self.source is None or self.to_source is not None or n_features == self.source.n_features_in_

    def _enter(self, rows: Array) -> Array:
        if self.source is None:
            return rows
        if rows.shape[1] == self.source.n_features_in_:
            return self.source.encode(rows)
        if rows.shape[1] == self.source.n_encoded_:
            return self.source.description_.place(rows)
        sizes = f"{self.source.n_features_in_} features"
        if self.source.encoder_ is not None:
            sizes += f", or {self.source.n_encoded_} encoded ones"
        raise InvalidInputError(f"to_source must give rows of {sizes}, as the source has")
