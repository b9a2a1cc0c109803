"""Whom to believe: what clients' answers to a few labelled queries say about them.

The server needs a small labelled set that clients do not know to be one, public or held out. A client that
behaves on these queries and lies on others is not found: mix them with real ones, and use the trimmed rule
where classes have enough owners.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.federated.aggregate import Array, check_answers, owned_classes

__all__ = ["agreement", "learn_trust", "separation"]

STANDARD_ERRORS = 2.0


def separation(answers: ArrayLike, truth: ArrayLike, largest: float = np.inf) -> tuple[Array, Array]:
    """How well each client's answers for a class tell its queries from the others, (Q, C), with errors.

    The number is the probability that a query of the class is answered with less than another one (the area
    under the ROC curve): 1 for perfect, 1/2 for constant or random answers, less for swapped classes. NaN
    where the client lacks the class or the labelled set has no query inside or outside of it. The second
    array holds standard errors of answers that know nothing (Mann and Whitney's variance, without ties).

    Parameters
    ----------
    truth : column number of the right class, (n,).
    """
    values, columns = _labelled(answers, truth, largest)
    n_clients, n_queries, n_classes = values.shape
    areas = np.full((n_clients, n_classes), np.nan)
    errors = np.full((n_clients, n_classes), np.nan)
    mask = owned_classes(values, largest)
    for column in range(n_classes):
        inside = columns == column
        n_in, n_out = int(inside.sum()), int(n_queries - inside.sum())
        if not n_in or not n_out:
            continue
        owners = np.flatnonzero(mask[:, column])
        if owners.size:
            ranks = rankdata(values[owners, :, column], axis=1)
            above = ranks[:, inside].sum(axis=1) - n_in * (n_in + 1) / 2
            areas[owners, column] = 1.0 - above / (n_in * n_out)
        errors[:, column] = np.sqrt((n_in + n_out + 1) / (12.0 * n_in * n_out))
    return areas, errors


def learn_trust(answers: ArrayLike, truth: ArrayLike, largest: float = np.inf) -> Array:
    """Weights (Q, C), 1 or 0, for :func:`~onefold.federated.aggregate.weighted`, from labelled queries.

    A client's answers for a class count only if they separate the class better than chance, by two standard
    errors. Classes of which there are too few labelled queries to tell (fewer than two, usually) are believed
    to clients at least half of whose other classes are. A client is dropped altogether if one of its classes
    separates worse than chance by as much (swapped classes), or if the federation of the others decides the
    labelled queries better without it, by two standard errors of the difference.

    Parameters
    ----------
    answers : (Q, n, C), the clients' answers to the labelled queries.
    truth : column number of the right class, (n,).

    Examples
    --------
    >>> honest = [[0.1, 0.9], [0.2, 0.8], [0.9, 0.1], [0.8, 0.3]] * 3
    >>> liar = [[0.0, 0.0]] * 12
    >>> learn_trust([honest, liar], [0, 0, 1, 1] * 3).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    values, columns = _labelled(answers, truth, largest)
    areas, errors = separation(values, columns, largest)
    with np.errstate(
        invalid="ignore"
    ):  # comparisons with NaN are false: what cannot be judged is not believed
        trusted = areas - 0.5 > STANDARD_ERRORS * errors
        swapped = areas - 0.5 < -STANDARD_ERRORS * errors
        # With these few queries not even perfect answers could show it.
        judged = ~np.isnan(areas) & (STANDARD_ERRORS * errors < 0.5)
    reliable = 2 * trusted.sum(axis=1) >= np.maximum(judged.sum(axis=1), 1)
    trusted |= owned_classes(values, largest) & ~judged & reliable[:, None]
    trusted &= ~swapped.any(axis=1, keepdims=True)
    while trusted.any(axis=1).sum() > 1:
        worst = _most_harmful(values, columns, trusted, largest)
        if worst is None:
            break
        trusted[worst] = False
    return trusted.astype(np.float64)


def agreement(answers: ArrayLike, largest: float = np.inf, *, least_others: int = 1) -> Array:
    """How each client's answers follow those of the other owners of the same classes, (Q,), from -1 to 1.

    Without labels: the mean over classes of the rank correlation, over the queries, with the median of the
    others. NaN where too few others own a client's classes, or with fewer than three queries. Low values are
    a reason to look closer, no proof: an owner of unusual rows may be right.

    Parameters
    ----------
    least_others : classes with fewer other owners do not count. With 2 f + 1 of them, f of whom lie, the
        median lies between honest answers.
    """
    check_whole_number("least_others", least_others)
    values = check_answers(answers, 3, largest)
    mask = owned_classes(values, largest)
    n_clients, n_queries, n_classes = values.shape
    found = np.full((n_clients, n_classes), np.nan)
    for column in range(n_classes) if n_queries >= 3 else ():
        owners = np.flatnonzero(mask[:, column])
        if owners.size > least_others:
            mine = values[owners, :, column]
            found[owners, column] = _rank_correlations(mine, _medians_of_others(mine))
    counted = np.sum(~np.isnan(found), axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(found, axis=1) / np.where(counted > 0, counted, np.nan))


def _medians_of_others(values: Array) -> Array:
    """For each of k clients the median of the other k - 1, query by query: (k, n) -> (k, n), k >= 2."""
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(len(values))[:, None], axis=0)

    def among_others(number: int) -> Array:
        # Without the client's own answer those above it move down by one place.
        above = ranked[min(number + 1, len(values) - 1)]
        return np.asarray(np.where(number < place, ranked[number], above))

    n_others = len(values) - 1
    upper = among_others(n_others // 2)
    return np.asarray(upper if n_others % 2 else (among_others(n_others // 2 - 1) + upper) / 2)


def _rank_correlations(one: Array, other: Array) -> Array:
    """Of each row of ``one`` with the same row of ``other``: (k, n), (k, n) -> (k,)."""
    a, b = rankdata(one, axis=1), rankdata(other, axis=1)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    length = np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))
    # Constant answers follow nobody.
    return np.asarray(np.where(length > 0, np.sum(a * b, axis=1) / np.where(length > 0, length, 1.0), 0.0))


def _most_harmful(
    values: Array, columns: NDArray[np.intp], trusted: NDArray[np.bool_], largest: float
) -> int | None:
    """The client without which most labelled queries are decided better, if the gain is no accident."""
    kept = np.where(trusted[:, None, :], values, values.dtype.type(largest))
    ranked = np.sort(kept, axis=0)
    right = ranked[0].argmin(axis=1) == columns
    best, gain = None, 0.0
    for client in np.flatnonzero(trusted.any(axis=1)):
        # The minimum of the others: the second smallest where this client has the smallest.
        without = np.where(kept[client] == ranked[0], ranked[1], ranked[0])
        better = without.argmin(axis=1) == columns
        won, lost = int(np.sum(better & ~right)), int(np.sum(right & ~better))
        if won - lost > max(STANDARD_ERRORS * np.sqrt(won + lost), gain):
            best, gain = int(client), float(won - lost)
    return best


def _labelled(answers: ArrayLike, truth: ArrayLike, largest: float) -> tuple[Array, NDArray[np.intp]]:
    values = check_answers(answers, 3, largest)
    columns: NDArray[Any] = np.asarray(truth)
    if columns.shape != (values.shape[1],) or columns.size == 0 or columns.dtype.kind not in "iu":
        raise InvalidInputError("truth must be one column number per labelled query")
    if columns.min() < 0 or columns.max() >= values.shape[2]:
        raise InvalidInputError("truth must name columns of the answers")
    return values, columns.astype(np.intp)
