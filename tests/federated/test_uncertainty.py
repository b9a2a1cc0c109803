"""Promises about uncertainty, checked as frequencies: not broken, and not kept by saying nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import LocalModel
from onefold.federated.uncertainty import LabelUncertainty, Uncertainty

SETUPS = {
    "folding": FoldingClassifier(n_components=10, batch_size=50),
    "distance": AutoencoderClassifier(WideKAHM(n_components=10, n_layers=1)),
}


@pytest.fixture(scope="module", params=list(SETUPS))
def federation(request):
    """Combined measures (n, 10) of rows nobody has fitted, their labels, and measures of foreign rows."""
    estimator = SETUPS[request.param]
    data = load("digits")
    X, y = np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    order = np.random.default_rng(1).permutation(len(y))
    fitted, rest = order[:500], order[500:]
    parts = partition(y[fitted], 5, "dirichlet", alpha=1.0, random_state=0)
    models = [LocalModel(estimator).fit(X[fitted[rows]], y[fitted[rows]]) for rows in parts]
    answers = np.stack([model.answers(X[rest], np.arange(10)) for model in models])
    scattered = X[rest][:, np.random.default_rng(2).permutation(X.shape[1])]  # the same pixels elsewhere
    foreign = np.stack([model.answers(scattered, np.arange(10)) for model in models])
    return answers.min(axis=0), y[rest], foreign.min(axis=0)


def splits(n_rows: int, n_held: int, repeats: int):
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(n_rows)
        yield order[:n_held], order[n_held:]


def calibrated(measures, truth, held) -> Uncertainty:
    return Uncertainty(measures[held], truth[held], np.arange(measures.shape[1]))


def calibration_error(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Expected calibration error of the predicted class, in fifteen bins."""
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    bins = np.minimum((sure * 15).astype(int), 14)
    return sum(
        abs(sure[bins == b].mean() - right[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins)
    )


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_sets_cover_as_promised_and_not_more(federation, alpha) -> None:
    """Between 1 - alpha and 1 - alpha + 1 / (rows + 1), and ties of cells."""
    measures, truth, _ = federation
    frequency = []
    for held, rest in splits(len(truth), 500, 40):
        sets = calibrated(measures, truth, held).prediction_sets(measures[rest], alpha)
        frequency.append(sets[np.arange(len(rest)), truth[rest]].mean())
    # Coverage given the calibration rows is beta distributed around its mean: average over many splits.
    error = np.std(frequency) / np.sqrt(len(frequency))
    assert np.mean(frequency) > 1 - alpha - 4 * error
    assert np.mean(frequency) < 1 - alpha + 1 / 501 + 0.01 + 4 * error


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_coverage_is_binomial(alpha) -> None:
    """Labelled rows, models' mistakes and a query, drawn anew each time."""
    rng = np.random.default_rng(0)
    n_rows, trials = 110, 500
    hits = alarms = 0
    for _ in range(trials):
        truth = rng.integers(0, 4, n_rows + 1)
        measures = rng.uniform(0, 1, (n_rows + 1, 4))
        measures[np.arange(n_rows + 1), truth] *= rng.choice([0.25, 0.5, 0.75], n_rows + 1)
        sure = Uncertainty(measures[:-1], truth[:-1], range(4))
        hits += bool(sure.prediction_sets(measures[-1:], alpha)[0, truth[-1]])
        alarms += bool(sure.is_foreign(measures[-1:], alpha)[0])
    slack = 1 / 111 + 0.01
    assert binom.cdf(hits, trials, 1 - alpha) > 1e-3
    assert binom.sf(hits - 1, trials, min(1 - alpha + slack, 1)) > 1e-3
    assert binom.sf(alarms - 1, trials, alpha) > 1e-3
    assert binom.cdf(alarms, trials, alpha - slack) > 1e-3


def test_sets_are_small_where_the_classifier_is_good(federation) -> None:
    measures, truth, _ = federation
    held, rest = next(splits(len(truth), 500, 1))
    sets = calibrated(measures, truth, held).prediction_sets(measures[rest], 0.02)
    assert 0.9 < sets.sum(axis=1).mean() < 2.0


def test_sets_by_class_cover_every_class(federation) -> None:
    measures, truth, _ = federation
    covered = np.zeros(10)
    total = np.zeros(10)
    for held, rest in splits(len(truth), 600, 30):
        sets = calibrated(measures, truth, held).prediction_sets(measures[rest], 0.1, conditional=True)
        for c in range(10):
            mine = truth[rest] == c
            covered[c] += sets[mine, c].sum()
            total[c] += mine.sum()
    assert np.all(covered / total > 0.9 - 0.02)
    assert np.all(covered / total < 0.9 + 0.06)  # some sixty rows of a class: steps of 1/60, and ties


def test_probabilities_are_calibrated(federation) -> None:
    measures, truth, _ = federation
    errors, plain = [], []
    for held, rest in splits(len(truth), 500, 10):
        probabilities = calibrated(measures, truth, held).probabilities(measures[rest])
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        np.testing.assert_array_equal(probabilities.argmax(axis=1), measures[rest].argmin(axis=1))
        errors.append(calibration_error(probabilities, truth[rest]))
        softmax = np.exp(-measures[rest])
        plain.append(calibration_error(softmax / softmax.sum(axis=1, keepdims=True), truth[rest]))
    assert np.mean(errors) < 0.04
    assert np.mean(errors) < 0.2 * np.mean(plain)


def test_only_queries_unlike_the_training_rows_are_flagged(federation) -> None:
    measures, truth, foreign = federation
    alarms, caught = [], []
    for held, rest in splits(len(truth), 500, 40):
        sure = calibrated(measures, truth, held)
        alarms.append(sure.is_foreign(measures[rest], 0.05).mean())
        caught.append(sure.is_foreign(foreign, 0.05).mean())
    error = np.std(alarms) / np.sqrt(len(alarms))
    assert np.mean(alarms) < 0.05 + 4 * error
    assert np.mean(alarms) > 0.05 - 1 / 501 - 0.01 - 4 * error  # not kept by never saying anything
    assert np.mean(caught) > 0.9


@pytest.mark.parametrize("largest", [1.0, np.inf])
def test_extreme_numbers_give_finite_results(largest) -> None:
    truth = np.array([0, 1, 0, 1])
    top = min(largest, np.finfo(float).max)
    measures = np.array([[0.0, top], [top, 0.0], [0.0, 0.0], [top, top]])
    sure = Uncertainty(measures, truth, [0, 1])
    for odd in (measures, [[largest, largest], [0.0, largest], [1e-300, 1e-300]]):
        probabilities = sure.probabilities(odd)
        assert np.all(np.isfinite(probabilities) & (probabilities > 0))
        assert np.all((sure.p_values(odd) > 0) & (sure.p_values(odd) <= 1))
        assert np.all((sure.foreign_p_values(odd) > 0) & (sure.foreign_p_values(odd) <= 1))
    assert sure.prediction_sets([[0.2, 0.3]], 0.1).all()  # four rows rule nothing out
    with pytest.raises(InvalidInputError, match="give more"):
        sure.is_foreign(measures, 0.1)
    alone = Uncertainty([[0.3], [0.4]], [0, 0], [0])
    np.testing.assert_array_equal(alone.probabilities([[0.3]]), [[1.0]])


def test_invalid_arguments_are_refused() -> None:
    measures, truth = np.random.default_rng(0).random((20, 3)), np.arange(20) % 3
    sure = Uncertainty(measures, truth, range(3))
    for call in (
        lambda: Uncertainty(measures, truth[:-1], range(3)),
        lambda: Uncertainty(measures[:, :2], truth, [7, 8]),
        lambda: Uncertainty(-measures, truth, range(3)),
        lambda: Uncertainty(measures, truth, [range(3)]),
        lambda: sure.probabilities(measures[:, :2]),
        lambda: sure.probabilities(np.full((1, 3), np.nan)),
        lambda: sure.prediction_sets(measures, 0.0),
        lambda: sure.prediction_sets(measures, 1.0),
        lambda: sure.prediction_sets(measures, np.nan),
        lambda: sure.is_foreign(measures, "often"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_sets_from_labels_alone_cover_as_promised_and_say_something(alpha) -> None:
    """Encrypted answers: four classes, of which two are often mixed up."""
    rng = np.random.default_rng(0)
    classes, covered, sizes = np.array(list("abcd")), [], []
    confused = np.array([[0.7, 0.3, 0, 0], [0.3, 0.7, 0, 0], [0, 0, 0.97, 0.03], [0, 0, 0.03, 0.97]])
    for _ in range(60):
        truth = rng.integers(0, 4, 400)
        answers = (rng.random((400, 1)) > confused[truth].cumsum(axis=1)).sum(axis=1)
        sure = LabelUncertainty(classes[answers[:200]], classes[truth[:200]], classes)
        sets = sure.prediction_sets(classes[answers[200:]], alpha)
        covered.append(sets[np.arange(200), truth[200:]].mean())
        sizes.append(sets.sum(axis=1).mean())
    assert np.mean(covered) > 1 - alpha - 0.01
    assert np.mean(sizes) < 2.5


def test_probabilities_from_labels_alone_are_shares_of_the_classes() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 3000)
    answers = np.where(rng.random(3000) < 0.2, rng.integers(0, 3, 3000), truth)
    sure = LabelUncertainty(answers, truth, [0, 1, 2])
    found = sure.probabilities([0, 1, 2])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.diag(found), 0.8 + 0.2 / 3, atol=0.03)
    assert sure.n_rows == 3000


def test_labelled_rows_of_unknown_classes_are_left_out_and_nothing_else_is_refused() -> None:
    measures = np.tile([[0.1, 0.9], [0.8, 0.2]], (20, 1))
    labels = np.array(["b", "a"] * 20, dtype=object)  # columns in another order than sorted
    labels[:4] = "new"
    sure = Uncertainty(measures, labels.astype(str), np.array(["b", "a"]))
    assert sure.n_rows == 36
    assert sure.probabilities(measures[:1])[0, 0] > 0.9
    with pytest.raises(InvalidInputError, match="no labelled row"):
        Uncertainty(measures, np.full(40, "new"), np.array(["b", "a"]))
    with pytest.raises(InvalidInputError, match="not among the classes"):
        LabelUncertainty(["b"], ["b"], ["a", "b"]).probabilities(["z"])
