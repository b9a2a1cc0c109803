"""The strategy that transfers: experts, pooled with weights between a prior and held-out labels.

1. Least squares on the labelled rows ("least squares"), and Gaussians that refine it on unlabelled rows
   ("target"): what the target knows alone.
2. Class means between those of the source and those of the labelled rows ("shrunk"), refined on unlabelled
   rows ("refined"); the target's own Gaussians, begun with their beliefs ("mapping").
3. The source as it is ("source").

What sources contribute, one or several, is in ``_sources``. Labels are hidden in turn; the weights stay near
a prior unless the hidden labels ask for others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array, Floats, Index
from onefold.exceptions import InvalidInputError
from onefold.models import Autoencoder
from onefold.transfer._learners import (
    Learner,
    TargetModel,
    fit_least_squares,
    project,
    units_of,
)
from onefold.transfer._pool import (
    OF_TARGET,
    PRIOR,
    Decision,
    HeldOut,
    Weighed,
    bounded,
    log_probabilities,
    pooled,
    typical_lead,
    weigh,
)
from onefold.transfer._sources import Role, Sources
from onefold.transfer.alignment import Way

MOST_FOLDS = 5
FOLD_ROWS = 2000  # unlabelled rows that a model learns from in cross-validation, at most
MOST_ROWS = 20000  # and in the end
ROLES_OF_TARGET = {name: Role(name, None, PRIOR[name]) for name in OF_TARGET}


@dataclass(frozen=True)
class Expert:
    """A fitted model with its weights."""

    name: str
    kind: str  # its name where there is one source
    model: TargetModel
    way: int | None  # position of the way of the rows that it sees; None: as the target's models see them
    scale: float  # what its scores are divided by
    weight: float
    alone: float  # weight without the source


@dataclass(frozen=True)
class Default:
    """Fitted experts and what they are worth."""

    ways: tuple[Way, ...]  # to each source; one that leads nowhere without a source
    own: int | None  # position of the way of the rows that the target's models see; None: rows as they are
    experts: tuple[Expert, ...]
    n_classes: int
    present: Index  # classes that have labels in the target
    gain: float
    accuracy: float | None = None  # on labelled rows that were held out; None where none were

    @property
    def named_weights(self) -> dict[str, float]:
        """Weight of each expert by its name."""
        return {expert.name: expert.weight for expert in self.experts}

    def rows_of(self, expert: Expert) -> int | None:
        """Return the position of the way of the rows that an expert sees; None for rows as they are."""
        return self.own if expert.way is None else expert.way

    def decide(self, rows: Array) -> Decision:
        """Pool the experts; the one whose weighted lead is largest counts as the decider."""
        used = [expert for expert in self.experts if expert.weight > 0.0 or expert.alone > 0.0]
        seen: dict[int | None, Array] = {None: rows}
        for place in {self.rows_of(expert) for expert in used} - {None}:
            seen[place] = self.ways[place or 0](rows)
        said = [self._said(expert, seen[self.rows_of(expert)]) for expert in used]
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

    def _said(self, expert: Expert, rows: Array) -> Floats:
        return bounded(expert.model.scores(rows, self.n_classes), expert.scale)


@dataclass(frozen=True)
class Task:
    """The target as its models and as the sources see it, and what the sources say."""

    seen: Array
    codes: Index
    n_classes: int
    learner: Learner
    units: Floats  # of the columns of ``seen``
    sources: Sources
    roles: dict[str, Role]  # of all experts

    def rows(self, name: str) -> Array:
        """Return the rows that an expert sees."""
        way = self.roles[name].way
        return self.seen if way is None else self.sources.placed[way]


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
    sources = Sources.of(ways, rows, n_classes)
    own = _own_way(ways, rows, sources.placed, codes, n_classes)
    seen = rows if own is None else sources.placed[own]
    learner = Learner(project(seen), estimator, components)
    roles = ROLES_OF_TARGET | sources.roles
    task = Task(seen, codes, n_classes, learner, units_of(seen), sources, roles)
    models = _fit_experts(task, codes, _sample(codes, MOST_ROWS, rng))
    scales = {name: typical_lead(model.scores(task.rows(name), n_classes)) for name, model in models.items()}
    weighed = _weigh(task, scales, rng)
    experts = tuple(
        Expert(name, roles[name].kind, model, roles[name].way, scales[name], weight, alone)
        for (name, model), weight, alone in zip(
            models.items(), weighed.weights.tolist(), weighed.alone.tolist(), strict=True
        )
    )
    present = np.unique(codes[known])
    return Default(ways, own, experts, n_classes, present, weighed.gain, weighed.accuracy)


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


# --- experts ----------------------------------------------------------------------------------------------


def _fit_experts(task: Task, codes: Index, sample: Index) -> dict[str, TargetModel]:
    """Fit experts that know the labels in ``codes`` on the rows ``sample``."""
    known, n_classes = codes >= 0, task.n_classes
    linear = fit_least_squares(task.seen[known], codes[known], n_classes, task.units)
    found: dict[str, TargetModel] = {
        "target": _learn(task, codes, sample, linear, "target", linear.present),
        "least squares": linear,
    }
    asked = task.sources.fit(codes, sample)
    for name in task.sources.begun:
        everything = np.arange(n_classes)
        first = task.sources.begun[name]
        asked[name] = _learn(task, codes, sample, asked[first], first, everything)
    return found | asked


def _learn(
    task: Task, codes: Index, sample: Index, first: TargetModel, name: str, present: Index
) -> TargetModel:
    """Fit a model of the target that begins with the beliefs of an expert."""
    beliefs = np.exp(log_probabilities(first.scores(task.rows(name)[sample], task.n_classes)))
    return task.learner.learn(task.seen[sample], codes[sample], beliefs, present)


def neutral(scores: Floats, present: Index) -> Floats:
    """Make a class without labels as likely as the best of the others, so that the source decides."""
    found = np.repeat(scores[:, present].max(axis=1, keepdims=True), scores.shape[1], axis=1)
    found[:, present] = scores[:, present]
    return found


# --- weights ----------------------------------------------------------------------------------------------


def _weigh(task: Task, scales: dict[str, float], rng: np.random.Generator) -> Weighed:
    """Weigh the experts on labels that are hidden in turn."""
    names = tuple(scales)
    present = np.unique(task.codes[task.codes >= 0])
    prior = np.array([task.roles[name].prior for name in names])
    said: dict[str, list[Floats]] = {name: [] for name in names}
    truths, fair, folds = [], [], []
    for fold, (hidden, shown) in enumerate(_folds(task.codes, rng)):
        models = _fit_experts(task, shown, _sample(shown, FOLD_ROWS, rng, hidden))
        for name, model in models.items():
            scores = bounded(model.scores(task.rows(name)[hidden], task.n_classes), scales[name])
            said[name].append(neutral(scores, present) if name in OF_TARGET else scores)
        truths.append(task.codes[hidden])
        fair.append(np.isin(truths[-1], shown))
        folds.append(np.full(len(hidden), fold))
    if not truths:  # one labelled row, and no source
        alone = np.array([name in OF_TARGET for name in names])
        return Weighed(prior, np.where(alone, prior, 0.0))
    experts = [np.concatenate(said[name]) for name in names]
    truth, shown_class, fold_of = (np.concatenate(part) for part in (truths, fair, folds))
    return weigh(HeldOut(names, experts, truth, shown_class, fold_of, prior))


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


def _sample(codes: Index, at_most: int, rng: np.random.Generator, hidden: Index | None = None) -> Index:
    """Choose all labelled rows, the hidden ones, and so many others."""
    keep = codes >= 0
    if hidden is not None:
        keep = keep.copy()
        keep[hidden] = True
    others = np.flatnonzero(~keep)
    if len(others) > at_most:
        others = rng.choice(others, at_most, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(keep), others]))


def _lead(scores: Floats, codes: Index) -> Floats:
    """Return how far the decided class is ahead of the best other one."""
    if scores.shape[1] < 2:
        return np.zeros(len(codes))
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))
