"""The strategy that transfers: beliefs of both sides, refined on the target, weighed on held-out labels.

1. Least squares on the labelled rows, and the source in the view that explains labelled rows best.
2. A model of the target from the first beliefs alone ("target"), another one from both together ("mapping":
   what the source knows, carried over to the target by its unlabelled rows).
3. Weights of target, mapping and source that explain labelled rows best which none of them has seen. The
   source counts only if it lowers the loss by more than its weights could by chance, and if no more held-out
   rows go wrong; otherwise the target decides alone. The only labelled row of its class cannot be compared,
   since the target did not see the class; where most are like that, guessing must hardly do as well.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array, Floats, Index, Mask
from onefold.exceptions import InvalidInputError
from onefold.models import Autoencoder
from onefold.transfer._learners import Learner, LeastSquares, TargetModel, fit_least_squares, project
from onefold.transfer._pool import (
    EXPERTS,
    TARGET_ALONE,
    Decision,
    HeldOut,
    bounded,
    fit_weights,
    log_loss,
    log_probabilities,
    pooled,
    typical_lead,
    weigh,
)
from onefold.transfer.alignment import View, Way, views_of_placed, views_of_strangers

Views = list[tuple[View, Array]]  # ways to ask the source, each with the rows it is asked about
MOST_FOLDS = 5
FOLD_ROWS = 2000  # unlabelled rows that a model learns from in cross-validation, at most
MOST_ROWS = 20000  # and in the end


@dataclass(frozen=True)
class Default:
    """Fitted experts and their weights."""

    way: Way
    own_rows: bool  # the target's models see its rows as they are, not as the source would
    target: TargetModel
    mapping: TargetModel | None
    view: View | None
    view_placed: bool  # the view sees placed rows
    scales: Floats  # (3,), what the scores of each expert are divided by
    weights: Floats  # (3,)
    n_classes: int
    gain: float
    accuracy: float | None = None  # on labelled rows that were held out; None where none were

    @property
    def named_weights(self) -> dict[str, float]:
        """Weight of each expert by its name."""
        return dict(zip(EXPERTS, self.weights.tolist(), strict=True))

    def decide(self, rows: Array) -> Decision:
        """Pool the experts; the one whose weighted lead is largest counts as the decider."""
        experts = self._experts(rows)
        together = pooled(experts, self.weights)
        codes = together.argmax(axis=1)
        leads = [weight * _lead(scores, codes) for weight, scores in zip(self.weights, experts, strict=True)]
        decider = np.where(np.array(self.weights > 0.0)[:, None], leads, -np.inf).argmax(axis=0)
        return Decision(-log_probabilities(together), decider, experts[0].argmax(axis=1))

    def _experts(self, rows: Array) -> list[Floats]:
        needed = not self.own_rows or (self.view is not None and self.view_placed and self.weights[2] > 0.0)
        placed = self.way(rows) if needed else rows
        seen = rows if self.own_rows else placed
        found = [self.target.scores(seen, self.n_classes)]
        nothing = np.zeros_like(found[0])
        mapping = self.mapping if self.weights[1] > 0.0 else None
        found.append(nothing if mapping is None else mapping.scores(seen, self.n_classes))
        view = self.view if self.weights[2] > 0.0 else None
        found.append(nothing if view is None else view.scores(placed if self.view_placed else seen))
        return [bounded(scores, scale) for scores, scale in zip(found, self.scales, strict=True)]


@dataclass(frozen=True)
class TargetTask:
    """The target as its models see it, and the views of the source."""

    seen: Array
    codes: Index
    n_classes: int
    learner: Learner
    views: Callable[[Index], Views]


@dataclass(frozen=True)
class FittedExperts:
    """Fitted experts, and their scores for some rows."""

    target: TargetModel
    mapping: TargetModel | None
    view: View | None
    scores: list[Floats]  # target, mapping, source


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
    is_open = way.is_open(rows.shape[1])
    placed = way(rows) if is_open and way.source is not None else rows
    own = _own_rows_serve(rows, placed, codes, n_classes)
    seen = rows if own else placed
    learner = Learner(project(seen), estimator, components)
    problem = TargetTask(seen, codes, n_classes, learner, _ways_to_ask(way, placed, seen, is_open))
    if way.source is not None and np.count_nonzero(codes >= 0) < 2:
        raise InvalidInputError("one labelled row cannot tell what the source is worth: label another one")
    chosen = _best_view(problem, rng) if way.source is not None else None
    final = _fit_experts(problem, codes, chosen, _sample(codes, MOST_ROWS, rng), np.arange(len(rows)))
    scales = np.array([typical_lead(scores) for scores in final.scores])
    weights, gain, accuracy = _weigh(problem, chosen, scales, rng)
    experts = (final.target, final.mapping, final.view)
    return Default(way, own, *experts, is_open, scales, weights, n_classes, gain, accuracy)


def _own_rows_serve(rows: Array, placed: Array, codes: Index, n_classes: int) -> bool:
    """Tell whether labelled rows tell classes apart better as they are than as the source sees them."""
    if placed is rows:
        return True
    known = codes >= 0
    losses = [fit_least_squares(kind[known], codes[known], n_classes).loss for kind in (rows, placed)]
    return losses[0] < losses[1]


def _ways_to_ask(way: Way, placed: Array, seen: Array, is_open: bool) -> Callable[[Index], Views]:
    """Return a function from known codes to views of the source; codes matter only for other widths."""
    if way.source is None:
        return lambda codes: []
    described, projection = way.source.description_, project(placed if is_open else seen)
    if is_open:
        fixed = [(view, placed) for view in views_of_placed(described, placed, projection)]
        return lambda codes: fixed
    return lambda codes: [(view, seen) for view in views_of_strangers(described, seen, codes, projection)]


def _best_view(problem: TargetTask, rng: np.random.Generator) -> int | None:
    """Find the view that explains labelled rows best; views that use labels are tried on other rows."""
    losses: dict[int, list[Floats]] = {}
    truths: list[Index] = []
    for hidden, shown in _folds(problem.codes, rng):
        truths.append(problem.codes[hidden])
        for position, (view, rows) in enumerate(problem.views(shown)):
            losses.setdefault(position, []).append(view.scores(rows[hidden]))
    truth = np.concatenate(truths)

    def loss(position: int) -> float:
        scores = np.concatenate(losses[position])
        scores = bounded(scores, typical_lead(scores))
        return log_loss(fit_weights([scores], truth)[0] * scores, truth)

    return min(losses, key=loss)


def _fit_experts(
    problem: TargetTask, codes: Index, chosen: int | None, sample: Index, asked: Index
) -> FittedExperts:
    """Fit experts that know the labels in ``codes`` on the rows ``sample``, and score the rows ``asked``."""
    known, n_classes = codes >= 0, problem.n_classes
    present = np.unique(codes[known])
    linear = fit_least_squares(problem.seen[known], codes[known], n_classes)
    first = linear.scores(problem.seen[sample])
    target = _learn(problem, codes, sample, first, present)
    scores = [target.scores(problem.seen[asked], n_classes)]
    if chosen is None:
        nothing = np.zeros_like(scores[0])
        return FittedExperts(target, None, None, [*scores, nothing, nothing])
    view, rows = problem.views(codes)[chosen]
    beliefs = _both(linear, first, view, rows, codes, sample)
    mapping = _learn(problem, codes, sample, beliefs, np.arange(n_classes))
    scores += [mapping.scores(problem.seen[asked], n_classes), view.scores(rows[asked])]
    return FittedExperts(target, mapping, view, scores)


def _learn(problem: TargetTask, codes: Index, sample: Index, scores: Floats, present: Index) -> TargetModel:
    beliefs = np.exp(log_probabilities(scores))
    return problem.learner.learn(problem.seen[sample], codes[sample], beliefs, present)


def _both(
    linear: LeastSquares, first: Floats, view: View, rows: Array, codes: Index, sample: Index
) -> Floats:
    """Combine beliefs of least squares and of the source, weighed on rows that least squares left out."""
    known = codes >= 0
    said = view.scores(rows[known])
    unit, present = typical_lead(said), np.unique(codes[known])
    weights = fit_weights([_neutral(linear.held_out, present), bounded(said, unit)], codes[known])
    return pooled([_neutral(first, present), bounded(view.scores(rows[sample]), unit)], weights)


def _neutral(scores: Floats, present: Index) -> Floats:
    """Make a class without labels as likely as the best of the others, so that the source decides."""
    found = np.repeat(scores[:, present].max(axis=1, keepdims=True), scores.shape[1], axis=1)
    found[:, present] = scores[:, present]
    return found


def _weigh(
    problem: TargetTask, chosen: int | None, scales: Floats, rng: np.random.Generator
) -> tuple[Floats, float, float | None]:
    """Weigh the three experts; measure accuracy, and what the source adds to it, on labels hidden in turn."""
    if chosen is None:
        return np.array(TARGET_ALONE), 0.0, None
    parts: list[list[Floats]] = []
    truths: list[Index] = []
    fair: list[Mask] = []
    for hidden, shown in _folds(problem.codes, rng):
        sample = _sample(shown, FOLD_ROWS, rng, hidden)
        parts.append(_fit_experts(problem, shown, chosen, sample, hidden).scores)
        truths.append(problem.codes[hidden])
        fair.append(np.isin(truths[-1], shown))
    by_expert = zip(zip(*parts, strict=True), scales, strict=True)
    experts = [bounded(np.concatenate(scores), scale) for scores, scale in by_expert]
    known = np.unique(problem.codes[problem.codes >= 0])
    truth, shown_class = np.concatenate(truths), np.concatenate(fair)
    weights, gain = weigh(HeldOut(experts, truth, shown_class), known, problem.n_classes)
    right = pooled(experts, weights).argmax(axis=1) == truth
    counted = right if weights[1:].any() else right[shown_class]  # alone, the target cannot know the others
    return weights, gain, float(counted.mean()) if len(counted) else None


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
