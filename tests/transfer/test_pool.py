"""Weights stay at the prior unless held-out rows ask for others."""

import numpy as np
import pytest

from onefold.transfer.pool import OF_TARGET, PRIOR, HeldOut, fit_weights, pooled, weigh
from reference.shrinkage import literal_objective

NAMES = tuple(PRIOR)
OWN = np.array([name in OF_TARGET for name in NAMES])
WEIGHTS = np.array(list(PRIOR.values()))


def said(truth, n_classes, sure, rng):
    """Scores of an expert: the right class is ahead by ``sure``, give or take."""
    return sure * np.eye(n_classes)[truth] + rng.normal(size=(len(truth), n_classes))


def held_out(n_rows, target, others, *, n_classes=3, fair=1.0):
    rng = np.random.default_rng(0)
    truth = np.arange(n_rows) % n_classes
    experts = [said(truth, n_classes, target if name in OF_TARGET else others, rng) for name in NAMES]
    rows = np.arange(n_rows)
    return HeldOut(OWN, experts, truth, rows < fair * n_rows, rows // n_classes % 5, WEIGHTS)


def test_weights_minimise_the_literal_objective() -> None:
    held = held_out(30, 1.0, 0.5)
    found = fit_weights(held.experts, held.truth, WEIGHTS)
    least = literal_objective(found, held.experts, held.truth, WEIGHTS, strength=5.0)
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            other = np.maximum(found + size * rng.normal(size=len(found)), 0.0)
            assert literal_objective(other, held.experts, held.truth, WEIGHTS, strength=5.0) > least - 1e-6


def test_weights_stay_at_the_prior_without_rows() -> None:
    nothing = [np.empty((0, 3)) for _ in NAMES]
    np.testing.assert_array_equal(fit_weights(nothing, np.empty(0, dtype=np.intp), WEIGHTS), WEIGHTS)


def test_source_that_knows_more_gains_weight_and_accuracy() -> None:
    found = weigh(held_out(60, 0.3, 4.0))
    assert found.weights[NAMES.index("source")] > PRIOR["source"]
    assert found.gain > 0.3
    assert found.accuracy > 0.95


def test_source_that_misleads_loses_its_weight_to_many_labels() -> None:
    held = held_out(90, 3.0, 0.0)
    wrong = [
        scores if name in OF_TARGET else np.roll(scores + 2.0 * np.eye(3)[held.truth], 1, axis=1)
        for name, scores in zip(NAMES, held.experts, strict=True)
    ]
    found = weigh(HeldOut(OWN, wrong, held.truth, held.fair, held.fold, WEIGHTS))
    assert found.weights[2:].sum() < 0.1
    assert found.weights[:2].sum() > WEIGHTS[:2].sum()
    assert found.gain <= 0.01


def test_prior_counts_less_the_more_labels_there_are() -> None:
    moved = [np.abs(weigh(held_out(count, 2.0, 0.0)).weights - WEIGHTS).sum() for count in (3, 30, 300)]
    assert moved[0] < moved[1] < moved[2]


def test_target_is_weighed_without_the_source() -> None:
    held = held_out(60, 1.0, 1.0)
    found = weigh(held)
    assert not found.alone[2:].any()
    np.testing.assert_allclose(
        found.alone[:2], fit_weights(held.experts[:2], held.truth, WEIGHTS[:2]), rtol=1e-12
    )


def test_target_has_no_say_about_a_class_it_was_not_shown() -> None:
    held = held_out(60, 1.0, 1.0, fair=0.5)
    found = weigh(held)
    for scores in held.experts[:2]:  # nothing that it says about those rows matters
        scores[~held.fair] = scores[~held.fair][:, ::-1]
    again = weigh(held)
    np.testing.assert_array_equal(found.weights, again.weights)
    assert (found.gain, found.accuracy) == (again.gain, again.accuracy)


def test_gain_counts_a_class_the_target_was_not_shown_as_guessed() -> None:
    held = held_out(60, 0.0, 8.0, fair=0.0)
    assert weigh(held).gain == pytest.approx(1.0 - 1.0 / 3.0)


def test_accuracy_is_of_weights_that_did_not_see_the_fold() -> None:
    held = held_out(15, 0.5, 0.5)
    right = []
    for fold in np.unique(held.fold):
        rows = held.fold == fold
        weights = fit_weights([scores[~rows] for scores in held.experts], held.truth[~rows], WEIGHTS)
        codes = pooled([scores[rows] for scores in held.experts], weights).argmax(axis=1)
        right += (codes == held.truth[rows]).tolist()
    assert weigh(held).accuracy == np.mean(right)
