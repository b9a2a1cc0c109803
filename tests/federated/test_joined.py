"""Folding joined with a ridge: exact sums, the public offset, what a site may contribute, and accuracy."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onefold import FoldingClassifier
from onefold.datasets import load, partition
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel, joined, simulate
from onefold.federated.joined import BOUND, WIDE, Agreement, JoinedSums, Offset
from onefold.federated.joined_server import JoinedFederation, RowForm, agree_on_form, agree_on_units, publish
from onefold.models import JOINED, MAXIMA
from onefold.privacy import Laplace
from onefold.tables import Schema
from reference.forging import forged, with_array

MACHINES = FoldingClassifier(n_components=8, batch_size=50, measure="euclidean")


@pytest.fixture(scope="module")
def data():
    return load("digits")


@pytest.fixture(scope="module")
def agreement(data) -> Agreement:
    return Agreement(np.unique(data.y_train), radius=4.0, n_directions=40)


@pytest.fixture(scope="module")
def rows(data):
    return partition(data.y_train, 4, "dirichlet", alpha=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(data, rows) -> list[LocalModel]:
    return [LocalModel(MACHINES).fit(data.X_train[mine], data.y_train[mine]) for mine in rows]


@pytest.fixture
def models(fitted) -> list[LocalModel]:
    """Copies: a test that lets them join changes no other test."""
    return [copy.copy(model) for model in fitted]


@pytest.fixture(scope="module")
def server(agreement, fitted) -> JoinedFederation:
    found = JoinedFederation(agreement)
    for number, model in enumerate(fitted):
        found.add(number, model.joined_sums(agreement))
    return found


# --- sums -------------------------------------------------------------------------------------------------


def _sums(agreement, data, mine) -> JoinedSums:
    return JoinedSums.of(agreement, data.X_train[mine], data.y_train[mine], [])


def test_sum_of_the_rows_has_the_same_bits_however_they_are_spread(agreement, data) -> None:
    n_rows = len(data.y_train)
    whole = _sums(agreement, data, np.arange(n_rows)).vector
    for seed, n_sites in ((0, 3), (1, 40)):
        order = np.random.default_rng(seed).permutation(n_rows)
        parts = [_sums(agreement, data, mine) for mine in np.array_split(order, n_sites)]
        total = parts[0]
        for each in parts[1:]:
            total = total.add(each)
        np.testing.assert_array_equal(total.vector, whole)


def test_message_of_many_rows_is_made_in_blocks_and_has_the_same_bytes(agreement, data, monkeypatch) -> None:
    mine = np.arange(300)
    whole = _sums(agreement, data, mine).to_bytes()
    monkeypatch.setattr(joined, "BLOCK_VALUES", 10_000)
    assert _sums(agreement, data, mine).to_bytes() == whole


def test_joining_and_leaving_leave_no_trace_in_any_order(agreement, models, server) -> None:
    sums = [model.joined_sums(agreement) for model in models]
    other = JoinedFederation(agreement)
    for number in (3, 1, 0, 2):
        other.add(number, sums[number].to_bytes())
    np.testing.assert_array_equal(other.total().vector, server.total().vector)
    other.remove(1).remove(3)
    np.testing.assert_array_equal(other.total().vector, sums[0].add(sums[2]).vector)
    published = [
        each.publish() for each in (other, JoinedFederation(agreement).add(2, sums[2]).add(0, sums[0]))
    ]
    np.testing.assert_array_equal(published[0].scores.weights, published[1].scores.weights)
    assert published[0].weight == published[1].weight
    other.remove(0).remove(2)
    with pytest.raises(InvalidInputError, match="no site takes part"):
        other.total()
    with pytest.raises(InvalidInputError, match="no site of this id"):
        other.remove(0)


def test_message_carries_the_leave_one_out_distances_of_the_machines(agreement, models) -> None:
    squares = models[0].estimator_.leave_one_out_squares()
    found = models[0].joined_sums(agreement).distances
    assert found[0] == squares.size
    assert found[1] * 2.0**-24 * 16.0 == pytest.approx(squares.sum(), rel=1e-5)
    fourth = float(np.sum(squares**2))
    assert (found[2] * 2.0**30 + found[3]) * 2.0**-48 * 256.0 == pytest.approx(fourth, rel=1e-4)


def test_message_survives_the_wire_and_damage_is_refused(agreement, models) -> None:
    sums = models[0].joined_sums(agreement)
    found = JoinedSums.from_bytes(sums.to_bytes())
    np.testing.assert_array_equal(found.vector, sums.vector)
    with pytest.raises(InvalidInputError):
        JoinedSums.from_bytes(sums.to_bytes()[:-10])


# --- what a site may contribute ---------------------------------------------------------------------------


def _forged(sums: JoinedSums, **changes: np.ndarray) -> JoinedSums:
    moments = JoinedSums.from_bytes(sums.to_bytes()).moments  # a copy
    for name, value in changes.items():
        if name != "distances":
            setattr(moments, name, value)
    return JoinedSums(moments, changes.get("distances", sums.distances))


def test_sums_that_no_rows_can_have_are_refused(agreement, models) -> None:
    sums = models[0].joined_sums(agreement)
    counts, totals, (gram,) = sums.moments.counts_, sums.moments.sums_, sums.moments.second_moments_
    forgeries = {
        "no numbers of rows": {"counts_": counts - counts.max()},
        "sums of a site are larger": {"sums_": totals * 100.0},
        "products of a site are larger": {"second_moments_": gram[None] * 100.0},
        "contradict its sums": {"second_moments_": gram[None] * 0.0},
        "whole numbers of steps": {"second_moments_": gram[None] * 0.999},
        "none that its rows": {"distances": sums.distances * np.array([100, 1, 1, 1])},
        "contradict each other": {"distances": sums.distances * np.array([1, 1, 0, 0])},
        "of a site are none": {"distances": sums.distances + np.array([0, 0, 2**62, 0])},
    }
    for message, changes in forgeries.items():
        with pytest.raises(InvalidInputError, match=message):
            JoinedFederation(agreement).add("liar", _forged(sums, **changes))
    with pytest.raises(InvalidInputError, match="more rows than a site may"):
        JoinedFederation(agreement, most_rows=10).add("large", sums)
    other = dataclasses.replace(agreement, classes=np.arange(3))
    with pytest.raises(InvalidInputError, match="agreed classes"):
        JoinedFederation(other).add("other", sums)
    twice = JoinedFederation(agreement).add("north", sums)
    with pytest.raises(InvalidInputError, match="already"):
        twice.add("north", sums)


@pytest.mark.parametrize("width", [3, 40, 1280])
def test_rows_as_long_as_declared_and_longer_are_accepted(width: int) -> None:
    # Rounding to the nearest step lengthens rows; with equal entries it does so in every column alike.
    agreed = Agreement(np.arange(3), radius=0.7)
    rows = np.vstack([np.random.default_rng(0).normal(size=(4, width)), np.full((5, width), 299.6)])
    server = JoinedFederation(agreed)
    for number, row in enumerate(rows):
        server.add(number, JoinedSums.of(agreed, row[None], [number % 3], []))
    np.testing.assert_array_equal(
        server.total().vector, JoinedSums.of(agreed, rows, np.arange(9) % 3, []).vector
    )


def test_influence_shows_the_site_with_swapped_labels(agreement, data) -> None:
    parts = np.array_split(np.arange(len(data.y_train)), 5)
    small = dataclasses.replace(agreement, n_directions=0)
    honest, lying = JoinedFederation(small), JoinedFederation(small)
    for number, mine in enumerate(parts):
        X, y = data.X_train[mine], data.y_train[mine]
        honest.add(number, JoinedSums.of(small, X, y, []))
        lying.add(number, JoinedSums.of(small, X, (y + 1) % 10 if number == 2 else y, []))
    errors = np.array([each.error for each in honest.influence()])
    assert np.ptp(errors) < 0.1
    found = lying.influence()
    errors = np.array([each.error for each in found])
    assert errors.argmax() == 2
    assert errors[2] > 1.5 * np.delete(errors, 2).max()
    assert max(found, key=lambda each: each.shift).site == 2
    mine = JoinedSums.of(small, data.X_train[parts[2]], data.y_train[parts[2]], [])
    assert JoinedFederation(small).add("alone", mine).influence() == []


# --- the weight of the offset -----------------------------------------------------------------------------


def test_distances_of_tables_count_a_twentieth_of_those_of_rows_at_most() -> None:
    rows = np.full((4, 2), 0.1)
    weights = []
    for of_table in (False, True):
        agreed = Agreement(np.array([0.0]), radius=1.0, of_table=of_table)
        weights.append(JoinedSums.of(agreed, rows, np.zeros(4), np.full(4, 0.3)).weight_of(agreed))
    assert weights[1] == pytest.approx(20.0 * weights[0])


@pytest.mark.parametrize(
    ("width", "lift", "counts"), [(WIDE - 1, 0, 5.0), (WIDE, 0, 1.0), (2, WIDE, 5.0), (WIDE, 4, 1.0)]
)
def test_distances_of_wide_rows_count_a_fifth_whatever_the_lift_is(width, lift, counts) -> None:
    agreed = Agreement(np.array([0]), radius=1.0, n_directions=lift)
    sums = JoinedSums.of(agreed, np.full((4, width), 0.01), np.zeros(4), np.full(4, 0.3))
    assert sums.weight_of(agreed) == pytest.approx(4.0 * 0.3 / counts, rel=1e-5)


def _weight(squares, n_rows: int | None = None) -> float:
    """The weight for rows of length one; rows without a distance of their own are added."""
    agreed = Agreement(np.array([0]), radius=1.0)
    rows = np.ones((len(squares) if n_rows is None else n_rows, 1))
    return JoinedSums.of(agreed, rows, np.zeros(len(rows)), squares).weight_of(agreed)


def test_weight_is_four_fifths_of_the_mean_square_where_distances_are_reliable() -> None:
    assert _weight([0.2, 0.3, 0.4]) == pytest.approx(0.24, rel=1e-5)
    assert _weight([0.0, 0.0]) > 0.0


def test_weight_grows_where_few_rows_have_distances_or_a_few_of_them_make_up_the_mean() -> None:
    even = np.full(100, 0.3)
    assert _weight(even[:50], 100) == pytest.approx(2.0 * _weight(even), rel=1e-9)
    uneven = np.concatenate([np.full(99, 0.1), [4.0]])
    counts = 2.0 * uneven.mean() ** 2 / uneven.var()
    assert counts < 1.0
    assert _weight(uneven) == pytest.approx(4.0 * uneven.mean() / counts, rel=1e-4)
    assert _weight([], 3) == 32.0  # nothing known but the length of a row, at the least weight


# --- answers ----------------------------------------------------------------------------------------------


def test_offset_is_bounded_and_zero_for_the_best_class(server, data) -> None:
    offset = server.publish()
    found = offset.of(data.X_test)
    assert found.min(axis=1).max() == 0.0
    assert found.max() <= offset.largest == 2.0 * BOUND * offset.weight
    np.testing.assert_array_equal(offset.classes[found.argmin(axis=1)], offset.predict(data.X_test))


def test_joined_minimum_is_that_of_the_distances_plus_the_offset(server, models, data) -> None:
    offset, classes = server.publish(), server.agreement.classes
    alone = [model.answers(data.X_test, classes) for model in models]
    together = GlobalClassifier()
    for number, model in enumerate(models):
        together.add(number, model.join(offset))
    assert {(model.measure, model.scale) for model in models} == {(JOINED, offset.weight)}
    squares = np.min([each.astype(np.float64) ** 2 for each in alone], axis=0)
    np.testing.assert_array_equal(together.measures(data.X_test), squares + offset.of(data.X_test))
    missing = np.setdiff1d(classes, models[0].classes_)
    assert np.all(models[0].answers(data.X_test[:3], classes)[:, missing] == MAXIMA[JOINED])


def test_model_leaves_the_federation_when_its_rows_change_and_is_saved_with_its_offset(
    server, data, rows, tmp_path
) -> None:
    mine = rows[0]
    model = LocalModel(MACHINES).fit(data.X_train[mine], data.y_train[mine]).join(server.publish())
    model.save(tmp_path / "site")
    found = LocalModel.load(tmp_path / "site")
    np.testing.assert_array_equal(found.answers(data.X_test[:9]), model.answers(data.X_test[:9]))
    assert found.profile("north").scale == model.profile("north").scale == server.publish().weight
    model.forget([0])
    assert model.measure == "euclidean"
    fresh = LocalModel(MACHINES).fit(data.X_train[mine], data.y_train[mine], batches=found.batches_)
    fresh.forget([0])
    agreed = server.agreement
    np.testing.assert_array_equal(model.joined_sums(agreed).vector, fresh.joined_sums(agreed).vector)


def with_number(*path: str, value: object) -> Callable[[bytes], bytes]:
    """Change one number in the header of an offset."""

    def change(header: dict[str, Any], _: object) -> None:
        fields = header["fields"]
        for name in path[:-1]:
            fields = fields[name]
        fields[path[-1]] = value

    return lambda content: forged(content, change)


def with_entry(ending: str, value: float) -> Callable[[bytes], bytes]:
    """Change the first entry of an array of an offset."""
    return lambda content: with_array(content, ending, lambda array: np.append(value, array[1:]))


IMPOSSIBLE = {
    "weight that is no number": with_number("weight", value=float("nan")),
    "negative weight": with_number("weight", value=-1.0),
    "more directions than columns": with_number("agreement", "n_directions", value=10**12),
    "negative directions": with_number("agreement", "n_directions", value=-1),
    "length zero": with_number("agreement", "longest", value=0.0),
    "infinite length": with_number("agreement", "longest", value=float("inf")),
    "negative radius": with_number("agreement", "radius", value=-1.0),
    "constant that is no number": with_entry("offsets", float("nan")),
    "infinite constant": with_entry("offsets", float("inf")),
    "infinite weights": lambda content: with_array(content, "weights", lambda array: array * np.inf),
    "fewer constants": lambda content: with_array(content, "offsets", lambda array: array[:3]),
    "fewer classes": lambda content: with_array(content, "classes", lambda array: array[:3]),
}


@pytest.mark.parametrize("change", IMPOSSIBLE)
def test_offset_of_impossible_numbers_is_refused(server, change: str) -> None:
    content = server.publish().to_bytes()
    assert Offset.from_bytes(content).weight > 0.0
    with pytest.raises(InvalidInputError):
        Offset.from_bytes(IMPOSSIBLE[change](content))


def test_models_that_cannot_be_joined_are_refused(server, data) -> None:
    offset = server.publish()
    by_rms = LocalModel(FoldingClassifier(n_components=4)).fit(data.X_train[:100], data.y_train[:100])
    with pytest.raises(InvalidInputError, match="measure='euclidean'"):
        by_rms.join(offset)
    other = LocalModel(MACHINES).fit(data.X_train[:100], data.y_train[:100] + 5).join(offset)
    with pytest.raises(InvalidInputError, match="contribute anew"):
        other.answers(data.X_test[:2])
    with pytest.raises(InvalidInputError, match="do not fit"):
        replace(offset, scores=replace(offset.scores, offsets=np.zeros(3)))


# --- units ------------------------------------------------------------------------------------------------


def test_units_do_not_depend_on_who_has_the_rows_and_undo_those_of_the_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) * [1e-6, 1.0, 3.0, 1e3, 1e9, 0.0] + [0.0, 5.0, 0.0, 1e4, 0.0, 7.0]
    agreed = agree_on_units([X])
    for parts in (np.array_split(X, 7), [X[200:], X[:200]]):
        np.testing.assert_array_equal(agree_on_units(parts).scale, agreed.scale)
        np.testing.assert_array_equal(agree_on_units(parts).location[:5], agreed.location[:5])
    np.testing.assert_allclose(agreed.apply(X)[:, :5].std(axis=0), 1.0, atol=0.02)
    wide = rng.normal(size=(200, 60)) * rng.uniform(0.5, 1.5, 60)
    assert len(set(agree_on_units([wide]).scale.tolist())) == 1  # such as pixels: one unit
    for few in (10, 28):  # columns that would decide everything
        mixed = wide * np.where(np.arange(60) < few, 1.0, 1e-3)
        assert len(set(agree_on_units([mixed]).scale.tolist())) > 20


def forms_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes that one form of rows tells apart much better than the others."""
    rng = np.random.default_rng(3)
    y = np.arange(400) % 2
    if name == "usual":  # columns in very different units
        return (rng.normal(size=(400, 5)) + y[:, None]) * [1.0, 1e5, 1e-3, 7.0, 1e-9], y
    if name == "narrow":  # arms that wind around each other
        turn = rng.uniform(2.0, 10.0, 400)
        angle = turn + np.pi * y
        return np.column_stack([turn * np.cos(angle), turn * np.sin(angle)]), y
    direction = rng.normal(size=(400, 5)) + 1.5 * np.outer(1 - 2 * y, [1.0, -1.0, 0.0, 0.0, 0.0])
    return direction * 10.0 ** rng.uniform(-6.0, 6.0, 400)[:, None], y  # lengths that say nothing


def kind_of(form: RowForm) -> str:
    if form.preparation is None:
        return "directions"
    return "narrow" if form.longest > 1.0 else "usual"


@pytest.mark.parametrize("name", ["usual", "narrow", "directions"])
def test_form_of_rows_is_the_one_whose_sums_promise_the_smallest_error(name: str) -> None:
    X, y = forms_of(name)
    classes, parts = np.array([0, 1]), np.array_split(np.arange(400), 7)
    form, n_bytes = agree_on_form([X], [y], classes)
    assert kind_of(form) == name
    again, more_bytes = agree_on_form([X[rows] for rows in parts], [y[rows] for rows in parts], classes)
    assert kind_of(again) == name
    assert 0 < n_bytes < more_bytes  # every site sends three small sums
    found = simulate(
        X[:300], y[:300], 5, "dirichlet", alpha=0.5, X_test=X[300:], y_test=y[300:], random_state=0
    )
    assert found.method == "joined"
    assert found.federated > 0.8
    assert found.sum_bytes > n_bytes


def test_rows_of_many_columns_keep_the_usual_form_and_send_nothing_for_the_choice() -> None:
    X = np.random.default_rng(0).normal(size=(20, 50))
    form, n_bytes = agree_on_form([X], [np.arange(20) % 2], np.array([0, 1]))
    assert (kind_of(form), n_bytes) == ("usual", 0)


def test_offset_of_longer_rows_survives_its_bytes() -> None:
    X, y = forms_of("narrow")
    agreed = Agreement(np.array([0, 1]), 0.7, 40, longest=6.0)
    offset = publish(agreed, JoinedSums.of(agreed, X / 5.0, y, []))
    again = Offset.from_bytes(offset.to_bytes())
    np.testing.assert_array_equal(again.linear(X), offset.linear(X))
    assert again.agreement.longest == 6.0


# --- simulate ---------------------------------------------------------------------------------------------


def test_joined_federation_is_no_worse_than_either_part(data) -> None:
    found = {
        method: simulate(
            data.X_train,
            data.y_train,
            10,
            "dirichlet",
            method=method,
            estimator=None if method == "moments" else MACHINES,
            X_test=data.X_test,
            y_test=data.y_test,
            alpha=0.1,
            random_state=0,
            pooled=False,
        )
        for method in ("joined", "folding")
    }
    assert found["joined"].method == "joined"
    assert found["joined"].federated >= found["folding"].federated - 0.005
    assert found["joined"].federated > 0.97
    assert found["folding"].sum_bytes == 0 < found["joined"].sum_bytes


def test_sums_alone_do_not_depend_on_the_spreading_of_the_rows(data) -> None:
    options = {"X_test": data.X_test, "y_test": data.y_test, "method": "moments", "pooled": False}
    X, y = data.X_train[:400], data.y_train[:400]
    runs = [
        simulate(X, y, 2, [order[:50], order[50:]], **options)
        for order in (np.arange(400), np.arange(400)[::-1])
    ]
    assert runs[0].federated == runs[1].federated > 0.9
    assert runs[0].query_bytes == runs[0].answer_bytes == 0
    with pytest.raises(InvalidInputError, match="no rules, liars and mechanisms"):
        simulate(X, y, 2, rule="trimmed", method="moments")
    with pytest.raises(InvalidInputError, match="method must be"):
        simulate(X, y, 2, method="both")


def test_tables_get_sums_alone_and_all_else_both_if_no_method_is_named() -> None:
    table = {"size": np.sqrt(np.arange(40.0)), "kind": np.array(["a", "b"] * 20)}
    asked = {"X_test": table, "y_test": None, "schema": Schema.infer(table, "kind"), "pooled": False}
    assert simulate(table, None, 2, **asked).method == "moments"
    rows = simulate(table["size"][:, None], table["kind"], 2, pooled=False)
    assert simulate(table, None, 2, rule="trimmed", **asked).method == rows.method == "joined"


@pytest.mark.parametrize("rule", ["min", "trimmed", "checked", "weighted"])
def test_streamed_joined_answers_equal_those_of_a_server(data, rule) -> None:
    """The offset is added after the sites were combined: the result is that of sites that add it first."""
    X, y = data.X_train[:500], data.y_train[:500]
    parts = np.array_split(np.arange(400), 5)
    labelled = X[400:], y[400:]
    result = simulate(
        X[:400],
        y[:400],
        5,
        parts,
        estimator=MACHINES,
        X_test=data.X_test,
        y_test=data.y_test,
        rule=rule,
        labelled=labelled,
        liars={1: "flipped"},
        pooled=False,
    )
    units = agree_on_units(X[mine] for mine in parts)
    rows, asked = units.apply(X), units.apply(data.X_test)
    agreed = Agreement(np.arange(10), 8.0, 200)
    models = [LocalModel(MACHINES).fit(rows[mine], y[mine]) for mine in parts]
    server = JoinedFederation(agreed)
    for number, model in enumerate(models):
        server.add(number, model.joined_sums(agreed))
    offset = server.publish()
    together = GlobalClassifier(rule)
    for number, model in enumerate(models):
        together.add(number, model.join(offset))
    if rule == "weighted":
        together.learn_trust(rows[400:], y[400:])
    assert result.honest == np.mean(together.predict(asked) == data.y_test)
    assert (result.federated < result.honest - 0.05) == (rule == "min")


def test_private_models_answer_by_folding_beside_a_joined_federation(data) -> None:
    X, y = data.X_train[:200], data.y_train[:200]
    options = {"estimator": MACHINES, "mechanism": Laplace(1e6, sensitivity=1.0), "random_state": 0}
    runs = [simulate(X, y, 2, method=method, pooled=False, **options) for method in ("joined", "folding")]
    assert runs[0].private_federated == pytest.approx(runs[1].federated, abs=0.05)
    assert runs[0].guarantees is not None


def test_joined_models_have_probabilities_without_labelled_rows_and_better_ones_with(
    server, models, data
) -> None:
    classifier = GlobalClassifier()
    offset = server.publish()
    for number, model in enumerate(models):
        classifier.add(number, model.join(offset))
    found = classifier.predict_proba(data.X_test)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(classifier.classes_[found.argmax(axis=1)], classifier.predict(data.X_test))
    right = np.mean(classifier.predict(data.X_test) == data.y_test)
    assert abs(found.max(axis=1).mean() - right) < 0.15
    half = len(data.y_test) // 2
    classifier.calibrate(data.X_test[:half], data.y_test[:half])
    again = classifier.predict_proba(data.X_test[half:])
    right = np.mean(classifier.predict(data.X_test[half:]) == data.y_test[half:])
    assert abs(again.max(axis=1).mean() - right) < 0.06
    nothing = offset.probabilities([[np.inf, 0.1, np.inf], [np.inf, np.inf, np.inf]])
    np.testing.assert_allclose(nothing, [[0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-9)
