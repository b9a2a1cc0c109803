"""A federation by one schema file, from tables with text and gaps: one command for each site and query."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onefold
from onefold.cli.app import main
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.site_app import read_profile
from onefold.tables import Field, Schema, read_table

pytest.importorskip("flwr")

AGE = Field("age", "integer", low=0, high=110, unit="a")
FIELDS = (
    Field("patient", "string", "person"),
    AGE,
    Field("ward", "string", levels=("cardio", "neuro", "other"), other="other"),
    Field("lactate", low=0, high=30, scale="log", log_unit=0.3, missing="indicator"),
    Field("admitted", "date", low=16436, high=20453),
    Field("note", "string", "ignored"),
    Field("died", "string", "label", levels=("no", "yes")),
)
SCHEMA = Schema(FIELDS, missing_values=("", "NA"), rows_per_person=2)
SITES = Path("federation/sites")


def rows(n: int, seed: int) -> dict[str, list[str]]:
    """Two wards' worth of patients; some cells are missing, some categories nobody declared."""
    rng = np.random.default_rng(seed)
    died = rng.random(n) < 0.5
    return {
        "patient": [f"{seed}-{row // 3}" for row in range(n)],
        "age": [str(int(25 + 45 * d + 20 * rng.random())) for d in died],
        "ward": ["cardio" if d else str(rng.choice(["neuro", "maternity"])) for d in died],
        "lactate": ["NA" if rng.random() < 0.2 else f"{1 + 6 * d + rng.random():.2f}" for d in died],
        "admitted": [f"20{int(rng.integers(15, 26))}-03-{int(rng.integers(1, 28)):02d}" for _ in died],
        "note": ["seen, twice"] * n,
        "died": ["yes" if d else "no" for d in died],
    }


def write(path: str, columns: dict[str, list[str]], names: tuple[str, ...] | None = None) -> None:
    chosen = tuple(columns) if names is None else names
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(chosen)
        writer.writerows(zip(*(columns[name] for name in chosen), strict=True))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A new federation of two sites, their tables, one schema file."""
    monkeypatch.chdir(tmp_path)
    assert main(["federate", "init", "--sites", "north", "south", "--insecure", "--json"]) == 0
    for number, name in enumerate(("north", "south")):
        write(f"{name}.csv", rows(90, number))
    # Another order, fewer columns, one too many, a gap, an unseen category.
    write("new.csv", rows(40, 7) | {"bed": ["1"] * 40}, ("bed", "lactate", "ward", "admitted", "age", "died"))
    SCHEMA.save("schema.json")
    capsys.readouterr()
    return tmp_path


def site(name: str, *options: object, schema: str = "schema.json") -> list[str]:
    words = ("federate", "site", f"{name}.csv", "--folder", SITES / name, "--schema", schema)
    return [str(word) for word in (*words, *options)]


def admit(name: str) -> Status:
    registry = Registry(ServerFolder(Path("federation/server")))
    return registry.admit(name, read_profile(SiteFolder(SITES / name)))


# --- without a network ------------------------------------------------------------------------------------


def test_site_fits_a_table_by_its_schema_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(site("north", "--fit-only", "--json")) == 0
    profile = json.loads(capsys.readouterr().out)["profile"]
    assert profile["classes"] == ["no", "yes"]
    assert profile["schema"] == SCHEMA.digest
    assert [name for name, _ in profile["schema_fields"]] == [*(known.name for known in FIELDS), ""]
    assert profile["guarantee"] is None
    python = LocalModel(schema=SCHEMA, keep_rows=False).fit(read_table("north.csv", schema=SCHEMA))
    assert profile["model_digest"] == python.digest()  # the same defaults


def test_site_whose_schema_differs_in_one_field_is_refused_by_its_name(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = [known if known.name != "lactate" else Field("lactate", low=0, high=40) for known in FIELDS]
    Schema(fields, missing_values=("", "NA"), rows_per_person=2).save("other.json")
    assert main(site("north", "--fit-only")) == 0
    assert main(site("south", "--fit-only", schema="other.json")) == 2
    assert "row" in capsys.readouterr().err  # lactate may not be missing there
    Schema(
        [known if known.name != "age" else Field("age", "integer", low=0, high=120) for known in FIELDS],
        missing_values=("", "NA"),
        rows_per_person=2,
    ).save("other.json")
    assert main(site("south", "--fit-only", schema="other.json")) == 0
    assert admit("north") is Status.MEMBER
    assert admit("south") is Status.REFUSED
    capsys.readouterr()
    assert main(["federate", "status"]) == 0
    assert "refused (other-schema: field 'age')" in capsys.readouterr().out
    numbers = ["federate", "site", "--folder", str(SITES / "south"), "--data", "n.csv", "--label", "died"]
    write("n.csv", {name: rows(90, 1)[name] for name in ("age", "died")})
    assert main([*numbers, "--fit-only"]) == 0
    assert admit("south") is Status.REFUSED
    capsys.readouterr()
    assert main(["federate", "status", "--json"]) == 0
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["sites"]}
    assert told["south"]["reason"] == "no-schema: the other sites use a schema"
    assert told["north"]["schema"] == SCHEMA.digest
    assert main(site("south", "--fit-only")) == 0  # the right file
    assert admit("south") is Status.MEMBER


def test_private_site_takes_domain_classes_and_persons_from_the_schema(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = ("--epsilon", 4, "--label-epsilon", 2, "--fit-only", "--json")
    assert main(site("north", *noise)) == 0
    guarantee = json.loads(capsys.readouterr().out)["profile"]["guarantee"]
    assert guarantee["holds"]
    assert guarantee["schema"] == SCHEMA.digest
    assert guarantee["rows_per_person"] == 2
    assert guarantee["person"] is not None
    assert guarantee["labels"]["epsilon"] == 2
    assert main(site("south", "--epsilon", 40, "--unit", "person", "--fit-only")) == 0
    assert "person" in capsys.readouterr().out


def test_private_site_says_the_same_of_neighbouring_tables(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell outside the contract, a missing one and a class that nobody declared abort nothing."""
    told = []
    strange = {"age": "very old", "ward": "roof", "lactate": "", "admitted": "soon", "died": "perhaps"}
    for changes in ({}, strange, {"age": "999"}):
        table = rows(90, 0)
        for name, cell in changes.items():
            table[name][5] = cell
        write("north.csv", table)
        folder = SiteFolder(SITES / "north")  # another world, not a second fit
        shutil.rmtree(folder.state, ignore_errors=True)
        folder.ledger.unlink(missing_ok=True)
        assert main(site("north", "--epsilon", 4, "--fit-only")) == 0
        told.append(capsys.readouterr())
    assert len({(each.out, each.err) for each in told}) == 1


def test_schema_taken_from_private_rows_is_refused_with_noise(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Schema(FIELDS, missing_values=("", "NA"), rows_per_person=2, source="private").save("schema.json")
    assert main(site("north", "--epsilon", 4, "--fit-only")) == 2
    assert "inferred from private rows" in capsys.readouterr().err
    assert main(site("north", "--fit-only")) == 0


@pytest.mark.parametrize(
    "words, hint",
    [
        (
            ["site", "--schema", "schema.json", "--folder", "federation/sites/north"],
            "--schema goes with DATA",
        ),
        (["site", "--data", "north.csv", "--folder", "federation/sites/north"], "needs --label"),
        (["query", "new.csv", "--schema", "schema.json", "--label", "died"], "leave out --label"),
        (["query", "new.csv", "--schema", "schema.json", "--ignore", "bed"], "leave out --ignore"),
        (["query", "new.csv", "--schema", "nowhere.json"], "nowhere.json"),
        (["simulate", "new.csv"], "--label COL is missing"),
        (["simulate", "north.csv", "--schema", "schema.json", "--label", "died"], "leave out --label"),
    ],
)
def test_options_that_contradict_the_schema_are_refused_in_one_line(
    words: list[str], hint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["federate", *words]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert hint in said.err


@pytest.mark.parametrize("option", [["--range", "0", "1"], ["--sensitivity", "1"], ["--person", "patient"]])
def test_noise_options_that_the_schema_declares_are_refused(
    option: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(site("north", "--epsilon", 1, *option)) == 2
    assert f"leave out {option[0]}" in capsys.readouterr().err


def test_simulate_takes_the_schema(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["federate", "simulate", "north.csv", "--schema", "schema.json", "--sites", "3", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["federated"] > 0.8
    assert main([*words, "--rule", "weighted", "--held-out", "south.csv"]) == 0
    assert json.loads(capsys.readouterr().out)["federated"] > 0.8


def test_held_out_rows_of_a_new_federation_are_encoded_by_the_schema(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["federate", "init", "other", "--sites", "a", "--insecure", "--rule", "weighted"]
    assert main([*words, "--held-out", "south.csv", "--schema", "schema.json"]) == 0


# --- with Flower's processes ------------------------------------------------------------------------------

SOURCE = os.pathsep.join([str(Path(onefold.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
PATIENCE = 400.0


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE:g} s for {what}"
        time.sleep(0.2)


@pytest.fixture
def start(here: Path) -> Iterator[Callable[..., Path]]:
    """Start a command that goes on running; what it says is in the file that is returned."""
    running: list[subprocess.Popen[bytes]] = []

    def started(name: str, *words: str) -> Path:
        said = here / f"{name}.out"
        environment = {**os.environ, "PYTHONPATH": SOURCE, "OPENBLAS_NUM_THREADS": "1"}
        with said.open("ab") as output:
            command = [sys.executable, "-m", "onefold", *words]
            running.append(subprocess.Popen(command, stdout=output, stderr=output, env=environment))
        return said

    yield started
    for process in reversed(running):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


@pytest.mark.nightly
def test_two_real_sites_with_one_schema_file_answer_and_a_third_is_told_where_it_differs(
    here: Path, start: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from onefold.federated.flower.processes import free_port

    words = ["federate", "init", "f", "--sites", "north", "south", "west", "--port", str(free_port())]
    assert main([*words, "--insecure"]) == 0

    def real(name: str, schema: str = "schema.json") -> Path:
        words = (f"{name}.csv", "--folder", f"f/sites/{name}", "--schema", schema)
        return start(name, "federate", "site", *words)

    start("server", "federate", "server", "--folder", "f/server")
    registry = Registry(ServerFolder(here / "f/server"))
    for name in ("north", "south"):
        real(name)
    wait_for(lambda: set(registry.members) == {"north", "south"}, "two members")
    write("west.csv", rows(90, 2))
    other = [known if known is not AGE else Field("age", "integer", low=0, high=120) for known in FIELDS]
    Schema(other, missing_values=("", "NA"), rows_per_person=2).save("other.json")
    said = real("west", "other.json")
    wait_for(lambda: "keeps this site out" in said.read_text(), "west to be told")
    assert "keeps this site out: other-schema: field 'age'\n" in said.read_text()
    capsys.readouterr()

    ask = ["federate", "query", "new.csv", "--schema", "schema.json", "--folder", "f/server", "--json"]
    assert main([*ask, "--out", "out.csv", "--id", "bed"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answered"] == ["north", "south"]
    assert told["kept_out"] == {"west": "other-schema: field 'age'"}
    expected = GlobalClassifier()
    for name in ("north", "south"):
        expected.add(name, LocalModel(schema=SCHEMA).fit(read_table(f"{name}.csv", schema=SCHEMA)))
    predicted = expected.predict(read_table("new.csv", schema=SCHEMA))
    with Path("out.csv").open(newline="") as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == predicted.tolist()
    assert told["accuracy"] == pytest.approx(np.mean(predicted == np.array(rows(40, 7)["died"])))
    assert told["accuracy"] > 0.8
    assert main([*ask[:3], "--schema", "other.json", *ask[5:]]) == 2
    assert "the schema is not that of the sites: field 'age'" in capsys.readouterr().err
