"""From measures in [0, 1] to whole numbers of a few bits, by a public monotone map."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe._encoding import MISSING

__all__ = ["Quantiser"]


class Quantiser:
    """A monotone map from [0, 1] onto 0 ... 2^bits - 1, the same for all clients.

    Without :meth:`fit` it is ``rint((2^bits - 1) d)``.

    Parameters
    ----------
    bits : int
        Bits of a quantised measure.
    """

    def __init__(self, bits: int = 8) -> None:
        check_whole_number("bits", bits)
        self.bits = bits

    def quantise(self, measures: ArrayLike) -> NDArray[np.int64]:
        """Whole numbers of the same shape; NaN, a class that a client lacks, becomes -1."""
        values = np.asarray(measures, dtype=np.float64)
        missing = np.isnan(values)
        if np.any((values < 0) | (values > 1)):
            raise InvalidInputError("measures must lie in [0, 1]")
        scaled = np.rint((2**self.bits - 1) * np.where(missing, 0.0, values)).astype(np.int64)
        return np.where(missing, MISSING, scaled)
