"""Rows that leave a fitted model and rows that come: what is fitted anew, and what is promised afterwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Index, Labels
from onefold.exceptions import InvalidInputError
from onefold.federated._rows import Recipe, Rows
from onefold.models import ClassModels
from onefold.privacy import Guarantee
from onefold.privacy.calibration import epsilon_of

NEW_ROWS = "no row that was added had been there before, forgotten or not: it would have noise twice"


@dataclass(frozen=True)
class Forgotten:
    """What forgetting did.

    Parameters
    ----------
    n_rows : int
        Rows that are gone.
    n_refitted : int
        Machines that were fitted anew, the touched ones and those stacked with them.
    n_kept : int
        Machines that stayed as they were.
    classes_gone : tuple
        Labels of which no row is left.
    exact : bool
        The model is, to the last bit, one that never saw the rows, **and** the division into batches was not
        chosen by looking at them. False when k-means had divided a touched class with these rows: the
        machines are free of them, the borders between the machines are not.
    partition : str
        How the touched classes were divided: "contiguous", "kmeans", "single" or "given".

    See Also
    --------
    LocalModel.forget : Returns it.

    Examples
    --------
    >>> from onefold.federated import LocalModel
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]]
    >>> done = LocalModel().fit(X, ["low", "low", "high", "high"]).forget([2, 3])
    >>> done.n_rows, done.classes_gone, done.exact
    (2, ('high',), True)
    """

    n_rows: int
    n_refitted: int
    n_kept: int
    classes_gone: tuple[Any, ...]
    exact: bool
    partition: str


def without_rows(
    recipe: Recipe, kept: Rows, positions: Index, guarantee: Guarantee | None, division: str
) -> tuple[Any, Rows, Forgotten]:
    """Fit the classifier of the rows that are left; only machines that had one of the others are fitted anew.

    ``division`` of the classes that lose rows: the "same" batches, divided "anew", or "whole" classes leave.
    """
    touched = np.unique(kept.labels[positions])
    rest = kept.without(positions)
    if not len(rest.values):
        raise InvalidInputError("no row would be left: remove the site from the federation instead")
    estimator, memory, exact = recipe.unfitted(), recipe.memory, True
    if rest.noisy is not None:
        rest = divided(estimator, recipe.smoothed_again(rest, touched), touched)
    elif division == "anew":
        rest = divided(estimator, rest, touched)
    elif division == "same":
        exact = not set(touched.tolist()) & set(kept.clustered)
    gone = tuple(label for label in touched.tolist() if not np.any(rest.labels == label))
    estimator, rest = recipe.fit(rest, guarantee, estimator)
    fitted, same = (0, 0) if memory is None else (memory.n_fitted, memory.n_kept)
    done = Forgotten(len(positions), fitted, same, gone, exact, kept.partition or "single")
    return estimator, rest, done


def with_rows(recipe: Recipe, kept: Rows, more: Rows, guarantee: Guarantee | None) -> tuple[Any, Rows]:
    """Fit the classifier of these rows and of further ones in batches of their own."""
    estimator, touched = recipe.unfitted(), np.unique(more.labels)
    if kept.noisy is None:
        joined = kept.with_more(divided(estimator, more, touched))
    else:
        joined = divided(estimator, recipe.smoothed_again(kept.with_more(more), touched), touched)
    return recipe.fit(joined, guarantee, estimator)


def divided(estimator: Any, rows: Rows, labels: Labels) -> Rows:
    """Rows with these classes in the batches that the classifier divides them into."""
    mine = np.flatnonzero(np.isin(rows.labels, labels))
    if not isinstance(estimator, ClassModels) or not mine.size:
        return rows
    batches = rows.batches.copy()
    batches[mine] = estimator.divide(rows.values, rows.labels, mine)
    return rows.in_batches(batches, labels, estimator.partition)


def with_more_rows(one: Guarantee, other: Guarantee) -> Guarantee:
    """The guarantee of rows and of further ones, each with noise of its own.

    A record is among the ones or the others, which is the caller's word. A person may be among both, so what
    persons lose adds up.
    """
    found = one.join(other).provided(NEW_ROWS)
    if one.person is None or other.person is None or found.person is None:
        return found
    rows = (one.rows_per_person or 0) + (other.rows_per_person or 0) or None
    if one.mu is None or other.mu is None or found.mu is None:
        epsilon, delta = (sum(pair) for pair in zip(one.person, other.person, strict=True))
        return replace(found, person=(epsilon, min(1.0, delta)), rows_per_person=rows, mu=None)
    mu, delta = math.nextafter(math.hypot(one.mu, other.mu), math.inf), found.person[1]
    return replace(found, person=(epsilon_of(mu, delta), delta), rows_per_person=rows, mu=mu)


# --- naming rows: by their numbers, or by identifiers that stay with their site ----------------------------


def identifiers(ids: Sequence[Any], n_rows: int, present: Index | slice = slice(None)) -> AnyArray:
    """Identifiers as an array; those of ``present`` rows must be distinct."""
    found = np.asarray(ids)
    if (
        found.shape != (n_rows,)
        or found.dtype.kind not in "OUSiu"
        or len(set(found[present].tolist())) != len(found[present])
    ):
        raise InvalidInputError("ids must be distinct texts or whole numbers, one for each row")
    return found


def more_identifiers(
    known: AnyArray | None,
    present: Index,
    ids: Sequence[Any] | None,
    n_rows: int,
    guarantee: Guarantee | None,
) -> AnyArray | None:
    """Identifiers of all rows that ever came; new ones must differ from those of rows that are there.

    Under noise they must differ from all: a second noisy version of a row would double what it gives away.
    """
    if (ids is None) != (known is None):
        raise InvalidInputError("rows are named by identifiers either always or never")
    if ids is None or known is None:
        return None
    new = identifiers(ids, n_rows)
    taken = known if guarantee is not None else known[present]
    if set(taken.tolist()) & set(new.tolist()):
        again = "had its noise already" if guarantee is not None else "is there already"
        raise InvalidInputError(f"a row with one of these identifiers {again}")
    return np.array([*known.tolist(), *new.tolist()])


def positions_of(wanted: ArrayLike, present: AnyArray, what: str) -> Index:
    """Where the wanted numbers or identifiers are; all must be there, each once."""
    asked = np.asarray(wanted)
    allowed = "iu" if present.dtype.kind in "iu" else "OUSiu"
    if asked.ndim != 1 or asked.size == 0 or asked.dtype.kind not in allowed:
        raise InvalidInputError(f"rows to forget must be a list of {what}, at least one")
    places = {key: place for place, key in enumerate(present.tolist())}
    keys = asked.tolist()
    if len(set(keys)) != len(keys) or any(key not in places for key in keys):
        raise InvalidInputError(f"rows to forget must be distinct {what} of rows that are still there")
    return np.array([places[key] for key in keys], dtype=np.intp)
