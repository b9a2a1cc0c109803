"""Messages that arrived, some of them wrong: the rest is combined, and every site is accounted for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onefold import FoldingClassifier
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.messages import Answers, Failure, FailureCode, Query
from onefold.federated.trust import Reason

SITES = ("east", "north", "south", "west")


@pytest.fixture(scope="module")
def federation():
    data = load("digits")
    parts = partition(data.y_train, 4, "dirichlet", alpha=0.5, random_state=1)
    estimator = FoldingClassifier(n_components=6, batch_size=50)
    models = {
        site: LocalModel(estimator).fit(data.X_train[rows], data.y_train[rows])
        for site, rows in zip(SITES, parts, strict=True)
    }
    query = Query("q1", data.X_test[:80])
    return models, query, {site: model.answer(query, site) for site, model in models.items()}


def changed(message: Answers, **fields) -> Answers:
    names = ("query_id", "site", "classes", "measure", "scale", "values")
    return Answers(**{**{name: getattr(message, name) for name in names}, **fields})


@pytest.mark.exact
def test_result_of_all_sites_is_complete(federation) -> None:
    models, query, answers = federation
    server = GlobalClassifier()
    for site, model in models.items():
        server.add(site, model)
    result = GlobalClassifier().combine(answers, SITES, query=query)
    np.testing.assert_array_equal(result.measures, server.measures(query.features))
    np.testing.assert_array_equal(result.labels, server.predict(query.features))
    np.testing.assert_array_equal(result.classes, server.classes_)
    assert (result.answered, result.missing, result.partial, result.refused) == (SITES, (), False, {})
    assert result.outliers == {}


@pytest.mark.exact
@pytest.mark.parametrize("rule", ["min", "trimmed"])
def test_a_missing_site_is_named_and_the_rest_is_a_federation_without_it(federation, rule) -> None:
    _, query, answers = federation
    for gone in SITES:
        rest = {site: each for site, each in answers.items() if site != gone}
        result = GlobalClassifier(rule).combine(rest, SITES, query=query)
        assert (result.missing, result.partial) == ((gone,), True)
        never = GlobalClassifier(rule).combine(rest, tuple(rest), query=query)
        assert not never.partial
        np.testing.assert_array_equal(result.measures, never.measures)
        np.testing.assert_array_equal(result.labels, never.labels)


def test_a_failure_is_missing_with_its_reason(federation) -> None:
    _, query, answers = federation
    failed = {**answers, "north": Failure("q1", "north", FailureCode.RATE_LIMITED)}
    result = GlobalClassifier().combine(failed, SITES, query=query)
    assert result.missing == ("north",)
    assert result.refused == {"north": "rate-limited"}
    assert result.partial
    assert result.answered == ("east", "south", "west")


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"query_id": "q2"}, Reason.WRONG_QUERY),
        ({"values": "short"}, Reason.WRONG_QUERY),
        ({"measure": "max"}, Reason.WRONG_MEASURE),
        ({"measure": "euclidean", "scale": None}, Reason.WRONG_MEASURE),
        ({"scale": 2.0}, Reason.WRONG_MEASURE),
        ({"classes": "text"}, Reason.WRONG_CLASSES),
        ({"classes": "other"}, Reason.WRONG_CLASSES),
        ({"site": "south"}, Reason.WRONG_SITE),
    ],
)
@pytest.mark.parametrize("with_query", [True, False])
def test_a_site_that_answers_something_else_is_refused_and_named(
    federation, fields, reason, with_query
) -> None:
    _, query, answers = federation
    message = answers["north"]
    if fields.get("values") == "short":
        fields = {"values": message.values[:-1]}
    if fields.get("classes") == "text":
        fields = {"classes": tuple(f"class {c}" for c in message.classes)}
    if fields.get("classes") == "other":
        fields = {"classes": tuple(c + 100 for c in message.classes)}
    wrong = {**answers, "north": changed(message, **fields)}
    server = GlobalClassifier(classes=np.arange(10))
    result = server.combine(wrong, SITES, query=query if with_query else None)
    assert result.refused == {"north": reason.value}
    assert result.partial
    rest = {site: each for site, each in answers.items() if site != "north"}
    np.testing.assert_array_equal(result.measures, server.combine(rest, tuple(rest)).measures)


def test_numbers_out_of_range_make_no_message(federation) -> None:
    _, _, answers = federation
    answer = answers["north"]
    for value in (np.nan, np.inf, -0.1, 1.1):
        wrong = answer.values.copy()
        wrong[3, 0] = value
        with pytest.raises(MessageError):
            replace(answer, values=wrong)
    with pytest.raises(MessageError):
        replace(answer, values=answer.values[:, :-1])


def test_other_objects_and_unknown_sites_are_refused(federation) -> None:
    _, query, answers = federation
    odd = {**answers, "north": "hello", "stranger": changed(answers["east"], site="stranger")}
    result = GlobalClassifier().combine(odd, SITES, query=query)
    assert result.refused == {"north": "malformed", "stranger": "unexpected"}
    assert result.missing == ("north",)


def test_a_site_must_answer_as_it_declared(federation) -> None:
    models, query, answers = federation
    profiles = {site: model.profile(site) for site, model in models.items()}
    assert GlobalClassifier().combine(answers, SITES, profiles=profiles).refused == {}
    north = answers["north"]
    fewer = changed(north, classes=north.classes[:-1], values=north.values[:, :-1])
    more = changed(
        north, classes=(*north.classes, 77), values=np.column_stack([north.values, north.values[:, 0]])
    )
    for message in (fewer, more, changed(north, measure="max")):
        result = GlobalClassifier().combine(
            {**answers, "north": message}, SITES, query=query, profiles=profiles
        )
        assert result.refused == {"north": "unlike-profile"}


def test_constant_answers_are_refused_by_robust_rules_and_reported_by_the_documents_rule(federation) -> None:
    _, query, answers = federation
    zeros = {**answers, "north": changed(answers["north"], values=np.zeros_like(answers["north"].values))}
    assert GlobalClassifier("trimmed").combine(zeros, SITES, query=query).refused == {"north": "constant"}
    plain = GlobalClassifier("min").combine(zeros, SITES, query=query)
    assert plain.refused == {}
    assert plain.outliers["north"] == "constant"
    assert len(set(plain.labels)) == 1  # and it decides everything
    # One query asked many times is answered alike by everybody.
    same = Query("q1", np.repeat(query.features[:1], 20, axis=0))
    repeated = {
        site: changed(each, values=np.repeat(each.values[:1], 20, axis=0)) for site, each in answers.items()
    }
    assert GlobalClassifier("trimmed").combine(repeated, SITES, query=same).refused == {}


def test_a_site_that_contradicts_the_others_is_reported(federation) -> None:
    _, query, answers = federation
    north = answers["north"]
    upside_down = changed(north, values=north.values.max() - north.values)
    result = GlobalClassifier().combine({**answers, "north": upside_down}, SITES, query=query)
    assert result.outliers == {"north": "disagrees"}


def test_classes_that_cannot_be_protected_are_named(federation) -> None:
    _, query, answers = federation
    owners = {c: sum(c in each.classes for each in answers.values()) for c in range(10)}
    result = GlobalClassifier("trimmed", n_liars=1).combine(answers, SITES, query=query)
    assert result.unprotected == tuple(c for c in range(10) if owners[c] < 3)
    assert GlobalClassifier("trimmed", n_liars=2).combine(answers, SITES).unprotected == tuple(range(10))
    assert GlobalClassifier("min").combine(answers, SITES).unprotected == ()


def test_weighted_rule_names_the_sites_it_does_not_trust(federation) -> None:
    models, query, answers = federation
    data = load("digits")
    labelled = Query("probe", data.X_test[100:250])
    probes = {site: model.answer(labelled, site) for site, model in models.items()}
    rng = np.random.default_rng(0)
    for batch in (answers, probes):
        random = rng.random(batch["north"].values.shape)
        batch = {**batch, "north": changed(batch["north"], values=random)}
        probes, answers = (batch, answers) if batch["north"].query_id == "probe" else (probes, batch)
    server = GlobalClassifier("weighted").learn_trust(None, data.y_test[100:250], probes)
    result = server.combine(answers, SITES, query=query)
    assert result.outliers["north"] == "not-trusted"
    rest = {site: each for site, each in answers.items() if site != "north"}
    others = {site: each for site, each in probes.items() if site != "north"}
    without = GlobalClassifier("weighted").learn_trust(None, data.y_test[100:250], others)
    np.testing.assert_array_equal(result.measures, without.combine(rest, tuple(rest), query=query).measures)


def test_combine_without_any_answer_is_refused(federation) -> None:
    for nothing in ({}, {"north": Failure("q", "north", FailureCode.INTERNAL)}):
        with pytest.raises(InvalidInputError, match="no site"):
            GlobalClassifier().combine(nothing, SITES)
