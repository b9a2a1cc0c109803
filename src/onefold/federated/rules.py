"""Every rule that combines the answers of sites into one decision: pure functions on arrays, nothing else.

An answer says how much a site must fold a query to reach its samples of a class: the smaller, the closer. Q
sites answer n queries for C classes in an array (Q, n, C). A site without a class answers the largest value
of the measure: 1 for the space folding measures (004 eq. 123), infinity for the distance (000 Remark 5).

Every rule looks at the value of an answer only, never at its position: the order of sites does not matter,
and a site that is taken out leaves no trace.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from onefold._base.arrays import AnyArray, Array, Index, Mask
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError

__all__ = [
    "RULES",
    "agreement",
    "align",
    "check_answers",
    "check_truth",
    "checked",
    "combine",
    "decide",
    "disagreeing",
    "liars_withstood",
    "minimum",
    "owned_classes",
    "trimmed",
    "weighted",
]

RULES = ("min", "trimmed", "checked", "weighted")
# A site whose agreement is below this share of the usual one does not follow the others.
LOWEST_SHARE = 0.5


# --- answers ----------------------------------------------------------------------------------------------


def check_answers(answers: ArrayLike, n_dimensions: int, largest: float = np.inf) -> Array:
    """Return answers as an array of floats; refuse anything that cannot be a measure.

    Parameters
    ----------
    answers : array-like
        The answers of all sites (Q, n, C), or of one site (n, C).
    n_dimensions : int
        3 for the answers of all sites, 2 for those of one.
    largest : float, default=inf
        The maximum of the measure.
    """
    try:
        array = np.asarray(answers)
        numbers = array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("answers must be numbers in an array without ragged rows") from None
    if numbers.ndim != n_dimensions or 0 in numbers.shape[:-2] or numbers.shape[-1] == 0:
        shape = "(Q, n, C)" if n_dimensions == 3 else "(n, C)"
        raise InvalidInputError(f"answers must have the shape {shape} with at least one site and one class")
    # Comparisons with NaN are false, so NaN is refused too.
    if not np.all((numbers >= 0) & (numbers <= largest)):
        raise InvalidInputError(f"answers must lie between 0 and {largest:g} and must not be NaN")
    return numbers


def check_truth(truth: ArrayLike, n_rows: int, n_classes: int) -> Index:
    """Return the column of the right class of each of ``n_rows`` rows."""
    columns = np.asarray(truth)
    if columns.shape != (n_rows,) or columns.size == 0 or columns.dtype.kind not in "iu":
        raise InvalidInputError("truth must be one column number per labelled row")
    if columns.min() < 0 or columns.max() >= n_classes:
        raise InvalidInputError("truth must name columns of the answers")
    return columns.astype(np.intp)


def align(answers: Array, own: AnyArray, classes: AnyArray, missing: float) -> Array:
    """Move the answers of one site into the columns of all classes.

    Parameters
    ----------
    answers : ndarray of shape (n, c)
        Answers for the classes of the site.
    own : ndarray of shape (c,)
        Labels of these columns.
    classes : ndarray of shape (C,)
        Labels of the columns of the result, in any order, including all of ``own``.
    missing : float
        Answer for classes that the site lacks: the maximum of the measure.

    Returns
    -------
    ndarray of shape (n, C)
        The aligned answers.
    """
    if not np.all(np.isin(own, classes)):
        raise InvalidInputError("a site answers for a class that is not among the classes asked for")
    aligned = np.full((len(answers), len(classes)), missing, dtype=answers.dtype)
    order = np.argsort(classes, kind="stable")
    aligned[:, order[np.searchsorted(classes, own, sorter=order)]] = answers
    return aligned


def owned_classes(answers: ArrayLike, largest: float = np.inf) -> Mask:
    """Return which classes each site has, (Q, C): not those for which it always answers the maximum."""
    return np.asarray((check_answers(answers, 3, largest) < largest).any(axis=1))


def decide(measures: ArrayLike) -> Index:
    """Return the index of the class with the smallest measure for each query: (n, C) -> (n,).

    Of equal classes the first one wins. A query for which no site knows any class is refused.

    Parameters
    ----------
    measures : array-like of shape (n, C)
        Combined measures.

    References
    ----------
    Document 004, eq. 106 and 118.

    Examples
    --------
    >>> decide([[0.2, 0.1], [0.3, 0.3]]).tolist()
    [1, 0]
    """
    values = check_answers(measures, 2)
    if not np.all(np.isfinite(values).any(axis=1)):
        raise InvalidInputError("a query has no finite answer for any class")
    return np.asarray(values.argmin(axis=1))


# --- the rules --------------------------------------------------------------------------------------------


def combine(
    answers: ArrayLike, rule: str, n_liars: int = 1, largest: float = np.inf, weights: ArrayLike | None = None
) -> Array:
    """Combine the answers of sites by the rule of this name: (Q, n, C) -> (n, C).

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites.
    rule : {"min", "trimmed", "checked", "weighted"}
        See :func:`minimum`, :func:`trimmed`, :func:`checked` and :func:`weighted`.
    n_liars : int, default=1
        How many sites may lie, for the trimmed and the checked rule.
    largest : float, default=inf
        The maximum of the measure.
    weights : array-like or None, default=None
        Trust in each site, for the weighted rule.

    Returns
    -------
    ndarray of shape (n, C)
        One measure for each query and class.
    """
    if rule == "min":
        return minimum(answers)
    if rule == "trimmed":
        return trimmed(answers, n_liars, largest=largest)
    if rule == "checked":
        return checked(answers, n_liars, largest)
    if weights is None:
        raise InvalidInputError("the weighted rule needs weights")
    if not np.any(weights):  # the maximum for every class would look like an answer
        raise InvalidInputError("no site is trusted: the labelled queries speak for none of them")
    return weighted(answers, weights, largest)


def minimum(answers: ArrayLike) -> Array:
    """Take the smallest answer for each class: (Q, n, C) -> (n, C).

    One site that answers 0 decides everything: this rule is for sites that trust each other.

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites.

    References
    ----------
    Document 000, eq. 104; document 004, eq. 105 and 122.

    Examples
    --------
    >>> minimum([[[0.2, 1.0]], [[0.3, 0.1]]]).tolist()
    [[0.2, 0.1]]
    """
    return np.asarray(check_answers(answers, 3).min(axis=0))


def liars_withstood(n_owners: ArrayLike, n_liars: int) -> Index:
    """Return how many lying sites :func:`trimmed` withstands for classes that this many sites have.

    An order statistic of k numbers, f of them lies, lies between honest ones only if k is at least 2 f + 1.

    Parameters
    ----------
    n_owners : array-like of int
        How many sites have each class.
    n_liars : int
        How many sites may lie.
    """
    half = np.maximum(np.asarray(n_owners, dtype=np.intp) - 1, 0) // 2
    return np.asarray(np.minimum(n_liars, half))


def trimmed(
    answers: ArrayLike, n_liars: int = 1, owned: ArrayLike | None = None, largest: float = np.inf
) -> Array:
    """Take the (f + 1)-th smallest answer among the sites that have the class: (Q, n, C) -> (n, C).

    With up to ``n_liars`` = f lying sites and at least 2 f + 1 sites that have the class, the result lies
    between answers of honest sites, whatever the others say. A class that k < 2 f + 1 sites have is trimmed
    by (k - 1) // 2 only, since otherwise liars could make it disappear by answering the maximum: **for a
    class that one or two sites have, nothing is trimmed**, and the rule is the minimum. Where every site has
    another class, use :func:`weighted` instead.

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites.
    n_liars : int, default=1
        How many sites may lie.
    owned : array-like of bool of shape (Q, C) or None, default=None
        Which site has which class; None takes :func:`owned_classes`.
    largest : float, default=inf
        The maximum of the measure; also the result for a class that no site has.

    Examples
    --------
    >>> trimmed([[[0.0]], [[0.3]], [[0.4]]], n_liars=1).tolist()
    [[0.3]]
    """
    check_parameter("n_liars", n_liars, Whole(0))
    values = check_answers(answers, 3, largest)
    mask = owned_classes(values, largest) if owned is None else np.asarray(owned)
    if mask.dtype != bool or mask.shape != (values.shape[0], values.shape[2]):
        raise InvalidInputError("owned must be true or false for each site and class, (Q, C)")
    ranked = np.sort(np.where(mask[:, None, :], values, values.dtype.type(largest)), axis=0)
    cut = liars_withstood(mask.sum(axis=0), n_liars)
    return np.asarray(np.take_along_axis(ranked, cut[None, None, :], axis=0)[0])


def weighted(answers: ArrayLike, weights: ArrayLike, largest: float = np.inf) -> Array:
    """Take the smallest answer among the sites that are trusted with the class: (Q, n, C) -> (n, C).

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites.
    weights : array-like of shape (Q,) or (Q, C)
        Numbers from 0 to 1, see :func:`onefold.federated.trust.learn_trust`. 1 takes an answer as it is, 0
        not at all. A number in between makes the answer larger: its closeness (the inverse of a distance, or
        1 minus a folding measure) is multiplied by the weight.
    largest : float, default=inf
        The maximum of the measure.

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


def checked(
    answers: ArrayLike, n_liars: int = 1, largest: float = np.inf, found: ArrayLike | None = None
) -> Array:
    """Leave out the sites that disagree, and trim the others: (Q, n, C) -> (n, C).

    Each site found by :func:`disagreeing` counts as one of the f liars, and only as many as are left are
    trimmed. Where all liars are found this is the minimum over the others, which loses nothing where sites
    have unequal shares of a class; the trimmed rule does. Where none is found it is the trimmed rule. If a
    site is found that did not lie, one liar less is withstood.

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites.
    n_liars : int, default=1
        How many sites may lie.
    largest : float, default=inf
        The maximum of the measure.
    found : array-like of int or None, default=None
        Numbers of the sites to leave out, if they are known already.

    Examples
    --------
    >>> checked([[[0.0]], [[0.3]], [[0.4]]], n_liars=1).tolist()  # one query says nothing: trimmed
    [[0.3]]
    """
    values = check_answers(answers, 3, largest)
    odd = disagreeing(values, n_liars, largest) if found is None else np.asarray(found, dtype=np.intp)
    kept = np.delete(values, odd, axis=0)
    return trimmed(kept, max(n_liars - odd.size, 0), largest=largest)


# --- sites that contradict the others ---------------------------------------------------------------------
#
# Liars hide among few sites, not among many queries: over a table of queries the answers of honest sites for
# a class rise and fall together, whatever their number of rows; those of a site that swaps classes or invents
# numbers do not. No labels are needed.


def disagreeing(answers: ArrayLike, n_liars: int = 1, largest: float = np.inf) -> Index:
    """Return the numbers of at most ``n_liars`` sites whose answers do not follow the others, worst first.

    A site is one of them if its :func:`agreement` is below half of the usual one (the median over sites), by
    a standard error of a rank correlation. Only classes count that 2 f + 1 other sites have, f the liars
    still expected: their median then lies between honest answers, so that liars cannot make an honest site
    look odd at will. With fewer than a handful of queries no site is found.

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites.
    n_liars : int, default=1
        How many sites may lie.
    largest : float, default=inf
        The maximum of the measure.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> distance = rng.random((1, 50, 2))
    >>> answers = distance + 0.1 * rng.random((5, 50, 2))
    >>> answers[3] = answers[3, :, ::-1]  # swaps the classes
    >>> disagreeing(answers).tolist()
    [3]
    """
    check_parameter("n_liars", n_liars, Whole(0))
    values = check_answers(answers, 3, largest)
    sites = np.arange(len(values))
    found: list[int] = []
    while len(found) < n_liars:
        left = np.delete(sites, found)
        others = 2 * (n_liars - len(found)) + 1
        agrees = agreement(values[left], largest, least_others=others)
        if np.isnan(agrees).all():
            break
        worst = int(np.nanargmin(agrees))
        chance = 1.0 / np.sqrt(values.shape[1] - 1)
        if not agrees[worst] < LOWEST_SHARE * np.nanmedian(agrees) - chance:
            break
        found.append(int(left[worst]))
    return np.array(found, dtype=np.intp)


def agreement(answers: ArrayLike, largest: float = np.inf, *, least_others: int = 1) -> Array:
    """Return how each site's answers follow those of the other sites with the same classes: (Q,), -1 to 1.

    No labels are needed: this is the mean over classes of the rank correlation, over the queries, with the
    median of the others. It is NaN where too few others have a site's classes, or with fewer than three
    queries. A low value is a reason to look closer, no proof: a site with unusual rows may be right.

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites.
    largest : float, default=inf
        The maximum of the measure.
    least_others : int, default=1
        Classes that fewer other sites have do not count. With 2 f + 1 of them, f of whom lie, the median lies
        between honest answers.
    """
    check_parameter("least_others", least_others, Whole(1))
    values = check_answers(answers, 3, largest)
    mask = owned_classes(values, largest)
    n_sites, n_queries, n_classes = values.shape
    found = np.full((n_sites, n_classes), np.nan)
    for column in range(n_classes) if n_queries >= 3 else ():
        owners = np.flatnonzero(mask[:, column])
        if owners.size > least_others:
            mine = values[owners, :, column]
            found[owners, column] = _rank_correlations(mine, _medians_of_others(mine))
    counted = np.sum(~np.isnan(found), axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(found, axis=1) / np.where(counted > 0, counted, np.nan))


def _medians_of_others(values: Array) -> Array:
    """For each of k sites the median of the other k - 1, query by query: (k, n) -> (k, n), k >= 2."""
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(len(values))[:, None], axis=0)

    def among_others(number: int) -> Array:
        # Without the site's own answer those above it move down by one place.
        return np.asarray(np.where(number < place, ranked[number], ranked[number + 1]))

    n_others = len(values) - 1
    upper = among_others(n_others // 2)
    return np.asarray(upper if n_others % 2 else (among_others(n_others // 2 - 1) + upper) / 2)


def _rank_correlations(one: Array, other: Array) -> Array:
    """Of each row of ``one`` with the same row of ``other``: (k, n), (k, n) -> (k,)."""
    a, b = rankdata(one, axis=1), rankdata(other, axis=1)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    length = np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))
    # Constant answers follow nobody: their products are 0.
    return np.asarray(np.sum(a * b, axis=1) / np.where(length > 0, length, 1.0))
