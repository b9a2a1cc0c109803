"""A whole federation in one process: what joining would bring each site, and what it would cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from onefold._base.arrays import AnyArray, Array, Index, Labels, Mask
from onefold._base.parallel import track
from onefold._base.validation import OneOf, check_parameter, check_rows
from onefold.datasets import partition as spread
from onefold.datasets import train_test_split
from onefold.exceptions import InvalidInputError
from onefold.federated.contract import class_labels, default_classifier, encoded_table
from onefold.federated.joined import Agreement, JoinedSums, Offset
from onefold.federated.joined_server import RowForm, agree_on_form, lift_width, publish
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import Answers, Query
from onefold.federated.rules import align, combine, decide, liars_withstood
from onefold.federated.server import GlobalClassifier, check_alike
from onefold.federated.trust import learn_trust
from onefold.models import JOINED, AutoencoderClassifier, FoldingClassifier, maximum_of
from onefold.privacy import Guarantee, Mechanism, RandomisedLabels
from onefold.privacy.contract import under_contract
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND

__all__ = ["LIES", "METHODS", "Simulation", "lie", "simulate"]

METHODS = ("auto", "joined", "folding", "moments")
NO_CLOSED_FORM = "this estimator has no leave-one-out distances in closed form: use method='folding'"


@dataclass(frozen=True, eq=False)
class Simulation:
    """Accuracies on one test set, which site had which classes, and how many bytes would have travelled.

    Parameters
    ----------
    alone : tuple of float
        Accuracy of each site's own model.
    pooled : float
        Accuracy of one model of all rows in one place; NaN if that was not asked for.
    federated : float
        Accuracy of the global classifier, in one round, with whatever liars there are.
    classes : ndarray of shape (C,)
        Labels, in the order of the columns of ``class_counts``.
    class_counts : ndarray of int of shape (Q, C)
        Number of rows of each class at each site.
    n_test : int
        Number of test rows.
    honest : float
        Like ``federated``, if no site lied.
    private_alone : tuple of float or None, default=None
        Like ``alone``, with private models; None without a mechanism.
    private_federated : float or None, default=None
        Like ``federated``, with private models; None without a mechanism.
    guarantees : tuple of Guarantee or None, default=None
        What each site's private model promises; None without a mechanism.
    query_bytes : int, default=0
        The test rows as one message, once to each site.
    answer_bytes : int, default=0
        The answers of all sites.
    model_bytes : int or None, default=None
        All private models as files, if they travelled instead; None without a mechanism.
    method : {"joined", "folding", "moments"}, default="folding"
        What the sites sent and answered.
    sum_bytes : int, default=0
        The sums of all sites, sent once, and what the server published of them, once to each site.
    majority : float, default=nan
        Accuracy of always answering the most frequent class of the sites' rows.
    gain_interval : tuple of (float, float) or None, default=None
        95 % interval of ``federated`` less ``majority``, for independent test rows.

    See Also
    --------
    simulate : Returns it.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> data = load("blobs")
    >>> result = simulate(data.X_train, data.y_train, 2, random_state=0)
    >>> len(result.alone), int(result.class_counts.sum()) + result.n_test == len(data.y_train)
    (2, True)
    """

    alone: tuple[float, ...]
    pooled: float
    federated: float
    classes: Labels
    class_counts: Index
    n_test: int
    honest: float
    private_alone: tuple[float, ...] | None = None
    private_federated: float | None = None
    guarantees: tuple[Guarantee, ...] | None = None
    query_bytes: int = 0
    answer_bytes: int = 0
    model_bytes: int | None = None
    method: str = "folding"
    sum_bytes: int = 0
    majority: float = float("nan")
    gain_interval: tuple[float, float] | None = None


def simulate(
    X: Any,
    y: ArrayLike | None,
    n_clients: int,
    partition: str | Sequence[ArrayLike] = "iid",
    *,
    method: str = "auto",
    schema: Schema = AS_THEY_STAND,
    estimator: Any = None,
    X_test: Any = None,
    y_test: ArrayLike | None = None,
    rule: str = "min",
    n_liars: int | None = None,
    liars: Mapping[int, str] | None = None,
    labelled: tuple[Any, Any] | None = None,
    mechanism: Mechanism | None = None,
    fabricate: bool = True,
    label_mechanism: RandomisedLabels | None = None,
    pooled: bool = True,
    random_state: int | None = None,
    show_progress: bool | None = None,
    **partition_options: Any,
) -> Simulation:
    """Spread rows over sites, let each fit alone, and combine them in one round.

    Sites come one after the other: each fits, answers and is forgotten, so that a thousand need the memory of
    one (and of the combined answers; the checked and the weighted rule keep all answers).

    Joined and moments federations send sums of rows without noise: **nothing of them is private**, see
    :mod:`onefold.federated.joined`. Rows of plain numbers, without a schema, are first brought to a form that
    sites agree on by further small messages of sums, :func:`onefold.federated.joined_server.agree_on_form`.

    Parameters
    ----------
    X : array-like of shape (n, p), or table
        Rows to be spread; with a schema a table.
    y : array-like of shape (n,) or None
        Their labels; None takes the label column of the schema, here and below.
    n_clients : int
        Number of sites.
    partition : str or sequence of array-like, default="iid"
        A way of :func:`onefold.datasets.partition`, or one array of row numbers per site.
    method : {"auto", "joined", "folding", "moments"}, default="auto"
        "joined": sites answer with distances, to which scores from the sum of all sites' rows are added.
        "folding": distances or folding measures alone (the documents' federation; no sums are sent).
        "moments": the scores alone; sites are not asked.
        "auto": "moments" for a table with a schema, where distances say little, and else "joined"; also
        where an estimator, a mechanism, liars or another rule than the minimum is given.
    schema : Schema, default=AS_THEY_STAND
        The declared contract of the table, as in :class:`LocalModel`.
    estimator : classifier or None, default=None
        The classifier every site uses; None takes that of :class:`LocalModel`, and for a joined federation
        machines of one layer on small batches. A joined federation takes its distance, whatever its measure
        is. The method "moments" uses none.
    X_test : array-like of shape (m, p), table or None, default=None
        Rows to be judged on; None takes a quarter of every class of ``X``, which no site then has. Row
        numbers in ``partition`` count the rows that are left.
    y_test : array-like of shape (m,) or None, default=None
        Their labels.
    rule : {"min", "trimmed", "checked", "weighted"}, default="min"
        See :class:`GlobalClassifier`.
    n_liars : int or None, default=None
        How many liars the trimmed and the checked rule expect; None expects those in ``liars``, at least one.
    liars : mapping of int to str or None, default=None
        What sites that lie answer, for demonstration: "zero", "random", "flipped" or "shrunk" for the numbers
        of some sites.
    labelled : tuple of (X, y) or None, default=None
        Queries and labels by which the weighted rule tests the sites.
    mechanism : Mechanism or None, default=None
        Noise, as in :class:`LocalModel`: every site then fits a private model as well. The noise comes from
        the entropy of the system, whatever ``random_state`` is. Private models answer by folding alone.
    fabricate : bool, default=True
        Smooth after the noise.
    label_mechanism : RandomisedLabels or None, default=None
        Randomises the labels as well.
    pooled : bool, default=True
        Also fit one model of all rows, for comparison.
    random_state : int or None, default=None
        Seed of the partition and of random lies.
    show_progress : bool or None, default=None
        None shows a bar for long runs on a terminal, True always, False never.
    **partition_options : dict
        Passed on to the partition: ``alpha``, ``classes_per_client``, ``imbalance``.

    Returns
    -------
    Simulation
        Accuracies and bytes.

    See Also
    --------
    GlobalClassifier : The rules.
    LocalModel : The model of one site.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> data = load("blobs")
    >>> result = simulate(data.X_train, data.y_train, 3, "classes", X_test=data.X_test, y_test=data.y_test,
    ...                   classes_per_client=2, random_state=0)
    >>> result.federated > max(result.alone)
    True
    """
    schema = Schema.of(schema)
    X, y = encoded_table(schema, X, y, mechanism)
    if X_test is not None and not schema.plain:
        X_test, y_test = schema.transform(X_test), class_labels(schema, X_test, y_test)
    if labelled is not None:
        labelled = schema.transform(labelled[0]), class_labels(schema, *labelled)
    features, labels, asked, truth = _parts(X, y, X_test, y_test)
    sites = _sites(labels, n_clients, partition, random_state, partition_options)
    lies = _lies(liars, n_clients)
    check_parameter("method", method, OneOf(METHODS))
    if method == "auto":
        needs_sites = estimator is not None or mechanism is not None or lies or rule != "min"
        method = "joined" if schema.plain or needs_sites else "moments"
    prototype = _prototype(method, schema, estimator)
    expected = max(len(lies), 1) if n_liars is None else n_liars
    server = GlobalClassifier(rule, classes=np.unique(labels), n_liars=expected)
    public: Any = (
        None if labelled is None else (_numbers(labelled[0]), _columns(labelled[1], server.classes_))
    )
    if rule == "weighted" and public is None:
        raise InvalidInputError("the weighted rule needs labelled queries: pass labelled=(X, y)")
    counts = np.array([[np.sum(labels[rows] == label) for label in server.classes_] for rows in sites])
    about: dict[str, Any] = {"classes": server.classes_, "class_counts": counts, "n_test": len(truth)}
    if method == "moments":
        if mechanism is not None or lies or rule != "min":
            raise InvalidInputError(
                "the method 'moments' has no rules, liars and mechanisms: use 'folding' or MomentFederation"
            )
        alone, together, predicted, sent = _from_sums(
            _Sums(server.classes_, features, labels, sites, schema, machines=False),
            features,
            labels,
            asked,
            truth,
            sites,
            pooled,
        )
        return Simulation(
            alone,
            _accuracy(together, truth),
            _accuracy(predicted, truth),
            **about,
            honest=_accuracy(predicted, truth),
            method=method,
            sum_bytes=sent,
            **_beside_majority(predicted, truth, server.classes_, counts),
        )
    sums, given = None, features
    floats = asked if asked.dtype in (np.float32, np.float64) else asked.astype(np.float64)
    private = None if mechanism is None else _Round(server, asked, truth, public, lies, random_state)
    if method == "joined":
        sums = _Sums(server.classes_, features, labels, sites, schema)
        features, asked = sums.prepared(features), sums.prepared(asked)
        public = None if public is None else (sums.prepared(public[0]), public[1])
    plain = _Round(server, asked, truth, public, lies, random_state, squared=sums is not None)
    noise: dict[str, Any] = {"fabricate": fabricate, "label_mechanism": label_mechanism, "keep_rows": False}
    for number, rows in enumerate(track(sites, len(sites), "sites", show_progress)):
        model = LocalModel(prototype, keep_rows=False).fit(features[rows], labels[rows])
        plain.ask(number, model)
        if sums is not None:
            sums.add(features[rows], labels[rows], model)
        if private is not None:
            noisy = LocalModel(_prototype("folding", schema, estimator), mechanism, **noise)
            private.ask(number, noisy.fit(given[rows], labels[rows]))
    offset = None if sums is None else sums.published()
    plain.finish(offset)
    together = None
    if pooled:
        held = np.unique(np.concatenate(sites))
        one = LocalModel(prototype, keep_rows=False).fit(features[held], labels[held])
        if sums is None:
            together = one.estimator_.predict(asked)
        else:
            answers = one.join(sums.alone(features[held], labels[held], one)).answers(asked)
            together = one.classes_[answers.argmin(axis=1)]
    predicted = plain.lying.predicted()
    return Simulation(
        tuple(plain.alone),
        _accuracy(together, truth),
        _accuracy(predicted, truth),
        **about,
        honest=_accuracy(plain.honest.predicted(), truth),
        **({} if private is None else private.promised(schema)),
        query_bytes=n_clients * len(Query("simulation", floats).to_bytes()),
        answer_bytes=plain.answer_bytes,
        method=method,
        sum_bytes=0 if sums is None or offset is None else sums.traffic(offset),
        **_beside_majority(predicted, truth, server.classes_, counts),
    )


def _from_sums(
    sums: _Sums,
    features: AnyArray,
    labels: Labels,
    asked: AnyArray,
    truth: Labels,
    sites: list[Index],
    pooled: bool,
) -> tuple[tuple[float, ...], Labels | None, Labels, int]:
    """The federation of sums alone: sites send them once and are not asked."""
    features, asked, alone = sums.prepared(features), sums.prepared(asked), []
    for rows in sites:
        sums.add(features[rows], labels[rows])
        alone.append(_accuracy(sums.alone(features[rows], labels[rows]).predict(asked), truth))
    offset, held = sums.published(), np.unique(np.concatenate(sites))
    together = sums.alone(features[held], labels[held]).predict(asked) if pooled else None
    return tuple(alone), together, np.asarray(offset.predict(asked)), sums.traffic(offset)


def _prototype(method: str, schema: Schema, estimator: Any) -> Any:
    """What every site fits: the documents' classifier, or one that can be joined with a ridge."""
    if estimator is None and schema.plain:
        small = FoldingClassifier(batch_size=50, measure="euclidean")
        return small if method == "joined" else AutoencoderClassifier()
    found: Any = default_classifier(schema) if estimator is None else estimator
    if method != "joined":
        return found
    if not hasattr(found, "leave_one_out_squares"):
        raise InvalidInputError(NO_CLOSED_FORM)
    return clone(found).set_params(measure="euclidean")


class _Sums:
    """What the sites of a joined or a moments federation send before the first query."""

    def __init__(
        self,
        classes: Labels,
        features: AnyArray,
        labels: Labels,
        sites: Sequence[Index],
        schema: Schema,
        *,
        machines: bool = True,
    ) -> None:
        parts = [check_rows(FoldingClassifier(), features[rows]) for rows in sites]  # in the words of a fit
        directions = lift_width(parts[0].shape[1], sum(len(part) for part in parts))
        self.total: JoinedSums | None = None
        self.n_sites = self.n_sent = 0
        # Machines need rows as a schema encodes them; for scores alone their directions say more.
        self.form: RowForm | None = None if machines else RowForm(None, 1.0)
        if schema.plain:
            self.form, self.n_sent = agree_on_form(parts, [labels[rows] for rows in sites], classes)
            self.agreement = self.form.agreement(classes, directions)
        else:
            radius = float(schema.row_norm) if machines else 1.0
            self.agreement = Agreement(classes, radius, directions, of_table=True)

    def prepared(self, rows: AnyArray) -> Array:
        """Rows in the form that the sites agreed on."""
        return rows if self.form is None else self.form.apply(rows)

    def add(self, X: Array, y: Labels, model: LocalModel | None = None) -> None:
        """Let a site send its sums."""
        sums = self._of(X, y, model)
        self.n_sites, self.n_sent = self.n_sites + 1, self.n_sent + len(sums.to_bytes())
        self.total = sums if self.total is None else self.total.add(sums)

    def published(self) -> Offset:
        """What the server makes of the sum."""
        assert self.total is not None  # there is at least one site
        return publish(self.agreement, self.total)

    def alone(self, X: Array, y: Labels, model: LocalModel | None = None) -> Offset:
        """What a federation of one site would publish."""
        return publish(self.agreement, self._of(X, y, model))

    def traffic(self, offset: Offset) -> int:
        """Bytes of all sums, and of what is published, once to each site."""
        return self.n_sent + self.n_sites * len(offset.to_bytes())

    def _of(self, X: Array, y: Labels, model: LocalModel | None) -> JoinedSums:
        try:
            squares = () if model is None else model.estimator_.leave_one_out_squares()
        except AttributeError:
            raise InvalidInputError(NO_CLOSED_FORM) from None
        return JoinedSums.of(self.agreement, X, y, squares)


class _Round:
    """One round of questions and answers; of each site only what the rule needs is kept."""

    def __init__(
        self,
        server: GlobalClassifier,
        X_test: AnyArray,
        y_test: Labels,
        public: tuple[AnyArray, Index] | None,
        lies: Mapping[int, str],
        random_state: int | None,
        *,
        squared: bool = False,
    ) -> None:
        self.server, self.X_test, self.y_test, self.public, self.lies = server, X_test, y_test, public, lies
        self.squared = squared  # sites add an offset, which is known only when all have sent their sums
        self.liars: list[tuple[str, Array, Array | None]] = []
        self.rng = np.random.default_rng(random_state)
        self.alone: list[float] = []
        self.guarantees: list[Guarantee] = []
        self.answer_bytes = self.model_bytes = 0
        self.honest = _Answers(server, public)
        self.lying = _Answers(server, public) if lies else self.honest
        self.likeness: tuple[str, float | None] | None = None

    def ask(self, number: int, model: LocalModel) -> None:
        """Let one site answer, honestly and, if it is a liar, once more."""
        classes, self.largest = self.server.classes_, maximum_of(model.measure)
        likeness = (model.measure, model.scale)
        self.likeness = likeness if self.likeness is None else self.likeness
        check_alike(likeness, self.likeness)
        own = model.answers(self.X_test)
        self.alone.append(_accuracy(model.classes_[own.argmin(axis=1)], self.y_test))
        labelled = None if self.public is None else model.answers(self.public[0], classes)
        if self.squared:
            likeness, own = (JOINED, 1.0), own.astype(np.float64) ** 2
            labelled = None if labelled is None else labelled.astype(np.float64) ** 2
        columns = tuple(_columns(model.classes_, classes).tolist())
        self.answer_bytes += len(Answers("simulation", f"site-{number}", columns, *likeness, own).to_bytes())
        if model.guarantee_ is not None:
            self.guarantees.append(model.guarantee_)
            if model.is_private:
                self.model_bytes += len(model.to_parcel(f"site-{number}").to_bytes())
        answers = align(own, model.classes_, classes, self.largest)
        self.honest.add(answers, labelled, self.largest)
        if number in self.lies:
            self.liars.append((self.lies[number], answers, labelled))
        elif self.lies:
            self.lying.add(answers, labelled, self.largest)

    def finish(self, offset: Offset | None) -> None:
        """Add the public offset to all answers, then let liars change what they would have answered."""
        if offset is not None:
            added = offset.of(self.X_test)
            public = None if self.public is None else offset.of(self.public[0])
            for kept in {self.honest, self.lying}:
                kept.move(added, public)
            self.liars = [
                (kind, answers + added, None if known is None or public is None else known + public)
                for kind, answers, known in self.liars
            ]
        for kind, answers, labelled in self.liars:
            lied = lie(kind, answers, self.largest, self.rng)
            known = None if labelled is None else lie(kind, labelled, self.largest, self.rng)
            self.lying.add(lied, known, self.largest)

    def promised(self, schema: Schema) -> dict[str, Any]:
        """What is said about private models, whose rows were encoded by the schema."""
        self.finish(None)
        return {
            "private_alone": tuple(self.alone),
            "private_federated": _accuracy(self.lying.predicted(), self.y_test),
            "guarantees": tuple(under_contract(each, schema) for each in self.guarantees),
            "model_bytes": self.model_bytes,
        }


class _Answers:
    """The answers of the sites so far, by the rule: all of them, or the f + 1 smallest for each class.

    Under the checked and the weighted rule it is known only when all have answered which sites to believe.
    """

    def __init__(self, server: GlobalClassifier, public: tuple[AnyArray, Index] | None) -> None:
        self.server, self.truth = server, None if public is None else public[1]
        self.most = {"min": 1, "trimmed": server.n_liars + 1}.get(server.rule)
        self.answers: list[Array] = []
        self.labelled: list[Array] = []
        self.n_owners: Any = 0  # of each class

    def add(self, answers: Array, labelled: Array | None, largest: float) -> None:
        """Take the answers (n, C) of one site, and those to the labelled queries if there are any."""
        self.largest, self.n_owners = largest, self.n_owners + (answers < largest).any(axis=0)
        self.answers.append(answers)
        if self.most is None and labelled is not None:
            self.labelled.append(labelled)
        if self.most is not None and len(self.answers) > self.most:
            self.answers = list(np.sort(np.stack(self.answers), axis=0)[:-1])

    def move(self, added: Array, labelled: Array | None) -> None:
        """Add the same offsets (n, C) to the answers of all sites, others to those about labelled rows."""
        self.answers = [answers + added for answers in self.answers]
        self.labelled = [answers + labelled for answers in self.labelled if labelled is not None]

    def predicted(self) -> Labels:
        """The classes of the combined answers."""
        rule, n_liars, answers = self.server.rule, self.server.n_liars, np.stack(self.answers)
        if rule == "trimmed":
            ranked, cut = np.sort(answers, axis=0), liars_withstood(self.n_owners, n_liars)
            measures = np.take_along_axis(ranked, cut[None, None, :], axis=0)[0]
        else:
            weights = None
            if rule == "weighted" and self.truth is not None:
                weights = learn_trust(np.stack(self.labelled), self.truth, self.largest)
            measures = combine(answers, rule, n_liars, self.largest, weights)
        return np.asarray(self.server.classes_[decide(measures)])


# --- sites that lie, to show and test what a rule withstands -----------------------------------------------

Lie = Callable[[Array, Mask, np.random.Generator], Array]


def _zero(answers: Array, _: Mask, __: np.random.Generator) -> Array:
    """Everything is as close as can be."""
    return np.zeros_like(answers)


def _random(answers: Array, finite: Mask, rng: np.random.Generator) -> Array:
    """Numbers from the usual range that say nothing."""
    top = float(answers[finite].max(initial=0.0))
    return rng.uniform(0.0, top, size=answers.shape).astype(answers.dtype)


def _flipped(answers: Array, finite: Mask, _: np.random.Generator) -> Array:
    """What holds for one class is said about the next one."""
    known = np.flatnonzero(finite.any(axis=0))
    flipped = answers.copy()
    flipped[:, known] = answers[:, np.roll(known, 1)]
    return flipped


def _shrunk(answers: Array, _: Mask, __: np.random.Generator) -> Array:
    """The truth at a tenth of its size: consistent in itself, and closer than any other site."""
    return np.asarray(answers * answers.dtype.type(0.1))


LIES: dict[str, Lie] = {"zero": _zero, "random": _random, "flipped": _flipped, "shrunk": _shrunk}


def lie(kind: str, answers: Array, largest: float, rng: np.random.Generator) -> Array:
    """Return the answers of a site that lies in this way, within the range of the measure.

    Parameters
    ----------
    kind : {"zero", "random", "flipped", "shrunk"}
        The lie.
    answers : ndarray of shape (n, C)
        Honest answers.
    largest : float
        The maximum of the measure.
    rng : Generator
        Where random lies come from.

    Examples
    --------
    >>> lie("flipped", np.array([[0.1, 0.9, 1.0]]), 1.0, np.random.default_rng(0)).tolist()
    [[0.9, 0.1, 1.0]]
    """
    if kind not in LIES:
        raise InvalidInputError(f"a lie must be one of {', '.join(LIES)}")
    return np.minimum(LIES[kind](answers, answers < largest, rng), answers.dtype.type(largest))


# --- arguments --------------------------------------------------------------------------------------------


def _parts(X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[AnyArray, Labels, AnyArray, Labels]:
    if y is None:
        raise InvalidInputError("y is missing: give the labels, or a schema that names their column")
    X, y = _numbers(X), np.asarray(y)
    if (X_test is None) != (y_test is None):
        raise InvalidInputError("X_test and y_test go together")
    if X_test is None:
        X, y, X_test, y_test = train_test_split(X, y)
    return X, y, _numbers(X_test), np.asarray(y_test)


def _numbers(rows: Any) -> AnyArray:
    """Rows as an array of numbers; numpy's own error would quote a cell."""
    array = np.asarray(rows)
    try:
        return array if array.dtype.kind in "fiub" else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "X holds text where numbers are needed: encode the table by a Schema of onefold.tables"
        ) from None


def _accuracy(predicted: Labels | None, truth: Labels) -> float:
    return float("nan") if predicted is None else float(np.mean(predicted == truth))


def _beside_majority(predicted: Labels, truth: Labels, classes: Labels, counts: Index) -> dict[str, Any]:
    """How often the most frequent class of the sites is right, and the gain over it."""
    from onefold.audit.intervals import gain_interval

    right, common = predicted == truth, truth == classes[counts.sum(axis=0).argmax()]
    won, lost = int(np.sum(right & ~common)), int(np.sum(common & ~right))
    return {"majority": float(common.mean()), "gain_interval": gain_interval(won, lost, len(truth))}


def _columns(labels: ArrayLike, classes: Labels) -> Index:
    found = np.asarray(labels)
    if not np.all(np.isin(found, classes)):
        raise InvalidInputError("labelled queries must have labels that the sites' rows have")
    return np.searchsorted(classes, found)


def _lies(liars: Mapping[int, str] | None, n_clients: int) -> dict[int, str]:
    found = dict(liars or {})
    if any(number not in range(n_clients) or kind not in LIES for number, kind in found.items()):
        raise InvalidInputError(f"liars must map the numbers of sites to {', '.join(LIES)}")
    return found


def _sites(
    y: Labels,
    n_clients: int,
    partition: str | Sequence[ArrayLike],
    random_state: int | None,
    options: dict[str, Any],
) -> list[Index]:
    if isinstance(partition, str):
        return spread(y, n_clients, partition, random_state=random_state, **options)
    sites = [np.asarray(rows) for rows in partition]
    if options:
        raise InvalidInputError("options of a partition make no sense with row numbers")
    if len(sites) != n_clients:
        raise InvalidInputError("there must be one array of row numbers per site")
    for rows in sites:
        if rows.ndim != 1 or rows.size == 0 or not np.issubdtype(rows.dtype, np.integer):
            raise InvalidInputError("every site needs a list of whole row numbers, not empty")
        if rows.min() < 0 or rows.max() >= len(y):
            raise InvalidInputError("a row number lies outside the data")
    return sites
