"""Promises about uncertainty, checked as frequencies: not broken, and not kept by saying nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import LocalModel
from onefold.federated.uncertainty import (
    Calibration,
    LabelUncertainty,
    Uncertainty,
    calibrate,
    largest_p_values,
    merge,
)

SETUPS = {
    "folding": (FoldingClassifier(n_components=10, batch_size=50), 1.0),
    "distance": (AutoencoderClassifier(WideKAHM(n_components=10, n_layers=1)), np.inf),
}


@pytest.fixture(scope="module", params=list(SETUPS))
def federation(request):
    """Answers of five owners (5, n, 10) to rows nobody has fitted, their labels, and the maximum."""
    estimator, largest = SETUPS[request.param]
    data = load("digits")
    X, y = np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    order = np.random.default_rng(1).permutation(len(y))
    fitted, rest = order[:500], order[500:]
    parts = partition(y[fitted], 5, "dirichlet", alpha=1.0, random_state=0)
    models = [LocalModel(estimator).fit(X[fitted[rows]], y[fitted[rows]]) for rows in parts]
    answers = np.stack([model.answers(X[rest], np.arange(10)) for model in models])
    scattered = X[rest][:, np.random.default_rng(2).permutation(X.shape[1])]  # the same pixels elsewhere
    foreign = np.stack([model.answers(scattered, np.arange(10)) for model in models])
    return answers, y[rest], largest, foreign


def splits(n_rows: int, n_held: int, n_owners: int, repeats: int):
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(n_rows)
        yield np.array_split(order[:n_held], n_owners), order[n_held:]


def calibrated(measures, truth, owners, largest) -> Uncertainty:
    return Uncertainty(merge(calibrate(measures[rows], truth[rows], largest=largest) for rows in owners))


def calibration_error(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Expected calibration error of the predicted class, in fifteen bins."""
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    bins = np.minimum((sure * 15).astype(int), 14)
    return sum(
        abs(sure[bins == b].mean() - right[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins)
    )


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("n_owners", [1, 5])
def test_sets_cover_as_promised_and_not_more(federation, alpha, n_owners) -> None:
    """Between 1 - alpha and 1 - alpha + owners / (rows + owners), and ties of cells."""
    answers, truth, largest, _ = federation
    measures = answers.min(axis=0)
    frequency = []
    for owners, rest in splits(len(truth), 500, n_owners, 40):
        sets = calibrated(measures, truth, owners, largest).prediction_sets(measures[rest], alpha)
        frequency.append(sets[np.arange(len(rest)), truth[rest]].mean())
    # Coverage given the calibration rows is beta distributed around its mean: average over many splits.
    error = np.std(frequency) / np.sqrt(len(frequency))
    assert np.mean(frequency) > 1 - alpha - 4 * error
    assert np.mean(frequency) < 1 - alpha + n_owners / (500 + n_owners) + 0.01 + 4 * error


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_coverage_is_binomial(alpha) -> None:
    """Owners with rows, models' mistakes and queries of their own, drawn anew each time: one query each."""
    rng = np.random.default_rng(0)
    sizes, trials = (30, 60, 20), 500
    hits = alarms = 0
    for _ in range(trials):
        tables = []
        # The query comes from an owner with probability proportional to its rows held back plus one.
        origin = rng.choice(3, p=np.array([size + 1 for size in sizes]) / (sum(sizes) + 3))
        for owner, size in enumerate(sizes):
            truth = rng.integers(0, 4, size + 1)
            measures = rng.uniform(0, 1, (size + 1, 4))
            # Owners differ in how close the right class is.
            measures[np.arange(size + 1), truth] *= (owner + 1) / 4
            tables.append(calibrate(measures[:-1], truth[:-1], largest=1.0, n_cells=2000))
            if owner == origin:
                query, right = measures[-1:], truth[-1]
        sure = Uncertainty(merge(tables))
        hits += bool(sure.prediction_sets(query, alpha)[0, right])
        alarms += bool(sure.is_foreign(query, alpha)[0])
    slack = 3 / 113 + 0.005
    assert binom.cdf(hits, trials, 1 - alpha) > 1e-3
    assert binom.sf(hits - 1, trials, min(1 - alpha + slack, 1)) > 1e-3
    assert binom.sf(alarms - 1, trials, alpha) > 1e-3
    assert binom.cdf(alarms, trials, alpha - slack) > 1e-3


def test_sets_are_small_where_the_classifier_is_good(federation) -> None:
    answers, truth, largest, _ = federation
    measures = answers.min(axis=0)
    owners, rest = next(splits(len(truth), 500, 5, 1))
    sets = calibrated(measures, truth, owners, largest).prediction_sets(measures[rest], 0.02)
    assert 0.9 < sets.sum(axis=1).mean() < 2.0


def test_sets_by_class_cover_every_class(federation) -> None:
    answers, truth, largest, _ = federation
    measures = answers.min(axis=0)
    covered = np.zeros(10)
    total = np.zeros(10)
    for owners, rest in splits(len(truth), 600, 1, 30):
        sets = calibrated(measures, truth, owners, largest).prediction_sets(
            measures[rest], 0.1, conditional=True
        )
        for c in range(10):
            mine = truth[rest] == c
            covered[c] += sets[mine, c].sum()
            total[c] += mine.sum()
    assert np.all(covered / total > 0.9 - 0.02)
    assert np.all(covered / total < 0.9 + 0.06)  # some sixty rows of a class: steps of 1/60, and ties


def test_probabilities_are_calibrated(federation) -> None:
    answers, truth, largest, _ = federation
    measures = answers.min(axis=0)
    errors, plain = [], []
    for owners, rest in splits(len(truth), 500, 5, 10):
        probabilities = calibrated(measures, truth, owners, largest).probabilities(measures[rest])
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        np.testing.assert_array_equal(probabilities.argmax(axis=1), measures[rest].argmin(axis=1))
        errors.append(calibration_error(probabilities, truth[rest]))
        softmax = np.exp(-measures[rest])
        plain.append(calibration_error(softmax / softmax.sum(axis=1, keepdims=True), truth[rest]))
    assert np.mean(errors) < 0.04
    assert np.mean(errors) < 0.2 * np.mean(plain)


def test_only_queries_unlike_the_training_rows_are_flagged(federation) -> None:
    answers, truth, largest, foreign = federation
    measures = answers.min(axis=0)
    alarms, caught = [], []
    for owners, rest in splits(len(truth), 500, 5, 40):
        sure = calibrated(measures, truth, owners, largest)
        alarms.append(sure.is_foreign(measures[rest], 0.05).mean())
        caught.append(sure.is_foreign(foreign.min(axis=0), 0.05).mean())
    error = np.std(alarms) / np.sqrt(len(alarms))
    assert np.mean(alarms) < 0.05 + 4 * error
    assert np.mean(alarms) > 0.05 - 5 / 505 - 0.01 - 4 * error  # not kept by never saying anything
    assert np.mean(caught) > 0.9


def test_largest_p_value_covers_queries_of_any_site(federation) -> None:
    """The largest p-value covers whichever owner the queries come from; pooling does so on average only."""
    answers, truth, largest, _ = federation
    rng = np.random.default_rng(0)
    misses = {owner: [] for owner in range(5)}
    sizes = []
    for _ in range(20):
        order = rng.permutation(len(truth))
        shares = np.array_split(order, 5)  # each owner's rows: half held back, half asked about
        tables, asked = {}, {}
        for owner, rows in enumerate(shares):
            half = len(rows) // 2
            tables[owner] = calibrate(answers[owner][rows[:half]], truth[rows[:half]], largest=largest)
            asked[owner] = rows[half:]
        for owner, rows in asked.items():
            values = largest_p_values(tables, {q: answers[q][rows] for q in range(5)})
            sets = values > 0.1
            misses[owner].append(1 - sets[np.arange(len(rows)), truth[rows]].mean())
            sizes.append(sets.sum(axis=1).mean())
    assert all(np.mean(found) < 0.1 + 4 * np.std(found) / np.sqrt(20) for found in misses.values())
    assert np.mean(sizes) < 9  # not by naming every class


def test_a_liar_can_only_enlarge_the_sets(federation) -> None:
    answers, truth, largest, _ = federation
    tables = {q: calibrate(answers[q][:300], truth[:300], largest=largest) for q in range(5)}
    given = {q: answers[q][300:] for q in range(5)}
    honest = largest_p_values(tables, given)
    for lie in (0.0, 0.5):
        lying = largest_p_values(tables, {**given, 2: np.full_like(given[2], lie)})
        without = largest_p_values({q: t for q, t in tables.items() if q != 2}, given)
        assert np.all(lying >= without)
    assert np.all(honest >= without)


def test_counts_of_sites_add_up_and_can_be_taken_away(federation) -> None:
    answers, truth, largest, _ = federation
    measures = answers.min(axis=0)
    parts = [calibrate(measures[i:400:4], truth[i:400:4], largest=largest) for i in range(4)]
    whole = calibrate(measures[:400], truth[:400], largest=largest)
    together = merge(parts)
    for name in ("relative", "relative_wrong", "typical", "nearest"):
        np.testing.assert_array_equal(getattr(together, name), getattr(whole, name))
    assert (together.n_rows, together.n_owners) == (400, 4)
    shuffled = Uncertainty(merge(parts[::-1]))
    np.testing.assert_array_equal(
        shuffled.probabilities(measures), Uncertainty(together).probabilities(measures)
    )


@pytest.mark.parametrize("largest", [1.0, np.inf])
def test_extreme_numbers_give_finite_results(largest) -> None:
    truth = np.array([0, 1, 0, 1])
    top = min(largest, np.finfo(float).max)
    measures = np.array([[0.0, top], [top, 0.0], [0.0, 0.0], [top, top]])
    sure = Uncertainty(calibrate(measures, truth, largest=largest))
    for odd in (measures, [[largest, largest], [0.0, largest], [1e-300, 1e-300]]):
        probabilities = sure.probabilities(odd)
        assert np.all(np.isfinite(probabilities) & (probabilities > 0))
        assert np.all((sure.p_values(odd) > 0) & (sure.p_values(odd) <= 1))
        assert np.all((sure.foreign_p_values(odd) > 0) & (sure.foreign_p_values(odd) <= 1))
    assert sure.prediction_sets([[0.2, 0.3]], 0.1).all()  # four rows rule nothing out
    with pytest.raises(InvalidInputError, match="hold back more"):
        sure.is_foreign(measures, 0.1)
    alone = Uncertainty(calibrate([[0.3], [0.4]], [0, 0], largest=largest))
    np.testing.assert_array_equal(alone.probabilities([[0.3]]), [[1.0]])


def test_invalid_arguments_are_refused() -> None:
    measures, truth = np.random.default_rng(0).random((20, 3)), np.arange(20) % 3
    one = calibrate(measures, truth, largest=1.0)
    sure = Uncertainty(one)
    for call in (
        lambda: calibrate(measures, truth[:-1], largest=1.0),
        lambda: calibrate(measures, truth + 1, largest=1.0),
        lambda: calibrate(measures, truth * 1.0, largest=1.0),
        lambda: calibrate(measures * 2, truth, largest=1.0),
        lambda: calibrate(measures, truth, largest=1.0, n_cells=1),
        lambda: calibrate(measures, truth, largest=1.0, unit=0.0),
        lambda: calibrate(measures, truth, largest=1.0, unit=np.nan),
        lambda: merge([]),
        lambda: merge([one, calibrate(measures, truth, largest=1.0, n_cells=10)]),
        lambda: merge([one, calibrate(measures, truth, largest=np.inf)]),
        lambda: sure.probabilities(measures[:, :2]),
        lambda: sure.probabilities(np.full((1, 3), np.nan)),
        lambda: sure.prediction_sets(measures, 0.0),
        lambda: sure.prediction_sets(measures, 1.0),
        lambda: sure.prediction_sets(measures, np.nan),
        lambda: sure.is_foreign(measures, "often"),
        lambda: Uncertainty(None),
        lambda: largest_p_values({}, {}),
        lambda: largest_p_values({1: one}, {2: measures}),
        lambda: largest_p_values({1: one}, {1: measures[:, :2]}),
        lambda: Calibration(one.relative, one.relative_wrong, one.typical, one.nearest + 1, 1, 1.0, 1.0),
        lambda: Calibration(one.relative - 1, one.relative_wrong, one.typical, one.nearest, 1, 1.0, 1.0),
        lambda: Calibration(one.relative[0], one.relative_wrong, one.typical, one.nearest, 1, 1.0, 1.0),
        lambda: Calibration(one.relative, one.relative_wrong, one.typical, one.nearest, 0, 1.0, 1.0),
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
    sure = Uncertainty.of(measures, labels.astype(str), np.array(["b", "a"]))
    assert sure.calibration.n_rows == 36
    assert sure.probabilities(measures[:1])[0, 0] > 0.9
    with pytest.raises(InvalidInputError, match="no labelled row"):
        Uncertainty.of(measures, np.full(40, "new"), np.array(["b", "a"]))
    with pytest.raises(InvalidInputError, match="not among the classes"):
        LabelUncertainty(["b"], ["b"], ["a", "b"]).probabilities(["z"])
