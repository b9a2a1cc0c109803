"""Labelled queries hidden among others: who is judged by them should not know which they are.

In what order rows are asked is drawn anew every time, from the entropy of the system. A site that keeps the
rows it was asked about can still recognise those that come again: exchange the labelled set now and then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError
from onefold.federated.messages import Answers, Failure, Query

__all__ = ["HiddenProbes", "hide"]

Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class HiddenProbes:
    """A query with labelled rows among the others.

    Parameters
    ----------
    mixed : what the sites are asked.
    asked : the query alone, as if nothing had been hidden in it.
    places, labelled_places : where its rows, and the labelled ones, are in ``mixed``.
    """

    mixed: Query
    asked: Query
    places: Index
    labelled_places: Index

    def parted(
        self, messages: Mapping[str, Answers | Failure]
    ) -> tuple[dict[str, Answers | Failure], dict[Any, Answers]]:
        """The messages to the query alone, and the answers to the labelled rows.

        What does not answer the mixed query stays as it is, for the combination to refuse.
        """
        n_rows = len(self.mixed.features)
        alone, labelled = dict(messages), dict[Any, Answers]()
        if not self.labelled_places.size:
            return alone, labelled
        for site, each in messages.items():
            if isinstance(each, Answers) and each.query_id == self.mixed.id and len(each.values) == n_rows:
                alone[site] = replace(each, values=each.values[self.places])
                labelled[site] = replace(each, values=each.values[self.labelled_places])
        return alone, labelled


def hide(rows: NDArray[Any], labelled: NDArray[Any] | None, query_id: str) -> HiddenProbes:
    """Hide labelled rows (m, p) among the rows (n, p) of a query; None hides nothing and keeps the order.

    Examples
    --------
    >>> hidden = hide(np.zeros((3, 2)), np.ones((2, 2)), "q")
    >>> hidden.mixed.features[hidden.labelled_places].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if labelled is None:
        query, nowhere = Query(query_id, rows), np.array([], dtype=np.intp)
        return HiddenProbes(query, query, np.arange(len(rows)), nowhere)
    if rows.ndim != 2 or labelled.ndim != 2 or rows.shape[1] != labelled.shape[1]:
        raise InvalidInputError("the labelled rows must have the features of the query")
    rng = np.random.default_rng()
    order = rng.permutation(len(rows) + len(labelled))
    places = np.argsort(order, kind="stable")
    together = np.concatenate([rows, labelled])[order]
    return HiddenProbes(
        Query(query_id, together), Query(query_id, rows), places[: len(rows)], places[len(rows) :]
    )
