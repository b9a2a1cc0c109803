"""What a fitted strategy answers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index

__all__ = ["EXPERTS", "Decision", "Strategy"]

Floats = NDArray[np.float64]
EXPERTS = ("target", "mapping", "source")


@dataclass(frozen=True)
class Decision:
    """Answers for some rows."""

    distances: Floats  # (n, C); the smallest decides
    expert: Index  # (n,), positions in EXPERTS: who decided
    alone: Index  # (n,), class by the target alone

    @property
    def codes(self) -> Index:
        """Class of each row."""
        return np.asarray(self.distances.argmin(axis=1))


class Strategy(Protocol):
    """A fitted way to decide."""

    def decide(self, rows: Array) -> Decision:
        """Answers for rows of the target."""
