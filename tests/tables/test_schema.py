"""The contract of a table: its file, its digest, and the code between tables and rows of numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from onefold.exceptions import InvalidInputError
from onefold.federated import release_moments
from onefold.privacy import PrivateMoments
from onefold.tables import Field, Schema
from onefold.tables.cells import cells_of
from onefold.transfer import PrivateSource

DECLARED = {
    "$schema": "https://datapackage.org/profiles/2.0/tableschema.json",
    "name": "sepsis-outcome",
    "fields": [
        {"name": "patient", "type": "string", "onefold:role": "person"},
        {
            "name": "admitted",
            "type": "date",
            "constraints": {"minimum": "2015-01-01", "maximum": "2026-12-31"},
        },
        {
            "name": "age",
            "type": "integer",
            "title": "Age at admission",
            "constraints": {"minimum": 0, "maximum": 110, "required": True},
            "onefold:unit": "a",
        },
        {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M", "X"]}},
        {
            "name": "creatinine",
            "type": "number",
            "constraints": {"minimum": 0, "maximum": 25},
            "onefold:scale": "log",
            "onefold:logUnit": 0.3,
        },
        {
            "name": "lactate",
            "type": "number",
            "constraints": {"minimum": 0, "maximum": 30},
            "onefold:missing": "indicator",
        },
        {"name": "smoker", "type": "boolean"},
        {"name": "note", "type": "string", "onefold:role": "ignored"},
        {
            "name": "died",
            "type": "string",
            "constraints": {"enum": ["no", "yes"]},
            "onefold:role": "label",
        },
    ],
    "missingValues": ["", "NA", "?"],
    "onefold": {"version": 1, "rowsAbout": 2048, "rowsPerPerson": 5},
}
ROWS = {
    "patient": ["p1", "p2", "p1"],
    "admitted": ["2020-02-29", "2026-12-31", "2015-01-01"],
    "age": ["5", "110", "41"],
    "sex": ["F", "X", "M"],
    "creatinine": ["0.3", "25", "1"],
    "lactate": ["NA", "3", "?"],
    "smoker": ["true", "0", "FALSE"],
    "note": ["a", "", "b"],
    "died": ["no", "yes", "no"],
}


@pytest.fixture
def schema() -> Schema:
    return Schema.from_dict(json.loads(json.dumps(DECLARED)))


def test_a_schema_comes_out_of_a_file_as_it_went_in(schema, tmp_path) -> None:
    path = tmp_path / "s.json"
    schema.save(path)
    assert json.loads(path.read_text()) == DECLARED
    assert Schema.load(path).digest == schema.digest


def test_frames_dicts_and_arrays_are_encoded_alike(schema) -> None:
    wanted = schema.transform(ROWS)
    typed = {**ROWS, "age": [5, 110, 41], "creatinine": [0.3, 25.0, 1.0], "lactate": [None, 3.0, None]}
    typed |= {"smoker": [True, False, False], "admitted": pd.to_datetime(ROWS["admitted"])}
    frames = [
        pd.DataFrame(ROWS),
        pd.DataFrame(typed),
        pd.DataFrame(typed).astype({"sex": "category", "age": "Int64", "lactate": "Float64"}),
        pd.DataFrame(ROWS)[list(reversed(ROWS))].assign(more=1),
        pl.DataFrame(ROWS),
        pl.DataFrame({**typed, "admitted": list(typed["admitted"])}, strict=False),
        np.array([ROWS[known.name] for known in schema.features], dtype=object).T,
        [list(row) for row in zip(*(ROWS[known.name] for known in schema.features), strict=True)],
    ]
    for frame in frames:
        np.testing.assert_array_equal(schema.transform(frame), wanted)
    assert schema.labels(frames[1])[0].tolist() == ["no", "yes", "no"]
    assert schema.persons(frames[4]).tolist() == ["p1", "p2", "p1"]


def test_the_schema_is_a_transformer_in_a_pipeline_with_names(schema) -> None:
    copy = clone(schema).set_output(transform="pandas")
    frame = copy.fit_transform(pd.DataFrame(ROWS))
    assert list(frame.columns) == list(schema.get_feature_names_out())
    assert "lactate=missing" in frame.columns
    model = make_pipeline(schema, LogisticRegression()).fit(pd.DataFrame(ROWS), ROWS["died"])
    assert model.predict(ROWS).shape == (3,)


def test_inverse_transform_returns_the_table(schema) -> None:
    found = schema.inverse_transform(schema.transform(ROWS))
    assert found["admitted"].astype(str).tolist() == ROWS["admitted"]
    assert found["sex"].tolist() == ROWS["sex"]
    assert found["age"].tolist() == [5, 110, 41]
    assert np.isnan(found["lactate"]).tolist() == [True, False, True]
    assert {name: values.dtype for name, values in found.items()} == {
        known.name: known.dtype for known in schema.features
    }


def test_sensitivities_are_those_of_the_worst_rows(schema) -> None:
    # admitted, age, creatinine 1 each; lactate 1.25; sex and smoker 1/2 each, or 1 each if replaced
    assert schema.row_norm == pytest.approx(math.sqrt(3 + 1.25 + 2 * 0.5))
    assert schema.row_change == pytest.approx(math.sqrt(3 + 1.25 + 2 * 1.0))
    assert schema.entry_change == pytest.approx(math.sqrt(1.25))
    assert schema.width == len(schema.get_feature_names_out()) == 3 + 2 + 3 + 2


def test_strict_reading_refuses_and_lenient_reading_maps(schema) -> None:
    bad = {**ROWS, "sex": ["F", "secret", "M"], "age": ["old", "900", ""]}
    with pytest.raises(InvalidInputError, match="row 1, column 'age': cannot be read as an integer"):
        schema.parse(bad)
    parsed = schema.parse(bad, strict=False)
    assert parsed["sex"].tolist() == [0, -1, 1]
    encoded = schema.transform(bad)
    names = schema.get_feature_names_out().tolist()
    assert encoded[:, names.index("age")].tolist() == [0.5, 1.0, 0.5]
    assert not encoded[1, names.index("sex=F") : names.index("sex=X") + 1].any()
    assert encoded.shape == (3, schema.width)


def test_rows_without_a_declared_class_are_told_apart(schema) -> None:
    labels, known = schema.labels({**ROWS, "died": ["no", "maybe", ""]}, strict=False)
    assert labels.tolist() == ["no"]
    assert known.tolist() == [True, False, False]
    with pytest.raises(InvalidInputError, match="row 2, column 'died'"):
        schema.labels({**ROWS, "died": ["no", "maybe", ""]})


def _changed(schema: Schema, name: str, **changes) -> Schema:
    fields = tuple(replace(known, **changes) if known.name == name else known for known in schema.fields)
    return Schema(
        fields,
        missing_values=schema.missing_values,
        rows_about=schema.rows_about,
        rows_per_person=schema.rows_per_person,
    )


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("age", {"high": 111}),
        ("age", {"unit": "months"}),
        ("sex", {"levels": ("F", "M")}),
        ("sex", {"levels": ("M", "F", "X")}),
        ("lactate", {"missing": "refuse"}),
        ("creatinine", {"log_unit": 0.4}),
        ("note", {"role": "identifier"}),
        ("admitted", {"low": 0}),
    ],
)
def test_the_first_differing_field_is_named(schema, name, changes) -> None:
    other = _changed(schema, name, **changes)
    assert other.digest != schema.digest
    assert repr(name) in str(schema.difference(other))


def test_texts_for_people_and_marks_for_review_are_not_part_of_the_digest(schema) -> None:
    other = _changed(schema, "age", review="guessed", about={"title": "Alter"})
    assert other.digest == schema.digest
    assert schema.difference(other) is None


def test_what_holds_for_all_columns_is_part_of_the_digest(schema) -> None:
    fields = schema.fields
    others = [
        Schema(fields, missing_values=("",), rows_about=2048, rows_per_person=5),
        Schema(fields, missing_values=schema.missing_values, rows_about=4096, rows_per_person=5),
        Schema(fields, missing_values=schema.missing_values, rows_about=2048, rows_per_person=6),
        Schema(
            fields, missing_values=schema.missing_values, rows_about=2048, rows_per_person=5, source="private"
        ),
    ]
    assert len({schema.digest, *(other.digest for other in others)}) == 5
    assert all(schema.difference(other) for other in others)
    assert schema.difference(Schema(fields[:-1])) is not None


def test_a_schema_from_private_rows_is_refused_where_privacy_is_promised(schema) -> None:
    schema.require_declared()
    Schema.infer(ROWS, "died").require_declared()
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        Schema.infer(ROWS, "died", source="private").require_declared()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("fields"), 'list of "fields"'),
        (lambda d: d.update(fields=[]), "from 1 to"),
        (lambda d: d.update(fields=[{"type": "string"}]), "needs a name"),
        (lambda d: d["fields"].append(d["fields"][2]), "both have the role|two fields"),
        (lambda d: d["fields"][2].update({"onefold:rolle": "label"}), "there is no key 'onefold:rolle'"),
        (lambda d: d["fields"][2]["constraints"].update(pattern="x"), "constraint 'pattern'"),
        (lambda d: d["fields"][2]["constraints"].update(minimum="x"), "must be numbers"),
        (lambda d: d["fields"][1]["constraints"].update(minimum="x"), "must be dates"),
        (lambda d: d["fields"][2].update({"onefold:role": "label"}), "both have the role label"),
        (lambda d: d["onefold"].update(version=2), "must be of version 1"),
        (lambda d: d["onefold"].update(rowsabout=2), "no key 'rowsabout'"),
        (lambda d: d["onefold"].update(rowsAbout=2.5), "rowsAbout must be"),
        (lambda d: d["onefold"].update(source="us"), "source must be"),
        (lambda d: d.update(missingValues="NA"), "missingValues must be a list"),
        (lambda d: d.update(missingValues=[1]), "must be texts"),
        (lambda d: d["fields"][3]["constraints"].update(enum="FMX"), "must be a list"),
    ],
)
def test_a_wrong_schema_file_is_one_clear_line(tmp_path, change, message) -> None:
    content = json.loads(json.dumps(DECLARED))
    change(content)
    path = tmp_path / "s.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInputError, match=message) as caught:
        Schema.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"[", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"fields": 3}', b"null"]
)
def test_a_foreign_file_is_refused(tmp_path, content) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError):
        Schema.load(path)


def test_a_column_that_is_not_there_is_named_with_its_neighbour(schema) -> None:
    rows = dict(ROWS)
    rows["creatinin"] = rows.pop("creatinine")
    with pytest.raises(InvalidInputError, match=r"no column 'creatinine'.*did you mean 'creatinin'"):
        schema.transform(rows)


def test_another_column_of_the_contract_is_not_proposed_for_one_that_is_not_there() -> None:
    schema = Schema([Field(f"answer {place}", "integer", low=1, high=5) for place in range(3)])
    with pytest.raises(InvalidInputError, match=r"no column 'answer 1' among its 2$"):
        schema.transform({"answer 0": [1], "answer 2": [2]})


def test_columns_of_unequal_length_are_refused(schema) -> None:
    with pytest.raises(InvalidInputError, match="equally many rows"):
        schema.transform({**ROWS, "age": ["1"]})


def test_fields_must_be_fields() -> None:
    with pytest.raises(InvalidInputError, match="sequence of Field"):
        Schema([{"name": "x"}])
    assert Schema([Field("x", low=0, high=1)]).width == 1


def test_a_schema_without_features_cannot_encode() -> None:
    schema = Schema([Field("name", "string", role="identifier")])
    with pytest.raises(InvalidInputError, match="no feature"):
        schema.transform({"name": ["a", "b"]})


def test_a_schema_without_a_label_predicts_nothing_and_stays_itself_beside_any_table(
    schema, tmp_path
) -> None:
    assert not Schema([Field("age", "integer", low=0, high=120)]).predicts_number
    assert Schema([Field("age", "integer", "label", low=0, high=120)]).predicts_number
    assert schema.beside(tmp_path / "table.csv") is schema


def test_moments_finer_than_python_has_are_read_in_microseconds() -> None:
    for unit in ("ns", "us", "s"):
        values, missing = cells_of(np.array(["2020-01-31T10:00:00", "NaT"], dtype=f"datetime64[{unit}]"))
        assert values.dtype == ("datetime64[us]" if unit == "ns" else f"datetime64[{unit}]")
        assert missing.tolist() == [False, True]


def test_functions_take_no_schema_as_numbers_and_refuse_what_is_none() -> None:
    X, y = np.eye(2)[[0, 1] * 30], [0, 1] * 30
    moments = PrivateMoments(1.0, classes=[0, 1], centre=None)
    for release in (
        lambda schema: moments.fit(X, y, schema=schema),
        lambda schema: PrivateSource.fit(X, y, moments, schema=schema),
        lambda schema: release_moments(X, y, moments, schema=schema),
    ):
        release(None)
        with pytest.raises(InvalidInputError, match="schema must be a Schema, or None"):
            release("patients.json")


def test_a_type_that_is_a_list_beside_a_bound_is_refused() -> None:
    field = {"name": "d", "type": ["date"], "constraints": {"minimum": "2000-01-01"}}
    with pytest.raises(InvalidInputError, match="field 'd'"):
        Schema.from_dict({"fields": [field]})
