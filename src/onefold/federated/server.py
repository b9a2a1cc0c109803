"""What the server does: combine the answers of the sites that take part now."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Array, Labels
from onefold._base.validation import Entry, OneOf, Whole, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.federated.access.log import MembershipEvent, MembershipLog
from onefold.federated.contract import check_schemas
from onefold.federated.local_model import Forgotten, LocalModel
from onefold.federated.messages import Answers, Failure, Profile, Query
from onefold.federated.rules import (
    RULES,
    agreement,
    align,
    check_answers,
    combine,
    decide,
    disagreeing,
    liars_withstood,
    owned_classes,
)
from onefold.federated.trust import LabelledSet, Reason, accept, constant_sites
from onefold.federated.uncertainty import Uncertainty
from onefold.models import MAXIMA, maximum_of

__all__ = ["RULES", "GlobalClassifier", "Result", "check_alike"]

CONSTRAINTS: dict[str, Entry] = {
    "rule": OneOf(RULES),
    "n_liars": Whole(0),
    "measure": (OneOf(tuple(MAXIMA)), None),
}
# Below this rank correlation with the other sites that have its classes, a site is worth a look.
LOW_AGREEMENT = 0.0


@dataclass(frozen=True, eq=False)
class Result:
    """What a federation answers, and which sites had a part in it.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        The predicted label of each query.
    measures : ndarray of shape (n, C)
        The combined measure of each query by each class.
    classes : ndarray of shape (C,)
        Labels of the columns.
    answered : tuple of str
        Sites whose answers were used.
    missing : tuple of str
        Expected sites that sent no answers.
    partial : bool
        Whether the answers of any expected site are missing or were refused.
    refused : dict of str to str
        Sites whose answers were not used, with the reason.
    outliers : dict of str to str
        Sites whose answers were used but look odd, with the reason.
    unprotected : tuple, default=()
        Classes that the rule could not protect against the announced number of liars.

    See Also
    --------
    GlobalClassifier.combine : Returns it.

    Examples
    --------
    >>> from onefold.federated.messages import Answers
    >>> north = Answers("q", "north", ("high", "low"), "rms", 1.0, np.array([[0.1, 0.6]]))
    >>> result = GlobalClassifier().combine({"north": north}, ["north", "south"])
    >>> result.labels.tolist(), result.missing, result.partial
    (['high'], ('south',), True)
    """

    labels: Labels
    measures: Array
    classes: Labels
    answered: tuple[str, ...]
    missing: tuple[str, ...]
    partial: bool
    refused: dict[str, str]
    outliers: dict[str, str]
    unprotected: tuple[Any, ...] = ()


class GlobalClassifier:
    """A classifier made of the sites' models or of their answers, for whichever sites take part now.

    Models and answers are independent of each other, so :meth:`add` and :meth:`remove` are exact: the result
    is that of a federation which had those sites from the start, to the last bit.

    Parameters
    ----------
    rule : {"min", "trimmed", "checked", "weighted"}, default="min"
        How the answers for a class are combined.

        * "min" is the documents' rule (000 eq. 104). A single site that answers 0 decides everything: use it
          among sites that trust each other.
        * "trimmed" takes the (f + 1)-th smallest answer of the sites that have a class, f = ``n_liars``. It
          withstands f liars for classes that at least 2 f + 1 sites have, and fewer for others: see
          :func:`~onefold.federated.rules.trimmed`.
        * "checked" leaves out up to f sites whose answers do not follow those of the others, and trims for
          the liars that are left: nothing is lost where sites have unequal shares of a class. It needs some
          twenty queries at once; with fewer it is the trimmed rule. See
          :func:`~onefold.federated.rules.checked`.
        * "weighted" takes the minimum over sites whose answers predict a small labelled set, see
          :meth:`learn_trust`. It needs no second site with a class, but a site may behave on that set only.
    classes : array-like or None, default=None
        Labels of the columns of answers; None takes the labels of all sites' models, sorted.
    n_liars : int, default=1
        Number f of sites that may lie, for the trimmed and the checked rule.
    measure : str or None, default=None
        The measure of answers that are given as arrays; None takes that of the sites' models, and the
        distance if there are none. What a site answers for a class it lacks depends on it.
    log : MembershipLog or None, default=None
        Where joining and leaving is written down; sites' ids must then be names.

    See Also
    --------
    LocalModel : The model of one site.
    onefold.federated.rules : The rules as functions on arrays.

    References
    ----------
    Document 000, eq. 103-104; document 004, eq. 105, 118 and 122.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]])
    >>> server = GlobalClassifier()
    >>> _ = server.add("north", LocalModel().fit(X[:2], ["low", "low"]))
    >>> _ = server.add("south", LocalModel().fit(X[2:], ["high", "high"]))
    >>> server.predict(X).tolist()
    ['low', 'low', 'high', 'high']
    """

    def __init__(
        self,
        rule: str = "min",
        classes: ArrayLike | None = None,
        *,
        n_liars: int = 1,
        measure: str | None = None,
        log: MembershipLog | None = None,
    ) -> None:
        self.rule, self.n_liars, self.measure, self.log = rule, n_liars, measure, log
        check_parameters(self, CONSTRAINTS)
        self.classes = None if classes is None else np.asarray(classes)
        if self.classes is not None and (
            self.classes.ndim != 1 or not 0 < self.classes.size == len(np.unique(self.classes))
        ):
            raise InvalidInputError("classes must be a list of distinct labels")
        self._members: dict[Hashable, LocalModel | Array] = {}
        self._labelled: LabelledSet | None = None
        self._calibration: tuple[Any, Labels] | None = None
        self._sure: tuple[Any, Uncertainty] | None = None

    # --- sites --------------------------------------------------------------------------------------------

    @property
    def clients(self) -> tuple[Hashable, ...]:
        """Ids of the sites that take part, in the order in which they joined."""
        return tuple(self._members)

    @property
    def classes_(self) -> Labels:
        """Labels that can be predicted, in the order of the columns of answers."""
        if self.classes is not None:
            return self.classes
        if not self._models():
            raise InvalidInputError("classes are unknown: pass classes, or add a fitted LocalModel")
        return np.unique(np.concatenate([model.classes_ for model in self._models()]))

    def add(self, client_id: Hashable, member: LocalModel | Answers | ArrayLike) -> Self:
        """Let a site join, with its fitted model or with its answers to the queries at hand.

        Parameters
        ----------
        client_id : hashable
            Name of the site.
        member : LocalModel, Answers or array-like of shape (n, C)
            The model, or answers to one set of queries, in the order of the constructor's ``classes``.

        Returns
        -------
        GlobalClassifier
            This classifier.
        """
        if client_id in self._members:
            raise InvalidInputError("a site of this id takes part already: remove it first")
        if isinstance(member, LocalModel):
            self._check_comparable(member)
            joining: LocalModel | Array = member
        else:
            joining = self._check_answers(member)
        self._note(client_id, joining=True)
        self._members[client_id] = joining
        return self

    def remove(self, client_id: Hashable) -> Self:
        """Let a site leave, with everything it contributed.

        Parameters
        ----------
        client_id : hashable
            Name of the site.

        Returns
        -------
        GlobalClassifier
            This classifier.
        """
        if client_id not in self._members:
            raise InvalidInputError("no site of this id takes part")
        self._note(client_id, joining=False)
        del self._members[client_id]
        if self._labelled is not None:
            self._labelled.drop(client_id)
        return self

    def forget(self, client_id: Hashable, rows: ArrayLike, *, repartition: bool = False) -> Forgotten:
        """Let a site's model forget rows; only the batches they were in are fitted anew.

        This is for federations whose models are here; elsewhere the site calls :meth:`LocalModel.forget`
        where its data is. The log, if there is one, is told how many rows, not which.

        Parameters
        ----------
        client_id : hashable
            Name of the site.
        rows : array-like
            Numbers or identifiers of the rows.
        repartition : bool, default=False
            Divide the touched classes anew.

        Returns
        -------
        Forgotten
            What was done, and whether it was exact.
        """
        member = self._members.get(client_id)
        if not isinstance(member, LocalModel):
            raise InvalidInputError("no site of this id takes part with a model")
        done = member.forget(rows, repartition=repartition)
        if self.log is not None:
            self.log.append(MembershipEvent.FORGET, str(client_id), **done.facts)
        return done

    def learn_trust(self, X: Any, y: ArrayLike, answers: Mapping[Hashable, Answers] | None = None) -> Self:
        """Keep a small labelled set, public or held out, by which the weighted rule tests the sites.

        Trust is computed anew from the sites that take part, so it follows joining and leaving exactly.

        Parameters
        ----------
        X : array-like of shape (n, p), table or None
            Labelled queries, which models are asked about.
        y : array-like of shape (n,)
            Their labels.
        answers : mapping of site to Answers or None, default=None
            Instead of ``X``, the sites' answers to these queries; a site without any is not trusted.

        Returns
        -------
        GlobalClassifier
            This classifier.
        """
        self._labelled = LabelledSet(X, y, answers)
        return self

    def calibrate(self, X: Any, y: ArrayLike) -> Self:
        """Keep labelled rows that no site has fitted, by which probabilities and sets are calibrated.

        The sites that take part are asked about them anew whenever one has come, gone or changed, so that
        probabilities follow joining and leaving exactly.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Labelled queries, which models are asked about.
        y : array-like of shape (n,)
            Their labels.

        Returns
        -------
        GlobalClassifier
            This classifier.
        """
        self._calibration = (X, np.asarray(y))
        self._sure = None
        return self

    # --- answering ----------------------------------------------------------------------------------------

    @property
    def uncertainty_(self) -> Uncertainty:
        """Probabilities, sets and a flag for foreign rows, from :meth:`measures`; see :meth:`calibrate`."""
        if self._calibration is None:
            raise InvalidInputError(
                "probabilities need labelled rows that no site has fitted: call calibrate"
            )
        state = [(site, id(each), getattr(each, "fit_count_", 0)) for site, each in self._members.items()]
        now = (state, self.rule, self.n_liars)
        if self._sure is None or self._sure[0] != now:
            rows, labels = self._calibration
            self._sure = now, Uncertainty(self.measures(rows), labels, self.classes_)
        return self._sure[1]

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for each query, calibrated by :meth:`calibrate`.

        They are right on average over rows like those of :meth:`calibrate`. ``uncertainty_`` has more:
        prediction sets and a flag for rows unlike all of them. Without :meth:`calibrate` only joined models
        have probabilities, which follow from the public weights of their offset.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Queries; see :meth:`measures`.

        Returns
        -------
        ndarray of shape (n, C)
            Probabilities, in the order of ``classes_``; the most probable class is the predicted one.
        """
        models = self._models()
        offset = models[0].offset_ if models else None
        if self._calibration is None and offset is not None:
            return offset.probabilities(self.measures(X))
        return self.uncertainty_.probabilities(self.measures(X))

    def measures(self, X: Any = None) -> Array:
        """Return the combined measure of each query by each class.

        Parameters
        ----------
        X : array-like of shape (n, p), table or None, default=None
            Queries, as tables where the sites have a schema. Models are asked about them, and answers given
            to :meth:`add` must be answers to these very rows. None combines these answers alone.

        Returns
        -------
        ndarray of shape (n, C)
            The measures: the smallest decides.
        """
        if not self._members:
            raise InvalidInputError("no site takes part: add a site first")
        classes = self.classes_
        answers = [self._answers_of(member, X, classes) for member in self._members.values()]
        if len({part.shape for part in answers}) > 1:
            raise InvalidInputError("sites answered different numbers of queries")
        weights = self._weights(self.clients, classes, self._largest()) if self.rule == "weighted" else None
        return combine(np.stack(answers), self.rule, self.n_liars, self._largest(), weights)

    def predict(self, X: Any = None) -> Labels:
        """Return the label of each query (000 eq. 103-104, 004 eq. 118).

        Parameters
        ----------
        X : array-like of shape (n, p), table or None, default=None
            Queries; see :meth:`measures`.

        Returns
        -------
        ndarray of shape (n,)
            The labels.
        """
        decisions = decide(self.measures(X))
        return np.asarray(self.classes_[decisions])

    def combine(
        self,
        answers: Mapping[str, Answers | Failure],
        expected: Iterable[str],
        *,
        query: Query | None = None,
        profiles: Mapping[str, Profile] | None = None,
    ) -> Result:
        """Make one result from the messages that arrived, whichever sites did not answer.

        Sites that were added play no part, except that the weighted rule may ask models of the same names.

        Parameters
        ----------
        answers : mapping of str to Answers or Failure
            The message of each site.
        expected : iterable of str
            Names of all sites that were asked.
        query : Query or None, default=None
            What was asked; answers to anything else are refused. Without it the majority decides.
        profiles : mapping of str to Profile or None, default=None
            What sites declared when they joined; answers that differ from it are refused.

        Returns
        -------
        Result
            Labels, measures, and which sites had a part in them.
        """
        sites = tuple(expected)
        used, refused = accept(
            answers, sites, query=query, profiles=profiles, classes=self.classes, measure=self.measure
        )
        constant = constant_sites(used, query)
        if self.rule != "min":  # the documents' rule takes every answer within its range
            refused |= {site: str(Reason.CONSTANT) for site in constant}
            used = {site: each for site, each in used.items() if site not in constant}
        if not used:
            raise InvalidInputError("no site has given answers that can be used")
        classes = self.classes
        if classes is None:
            classes = np.unique(np.concatenate([np.array(each.classes) for each in used.values()]))
        largest = next(iter(used.values())).largest
        stacked = np.stack([align(a.values, np.array(a.classes), classes, largest) for a in used.values()])
        names, rule, n_liars = tuple(used), self.rule, self.n_liars
        if rule == "checked":
            # Sites left out count among the liars; the others that are expected are trimmed.
            n_liars = max(n_liars - len(constant), 0)
            odd = disagreeing(stacked, n_liars, largest)
            refused |= {names[number]: str(Reason.DISAGREES) for number in odd}
            stacked, names = np.delete(stacked, odd, axis=0), tuple(np.delete(names, odd).tolist())
            rule, n_liars = "trimmed", n_liars - odd.size
        weights = self._weights(names, classes, largest) if rule == "weighted" else None
        measures = combine(stacked, rule, n_liars, largest, weights)
        # Sites whose answers are used although they look odd.
        agrees = zip(names, agreement(stacked, largest), strict=True)
        outliers = {site: str(Reason.DISAGREES) for site, value in agrees if value <= LOW_AGREEMENT}
        if weights is not None:
            dropped = [site for site, mine in zip(names, weights, strict=True) if not mine.any()]
            outliers |= dict.fromkeys(dropped, str(Reason.NOT_TRUSTED))
        outliers |= {site: str(Reason.CONSTANT) for site in constant if site in names}
        unprotected: tuple[Any, ...] = ()
        if rule == "trimmed":
            withstood = liars_withstood(owned_classes(stacked, largest).sum(axis=0), n_liars)
            unprotected = tuple(classes[withstood < n_liars].tolist())
        return Result(
            labels=np.asarray(classes[decide(measures)]),
            measures=measures,
            classes=classes,
            answered=names,
            missing=tuple(site for site in sites if not isinstance(answers.get(site), Answers)),
            partial=not set(sites) <= set(names),
            refused=refused,
            outliers=outliers,
            unprotected=unprotected,
        )

    # --- inside -------------------------------------------------------------------------------------------

    def _models(self) -> list[LocalModel]:
        return [member for member in self._members.values() if isinstance(member, LocalModel)]

    def _largest(self) -> float:
        """The maximum of the measure of this federation."""
        models = self._models()
        measure = self.measure if self.measure is not None or not models else models[0].measure
        return maximum_of("euclidean" if measure is None else measure)

    def _weights(self, sites: tuple[Hashable, ...], classes: Labels, largest: float) -> Array:
        if self._labelled is None:
            raise InvalidInputError("the weighted rule needs a labelled set: call learn_trust first")
        return self._labelled.weights(sites, self._members, classes, largest)

    def _answers_of(self, member: LocalModel | Array, X: Any, classes: Labels) -> Array:
        if not isinstance(member, LocalModel):
            return member
        if X is None:
            raise InvalidInputError("sites with models need the queries: pass X")
        return member.answers(X, classes)

    def _check_answers(self, member: Any) -> Array:
        if self.classes is None:
            raise InvalidInputError("answers need the constructor's classes: they say what the columns mean")
        if isinstance(member, Answers):
            if self.measure not in (None, member.measure):
                raise InvalidInputError("sites must use the measure of this federation")
            return align(member.values, np.array(member.classes), self.classes, member.largest)
        answers = check_answers(member, 2)
        if answers.shape[1] != self.classes.size:
            raise InvalidInputError("answers must have one column per class")
        return answers

    def _check_comparable(self, model: LocalModel) -> None:
        """Answers can only be compared when they are measured alike; fails for a model that is not fitted."""
        own = model.classes_
        if self.classes is not None and not np.all(np.isin(own, self.classes)):
            raise InvalidInputError("the site has a class that is not among the classes of this federation")
        if self.measure not in (None, model.measure):
            raise InvalidInputError("sites must use the measure of this federation")
        for other in self._models()[:1]:
            if model.schema_ is not other.schema_:
                check_schemas(model.schema_, other.schema_)
            check_alike((model.measure, model.scale), (other.measure, other.scale))

    def _note(self, client_id: Hashable, joining: bool) -> None:
        if self.log is None:
            return
        site: Any = client_id
        event = MembershipEvent.LEAVE
        if joining:
            known = site in map(attrgetter("site"), self.log)
            event = MembershipEvent.REJOIN if known else MembershipEvent.JOIN
        self.log.append(event, site)


def check_alike(one: tuple[str, float | None], other: tuple[str, float | None]) -> None:
    """Refuse sites whose answers cannot be compared: another measure, or another scale."""
    if one[0] != other[0]:
        raise InvalidInputError("sites must use the same measure")
    if not np.isclose(one[1] or 1.0, other[1] or 1.0, rtol=1e-9, atol=0.0):
        raise InvalidInputError("sites see the data at different scales: give all the same number as scale")
