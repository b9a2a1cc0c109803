"""Ten owners, two of whom lie: what each rule makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import FoldingClassifier
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel, simulate
from onefold.federated.messages import Answers
from onefold.federated.rules import decide, minimum, trimmed, weighted
from onefold.federated.simulate import LIES, lie
from onefold.federated.trust import agreement, learn_trust, separation

LYING = (2, 7)


@pytest.fixture(scope="module")
def federation():
    """Answers of ten honest owners (10, n, 10) to the test part and to a hundred labelled queries."""
    data = load("digits")
    order = np.random.default_rng(0).permutation(len(data.y_train))
    public, rest = order[:100], order[100:]
    estimator = FoldingClassifier(n_components=10, batch_size=50)
    asked, labelled = [], []
    for rows in partition(data.y_train[rest], 10, "iid", random_state=0):
        mine = rest[rows]
        model = LocalModel(estimator, keep_rows=False).fit(data.X_train[mine], data.y_train[mine])
        asked.append(model.answers(data.X_test, np.arange(10)))
        labelled.append(model.answers(data.X_train[public], np.arange(10)))
    return np.stack(asked), data.y_test, np.stack(labelled), data.y_train[public]


def with_lies(answers: np.ndarray, kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    lying = answers.copy()
    for client in LYING:
        lying[client] = lie(kind, answers[client], 1.0, rng)
    return lying


def accuracy(measures: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(decide(measures) == truth))


@pytest.mark.parametrize("kind", ["zero", "random", "flipped"])
def test_minimum_fails_when_sites_lie(federation, kind) -> None:
    answers, truth, *_ = federation
    assert accuracy(minimum(answers), truth) > 0.97
    assert accuracy(minimum(with_lies(answers, kind)), truth) < 0.8


@pytest.mark.parametrize("kind", list(LIES))
def test_the_trimmed_rule_stays_within_two_points(federation, kind) -> None:
    answers, truth, *_ = federation
    honest = accuracy(minimum(answers), truth)
    assert accuracy(trimmed(with_lies(answers, kind), 2, largest=1.0), truth) > honest - 0.02
    assert accuracy(trimmed(answers, 2, largest=1.0), truth) > honest - 0.02  # and when nobody lies
    assert (
        accuracy(trimmed(with_lies(answers, "zero"), 1, largest=1.0), truth) < 0.2
    )  # f must be large enough


@pytest.mark.parametrize("kind", ["zero", "random", "flipped"])
def test_the_weighted_rule_stays_within_two_points_and_finds_the_liars(federation, kind) -> None:
    answers, truth, labelled, labels = federation
    honest = accuracy(minimum(answers), truth)
    weights = learn_trust(with_lies(labelled, kind), labels, 1.0)
    assert np.flatnonzero(weights.sum(axis=1) == 0).tolist() == list(LYING)
    assert np.delete(weights, LYING, axis=0).mean() > 0.95
    assert accuracy(weighted(with_lies(answers, kind), weights, 1.0), truth) > honest - 0.02
    everybody = learn_trust(labelled, labels, 1.0)
    assert accuracy(weighted(answers, everybody, 1.0), truth) > honest - 0.02


def test_weighted_rule_works_with_one_site_per_class(federation) -> None:
    """With one owner of each class nothing can be trimmed; labelled queries tell who lies."""
    answers, truth, labelled, labels = federation

    def single(array: np.ndarray) -> np.ndarray:
        alone = np.ones_like(array)
        for client in range(10):
            alone[client, :, client] = array[client, :, client]
        return alone

    def liars_claim_everything(array: np.ndarray) -> np.ndarray:
        lying = single(array)
        lying[list(LYING)] = 0.0
        return lying

    honest = accuracy(minimum(single(answers)), truth)
    assert accuracy(trimmed(single(answers), 2, largest=1.0), truth) == honest
    assert accuracy(trimmed(liars_claim_everything(answers), 2, largest=1.0), truth) < 0.2
    weights = learn_trust(liars_claim_everything(labelled), labels, 1.0)
    assert np.flatnonzero(weights.sum(axis=1) == 0).tolist() == list(LYING)
    known = ~np.isin(truth, LYING)  # nobody is left who has the liars' classes
    measured = weighted(liars_claim_everything(answers), weights, 1.0)
    assert accuracy(measured[known], truth[known]) > honest - 0.02


def test_dominant_site_that_shrinks_its_answers_is_not_trusted(federation) -> None:
    *_, labelled, labels = federation
    half = labelled.copy()
    half[4, :, 5:] = 1.0  # has half of the classes, and decides everything with them
    lying = half.copy()
    lying[4] = lie("shrunk", half[4], 1.0, np.random.default_rng(0))
    assert learn_trust(half, labels, 1.0)[4].any()
    assert not learn_trust(lying, labels, 1.0)[4].any()


def test_separation_is_the_area_under_the_curve() -> None:
    rng = np.random.default_rng(0)
    answers, truth = rng.random((3, 30, 2)), rng.integers(0, 2, 30)
    answers[1] = 0.5
    areas, errors = separation(answers, truth)
    for client in range(3):
        for column in range(2):
            inside, outside = (
                answers[client, truth == column, column],
                answers[client, truth != column, column],
            )
            pairs = [(a < b) + 0.5 * (a == b) for a in inside for b in outside]
            assert areas[client, column] == pytest.approx(np.mean(pairs))
    assert np.all(areas[1] == 0.5)
    # The error is that of answers that know nothing.
    many = np.random.default_rng(1).random((2000, 30, 2))
    spread = separation(many, truth)[0].std(axis=0)
    np.testing.assert_allclose(spread, errors[0], rtol=0.1)


def test_only_sites_that_labelled_rows_confirm_are_trusted() -> None:
    answers = np.random.default_rng(0).uniform(0.3, 0.9, (3, 20, 3))
    truth = np.repeat([0, 1], 10)  # no query of class 2
    answers[1:, np.arange(20), truth] = 0.1  # the second and the third know what they are talking about
    answers[1, :, 0] = 1.0  # the second lacks a class
    answers[2, :, :2] = 1.0  # the third has only the class that cannot be judged
    weights = learn_trust(answers, truth, 1.0)
    assert weights.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    for bad in ([0] * 19, [3] * 20, [-1] * 20, [0.5] * 20, []):
        with pytest.raises(InvalidInputError, match="truth"):
            learn_trust(answers, bad, 1.0)


def test_agreement_separates_liars_without_labels(federation) -> None:
    answers, *_ = federation
    for kind in ("zero", "random", "flipped"):
        values = agreement(with_lies(answers, kind), 1.0)
        assert values[list(LYING)].max() < 0.5 < np.delete(values, LYING).min()
    assert np.isnan(agreement(answers[:1], 1.0)).all()
    assert np.isnan(agreement(answers[:, :2], 1.0)).all()


@pytest.mark.parametrize("n_clients, n_liars", [(5, 2), (7, 3), (3, 1), (9, 2)])
def test_trimmed_lies_between_honest_answers_whatever_liars_say(n_clients, n_liars) -> None:
    rng = np.random.default_rng(n_clients)
    for _ in range(50):
        answers = rng.random((n_clients, 4, 3))
        lying = rng.choice(n_clients, n_liars, replace=False)
        honest = np.delete(answers, lying, axis=0)
        answers[lying] = rng.choice([0.0, 1e-9, 0.5, 1.0 - 1e-9, 1.0], size=(n_liars, 4, 3))
        combined = trimmed(answers, n_liars, np.ones((n_clients, 3), dtype=bool), largest=1.0)
        assert np.all((combined >= honest.min(axis=0)) & (combined <= honest.max(axis=0)))


def test_trimmed_rule_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    answers = rng.random((6, 5, 4))
    owned = rng.random((6, 4)) < 0.6
    owned[:, 3] = False  # nobody has the last class
    answers[~owned.repeat(5, axis=0).reshape(6, 5, 4)] = 1.0
    combined = trimmed(answers, 2, largest=1.0)
    for i in range(5):
        for c in range(4):
            mine = sorted(answers[q, i, c] for q in range(6) if owned[q, c])
            expected = mine[min(2, (len(mine) - 1) // 2)] if mine else 1.0
            assert combined[i, c] == expected
    np.testing.assert_array_equal(trimmed(answers[::-1], 2, largest=1.0), combined)
    np.testing.assert_array_equal(trimmed(answers, 0, largest=1.0), minimum(answers))


def test_weights_in_between_make_answers_larger() -> None:
    distances = np.array([[[2.0, 4.0]], [[3.0, 3.0]]])
    np.testing.assert_array_equal(weighted(distances, [0.5, 1.0]), [[3.0, 3.0]])
    folding = np.array([[[0.2, 0.4]]])
    np.testing.assert_allclose(weighted(folding, [[0.5, 0.0]], 1.0), [[0.6, 1.0]])
    for bad in ([2.0, 1.0], [-1.0, 1.0], [np.nan, 1.0], [1.0], [[[1.0]]]):
        with pytest.raises(InvalidInputError, match="weights"):
            weighted(distances, bad)
    for bad in ([[1, 0], [0, 1]], np.ones((2, 3), dtype=bool)):
        with pytest.raises(InvalidInputError, match="owned"):
            trimmed(distances, 1, bad)
    with pytest.raises(InvalidInputError, match="n_liars"):
        trimmed(distances, -1)


def test_server_applies_each_rule(federation) -> None:
    answers, truth, labelled, labels = federation
    classes = np.arange(10)
    lying, probes = with_lies(answers, "zero"), with_lies(labelled, "zero")

    def messages(array: np.ndarray) -> dict[str, Answers]:
        return {
            f"site{q}": Answers("q", f"site{q}", tuple(range(10)), "rms", 1.0, a) for q, a in enumerate(array)
        }

    for rule in ("min", "trimmed", "weighted"):
        server = GlobalClassifier(rule, classes, n_liars=2, measure="rms")
        server.learn_trust(None, labels, messages(probes))
        for site, message in messages(lying).items():
            server.add(site, message)
        score = np.mean(server.predict() == truth)
        assert score < 0.2 if rule == "min" else score > 0.96
    with pytest.raises(InvalidInputError, match="learn_trust"):
        GlobalClassifier("weighted", classes).add("a", answers[0]).predict()
    for call in (
        lambda: GlobalClassifier().learn_trust(None, [1]),
        lambda: GlobalClassifier().learn_trust([[1.0]], []),
        lambda: GlobalClassifier().learn_trust(None, [1, 2], messages(probes)),
    ):
        with pytest.raises(InvalidInputError):
            call()


@pytest.mark.parametrize("rule", ["min", "trimmed", "weighted"])
def test_simulation_with_liars_equals_a_server_with_liars(federation, rule) -> None:
    """The streaming federation gives what the rules give for all answers at once."""
    answers, truth, labelled, labels = federation
    data = load("digits")
    order = np.random.default_rng(0).permutation(len(data.y_train))
    public, rest = order[:100], order[100:]
    result = simulate(
        data.X_train[rest],
        data.y_train[rest],
        10,
        partition(data.y_train[rest], 10, "iid", random_state=0),
        method="folding",
        estimator=FoldingClassifier(n_components=10, batch_size=50),
        X_test=data.X_test,
        y_test=data.y_test,
        rule=rule,
        liars=dict.fromkeys(LYING, "flipped"),
        labelled=(data.X_train[public], data.y_train[public]),
        pooled=False,
    )
    apply = {
        "min": lambda array, probes: minimum(array),
        "trimmed": lambda array, probes: trimmed(array, 2, largest=1.0),
        "weighted": lambda array, probes: weighted(array, learn_trust(probes, labels, 1.0), 1.0),
    }[rule]
    assert result.honest == accuracy(apply(answers, labelled), truth)
    expected = apply(with_lies(answers, "flipped"), with_lies(labelled, "flipped"))
    assert result.federated == accuracy(expected, truth)
    assert np.isnan(result.pooled)
    for bad in ({10: "zero"}, {0: "white"}):
        with pytest.raises(InvalidInputError, match="liars"):
            simulate(data.X_train[:100], data.y_train[:100], 2, liars=bad)
    with pytest.raises(InvalidInputError, match="labelled"):
        simulate(data.X_train[:100], data.y_train[:100], 2, rule="weighted")
