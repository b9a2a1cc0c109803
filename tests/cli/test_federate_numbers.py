"""``onefold federate`` for numbers to predict: simulate, site, query, update and status."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from tests.reference.network import NAMES, InProcessNetwork

from onefold.cli.app import main
from onefold.federated import MomentFederation, number_sums
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.messages import PlainSums, PrivateSums, from_bytes
from onefold.privacy import Ledger
from onefold.tables import Field, Schema
from reference.site_files import sums_file

SCHEMA = Schema(
    (
        Field("age", low=0, high=100),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("cost", role="label", low=0, high=1000),
    )
)
BY_SCHEMA = ("--schema", "schema.json")
NOISE = (*BY_SCHEMA, "--epsilon", "4", "--unit", "record")


def write(path: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    age, ward = rng.uniform(0, 100, n).round(1), rng.choice(["a", "b", "c"], n)
    cost = (100 + 5 * age + 200 * (ward == "b") + 20 * rng.standard_normal(n)).clip(0, 1000).round(2)
    with Path(path).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "ward", "cost"])
        rows.writerows(zip(age, ward, cost, strict=True))


@pytest.fixture(autouse=True)
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessNetwork:
    """Tables of three sites and of a querier, the schema, and folders; all in the present folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(number_sums, "lift_width", lambda *_: 8)  # the same as 512, in less time
    for seed, name in enumerate((*NAMES, "asked")):
        write(f"{name}.csv", 300, seed)
    SCHEMA.save("schema.json")
    return InProcessNetwork(tmp_path)


def run(*arguments: object) -> int:
    return main(["federate", *map(str, arguments)])


def site(name: str, *options: object) -> int:
    return run("site", f"{name}.csv", "--folder", f"f/sites/{name}", "--fit-only", *options)


def kept(name: str) -> Any:
    """What a site would send."""
    return from_bytes(sums_file(SiteFolder(Path(f"f/sites/{name}"))).read_bytes())


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    capsys.readouterr()
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


# --- simulate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [[], ["--task", "regression"]])
def test_simulation_infers_a_schema_and_that_the_label_is_a_number(capsys, task) -> None:
    found = told(capsys, "simulate", "north.csv", "--label", "cost", *task, "--sites", 3)
    assert found["task"] == "regression"
    assert found["guarantee"] is None
    assert found["r2"]["federated"] > 0.5


def test_simulation_of_classes_infers_a_schema_for_texts_and_gaps(capsys) -> None:
    text = Path("north.csv").read_text().splitlines()
    Path("gaps.csv").write_text("\n".join([*text[:-1], ",".join(["", *text[-1].split(",")[1:]])]) + "\n")
    found = told(capsys, "simulate", "gaps.csv", "--label", "ward", "--sites", 3)
    assert 0.0 < found["federated"] <= 1.0
    assert found["sites"] == 3


def test_simulation_tells_errors_beside_the_mean_and_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "simulate", "north.csv", *BY_SCHEMA, "--sites", 3)
    errors = found["rmse"]
    assert errors["federated"] < 0.4 * errors["mean"]
    assert errors["federated"] == pytest.approx(errors["pooled"])  # sums are those of all rows
    assert found["r2"]["federated"] > 0.9
    assert found["guarantee"] is None
    assert len(errors["alone"]) == 3
    assert run("simulate", "north.csv", *BY_SCHEMA, "--sites", 3) == 0
    said = capsys.readouterr().out
    assert "always predicting the mean" in said
    assert "No noise was added" in said


def test_simulation_with_noise_tells_the_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "simulate", "north.csv", *BY_SCHEMA, "--sites", 3, "--epsilon", 8)
    assert found["guarantee"]["record"]["epsilon"] == 8.0
    assert found["rmse"]["pooled"] < found["rmse"]["federated"]
    assert "no epsilon covers them" in found["not_covered"]
    assert run("simulate", "north.csv", *BY_SCHEMA, "--sites", 3, "--epsilon", 8) == 0
    said = capsys.readouterr().out
    assert said.index("no epsilon covers them") < said.index("epsilon 8 per record")


def test_simulation_needs_no_schema_and_takes_sorted_sites(capsys: pytest.CaptureFixture[str]) -> None:
    by = ("--label", "cost", "--task", "regression", "--sites", 3)
    found = told(capsys, "simulate", "north.csv", *by, "--partition", "sorted")
    assert found["method"] == "moments"
    assert found["rmse"]["federated"] < min(found["rmse"]["alone"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "folding"), "numbers take moments (sums)"),
        (("--partition", "classes"), "spreads classes"),
        (("--lie", "zero"), "are for classes"),
        (("--rule", "trimmed"), "are for classes"),
    ],
)
def test_what_a_simulation_cannot_do_with_numbers_is_one_line(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("simulate", "north.csv", *BY_SCHEMA, "--sites", 3, *options) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_noise_and_sorted_sites_are_for_numbers_only(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (("--epsilon", "1"), ("--partition", "sorted")):
        assert run("simulate", "north.csv", "--label", "ward", "--sites", 3, *options) == 2
        assert "are for numbers to predict" in capsys.readouterr().err


# --- site -------------------------------------------------------------------------------------------------


def test_site_with_noise_promises_and_site_without_warns(capsys: pytest.CaptureFixture[str]) -> None:
    assert site("north", *NOISE) == 0
    said = capsys.readouterr().out
    assert "site north: numbers to predict, 4 features" in said
    assert "epsilon 4 per record, delta 1e-05" in said
    assert "Private moments of the rows leave this site once" in said
    assert [event.epsilon for event in Ledger.load("f/sites/north/ledger.db").events] == [4.0]
    assert site("south", *BY_SCHEMA, "--send-plain-sums") == 0
    said = capsys.readouterr().out
    assert "PLAIN SUMS LEAVE THIS SITE, NOT PRIVATE" in said
    assert "epsilon" not in said
    kinds = [kept(name) for name in ("north", "south")]
    assert [type(each) for each in kinds] == [PrivateSums, PlainSums]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give --epsilon E for private moments, or --send-plain-sums"),
        (("--epsilon", "1"), "give --unit record or --unit person"),
        (("--epsilon", "1", "--unit", "person"), "person column and rowsPerPerson"),
        (("--epsilon", "1", "--unit", "record", "--send-plain-sums"), "does not go with --epsilon"),
        (("--epsilon", "1", "--unit", "record", "--sampler", "float"), "--sampler is for classes"),
        (("--epsilon", "1", "--unit", "record", "--method", "rows"), "leave out --method rows"),
        (("--send-plain-sums", "--model", "wide"), "--model is for classes"),
        (("--send-plain-sums", "--send-raw-model"), "--send-raw-model is for classes"),
        (("--send-plain-sums", "--ledger", "spent.json"), "--ledger needs --epsilon"),
    ],
)
def test_what_a_site_cannot_do_with_numbers_is_one_line(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site("north", *BY_SCHEMA, *options) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not sums_file(SiteFolder(Path("f/sites/north"))).exists()


def test_update_takes_new_rows_into_the_sums(capsys: pytest.CaptureFixture[str]) -> None:
    assert site("north", *BY_SCHEMA, "--send-plain-sums") == 0
    before = kept("north")
    assert run("site", "update", "--folder", "f/sites/north", "--data", "south.csv", "--yes") == 0
    after = kept("north")
    counts = [
        MomentFederation().add("north", each.content).moments().counts_.sum() for each in (before, after)
    ]
    assert counts == [300.0, 600.0]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "noisy"])
def test_folder_of_a_site_speaks_of_sums_where_there_is_no_model(
    plain: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*BY_SCHEMA, "--send-plain-sums") if plain else NOISE
    assert site("north", *options) == 0
    capsys.readouterr()
    assert run("site", "status", "--folder", "f/sites/north") == 0
    said = capsys.readouterr().out
    assert "site north: numbers to predict, 4 features" in said


def test_forgetting_a_person_tells_of_exact_sums(capsys: pytest.CaptureFixture[str]) -> None:
    fields = [Field("who", "string", "person"), *SCHEMA.fields]
    Schema(fields, rows_per_person=300).save("persons.json")
    lines = Path("north.csv").read_text("utf-8").splitlines()
    Path("north.csv").write_text(
        "\n".join(["who," + lines[0], *(f"p{number % 50}," + line for number, line in enumerate(lines[1:]))])
    )
    assert site("north", "--schema", "persons.json", "--send-plain-sums") == 0
    Path("whom.txt").write_text("p7")
    words = ("--folder", "f/sites/north", "--person-file", "whom.txt", "--yes")
    capsys.readouterr()
    assert run("site", "forget", *words) == 0
    said = capsys.readouterr().out
    assert "The sums that leave are, to the last bit" in said
    assert "scores" not in said
    left = MomentFederation().add("north", kept("north").content).moments()
    assert left.counts_.sum() == 294.0


# --- query and status -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(*BY_SCHEMA, "--send-plain-sums"), NOISE], ids=["plain", "noisy"])
def test_query_predicts_numbers_and_tells_the_error_beside_the_mean(
    options: tuple[str, ...], net: InProcessNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NAMES:
        assert site(name, *options) == 0
        net.look(name)
    asked = ("query", "asked.csv", *BY_SCHEMA, "--folder", "f")
    found = told(capsys, *asked, "--out", "found.csv", "--id", "age", "--level", 0.8)
    assert found["answered"] == list(NAMES)
    assert found["measures"]["rmse"] < 0.5 * found["measures"]["rmse_of_the_mean"]
    assert found["measures"]["r2"] > 0.75
    assert found["guarantee"]["holds"] == (options == NOISE)
    with Path("found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["age", "prediction", "low", "high"]
    assert len(rows) == 300
    assert all(float(row["low"]) <= float(row["prediction"]) <= float(row["high"]) for row in rows)
    net.federation.remove("south")
    fewer = told(capsys, *asked)
    assert fewer["answered"] == ["north", "west"]
    assert len(fewer["numbers"]) == 300
    assert run(*asked, "--out", "again.csv") == 0
    assert "the mean alone" in capsys.readouterr().err
    assert run("status", "--folder", "f") == 0
    said = capsys.readouterr().out
    assert "numbers to predict, 4 features" in said
    assert "no site is asked or sees one" in said
    assert ("sent private moments" in said) == (options == NOISE)
    assert ("NOT private: sums of raw rows" in said) == (options != NOISE)


def test_status_calls_no_plain_sums_private_whoever_takes_part(
    net: InProcessNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site("north", *NOISE) == 0
    assert site("south", *BY_SCHEMA, "--send-plain-sums") == 0
    for name in ("north", "south"):
        net.look(name)
    capsys.readouterr()
    assert run("status", "--folder", "f") == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "sent private moments" in lines["north"]
    assert "NOT private: sums of raw rows" in lines["south"]  # which the server has refused
    assert "sent private moments" not in lines["south"]
    net.federation.remove("north")
    net.federation.remove("south")
    assert run("status", "--folder", "f") == 0
    assert "sent private moments" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ("--encrypted",),
        ("--measures",),
        ("--rule", "checked"),
        ("--probabilities",),
        ("--mix",),
        ("--bits", "8"),
    ],
)
def test_what_a_query_cannot_do_with_numbers_is_one_line(
    options: tuple[str, ...], net: InProcessNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site("north", *NOISE) == 0
    net.look("north")
    capsys.readouterr()
    assert run("query", "asked.csv", *BY_SCHEMA, "--folder", "f", *options) == 2
    said = capsys.readouterr().err
    assert f"{options[0]} has to be left out" in said
    assert said.count("\n") == 1


def test_query_without_the_schema_of_the_sites_is_one_line(
    net: InProcessNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site("north", *NOISE) == 0
    net.look("north")
    capsys.readouterr()
    assert run("query", "asked.csv", "--folder", "f") == 2
    assert "--schema FILE" in capsys.readouterr().err


def test_page_of_a_simulation_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert run("simulate", "north.csv", *BY_SCHEMA, "--sites", 3, "--report", "page.html") == 0
    assert "report written to page.html" in capsys.readouterr().out
    assert "always the mean" in Path("page.html").read_text("utf-8")


def test_level_is_for_numbers_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("query", "asked.csv", "--folder", "f", "--level", "0.9") == 2
    assert "tells classes" in capsys.readouterr().err
