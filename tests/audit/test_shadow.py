"""Shadow models: the ratios are those of the definition, memorising models are found out, others are not."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.tiers import thinned

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.audit import likelihood_ratio_attack, own_class_score
from onefold.exceptions import InvalidInputError

X, Y = make_classification(240, n_features=6, n_informative=4, flip_y=0.3, random_state=0)


class Recorder:
    """A model that is its training rows; its score is whatever the test wants to see."""

    def __init__(self, score) -> None:
        self.fits: list[tuple[np.ndarray, np.ndarray, int]] = []
        self.scores: list[np.ndarray] = []
        self._score = score

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
        self.fits.append((X, y, seed))
        return X, seed

    def score(self, fitted, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        found = self._score(fitted, X)
        self.scores.append(found)
        return found


def inside(rows: np.ndarray, X: np.ndarray) -> np.ndarray:
    known = {row.tobytes() for row in rows}
    return np.array([row.tobytes() in known for row in X])


def leaky(fitted, X: np.ndarray) -> np.ndarray:
    """Noise of its own size for each point, plus a little for members: only a calibrated attack can tell."""
    rows, seed = fitted
    rng = np.random.default_rng(seed)
    level = 100 * np.sin(np.arange(len(X)))
    return level + rng.normal(size=len(X)) + 3.0 * inside(rows, X)


def blind(fitted, X: np.ndarray) -> np.ndarray:
    return np.random.default_rng(fitted[1]).normal(size=len(X))


@pytest.mark.parametrize(("variant", "n_shadows"), thinned(["online", "offline"], [8, 64]))
def test_log_ratios_match_their_definition(variant: str, n_shadows: int) -> None:
    recorder = Recorder(leaky)
    attack = likelihood_ratio_attack(
        recorder.fit,
        X,
        Y,
        score=recorder.score,
        variant=variant,
        n_shadows=n_shadows,
        n_jobs=1,
        random_state=0,
    )
    target, shadows = recorder.scores[0], np.array(recorder.scores[1:])
    masks = np.array([inside(rows, X) for rows, _, _ in recorder.fits[1:]])
    own = n_shadows == 64  # enough models for a variance of each point's own
    sums = {True: 0.0, False: 0.0}
    for side in sums:
        for i in range(len(X)):
            seen = shadows[masks[:, i] == side, i]
            sums[side] += np.sum((seen - seen.mean()) ** 2) / (len(X) * (len(seen) - 1))
    for i in (0, 5, 17):
        values = {}
        for side in (True, False):
            seen = shadows[masks[:, i] == side, i]
            assert len(seen) == n_shadows // 2
            values[side] = seen.mean(), seen.std(ddof=1) if own else np.sqrt(sums[side])
        expected = (target[i] - values[False][0]) / values[False][1]
        if variant == "online":
            expected = norm.logpdf(target[i], *values[True]) - norm.logpdf(target[i], *values[False])
        assert attack.log_ratios[i] == pytest.approx(expected)


def test_shadow_models_are_complementary_halves_of_each_class() -> None:
    recorder = Recorder(blind)
    attack = likelihood_ratio_attack(
        recorder.fit, X, Y, score=recorder.score, n_shadows=6, n_jobs=1, random_state=3
    )
    masks = np.array([inside(rows, X) for rows, _, _ in recorder.fits])
    np.testing.assert_array_equal(masks[0], attack.members)
    np.testing.assert_array_equal(masks[1:].sum(axis=0), np.full(len(X), 3))
    for rows, labels, _ in recorder.fits:
        for label in (0, 1):
            assert abs(np.mean(inside(rows, X)[label == Y]) - 0.5) < 0.01
        np.testing.assert_array_equal(labels, Y[inside(rows, X)])
    assert len({seed for _, _, seed in recorder.fits}) == 7
    assert len({mask.tobytes() for mask in masks}) == 7


def test_given_members_are_used() -> None:
    recorder, members = Recorder(blind), np.arange(len(X)) < 40
    attack = likelihood_ratio_attack(
        recorder.fit, X, Y, score=recorder.score, members=members, n_shadows=2, n_jobs=1
    )
    np.testing.assert_array_equal(recorder.fits[0][0], X[:40])
    np.testing.assert_array_equal(attack.members, members)
    assert (attack.result.n_members, attack.result.n_nonmembers) == (40, 200)


def test_shadow_models_find_a_leak_that_the_baseline_misses() -> None:
    recorder = Recorder(leaky)
    online, offline = (
        likelihood_ratio_attack(recorder.fit, X, Y, score=recorder.score, variant=variant, random_state=1)
        for variant in ("online", "offline")
    )
    assert 0.4 < online.baseline.auc < 0.6
    assert online.result.auc > 0.95
    assert offline.result.auc > 0.9
    assert online.result.auc >= offline.result.auc - 0.01


def test_attack_on_a_model_without_memory_finds_nothing() -> None:
    aucs = []
    for seed in range(10):
        recorder = Recorder(blind)
        attack = likelihood_ratio_attack(recorder.fit, X, Y, score=recorder.score, random_state=seed)
        aucs.append(attack.result.auc)
    assert abs(np.mean(aucs) - 0.5) < 3 * 0.037 / np.sqrt(10)  # 0.037: deviation of an AUC of 120 and 120


MEMORISING = [
    AutoencoderClassifier(WideKAHM(scale="auto")),
    FoldingClassifier(scale="auto"),
    RandomForestClassifier(30),
    make_pipeline(StandardScaler(), KNeighborsClassifier(1)),
]


@pytest.mark.parametrize("model", MEMORISING, ids=lambda model: type(model).__name__)
def test_attack_finds_members_of_models_that_memorise(model) -> None:
    attack = likelihood_ratio_attack(model, X, Y, n_shadows=8, random_state=0)
    assert attack.result.auc > 0.65


@pytest.mark.parametrize("model", [LogisticRegression(C=1e-3), GaussianNB(), LinearSVC(C=1e-4)])
def test_attack_finds_hardly_any_member_of_models_that_generalise(model) -> None:
    attack = likelihood_ratio_attack(model, X, Y, n_shadows=8, random_state=0)
    assert attack.result.auc < 0.65


def test_attack_works_with_many_classes() -> None:
    data = load_digits()
    model = AutoencoderClassifier(WideKAHM(scale="auto"))
    attack = likelihood_ratio_attack(model, data.data[:500], data.target[:500], n_shadows=4, random_state=0)
    assert attack.result.auc > 0.9


@pytest.mark.parametrize("model", [RandomForestClassifier(5), FoldingClassifier(scale="auto")])
def test_seed_decides_the_attack_and_n_jobs_does_not(model) -> None:
    ratios = [
        likelihood_ratio_attack(model, X, Y, n_shadows=4, n_jobs=n, random_state=seed).log_ratios
        for n, seed in ((1, 0), (3, 0), (1, 1))
    ]
    np.testing.assert_allclose(ratios[0], ratios[1], rtol=1e-6, atol=1e-9)
    assert not np.allclose(ratios[0], ratios[2])


def test_model_with_one_answer_gives_auc_one_half() -> None:
    for variant in ("online", "offline"):
        attack = likelihood_ratio_attack(
            lambda X, y, seed: None,
            X,
            Y,
            score=lambda m, X, y: np.arange(len(X)),
            variant=variant,
            n_shadows=2,
        )
        np.testing.assert_allclose(attack.log_ratios, 0.0, atol=1e-9)
        assert attack.result.auc == pytest.approx(0.5)


def test_own_class_score_reads_distances_probabilities_or_margins() -> None:
    data = load_digits()
    rows, labels = data.data[:300], data.target[:300]
    at = np.arange(300), labels
    ours = FoldingClassifier(scale="auto").fit(rows, labels)
    np.testing.assert_array_equal(own_class_score(ours, rows, labels), -ours.distances(rows)[at])
    soft = LogisticRegression(C=1e-4).fit(rows, labels)
    p = soft.predict_proba(rows)[at]
    some = (p > 1e-3) & (p < 1 - 1e-3)
    assert some.sum() > 100
    found = own_class_score(soft, rows, labels)
    np.testing.assert_allclose(found[some], np.log(p / (1 - p))[some], rtol=1e-9)
    assert np.isfinite(own_class_score(RandomForestClassifier(3).fit(rows, labels), rows, labels)).all()
    hard = LinearSVC().fit(X, Y)
    np.testing.assert_allclose(own_class_score(hard, X, Y), hard.decision_function(X) * (2 * Y - 1))
    many = LinearSVC(max_iter=20, dual=False, tol=1.0).fit(rows, labels)
    values = many.decision_function(rows)
    best_other = [max(np.delete(row, label)) for row, label in zip(values, labels, strict=True)]
    np.testing.assert_allclose(own_class_score(many, rows, labels), values[at] - best_other)
    with pytest.raises(InvalidInputError, match="known to every model"):
        own_class_score(hard, X, Y + 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_shadows": 3},
        {"n_shadows": 0},
        {"variant": "both"},
        {"y": Y[:-1]},
        {"y": np.arange(len(Y))},
        {"X": np.full_like(X, np.nan)},
        {"members": np.ones(len(Y), dtype=bool)},
        {"members": np.arange(len(Y))},
        {"model": "forest"},
        {"score": lambda model, X, y: X},
        {"score": lambda model, X, y: np.full(len(X), np.inf)},
        {"confidence": 2.0},
    ],
)
def test_attack_refuses_bad_input_in_one_line(changes: dict) -> None:
    good = {"model": GaussianNB(), "X": X, "y": Y, "n_shadows": 2, "random_state": 0}
    with pytest.raises(InvalidInputError) as caught:
        likelihood_ratio_attack(**{**good, **changes})
    assert "\n" not in str(caught.value)
