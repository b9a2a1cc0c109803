"""A site as a new user would run it: no way through the options ends in a false or unconditioned claim."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from onefold._base.records import plain_of
from onefold.cli.app import main
from onefold.federated.flower import site_app
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.registry import Registry
from onefold.federated.messages import Answers, Query
from onefold.privacy import Guarantee
from reference.neighbours import outline, without_entropy
from reference.site_files import model_file, profile_bytes

pytest.importorskip("flwr")

SITE = Path("federation/sites/north")
# 47 rows of 12 patients, of which 24 or fewer are kept: numbers that occur nowhere else.
PATIENTS, ROWS, KEPT = 12, 47, 24


def table(path: str, change: tuple[float, float, float] | None = None) -> str:
    """Write a table of patients; ``change`` is the third record of a neighbouring one."""
    rng = np.random.default_rng(5)
    lines = ["patient,age,pressure,score,outcome"]
    for row in range(ROWS):
        sick = row % 2
        age, pressure, score = rng.random(3) * 0.4 + 0.5 * sick
        values = (1001, f"{pressure:.3f}", round(score)) if row == 7 else (f"{age:.3f}", f"{pressure:.3f}", 1)
        if row == 2 and change is not None:
            values = change
        lines.append(",".join(map(str, (f"p{row % PATIENTS:02d}", *values, ("well", "ill")[sick]))))
    Path(path).write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A new federation of two sites, and a table."""
    monkeypatch.chdir(tmp_path)
    assert main(["federate", "init", "--sites", "north", "south", "--insecure", "--json"]) == 0
    table("rows.csv")
    capsys.readouterr()
    return tmp_path


def fit(*options: object, data: str = "rows.csv", folder: Path = SITE) -> list[str]:
    command = ["federate", "site", "--folder", folder, "--data", data, "--label", "outcome", "--fit-only"]
    model = ["--model", "folding", "--scale", 1, "--n-components", 2]
    return [str(word) for word in (*command, *model, *options)]


PERSON = ("--person", "patient", "--rows-per-person", 2)
ALONE = ("--ignore", "patient")
WRONG = {
    "no domain": (*ALONE, "--epsilon", 1),
    "two domains": (*ALONE, "--epsilon", 1, "--range", 0, 1, "--sensitivity", 1),
    "domain without noise": (*ALONE, "--range", 0, 1),
    "word without noise": (*ALONE, "--sensitivity", 1),
    "record on the caller's word": (*ALONE, "--epsilon", 1, "--unit", "record", "--sensitivity", 1),
    "person without a column": (*ALONE, "--epsilon", 1, "--unit", "person", "--range", 0, 1),
    "person without a limit": ("--person", "patient", "--epsilon", 1, "--range", 0, 1),
    "limit without a person": (*ALONE, "--rows-per-person", 2, "--epsilon", 1, "--range", 0, 1),
    "person without noise": PERSON,
    "person who is the label": (
        "--person",
        "outcome",
        "--rows-per-person",
        2,
        "--epsilon",
        1,
        "--range",
        0,
        1,
    ),
    "person who is not there": (
        "--person",
        "patients",
        "--rows-per-person",
        2,
        "--epsilon",
        1,
        "--range",
        0,
        1,
    ),
    "no rows of a person": ("--person", "patient", "--rows-per-person", 0, "--epsilon", 1, "--range", 0, 1),
    "unknown sampler": (*ALONE, "--epsilon", 1, "--range", 0, 1, "--sampler", "fast"),
    "seed of the noise": (*ALONE, "--epsilon", 1, "--range", 0, 1, "--noise-seed", 1),
    "label noise without classes": (*ALONE, "--epsilon", 1, "--range", 0, 1, "--label-epsilon", 1),
    "undeclared class": (
        *ALONE,
        "--epsilon",
        1,
        "--range",
        0,
        1,
        "--label-epsilon",
        1,
        "--classes",
        "a",
        "b",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_refused_in_one_line_and_leave_no_model(case: str, here: Path, capsys) -> None:
    assert main(fit(*WRONG[case])) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert not profile_bytes(SiteFolder(SITE))
    assert not model_file(SiteFolder(SITE)).exists()


def test_first_record_of_a_table_without_a_header_does_not_become_names(here: Path, capsys) -> None:
    Path("bare.csv").write_text("".join(f"0.{row},0.{row + 1},outcome\n" for row in range(10, 40)))
    assert main(fit("--epsilon", 1, "--range", 0, 1, data="bare.csv")) == 2
    said = capsys.readouterr().err
    assert "add a line with names of columns" in said
    assert "0.1" not in said
    assert not profile_bytes(SiteFolder(SITE))


def claims(text: str) -> list[str]:
    """Lines that state an epsilon."""
    return [line for line in text.splitlines() if re.search(r"epsilon [0-9]", line)]


def conditioned(line: str) -> bool:
    """Whether a line says under which condition it is true, or follows from one that does."""
    if line.startswith(("Labels", "A person known to several sites")):
        return True
    return "clipped to the declared domain" in line or "(not checked)" in line


UNITS = {"entry": ALONE, "record": ALONE, "person": PERSON, "a record, of persons": PERSON}
NOISES = ("optimal", "laplace", "gaussian")


@pytest.mark.parametrize(("unit", "noise"), list(product(UNITS, NOISES)))
def test_every_claim_of_a_site_has_a_unit_and_a_condition(unit: str, noise: str, here: Path, capsys) -> None:
    name = unit.split(",")[0].removeprefix("a ")
    options = (*UNITS[unit], "--epsilon", 2, "--unit", name, "--noise", noise, "--range", 0, 1)
    options += ("--method", "rows")
    assert main(fit(*options, "--send-model")) == 0
    text = capsys.readouterr().out
    stated = claims(text)
    assert len(stated) >= 2
    assert all(conditioned(line) for line in stated), text
    assert all(re.search(r"epsilon \S+ per (entry|record|person)", line) for line in stated)
    assert f"epsilon 2 per {name}" in text
    assert "Labels and class sizes: NOT covered." in text
    assert "Not seen by onefold" in text
    assert "VOID" not in text
    assert ("A person known to several sites" in text) == (UNITS[unit] is PERSON)
    assert ("A person with several records: NOT covered" in text) == (UNITS[unit] is ALONE)
    assert "The model itself may go to the server." in text
    # What the site says to the server is what it printed, made of the noise that was drawn.
    promise = Guarantee.from_dict(site_app.read_profile(SiteFolder(SITE)).guarantee)
    assert str(promise) in text
    assert promise.holds
    assert promise.clipped
    assert "hardened sampler" in promise.mechanism
    assert promise.rows_per_person == (2 if UNITS[unit] is PERSON else None)


def test_word_of_the_caller_stands_on_every_line_and_in_the_status(here: Path, capsys) -> None:
    assert main(fit(*ALONE, "--epsilon", 2, "--sensitivity", 0.5)) == 0
    stated = claims(capsys.readouterr().out)
    assert len(stated) == 2
    assert all("0.5 (not checked)" in line for line in stated)
    Registry(ServerFolder(Path("federation/server"))).admit("north", site_app.read_profile(SiteFolder(SITE)))
    assert main(["federate", "status"]) == 0
    assert (
        "epsilon 2 per entry, delta 1e-05, on the site's word, labels not covered" in capsys.readouterr().out
    )


def test_float_sampler_promises_nothing_and_its_model_stays(here: Path, capsys) -> None:
    options = (*ALONE, "--epsilon", 2, "--range", 0, 1, "--sampler", "float", "--send-model")
    assert main(fit(*options)) == 0
    text = capsys.readouterr().out
    assert "VOID: the float sampler was chosen" in text
    assert "they do NOT hold" in text
    assert "the guarantee is void" in text
    assert "The model stays here: it has no guarantee that holds" in text
    profile = site_app.read_profile(SiteFolder(SITE))
    assert profile.guarantee["holds"] is False
    Registry(ServerFolder(Path("federation/server"))).admit("north", profile)
    assert main(["federate", "status"]) == 0
    assert "guarantee VOID" in capsys.readouterr().out


def test_status_names_the_person_and_never_a_raw_site_private(here: Path, capsys) -> None:
    noise = ("--epsilon", 2, "--unit", "person", "--range", 0, 1, "--method", "rows")
    assert main(fit(*PERSON, *noise)) == 0
    assert main(fit(*ALONE, folder=SITE.with_name("south"))) == 0
    registry = Registry(ServerFolder(Path("federation/server")))
    for name in ("north", "south"):
        registry.admit(name, site_app.read_profile(SiteFolder(SITE.with_name(name))))
    capsys.readouterr()
    assert main(["federate", "status"]) == 0
    north, south = (
        line for line in capsys.readouterr().out.splitlines() if line.startswith(("north", "south"))
    )
    # That rows stay with their persons is taken as known: a condition.
    assert "epsilon 2 per person, delta 1e-05, on the site's word, labels not covered" in north
    assert "NOT private" in south
    assert "epsilon" not in south


@pytest.mark.parametrize("noise", ["optimal", "gaussian"])
def test_nothing_that_a_site_says_tells_how_many_rows_of_persons_there_are(
    noise: str, here: Path, capsys
) -> None:
    options = (*PERSON, "--epsilon", 2, "--unit", "person", "--range", 0, 1, "--noise", noise)
    options += ("--method", "rows")
    assert main(fit(*options)) == 0
    printed = capsys.readouterr().out
    assert main(["federate", "site", "--folder", str(SITE), "--fit-only", "--json"]) == 0
    told = capsys.readouterr().out
    profile = plain_of(site_app.read_profile(SiteFolder(SITE)), {})
    profile.pop("model_digest")
    for text in (printed, re.sub("[0-9a-f]{64}", "", told), json.dumps(profile)):
        assert not re.search(rf"\b({ROWS}|{KEPT})(\.0)?\b", text)
    assert profile["guarantee"]["untouched_entries"] in (None, 0.0)


def test_type_in_which_a_file_keeps_a_column_is_not_told(here: Path, capsys) -> None:
    seen = []
    for name, folder in (("whole", SITE), ("fraction", SITE.with_name("south"))):
        score = np.arange(40) % 3 if name == "whole" else np.where(np.arange(40) == 5, 0.5, np.arange(40) % 3)
        columns = {"age": np.linspace(0, 1, 40, dtype=np.float32), "outcome": np.arange(40) % 2}
        np.savez(f"{name}.npz", score=score.astype(np.int16 if name == "whole" else np.float32), **columns)
        assert main(fit("--epsilon", 2, "--range", 0, 2, data=f"{name}.npz", folder=folder)) == 0
        seen.append(outline(model_file(SiteFolder(folder)).read_bytes()))
    assert seen[0] == seen[1]


RECORDS = ((0.5, 0.25, 1), (1e9, -3, 1), (1, 1, 1), (1e-12, 0.123456789012345, 0.5))


@pytest.mark.parametrize("record", RECORDS)
def test_one_record_changes_no_name_type_or_length_of_what_leaves(record, here: Path, capsys) -> None:
    options = (*ALONE, "--epsilon", 2, "--range", 0, 1, "--json")
    seen = []
    for data, folder in (("rows.csv", SITE), (table("other.csv", record), SITE.with_name("south"))):
        assert main(fit(*options, data=data, folder=folder)) == 0
        told = json.loads(capsys.readouterr().out)
        told["profile"] |= {"model_digest": None, "site": None}
        place = SiteFolder(folder)
        answer = site_app.answer(place, Query("q", np.full((4, 3), 0.5)), "anyone")
        assert isinstance(answer, Answers)
        header, values = plain_of(replace(answer, site="any"), {}), answer.values
        files = sorted(path.suffix for path in place.state.iterdir())
        told, model = without_entropy(told), outline(model_file(place).read_bytes())
        seen.append((told, model, header, values.dtype, values.shape, files))
    assert seen[0] == seen[1]
