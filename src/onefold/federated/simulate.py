"""A whole federation in one process: what would joining bring each owner, and what would it cost?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from onefold import datasets
from onefold._base.progress import track
from onefold.exceptions import InvalidInputError
from onefold.federated._streams import Stream, stream_for
from onefold.federated.aggregate import Array, decide
from onefold.federated.client import ClassModels, LocalModel, align
from onefold.federated.liars import LIES, lie
from onefold.federated.messages import Answers, Query, to_bytes
from onefold.federated.server import GlobalClassifier
from onefold.models import AutoencoderClassifier, maximum_of
from onefold.privacy import Guarantee, Mechanism, RandomisedLabels

__all__ = ["Simulation", "simulate"]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Accuracies on one test set, who had which classes, and what would have travelled.

    Parameters
    ----------
    alone : accuracy of each owner's own model.
    pooled : accuracy of one model of all rows in one place; NaN if that was not asked for.
    federated : accuracy of the global classifier, in one round, with whatever liars there are.
    classes : labels, in the order of the columns of ``class_counts``.
    class_counts : number of rows of each class at each owner, (Q, C).
    n_test : number of test rows.
    honest : like ``federated``, with nobody lying.
    private_alone, private_federated : the same with private models; None without a mechanism.
    guarantees : what each owner's private model promises; None without a mechanism.
    query_bytes : the test rows as one message, once to each owner.
    answer_bytes : the answers of all owners.
    model_bytes : all private models as files, if they travelled instead; None without a mechanism.
    """

    alone: tuple[float, ...]
    pooled: float
    federated: float
    classes: NDArray[Any]
    class_counts: NDArray[np.intp]
    n_test: int
    honest: float
    private_alone: tuple[float, ...] | None = None
    private_federated: float | None = None
    guarantees: tuple[Guarantee, ...] | None = None
    query_bytes: int = 0
    answer_bytes: int = 0
    model_bytes: int | None = None


def simulate(
    X: ArrayLike,
    y: ArrayLike,
    n_clients: int,
    partition: str | Sequence[ArrayLike] = "iid",
    *,
    estimator: ClassModels | None = None,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    rule: str = "min",
    n_liars: int | None = None,
    liars: Mapping[int, str] | None = None,
    labelled: tuple[ArrayLike, ArrayLike] | None = None,
    mechanism: Mechanism | None = None,
    fabricate: bool = True,
    label_mechanism: RandomisedLabels | None = None,
    pooled: bool = True,
    random_state: int | None = None,
    show_progress: bool | None = None,
    **partition_options: Any,
) -> Simulation:
    """Spread rows over owners, let each fit alone, and combine them in one round.

    Owners come one after the other: each fits, answers and is forgotten, so that a thousand need the memory
    of one (and of the combined answers; the checked and the weighted rule keep all answers).

    Parameters
    ----------
    X, y : rows to be spread.
    n_clients : number of owners.
    partition : a way of :func:`onefold.datasets.partition`, or one array of row numbers per owner.
    estimator : the classifier every owner uses; ``AutoencoderClassifier()`` when None.
    X_test, y_test : rows to be judged on; when None, a quarter of every class of ``X``, which nobody then
        owns. Row numbers in ``partition`` count the rows that are left.
    rule : see :class:`GlobalClassifier`.
    n_liars : how many liars the trimmed and the checked rule expect; None expects those in ``liars``, at
        least one.
    liars : what owners who lie answer, for demonstration: "zero", "random", "flipped" or "shrunk" for some
        owners' numbers.
    labelled : queries and labels by which the weighted rule judges owners.
    mechanism, fabricate, label_mechanism : noise, as in :class:`LocalModel`: every owner then fits a private
        model as well. The noise comes from the entropy of the system, whatever ``random_state`` is.
    pooled : also fit one model of all rows, the yardstick.
    random_state : seed of the partition and of random lies.
    show_progress : None shows a bar for long runs on a terminal, True always, False never.
    **partition_options : passed on: ``alpha``, ``classes_per_client``, ``imbalance``.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> data = load("blobs")
    >>> result = simulate(data.X_train, data.y_train, 3, "classes", X_test=data.X_test, y_test=data.y_test,
    ...                   classes_per_client=2, random_state=0)
    >>> result.federated > max(result.alone)
    True
    """
    features, labels, asked, truth = _parts(X, y, X_test, y_test)
    owners = _owners(labels, n_clients, partition, random_state, partition_options)
    lies = _lies(liars, n_clients)
    prototype = AutoencoderClassifier() if estimator is None else estimator
    expected = max(len(lies), 1) if n_liars is None else n_liars
    server = GlobalClassifier(rule, classes=np.unique(labels), n_liars=expected)
    public = None if labelled is None else (np.asarray(labelled[0]), _columns(labelled[1], server.classes_))
    if rule == "weighted" and public is None:
        raise InvalidInputError("the weighted rule needs labelled queries: pass labelled=(X, y)")
    plain = _Round(server, asked, truth, public, lies, random_state)
    private = None if mechanism is None else _Round(server, asked, truth, public, lies, random_state)
    for number, rows in enumerate(track(owners, len(owners), "owners", show_progress)):
        plain.ask(number, LocalModel(prototype, keep_rows=False).fit(features[rows], labels[rows]))
        if private is not None:
            noisy = LocalModel(
                prototype, mechanism, fabricate=fabricate, label_mechanism=label_mechanism, keep_rows=False
            )
            private.ask(number, noisy.fit(features[rows], labels[rows]))
    held = np.unique(np.concatenate(owners))
    together = clone(prototype).fit(features[held], labels[held]).predict(asked) if pooled else None
    counts = [[np.sum(labels[rows] == label) for label in server.classes_] for rows in owners]
    query = Query("simulation", _floats(asked))
    return Simulation(
        tuple(plain.alone),
        float("nan") if together is None else _accuracy(together, truth),
        plain.accuracy(lying=True),
        server.classes_,
        np.array(counts, dtype=np.intp),
        len(truth),
        honest=plain.accuracy(lying=False),
        private_alone=None if private is None else tuple(private.alone),
        private_federated=None if private is None else private.accuracy(lying=True),
        guarantees=None if private is None else tuple(private.guarantees),
        query_bytes=n_clients * len(to_bytes(query)),
        answer_bytes=plain.answer_bytes,
        model_bytes=None if private is None else private.model_bytes,
    )


class _Round:
    """One round of questions and answers; of each owner only what the rule needs is kept."""

    def __init__(
        self,
        server: GlobalClassifier,
        X_test: NDArray[Any],
        y_test: NDArray[Any],
        public: tuple[NDArray[Any], NDArray[np.intp]] | None,
        lies: Mapping[int, str],
        random_state: int | None,
    ) -> None:
        self.server, self.X_test, self.y_test, self.public, self.lies = server, X_test, y_test, public, lies
        self.rng = np.random.default_rng(random_state)
        self.alone: list[float] = []
        self.guarantees: list[Guarantee] = []
        self.answer_bytes = self.model_bytes = 0
        self.streams: dict[bool, Stream] = {}
        self.likeness: tuple[str, float | None] | None = None

    def ask(self, number: int, model: LocalModel) -> None:
        """Let one owner answer, honestly and, if it is a liar, once more."""
        classes, largest = self.server.classes_, maximum_of(model.measure)
        self._check_comparable(model)
        own = model.answers(self.X_test)
        self.alone.append(_accuracy(model.classes_[own.argmin(axis=1)], self.y_test))
        columns = tuple(_columns(model.classes_, classes).tolist())
        message = Answers("simulation", f"owner-{number}", columns, model.measure, model.scale, own)
        self.answer_bytes += len(to_bytes(message))
        if model.guarantee_ is not None:
            self.guarantees.append(model.guarantee_)
            if model.is_private:
                self.model_bytes += len(to_bytes(model.to_parcel(f"owner-{number}")))
        answers = align(own, model.classes_, classes, largest)
        labelled = None if self.public is None else model.answers(self.public[0], classes)
        self._stream(False, largest).add(answers, labelled)
        if self.lies:
            if number in self.lies:
                answers = lie(self.lies[number], answers, largest, self.rng)
                labelled = None if labelled is None else lie(self.lies[number], labelled, largest, self.rng)
            self._stream(True, largest).add(answers, labelled)

    def accuracy(self, lying: bool) -> float:
        """What the combined answers are worth."""
        measures: Array = self.streams[lying and bool(self.lies)].combined()
        return _accuracy(self.server.classes_[decide(measures)], self.y_test)

    def _stream(self, lying: bool, largest: float) -> Stream:
        if lying not in self.streams:
            truth = None if self.public is None else self.public[1]
            self.streams[lying] = stream_for(self.server.rule, self.server.n_liars, largest, truth)
        return self.streams[lying]

    def _check_comparable(self, model: LocalModel) -> None:
        scale = model.scale
        if self.likeness is None:
            self.likeness = (model.measure, scale)
        if not np.isclose(self.likeness[1] or 1.0, scale or 1.0, rtol=1e-9, atol=0.0):
            raise InvalidInputError(
                "clients see the data at different scales: give all the same number as scale"
            )


def _parts(X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[Any, NDArray[Any], Any, NDArray[Any]]:
    X, y = np.asarray(X), np.asarray(y)
    if (X_test is None) != (y_test is None):
        raise InvalidInputError("X_test and y_test go together")
    if X_test is None:
        X, y, X_test, y_test = datasets.train_test_split(X, y)
    return X, y, np.asarray(X_test), np.asarray(y_test)


def _accuracy(predicted: NDArray[Any], truth: NDArray[Any]) -> float:
    return float(np.mean(predicted == truth))


def _floats(X: NDArray[Any]) -> NDArray[Any]:
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _columns(labels: ArrayLike, classes: NDArray[Any]) -> NDArray[np.intp]:
    found = np.asarray(labels)
    if not np.all(np.isin(found, classes)):
        raise InvalidInputError("labelled queries must have labels that the owners' rows have")
    return np.searchsorted(classes, found)


def _lies(liars: Mapping[int, str] | None, n_clients: int) -> dict[int, str]:
    found = dict(liars or {})
    if any(number not in range(n_clients) or kind not in LIES for number, kind in found.items()):
        raise InvalidInputError(f"liars must map owners' numbers to {', '.join(LIES)}")
    return found


def _owners(
    y: NDArray[Any],
    n_clients: int,
    partition: str | Sequence[ArrayLike],
    random_state: int | None,
    options: dict[str, Any],
) -> list[NDArray[np.intp]]:
    if isinstance(partition, str):
        return datasets.partition(y, n_clients, partition, random_state=random_state, **options)
    owners = [np.asarray(rows) for rows in partition]
    if options:
        raise InvalidInputError("options of a partition make no sense with row numbers")
    if len(owners) != n_clients:
        raise InvalidInputError("there must be one array of row numbers per client")
    for rows in owners:
        if rows.ndim != 1 or rows.size == 0 or not np.issubdtype(rows.dtype, np.integer):
            raise InvalidInputError("every client needs a list of whole row numbers, not empty")
        if rows.min() < 0 or rows.max() >= len(y):
            raise InvalidInputError("a row number lies outside the data")
    return owners
