"""Liars where owners have unequal shares: who contradicts the others is found, and nothing else is lost."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import FoldingClassifier
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel, simulate
from onefold.federated.messages import Answers, Query
from onefold.federated.rules import agreement, checked, decide, disagreeing, minimum, trimmed
from onefold.federated.simulate import LIES, lie

LYING = (2, 7)
SPREADS = {"dirichlet 1": (1.0, 1), "dirichlet 0.3": (0.3, 1)}


@pytest.fixture(scope="module", params=SPREADS)
def skewed(request):
    """Answers (10, n, 10) of ten honest owners with unequal shares of every class, and the truth."""
    alpha, seed = SPREADS[request.param]
    data = load("digits")
    estimator = FoldingClassifier(n_components=10, batch_size=50)
    asked = []
    for rows in partition(data.y_train, 10, "dirichlet", alpha=alpha, random_state=seed):
        model = LocalModel(estimator, keep_rows=False).fit(data.X_train[rows], data.y_train[rows])
        asked.append(model.answers(data.X_test, np.arange(10)))
    return np.stack(asked), data.y_test


def with_lies(answers: np.ndarray, *kinds: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    lying = answers.copy()
    for client, kind in zip(LYING, kinds, strict=True):
        lying[client] = lie(kind, answers[client], 1.0, rng)
    return lying


def accuracy(measures: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(decide(measures) == truth))


@pytest.mark.parametrize(
    "kinds", [*((kind, kind) for kind in LIES), ("flipped", "shrunk"), ("zero", "random")]
)
def test_the_checked_rule_stays_within_two_points_of_the_honest_federation(skewed, kinds) -> None:
    answers, truth = skewed
    honest, lying = accuracy(minimum(answers), truth), with_lies(answers, *kinds)
    assert accuracy(minimum(lying), truth) < honest - 0.02
    assert accuracy(checked(lying, 2, 1.0), truth) > honest - 0.02
    found = {client for client, kind in zip(LYING, kinds, strict=True) if kind != "shrunk"}
    assert set(disagreeing(lying, 2, 1.0).tolist()) == found


def test_the_trimmed_rule_alone_loses_more_where_shares_are_unequal(skewed) -> None:
    answers, truth = skewed
    flipped = with_lies(answers, "flipped", "flipped")
    assert accuracy(trimmed(flipped, 2, largest=1.0), truth) < accuracy(minimum(answers), truth) - 0.02


def test_honest_sites_are_not_left_out(skewed) -> None:
    answers, _ = skewed
    assert disagreeing(answers, 2, 1.0).size == 0
    np.testing.assert_array_equal(checked(answers, 2, 1.0), trimmed(answers, 2, largest=1.0))


def test_few_queries_leave_no_site_out(skewed) -> None:
    answers, _ = skewed
    few = with_lies(answers, "flipped", "flipped")[:, :4]
    assert disagreeing(few, 2, 1.0).size == 0
    np.testing.assert_array_equal(checked(few, 2, 1.0), trimmed(few, 2, largest=1.0))


def test_strong_noise_at_every_site_leaves_no_site_out() -> None:
    """Strong noise at every owner: low agreement is the usual one, and no reason to leave anybody out."""
    answers = np.random.default_rng(0).random((10, 200, 3))
    assert disagreeing(answers, 3, 1.0).size == 0


def test_two_liars_cannot_have_an_honest_site_left_out() -> None:
    """Of a class with fewer than 2 f + 1 other owners the liars could be the majority: it does not count."""
    rng = np.random.default_rng(0)
    answers = rng.random((1, 200, 2)) + 0.05 * rng.random((4, 200, 2))
    answers[1:3] = answers[1:3, :, ::-1]  # two of four swap the classes, and agree with each other
    assert disagreeing(answers, 2, np.inf).size == 0
    assert disagreeing(answers, 0).size == 0
    answers[2] = answers[1, :, ::-1]
    assert disagreeing(answers, 1).tolist() == [1]  # one of four: three others are enough
    assert disagreeing(answers[:3], 1).size == 0
    with pytest.raises(InvalidInputError, match="n_liars"):
        disagreeing(answers, -1)


def test_agreement_equals_a_loop() -> None:
    rng = np.random.default_rng(1)
    for n_clients in (2, 3, 6, 7):
        answers = rng.integers(0, 8, (n_clients, 30, 2)) / 8.0  # with ties
        answers[0, :, 1] = np.inf
        expected = []
        for client in range(n_clients):
            found = []
            for column in range(2):
                others = [q for q in range(n_clients) if q != client and (q > 0 or column == 0)]
                if others and (client > 0 or column == 0):
                    middle = np.median(answers[others, :, column], axis=0)
                    a, b = (_ranks(v) for v in (answers[client, :, column], middle))
                    found.append(np.corrcoef(a, b)[0, 1])
            expected.append(np.mean(found))
        np.testing.assert_allclose(agreement(answers), expected, rtol=1e-12)
        assert np.isnan(agreement(answers, least_others=n_clients)).all()
    answers[1] = 0.5  # the same to every query: it follows nobody
    assert agreement(answers)[1] == 0.0
    with pytest.raises(InvalidInputError, match="least_others"):
        agreement(answers, least_others=0)


def _ranks(values: np.ndarray) -> list[float]:
    """Average ranks, the slow way."""
    return [np.mean([*np.flatnonzero(np.sort(values) == value)]) for value in values]


def test_server_names_the_sites_left_out(skewed) -> None:
    answers, truth = skewed
    lying = with_lies(answers, "zero", "flipped")
    names = [f"site{number}" for number in range(10)]
    query = Query("q", np.random.default_rng(0).random((len(truth), 3)))
    messages = {
        name: Answers("q", name, tuple(range(10)), "rms", 1.0, each)
        for name, each in zip(names, lying, strict=True)
    }
    server = GlobalClassifier("checked", n_liars=2)
    result = server.combine(messages, names, query=query)
    assert result.refused == {"site2": "constant", "site7": "disagrees"}
    assert result.partial
    assert set(result.answered) == set(names) - {"site2", "site7"}
    rest = np.delete(answers, LYING, axis=0)
    np.testing.assert_array_equal(result.measures, minimum(rest))  # no liar is left to be trimmed
    assert result.unprotected == ()
    # And in process: a federation without the liars is the same, to the last bit.
    for name, each in zip(names, lying, strict=True):
        server.classes = np.arange(10)
        server.add(name, Answers("q", name, tuple(range(10)), "rms", 1.0, each))
    server.measure = "rms"
    np.testing.assert_array_equal(server.measures(), minimum(rest))
    with pytest.raises(
        InvalidInputError, match="rule must be one of 'min', 'trimmed', 'checked', 'weighted'"
    ):
        GlobalClassifier("median")


@pytest.mark.merge
def test_simulation_can_use_the_checked_rule() -> None:
    data = load("digits")
    options = {
        "estimator": FoldingClassifier(n_components=10, batch_size=50),
        "X_test": data.X_test,
        "y_test": data.y_test,
        "liars": dict.fromkeys(LYING, "flipped"),
        "pooled": False,
        "random_state": 1,
        "alpha": 1.0,
    }
    results = {
        rule: simulate(data.X_train, data.y_train, 10, "dirichlet", rule=rule, **options)
        for rule in ("min", "checked")
    }
    assert results["checked"].federated > results["min"].honest - 0.02 > results["min"].federated
