"""Naming rows: by their numbers, or by identifiers that stay with their owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError
from onefold.privacy import Guarantee

__all__ = ["identifiers", "more_identifiers", "positions_of"]

Index = NDArray[np.intp]


def identifiers(
    ids: Sequence[Any] | None, n_rows: int, present: Index | slice = slice(None)
) -> NDArray[Any] | None:
    if ids is None:
        return None
    found = np.asarray(ids)
    if (
        found.shape != (n_rows,)
        or found.dtype.kind not in "OUSiu"
        or len(set(found[present].tolist())) != len(found[present])
    ):
        raise InvalidInputError("ids must be distinct texts or whole numbers, one for each row")
    return found


def more_identifiers(
    known: NDArray[Any], present: Index, ids: Sequence[Any], n_rows: int, guarantee: Guarantee | None
) -> NDArray[Any]:
    """Identifiers of all rows that ever came; new ones must differ from those of rows that are there.

    Under noise they must differ from all: a second noisy version of a row would double what it gives away.
    """
    new = identifiers(ids, n_rows)
    taken = known if guarantee is not None else known[present]
    if set(taken.tolist()) & set(np.asarray(new).tolist()):
        again = "had its noise already" if guarantee is not None else "is there already"
        raise InvalidInputError(f"a row with one of these identifiers {again}")
    return np.array([*known.tolist(), *np.asarray(new).tolist()])


def positions_of(wanted: ArrayLike, present: NDArray[Any], what: str) -> Index:
    """Where the wanted numbers or identifiers are; all must be there, each once."""
    asked = np.asarray(wanted)
    kinds = ("iu", "iu") if present.dtype.kind in "iu" else ("OUSiu", present.dtype.kind)
    if asked.ndim != 1 or asked.size == 0 or asked.dtype.kind not in kinds[0]:
        raise InvalidInputError(f"rows to forget must be a list of {what}, at least one")
    places = {key: place for place, key in enumerate(present.tolist())}
    keys = asked.tolist()
    if len(set(keys)) != len(keys) or any(key not in places for key in keys):
        raise InvalidInputError(f"rows to forget must be distinct {what} of rows that are still there")
    return np.array([places[key] for key in keys], dtype=np.intp)
