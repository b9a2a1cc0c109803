"""Which sites to believe: messages that can be used, and sites that predict a labelled set.

Messages that arrived are sorted by :func:`accept` into those that belong together and those that do not, with
a reason for each. The weighted rule needs more: a small labelled set, public or held out, that sites do not
know to be one. :func:`learn_trust` tests sites by their answers to it, and :func:`hide` hides it among the
rows of a query. A site that behaves on these rows and lies on others is not found, and a site that keeps the
rows it was asked about can recognise those that come again: exchange the labelled set now and then, and use
the trimmed rule where enough sites have each class.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from onefold._base.arrays import AnyArray, Array, Index, Labels, Mask
from onefold.exceptions import InvalidInputError
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import Answers, Failure, Profile, Query
from onefold.federated.rules import agreement, align, check_answers, check_truth, owned_classes
from onefold.models import JOINED

__all__ = [
    "HiddenProbes",
    "LabelledSet",
    "Reason",
    "accept",
    "agreement",
    "constant_sites",
    "hide",
    "learn_trust",
    "separation",
]

# So many different queries are never equally far from anything.
CONSTANT_ROWS = 5
STANDARD_ERRORS = 2.0


# --- messages that can be used ----------------------------------------------------------------------------


class Reason(StrEnum):
    """Why the answers of a site were not used, or are worth a look; a failed site gives its own code."""

    MALFORMED = "malformed"  # not a valid message of answers
    UNEXPECTED = "unexpected"  # not a site that takes part
    WRONG_SITE = "wrong-site"  # speaks in the name of another site
    WRONG_QUERY = "wrong-query"  # answers another query, or another number of rows
    WRONG_MEASURE = "wrong-measure"  # another measure or scale than the federation's
    WRONG_CLASSES = "wrong-classes"  # a class the federation does not have, or labels of another kind
    UNLIKE_PROFILE = "unlike-profile"  # other classes or another measure than the site declared at joining
    CONSTANT = "constant"  # the same answer to every query
    DISAGREES = "disagrees"  # does not follow the other sites that have its classes
    NOT_TRUSTED = "not-trusted"  # did not predict the labelled queries


def accept(
    answers: Mapping[str, Answers | Failure],
    expected: Iterable[str],
    *,
    query: Query | None = None,
    profiles: Mapping[str, Profile] | None = None,
    classes: Labels | None = None,
    measure: str | None = None,
) -> tuple[dict[str, Answers], dict[str, str]]:
    """Sort messages into answers that belong together and sites whose answers cannot be used.

    What the query or a site's profile does not settle is settled by the majority: the id and length of the
    query, the measure and scale, the kind of the labels.

    Parameters
    ----------
    answers : mapping of str to Answers or Failure
        The message of each site.
    expected : iterable of str
        Names of the sites that were asked.
    query : Query or None, default=None
        What was asked.
    profiles : mapping of str to Profile or None, default=None
        What sites declared when they joined.
    classes : ndarray or None, default=None
        Labels of the federation; a site that answers for others is refused.
    measure : str or None, default=None
        The measure of the federation.

    Returns
    -------
    good : dict of str to Answers
        Answers that can be combined.
    refused : dict of str to str
        The other sites, with the reason.
    """
    members = set(expected)
    good: dict[str, Answers] = {}
    refused: dict[str, str] = {}
    for site in sorted(answers):
        message = answers[site]
        reason = _objection(site, message, members, (profiles or {}).get(site))
        if reason is None and isinstance(message, Answers):
            good[site] = message
        else:
            refused[site] = str(reason)
    known = None if query is None else (query.id, len(query.features))
    steps: list[tuple[Reason, Callable[[Answers], Any], Any]] = [
        (Reason.WRONG_QUERY, lambda a: (a.query_id, len(a.values)), known),
        (Reason.WRONG_MEASURE, lambda a: (a.measure, a.scale), None),
        (Reason.WRONG_CLASSES, lambda a: type(a.classes[0]), None),
    ]
    if measure is not None:
        steps.insert(0, (Reason.WRONG_MEASURE, lambda a: a.measure, measure))
    if classes is not None:
        known_labels = set(classes.tolist())
        steps.append((Reason.WRONG_CLASSES, lambda a: set(a.classes) <= known_labels, True))
    for why, what, settled in steps:
        kinds = {site: what(each) for site, each in good.items()}
        if settled is None and kinds:  # the most frequent; of equally frequent ones the first
            settled = Counter(kinds.values()).most_common(1)[0][0]
        refused |= {site: str(why) for site, kind in kinds.items() if kind != settled}
        good = {site: each for site, each in good.items() if kinds[site] == settled}
    return good, refused


def _objection(site: str, message: Any, members: set[str], profile: Profile | None) -> str | None:
    if site not in members:
        return Reason.UNEXPECTED
    if isinstance(message, Failure):
        return message.code
    if not isinstance(message, Answers):
        return Reason.MALFORMED
    if message.site != site:
        return Reason.WRONG_SITE
    if profile is not None:
        # A site that sent sums answers with scores of all sites, whose weight changes with who takes part.
        joined = profile.sums is not None
        scale = message.scale if joined else profile.scale
        declared = (set(profile.classes), JOINED if joined else profile.measure, scale)
        if (set(message.classes), message.measure, message.scale) != declared:
            return Reason.UNLIKE_PROFILE
    return None


def constant_sites(answers: Mapping[str, Answers], query: Query | None = None) -> list[str]:
    """Return sites that give the same answer, and not the maximum, to all of several different queries."""
    found = []
    n_different = None if query is None else len(np.unique(query.features, axis=0))
    for site, each in answers.items():
        if (len(each.values) if n_different is None else n_different) < CONSTANT_ROWS:
            continue
        still = np.all(each.values == each.values[0], axis=0)
        if np.any(still & (each.values[0] < each.largest)):
            found.append(site)
    return found


# --- sites that predict a labelled set --------------------------------------------------------------------


def separation(answers: ArrayLike, truth: ArrayLike, largest: float = np.inf) -> tuple[Array, Array]:
    """Return how well each site's answers for a class tell queries of the class from others, with errors.

    The number is the probability that a query of the class is answered with less than another one (the area
    under the ROC curve): 1 for perfect, 1/2 for constant or random answers, less for swapped classes. It is
    NaN where the site lacks the class or the labelled set has no query inside or outside of it.

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites to the labelled queries.
    truth : array-like of int of shape (n,)
        Column of the right class.
    largest : float, default=inf
        The maximum of the measure.

    Returns
    -------
    areas : ndarray of shape (Q, C)
        The probabilities.
    errors : ndarray of shape (Q, C)
        Standard errors of answers that know nothing (Mann and Whitney's variance, without ties).
    """
    values = check_answers(answers, 3, largest)
    columns = check_truth(truth, values.shape[1], values.shape[2])
    n_sites, n_queries, n_classes = values.shape
    areas = np.full((n_sites, n_classes), np.nan)
    errors = np.full((n_sites, n_classes), np.nan)
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
    """Return weights (Q, C), 1 or 0, for the weighted rule, from answers to labelled queries.

    A site's answers for a class count only if they separate the class better than chance, by two standard
    errors. Where there are too few labelled queries of a class to tell (fewer than two, usually), a site is
    believed if at least half of its other classes are. A site is left out altogether if one of its classes
    separates worse than chance by as much (swapped classes), or if the other sites decide the labelled
    queries better without it, by two standard errors of the difference.

    Parameters
    ----------
    answers : array-like of shape (Q, n, C)
        Answers of all sites to the labelled queries.
    truth : array-like of int of shape (n,)
        Column of the right class.
    largest : float, default=inf
        The maximum of the measure.

    Examples
    --------
    >>> honest = [[0.1, 0.9], [0.2, 0.8], [0.9, 0.1], [0.8, 0.3]] * 3
    >>> liar = [[0.0, 0.0]] * 12
    >>> learn_trust([honest, liar], [0, 0, 1, 1] * 3).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    values = check_answers(answers, 3, largest)
    columns = check_truth(truth, values.shape[1], values.shape[2])
    areas, errors = separation(values, columns, largest)
    with np.errstate(invalid="ignore"):  # comparisons with NaN are false: a site not judged is not believed
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


def _most_harmful(values: Array, columns: Index, trusted: Mask, largest: float) -> int | None:
    """The site without which most labelled queries are decided better, if the gain is no accident."""
    kept = np.where(trusted[:, None, :], values, values.dtype.type(largest))
    ranked = np.sort(kept, axis=0)
    right = ranked[0].argmin(axis=1) == columns
    best, gain = None, 0.0
    for site in np.flatnonzero(trusted.any(axis=1)):
        # The minimum of the others: the second smallest where this site has the smallest.
        without = np.where(kept[site] == ranked[0], ranked[1], ranked[0])
        better = without.argmin(axis=1) == columns
        won, lost = int(np.sum(better & ~right)), int(np.sum(right & ~better))
        if won - lost > max(STANDARD_ERRORS * np.sqrt(won + lost), gain):
            best, gain = int(site), float(won - lost)
    return best


class LabelledSet:
    """Queries whose labels are known, or only the answers to them.

    Parameters
    ----------
    X : array-like of shape (n, p), table or None
        The labelled queries, about which models are asked.
    y : array-like of shape (n,)
        Their labels.
    answers : mapping of site to Answers or None, default=None
        Instead of ``X``, the answers of sites to these queries.
    """

    def __init__(self, X: Any, y: ArrayLike, answers: Mapping[Hashable, Answers] | None = None) -> None:
        self.queries, self.labels = X, np.asarray(y)
        if self.labels.ndim != 1 or self.labels.size == 0:
            raise InvalidInputError("y must be a list of labels, at least one")
        if (X is None) == (answers is None):
            raise InvalidInputError("pass either the labelled queries or the answers to them")
        # Classes and answers of each site, and which fit of its model gave them.
        self._known: dict[Hashable, tuple[Labels, Array, int]] = {}
        for site, each in (answers or {}).items():
            if not isinstance(each, Answers) or len(each.values) != self.labels.size:
                raise InvalidInputError("every site must have answered each labelled query")
            self._known[site] = (np.array(each.classes), each.values, 0)

    def drop(self, site: Hashable) -> None:
        """Forget what a site answered."""
        self._known.pop(site, None)

    def weights(
        self, sites: tuple[Hashable, ...], members: Mapping[Hashable, Any], classes: Labels, largest: float
    ) -> Array:
        """Return weights (Q, C) of these sites and classes, judged together; 0 for one that cannot be judged.

        Sites whose models are here are asked about the labelled queries, once after each fit.
        """
        for site in sites:
            member = members.get(site)
            if self.queries is not None and isinstance(member, LocalModel):
                asked = self._known.get(site)
                if asked is None or asked[2] != member.fit_count_:
                    self._known[site] = (member.classes_, member.answers(self.queries), member.fit_count_)
        found = np.zeros((len(sites), classes.size))
        judged = [number for number, site in enumerate(sites) if site in self._known]
        usable = np.isin(self.labels, classes)
        if judged and usable.any():
            known = [self._known[sites[number]] for number in judged]
            stacked = np.stack([_columns(own, values[usable], classes, largest) for own, values, _ in known])
            order = np.argsort(classes, kind="stable")
            truth = order[np.searchsorted(classes, self.labels[usable], sorter=order)]
            found[judged] = learn_trust(stacked, truth, largest)
        return found


def _columns(own: Labels, values: Array, classes: Labels, largest: float) -> Array:
    """Answers in the columns of ``classes``; what a site answers for other classes is left out."""
    kept = np.isin(own, classes)
    return align(values[:, kept], own[kept], classes, largest)


# --- a labelled set among other rows ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HiddenProbes:
    """A query with labelled rows among the others.

    Parameters
    ----------
    mixed : Query
        What the sites are asked.
    asked : Query
        The query alone, as if nothing had been hidden in it.
    places, labelled_places : ndarray of int
        Where its rows, and the labelled ones, are in ``mixed``.
    """

    mixed: Query
    asked: Query
    places: Index
    labelled_places: Index

    def parted(
        self, messages: Mapping[str, Answers | Failure]
    ) -> tuple[dict[str, Answers | Failure], dict[Any, Answers]]:
        """Return the messages to the query alone, and the answers to the labelled rows.

        A message that does not answer the mixed query stays as it is, to be refused by :func:`accept`.

        Parameters
        ----------
        messages : mapping of str to Answers or Failure
            The message of each site to ``mixed``.
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


def hide(rows: AnyArray, labelled: AnyArray | None, query_id: str) -> HiddenProbes:
    """Hide labelled rows among the rows of a query, in an order drawn from the entropy of the system.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Rows of the query.
    labelled : ndarray of shape (m, p) or None
        Labelled rows; None hides nothing and keeps the order.
    query_id : str
        Name of the query.

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
