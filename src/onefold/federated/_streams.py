"""Combining answers as they arrive, without keeping more of them than a rule needs."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from onefold.federated.aggregate import Array, liars_withstood, weighted
from onefold.federated.consistency import checked
from onefold.federated.trust import learn_trust

__all__ = ["Stream", "stream_for"]


class Stream(Protocol):
    """Takes answers one client at a time, and combines them in the end."""

    def add(self, answers: Array, labelled: Array | None) -> None:
        """Take the answers (n, C) of one client, and those to the labelled queries if there are any."""

    def combined(self) -> Array:
        """The combined measures (n, C) of all clients so far."""


class _Smallest:
    """The f + 1 smallest answers for each query and class, and how many owners each class has."""

    def __init__(self, n_liars: int, largest: float) -> None:
        self.n_liars, self.largest = n_liars, largest
        self.kept: Array | None = None
        self.n_owners: NDArray[np.intp] | None = None

    def add(self, answers: Array, labelled: Array | None) -> None:
        owned = (answers < self.largest).any(axis=0)
        if self.kept is None or self.n_owners is None:
            self.n_owners = np.zeros(owned.shape, dtype=np.intp)
            self.kept = np.full((self.n_liars + 1, *answers.shape), self.largest, dtype=answers.dtype)
        self.n_owners += owned
        if self.n_liars == 0:
            self.kept = np.minimum(self.kept, answers)
        else:
            self.kept = np.sort(np.concatenate([self.kept, answers[None]]), axis=0)[:-1]

    def combined(self) -> Array:
        assert self.kept is not None  # there is at least one client
        assert self.n_owners is not None
        cut = liars_withstood(self.n_owners, self.n_liars)
        return np.asarray(np.take_along_axis(self.kept, cut[None, None, :], axis=0)[0])


class _Checked:
    """All answers: who disagrees with the others is known only when all have answered."""

    def __init__(self, n_liars: int, largest: float) -> None:
        self.n_liars, self.largest = n_liars, largest
        self.answers: list[Array] = []

    def add(self, answers: Array, labelled: Array | None) -> None:
        self.answers.append(answers)

    def combined(self) -> Array:
        return checked(np.stack(self.answers), self.n_liars, self.largest)


class _Weighted:
    """All answers: whom to believe is known only when all have answered the labelled queries."""

    def __init__(self, truth: NDArray[np.intp], largest: float) -> None:
        self.truth, self.largest = truth, largest
        self.answers: list[Array] = []
        self.labelled: list[Array] = []

    def add(self, answers: Array, labelled: Array | None) -> None:
        assert labelled is not None  # the labelled set is checked beforehand
        self.answers.append(answers)
        self.labelled.append(labelled)

    def combined(self) -> Array:
        trust = learn_trust(np.stack(self.labelled), self.truth, self.largest)
        return weighted(np.stack(self.answers), trust, self.largest)


def stream_for(rule: str, n_liars: int, largest: float, truth: NDArray[np.intp] | None) -> Stream:
    """What a rule needs to keep: the trimmed rule f + 1 numbers, the next two all of them."""
    if rule == "checked":
        return _Checked(n_liars, largest)
    if rule == "weighted" and truth is not None:
        return _Weighted(truth, largest)
    return _Smallest(n_liars if rule == "trimmed" else 0, largest)
