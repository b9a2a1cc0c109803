"""Columns of texts and images behind an encoder: declared, compared by digest, and read row by row."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.encoders import OnnxEncoder, SentenceEncoder
from onefold.exceptions import InvalidInputError
from onefold.privacy import domain_of
from onefold.tables import CellEncoder, Field, Schema, check_table, read_table
from onnx_models import WORDS, image_model, sentence_folder, text_model, tokenizer

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
pillow: Any = pytest.importorskip("PIL.Image")

AGE = Field("age", low=0, high=100)
ILL = Field("ill", "string", "label", levels=("no", "yes"))
UNPLACED = {"kind": "text", "digest": "0" * 64, "width": 8}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sentence_folder(tmp_path / "minilm")


@pytest.fixture
def schema(folder: Path) -> Schema:
    return Schema([Field("note", "string", encoder=SentenceEncoder(folder)), AGE, ILL])


def table(n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    notes = [" ".join(rng.choice(WORDS[4:], 5)) for _ in range(n)]
    return {"note": notes, "age": rng.integers(0, 100, n), "ill": rng.choice(["no", "yes"], n)}


# --- numbers ----------------------------------------------------------------------------------------------


def test_a_text_becomes_the_vector_of_its_encoder_at_half_its_length(schema: Schema, folder: Path) -> None:
    rows = table(20)
    found = schema.transform(rows)
    vectors = SentenceEncoder(folder).fit_transform(rows["note"])
    np.testing.assert_allclose(found[:, :8], 0.5 * vectors, rtol=1e-9)
    assert found.shape == (20, schema.width) == (20, 9)
    assert schema.get_feature_names_out().tolist() == [*(f"note[{place}]" for place in range(8)), "age"]


@pytest.mark.parametrize("missing", ["refuse", "indicator"])
def test_no_row_is_longer_and_no_two_are_farther_apart_than_declared(folder: Path, missing: str) -> None:
    note = Field("note", "string", encoder=SentenceEncoder(folder), missing=missing)
    schema = Schema([note])
    rows = schema.transform({"note": [*table(200)["note"], "", ""]})
    assert np.linalg.norm(rows, axis=1).max() <= schema.row_norm
    apart = np.linalg.norm(rows[:, None] - rows, axis=2)
    assert apart.max() <= schema.row_change
    # The bounds are reached by opposite vectors, and by one that is missing.
    opposite = np.eye(8)[:1]
    ends = note.encode(np.vstack([opposite, -opposite, np.full((1, 8), np.nan)]))
    assert np.linalg.norm(ends[:, None] - ends, axis=2).max() == pytest.approx(schema.row_change)
    assert np.linalg.norm(ends, axis=1).max() == pytest.approx(schema.row_norm)


def test_a_missing_text_is_an_error_or_a_column_of_its_own(schema: Schema) -> None:
    rows = {"note": ["fever", ""], "age": [1, 2]}
    with pytest.raises(InvalidInputError, match=r"^row 2, column 'note': is missing$"):
        schema.parse(rows)
    assert not schema.transform(rows)[1, :8].any()
    marked = Schema([replace(schema.field("note"), missing="indicator")])
    np.testing.assert_array_equal(marked.transform(rows)[:, 8], [0.0, 1.0])


def test_a_text_that_the_model_fails_on_has_no_value(folder: Path) -> None:
    tokenizer(folder / "tokenizer.json", (*WORDS, "secretword"))  # a token that the model does not have
    schema = Schema([Field("note", "string", encoder=SentenceEncoder(folder))])
    rows = {"note": ["fever", "secretword"]}
    with pytest.raises(InvalidInputError) as caught:
        schema.parse(rows)
    assert str(caught.value) == "row 2, column 'note': cannot be read as a text by its encoder"
    found = schema.transform(rows)  # where privacy is promised nothing is refused
    assert found[0].any()
    assert not found[1].any()


def test_a_table_in_blocks_gives_the_same_rows(schema: Schema, tmp_path: Path) -> None:
    rows = table(60) | {"note": ["fever", "knee", "cast"] * 20}  # texts that repeat are encoded once
    lines = [",".join(map(str, line)) for line in zip(*rows.values(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(rows), *lines]) + "\n")
    read = read_table(tmp_path / "t.csv", schema=schema)
    np.testing.assert_array_equal(schema.transform(read), schema.transform(rows))


def test_nothing_is_made_of_encoded_numbers_again(schema: Schema) -> None:
    with pytest.raises(InvalidInputError, match="no cell can be made"):
        schema.inverse_transform(schema.transform(table(3)))
    with pytest.raises(InvalidInputError, match="noise on rows is not made for it"):
        domain_of(schema)


# --- the contract -----------------------------------------------------------------------------------------


def test_a_schema_file_says_where_the_encoder_is(schema: Schema, tmp_path: Path) -> None:
    schema.save(tmp_path / "schema.json")
    assert json.loads((tmp_path / "schema.json").read_text())["fields"][0]["onefold:encoder"]["path"] == (
        "minilm/onnx/model.onnx"
    )
    moved = shutil.copytree(tmp_path, tmp_path.with_name("moved"))
    shutil.rmtree(tmp_path / "minilm")
    loaded = Schema.load(moved / "schema.json")
    assert loaded.digest == schema.digest
    np.testing.assert_array_equal(loaded.transform(table(5)), schema.transform(table(5)))


def test_what_sites_agree_on_is_the_digest_and_not_the_place(schema: Schema, tmp_path: Path) -> None:
    elsewhere = shutil.copytree(tmp_path / "minilm", tmp_path / "elsewhere")
    same = Schema([Field("note", "string", encoder=SentenceEncoder(elsewhere)), AGE, ILL])
    assert same.digest == schema.digest
    other = sentence_folder(tmp_path / "other", seed=1)
    differs = Schema([Field("note", "string", encoder=SentenceEncoder(other)), AGE, ILL])
    assert differs.difference(schema) == "field 'note'"


def test_the_digest_of_a_schema_without_encoders_is_what_it_was() -> None:
    expected = "e8b55ce395f24d8de2fa943edcd5977cc43f13d14750f3cf9afcdaec99f95f72"
    assert Schema([AGE, ILL]).digest == expected


def test_a_schema_in_a_model_holds_no_path_and_follows_none(schema: Schema, tmp_path: Path) -> None:
    content = schema.to_dict()
    assert str(tmp_path) not in json.dumps(content)
    assert "path" not in content["fields"][0]["onefold:encoder"]
    content["fields"][0]["onefold:encoder"]["path"] = str(tmp_path / "minilm")
    loaded = Schema.from_dict(content)
    assert loaded.digest == schema.digest
    with pytest.raises(InvalidInputError, match="say where its file is"):
        loaded.transform(table(2))
    placed = loaded.with_encoders({"note": tmp_path / "minilm"})
    np.testing.assert_array_equal(placed.transform(table(5)), schema.transform(table(5)))


def test_another_encoder_than_the_declared_one_is_refused(schema: Schema, tmp_path: Path) -> None:
    other = sentence_folder(tmp_path / "other", seed=1)
    with pytest.raises(InvalidInputError, match=r"^column 'note': .* not the encoder that was declared"):
        schema.with_encoders({"note": other})
    with pytest.raises(InvalidInputError, match="not the encoder that the schema declares"):
        schema.with_encoders({"note": SentenceEncoder(other)})
    schema.save(tmp_path / "schema.json")
    text_model(tmp_path / "minilm/onnx/model.onnx", seed=3)
    loaded = Schema.load(
        tmp_path / "schema.json"
    )  # digest and width are declared: the file is opened when needed
    with pytest.raises(InvalidInputError, match="not the encoder that was declared"):
        loaded.transform(table(1))


def test_digest_and_width_are_taken_from_the_file_where_they_are_not_declared(tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "minilm")
    entry: dict[str, Any] = {"name": "note", "type": "string", "onefold:encoder": {"path": "minilm"}}
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"fields": [entry]}))
    found = Schema.load(path).field("note").encoder
    assert found is not None
    assert (found.digest, found.width) == (SentenceEncoder(folder).digest, 8)
    entry["onefold:encoder"]["digest"] = "1" * 64
    path.write_text(json.dumps({"fields": [entry]}))
    with pytest.raises(InvalidInputError, match="its digest differs"):
        Schema.load(path)


def test_a_column_gets_an_encoder_and_becomes_a_feature(folder: Path) -> None:
    schema = Schema([Field("note", "string", "ignored"), AGE, ILL]).with_encoders({"note": folder})
    assert [known.name for known in schema.features] == ["note", "age"]
    assert schema.field("note").nullable
    with pytest.raises(InvalidInputError, match="is the label"):
        schema.with_encoders({"ill": folder})
    with pytest.raises(InvalidInputError, match="no column 'nothing'"):
        schema.with_encoders({"nothing": folder})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"digest": "0" * 63}, "64 hexadecimal digits"),
        ({"width": 0}, "whole number from 1"),
        ({"width": True}, "whole number from 1"),
        ({"width": 10**9}, "whole number from 1"),
        ({"kind": "rows"}, "'text' or 'image'"),
        ({"kind": 5}, "kind must be"),
        ({"maxTokens": "many"}, "max_tokens must be"),
        ({"mean": [0.1, "x", 2]}, "mean must be"),
        ({"std": [0]}, "std must be"),
        ({"size": [1]}, "size must be"),
        ({"size": {"a": 1}}, "size must be"),
        ({"path": 3}, "must be texts"),
        ({"run": "this"}, "has no key 'run'"),
    ],
)
def test_a_declaration_that_says_nothing_sound_is_refused(change: dict[str, Any], told: str) -> None:
    entry = {"name": "note", "type": "string", "onefold:encoder": UNPLACED | change}
    with pytest.raises(InvalidInputError, match=told) as caught:
        Schema.from_dict({"fields": [entry]})
    assert str(caught.value).startswith("field 'note': ")


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ({"type": "number", "low": 0, "high": 1}, "of the type string"),
        ({"role": "label"}, "no label"),
        ({"levels": ("a", "b")}, "neither range nor categories"),
        ({"encoder": "model.onnx"}, "must be a CellEncoder"),
    ],
)
def test_an_encoder_goes_with_texts_alone(field: dict[str, Any], told: str) -> None:
    given = {"type": "string", "encoder": CellEncoder.of_entry(UNPLACED)} | field
    with pytest.raises(InvalidInputError, match=told):
        Field("note", **given)


# --- images -----------------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder with a table and the images that it names, and one image outside of it."""
    inside = tmp_path / "ward"
    (inside / "scans").mkdir(parents=True)
    for number, place in enumerate(("ward/scans/1.png", "ward/scans/2.png", "outside.png")):
        pixels = np.random.default_rng(number).integers(0, 256, (9, 7, 3), dtype=np.uint8)
        pillow.fromarray(pixels).save(tmp_path / place)
    (inside / "scans" / "3.png").write_bytes(b"no image, but a secret")
    image_model(tmp_path / "images.onnx")
    return inside


def _with_images(folder: Path, *cells: str) -> Path:
    (folder / "t.csv").write_text("scan,age\n" + "".join(f"{cell},50\n" for cell in cells))
    return folder / "t.csv"


def test_images_are_found_in_the_folder_of_the_table(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema([Field("scan", "string", encoder=OnnxEncoder(tmp_path / "images.onnx")), AGE])
    path = _with_images(pictures, "scans/1.png", "scans/2.png")
    found = schema.transform(read_table(path, schema=schema))
    expected = OnnxEncoder(tmp_path / "images.onnx").fit_transform(
        [pictures / f"scans/{n}.png" for n in (1, 2)]
    )
    np.testing.assert_allclose(found[:, :8], 0.5 * expected, rtol=1e-9)
    np.testing.assert_array_equal(schema.transform(read_table(path)), found)
    assert not check_table(schema.beside(path), read_table(path))
    monkeypatch.chdir(pictures)  # a frame is in no folder: the current one is taken
    np.testing.assert_array_equal(schema.transform({"scan": ["scans/1.png"], "age": [50]}), found[:1])


@pytest.mark.parametrize("cell", ["../outside.png", "scans/3.png", "scans/4.png", "scans", "SECRET.png"])
def test_an_image_that_cannot_be_read_is_named_by_row_and_column_alone(
    pictures: Path, tmp_path: Path, cell: str
) -> None:
    schema = Schema([Field("scan", "string", encoder=OnnxEncoder(tmp_path / "images.onnx")), AGE])
    path = _with_images(pictures, "scans/1.png", cell)
    read = read_table(path, schema=schema)
    with pytest.raises(InvalidInputError) as caught:
        schema.parse(read)
    told = "row 2, column 'scan': cannot be read as an image inside the folder of the table"
    assert str(caught.value) == f"{path}: {told}"
    assert not schema.transform(read)[1, :8].any()  # where privacy is promised nothing is refused
    assert [finding.rows for finding in check_table(schema.beside(path), read_table(path))] == [(2,)]


def test_checking_a_table_of_texts_needs_no_encoder() -> None:
    schema = Schema([Field("note", "string", encoder=CellEncoder.of_entry(UNPLACED))])
    found = check_table(schema, {"note": ["fever", ""]})
    assert [str(finding) for finding in found] == ["column 'note': is missing in 1 row (2)"]


def test_a_declaration_travels_without_its_loaded_map(schema: Schema) -> None:
    encoder = next(known.encoder for known in schema.fields if known.encoder is not None)
    encoder.vectors(["fever"])
    copied = pickle.loads(pickle.dumps(encoder))  # noqa: S301
    assert copied == encoder
    assert copied.loaded.map is None
    np.testing.assert_array_equal(copied.vectors(["fever"])[0], encoder.vectors(["fever"])[0])


def test_one_number_is_a_vector() -> None:
    given = {"kind": "text", "digest": "0" * 64}
    assert CellEncoder.of_entry({**given, "width": 1}).width == 1
    with pytest.raises(InvalidInputError, match="whole number from 1"):
        CellEncoder.of_entry({**given, "width": 0})
