"""The head for tables: against the literal version, its sums, its estimates, unusual tables, files."""

import math

import numpy as np
import pytest

from onefold import KAHM, AutoencoderClassifier, FoldingClassifier, WideKAHM, io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.models import head as module
from onefold.models.head import EncodedColumns, TableHead
from onefold.tables import Field, Schema
from onefold.tables.schema import AS_THEY_STAND
from reference import head as literal
from reference.forging import with_array

WARDS = ("a", "b", "c")


def mixed(n, seed=0):
    """A table of two numbers, one with gaps, and a category; the class follows a rule of two columns."""
    rng = np.random.default_rng(seed)
    age, dose = rng.integers(18, 91, n).astype(float), np.exp(rng.normal(size=n))
    ward = rng.choice(WARDS, n)
    ill = (age > 50) & (ward != "c") | (dose > 3)
    ill ^= rng.random(n) < 0.05
    dose[rng.random(n) < 0.2] = np.nan
    return {"age": age, "dose": dose, "ward": ward, "outcome": np.where(ill, "ill", "well")}


@pytest.fixture(scope="module")
def schema():
    return Schema(
        [
            Field("age", "number", low=0, high=120),
            Field("dose", "number", low=0, high=60, missing="indicator"),
            Field("ward", "string", levels=WARDS),
            Field("outcome", "string", levels=("ill", "well"), role="label"),
        ]
    )


def part(table, rows):
    return {name: column[rows] for name, column in table.items()}


# --- the mathematics --------------------------------------------------------------------------------------


def test_further_features_are_seen_in_standard_deviations_around_their_mean(schema) -> None:
    table = mixed(200)
    codes = (table["outcome"] == "well").astype(np.intp)
    rng = np.random.default_rng(0)
    extra = np.column_stack(
        [50.0 + codes + 0.1 * rng.normal(size=200), rng.exponential(size=200), np.full(200, 7.0)]
    )
    rows = schema.transform(table)
    head = TableHead(EncodedColumns.of(schema, schema.width)).fit(rows, codes, 2, extra)
    assert head.takes_extra
    seen = head.features(rows, extra)[:, -3:] * math.sqrt(3)
    np.testing.assert_allclose(seen.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(seen.std(axis=0), [1.0, 1.0, 0.0], atol=1e-12)
    # so that no offset and no unit of a distance makes a difference
    moved = TableHead(EncodedColumns.of(schema, schema.width)).fit(rows, codes, 2, 1000.0 + 0.01 * extra)
    np.testing.assert_allclose(
        moved.scores(rows, 1000.0 + 0.01 * extra), head.scores(rows, extra), rtol=1e-6, atol=1e-6
    )


def test_head_equals_literal_ridge_and_refitting_without_each_row(schema, monkeypatch) -> None:
    monkeypatch.setattr(module, "SHAPES", module.SHAPES[:1] * 2)
    monkeypatch.setattr(module, "JITTER", 1e-10)
    table, queries = mixed(70), mixed(9, seed=1)
    codes = (table["outcome"] == "well").astype(np.intp)
    head = TableHead(EncodedColumns.of(schema, schema.width)).fit(schema.transform(table), codes, 2)

    kinds = (("number", "age"), ("number", "dose"), ("category", "ward"))
    known = [(kind, table[name]) for kind, name in kinds]
    asked = [(kind, queries[name]) for kind, name in kinds]
    weight = literal.weights(known, codes)
    own = literal.kernels(known, known, weight, *module.SHAPES[0])
    share = literal.shares(own)
    similar = sum(s * k for s, k in zip(share, own, strict=True))
    targets = np.eye(2)[codes]
    coefficients, intercept = literal.ridge(similar, targets, head.penalty_)
    to_known = literal.kernels(asked, known, weight, *module.SHAPES[0])
    expected = sum(s * k for s, k in zip(share, to_known, strict=True)) @ coefficients + intercept

    np.testing.assert_allclose(head.scores(schema.transform(queries)), expected, rtol=0, atol=2e-5)
    np.testing.assert_allclose(head.left_out_, literal.left_out(similar, targets, head.penalty_), atol=2e-5)
    errors = {
        penalty: ((literal.left_out(similar, targets, penalty) - targets) ** 2).sum(axis=1).mean()
        for penalty in (head.penalty_ / math.sqrt(10), head.penalty_, head.penalty_ * math.sqrt(10))
    }
    assert min(errors, key=errors.get) == head.penalty_
    assert head.error_ == pytest.approx(errors[head.penalty_], rel=1e-3)


def test_sums_over_two_parts_of_a_table_equal_the_sums_over_all_of_it(schema) -> None:
    table = mixed(300)
    rows, codes = schema.transform(table), (table["outcome"] == "well").astype(np.intp)
    head = TableHead(EncodedColumns.of(schema, schema.width)).fit(rows, codes, 2)
    whole = head.sums(rows, codes, 2)
    joined = head.sums(rows[:113], codes[:113], 2) + head.sums(rows[113:], codes[113:], 2)
    np.testing.assert_array_equal(joined.counts, whole.counts)
    np.testing.assert_allclose(joined.sums, whole.sums, rtol=1e-12)
    np.testing.assert_allclose(joined.products, whole.products, rtol=1e-11, atol=1e-9)


def test_landmarks_fewer_than_rows_come_close_to_all_of_them(schema, monkeypatch) -> None:
    table, queries = mixed(900), mixed(900, seed=1)
    rows, codes = schema.transform(table), (table["outcome"] == "well").astype(np.intp)
    right = (queries["outcome"] == "well").astype(np.intp)
    monkeypatch.setattr(module, "CHOOSING", 300)
    accuracies = []
    for landmarks in (1500, 200):
        monkeypatch.setattr(module, "LANDMARKS", landmarks)
        head = TableHead(EncodedColumns.of(schema, schema.width)).fit(rows, codes, 2)
        assert len(head.landmarks_) == min(landmarks, 900)
        accuracies.append((head.scores(schema.transform(queries)).argmax(axis=1) == right).mean())
    assert accuracies[0] > 0.85
    assert abs(accuracies[0] - accuracies[1]) < 0.03


def test_scores_add_up_to_one_and_probabilities_keep_their_order(schema) -> None:
    table, queries = mixed(200), mixed(50, seed=3)
    codes = np.searchsorted(WARDS, table["ward"])
    columns = EncodedColumns.of(AS_THEY_STAND, 2)
    rows = np.c_[table["age"] / 100, np.arange(200) % 7]
    head = TableHead(columns).fit(rows, codes, 3)
    scores = head.scores(np.c_[queries["age"] / 100, np.arange(50) % 7])
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-9)
    probabilities = head.probabilities(scores)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    assert (probabilities > 0).all()
    np.testing.assert_array_equal(probabilities.argmax(axis=1), scores.argmax(axis=1))


def test_similarities_of_a_row_do_not_depend_on_rows_asked_with_it(schema) -> None:
    table, queries = mixed(200), mixed(60, seed=3)
    rows, asked = schema.transform(table), schema.transform(queries)
    head = TableHead(EncodedColumns.of(schema, schema.width)).fit(
        rows, (table["outcome"] == "well").astype(np.intp), 2
    )
    one_by_one = np.vstack([head.scores(asked[i : i + 1]) for i in range(60)])
    np.testing.assert_allclose(head.scores(asked), one_by_one, rtol=0, atol=1e-6)


# --- the classifiers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AutoencoderClassifier, FoldingClassifier])
def test_classifier_of_a_table_learns_a_rule_of_two_columns(kind, schema) -> None:
    table, queries = mixed(600), mixed(1000, seed=5)
    model = kind(schema=schema).fit(table)
    accuracy = (model.predict(queries) == queries["outcome"]).mean()
    nearest = model.classes_[model.distances(queries).argmin(axis=1)]
    assert accuracy > 0.86  # the label noise leaves 0.95, and gaps hide some doses
    assert accuracy > (nearest == queries["outcome"]).mean() + 0.05
    told = model.cross_validated_
    assert told["rows"] == 600 == told["confusion"].sum()
    assert abs(told["accuracy"] - accuracy) < 0.04
    probabilities = model.predict_proba(queries)
    assert abs(probabilities.max(axis=1).mean() - accuracy) < 0.04  # calibrated
    np.testing.assert_array_equal(model.decision_function(queries) > 0, model.predict(queries) == "well")


def test_distances_join_the_head_where_they_help() -> None:
    rng = np.random.default_rng(0)
    turns = [np.linalg.qr(rng.normal(size=(12, 12)))[0][:, :3] for _ in range(4)]
    codes = np.arange(400) % 4
    rows = np.array([turns[c] @ rng.normal(size=3) for c in codes]) + 0.05 * rng.normal(size=(400, 12))
    model = AutoencoderClassifier(KAHM(3, scale="auto"), head="ridge").fit(rows[:300], codes[:300])
    assert model.head_.takes_extra
    assert model.score(rows[300:], codes[300:]) > 0.95


def test_distances_found_without_a_row_do_not_teach_the_head_the_farthest_class() -> None:
    levels = [f"a{place}" for place in range(5)]
    columns = [f"q{place}" for place in range(6)]
    fields = [Field(name, "string", levels=levels) for name in columns]
    schema = Schema([*fields, Field("y", "string", levels=("p", "q", "r"), role="label")])
    took = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        answers = rng.integers(0, 5, (240, 6))
        total = answers[:, :3].sum(axis=1) + rng.normal(0, 1.5, 240)
        labels = np.array(["p", "q", "r"])[(total > 5.0).astype(int) + (total > 7.5)]
        table = {name: np.array(levels)[answers[:, place]] for place, name in enumerate(columns)}
        model = AutoencoderClassifier(schema=schema).fit({**table, "y": labels})
        took.append(model.head_.takes_extra)
        assert np.mean(model.predict(table) == labels) >= model.cross_validated_["accuracy"]
    assert not any(took)


def test_classifier_without_a_schema_has_no_head_unless_asked() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 3)), np.arange(60) % 2
    plain = FoldingClassifier().fit(X, y)
    assert not hasattr(plain, "head_")
    assert plain.predict_proba(X).shape == (60, 2)  # from distances
    asked = FoldingClassifier(head="ridge").fit(X, y)
    np.testing.assert_array_equal(asked.distances(X), plain.distances(X))
    assert asked.predict_proba(X).shape == (60, 2)
    assert not hasattr(asked.set_params(head=None).fit(X, y), "head_")


def test_table_of_many_columns_has_a_head_only_if_asked() -> None:
    label = Field("y", "string", levels=("n", "p"), role="label")
    numbers = [Field(f"x{i}", "number", low=0, high=1) for i in range(200)]
    codes = Field("code", "string", levels=tuple(f"v{i}" for i in range(1001)))
    assert AutoencoderClassifier(schema=Schema([*numbers[1:], label])).wants_head
    for wide in (Schema([*numbers, label]), Schema([codes, label])):
        assert not AutoencoderClassifier(schema=wide).wants_head
        assert AutoencoderClassifier(schema=wide, head="ridge").wants_head
        assert not AutoencoderClassifier(schema=wide, head=None).wants_head


def test_query_with_gaps_and_unknown_texts_is_answered(schema) -> None:
    model = AutoencoderClassifier(schema=schema).fit(mixed(200))
    strange = {"ward": ["zzz", ""], "age": [math.nan, 1e9], "dose": [math.nan, -5.0], "more": [1, 2]}
    assert set(model.predict(strange)) <= {"ill", "well"}
    assert np.isfinite(model.predict_proba(strange)).all()


def test_fit_refuses_a_cell_outside_the_contract_without_quoting_it(schema) -> None:
    table = mixed(30)
    table["ward"] = table["ward"].astype(object)
    table["ward"][4] = "secret"
    with pytest.raises(InvalidInputError, match="ward") as caught:
        AutoencoderClassifier(schema=schema).fit(table)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"head": "tree"}, {"schema": "table.json"}])
def test_unknown_head_or_schema_is_refused(wrong) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        FoldingClassifier(**wrong).fit(np.eye(4), [0, 0, 1, 1])


# --- unusual tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "codes", "n_classes"),
    [
        (np.zeros((1, 2)), [0], 1),
        (np.eye(2), [0, 1], 2),
        (np.full((20, 3), 0.5), [0, 1] * 10, 2),  # nothing tells the classes apart
        (np.repeat(np.eye(3), 10, axis=0), [0] * 10 + [1] * 10 + [2] * 10, 3),  # the same rows many times
        pytest.param(  # fewer distinct rows than landmarks
            np.random.default_rng(0).integers(0, 3, (1600, 4)) / 3, [0, 1] * 800, 2, marks=pytest.mark.merge
        ),
        (np.random.default_rng(0).random((30, 2)), [0] * 29 + [1], 2),  # a class of one row
        (np.random.default_rng(0).random((30, 2)), [0] * 30, 1),
        (np.empty((5, 0)), [0, 1, 0, 1, 1], 2),
    ],
)
def test_head_of_an_unusual_table_gives_finite_scores(rows, codes, n_classes) -> None:
    head = TableHead(EncodedColumns.of(AS_THEY_STAND, rows.shape[1])).fit(rows, np.array(codes), n_classes)
    scores = head.scores(rows)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(head.probabilities(scores).sum(axis=1), 1.0)
    assert head.performance["rows"] == len(rows)


def test_classes_of_one_row_and_one_class_alone_are_fitted(schema) -> None:
    table = mixed(40)
    for labels in (["ill"] * 39 + ["well"], ["ill"] * 40):
        model = AutoencoderClassifier(WideKAHM(scale="auto"), schema=schema).fit(table, labels)
        assert set(model.predict(table)) <= set(labels)


# --- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AutoencoderClassifier, FoldingClassifier])
def test_loaded_classifier_of_a_table_gives_the_same_bits(kind, schema, tmp_path) -> None:
    model, queries = kind(schema=schema).fit(mixed(150)), mixed(50, seed=2)
    io.save(model, tmp_path / "model")
    loaded = io.load(tmp_path / "model")
    assert loaded.schema.digest == schema.digest
    assert loaded.get_params()["head"] == "auto"
    for method in ("predict_proba", "decision_function", "distances", "predict"):
        np.testing.assert_array_equal(getattr(loaded, method)(queries), getattr(model, method)(queries))
    np.testing.assert_array_equal(loaded.cross_validated_["confusion"], model.cross_validated_["confusion"])


@pytest.mark.parametrize("damage", ["landmarks", "solution", "knot_starts", "spread", "offset", "weights"])
def test_head_with_arrays_that_do_not_fit_is_refused(damage, schema) -> None:
    content = io.to_bytes(AutoencoderClassifier(schema=schema).fit(mixed(60)))
    with pytest.raises(FileFormatError):
        io.from_bytes(with_array(content, f"/{damage}_", lambda array: array[:-1]))


def test_probabilities_of_separable_rows_are_not_sure() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 3)) + 20 * y[:, None]
    schema = Schema([Field(f"x{place}", low=-10, high=40) for place in range(3)])
    chances = AutoencoderClassifier(schema=schema).fit(X, y).predict_proba(X)
    assert 0.9 < chances.max() <= 1 - 0.5 / 82
    assert chances.sum(axis=1) == pytest.approx(np.ones(80))


# --- rows that belong together ------------------------------------------------------------------------------


def of_persons(n_persons, n_rows=6, seed=0):
    """Rows of persons that are alike, and a class of each person that one column says little about."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n_persons, 4))
    ill = rng.random(n_persons) < 1.0 / (1.0 + np.exp(-2.0 * base[:, 0]))
    person = np.repeat(np.arange(n_persons), n_rows)
    return base[person] + 0.1 * rng.normal(size=(len(person), 4)), ill[person].astype(np.intp), person


def test_leaving_out_a_fold_equals_refitting_without_it(monkeypatch) -> None:
    rows, codes, person = of_persons(30)
    folds = person % 3
    head = TableHead(EncodedColumns.of(AS_THEY_STAND, 4))
    monkeypatch.setattr(module, "SHAPES", module.SHAPES[:1])
    head.fit(rows, codes, 2, folds=folds)
    closed = head.left_out_
    assert len(head.left_out_rows_) == len(rows)
    # With fewer rows to leave out than there are, the equations without a fold are solved instead.
    monkeypatch.setattr(module, "LEFT_OUT", len(rows) - 1)
    some = TableHead(EncodedColumns.of(AS_THEY_STAND, 4)).fit(rows, codes, 2, folds=folds)
    assert some.penalty_ == head.penalty_
    # The solutions of both agree to the conditioning of the landmarks' similarities.
    np.testing.assert_allclose(some.left_out_, closed[some.left_out_rows_], rtol=1e-4, atol=1e-5)
    alone = TableHead(EncodedColumns.of(AS_THEY_STAND, 4)).fit(rows, codes, 2)
    assert np.abs(alone.left_out_ - some.left_out_).mean() > 0.05


@pytest.mark.merge
def test_an_estimate_for_persons_is_that_of_other_persons() -> None:
    rows, codes, person = of_persons(100)
    others, truth, _ = of_persons(200, seed=1)
    by_rows = AutoencoderClassifier(head="ridge").fit(rows, codes)
    by_person = AutoencoderClassifier(head="ridge").fit(rows, codes, groups=person)
    assert by_rows.cross_validated_["accuracy"] > by_rows.score(others, truth) + 0.1  # too good to be true
    # 100 persons: a standard deviation of about 0.045 of the estimate.
    assert abs(by_person.cross_validated_["accuracy"] - by_person.score(others, truth)) < 0.1
    assert by_person.score(others, truth) > by_rows.score(others, truth)


def test_a_schema_with_persons_keeps_them_together() -> None:
    rows, codes, person = of_persons(40)
    fields = [Field(name, "number", low=-5, high=5) for name in "abcd"]
    label = Field("outcome", "integer", levels=(0, 1), role="label")
    told = Schema([*fields, Field("who", "string", role="person"), label])
    table = {name: rows[:, place] for place, name in enumerate("abcd")} | {"outcome": codes}
    by_column = AutoencoderClassifier(schema=told).fit(table | {"who": person.astype(str)})
    by_hand = AutoencoderClassifier(schema=told).fit(table, groups=person.astype(str))
    alone = AutoencoderClassifier(schema=told).fit(table)
    assert np.array_equal(by_column.cross_validated_["confusion"], by_hand.cross_validated_["confusion"])
    assert by_column.cross_validated_["accuracy"] < alone.cross_validated_["accuracy"]


def test_groups_of_another_number_than_rows_are_refused() -> None:
    rows, codes, person = of_persons(10)
    with pytest.raises(InvalidInputError, match="one name or number for each row"):
        AutoencoderClassifier(head="ridge").fit(rows, codes, groups=person[1:])
    one = AutoencoderClassifier(head="ridge").fit(rows, codes, groups=np.zeros(len(rows)))
    alone = AutoencoderClassifier(head="ridge").fit(rows, codes)
    assert np.array_equal(one.cross_validated_["confusion"], alone.cross_validated_["confusion"])
