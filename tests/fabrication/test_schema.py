"""Private estimators on tables: everything follows from the schema, and no cell is refused."""

import math

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from onefold.encoders import RandomFeatures
from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator, MomentClassifier, MomentFabricator, PrivateClassifier
from onefold.io import load, save
from onefold.privacy import AnalyticGaussian, Box, Laplace, PrivateMoments, RandomisedLabels, domain_of
from onefold.privacy.contract import DECLARED
from onefold.tables import Field, Schema

SCHEMA = Schema(
    [
        Field("who", "string", "person"),
        Field("age", "integer", low=0, high=120),
        Field("glucose", low=2, high=30, missing="indicator", unit="mmol/L"),
        Field("sick", "string", "label", levels=("no", "yes")),
        Field("ward", "string", levels=("cardio", "surgery")),
        Field("note", "string", "ignored"),
    ],
    rows_per_person=3,
)
TYPES = {"age": "<i8", "glucose": "<f8", "sick": "<U3", "ward": "<U7"}


def table(n: int = 4000, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.4
    glucose = np.where(rng.random(n) < 0.1, np.nan, np.where(sick, 11.0, 6.0) + rng.normal(size=n))
    ward = np.where(rng.random(n) < np.where(sick, 0.8, 0.3), "cardio", "surgery")
    return {
        "who": np.arange(n) // 2,
        "age": np.clip(rng.normal(np.where(sick, 65, 45), 12), 0, 120).round(),
        "glucose": glucose,
        "sick": np.where(sick, "yes", "no"),
        "ward": ward,
        "note": np.array(["text"] * n),
    }


def spoiled(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same table with cells outside the contract in its first rows."""
    found = {name: values.astype(object) for name, values in data.items()}
    found["age"][:3] = ["old", None, 1e9]
    found["glucose"][:2] = ["?", math.inf]
    found["ward"][0] = "a ward that is longer than any declared one"
    found["sick"][:2] = ["perhaps", None]
    return found


def test_moment_classifier_learns_a_table_by_its_schema() -> None:
    model = MomentClassifier(1.0, schema=SCHEMA).fit(table())
    test = table(1000, seed=1)
    assert np.mean(model.predict(test) == test["sick"]) > 0.9
    assert model.classes_.tolist() == ["no", "yes"]
    promise = model.guarantee_
    assert promise.holds
    assert (promise.unit, promise.rows_per_person, promise.person) == ("person", 3, (1.0, 1e-5))
    assert promise.schema == SCHEMA.digest
    assert DECLARED in promise.conditions
    assert model.moments_.radius == SCHEMA.row_norm
    assert model.feature_names_in_.tolist() == ["age", "glucose", "ward"]
    assert model.predict_proba({name: test[name][:3] for name in ("age", "glucose", "ward")}).shape == (3, 2)


def test_moment_classifier_covers_records_where_told_so() -> None:
    promise = MomentClassifier(1.0, schema=SCHEMA).fit(table(200), person=False).guarantee_
    assert (promise.unit, promise.person, promise.record) == ("record", None, (1.0, 1e-5))
    limited = MomentClassifier(1.0, schema=SCHEMA, rows_per_person=1).fit(table(200)).guarantee_
    assert limited.rows_per_person == 1


def test_rows_without_a_declared_class_are_left_out_of_the_moments() -> None:
    data = table(400)
    bad = spoiled(data)
    exact = MomentClassifier(None, schema=SCHEMA).fit(bad, person=False)
    kept = {name: values[2:] for name, values in bad.items()}
    again = MomentClassifier(None, schema=SCHEMA).fit(kept, person=False)
    assert exact.moments_.counts_.sum() == 398
    assert exact.moments_.sums_ == pytest.approx(again.moments_.sums_)


def test_moments_of_a_table_serve_later_and_only_with_their_schema() -> None:
    model = MomentClassifier(4.0, schema=SCHEMA).fit(table())
    moments = PrivateMoments.from_bytes(model.moments_.to_bytes())
    again = MomentClassifier.from_moments(moments, schema=SCHEMA)
    test = table(200, seed=2)
    assert np.array_equal(again.predict(test), model.predict(test))
    other = Schema([Field("age", low=0, high=99), *SCHEMA.fields[2:]])
    with pytest.raises(InvalidInputError, match="another encoder or schema"):
        MomentClassifier.from_moments(moments, schema=other)


def test_a_public_encoder_may_follow_the_schema() -> None:
    model = MomentClassifier(4.0, encoder=RandomFeatures(16), schema=SCHEMA).fit(table())
    assert model.guarantee_.holds
    assert model.moments_.counts_.sum() > 100
    assert len(model.predict(table(5))) == 5


@pytest.mark.parametrize("change", [lambda data: data, spoiled])
def test_synthetic_tables_have_the_declared_columns_whatever_the_rows_hold(change) -> None:
    data = change(table(300))
    made = [
        MomentFabricator(1.0, schema=SCHEMA).fit(data).sample_table(50),
        Fabricator(AnalyticGaussian(1.0, sensitivity=domain_of(SCHEMA)), 2, schema=SCHEMA).fabricate(data),
        Fabricator(Laplace(1.0, sensitivity=domain_of(SCHEMA)), 2, schema=SCHEMA).randomise(data),
    ]
    for found, rows in zip(made, (50, 300, 300), strict=True):
        assert {name: values.dtype.str for name, values in found.items()} == TYPES
        assert {len(values) for values in found.values()} == {rows}
        assert found["age"].min() >= 0
        assert found["age"].max() <= 120
        assert set(found["ward"].tolist()) <= {"cardio", "surgery"}
        assert set(found["sick"].tolist()) <= {"no", "yes"}


def test_sampled_table_keeps_what_the_classes_differ_in() -> None:
    made = MomentFabricator(None, schema=SCHEMA).fit(table(), person=False).sample_table(4000, random_state=0)
    data, sick = table(), made["sick"] == "yes"
    assert np.mean(sick) == pytest.approx(np.mean(data["sick"] == "yes"), abs=0.01)
    for value, raw in ((sick, data["sick"] == "yes"), (~sick, data["sick"] == "no")):
        assert np.mean(made["age"][value]) == pytest.approx(np.mean(data["age"][raw]), abs=3)
    assert np.nanmean(made["glucose"][sick]) > np.nanmean(made["glucose"][~sick]) + 3
    plain = MomentFabricator(1.0, classes=[0, 1]).fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
    with pytest.raises(InvalidInputError, match="needs a schema"):
        plain.sample_table(5)


def test_fabricator_states_what_a_cell_is_promised() -> None:
    maker = Fabricator(Laplace(0.5, sensitivity=domain_of(SCHEMA)), 2, schema=SCHEMA)
    maker.fabricate(table(60))
    promise = maker.guarantee_
    assert promise.entry == (0.5, 0.0)
    assert promise.n_features == 3
    assert promise.schema == SCHEMA.digest
    assert promise.holds
    assert promise.labels is None
    assert maker.labels_.tolist() == table(60)["sick"].tolist()


def test_fabricator_refuses_noise_for_another_domain() -> None:
    for domain in (Box(0, 1, 5), domain_of(Schema(SCHEMA.fields[:2]))):
        with pytest.raises(InvalidInputError, match=r"domain_of\(schema\)"):
            Fabricator(Laplace(1.0, sensitivity=domain), schema=SCHEMA).fabricate(table(20))


def test_fabricator_limits_rows_of_a_person_where_its_noise_was_made_for_it() -> None:
    noise = AnalyticGaussian(1.0, sensitivity=domain_of(SCHEMA), unit="person", rows_per_person=1)
    maker = Fabricator(noise, 2, schema=SCHEMA)
    assert len(maker.fabricate(table(60))["age"]) == 30
    assert maker.guarantee_.person == (1.0, 1e-5)


def test_an_undeclared_label_changes_no_number_of_rows() -> None:
    """Leaving its row out would show it by the length of the result."""
    noise = Laplace(1.0, sensitivity=domain_of(SCHEMA))
    maker = Fabricator(noise, 2, label_mechanism=RandomisedLabels(1.0, ["no", "yes"]), schema=SCHEMA)
    assert len(maker.fabricate(spoiled(table(60)))["sick"]) == 60
    assert maker.guarantee_.labels == (1.0, 0.0)


@pytest.mark.parametrize("fabricate", [False, True])
def test_private_classifier_takes_tables(fabricate: bool) -> None:
    noise = AnalyticGaussian(20.0, sensitivity=domain_of(SCHEMA), unit="record")
    options = {"n_components": 2, "schema": SCHEMA, "random_state": 0}
    model = PrivateClassifier(GaussianNB(), noise, fabricate, **options).fit(table(2000))
    test = table(500, seed=1)
    assert np.mean(model.predict(test) == test["sick"]) > 0.75  # 0.6 are of one class
    assert model.guarantee_.record == (20.0, 1e-5)
    assert model.guarantee_.schema == SCHEMA.digest
    unlabelled = Schema([known for known in SCHEMA.fields if known.role != "label"])
    noise = Laplace(1.0, sensitivity=domain_of(unlabelled))
    with pytest.raises(InvalidInputError, match="y is missing"):
        PrivateClassifier(GaussianNB(), noise, schema=unlabelled).fit(table(20))


def test_schema_from_private_rows_is_refused() -> None:
    private = Schema(SCHEMA.fields, rows_per_person=3, source="private")
    for made in (MomentClassifier(schema=private), MomentFabricator(schema=private)):
        with pytest.raises(InvalidInputError, match="inferred from private rows"):
            made.fit(table(50))


def test_saved_classifier_of_a_table_answers_as_before(tmp_path) -> None:
    model = MomentClassifier(4.0, schema=SCHEMA).fit(table())
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    test = table(300, seed=3)
    assert np.array_equal(again.decision_function(test), model.decision_function(test))
    assert again.guarantee_ == model.guarantee_
