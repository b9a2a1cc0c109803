"""From the answers of many clients to one decision: pure functions on arrays, nothing else.

An answer is how much a client must fold a query to reach its samples of a class: the smaller, the closer. Q
clients answer n queries for C classes in an array (Q, n, C). A client without a class answers the largest
value of the measure: 1 for the space folding measures (004 eq. 123), infinity for the distance (000 Remark
5).

Every rule looks at each client's answers by value only, never by position: the order of clients does not
matter, and a client that is taken out leaves no trace.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError

__all__ = ["check_answers", "decide", "liars_withstood", "minimum", "owned_classes", "trimmed", "weighted"]

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]


def check_answers(answers: ArrayLike, n_dimensions: int, largest: float = np.inf) -> Array:
    """Answers as an array of floating-point numbers; anything that cannot be a measure is refused.

    Parameters
    ----------
    n_dimensions : 3 for the answers of all clients, 2 for those of one.
    largest : the maximum of the measure.
    """
    try:
        array = np.asarray(answers)
        numbers = array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("answers must be numbers in an array without ragged rows") from None
    if numbers.ndim != n_dimensions or 0 in numbers.shape[:-2] or numbers.shape[-1] == 0:
        shape = "(Q, n, C)" if n_dimensions == 3 else "(n, C)"
        raise InvalidInputError(f"answers must have the shape {shape} with at least one client and one class")
    # Comparisons with NaN are false, so NaN is refused too.
    if not np.all((numbers >= 0) & (numbers <= largest)):
        raise InvalidInputError(f"answers must lie between 0 and {largest:g} and must not be NaN")
    return numbers


def minimum(answers: ArrayLike) -> Array:
    """The closest client speaks for each class: (Q, n, C) -> (n, C) (000 eq. 104, 004 eq. 105 and 122).

    One client that answers 0 decides everything: for clients that trust each other.

    Examples
    --------
    >>> minimum([[[0.2, 1.0]], [[0.3, 0.1]]]).tolist()
    [[0.2, 0.1]]
    """
    return np.asarray(check_answers(answers, 3).min(axis=0))


def owned_classes(answers: ArrayLike, largest: float = np.inf) -> Mask:
    """Which classes each client has: (Q, C), false where it answers the measure's maximum to every query."""
    return np.asarray((check_answers(answers, 3, largest) < largest).any(axis=1))


def liars_withstood(n_owners: ArrayLike, n_liars: int) -> NDArray[np.intp]:
    """How many lying owners :func:`trimmed` withstands for classes with this many owners.

    An order statistic of k numbers, f of them lies, lies between honest ones only if k is at least 2 f + 1.
    """
    half = np.maximum(np.asarray(n_owners, dtype=np.intp) - 1, 0) // 2
    return np.asarray(np.minimum(n_liars, half))


def trimmed(
    answers: ArrayLike, n_liars: int = 1, owned: ArrayLike | None = None, largest: float = np.inf
) -> Array:
    """The (f + 1)-th smallest answer for each class among the clients that have it: (Q, n, C) -> (n, C).

    With up to ``n_liars`` = f lying clients and at least 2 f + 1 owners of a class, the result lies between
    answers of honest owners, whatever the others say. A class with fewer owners is trimmed by (owners - 1)
    // 2 only, since otherwise liars could make it disappear by answering the maximum: **with one or two
    owners of a class nothing is trimmed**, and the rule is the minimum. Data with one class per party
    therefore needs :func:`weighted` instead.

    Parameters
    ----------
    n_liars : f, how many clients may lie.
    owned : (Q, C), who has which class; by default those who do not always answer the maximum.
    largest : the maximum of the measure; also what a class without owners answers.

    Examples
    --------
    >>> trimmed([[[0.0]], [[0.3]], [[0.4]]], n_liars=1).tolist()
    [[0.3]]
    """
    check_whole_number("n_liars", n_liars, at_least=0)
    values = check_answers(answers, 3, largest)
    mask = owned_classes(values, largest) if owned is None else _check_mask(owned, values)
    ranked = np.sort(np.where(mask[:, None, :], values, values.dtype.type(largest)), axis=0)
    cut = liars_withstood(mask.sum(axis=0), n_liars)
    return np.asarray(np.take_along_axis(ranked, cut[None, None, :], axis=0)[0])


def weighted(answers: ArrayLike, weights: ArrayLike, largest: float = np.inf) -> Array:
    """The smallest answer among clients that are trusted with the class: (Q, n, C) -> (n, C).

    Parameters
    ----------
    weights : (Q,) or (Q, C) between 0 and 1. 1 takes an answer as it is, 0 not at all, and anything in
        between makes it larger: its closeness (the inverse of a distance, or 1 minus a folding measure) is
        multiplied by the weight. See :func:`onefold.federated.trust.learn_trust`.
    largest : the maximum of the measure.

    Examples
    --------
    >>> weighted([[[0.0, 0.0]], [[0.3, 0.1]]], weights=[0, 1]).tolist()
    [[0.3, 0.1]]
    """
    values = check_answers(answers, 3, largest)
    trust = np.asarray(weights, dtype=np.float64)
    trust = trust[:, None] if trust.ndim == 1 else trust
    if trust.ndim != 2 or trust.shape[0] != len(values) or trust.shape[1] not in (1, values.shape[2]):
        raise InvalidInputError("weights must have the shape (Q,) or (Q, C)")
    if not np.all((trust >= 0) & (trust <= 1)):
        raise InvalidInputError("weights must lie between 0 and 1")
    factors = np.broadcast_to(trust, (len(values), values.shape[2]))[:, None, :].astype(values.dtype)
    positive = np.where(factors > 0, factors, values.dtype.type(1))
    with np.errstate(over="ignore"):
        farther = values / positive if np.isinf(largest) else largest - (largest - values) * positive
    # A weight of 1 changes no bit of an answer, a weight of 0 leaves none of it.
    farther = np.where(factors == 1, values, np.where(factors > 0, farther, values.dtype.type(largest)))
    return np.asarray(farther.min(axis=0))


def decide(measures: ArrayLike) -> NDArray[np.intp]:
    """Index of the class with the smallest measure, for each query: (n, C) -> (n,) (004 eq. 106 and 118).

    Of equal classes the first one wins. A query for which no client knows any class is refused.

    Examples
    --------
    >>> decide([[0.2, 0.1], [0.3, 0.3]]).tolist()
    [1, 0]
    """
    checked = check_answers(measures, 2)
    if not np.all(np.isfinite(checked).any(axis=1)):
        raise InvalidInputError("a query has no finite answer for any class")
    return np.asarray(checked.argmin(axis=1))


def _check_mask(owned: ArrayLike, values: Array) -> Mask:
    mask = np.asarray(owned)
    if mask.dtype != bool or mask.shape != (values.shape[0], values.shape[2]):
        raise InvalidInputError("owned must be true or false for each client and class, (Q, C)")
    return mask
