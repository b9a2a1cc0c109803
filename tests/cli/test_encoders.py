"""``--encoder COLUMN=PATH`` in fit, predict and federate: the digest decides, the place does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold import io
from onefold.cli.app import main
from onefold.encoders import SentenceEncoder
from onefold.tables import Field, Schema
from onnx_models import image_model, sentence_folder

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
pillow: Any = pytest.importorskip("PIL.Image")

ILL = ("fever", "cough", "and")
HURT = ("fracture", "cast", "knee")


def write(path: str, n: int, seed: int) -> None:
    """Notes that say what somebody has, ages that do not, and pictures of the one or the other colour."""
    rng = np.random.default_rng(seed)
    lines = ["note,age,scan,ill"]
    for row in range(n):
        ill = bool(rng.random() < 0.5)
        note = " ".join(rng.choice(ILL if ill else HURT, 4)) if row % 15 else ""
        pixels = rng.integers(0, 100, (8, 8, 3)) + np.array([150 * ill, 0, 150 * (not ill)])
        Path("scans").mkdir(exist_ok=True)
        pillow.fromarray(pixels.astype(np.uint8)).save(f"scans/{seed}-{row}.png")
        lines.append(f"{note},{rng.integers(20, 80)},scans/{seed}-{row}.png,{'yes' if ill else 'no'}")
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("train.csv", 120, 0)
    write("new.csv", 60, 1)
    sentence_folder(tmp_path / "minilm")
    sentence_folder(tmp_path / "other", seed=1)
    image_model(tmp_path / "images.onnx")
    return tmp_path


def schema(here: Path) -> Schema:
    note = Field("note", "string", missing="indicator", encoder=SentenceEncoder(here / "minilm"))
    age, ill = Field("age", low=0, high=110), Field("ill", "string", "label", levels=("no", "yes"))
    return Schema([note, age, Field("scan", "string", "ignored"), ill])


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize(
    "encoders", [("note=minilm",), ("scan=images.onnx",), ("note=minilm", "scan=images.onnx")]
)
def test_fit_and_predict_with_encoders(
    here: Path, capsys: pytest.CaptureFixture[str], encoders: tuple[str, ...]
) -> None:
    given = [word for each in encoders for word in ("--encoder", each)]
    left_out = ["--ignore", "note" if "scan=images.onnx" in encoders and len(encoders) == 1 else "age"]
    code, out, _ = run(
        capsys, "fit", "train.csv", "--label", "ill", *left_out, *given, "--out", "model", "--json"
    )
    assert code == 0
    assert json.loads(out)["rows"] == 120
    code, out, err = run(capsys, "predict", "model", "new.csv", "--label", "ill", *given, "--json")
    assert code == 0, err
    assert json.loads(out)["accuracy"] >= 0.9  # 4 of 60 notes are missing


def test_the_model_holds_the_digest_of_its_encoder_and_no_path(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--encoder", f"note={here / 'minilm'}")
    assert (
        run(capsys, "fit", "train.csv", "--label", "ill", "--ignore", "scan", *given, "--out", "model")[0]
        == 0
    )
    encoder = io.load("model").schema.field("note").encoder
    assert encoder.digest == SentenceEncoder(here / "minilm").digest
    assert encoder.files is None
    assert str(here).encode() not in Path("model").read_bytes()
    code, out, _ = run(capsys, "schema", "show", "model")
    assert code == 0
    assert f"texts, by the encoder {encoder.digest[:16]}..." in out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "give --encoder note=PATH"),
        (("--encoder", "note=other"), "not the encoder that was declared"),
        (
            ("--encoder", "age=minilm", "--encoder", "note=minilm"),
            "the model has no encoder for such a column",
        ),
        (("--encoder", "note=minilm", "--encoder", "note=minilm"), "names column 'note' twice"),
        (("--encoder", "note=nowhere.onnx"), "there is no such file"),
        (("--encoder", "note"), "must be COLUMN=PATH"),
    ],
)
def test_predict_refuses_another_encoder_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    fit = (
        "fit",
        "train.csv",
        "--label",
        "ill",
        "--ignore",
        "scan",
        "--encoder",
        "note=minilm",
        "--out",
        "model",
    )
    assert run(capsys, *fit, "--quiet")[0] == 0
    try:
        code, out, err = run(capsys, "predict", "model", "new.csv", *options)
    except SystemExit as stop:  # argparse
        code, out, err = int(stop.code or 0), "", capsys.readouterr().err
    assert code == 2
    assert told in err
    assert not out
    assert not Path("new.predictions.csv").exists()


def test_an_encoder_in_the_schema_is_found_from_there(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "agreed").mkdir()
    schema(here).save("agreed/schema.json")
    assert run(capsys, "check", "train.csv", "--schema", "agreed/schema.json")[0] == 0
    assert run(capsys, "fit", "train.csv", "--schema", "agreed/schema.json", "--out", "model")[0] == 0
    moved = shutil.move(here / "minilm", here / "moved")
    code, _, err = run(capsys, "fit", "train.csv", "--schema", "agreed/schema.json", "--out", "model")
    assert code == 2
    assert "there is no such file" in err
    more = ("--encoder", f"note={moved}")
    assert run(capsys, "fit", "train.csv", "--schema", "agreed/schema.json", *more, "--out", "model")[0] == 0
    assert run(capsys, "predict", "model", "new.csv", *more)[0] == 0


def test_check_names_images_that_cannot_be_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema(here).save("schema.json")
    Path("scans/0-4.png").write_bytes(b"a secret and no image")
    words = ("check", "train.csv", "--schema", "schema.json", "--encoder", "scan=images.onnx", "--json")
    code, out, _ = run(capsys, *words)
    assert code == 1
    (found,) = json.loads(out)["findings"]
    assert (found["column"], found["rows"]) == ("scan", [5])
    assert "secret" not in out


def test_a_private_fit_says_what_it_takes_for_granted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema(here).save("schema.json")
    fit = ("fit", "train.csv", "--schema", "schema.json", "--epsilon", "2", "--out", "model")
    code, _, err = run(capsys, *fit)
    assert code == 2
    assert "--method moments" in err
    code, out, _ = run(capsys, *fit, "--method", "moments", "--json")
    assert code == 0
    told = json.loads(out)["promise"]
    assert "no encoder was trained on these records" in told["conditions"]
    assert io.load("model").guarantee_.holds
    assert run(capsys, "predict", "model", "new.csv", "--encoder", "note=minilm")[0] == 0


@pytest.mark.parametrize("command", ["synthesize", "release"])
def test_what_makes_tables_refuses_encoded_columns(
    here: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    schema(here).save("schema.json")
    code, _, err = run(
        capsys, command, "train.csv", "--schema", "schema.json", "--epsilon", "1", "--out", "made.csv"
    )
    assert code == 2
    assert "column 'note' has an encoder" in err
    assert not Path("made.csv").exists()


# --- federations ------------------------------------------------------------------------------------------


def test_sites_with_different_encoders_are_refused_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr")
    from onefold.federated.flower.folders import ServerFolder, SiteFolder
    from onefold.federated.flower.registry import Registry, Status
    from onefold.federated.flower.site_app import read_profile

    init = ("federate", "init", "--sites", "north", "south", "west", "--insecure", "--json")
    assert run(capsys, *init)[0] == 0
    plain = schema(here)
    fields = [Field("note", "string", "ignored") if known.name == "note" else known for known in plain.fields]
    Schema(fields).save("schema.json")
    shutil.copytree("minilm", "copy")
    registry = Registry(ServerFolder(Path("federation/server")))
    found = {}
    for name, encoder in (("north", "minilm"), ("south", "copy"), ("west", "other")):
        write(f"{name}.csv", 60, len(name))
        folder = Path("federation/sites") / name
        words = (
            "federate",
            "site",
            f"{name}.csv",
            "--folder",
            folder,
            "--schema",
            "schema.json",
            "--fit-only",
        )
        code, _, err = run(capsys, *words, "--encoder", f"note={encoder}", "--json")
        assert code == 0, err
        found[name] = registry.admit(name, read_profile(SiteFolder(folder)))
    assert found == {"north": Status.MEMBER, "south": Status.MEMBER, "west": Status.REFUSED}
    reason = registry.sites["west"].reason
    assert reason is not None
    assert "note" in reason
    assert "\n" not in reason


def test_simulate_a_federation_behind_an_encoder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema(here).save("schema.json")
    words = ("federate", "simulate", "train.csv", "--schema", "schema.json", "--sites", "2", "--json")
    code, out, err = run(capsys, *words)
    assert code == 0, err
    assert json.loads(out)
    code, _, err = run(
        capsys, "federate", "simulate", "train.csv", "--label", "ill", "--encoder", "note=minilm"
    )
    assert code == 2
    assert "--encoder goes with --schema" in err


def test_site_with_an_encoder_is_updated_and_finds_one_that_was_moved(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr")
    schema(here).save("agreed.json")
    init = ("federate", "init", "--sites", "north", "--insecure", "--json")
    assert run(capsys, *init)[0] == 0
    folder = ("--folder", "federation/sites/north")
    fitted = ("federate", "site", "train.csv", "--schema", "agreed.json", "--encoder", "note=minilm", *folder)
    assert run(capsys, *fitted, "--fit-only")[0] == 0
    assert run(capsys, "federate", "site", "update", "new.csv", *folder)[0] == 0
    shutil.move("minilm", "moved")
    code, _, said = run(capsys, "federate", "site", "update", *folder)
    assert code == 2
    assert "--encoder note=PATH" in said
    for place, expected in (("other", 2), ("moved", 0)):
        words = ("federate", "site", "update", "--encoder", f"note={place}", *folder)
        assert run(capsys, *words)[0] == expected
    assert run(capsys, "federate", "site", "update", *folder)[0] == 0
