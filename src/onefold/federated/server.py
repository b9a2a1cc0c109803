"""What the server does: combine the answers of the clients that are members now."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError
from onefold.federated._judging import RULES, Judge
from onefold.federated._labelled import LabelledSet
from onefold.federated.aggregate import Array, check_answers, decide
from onefold.federated.client import Forgotten, LocalModel, align
from onefold.federated.combination import Reason, Result, accept, constant_sites
from onefold.federated.log import MembershipEvent, MembershipLog
from onefold.federated.messages import Answers, Failure, Profile, Query
from onefold.models import check_measure, maximum_of

__all__ = ["RULES", "GlobalClassifier"]


class GlobalClassifier:
    """A classifier made of the clients' models or of their answers, whoever is a member at the moment.

    Models and answers are independent of each other, so :meth:`add` and :meth:`remove` are exact: the
    result is that of a federation which had those members from the start, to the last bit.

    Parameters
    ----------
    rule : how the answers for a class are combined.

        * "min" is the documents' rule (000 eq. 104). A single client that answers 0 decides everything: use
          it among clients that trust each other.
        * "trimmed" takes the (f + 1)-th smallest answer of the owners of a class, f = ``n_liars``. It
          withstands f liars for classes with at least 2 f + 1 owners, and fewer for others: see
          :func:`~onefold.federated.aggregate.trimmed`.
        * "checked" does without up to f clients whose answers do not follow the other owners', and trims for
          the liars that are left: nothing is lost where owners have unequal shares of a class. It needs some
          twenty queries at once; with fewer it is the trimmed rule. See
          :func:`~onefold.federated.consistency.checked`.
        * "weighted" takes the minimum over clients whose answers predict a small labelled set, see
          :meth:`learn_trust`. It needs no second owner of a class, but a client may behave on that set only.
    classes : labels of the columns of answers; None takes the labels of all members' models, sorted.
    n_liars : f, for the trimmed and the checked rule.
    measure : the measure of answers that are given as arrays; None takes that of the members' models, and
        the distance if there are none. What a client answers for a class it lacks depends on it.
    log : where joining and leaving is written down; clients' ids must then be names.

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
        self._judge = Judge(rule, n_liars)
        self.rule, self.n_liars, self.log = rule, n_liars, log
        self.measure = None if measure is None else check_measure(measure)
        self.classes = None if classes is None else np.asarray(classes)
        if self.classes is not None and (
            self.classes.ndim != 1 or not 0 < self.classes.size == len(np.unique(self.classes))
        ):
            raise InvalidInputError("classes must be a list of distinct labels")
        self._members: dict[Hashable, LocalModel | Array] = {}

    @property
    def clients(self) -> tuple[Hashable, ...]:
        """Ids of the members, in the order in which they joined."""
        return tuple(self._members)

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels that can be predicted, in the order of the columns of answers."""
        if self.classes is not None:
            return self.classes
        models = [member for member in self._members.values() if isinstance(member, LocalModel)]
        if not models:
            raise InvalidInputError("classes are unknown: pass classes, or add a fitted LocalModel")
        return np.unique(np.concatenate([model.classes_ for model in models]))

    def add(self, client_id: Hashable, member: LocalModel | Answers | ArrayLike) -> Self:
        """Let a client join, with its fitted model or with its answers (n, C) to the queries at hand.

        Answers belong to one set of queries, in the order of the constructor's ``classes``.
        """
        if client_id in self._members:
            raise InvalidInputError("this client id is taken: remove it first")
        if isinstance(member, LocalModel):
            self._check_comparable(member)
            joining: LocalModel | Array = member
        else:
            joining = self._check_answers(member)
        self._note(client_id, joining=True)
        self._members[client_id] = joining
        return self

    def remove(self, client_id: Hashable) -> Self:
        """Let a client leave, with everything it contributed."""
        if client_id not in self._members:
            raise InvalidInputError("no client of this id is a member")
        self._note(client_id, joining=False)
        del self._members[client_id]
        if self._judge.labelled is not None:
            self._judge.labelled.drop(client_id)
        return self

    def forget(self, client_id: Hashable, rows: ArrayLike, *, repartition: bool = False) -> Forgotten:
        """Let a client's model forget rows; only the batches they were in are fitted anew.

        For federations whose models are here; elsewhere the owner calls :meth:`LocalModel.forget` at home,
        which says what is exact. The log, if there is one, is told how many rows, not which.
        """
        member = self._members.get(client_id)
        if not isinstance(member, LocalModel):
            raise InvalidInputError("no client of this id is a member with a model")
        site = "local" if self.log is None else str(client_id)
        return member.forget(rows, repartition=repartition, log=self.log, site=site)

    def learn_trust(
        self, X: ArrayLike | None, y: ArrayLike, answers: Mapping[Hashable, Answers] | None = None
    ) -> Self:
        """Keep a small labelled set, public or held out, by which the weighted rule judges clients.

        Trust is judged anew from the members of the moment, so it follows joining and leaving exactly.

        Parameters
        ----------
        X, y : labelled queries, which models are asked about.
        answers : instead of ``X``, the clients' answers to these queries; a client without any is not
            trusted.
        """
        self._judge.labelled = LabelledSet(X, y, answers)
        return self

    def measures(self, X: ArrayLike | None = None) -> Array:
        """The combined measure of each query by each class, (n, C).

        Without ``X`` the answers given to :meth:`add` are combined; with ``X`` models are asked, and
        answers must be answers to these very rows.
        """
        if not self._members:
            raise InvalidInputError("there is no member: add a client first")
        classes = self.classes_
        answers = [self._answers_of(member, X, classes) for member in self._members.values()]
        if len({part.shape for part in answers}) > 1:
            raise InvalidInputError("clients answered different numbers of queries")
        stacked, members = np.stack(answers), tuple(self._members)
        return self._judge.combine(stacked, members, self._members, classes, self._largest())

    def predict(self, X: ArrayLike | None = None) -> NDArray[Any]:
        """Label of each query (000 eq. 103-104, 004 eq. 118); see :meth:`measures` for ``X``."""
        decisions = decide(self.measures(X))
        return np.asarray(self.classes_[decisions])

    def predict_from_answers(self, answers: ArrayLike) -> NDArray[Any]:
        """Label of each query from answers (Q, n, C) collected elsewhere; members play no part.

        The weighted rule is not possible here: it has to know whose answers they are.
        """
        values = check_answers(answers, 3)
        if values.shape[2] != self.classes_.size:
            raise InvalidInputError("answers must have one column per class")
        combined = self._judge.combine(values, None, {}, self.classes_, self._largest())
        return np.asarray(self.classes_[decide(combined)])

    def combine(
        self,
        answers: Mapping[str, Answers | Failure],
        expected: Iterable[str],
        *,
        query: Query | None = None,
        profiles: Mapping[str, Profile] | None = None,
    ) -> Result:
        """One result from the messages that arrived, whoever did not answer; members play no part.

        Parameters
        ----------
        answers : the message of each site.
        expected : all sites that were asked.
        query : what was asked; answers to anything else are refused. Without it the majority decides.
        profiles : what sites declared at joining; answers that differ from it are refused.
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
        largest = maximum_of(next(iter(used.values())).measure)
        stacked = np.stack([align(a.values, np.array(a.classes), classes, largest) for a in used.values()])
        judge, odd = self._judge.after_checking(stacked, len(constant), largest)
        refused |= {tuple(used)[number]: str(Reason.DISAGREES) for number in odd}
        stacked, names = np.delete(stacked, odd, axis=0), tuple(np.delete(tuple(used), odd).tolist())
        measures = judge.combine(stacked, names, self._members, classes, largest)
        outliers = {site: str(Reason.CONSTANT) for site in constant if site in names}
        return Result(
            labels=np.asarray(classes[decide(measures)]),
            measures=measures,
            classes=classes,
            answered=names,
            missing=tuple(site for site in sites if not isinstance(answers.get(site), Answers)),
            partial=not set(sites) <= set(names),
            refused=refused,
            outliers=judge.outliers(stacked, names, self._members, classes, largest) | outliers,
            unprotected=judge.unprotected(stacked, classes, largest),
        )

    def _largest(self) -> float:
        if self.measure is not None:
            return maximum_of(self.measure)
        for member in self._members.values():
            if isinstance(member, LocalModel):
                return maximum_of(member.measure)
        return float("inf")

    def _answers_of(self, member: LocalModel | Array, X: ArrayLike | None, classes: NDArray[Any]) -> Array:
        if not isinstance(member, LocalModel):
            return member
        if X is None:
            raise InvalidInputError("members with models need the queries: pass X")
        return member.answers(X, classes)

    def _check_answers(self, member: Any) -> Array:
        if self.classes is None:
            raise InvalidInputError("answers need the constructor's classes: they say what the columns mean")
        if isinstance(member, Answers):
            if self.measure not in (None, member.measure):
                raise InvalidInputError("clients must use the measure of this federation")
            return align(member.values, np.array(member.classes), self.classes, maximum_of(member.measure))
        answers = check_answers(member, 2)
        if answers.shape[1] != self.classes.size:
            raise InvalidInputError("answers must have one column per class")
        return answers

    def _check_comparable(self, model: LocalModel) -> None:
        """Answers can only be compared when they are measured alike; fails for a model that is not fitted."""
        own = model.classes_
        if self.classes is not None and not np.all(np.isin(own, self.classes)):
            raise InvalidInputError("the client has a class that is not among the classes of this federation")
        if self.measure not in (None, model.measure):
            raise InvalidInputError("clients must use the measure of this federation")
        for other in self._members.values():
            if not isinstance(other, LocalModel):
                continue
            if other.measure != model.measure:
                raise InvalidInputError("clients must use the same measure")
            if not np.isclose(other.scale or 1.0, model.scale or 1.0, rtol=1e-9, atol=0.0):
                raise InvalidInputError(
                    "clients see the data at different scales: give all the same number as scale"
                )
            return

    def _note(self, client_id: Hashable, joining: bool) -> None:
        if self.log is None:
            return
        site: Any = client_id
        event = MembershipEvent.LEAVE
        if joining:
            known = any(entry.site == site for entry in self.log)
            event = MembershipEvent.REJOIN if known else MembershipEvent.JOIN
        self.log.append(event, site)
