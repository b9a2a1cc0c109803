"""What is made of moments: scores of classes, with noise from the release alone, without it the best of some.

With noise nothing but the release and public numbers decide. Without noise the maps of rows, the ridge, the
rule and the temperature are chosen by what the moments, and rows that are left out, say about other rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from onefold._base.arrays import Array, Floats, Index, Labels
from onefold.fabrication.exact import MomentFolds, plain_moments, statistic_of
from onefold.fabrication.maps import RowMap
from onefold.models.ridge import TAILS, LinearScores, PooledSpectrum, fold_ridge
from onefold.privacy.moments import PrivateMoments

__all__ = [
    "PlainHead",
    "density_temperature",
    "noisy_head",
    "plain_head",
    "ridge_of_folds",
]

MOST_LEFT_OUT = 1000  # rows that are left out, one by one, to find the temperature and the rule


# --- from a release alone -----------------------------------------------------------------------------------


def noisy_head(moments: PrivateMoments, objective: str) -> LinearScores:
    """Linear discriminant that allows for the noise; "balanced" takes the sizes of classes back out of it."""
    weights, offsets = moments.linear_discriminant()
    if objective == "balanced":
        offsets = offsets - np.log(np.maximum(moments.counts_, 1.0))
    return LinearScores(weights, offsets)


def density_temperature(moments: PrivateMoments) -> float:
    """Temperature of log densities with nothing but the release: a public function of the number of columns.

    Log densities add up over columns, and no normal law fits many of them: the more there are, the more too
    sure. Rows of four columns may well be normal; from twelve on the number is the middle of what suited
    held-out rows of seven datasets, mostly 0.25 to 0.6.
    """
    return max(TAILS, 1.0 - moments.n_features_in_ / 20.0)


# --- from exact moments of rows that are here ---------------------------------------------------------------


@dataclass(frozen=True)
class PlainHead:
    """What was chosen without noise: how rows are mapped, their moments, and the scores made of them."""

    row_map: RowMap
    moments: PrivateMoments
    scores: LinearScores
    rule: str
    ridge: float
    error: float  # estimated mean squared error of ridge regression on other rows


def plain_head(
    rows: Array, labels: Labels, row_maps: Sequence[RowMap], rule: str, *, folds: Index | None, classes: Any
) -> PlainHead:
    """Choose map and ridge by the estimated error on other rows, then rule and temperature.

    With folds, rows of whole folds are the other rows, and the rule stays the first choice.
    """
    tried = [_tried(rows, labels, row_map, folds, classes) for row_map in row_maps]
    row_map, moments, spectrum, ridge, error = min(tried, key=lambda one: one[-1])
    if folds is not None:
        return PlainHead(row_map, moments, spectrum.scores(rule, ridge), rule, ridge, error)
    some = np.linspace(0, len(rows) - 1, min(len(rows), MOST_LEFT_OUT)).astype(np.intp)
    codes = np.searchsorted(moments.classes_, labels)[some]
    mapped = row_map.apply(rows[some])
    # Where ridge and lda together are the first choice, each alone is looked at as well.
    rules = ("average", "ridge", "lda") if rule == "average" else (rule,)
    left_out = {each: spectrum.left_out(each, ridge, mapped, codes) for each in rules}
    rule = _confirmed(left_out, rule, codes)
    scores = spectrum.scores(rule, ridge)
    scores = replace(scores, temperature=_temperature(left_out[rule], codes, scores.temperature))
    return PlainHead(row_map, moments, scores, rule, ridge, error)


def _tried(
    rows: Array, labels: Labels, row_map: RowMap, folds: Index | None, classes: Any
) -> tuple[RowMap, PrivateMoments, PooledSpectrum, float, float]:
    """A map with the moments of mapped rows, and the best ridge with its error."""
    if folds is None:
        moments = plain_moments(rows, labels, row_map, classes)
        spectrum = PooledSpectrum(*statistic_of(moments))
        return row_map, moments, spectrum, *spectrum.chosen
    parts = MomentFolds.of(rows, labels, folds, row_map, classes)
    moments = parts.together
    return row_map, moments, PooledSpectrum(*statistic_of(moments)), *ridge_of_folds(parts.present)


def ridge_of_folds(parts: Sequence[PrivateMoments]) -> tuple[float, float]:
    """Return the ridge that is best for folds that were left out, and its error."""
    classes = np.unique(np.concatenate([part.classes_ for part in parts]))
    found = []
    for part in parts:  # in the columns of all their classes
        counts, sums, gram = statistic_of(part)
        place = np.searchsorted(classes, part.classes_)
        all_counts, all_sums = np.zeros(len(classes)), np.zeros((len(classes), sums.shape[1]))
        all_counts[place], all_sums[place] = counts, sums
        found.append((all_counts, all_sums, gram))
    return fold_ridge(found)


def _confirmed(left_out: dict[str, Floats], chosen: str, codes: Index) -> str:
    """Return another rule only if it is better by more than two standard errors of the difference."""
    right = {rule: scores.argmax(axis=1) == codes for rule, scores in left_out.items()}
    best, gain = chosen, 0.0
    for rule, hits in right.items():
        difference = hits.astype(float) - right[chosen]
        error = float(difference.std()) / math.sqrt(len(difference))
        if difference.mean() > max(2.0 * error, gain):
            best, gain = rule, float(difference.mean())
    return best


def _temperature(scores: Floats, codes: Index, start: float) -> float:
    """Return the factor with the smallest log loss on rows that were left out, near that of the moments."""
    known = np.isfinite(scores).any(axis=0)
    own = scores[:, known]
    places = (np.cumsum(known) - 1)[codes]

    def loss(exponent: float) -> float:
        logits = own * (start * 2.0**exponent)
        return float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(codes)), places]))

    if own.shape[1] < 2:
        return start
    # Few rows could be told apart by any factor: the prior keeps it within a few doublings of the start.
    penalty = 1.0 / len(codes)
    found = minimize_scalar(lambda e: loss(e) + penalty * e * e, bounds=(-5.0, 3.0), method="bounded")
    return float(start * 2.0 ** float(found.x))
