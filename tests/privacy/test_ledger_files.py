"""Ledgers in files: whole, unchanged, written before a release, shared by processes and threads."""

import json
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tiers import later

from onefold._base import files
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.privacy import Event, Guarantee, Ledger, OptimalNoise, PrivateMoments, charge
from onefold.privacy import ledger as ledger_module
from onefold.privacy.ledger import _sealed, all_of


def ledger_of(*events: Event, **options) -> Ledger:
    ledger = Ledger(**options)
    for event in events:
        ledger.spend(event)
    return ledger


SMALL = Event("small", "record", 0.1, 1e-8, count=100)
RELEASE = Guarantee("record", (0.3, 0.0), (0.3, 0.0), 4)


def names_of(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forget what this process knows of charges, as another process would."""
    return lambda: monkeypatch.setattr(ledger_module, "NEWEST", {})


def test_ledger_prints_and_saves_its_relation(tmp_path: Path) -> None:
    ledger = Ledger(neighbours="add-remove")
    ledger.spend(Event("a", "record", 1.0, neighbours="add-remove"))
    assert "per record more or less" in str(ledger)
    assert "per record replaced" in str(ledger_of(SMALL))
    ledger.save(tmp_path / "ledger.db")
    again = Ledger.load(tmp_path / "ledger.db")
    assert (again.neighbours, again.events) == ("add-remove", ledger.events)


def test_loaded_ledger_equals_the_saved_one(tmp_path: Path) -> None:
    ledger = ledger_of(
        replace(SMALL, conditions=("batches are public",)),
        Event.of(OptimalNoise(0.5, 1e-9, sensitivity=1.0), 7),
        limit_epsilon=20.0,
        limit_delta=1e-5,
        how="basic",
    )
    path = tmp_path / "ledger.db"
    ledger.save(path)
    again = Ledger.load(path)
    assert again.events == ledger.events
    assert again.total("tightest", 1e-5) == ledger.total("tightest", 1e-5)
    assert (again.limit_epsilon, again.limit_delta, again.unit, again.how) == (
        20.0,
        1e-5,
        "record",
        "basic",
    )
    with pytest.raises(BudgetExceededError):
        again.spend(Event("too much", "record", 19.0))
    assert names_of(tmp_path) == ["ledger.db"]


def test_what_is_spent_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(limit_epsilon=1.0)
    ledger.spend(Event("before", "record", 0.1))
    ledger.save(path)
    ledger.spend(Event("after saving", "record", 0.2))
    loaded = Ledger.load(path)
    loaded.spend(Event("after loading", "record", 0.3))
    charge(path, RELEASE, "by the path")
    assert Ledger.load(path).total()[0] == pytest.approx(0.9)
    before = path.read_bytes()
    for late in (ledger, loaded, path, str(path)):  # all know of what the others have spent
        with pytest.raises(BudgetExceededError, match=r"epsilon would be 1\.2 per record, the limit is 1"):
            charge(late, RELEASE, "too much")
    assert path.read_bytes() == before
    assert names_of(tmp_path) == ["ledger.db"]


def test_a_spend_that_cannot_be_written_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    ledger = ledger_of(SMALL)
    ledger.save(path)
    before = path.read_bytes()

    def full(step: str, *_: object) -> None:
        raise OSError(f"no space left to {step}")

    monkeypatch.setattr(files, "fault", full)
    with pytest.raises(OSError, match="no space left to commit"):
        ledger.spend(SMALL)
    assert (ledger.events, path.read_bytes()) == ((SMALL,), before)
    with pytest.raises(OSError, match="no space left to make"):
        ledger.save(tmp_path / "other.json")
    assert names_of(tmp_path) == ["ledger.db"]


def test_a_path_without_a_ledger_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for attempt in (
        lambda: charge(path, RELEASE, "release"),
        lambda: Ledger.load(path),
    ):
        with pytest.raises(InvalidInputError, match=r"no ledger at .*: make one with onefold ledger new"):
            attempt()
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"")  # whoever made it was killed: nothing was counted yet
    with pytest.raises(InvalidInputError, match="no ledger at"):
        Ledger.load(path)
    assert path.read_bytes() == b""
    Ledger().save(path)


def test_a_ledger_whose_file_is_gone_or_put_back_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger()
    ledger.save(path)
    older = path.read_bytes()
    ledger.spend(SMALL)
    path.write_bytes(older)
    with pytest.raises(InvalidInputError, match="was an older copy put back"):
        ledger.spend(SMALL)
    with pytest.raises(InvalidInputError, match="was an older copy put back"):
        charge(path, RELEASE, "by the path")
    path.unlink()
    with pytest.raises(InvalidInputError, match="there is no ledger at"):
        ledger.spend(SMALL)
    Ledger().save(path)
    with pytest.raises(InvalidInputError, match="holds another ledger than before"):
        ledger.spend(SMALL)
    assert Ledger.load(path).events == ()


def test_several_ledgers_count_one_release_unless_one_of_them_cannot(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger().save(path)
    small = Ledger(limit_epsilon=0.5)
    charge((small, path, None), RELEASE, "release")
    assert small.total() == Ledger.load(path).total() == (0.3, 0.0)
    with pytest.raises(InvalidInputError, match="there is no ledger at"):
        charge((small, path, tmp_path / "none.json"), RELEASE, "release")
    with pytest.raises(BudgetExceededError):
        charge((small, path), RELEASE, "release")
    assert small.total() == Ledger.load(path).total() == (0.3, 0.0)
    assert small.path is None
    assert Ledger.load(path).path == path.resolve()


def test_ledgers_that_are_given_in_several_places_are_each_charged_once(tmp_path: Path) -> None:
    path, memory = tmp_path / "ledger.db", Ledger()
    Ledger().save(path)
    assert all_of(None, None) is None
    assert all_of(None, memory) is memory
    charge(all_of((memory, path), str(path), memory, None), RELEASE, "release")
    assert len(memory.events) == len(Ledger.load(path).events) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_to_a_ledger_is_the_same_account(tmp_path: Path) -> None:
    path, link = tmp_path / "ledger.db", tmp_path / "link.json"
    Ledger(limit_epsilon=0.5).save(path)
    link.symlink_to(path)
    charge(link, RELEASE, "through the link")
    assert link.is_symlink()
    with pytest.raises(BudgetExceededError):
        charge(path, RELEASE, "too much")


def test_a_relative_path_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger()
    ledger.save("ledger.db")
    monkeypatch.chdir(tmp_path.parent)
    charge(ledger, RELEASE, "from elsewhere")
    assert Ledger.load(tmp_path / "ledger.db").total() == (0.3, 0.0)


def test_a_ledger_of_a_file_goes_on_in_the_file_when_sent_to_another_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    here = Ledger(limit_epsilon=0.5)
    here.save(path)
    there = pickle.loads(pickle.dumps(here))  # noqa: S301
    charge(there, RELEASE, "there")
    with pytest.raises(BudgetExceededError):
        charge(here, RELEASE, "here")


def test_what_another_ledger_counted_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    first = ledger_of(SMALL)
    first.save(path)
    second = Ledger.load(path)
    second.spend(Event("second", "record", 1.0))
    with pytest.raises(InvalidInputError, match="exists already and is a ledger: load it"):
        Ledger().save(path)
    assert Ledger.load(path).events == second.events
    second.save(path)  # its own file is written already
    first.spend(Event("first", "record", 1.0))  # reads what the second has spent
    assert [event.name for event in Ledger.load(path).events] == ["small", "second", "first"]
    first.save(tmp_path / "other.json")
    assert Ledger.load(tmp_path / "other.json").events == second.events


KILLED = """
import os, sys
from onefold._base import files
from onefold.privacy import Guarantee, charge

def die(step, *_):
    if step == sys.argv[2]:
        os.kill(os.getpid(), 9)

files.fault = die
charge(sys.argv[1], Guarantee("record", (0.3, 0.0), (0.3, 0.0), 4), "release")
die("release")
open(sys.argv[1] + ".released", "w").write("rows")
"""


@pytest.mark.parametrize(
    ("dies_in", "counted"),
    later([("release", 0.3), ("commit", 0.0), ("committed", 0.3)], [("release", 0.3)]),
)
def test_a_process_killed_at_any_point_leaves_a_ledger_that_counts_its_releases(
    tmp_path: Path, dies_in: str, counted: float
) -> None:
    path = tmp_path / "ledger.db"
    Ledger(limit_epsilon=0.5).save(path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), dies_in], check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "ledger.db.released").exists()
    assert Ledger.load(path).total() == (counted, 0.0)
    if counted:
        with pytest.raises(BudgetExceededError):
            charge(path, RELEASE, "again")
    else:
        charge(path, RELEASE, "again")


SPENDER = """
import sys
from onefold.exceptions import BudgetExceededError
from onefold.privacy import Event, Ledger
for number in range(10):
    try:
        Ledger.load(sys.argv[1]).spend(Event(f"{sys.argv[2]} {number}", "record", 0.125))
    except BudgetExceededError:
        print("refused")
"""


@pytest.mark.merge  # eight interpreters; threads that share a file stay in the fast tier
def test_processes_that_share_a_ledger_lose_nothing_and_keep_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(limit_epsilon=7.5).save(path)
    spenders = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(path), str(who)], stdout=subprocess.PIPE, text=True
        )
        for who in range(8)
    ]
    refused = sum(spender.communicate()[0].count("refused") for spender in spenders)
    assert all(spender.returncode == 0 for spender in spenders)
    ledger = Ledger.load(path)
    assert ledger.total() == (7.5, 0.0)
    assert len({event.name for event in ledger.events}) == 60
    assert refused == 20


def test_threads_that_share_a_ledger_keep_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(limit_epsilon=1.0)
    check = Ledger._check

    def slow(self: Ledger, *about: object) -> None:
        check(self, *about)  # type: ignore[arg-type]
        threading.Event().wait(0.01)  # time enough for another thread to come between check and entry

    monkeypatch.setattr(Ledger, "_check", slow)

    def spend(_: int) -> bool:
        try:
            ledger.spend(Event("a", "record", 0.25))
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(16))) == 4
    assert ledger.total()[0] == 1.0


def test_threads_with_one_file_keep_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(limit_epsilon=1.0).save(path)

    def spend(number: int) -> bool:
        try:
            Ledger.load(path).spend(Event(str(number), "record", 0.0625))
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(spend, range(20), timeout=60)) == 16
    assert Ledger.load(path).total()[0] == 1.0


# --- an older copy that was put back ------------------------------------------------------------------------


def test_a_guarantee_names_its_charge_and_an_older_copy_is_refused(
    tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    Ledger(limit_epsilon=1.0).save(path)
    first = charge(path, RELEASE, "first")
    Ledger.load(path).backup(copy)
    second = charge(path, RELEASE, "second")
    identity = Ledger.load(path).identity
    assert [(one.ledger, one.number) for one in (*first.charges, *second.charges)] == [
        (identity, 1),
        (identity, 2),
    ]
    assert Guarantee.from_dict(json.loads(json.dumps(second.to_dict()))) == second
    shutil.copy(copy, path)
    elsewhere()
    older = Ledger.load(path)
    older.check_counts(first, RELEASE)
    with pytest.raises(InvalidInputError, match=r"charge 2 .* older copy put back\? onefold ledger recover"):
        older.check_counts(first, second)
    assert older.recover({"second.guarantee.json": second}) == 1
    assert older.recover({"second.guarantee.json": second, "first": first}) == 0
    older.check_counts(first, second)
    assert older.total()[0] == pytest.approx(0.6)
    assert [event.name for event in older.events] == ["first", "second.guarantee.json"]


def test_a_restored_copy_that_goes_on_does_not_hide_what_it_lost(
    tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    """The numbers of its charges catch up with those of the releases that it does not know."""
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    Ledger(limit_epsilon=1.0).save(path)
    shutil.copy(path, copy)
    lost = [charge(path, RELEASE, "lost") for _ in range(3)]
    shutil.copy(copy, path)
    elsewhere()
    for _ in range(3):
        charge(path, RELEASE, "lost")  # the same name, the same loss, other noise
    ledger = Ledger.load(path)
    for promise in lost:
        with pytest.raises(InvalidInputError, match="was an older copy put back"):
            ledger.check_counts(promise)
    assert ledger.recover({str(number): promise for number, promise in enumerate(lost)}) == 3
    assert ledger.total()[0] == pytest.approx(1.8)  # beyond the limit: the releases were made
    with pytest.raises(BudgetExceededError):
        charge(path, RELEASE, "more")


def test_lost_charges_without_a_guarantee_need_a_declaration(
    tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    Ledger().save(path)
    shutil.copy(path, copy)
    charge(path, RELEASE, "before a crash")
    made = charge(path, RELEASE, "made")
    shutil.copy(copy, path)
    elsewhere()
    ledger = Ledger.load(path)
    with pytest.raises(InvalidInputError, match="charge 1 is missing too"):
        ledger.recover({"made": made})
    assert ledger.events == ()
    assert ledger.recover({"made": made}, unreleased=True) == 1
    assert ledger.total() == (0.3, 0.0)
    assert "provided that nothing was released with them" in str(ledger)
    with pytest.raises(InvalidInputError, match="names no charge of this ledger"):
        ledger.recover({"another": RELEASE})


def test_charges_of_several_ledgers_stand_in_one_guarantee(tmp_path: Path) -> None:
    path, memory = tmp_path / "ledger", Ledger()
    Ledger().save(path)
    counted = charge((memory, path), RELEASE, "release")
    assert {one.ledger for one in counted.charges} == {memory.identity, Ledger.load(path).identity}
    joined = counted.join(charge(memory, RELEASE, "another"))
    assert len(joined.charges) == 3
    for wrong in (3, "abc", [1, 2, 3, 4], {"ledger": "a"}):
        with pytest.raises(InvalidInputError, match="charges"):
            replace(RELEASE, charges=(wrong,))  # type: ignore[arg-type]


def test_two_processes_that_charge_in_turn_do_not_refuse_each_other(tmp_path: Path) -> None:
    """What is known elsewhere is read before the file: others may have charged it meanwhile."""
    path = tmp_path / "ledger"
    Ledger().save(path)

    def work(number: int) -> None:
        promise = charge(path, RELEASE, str(number))
        Ledger.load(path).check_counts(promise)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(24), timeout=60))
    assert len(Ledger.load(path).events) == 24


# --- damage -------------------------------------------------------------------------------------------------


def changed(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


def test_every_changed_cell_of_the_file_shows(tmp_path: Path) -> None:
    good, path = tmp_path / "good", tmp_path / "ledger"
    ledger_of(SMALL, Event("b", "record", 1.0), SMALL, limit_epsilon=20.0).save(good)
    with closing(sqlite3.connect(good)) as db:
        columns = [name for _, name, *_ in db.execute("PRAGMA table_info(charges)")]
    changes = [f"UPDATE charges SET {name} = {name} || '1' WHERE number = 2" for name in columns[1:4]]
    changes += [f"UPDATE charges SET {name} = {name} / 2 WHERE number = 2" for name in columns[5:7]]
    changes += ["UPDATE charges SET times = 2 WHERE number = 2", "UPDATE charges SET stands_for = 'a'"]
    changes += ["DELETE FROM charges WHERE number = 1", "DELETE FROM charges WHERE number = 0"]
    changes += ["UPDATE charges SET about = replace(about, '20.0', '90.0') WHERE number = 0"]
    for change in changes:
        shutil.copy(good, path)
        changed(path, change)
        with pytest.raises(InvalidInputError, match=r"is damaged|there is no ledger"):
            Ledger.load(path)
    # A charge reads the last rows only, and all sums where the limit is near.
    shutil.copy(good, path)
    changed(path, "UPDATE charges SET terms = replace(terms, '1.0', '0.0') WHERE number = 2")
    with pytest.raises(FileFormatError, match="is damaged"):
        charge(path, Guarantee("record", (19.0, 0.0), (19.0, 0.0), 4), "release")


def test_contents_that_cannot_be_a_ledger_are_refused(tmp_path: Path) -> None:
    """Rows whose seals fit, whatever is wrong in them."""
    good, path = tmp_path / "good", tmp_path / "ledger"
    ledger_of(SMALL).save(good)
    first, row = Ledger.load(good)._rows()
    about, terms = json.loads(row.about), json.loads(row.terms)
    rules = json.loads(first.about)
    wrong_terms = [
        {**terms, **change}
        for change in (
            {"neighbours": "friends"},
            {"neighbours": "add-remove"},
            {"epsilon": -1},
            {"epsilon": None},
            {"unit": "entry"},
            {"more": 3},
            {"name": "twice"},
        )
    ]
    wrong_terms += [{key: value for key, value in terms.items() if key == "unit"}, 3, []]  # type: ignore[list-item]
    wrong_about = [{**about, **change} for change in ({"name": 3}, {"labels": "maybe"}, {"conditions": [3]})]
    wrong_rules = [{**rules, "unit": "row"}, {**rules, "more": 1}, {**rules, "limit_epsilon": -1}, {}, [], 3]
    rows = [(first, row._replace(terms=json.dumps(plain))) for plain in wrong_terms]
    rows += [(first, row._replace(about=json.dumps(plain))) for plain in wrong_about]
    rows += [(first, row._replace(times=0)), (first, row._replace(terms="{"))]
    rows += [(_sealed(None, first._replace(about=json.dumps(plain))), row) for plain in wrong_rules]
    for start, last in rows:
        shutil.copy(good, path)
        changed(path, "DELETE FROM charges")
        for one in (start, _sealed(start, last)):
            changed(path, "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *one)
        with pytest.raises(FileFormatError, match="damaged"):
            Ledger.load(path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger_of(SMALL).save(path)
    saved = path.read_bytes()
    for content in (
        b"{",
        b"[]",
        b"{" * 100_000,
        b"\xff\xfe\x00",
        saved[:5000],
        saved.replace(b"small", b"smart"),
        PrivateMoments(1.0, classes=[0, 1]).fit(np.eye(2), [0, 1]).to_bytes(),
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError):
            Ledger.load(path)
        with pytest.raises(InvalidInputError):
            Ledger().save(path)
        assert path.read_bytes() == content
