"""A small labelled set, and what the clients answer to it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError
from onefold.federated.aggregate import Array
from onefold.federated.client import LocalModel, align
from onefold.federated.messages import Answers
from onefold.federated.trust import learn_trust

__all__ = ["LabelledSet"]


class LabelledSet:
    """Queries whose labels are known, or only the answers to them."""

    def __init__(
        self, X: ArrayLike | None, y: ArrayLike, answers: Mapping[Hashable, Answers] | None = None
    ) -> None:
        self.queries, self.labels = X, np.asarray(y)
        if self.labels.ndim != 1 or self.labels.size == 0:
            raise InvalidInputError("y must be a list of labels, at least one")
        if (X is None) == (answers is None):
            raise InvalidInputError("pass either the labelled queries or the answers to them")
        # Classes and answers of each client, and which fit of its model gave them.
        self._known: dict[Hashable, tuple[NDArray[Any], Array, int]] = {}
        for client, each in (answers or {}).items():
            if not isinstance(each, Answers) or len(each.values) != self.labels.size:
                raise InvalidInputError("every client must have answered each labelled query")
            self._known[client] = (np.array(each.classes), each.values, 0)

    def drop(self, client: Hashable) -> None:
        """Forget what a client answered."""
        self._known.pop(client, None)

    def weights(
        self,
        clients: tuple[Hashable, ...],
        members: Mapping[Hashable, LocalModel | Array],
        classes: NDArray[Any],
        largest: float,
    ) -> Array:
        """Weights (Q, C) of these clients and classes, judged together; 0 for one that cannot be judged."""
        for client in clients:
            member = members.get(client)
            if self.queries is not None and isinstance(member, LocalModel):
                asked = self._known.get(client)
                if asked is None or asked[2] != member._version:  # new, or fitted anew since
                    answers = member.answers(self.queries)
                    self._known[client] = (member.classes_, answers, member._version)
        found = np.zeros((len(clients), classes.size))
        judged = [number for number, client in enumerate(clients) if client in self._known]
        usable = np.isin(self.labels, classes)
        if judged and usable.any():
            known = [self._known[clients[number]] for number in judged]
            stacked = np.stack([_columns(own, values[usable], classes, largest) for own, values, _ in known])
            order = np.argsort(classes, kind="stable")
            truth = order[np.searchsorted(classes, self.labels[usable], sorter=order)]
            found[judged] = learn_trust(stacked, truth, largest)
        return found


def _columns(own: NDArray[Any], values: Array, classes: NDArray[Any], largest: float) -> Array:
    """Answers in the columns of ``classes``; what a client answers for other classes is left out."""
    kept = np.isin(own, classes)
    return align(values[:, kept], own[kept], classes, largest)
