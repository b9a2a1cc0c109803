"""The strategy that transfers: six experts, pooled with weights between a prior and held-out labels.

1. Least squares on the labelled rows ("least squares"), and Gaussians that refine it on unlabelled rows
   ("target"): what the target knows alone.
2. Class means between those of the source and those of the labelled rows ("shrunk"), refined on unlabelled
   rows ("refined"); the target's own Gaussians, begun with their beliefs ("mapping").
3. The source as it is ("source").

Labels are hidden in turn; the weights stay near a prior unless the hidden labels ask for others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.covariance import ledoit_wolf

from onefold._base.arrays import Array, Floats, Index
from onefold.exceptions import InvalidInputError
from onefold.models import Autoencoder
from onefold.transfer._learners import (
    GaussianModel,
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
from onefold.transfer._shrinkage import Prior, fit_shrunk
from onefold.transfer.alignment import DescriptionView, Way, overall_mean, turned_view

MOST_FOLDS = 5
FOLD_ROWS = 2000  # unlabelled rows that a model learns from in cross-validation, at most
MOST_ROWS = 20000  # and in the end
RIDGE = 0.05  # added to the covariance inside a class, in units of its mean variance
ON_PLACED = ("shrunk", "refined", "source")  # experts that see rows as the source does


@dataclass(frozen=True)
class Expert:
    """A fitted model with its weights."""

    name: str
    model: TargetModel
    placed: bool  # it sees placed rows
    scale: float  # what its scores are divided by
    weight: float
    alone: float  # weight without the source


@dataclass(frozen=True)
class Default:
    """Fitted experts and what they are worth."""

    way: Way
    own_rows: bool  # the target's models see its rows as they are, not as the source would
    experts: tuple[Expert, ...]
    n_classes: int
    present: Index  # classes that have labels in the target
    gain: float
    accuracy: float | None = None  # on labelled rows that were held out; None where none were

    @property
    def named_weights(self) -> dict[str, float]:
        """Weight of each expert by its name."""
        return {expert.name: expert.weight for expert in self.experts}

    def decide(self, rows: Array) -> Decision:
        """Pool the experts; the one whose weighted lead is largest counts as the decider."""
        used = [expert for expert in self.experts if expert.weight > 0.0 or expert.alone > 0.0]
        placed = self.way(rows) if any(expert.placed for expert in used) or not self.own_rows else rows
        own = rows if self.own_rows else placed
        said = [self._said(expert, placed if expert.placed else own) for expert in used]
        alone = pooled(said, np.array([expert.alone for expert in used]))
        said = [
            neutral(scores, self.present) if expert.name in OF_TARGET else scores
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
    """The target as its models and as the source see it, and what the source says."""

    seen: Array
    placed: Array
    codes: Index
    n_classes: int
    learner: Learner
    units: Floats  # of the columns of ``seen``
    of_source: Callable[[Index, Index], dict[str, TargetModel]]  # from known codes and a sample of the rows

    def rows(self, name: str) -> Array:
        """Return the rows that an expert sees."""
        return self.placed if name in ON_PLACED else self.seen


def fit_default(
    way: Way,
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
    if way.source is not None and np.count_nonzero(known) < 2:
        raise InvalidInputError("one labelled row cannot tell what the source is worth: label another one")
    placed = way(rows)
    own = not way.encodes or _own_rows_serve(rows, placed, codes, n_classes)
    seen = rows if own else placed
    learner = Learner(project(seen), estimator, components)
    of_source = _asker(way, placed, codes, n_classes)
    task = Task(seen, placed, codes, n_classes, learner, units_of(seen), of_source)
    models = _fit_experts(task, codes, _sample(codes, MOST_ROWS, rng))
    scales = {name: typical_lead(model.scores(task.rows(name), n_classes)) for name, model in models.items()}
    weighed = _weigh(task, scales, rng)
    experts = tuple(
        Expert(name, model, name in ON_PLACED, scales[name], weight, alone)
        for (name, model), weight, alone in zip(
            models.items(), weighed.weights.tolist(), weighed.alone.tolist(), strict=True
        )
    )
    present = np.unique(codes[known])
    return Default(way, own, experts, n_classes, present, weighed.gain, weighed.accuracy)


def _own_rows_serve(rows: Array, placed: Array, codes: Index, n_classes: int) -> bool:
    """Tell whether labelled rows tell classes apart better as they are than encoded."""
    known = codes >= 0
    losses = [
        fit_least_squares(kind[known], codes[known], n_classes, units_of(kind)).loss
        for kind in (rows, placed)
    ]
    return losses[0] < losses[1]


# --- experts ----------------------------------------------------------------------------------------------


def _asker(
    way: Way, placed: Array, codes: Index, n_classes: int
) -> Callable[[Index, Index], dict[str, TargetModel]]:
    """Return a function that fits the experts of the source to known codes and a sample of the rows."""
    if way.source is None:
        return lambda codes, sample: {}
    described, projection = way.source.description_, project(placed)
    coordinates = projection(placed)
    if way.turns:
        return lambda codes, sample: {"source": turned_view(described, coordinates, codes, projection)}
    within = described.within(projection.axes)
    if within is None:
        within = ledoit_wolf(coordinates)[0]
    size = len(within)
    floor = max(RIDGE * float(np.trace(within)) / size, np.finfo(float).tiny ** 0.5)
    shift = coordinates.mean(axis=0) - projection(overall_mean(described)[None])[0]
    prior = Prior(projection(described.means), within + floor * np.eye(size), shift)
    everything = np.arange(n_classes)

    def fit(codes: Index, sample: Index) -> dict[str, TargetModel]:
        found: dict[str, TargetModel] = {}
        for name, refine in (("shrunk", False), ("refined", True)):
            mixture = fit_shrunk(coordinates[sample], codes[sample], prior, refine=refine)
            found[name] = GaussianModel(projection, mixture, everything)
        return found | {"source": DescriptionView("as it is", described, None)}

    return fit


def _fit_experts(task: Task, codes: Index, sample: Index) -> dict[str, TargetModel]:
    """Fit experts that know the labels in ``codes`` on the rows ``sample``."""
    known, n_classes = codes >= 0, task.n_classes
    linear = fit_least_squares(task.seen[known], codes[known], n_classes, task.units)
    found: dict[str, TargetModel] = {
        "target": _learn(task, codes, sample, linear, "target", linear.present),
        "least squares": linear,
    }
    asked = task.of_source(codes, sample)
    if "shrunk" in asked:
        everything = np.arange(n_classes)
        asked["mapping"] = _learn(task, codes, sample, asked["shrunk"], "shrunk", everything)
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
    prior = np.array([PRIOR[name] for name in names])
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
