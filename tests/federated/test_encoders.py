"""Sites whose columns pass through an encoder: one contract, models without paths, conditions that travel."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.encoders import SentenceEncoder
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel, release_moments
from onefold.federated.declared import declared_moments, public_centre
from onefold.privacy import PrivateMoments
from onefold.tables import Field, Schema, read_table
from onnx_models import sentence_folder

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

CONDITION = "no encoder was trained on these records"
AGE = Field("age", low=0, high=100)
ILL = Field("ill", "string", "label", levels=("no", "yes"))


def table(seed: int, n: int = 80) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.5
    notes = [" ".join(rng.choice(["fever", "cough"] if each else ["cast", "knee"], 4)) for each in ill]
    return {"note": notes, "age": rng.integers(0, 100, n), "ill": np.where(ill, "yes", "no")}


def schema(folder: Path) -> Schema:
    return Schema([Field("note", "string", encoder=SentenceEncoder(folder)), AGE, ILL], rows_about=400)


def written(rows: dict[str, Any], folder: Path) -> Path:
    lines = [",".join(map(str, line)) for line in zip(*rows.values(), strict=True)]
    (folder / "t.csv").write_text("\n".join([",".join(rows), *lines]) + "\n")
    return folder / "t.csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sentence_folder(tmp_path / "minilm")


def test_sites_with_the_same_encoder_in_other_places_answer_together(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copied")
    sites = [LocalModel(schema=schema(place)).fit(table(i)) for i, place in enumerate((folder, copied))]
    new = table(9)
    predicted = GlobalClassifier().add("north", sites[0]).add("south", sites[1]).predict(new)
    assert np.mean(predicted == new["ill"]) > 0.95


def test_sites_with_different_encoders_are_refused_by_the_field(folder: Path, tmp_path: Path) -> None:
    other = sentence_folder(tmp_path / "other", seed=1)
    sites = [LocalModel(schema=schema(place)).fit(table(i)) for i, place in enumerate((folder, other))]
    server = GlobalClassifier().add("north", sites[0])
    with pytest.raises(InvalidInputError, match=r"^the schemas of two sites differ: field 'note'$"):
        server.add("west", sites[1])
    profiles = [site.profile(name) for name, site in zip(("north", "west"), sites, strict=True)]
    assert profiles[0].schema != profiles[1].schema


def test_the_file_of_a_site_holds_no_path_and_answers_encoded_rows(folder: Path, tmp_path: Path) -> None:
    site = LocalModel(schema=schema(folder)).fit(table(0))
    site.save(tmp_path / "site")
    assert str(tmp_path).encode() not in (tmp_path / "site").read_bytes()
    loaded, new = LocalModel.load(tmp_path / "site"), table(3)
    with pytest.raises(InvalidInputError, match="say where its file is"):
        loaded.answers(new)
    read = read_table(written(new, tmp_path), schema=loaded.schema.with_encoders({"note": folder}))
    np.testing.assert_array_equal(loaded.answers(read), site.answers(new))


def test_released_moments_carry_the_condition(folder: Path) -> None:
    own = schema(folder)
    agreed = declared_moments(2.0, schema=own)
    sent = PrivateMoments.from_bytes(release_moments(table(0, 400), None, agreed, schema=own))
    assert sent.guarantee_.holds
    assert CONDITION in sent.guarantee_.conditions
    rows = own.transform(table(0))
    assert np.linalg.norm(rows, axis=1).max() <= agreed.radius
    assert np.abs(public_centre(own)[:8]).max() < 1e-9


def test_encrypted_sums_of_moments_carry_the_condition(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from onefold.federated import HolderKey, SchemaSum, SumHolder, SumParties

    keys = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
    parties = SumParties(("a", "b", "c"), tuple(key.public for key in keys), 2)
    own = schema(folder)
    agreed = Schema.from_dict(own.to_dict(), None)  # what a file of the contract says: no place
    total = SchemaSum("r", parties, Schema(agreed.fields, rows_about=400), "moments", 4.0)
    assert CONDITION in total.total.guarantee.conditions
    read = read_table(written(table(5, 300), tmp_path), schema=own, private=True)
    sent = [
        total.total.contribute(site, total.vector(read), tmp_path, ledger=None) for site in ("a", "b", "c")
    ]
    model: Any = total.result(
        total.total.together(sent, [SumHolder(total.total, key, tmp_path) for key in keys])
    )
    assert CONDITION in model.guarantee_.conditions
    model.schema = model.schema.with_encoders({"note": folder})
    new = table(7)
    assert np.mean(np.asarray(model.predict(new)) == new["ill"]) > 0.9


def test_tables_of_counts_refuse_the_column(folder: Path) -> None:
    pytest.importorskip("cryptography")
    from onefold.federated import HolderKey, SchemaSum, SumParties

    keys = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
    parties = SumParties(("a", "b", "c"), tuple(key.public for key in keys), 2)
    with pytest.raises(InvalidInputError, match="column 'note' has an encoder"):
        SchemaSum("r", parties, schema(folder), "tables")
