"""What the server does: combine the answers of the clients that are members now."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError
from onefold.federated.aggregate import Array, check_answers, decide, minimum
from onefold.federated.client import LocalModel

__all__ = ["RULES", "GlobalClassifier"]

RULES: dict[str, Callable[[ArrayLike], Array]] = {"min": minimum}


class GlobalClassifier:
    """A classifier made of the clients' models or of their answers, whoever is a member at the moment.

    Models and answers are independent of each other, so :meth:`add` and :meth:`remove` are exact: the
    result is that of a federation which had those members from the start.

    Parameters
    ----------
    rule : how the answers for a class are combined; "min" is the documents' rule (000 eq. 104). With it a
        single client that answers 0 decides everything: use it among clients that trust each other.
    classes : labels of the columns of answers; None takes the labels of all members' models, sorted.

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

    def __init__(self, rule: str = "min", classes: ArrayLike | None = None) -> None:
        if rule not in RULES:
            raise InvalidInputError(f"rule must be one of {', '.join(sorted(RULES))}")
        self.rule = rule
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

    def add(self, client_id: Hashable, member: LocalModel | ArrayLike) -> Self:
        """Let a client join, with its fitted model or with its answers (n, C) to the queries at hand.

        Answers belong to one set of queries, in the order of the constructor's ``classes``.
        """
        if client_id in self._members:
            raise InvalidInputError("this client id is taken: remove it first")
        if isinstance(member, LocalModel):
            self._check_comparable(member)
            self._members[client_id] = member
            return self
        if self.classes is None:
            raise InvalidInputError("answers need the constructor's classes: they say what the columns mean")
        answers = check_answers(member, 2)
        if answers.shape[1] != self.classes.size:
            raise InvalidInputError("answers must have one column per class")
        self._members[client_id] = answers
        return self

    def remove(self, client_id: Hashable) -> Self:
        """Let a client leave, with everything it contributed."""
        if client_id not in self._members:
            raise InvalidInputError("no client of this id is a member")
        del self._members[client_id]
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
        return RULES[self.rule](np.stack(answers))

    def predict(self, X: ArrayLike | None = None) -> NDArray[Any]:
        """Label of each query (000 eq. 103-104, 004 eq. 118); see :meth:`measures` for ``X``."""
        decisions = decide(self.measures(X))
        return np.asarray(self.classes_[decisions])

    def predict_from_answers(self, answers: ArrayLike) -> NDArray[Any]:
        """Label of each query from answers (Q, n, C) collected elsewhere; members play no part."""
        combined = RULES[self.rule](check_answers(answers, 3))
        if combined.shape[1] != self.classes_.size:
            raise InvalidInputError("answers must have one column per class")
        return np.asarray(self.classes_[decide(combined)])

    def _answers_of(self, member: LocalModel | Array, X: ArrayLike | None, classes: NDArray[Any]) -> Array:
        if not isinstance(member, LocalModel):
            return member
        if X is None:
            raise InvalidInputError("members with models need the queries: pass X")
        return member.answers(X, classes)

    def _check_comparable(self, model: LocalModel) -> None:
        """Answers can only be compared when they are measured alike; fails for a model that is not fitted."""
        own = model.classes_
        if self.classes is not None and not np.all(np.isin(own, self.classes)):
            raise InvalidInputError("the client has a class that is not among the classes of this federation")
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
