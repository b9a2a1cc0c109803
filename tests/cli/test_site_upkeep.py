"""New rows, erased persons and moved folders, by the commands of a site: the cost first, all or nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sqlite3
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.cli.federate import upkeep
from onefold.exceptions import FederationError
from onefold.federated.flower import Site, nodes, site_app
from onefold.federated.flower.admission import site_log
from onefold.federated.flower.keeping import keep
from onefold.federated.flower.nodes import Node
from onefold.privacy import Ledger
from onefold.tables import Field, Schema
from reference.site_files import model_file, sums_file

NAMES = ("age", "pulse", "weight", "height")
FIELDS = (
    *(Field(name, low=0, high=100) for name in NAMES),
    Field("state", "string", "label", levels=("good", "bad")),
)
SCHEMA = Schema((Field("patient", "string", "person"), *FIELDS), rows_per_person=2)
NORTH, SOUTH = Path("federation/sites/north"), Path("federation/sites/south")
NOISE = ("--epsilon", 1, "--unit", "record")
PLAIN_SUMS = ("--send-plain-sums",)
SECRET = "Rosa-Meyer-1954"


def lines(n: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    bad = np.arange(n) % 2
    cells = (45 + 20 * bad[:, None] + 10 * rng.standard_normal((n, 4))).clip(0, 100).round(1)
    whom = [f"{seed}-{row // 2}" for row in range(n)]
    whom[n // 2] = whom[n // 2 + 1] = SECRET
    return [
        [who, *map(str, row), ("good", "bad")[one]] for who, row, one in zip(whom, cells, bad, strict=True)
    ]


def write(path: str, *parts: list[list[str]], names: tuple[str, ...] = ("patient", *NAMES, "state")) -> str:
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([names, *(line for part in parts for line in part)])
    return path


def columns(part: list[list[str]]) -> dict[str, tuple[str, ...]]:
    return dict(zip(("patient", *NAMES, "state"), zip(*part, strict=True), strict=True))


def without(person: str, part: list[list[str]]) -> list[list[str]]:
    return [line for line in part if line[0] != person]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A federation of two sites, tables and a schema; no terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert (
        main(["federate", "init", "--sites", "north", "south", "--insecure", "--answer-anyone", "--json"])
        == 0
    )
    write("old.csv", lines(200, 1))
    write("new.csv", lines(60, 2))
    SCHEMA.save("schema.json")
    capsys.readouterr()
    return tmp_path


def run(*words: object) -> int:
    return main([str(word) for word in ("federate", "site", *words)])


def fit(folder: Path, *options: object, data: str = "old.csv") -> Site:
    given = () if "--label" in options else ("--schema", "schema.json")
    assert run(data, "--folder", folder, "--fit-only", *given, *options) == 0
    return Site(folder)


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder but locks."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


# --- update -----------------------------------------------------------------------------------------------


def test_update_is_a_fit_of_all_rows_that_says_first_that_nothing_is_spent(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    north = fit(NORTH)
    before = north.profile
    capsys.readouterr()
    assert run("update", "new.csv", "--folder", NORTH) == 0
    said = capsys.readouterr()
    assert "Rows: 200 before, 260 now (told to nobody)." in said.err
    assert "Nothing is spent" in said.err
    assert north.profile.model_digest != before.model_digest
    south = fit(SOUTH, data=write("both.csv", lines(200, 1), lines(60, 2)))
    assert model_file(north.folder).read_bytes() == model_file(south.folder).read_bytes()
    assert replace(north.profile, site="south").to_bytes() == south.profile.to_bytes()
    assert [entry.event for entry in site_log(north.folder)] == ["updated"]


def test_update_reads_the_tables_of_the_last_fit_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    north = fit(NORTH)
    old = north.profile.model_digest
    assert run("update", "--folder", NORTH) == 0
    assert north.profile.model_digest == old
    assert run("update", "new.csv", "--folder", NORTH, "--json") == 0
    write("old.csv", lines(80, 5))
    capsys.readouterr()
    assert run("update", "--folder", NORTH, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 140
    assert run("update", "--data", "new.csv", "--replace", "--folder", NORTH, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows_before"], told["rows"]) == (140, 60)


def test_update_of_rows_of_numbers(here: Path) -> None:
    plain = tuple(line[1:] for line in lines(200, 1)), tuple(line[1:] for line in lines(60, 2))
    names = (*NAMES, "state")
    for path, parts in (("a.csv", plain[:1]), ("b.csv", plain[1:]), ("ab.csv", plain)):
        write(path, *map(list, parts), names=names)
    options = ("--label", "state", "--model", "folding", "--scale", 0.01, "--n-components", 2)
    north = fit(NORTH, *options, data="a.csv")
    assert run("update", "b.csv", "--folder", NORTH) == 0
    assert north.profile.model_digest == fit(SOUTH, *options, data="ab.csv").profile.model_digest


@pytest.mark.parametrize(
    "line, said",
    [
        (["p", "1", "2", "3", "tall400", "bad"], "height"),
        (["p", "1", "2", "3", "4", "ugly"], "state"),
    ],
)
def test_rows_that_break_the_contract_change_nothing(
    here: Path, line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(NORTH)
    before = files(NORTH)
    write("bad.csv", lines(20, 3), [line])
    capsys.readouterr()
    assert run("update", "bad.csv", "--folder", NORTH) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "400" not in error
    assert "ugly" not in error
    assert files(NORTH) == before


def test_update_that_cannot_be_made_says_what_to_do(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: object) -> str:
        capsys.readouterr()
        assert run("update", "--folder", NORTH, *words) == 2
        return capsys.readouterr().err

    site_app.store_model(Site(NORTH).folder, site_model())
    assert "kept no note of how: fit it once more" in refused()
    fit(NORTH)
    assert "rows would count twice" in refused("old.csv")
    assert "rows would count twice" in refused("./federation/../old.csv")
    assert "give one of them" in refused("new.csv", "--data", "new.csv")
    assert "--replace needs DATA" in refused("--replace")
    Path("old.csv").rename("moved.csv")
    assert "is not there any more" in refused()
    assert run("update", "moved.csv", "--replace", "--folder", NORTH) == 0


def site_model() -> Any:
    from onefold.federated import LocalModel

    return LocalModel().fit(np.random.default_rng(0).random((20, 4)), [0, 1] * 10)


def test_table_called_update_can_be_fitted(here: Path) -> None:
    shutil.copy("old.csv", "update.csv")
    os.symlink("update.csv", "status.csv")
    assert fit(NORTH, data="./update.csv").profile.n_features == 4


# --- with noise -------------------------------------------------------------------------------------------


def test_release_says_what_it_spends_and_waits_for_a_yes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    north = fit(NORTH, *NOISE)
    before = files(NORTH)
    capsys.readouterr()
    assert run("update", "new.csv", "--folder", NORTH) == 2
    said = capsys.readouterr().err
    assert "COST: this release spends epsilon 1 per record more or less, delta 1e-05." in said
    assert (
        "counts epsilon 1 per record more or less, delta 1e-05 before it and epsilon 1.40017 per record"
        in said
    )
    assert "nothing was changed: give --yes" in said
    assert files(NORTH) == before
    assert run("update", "new.csv", "--folder", NORTH, "--yes") == 0
    assert len(Ledger.load(north.folder.ledger).events) == 2
    assert Ledger.load(north.folder.ledger).total("basic")[0] == 2.0
    assert run("update", "--folder", NORTH, "--yes") == 0
    assert Ledger.load(north.folder.ledger).total("basic")[0] == 3.0


@pytest.mark.parametrize("word, code", [("y\n", 0), ("\n", 2), ("no\n", 2)])
def test_terminal_is_asked(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, code: int
) -> None:
    north = fit(NORTH, *NOISE)
    answer = io.StringIO(word)
    answer.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", answer)
    assert run("update", "new.csv", "--folder", NORTH) == code
    assert len(Ledger.load(north.folder.ledger).events) == 2 - code // 2
    assert "Go on? [y/N]" in capsys.readouterr().err


def test_release_beyond_the_limit_of_a_ledger_is_refused_before_anything_is_drawn(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger(limit_epsilon=1.2, neighbours="add-remove").save(NORTH / "ledger.db")
    fit(NORTH, *NOISE, "--ledger", NORTH / "ledger.db")
    before = files(NORTH)
    assert run("update", "new.csv", "--folder", NORTH, "--yes") != 0
    assert "the limit is 1.2" in capsys.readouterr().err
    assert files(NORTH) == before


def test_noise_on_rows_is_counted_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    north = fit(NORTH, "--epsilon", 2, "--method", "rows")
    assert run("update", "new.csv", "--folder", NORTH) == 2
    assert run("update", "new.csv", "--folder", NORTH, "--yes") == 0
    assert len(Ledger.load(north.folder.ledger).events) == 2


# --- forget -----------------------------------------------------------------------------------------------


def forget(folder: Path, *options: object, person: str = SECRET) -> int:
    Path("whom").write_text(person + "\nsecond line\n")
    code = run("forget", "--folder", folder, "--person-file", "whom", *options)
    Path("whom").unlink()
    return code


@pytest.mark.parametrize(
    "options", [(), ("--model", "wide", "--measure", "euclidean"), ("--send-plain-sums",)]
)
def test_forgetting_is_to_the_last_bit_a_fit_without_the_person(here: Path, options: tuple[str, ...]) -> None:
    north = fit(NORTH, *options)
    assert forget(NORTH, "--yes") == 0
    south = fit(SOUTH, *options, data=write("rest.csv", without(SECRET, lines(200, 1))))
    assert model_file(north.folder).read_bytes() == model_file(south.folder).read_bytes()
    assert replace(north.profile, site="south").to_bytes() == south.profile.to_bytes()
    if north.sends_plain_sums:
        ours, theirs = (sums_file(each.folder).read_bytes() for each in (north, south))
        assert ours != theirs  # the name of the site is in it
        assert north.profile.sums == south.profile.sums
    # The person is in the new rows too, and stays out.
    assert run("update", "new.csv", "--folder", NORTH, "--yes") == 0
    both = write("both.csv", without(SECRET, lines(200, 1)), without(SECRET, lines(60, 2)))
    assert north.profile.model_digest == fit(SOUTH, *options, data=both).profile.model_digest


@pytest.mark.parametrize("options", [(), NOISE])
def test_id_of_a_forgotten_person_is_nowhere(
    here: Path, options: tuple[Any, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    north = fit(NORTH, *options)
    assert forget(NORTH, "--yes") == 0
    assert forget(NORTH, "--yes", "--json") == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(SECRET + "\n"))
    assert run("forget", "--folder", NORTH, "--person-file", "-", "--yes") == 0
    assert run("status", "--folder", NORTH) == 0
    said = capsys.readouterr()
    for text in (said.out, said.err, *(content.decode("latin-1") for content in files(NORTH).values())):
        assert SECRET not in text
        assert "Rosa" not in text
    log = [entry for entry in site_log(north.folder) if entry.event == "person-forgotten"]
    assert [entry.facts for entry in log] == [{"fitted_anew": True}] * 3
    assert len(north.forgotten) == 1


def test_person_who_is_not_in_the_tables(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    north = fit(NORTH)
    assert forget(NORTH, "--json", person="nobody") == 0
    said = capsys.readouterr()
    assert "No row of the tables is about this person" in said.err
    assert json.loads(said.out[said.out.index("{") :])["found"] is False
    assert len(north.forgotten) == 1
    south = fit(SOUTH, *NOISE)
    assert forget(SOUTH, "--yes", person="nobody") == 2
    assert "no row of this site's tables is about this person; nothing was changed" in capsys.readouterr().err
    assert len(south.forgotten) == 0
    assert len(Ledger.load(south.folder.ledger).events) == 1


def test_what_was_released_with_noise_is_not_undone_and_that_is_said(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    north = fit(NORTH, *NOISE)
    sent = sums_file(north.folder).read_bytes()
    assert forget(NORTH) == 2  # no yes: nothing at all
    assert len(north.forgotten) == 0
    capsys.readouterr()
    assert forget(NORTH, "--keep-release") == 0
    said = capsys.readouterr().out
    assert "is not undone" in said
    assert "was made with the rows of this person" in said
    assert "to the last bit" not in said
    assert sums_file(north.folder).read_bytes() == sent
    assert len(Ledger.load(north.folder.ledger).events) == 1
    assert len(north.forgotten) == 1
    assert forget(NORTH, "--yes") == 0
    said = capsys.readouterr().out
    assert "The new release was made without the rows of this person." in said
    assert "is not undone" in said
    assert sums_file(north.folder).read_bytes() != sent
    assert Ledger.load(north.folder.ledger).total("basic")[0] == 2.0
    assert Site(NORTH).recipe["rows"] == 198


def test_plain_sums_of_before_and_after_give_the_person_away_and_need_a_yes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    north = fit(NORTH, "--send-plain-sums")
    old = north.profile
    assert forget(NORTH) == 2
    assert "THE SERVER HAS THE PLAIN SUMS OF BEFORE" in capsys.readouterr().err
    assert north.profile.sums == old.sums
    assert len(north.forgotten) == 0
    assert forget(NORTH, "--yes") == 0
    assert north.profile.sums != old.sums


def test_forget_says_what_it_needs(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Schema(FIELDS).save("schema.json")
    fit(NORTH)
    assert forget(NORTH) == 2
    assert "do not say whom they are about" in capsys.readouterr().err
    SCHEMA.save("schema.json")
    fit(NORTH)
    assert forget(NORTH, "--keep-release") == 2
    assert "--keep-release is for a fit with noise" in capsys.readouterr().err
    assert run("forget", "--folder", NORTH) == 2
    assert "whom to forget?" in capsys.readouterr().err
    assert forget(NORTH, person=" ") == 2
    assert "the person's id is empty" in capsys.readouterr().err
    before = files(NORTH)
    Path("old.csv").unlink()
    assert forget(NORTH) == 2
    assert "is not there any more" in capsys.readouterr().err
    assert files(NORTH) == before
    fit(SOUTH, data="new.csv")
    monkeypatch.setattr("getpass.getpass", lambda prompt: SECRET)
    terminal = io.StringIO("")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    assert run("forget", "--folder", SOUTH) == 0
    assert Site(SOUTH).recipe["rows"] == 58


def test_fit_from_python_leaves_forgotten_persons_out(here: Path) -> None:
    north, south = Site(NORTH), Site(SOUTH)
    table, rest = columns(lines(200, 1)), columns(without(SECRET, lines(200, 1)))
    digest = north.forget(SECRET).fit(table, schema=SCHEMA).profile.model_digest
    assert digest == south.fit(rest, schema=SCHEMA).profile.model_digest
    assert north.recipe == {}


# --- status and other machines -----------------------------------------------------------------------


def test_status_of_a_site_with_moments(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(NORTH, *NOISE)
    capsys.readouterr()
    assert run("status", "--folder", NORTH) == 0
    said = capsys.readouterr().out
    assert "rows of the last fit: 200" in said
    assert "spent epsilon 1 per record" in said


def test_copied_folder_goes_on_where_the_old_one_stopped(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(NORTH, *NOISE)
    assert run("update", "new.csv", "--folder", NORTH, "--yes") == 0
    assert forget(NORTH, "--keep-release") == 0
    shutil.copytree(NORTH, "other machine/north")
    shutil.rmtree(NORTH)
    Path("old.csv").rename("other machine/old.csv")
    moved = Site("other machine/north")
    assert Ledger.load(moved.folder.ledger).total("basic")[0] == 2.0
    assert run("update", "--folder", moved.folder.root, "--yes") == 2
    assert "old.csv: this table of the last fit is not there any more" in capsys.readouterr().err
    again = ("update", "other machine/old.csv", "--replace", "--folder", moved.folder.root, "--yes")
    assert run(*again) == 0
    assert Ledger.load(moved.folder.ledger).total("basic")[0] == 3.0
    assert moved.recipe["rows"] == 198  # the forgotten one is still forgotten


def test_running_site_notices_a_new_fit(here: Path) -> None:
    north = fit(NORTH)
    node = Node(north.folder)
    assert not node._is_fitted_anew()
    north.configure(per_minute=7)
    assert not node._is_fitted_anew()
    assert run("update", "--folder", NORTH) == 0  # the same rows: the same model
    assert not node._is_fitted_anew()
    assert run("update", "new.csv", "--folder", NORTH) == 0
    assert node._is_fitted_anew()
    assert not node._is_fitted_anew()


def test_running_site_connects_again_after_a_new_fit(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for Flower's process: the one of before ends, then another one begins."""
    happened: list[str] = []

    class StandIn:
        is_running = True

        def __init__(self, *_: object) -> None:
            happened.append("started")

        def stop(self) -> None:
            happened.append("stopped")

        def output(self) -> str:
            return nodes.CONNECTED

    monkeypatch.setattr(nodes, "Process", StandIn)
    monkeypatch.setattr(Node, "_is_server_there", lambda self: True)
    north = fit(NORTH)
    node = Node(north.folder, happened.append)
    for _ in range(3):
        node.check()
    assert happened == ["started", "connected; waiting for queries"]
    assert run("update", "new.csv", "--folder", NORTH) == 0
    for _ in range(3):
        node.check()
    assert happened[2:] == [
        "fitted anew; connecting again, so that the server takes what is new",
        "stopped",
        "started",
        "connected; waiting for queries",
    ]


def test_fit_that_overlaps_forgetting_is_refused_and_the_person_stays_away(here: Path) -> None:
    table = columns(lines(200, 1))
    Site(NORTH).folder.prepare()

    def meanwhile(*_: object) -> None:
        Site(NORTH).forget(SECRET).fit(table, schema=SCHEMA)

    with pytest.raises(FederationError, match=r"list of forgotten persons has changed .* run it again"):
        Site(NORTH).fit(table, schema=SCHEMA, confirm=meanwhile)
    without_her = Site(NORTH).profile
    with pytest.raises(FederationError, match="run it again"):  # the same if it happens during the fit
        keep(
            Site(NORTH).folder,
            replace(without_her, n_features=9),
            {},
            check=partial(Site(NORTH)._check_list, frozenset()),
        )
    assert Site(NORTH).profile.n_features == without_her.n_features
    assert Site(SOUTH).fit(columns(without(SECRET, lines(200, 1))), schema=SCHEMA).profile.model_digest == (
        without_her.model_digest
    )


def test_mark_stays_if_the_new_model_is_in_force_already(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(NORTH)
    whole = upkeep.fit

    def stopped(*given: Any) -> None:
        whole(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(upkeep, "fit", stopped)
    with suppress(KeyboardInterrupt):
        run("forget", "--person", SECRET, "--folder", NORTH)
    assert len(Site(NORTH).forgotten) == 1


def test_person_of_a_table_in_a_database_is_forgotten_with_the_table_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect("rows.db") as base:
        base.execute(
            "create table t (patient text, age real, pulse real, weight real, height real, state text)"
        )
        base.executemany("insert into t values (?, ?, ?, ?, ?, ?)", lines(200, 1))
    north = fit(NORTH, data="sqlite:///rows.db#t")
    capsys.readouterr()
    assert run("forget", "--person", SECRET, "--folder", NORTH) == 2
    said = capsys.readouterr().err
    assert "as it is now, with --data" in said
    assert "--replace" not in said
    assert len(north.forgotten) == 0
    assert run("forget", "--person", SECRET, "--folder", NORTH, "--data", "sqlite:///rows.db#t") == 0
    assert (
        north.profile.model_digest
        == fit(SOUTH, data=write("rest.csv", without(SECRET, lines(200, 1)))).profile.model_digest
    )
    fit(NORTH, *NOISE, "--anyway", data="sqlite:///rows.db#t")
    assert run("forget", "--person", "1-3", "--keep-release", "--folder", NORTH) == 0  # reads no table
    assert len(north.forgotten) == 2
