"""The rows a local model rests on: raw, noisy or fabricated, with their numbers and their batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import FileFormatError
from onefold.fabrication import Fabricator
from onefold.federated.aggregate import Array

__all__ = ["Forgotten", "Rows"]

Index = NDArray[np.intp]


@dataclass(frozen=True)
class Forgotten:
    """What forgetting did.

    Parameters
    ----------
    n_rows : rows that are gone.
    n_refitted : machines that were fitted anew, the touched ones and those stacked with them.
    n_kept : machines that stayed as they were.
    classes_gone : labels of which no row is left.
    exact : the model is, to the last bit, one that never saw the rows, **and** the division into batches was
        not chosen by looking at them. False when k-means had divided a touched class with these rows: the
        machines are free of them, the borders between the machines are not.
    partition : how the touched classes were divided: "contiguous", "kmeans", "single" or "given".
    """

    n_rows: int
    n_refitted: int
    n_kept: int
    classes_gone: tuple[Any, ...]
    exact: bool
    partition: str


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the order they came, without those that were forgotten."""

    values: Array  # (n, p) what the classifier is fitted on
    labels: NDArray[Any]
    numbers: Index  # of each row among all rows that ever came
    batches: Index  # machine of each row within its class
    n_ever: int
    noisy: Array | None = None  # (n, p) what fabricated rows were made of
    clustered: tuple[Any, ...] = ()  # classes that k-means divided by looking at the rows

    def without(self, positions: Index) -> Rows:
        """The other rows; the memory of these is let go."""
        kept = np.ones(len(self.values), dtype=bool)
        kept[positions] = False
        return replace(
            self,
            values=self.values[kept],
            labels=self.labels[kept],
            numbers=self.numbers[kept],
            batches=self.batches[kept],
            noisy=None if self.noisy is None else self.noisy[kept],
        )

    def with_more(self, more: Rows) -> Rows:
        """These rows and then further ones, in batches of their own."""
        batches = more.batches.copy()
        for label in np.unique(more.labels):
            own = self.batches[self.labels == label]
            batches[more.labels == label] += own.max(initial=-1) + 1
        both = None if self.noisy is None or more.noisy is None else np.concatenate([self.noisy, more.noisy])
        return Rows(
            np.concatenate([self.values, more.values]),
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.numbers, more.numbers + self.n_ever]),
            np.concatenate([self.batches, batches]),
            self.n_ever + more.n_ever,
            both,
            tuple(dict.fromkeys((*self.clustered, *more.clustered))),
        )

    def smoothed_again(self, labels: NDArray[Any], maker: Fabricator) -> Rows:
        """With the rows of these classes fabricated anew from the noisy ones: no further noise is drawn."""
        values = self.values.copy()
        for label in labels:
            mine = np.flatnonzero(self.labels == label)
            if mine.size and self.noisy is not None:
                values[mine] = maker.smooth(self.noisy[mine], self.labels[mine])
        return replace(self, values=values)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As arrays for a file."""
        labels = self.labels.astype(np.str_) if self.labels.dtype == object else self.labels
        found = {
            "values": self.values,
            "labels": labels,
            "numbers": self.numbers,
            "batches": self.batches,
            "n_ever": np.array([self.n_ever]),
            "clustered": np.array(self.clustered, dtype=labels.dtype),
        }
        return found if self.noisy is None else {**found, "noisy": self.noisy}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Rows:
        """What :meth:`to_arrays` made."""
        try:
            rows = cls(
                arrays["values"],
                arrays["labels"],
                arrays["numbers"].astype(np.intp),
                arrays["batches"].astype(np.intp),
                int(arrays["n_ever"][0]),
                arrays.get("noisy"),
                tuple(arrays["clustered"].tolist()),
            )
        except (KeyError, TypeError, ValueError, IndexError):
            raise FileFormatError("the rows in this file cannot be read") from None
        lengths = {len(rows.values), len(rows.labels), len(rows.numbers), len(rows.batches)}
        if (
            len(lengths) != 1
            or rows.values.ndim != 2
            or (rows.noisy is not None and len(rows.noisy) not in lengths)
        ):
            raise FileFormatError("the rows in this file cannot be read")
        return rows
