"""The strategy that transfers: experts, pooled with weights between a prior and held-out labels.

1. Least squares on the labelled rows ("least squares"), and Gaussians that refine it on unlabelled rows
   ("target"): what the target knows alone.
2. Class means between those of the source and those of the labelled rows ("shrunk"), refined on unlabelled
   rows ("refined"); the target's own Gaussians, begun with their beliefs ("mapping").
3. The source as it is ("source").

Sources that see rows in the same way have their class means averaged before labelled rows of the target
shrink them; the weights follow from the labelled rows in closed form. Sources that see rows in different ways
(another encoder, radius or centre) cannot be averaged; each group has experts of its own.

Labels are hidden in turn. Weights start from what is known before a label is seen and move as far as the
hidden labels ask for. No test switches the source off: with few labels the prior decides, with many the
labels do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize

from onefold._base.arrays import Array, Floats, Index, Labels, Mask
from onefold.exceptions import InvalidInputError
from onefold.models import Autoencoder
from onefold.transfer.alignment import MeansView, Way, shrinking, turned_view
from onefold.transfer.learners import (
    AutoencoderModel,
    GaussianModel,
    Learner,
    LinearModel,
    check_present,
    fit_least_squares,
    log_probabilities,
    project,
    spread_out,
    units_of,
)

PRIOR = {  # weight of each expert before a label is seen
    "target": 0.3,
    "least squares": 0.05,
    "shrunk": 0.15,
    "refined": 0.3,
    "mapping": 0.3,
    "source": 0.2,
}
OF_TARGET = ("target", "least squares")  # experts that the source has no part in
STRENGTH = 5.0  # of the prior: loss for a weight that is one away from it
FARTHEST = 10.0  # typical leads by which a class can be behind: no expert is surer than that
MOST_FOLDS = 5
FOLD_ROWS = 2000  # unlabelled rows that a model learns from in cross-validation, at most
MOST_ROWS = 20000  # and in the end


# --- decisions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """What a strategy decides about some rows."""

    distances: Floats  # (n, C); the smallest decides
    names: tuple[str, ...]  # of the experts
    expert: Index  # (n,), positions in names: who decided
    alone: Index  # (n,), class by the target alone

    @property
    def deciders(self) -> Labels:
        """Name of the expert that decided each row."""
        return np.asarray(np.array(self.names)[self.expert])

    @property
    def codes(self) -> Index:
        """Position of the class of each row."""
        return np.asarray(self.distances.argmin(axis=1))


Model = AutoencoderModel | GaussianModel | LinearModel | MeansView


@dataclass(frozen=True)
class Expert:
    """A fitted model with its weights."""

    name: str
    kind: str  # its name where there is one source
    model: Model | None  # None: the source itself
    way: int | None  # position of the way of the rows that it sees; None: as the target's models see them
    scale: float  # what its scores are divided by
    weight: float
    alone: float  # weight without the source


@dataclass(frozen=True)
class Default:
    """Fitted experts and what they are worth."""

    own: int | None  # position of the way of the rows that the target's models see; None: rows as they are
    experts: tuple[Expert, ...]
    n_classes: int
    present: Index  # classes that have labels in the target
    gain: float
    accuracy: float | None = None  # on labelled rows that were held out; None where none were

    def check(self, ways: tuple[Way, ...]) -> None:
        """Refuse what a file held if it does not fit together, or not with the ways to its sources."""
        kinds, names = [each.kind for each in self.experts], [each.name for each in self.experts]
        places = [place for place in (self.own, *(each.way for each in self.experts)) if place is not None]
        numbers = [number for each in self.experts for number in (each.weight, each.alone)]
        foreign = [each.alone > 0.0 for each in self.experts if each.kind not in OF_TARGET]
        fitting = set(OF_TARGET) <= set(kinds) <= set(PRIOR) and len(set(names)) == len(names)
        fitting = fitting and all(0 <= place < len(ways) for place in places) and not any(foreign)
        fitting = fitting and min(numbers) >= 0.0 and min(each.scale for each in self.experts) > 0.0
        if not fitting or not all(_fits(each, ways[each.way or 0], self.n_classes) for each in self.experts):
            raise InvalidInputError("the experts do not fit together")
        check_present(self.present, self.n_classes)

    @property
    def named_weights(self) -> dict[str, float]:
        """Weight of each expert by its name."""
        return {expert.name: expert.weight for expert in self.experts}

    def rows_of(self, expert: Expert) -> int | None:
        """Return the position of the way of the rows that an expert sees; None for rows as they are."""
        return self.own if expert.way is None else expert.way

    def decide(self, rows: Array, ways: tuple[Way, ...]) -> Decision:
        """Pool the experts; the one whose weighted lead is largest counts as the decider."""
        used = [expert for expert in self.experts if expert.weight > 0.0 or expert.alone > 0.0]
        places = {self.rows_of(expert) for expert in used}
        seen = {place: rows if place is None else ways[place](rows) for place in places}
        said = [
            bounded(
                _scores(expert.model, ways[expert.way or 0], seen[self.rows_of(expert)], self.n_classes),
                expert.scale,
            )
            for expert in used
        ]
        alone = pooled(said, np.array([expert.alone for expert in used]))
        said = [
            neutral(scores, self.present) if expert.kind in OF_TARGET else scores
            for expert, scores in zip(used, said, strict=True)
        ]
        weights = np.array([expert.weight for expert in used])
        together = pooled(said, weights)
        codes = together.argmax(axis=1)
        leads = [weight * _lead(scores, codes) for weight, scores in zip(weights, said, strict=True)]
        decider = np.where((weights > 0.0)[:, None], leads, -np.inf).argmax(axis=0)
        names = tuple(expert.name for expert in used)
        return Decision(-log_probabilities(together), names, decider, alone.argmax(axis=1))


def _scores(model: Model | None, way: Way | None, rows: Array, n_classes: int) -> Floats:
    """Scores of rows by a fitted model; where there is none by the source itself."""
    if model is not None:
        return model.scores(rows, n_classes)
    assert way is not None
    return way.description.scores(rows)


def _fits(expert: Expert, way: Way, n_classes: int) -> bool:
    """Whether the model of an expert in a file is one of its kind, and of so many classes."""
    model = expert.model
    of_source = model is None or isinstance(model, MeansView)
    if of_source != (expert.kind == "source") or (of_source and way.source is None):
        return False
    if isinstance(model, GaussianModel | AutoencoderModel):
        check_present(model.present, n_classes)
    sizes = {LinearModel: "offset", MeansView: "centres"}
    return type(model) not in sizes or len(getattr(model, sizes[type(model)])) == n_classes


def _lead(scores: Floats, codes: Index) -> Floats:
    """Return how far the decided class is ahead of the best other one."""
    if scores.shape[1] < 2:
        return np.zeros(len(codes))
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))


# --- fitting ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """An expert before it is fitted: what it is there for, and how it is made."""

    name: str
    kind: str  # its name where there is one source
    way: int | None  # position of the way of the rows that it sees; None: as the target's models see them
    prior: float  # weight before a label is seen
    make: Callable[[Index, Index], Model | None] | None  # from known codes and a sample of the rows
    begun: str = ""  # a model of the target, begun with the beliefs of this expert


@dataclass(frozen=True)
class Task:
    """The target as its models and as the sources see it, and the experts about it."""

    ways: tuple[Way, ...]
    seen: Array
    placed: tuple[Array, ...]  # rows of the target by the way of each source
    codes: Index
    n_classes: int
    learner: Learner
    candidates: tuple[Candidate, ...]

    def scores(self, candidate: Candidate, model: Model | None, which: Any = slice(None)) -> Floats:
        """Return what a fitted expert says about some rows, as it sees them."""
        rows = self.seen if candidate.way is None else self.placed[candidate.way]
        return _scores(model, self.ways[candidate.way or 0], rows[which], self.n_classes)

    def fit(self, codes: Index, sample: Index) -> list[Model | None]:
        """Fit the experts, knowing the labels in ``codes``, on the rows ``sample``."""
        made = {each.name: each for each in self.candidates}
        found = {each.name: each.make(codes, sample) for each in self.candidates if each.make is not None}
        for each in self.candidates:
            if each.begun:
                first = cast(LinearModel | GaussianModel, found[each.begun])
                beliefs = np.exp(log_probabilities(self.scores(made[each.begun], first, sample)))
                found[each.name] = self.learner.learn(
                    self.seen[sample], codes[sample], beliefs, first.present
                )
        return [found[each.name] for each in self.candidates]


def fit_default(
    ways: tuple[Way, ...],
    rows: Array,
    codes: Index,
    n_classes: int,
    estimator: Autoencoder | None,
    components: Sequence[int],
    random_state: int | None,
) -> Default:
    """Fit the experts on all labels, and their weights on folds in which some labels are hidden."""
    rng = np.random.default_rng(random_state)
    known = codes >= 0
    if ways[0].source is not None and np.count_nonzero(known) < 2:
        raise InvalidInputError("one labelled row cannot tell what the source is worth: label another one")
    placed = tuple(way(rows) for way in ways)
    own = _own_way(ways, rows, placed, codes, n_classes)
    seen = rows if own is None else placed[own]
    candidates = _candidates(ways, placed, seen, n_classes)
    task = Task(
        ways, seen, placed, codes, n_classes, Learner(project(seen), estimator, components), candidates
    )
    models = task.fit(codes, _sample(codes, MOST_ROWS, rng))
    scales = [
        typical_lead(task.scores(candidate, model))
        for candidate, model in zip(candidates, models, strict=True)
    ]
    weighed = _weigh_on_folds(task, scales, rng)
    numbers = zip(scales, weighed.weights.tolist(), weighed.alone.tolist(), strict=True)
    experts = tuple(
        Expert(candidate.name, candidate.kind, model, candidate.way, *each)
        for candidate, model, each in zip(candidates, models, numbers, strict=True)
    )
    return Default(own, experts, n_classes, np.unique(codes[known]), weighed.gain, weighed.accuracy)


def _own_way(
    ways: tuple[Way, ...], rows: Array, placed: tuple[Array, ...], codes: Index, n_classes: int
) -> int | None:
    """Return the way that lets labelled rows tell classes apart best; None if they do so as they are.

    Only ways through an encoder or a user's map are tried: the others leave rows as they are, or nearly so.
    """
    tried = [place for place, way in enumerate(ways) if way.encodes]
    if not tried:
        return None
    known = codes >= 0
    kinds = [rows, *(placed[place] for place in tried)]
    losses = [fit_least_squares(kind[known], codes[known], n_classes, units_of(kind)).loss for kind in kinds]
    # Rows as they are must be better, not as good: encoded ones are what a source was made for.
    best = int(np.argmin(losses[1:]))
    return None if losses[0] < losses[1 + best] else tried[best]


def _candidates(
    ways: tuple[Way, ...], placed: tuple[Array, ...], seen: Array, n_classes: int
) -> tuple[Candidate, ...]:
    """List the experts; the prior of a kind is divided among the sources."""
    units = units_of(seen)

    def linear(codes: Index, sample: Index) -> Model:
        known = codes >= 0
        return fit_least_squares(seen[known], codes[known], n_classes, units)

    found = [
        Candidate("target", "target", None, PRIOR["target"], None, "least squares"),
        Candidate("least squares", "least squares", None, PRIOR["least squares"], linear),
    ]
    begun = []
    groups = [] if ways[0].source is None or ways[0].turns else _alike(placed)
    for members in groups:
        numbers = ", ".join(str(place + 1) for place in members)
        prefix = f"source{'s' * (len(members) > 1)} {numbers}: " if len(groups) > 1 else ""
        share, shrink = len(members) / len(ways), shrinking(members, ways, placed, n_classes)
        for kind in ("shrunk", "refined"):
            make = partial(shrink, refine=kind == "refined")
            found.append(Candidate(prefix + kind, kind, members[0], share * PRIOR[kind], make))
        begun.append(
            Candidate(prefix + "mapping", "mapping", None, share * PRIOR["mapping"], None, prefix + "shrunk")
        )
    given = [place for place, way in enumerate(ways) if way.source is not None]
    for place in given:

        def ask(codes: Index, sample: Index, place: int = place) -> Model | None:
            if not ways[place].turns:
                return None
            return turned_view(ways[place].description, placed[place], codes)

        name = "source" if len(given) == 1 else f"source {place + 1}"
        found.append(Candidate(name, "source", place, PRIOR["source"] / len(ways), ask))
    return (*found, *begun)


def _alike(placed: tuple[Array, ...]) -> list[list[int]]:
    """Group the positions of equal rows: their sources can be averaged."""
    alike = [[np.array_equal(one, other) for other in placed] for one in placed]
    return [np.flatnonzero(row).tolist() for place, row in enumerate(alike) if row.index(True) == place]


def neutral(scores: Floats, present: Index) -> Floats:
    """Make a class without labels as likely as the best of the others, so that the source decides."""
    return spread_out(scores[:, present], present, scores.shape[1], np.max)


def _folds(codes: Index, rng: np.random.Generator) -> Iterator[tuple[Index, Index]]:
    """Yield labelled rows to hide, and the codes without them; every class is spread over the folds."""
    known = np.flatnonzero(codes >= 0)
    counts = np.unique(codes[known], return_counts=True)[1]
    n_folds = int(min(MOST_FOLDS, max(2, counts.min()), len(known)))
    order = rng.permutation(known)
    order = order[np.argsort(codes[order], kind="stable")]
    for fold in range(n_folds):
        hidden = order[fold::n_folds]
        shown = codes.copy()
        shown[hidden] = -1
        if (shown >= 0).any():
            yield hidden, shown


def _sample(codes: Index, at_most: int, rng: np.random.Generator, hidden: Index | slice = slice(0)) -> Index:
    """Choose all labelled rows, the hidden ones, and so many others."""
    keep = codes >= 0
    keep[hidden] = True
    others = np.flatnonzero(~keep)
    if len(others) > at_most:
        others = rng.choice(others, at_most, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(keep), others]))


# --- weights ----------------------------------------------------------------------------------------------


def typical_lead(scores: Floats) -> float:
    """Return the median lead of the best class over the second: the unit of an expert's scores."""
    lead = float(np.median(_lead(scores, scores.argmax(axis=1))))
    return lead if np.isfinite(lead) and lead > 0.0 else 1.0


def bounded(scores: Floats, unit: float) -> Floats:
    """Return scores relative to each row's best class, in typical leads."""
    return np.asarray(np.maximum((scores - scores.max(axis=1, keepdims=True)) / unit, -FARTHEST))


def pooled(experts: Sequence[Floats], weights: Floats) -> Floats:
    """Pool scores logarithmically: their weighted sum."""
    return np.asarray(sum(weight * scores for weight, scores in zip(weights, experts, strict=True)))


def fit_weights(experts: Sequence[Floats], codes: Index, prior: Floats) -> Floats:
    """Find weights of at least zero that explain held-out rows and stay near the prior.

    They minimise the sum of the rows' log losses plus ``STRENGTH`` times the squared distance from the prior,
    a convex function. The scores must be of rows with known classes ``codes`` that experts have not seen.
    """
    rows = np.arange(len(codes))
    stacked = np.stack(list(experts))

    def loss(weights: Floats) -> tuple[float, Floats]:
        logs = log_probabilities(np.tensordot(weights, stacked, axes=1))
        excess = np.exp(logs)
        excess[rows, codes] -= 1.0
        away = weights - prior
        value = -float(logs[rows, codes].sum()) + STRENGTH * float(away @ away)
        return value, np.einsum("enc,nc->e", stacked, excess) + 2.0 * STRENGTH * away

    found = minimize(loss, prior, jac=True, bounds=[(0.0, None)] * len(prior), method="L-BFGS-B")
    return np.asarray(found.x if found.x.any() else prior)  # experts without any weight decide nothing


@dataclass(frozen=True)
class HeldOut:
    """Rows whose labels were hidden, and what the experts said about them."""

    own: Mask  # which experts the source has no part in
    experts: list[Floats]  # scores, (n, C) each
    truth: Index  # codes of the hidden labels
    fair: Mask  # another row of the class was left to the target: only then it can know the class
    fold: Index  # in which the row was hidden
    prior: Floats


@dataclass(frozen=True)
class Weighed:
    """Weights of experts, and what held-out rows say about them."""

    weights: Floats
    alone: Floats  # weights without the source: of the experts of the target, zero for the others
    gain: float = 0.0  # accuracy with the source minus accuracy without
    accuracy: float | None = None


def _weigh_on_folds(task: Task, scales: Sequence[float], rng: np.random.Generator) -> Weighed:
    """Weigh the experts on labels that are hidden in turn."""
    present = np.unique(task.codes[task.codes >= 0])
    prior = np.array([candidate.prior for candidate in task.candidates])
    own = np.array([candidate.kind in OF_TARGET for candidate in task.candidates])
    parts = []
    for fold, (hidden, shown) in enumerate(_folds(task.codes, rng)):
        models = task.fit(shown, _sample(shown, FOLD_ROWS, rng, hidden))
        said = []
        for candidate, model, scale in zip(task.candidates, models, scales, strict=True):
            scores = bounded(task.scores(candidate, model, hidden), scale)
            said.append(neutral(scores, present) if candidate.kind in OF_TARGET else scores)
        truth = task.codes[hidden]
        parts.append((np.stack(said, axis=1), truth, np.isin(truth, shown), np.full(len(hidden), fold)))
    if not parts:  # one labelled row, and no source
        return Weighed(prior, np.where(own, prior, 0.0))
    experts, truth, fair, folds = (np.concatenate(part) for part in zip(*parts, strict=True))
    return weigh(HeldOut(own, list(np.moveaxis(experts, 1, 0).copy()), truth, fair, folds, prior))


def weigh(held: HeldOut) -> Weighed:
    """Weigh the experts with and without the source, and compare both on held-out rows.

    A fold is compared with weights that its own rows had no part in. Of a class that it was not shown the
    target can only guess.
    """
    own = held.own
    # The target's experts have no say about a class that was hidden from them altogether.
    experts = [
        np.where(held.fair[:, None], scores, 0.0) if mine else scores
        for mine, scores in zip(own, held.experts, strict=True)
    ]
    n_classes = experts[0].shape[1]

    def both(rows: Mask) -> tuple[Floats, Floats]:
        chosen = [scores[rows] for scores in experts]
        weights = fit_weights(chosen, held.truth[rows], held.prior)
        alone = np.zeros(len(own))
        mine = [scores for scores, is_own in zip(chosen, own, strict=True) if is_own]
        alone[own] = fit_weights(mine, held.truth[rows], held.prior[own])
        return weights, alone

    right, without = np.empty(len(held.truth)), np.empty(len(held.truth))
    for fold in np.unique(held.fold):
        rows = held.fold == fold
        for weights, into in zip(both(~rows), (right, without), strict=True):
            said = pooled([scores[rows] for scores in experts], weights)
            into[rows] = said.argmax(axis=1) == held.truth[rows]
    without[~held.fair] = 1.0 / n_classes
    weights, alone = both(np.ones(len(right), dtype=bool))
    if own.all():  # there is no source
        fair = right[held.fair]
        return Weighed(weights, alone, 0.0, float(fair.mean()) if len(fair) else None)
    return Weighed(weights, alone, float(right.mean() - without.mean()), float(right.mean()))
