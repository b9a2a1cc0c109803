"""``onefold ledger``: new, show, backup and recover."""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from onefold.cli.app import COMMANDS as COMMANDS_OF_THE_PROGRAM
from onefold.cli.app import build_parser, main
from onefold.privacy import Event, Ledger
from onefold.tables import Field, Schema

ROOT = Path(__file__).parents[2]


def test_new_writes_a_ledger_that_python_reads(tmp_path: Path, capsys) -> None:
    path = str(tmp_path / "l.json")
    assert main(["ledger", "new", path, "--epsilon", "3", "--delta", "1e-5", "--unit", "entry"]) == 0
    assert "Limit: epsilon 3 per entry replaced, delta 1e-05" in capsys.readouterr().out
    ledger = Ledger.load(path)
    assert (ledger.limit_epsilon, ledger.limit_delta, ledger.unit, ledger.how) == (
        3.0,
        1e-5,
        "entry",
        "tightest",
    )


def test_new_without_a_limit_says_so(tmp_path: Path, capsys) -> None:
    assert main(["ledger", "new", str(tmp_path / "l.json")]) == 0
    assert "Limit: none" in capsys.readouterr().out


def test_new_does_not_overwrite_a_ledger(tmp_path: Path, capsys) -> None:
    path = tmp_path / "l.json"
    assert main(["ledger", "new", str(path), "--epsilon", "3", "--quiet"]) == 0
    before = path.read_bytes()
    assert main(["ledger", "new", str(path), "--epsilon", "9"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_new_refuses_a_limit_that_cannot_be_checked(tmp_path: Path, capsys) -> None:
    path = tmp_path / "l.json"
    for options in (["--how", "pld", "--epsilon", "1"], ["--epsilon", "0"], ["--delta", "1"]):
        assert main(["ledger", "new", str(path), *options]) == 2
    for options in (["--unit", "entry", "--neighbours", "add-remove"],):
        assert main(["ledger", "new", str(path), *options]) == 2
    assert capsys.readouterr().err.count("\n") == 4
    assert list(tmp_path.iterdir()) == []


def test_new_in_a_folder_that_does_not_exist_is_one_line(tmp_path: Path, capsys) -> None:
    assert main(["ledger", "new", str(tmp_path / "nowhere" / "l.json")]) == 2
    assert capsys.readouterr().err == f"onefold: error: {tmp_path / 'nowhere'}: the folder does not exist\n"


def test_show_prints_each_release_and_the_total(tmp_path: Path, capsys) -> None:
    path = str(tmp_path / "l.json")
    ledger = Ledger(4.0)
    ledger.spend(Event("survey", "record", 1.5, labels="not covered"))
    ledger.save(path)
    assert main(["ledger", "show", path]) == 0
    shown = capsys.readouterr().out
    assert shown == f"{ledger}\n"
    assert "1 x survey: epsilon 1.5 per record, delta 0, labels not covered" in shown
    assert main(["ledger", "show", path, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["epsilon"], plain["limit_epsilon"], plain["events"][0]["labels"]) == (
        1.5,
        4.0,
        "not covered",
    )


def test_show_of_a_missing_or_damaged_file_is_one_line(tmp_path: Path, capsys) -> None:
    missing, damaged = tmp_path / "missing.json", tmp_path / "damaged.json"
    damaged.write_text("{}")
    for path in (missing, damaged):
        assert main(["ledger", "show", str(path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("onefold: error: ")
        assert str(path) in error
        assert error.count("\n") == 1


def test_backup_copies_a_ledger_to_a_new_file_only(tmp_path: Path, capsys) -> None:
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    ledger = Ledger(4.0)
    ledger.spend(Event("survey", "record", 1.5))
    ledger.save(path)
    assert main(["ledger", "backup", str(path), str(copy)]) == 0
    assert (Ledger.load(copy).events, Ledger.load(copy).identity) == (ledger.events, ledger.identity)
    for words in ([str(path), str(copy)], [str(tmp_path / "none"), str(tmp_path / "new")]):
        capsys.readouterr()
        assert main(["ledger", "backup", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy", "ledger"]


def test_an_older_ledger_is_refused_where_a_later_release_lies_until_it_is_recovered(
    folder: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger().save("ledger")
    command = [*FABRICATE, *DECLARED, "--ledger", "ledger"]
    assert main(["ledger", "backup", "ledger", "copy"]) == 0
    assert main(command) == 0
    shutil.copy("copy", "ledger")
    monkeypatch.setattr("onefold.privacy.ledger.NEWEST", {})  # as in a process of its own
    capsys.readouterr()
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "ledger: charge 1 of this ledger" in error
    assert "onefold ledger recover" in error
    assert not Ledger.load("ledger").events
    assert main(["ledger", "recover", "ledger", "made.csv.guarantee.json"]) == 0
    assert "missing and are entered: 1" in capsys.readouterr().out
    assert main(["ledger", "recover", "ledger", "made.csv.guarantee.json", "unreleased"]) == 0
    assert main(command) == 0
    assert [event.epsilon for event in Ledger.load("ledger").events] == [2.5, 2.5]
    for wrong in ("rows.csv", "none.json"):
        assert main(["ledger", "recover", "ledger", wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


# --- commands that enter their release --------------------------------------------------------------------

ROWS = "a,b,kind\n" + "".join(f"{i % 7 / 7:.3f},{i % 5 / 5:.3f},{'xy'[i % 2]}\n" for i in range(40))
DECLARED = ["--range", "0", "1", "--label", "kind", "--classes", "x", "y", "--quiet"]
FABRICATE = ["fabricate", "rows.csv", "--out", "made.csv", "--epsilon", "0.5", "--label-epsilon", "1.5"]
SOURCE = ["transfer", "source", "rows.csv", "--out", "made.onefold", "--epsilon", "0.5"]
RELEASE = ["release", "rows.csv", "--out", "made.csv", "--schema", "schema.json", "--quiet"]
BY_SCHEMA = ["--schema", "schema.json", "--epsilon", "20", "--quiet"]  # no class is lost in the noise
# The command, what it spends per record, and what it calls the release.
COMMANDS = {
    "fabricate": ([*FABRICATE, *DECLARED], 2.5, "fabricated rows"),
    "fabricate per record": ([*FABRICATE, *DECLARED, "--unit", "record"], 2.0, "fabricated rows"),
    "source of noise": ([*SOURCE, *DECLARED, "--method", "noise"], 1.0, "private source"),
    "source of fabricated rows": ([*SOURCE, *DECLARED, "--method", "fabricated"], 1.0, "private source"),
    "release": ([*RELEASE, "--epsilon", "0.5", "--label-epsilon", "1.5"], 2.0, "released table"),
    "source of moments": (
        [*SOURCE, "--label", "kind", "--classes", "x", "y", "--radius", "2", "--quiet"],
        None,
        "private moments",
    ),
    "fit": (["fit", "rows.csv", "--out", "made.onefold", *BY_SCHEMA], 31.966, "table synthesizer"),
    "fit by moments": (
        ["fit", "rows.csv", "--out", "made.onefold", "--method", "moments", *BY_SCHEMA],
        50.147,
        "private moments",
    ),
    "fit of numbers": (
        ["fit", "rows.csv", "--out", "made.onefold", *BY_SCHEMA[2:], "--schema", "numbers.json"],
        38.004,
        "private moments",
    ),
    "synthesize": (["synthesize", "rows.csv", "--out", "made.csv", *BY_SCHEMA], 31.966, "table synthesizer"),
}


def commands(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[str, set[str]]]:
    """A command and its parts, with the options of each."""
    yield " ".join(words), {name for action in parser._actions for name in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield from commands(part, (*words, name))


def options_of_all_commands() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for name in COMMANDS_OF_THE_PROGRAM:
        (parts,) = (
            action
            for action in build_parser([name])._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        known |= dict(commands(parts.choices[name], (name,)))
    return known


# Their releases are of rows that are not private, or they are made by another command.
NO_LEDGER = {"demo", "ledger new", "federate simulate", "federate sum new"}
# What charges a ledger is shown in a file of tests of its own.
ELSEWHERE = {
    "federate site": "tests/federated/flower/test_site_ledger.py",
    "serve": "tests/attacks/test_web_pages.py",
}


def test_every_command_with_epsilon_takes_a_ledger_and_is_tried() -> None:
    known = options_of_all_commands()
    private = {name for name, options in known.items() if "--epsilon" in options}
    counted = {name for name, options in known.items() if "--ledger" in options}
    assert private - counted == NO_LEDGER
    tried = {name for name in counted for words, *_ in COMMANDS.values() if " ".join(words).startswith(name)}
    assert counted - tried == set(ELSEWHERE)
    assert all((ROOT / path).is_file() for path in ELSEWHERE.values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)
    features = [Field(name, low=0, high=1) for name in "ab"]
    Schema([*features, Field("kind", "string", role="label", levels=("x", "y"))]).save("schema.json")
    Schema([features[0], Field("b", low=0, high=1, role="label")]).save("numbers.json")
    return tmp_path


@pytest.mark.filterwarnings("ignore::onefold.exceptions.OnefoldWarning")
@pytest.mark.parametrize(("command", "epsilon", "name"), COMMANDS.values(), ids=list(COMMANDS))
def test_a_command_enters_its_release_and_stops_at_the_limit(
    folder: Path, capsys, command: list[str], epsilon: float | None, name: str
) -> None:
    most = 1.0 if epsilon is None else 1.2 * epsilon
    Ledger(limit_epsilon=most).save(folder / "ledger.db")
    assert main([*command, "--ledger", "ledger.db"]) == 0
    (event,) = Ledger.load("ledger.db").events
    assert event.name == name
    if epsilon is not None:
        assert event.epsilon == pytest.approx(epsilon, rel=1e-3)
    for made in folder.glob("made*"):
        made.unlink()
    before = (folder / "ledger.db").read_bytes()
    capsys.readouterr()
    assert main([*command, "--ledger", "ledger.db"]) == 2
    assert "per record, the limit is" in capsys.readouterr().err
    assert (folder / "ledger.db").read_bytes() == before
    assert not list(folder.glob("made*"))


@pytest.mark.filterwarnings("ignore::onefold.exceptions.OnefoldWarning")
@pytest.mark.parametrize(("command", "epsilon", "name"), COMMANDS.values(), ids=list(COMMANDS))
def test_a_command_without_a_ledger_says_that_nothing_was_counted(
    folder: Path, capsys, command: list[str], epsilon: float | None, name: str
) -> None:
    words = [word for word in command if word != "--quiet"]
    assert main(words) == 0
    assert "Nothing was entered in a ledger: --ledger FILE" in capsys.readouterr().out
    Ledger().save("ledger.db")
    assert main([*words, "--ledger", "ledger.db"]) == 0
    assert "Nothing was entered" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [FABRICATE, SOURCE], ids=["fabricate", "source"])
def test_a_command_with_a_ledger_that_is_not_there_says_how_to_make_one(
    folder: Path, capsys, command: list[str]
) -> None:
    more = ["--method", "noise"] if command is SOURCE else []
    assert main([*command, *DECLARED, *more, "--ledger", "none.json"]) == 2
    assert "make one with onefold ledger new none.json" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["numbers.json", "rows.csv", "schema.json"]


def test_a_void_release_is_refused_with_a_ledger(folder: Path, capsys) -> None:
    Ledger().save(folder / "ledger.db")
    command = [*FABRICATE, *DECLARED, "--sampler", "float", "--ledger", "ledger.db"]
    assert main(command) == 2
    assert "a void guarantee cannot be entered in a ledger: the float sampler" in capsys.readouterr().err
    assert not list(folder.glob("made*"))
