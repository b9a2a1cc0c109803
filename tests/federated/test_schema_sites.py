"""Sites with one schema: tables go in, the contract decides, and sites with another one are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onefold import io
from onefold._base.records import pack
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.fabrication import MomentClassifier
from onefold.federated import GlobalClassifier, LocalModel, MomentFederation, release_moments, simulate
from onefold.federated.contract import schema_scale
from onefold.federated.messages import ModelParcel, Query, from_bytes
from onefold.models import AutoencoderClassifier, FoldingClassifier
from onefold.privacy import Box, OptimalNoise, PrivateMoments, RandomisedLabels, domain_of
from onefold.tables import Field, Schema
from reference.moment_files import changed_moments

AGE = Field("age", "integer", low=0, high=100)
PULSE = Field("pulse", low=40, high=200, missing="indicator")
WARD = Field("ward", "string", levels=("cardio", "neuro", "other"), other="other")
SICK = Field("sick", "string", "label", levels=("no", "yes"))
PATIENT = Field("patient", "string", "person")
SCHEMA = Schema([AGE, PULSE, WARD, SICK, PATIENT], rows_per_person=2)


def table(n: int = 60, seed: int = 0) -> dict[str, list[object]]:
    """Rows with text, gaps and a category that nobody declared."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.5
    found: dict[str, list[object]] = {
        "ward": ["cardio" if s else str(rng.choice(["neuro", "maternity"])) for s in sick],
        "patient": [f"p{row // 3}" for row in range(n)],
        "pulse": ["" if rng.random() < 0.2 else f"{80 + 60 * s + 10 * rng.random():.1f}" for s in sick],
        "sick": ["yes" if s else "no" for s in sick],
        "note": ["x"] * n,
        "age": [str(int(30 + 40 * s + 10 * rng.random())) for s in sick],
    }
    return found


def noise(schema: Schema = SCHEMA, **options: object) -> OptimalNoise:
    return OptimalNoise(2.0, 1e-3, sensitivity=domain_of(schema), **options)  # type: ignore[arg-type]


def test_site_fits_a_table_as_it_would_fit_its_encoded_rows() -> None:
    rows = SCHEMA.transform(table())
    machines = FoldingClassifier(scale=schema_scale(SCHEMA))
    site = LocalModel(schema=SCHEMA).fit(table())
    numbers = LocalModel(machines).fit(rows, table()["sick"])
    np.testing.assert_array_equal(
        site.answers(table(seed=1)), numbers.answers(SCHEMA.transform(table(seed=1)))
    )
    assert site.classes_.tolist() == ["no", "yes"]
    given = LocalModel(schema=SCHEMA).fit(table(), table()["sick"])
    assert given.digest() == site.digest()


def test_queries_may_have_other_columns_gaps_and_undeclared_cells() -> None:
    pandas = pytest.importorskip("pandas")
    site = LocalModel(schema=SCHEMA).fit(pandas.DataFrame(table()))
    asked = {"age": [40, None, "many"], "ward": ["?", None, "cardio"], "pulse": [None, 90, "?"]}
    found = site.answers(pandas.DataFrame(asked))
    assert found.shape == (3, 2)
    assert np.isfinite(found).all()
    query = Query("q", SCHEMA.transform(asked))
    np.testing.assert_array_equal(site.answer(query, "north").values, found)


def test_cell_outside_the_contract_is_refused_by_row_and_column_only_without_noise() -> None:
    wrong = table()
    wrong["age"][4] = "very old"
    wrong["sick"][7] = "perhaps"
    with pytest.raises(InvalidInputError, match=r"^row 5, column 'age': cannot be read as an integer$"):
        LocalModel(schema=SCHEMA).fit(wrong)
    site = LocalModel(mechanism=noise(), schema=SCHEMA).fit(wrong)
    assert len(site.row_numbers_) == 60


def test_site_without_labels_or_schema_is_told_what_is_missing() -> None:
    with pytest.raises(InvalidInputError, match="y is missing"):
        LocalModel().fit(np.eye(2))
    with pytest.raises(InvalidInputError, match="no label"):
        LocalModel(schema=Schema([AGE])).fit(table())
    with pytest.raises(InvalidInputError, match="no label"):
        LocalModel(mechanism=noise(Schema([AGE])), schema=Schema([AGE])).fit(table())
    assert LocalModel(schema=Schema([AGE])).fit(table(), table()["sick"]).classes_.size == 2


@pytest.mark.parametrize(
    "label, cells, classes",
    [
        (Field("sick", "boolean", "label"), ["true", "0"] * 30, ["false", "true"]),
        (Field("sick", "number", "label", levels=(1.0, 2.0)), ["1", "2.0"] * 30, [1, 2]),
        (Field("sick", "number", "label", levels=(0.5, 2.0)), ["2", "2.0"] * 30, ["2.0"]),
        (Field("sick", "integer", "label", levels=(7, 3)), ["7", "3"] * 30, [3, 7]),
    ],
    ids=["truth values", "whole numbers", "fractions", "integers"],
)
def test_classes_of_any_declared_type_travel(label: Field, cells: list[str], classes: list[object]) -> None:
    schema = Schema([AGE, PULSE, WARD, label])
    found = LocalModel(schema=schema).fit(table() | {"sick": cells})
    assert found.classes_.tolist() == classes
    assert list(from_bytes(found.profile("north").to_bytes()).classes) == classes


def test_saved_model_and_parcel_keep_the_schema(tmp_path: Path) -> None:
    site = LocalModel(schema=SCHEMA).fit(table())
    site.save(tmp_path / "model")
    again = LocalModel.load(tmp_path / "model")
    assert again.schema_.digest == SCHEMA.digest
    assert again.profile("north").schema == SCHEMA.digest
    np.testing.assert_array_equal(again.answers(table(seed=2)), site.answers(table(seed=2)))
    assert again.forget([3, 4]).exact
    again.extend(table(seed=3))
    assert len(again.row_numbers_) == 118
    site.save(tmp_path / "small", with_rows=False)
    assert LocalModel.load(tmp_path / "small").digest() == site.digest()
    private = LocalModel(mechanism=noise(), schema=SCHEMA).fit(table())
    opened = LocalModel.from_parcel(private.to_parcel("north"))
    assert opened.profile("north").schema_fields == private.profile("north").schema_fields


def beside(fields: dict[str, object]) -> bytes:
    return pack("what belongs to the model of a site", 1, {"offset": None, "rows": None, **fields}, {})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        beside({}),
        beside({"schema": {}}),
        beside({"schema": {"fields": [{}]}}),
        beside({"schema": {"fields": [{"name": "a", "type": "boolean"}]}}),
    ],
)
def test_parcel_with_a_damaged_schema_is_refused(content: bytes, tmp_path: Path) -> None:
    private = LocalModel(mechanism=noise(), schema=SCHEMA).fit(table())
    extras = {"beside": np.frombuffer(content, dtype=np.uint8)}
    with pytest.raises(MessageError):
        LocalModel.from_parcel(ModelParcel("north", io.to_bytes(private.estimator_, extras)))
    io.save(private.estimator_, tmp_path / "model", extras)
    with pytest.raises(FileFormatError):
        LocalModel.load(tmp_path / "model")


def test_classifier_with_a_schema_of_its_own_is_no_site(tmp_path: Path) -> None:
    """Queries of a federation come encoded: the site must know it, not its classifier."""
    own = AutoencoderClassifier(schema=SCHEMA)
    with pytest.raises(InvalidInputError, match="give the schema to the LocalModel"):
        LocalModel(own, schema=SCHEMA).fit(table())
    io.save(own.fit(table()), tmp_path / "model")
    with pytest.raises(InvalidInputError, match="encodes tables itself"):
        LocalModel.load(tmp_path / "model")


def test_sites_with_different_schemas_are_refused_by_the_first_difference() -> None:
    wider = Schema([Field("age", "integer", low=0, high=120), PULSE, WARD, SICK, PATIENT], rows_per_person=2)
    server = GlobalClassifier().add("north", LocalModel(schema=SCHEMA).fit(table()))
    with pytest.raises(InvalidInputError, match=r"^the schemas of two sites differ: field 'age'$"):
        server.add("south", LocalModel(schema=wider).fit(table()))
    numbers = LocalModel().fit(SCHEMA.transform(table()), table()["sick"])
    with pytest.raises(InvalidInputError, match="some sites use a schema"):
        server.add("west", numbers)
    server.add("east", LocalModel(schema=Schema.from_dict(SCHEMA.to_dict())).fit(table(seed=5)))
    assert np.mean(server.predict(table(seed=6)) == np.array(table(seed=6)["sick"])) > 0.9


def test_trust_is_learned_from_labelled_tables() -> None:
    server = GlobalClassifier("weighted")
    for seed, name in enumerate(("north", "south")):
        server.add(name, LocalModel(schema=SCHEMA).fit(table(seed=seed)))
    server.learn_trust(table(seed=8), table(seed=8)["sick"])
    assert np.mean(server.predict(table(seed=9)) == np.array(table(seed=9)["sick"])) > 0.9


# --- with noise -------------------------------------------------------------------------------------------


def test_guarantee_names_the_schema_and_its_condition() -> None:
    site = LocalModel(mechanism=noise(), schema=SCHEMA)
    promise = site.promise(SCHEMA.width)
    site.fit(table())
    for found in (promise, site.guarantee_):
        assert found is not None
        assert found.holds
        assert found.schema == SCHEMA.digest
        assert found.n_features == 3  # cells of a record, not encoded columns
        assert any("schema" in condition for condition in found.conditions)


def test_noise_of_another_domain_is_refused() -> None:
    """One cell of a table moves two entries of a category: a plain box would promise too much."""
    other = Schema([AGE, SICK])
    for domain in (Box(0, 1), 1.0, domain_of(other)):
        site = LocalModel(mechanism=OptimalNoise(2.0, 1e-3, sensitivity=domain), schema=SCHEMA)
        with pytest.raises(InvalidInputError, match="domain of the schema"):
            site.fit(table())


def test_schema_from_private_rows_is_refused_where_privacy_is_promised() -> None:
    taken = Schema(SCHEMA.fields, source="private")
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        LocalModel(mechanism=noise(), schema=taken).fit(table())
    assert LocalModel(schema=taken).fit(table()).guarantee_ is None
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        release_moments(table(), None, PrivateMoments(1.0, centre=None), schema=taken)
    rows, labels = SCHEMA.transform(table()), np.array(table()["sick"])
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        PrivateMoments(1.0).fit(rows, labels, schema=taken)


def test_persons_come_from_the_schema_and_rows_about_nobody_are_left_out() -> None:
    rows = table()
    rows["patient"][10] = ""
    rows["patient"][11] = None
    site = LocalModel(mechanism=noise(rows_per_person=2), schema=SCHEMA).fit(rows, ids=range(100, 160))
    assert len(site.row_numbers_) == 39  # 19 patients of whom two rows are kept, and one with a single row
    assert not {10, 11} & set(site.row_numbers_.tolist())
    assert site.guarantee_ is not None
    assert site.guarantee_.person is not None
    gone = int(site.row_numbers_[-1])
    site.forget([100 + gone])
    assert gone not in site.row_numbers_
    with pytest.raises(InvalidInputError):
        site.forget([110])


def test_labels_with_noise_are_drawn_among_the_declared_classes() -> None:
    labels = RandomisedLabels(1.0, ["no", "yes"])
    site = LocalModel(mechanism=noise(), label_mechanism=labels, schema=SCHEMA).fit(table())
    assert site.guarantee_.labels == (1.0, 0.0)


# --- moments ----------------------------------------------------------------------------------------------

AGREED = PrivateMoments(8.0, centre=None, random_state=0)


def test_moments_of_tables_add_up_to_a_classifier_that_is_asked_about_tables() -> None:
    federation = MomentFederation(SCHEMA)
    for seed in range(3):
        rows = table(2000, seed)
        rows["age"][0], rows["sick"][1], rows["patient"][2] = "?", "perhaps", ""  # none of it is refused
        federation.add(seed, release_moments(rows, None, AGREED, schema=SCHEMA))
    total = federation.moments()
    assert total.radius == SCHEMA.row_norm
    assert total.classes_.tolist() == ["no", "yes"]
    assert federation.guarantee.schema == SCHEMA.digest
    assert federation.guarantee.person is not None
    assert federation.guarantee.rows_per_person == 2
    model = federation.fitted(MomentClassifier)
    assert np.mean(model.predict(table(300, 9)) == np.array(table(300, 9)["sick"])) > 0.9


def test_moments_by_another_schema_are_refused_by_the_first_difference() -> None:
    wider = Schema([Field("age", "integer", low=0, high=120), PULSE, WARD, SICK, PATIENT], rows_per_person=2)
    by_schema, open_to_all = MomentFederation(SCHEMA), MomentFederation()
    open_to_all.add("north", release_moments(table(), None, AGREED, schema=SCHEMA))
    other = release_moments(table(), None, AGREED, schema=wider)
    with pytest.raises(InvalidInputError, match=r"^the schema of the release differs: field 'age'$"):
        by_schema.add("south", other)
    with pytest.raises(InvalidInputError, match=r"by different schemas cannot be added: field 'age'$"):
        open_to_all.add("south", other)
    numbers = release_moments(SCHEMA.transform(table()), table()["sick"], AGREED)
    with pytest.raises(InvalidInputError, match="does not rest on the schema"):
        by_schema.add("west", numbers)
    with pytest.raises(InvalidInputError):
        open_to_all.add("west", numbers)
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        release_moments(table(), None, AGREED, schema=Schema(SCHEMA.fields, source="private"))
    with pytest.raises(InvalidInputError, match="y is missing"):
        release_moments(np.eye(3), None, AGREED)


@pytest.mark.parametrize(
    "fields", [{}, [["a"]], [["a\n", "0"]], [["a" * 201, "0"]], [[3, "0"]], "ab", [["a", "0"]] * 100_001]
)
def test_release_with_malformed_fields_is_refused(fields: object) -> None:
    honest = release_moments(table(), None, AGREED, schema=SCHEMA)
    content = changed_moments(honest, {"schema_fields": fields})
    with pytest.raises(FileFormatError):
        MomentFederation().add("north", content)


# --- simulated --------------------------------------------------------------------------------------------


def test_simulation_of_a_table_is_that_of_its_encoded_rows() -> None:
    chosen = {"estimator": FoldingClassifier(scale=schema_scale(SCHEMA)), "random_state": 0}
    by_schema = simulate(table(200), None, 3, schema=SCHEMA, **chosen)
    encoded = simulate(SCHEMA.transform(table(200)), table(200)["sick"], 3, **chosen)
    assert (by_schema.federated, by_schema.alone) == (encoded.federated, encoded.alone)
    test = {"X_test": table(50, 7), "y_test": None}
    found = simulate(table(200), None, 3, schema=SCHEMA, mechanism=noise(), **test)
    assert found.n_test == 50
    assert found.federated > 0.9
    assert found.guarantees is not None
    assert {each.schema for each in found.guarantees} == {SCHEMA.digest}
    labelled = (table(30, 9), None)
    weighted = simulate(table(200), None, 3, schema=SCHEMA, rule="weighted", labelled=labelled)
    assert weighted.federated > 0.9
    with pytest.raises(InvalidInputError, match="y is missing"):
        simulate(np.eye(4), None, 2)
    with pytest.raises(InvalidInputError, match="domain of the schema"):
        simulate(table(), None, 2, schema=SCHEMA, mechanism=OptimalNoise(1.0, 1e-3, sensitivity=Box(0, 1)))


def test_scale_follows_from_the_declaration_alone() -> None:
    assert schema_scale(SCHEMA) == schema_scale(Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))))
    many = Schema([Field("c", "string", levels=tuple(f"v{k}" for k in range(500))), SICK])
    rows = many.transform({"c": ["v0", "v1"]}) * schema_scale(many)
    assert np.mean(rows**2) == pytest.approx(0.1)
