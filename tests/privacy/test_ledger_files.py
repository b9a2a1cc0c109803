"""Ledgers in files: whole, unchanged, written before a release, shared by processes and threads."""

import json
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tiers import later

from onefold._base.archive import archive_bytes, read_archive
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.privacy import Event, Guarantee, Ledger, OptimalNoise, charge
from onefold.privacy.ledger import all_of


def ledger_of(*events: Event, **options) -> Ledger:
    ledger = Ledger(**options)
    for event in events:
        ledger.spend(event)
    return ledger


SMALL = Event("small", "record", 0.1, 1e-8, count=100)
RELEASE = Guarantee("record", (0.3, 0.0), (0.3, 0.0), 4)


def names_of(folder: Path) -> list[str]:
    """The files in a folder without locks, which stay there for the next process."""
    return sorted(file.name for file in folder.iterdir() if file.suffix != ".lock")


def test_ledger_prints_and_saves_its_relation(tmp_path: Path) -> None:
    ledger = Ledger(neighbours="add-remove")
    ledger.spend(Event("a", "record", 1.0, neighbours="add-remove"))
    assert "per record more or less" in str(ledger)
    assert "per record replaced" in str(ledger_of(SMALL))
    ledger.save(tmp_path / "ledger.json")
    again = Ledger.load(tmp_path / "ledger.json")
    assert (again.neighbours, again.events) == ("add-remove", ledger.events)


def test_loaded_ledger_equals_the_saved_one(tmp_path: Path) -> None:
    ledger = ledger_of(
        replace(SMALL, conditions=("batches are public",)),
        Event.of(OptimalNoise(0.5, 1e-9, sensitivity=1.0), 7),
        limit_epsilon=20.0,
        limit_delta=1e-5,
        how="basic",
    )
    path = tmp_path / "ledger.json"
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
    assert names_of(tmp_path) == ["ledger.json"]


def test_what_is_spent_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
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
    assert names_of(tmp_path) == ["ledger.json"]


def test_a_spend_that_cannot_be_written_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    ledger = ledger_of(SMALL)
    ledger.save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        ledger.spend(SMALL)
    assert (ledger.events, path.read_bytes()) == ((SMALL,), before)
    assert names_of(tmp_path) == ["ledger.json"]


def test_the_file_and_its_folder_are_synced_before_spend_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger().save(tmp_path / "ledger.json")
    order: list[str] = []
    put, fsync = os.replace, os.fsync

    def seen_sync(handle: int) -> None:
        order.append("folder" if os.path.samestat(os.fstat(handle), tmp_path.stat()) else "file")
        fsync(handle)

    def seen_replace(*names: object) -> None:
        order.append("replace")
        put(*names)  # type: ignore[arg-type]

    monkeypatch.setattr("os.fsync", seen_sync)
    monkeypatch.setattr("os.replace", seen_replace)
    charge(tmp_path / "ledger.json", RELEASE, "release")
    assert order == (["file", "replace"] if sys.platform == "win32" else ["file", "replace", "folder"])


def test_a_path_without_a_ledger_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for attempt in (
        lambda: charge(path, RELEASE, "release"),
        lambda: Ledger.load(path),
        lambda: Ledger.shared(path).__enter__(),
    ):
        with pytest.raises(InvalidInputError, match=r"no ledger at .*: make one with onefold ledger new"):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_whose_file_is_gone_or_put_back_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger()
    ledger.save(path)
    older = path.read_bytes()
    ledger.spend(SMALL)
    path.write_bytes(older)
    with pytest.raises(InvalidInputError, match="was an older copy put back"):
        ledger.spend(SMALL)
    path.unlink()
    with pytest.raises(InvalidInputError, match="the file of this ledger is gone"):
        ledger.spend(SMALL)
    assert ledger.events == (SMALL,)


def test_several_ledgers_count_one_release_unless_one_of_them_cannot(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
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
    path, memory = tmp_path / "ledger.json", Ledger()
    Ledger().save(path)
    assert all_of(None, None) is None
    assert all_of(None, memory) is memory
    charge(all_of((memory, path), str(path), memory, None), RELEASE, "release")
    assert len(memory.events) == len(Ledger.load(path).events) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_to_a_ledger_is_the_same_account(tmp_path: Path) -> None:
    path, link = tmp_path / "ledger.json", tmp_path / "link.json"
    Ledger(limit_epsilon=0.5).save(path)
    link.symlink_to(path)
    charge(link, RELEASE, "through the link")
    assert link.is_symlink()
    with pytest.raises(BudgetExceededError):
        charge(path, RELEASE, "too much")


def test_a_relative_path_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger()
    ledger.save("ledger.json")
    monkeypatch.chdir(tmp_path.parent)
    charge(ledger, RELEASE, "from elsewhere")
    assert Ledger.load(tmp_path / "ledger.json").total() == (0.3, 0.0)


def test_a_ledger_of_a_file_goes_on_in_the_file_when_sent_to_another_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    here = Ledger(limit_epsilon=0.5)
    here.save(path)
    there = pickle.loads(pickle.dumps(here))  # noqa: S301
    charge(there, RELEASE, "there")
    with pytest.raises(BudgetExceededError):
        charge(here, RELEASE, "here")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.json"
    ledger = ledger_of(SMALL)
    ledger.save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        ledger.save(path)
    assert path.read_bytes() == before
    assert names_of(tmp_path) == ["ledger.json"]


def archived(plain: dict) -> bytes:
    """A file with checksums that fit, whatever is wrong in it."""
    return archive_bytes("ledger", plain, {})


def test_what_another_ledger_counted_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    first = ledger_of(SMALL)
    first.save(path)
    second = Ledger.load(path)
    second.spend(Event("second", "record", 1.0))
    for late in (first, Ledger()):
        with pytest.raises(InvalidInputError, match="has not read: load it"):
            late.save(path)
    assert Ledger.load(path).events == second.events
    second.save(path)  # its own file may be written again
    first.spend(Event("first", "record", 1.0))  # reads what the second has spent
    assert [event.name for event in Ledger.load(path).events] == ["small", "second", "first"]
    first.save(tmp_path / "other.json")


def test_a_shared_ledger_keeps_what_was_spent_when_the_block_raises(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    Ledger(limit_epsilon=1.0).save(path)
    with Ledger.shared(path) as ledger:
        ledger.spend(Event("a", "record", 0.7))

    def spend_too_much() -> None:
        with Ledger.shared(path) as ledger:
            ledger.spend(Event("b", "record", 0.2))
            ledger.spend(Event("c", "record", 0.2))

    with pytest.raises(BudgetExceededError):
        spend_too_much()
    assert [event.name for event in Ledger.load(path).events] == ["a", "b"]

    def release_and_fail() -> None:
        with Ledger.shared(path) as ledger:
            ledger.spend(Event("d", "record", 0.05))
            raise RuntimeError("after the release")

    with pytest.raises(RuntimeError):
        release_and_fail()
    assert [event.name for event in Ledger.load(path).events] == ["a", "b", "d"]


def test_the_file_of_an_open_ledger_is_refused_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    Ledger().save(path)
    with Ledger.shared(path) as ledger:
        with pytest.raises(InvalidInputError, match=r"is open in a block of Ledger\.shared"):
            charge(path, RELEASE, "twice")
        charge(ledger, RELEASE, "once")
    charge(path, RELEASE, "later")
    charge(ledger, RELEASE, "still the same file")
    assert Ledger.load(path).total()[0] == pytest.approx(0.9)


KILLED = """
import os, sys
from onefold.privacy import Guarantee, charge

def die(*_):
    os.kill(os.getpid(), 9)

if sys.argv[2] != "release":
    setattr(os, sys.argv[2], die)
charge(sys.argv[1], Guarantee("record", (0.3, 0.0), (0.3, 0.0), 4), "release")
die()
open(sys.argv[1] + ".released", "w").write("rows")
"""


@pytest.mark.parametrize(
    ("dies_in", "counted"), later([("release", 0.3), ("fsync", 0.0), ("replace", 0.0)], [("release", 0.3)])
)
def test_a_process_killed_at_any_point_leaves_a_ledger_that_counts_its_releases(
    tmp_path: Path, dies_in: str, counted: float
) -> None:
    path = tmp_path / "ledger.json"
    Ledger(limit_epsilon=0.5).save(path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), dies_in], check=False)
    assert killed.returncode != 0
    assert not (tmp_path / "ledger.json.released").exists()
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
        event = Event(f"{sys.argv[2]} {number}", "record", 0.125)
        if number % 2:
            Ledger.load(sys.argv[1]).spend(event)
        else:
            with Ledger.shared(sys.argv[1]) as ledger:
                ledger.spend(event)
    except BudgetExceededError:
        print("refused")
"""


@pytest.mark.merge  # three interpreters; threads that share a file stay in the fast tier
def test_processes_that_share_a_ledger_lose_nothing_and_keep_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    Ledger(limit_epsilon=2.5).save(path)
    spenders = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(path), str(who)], stdout=subprocess.PIPE, text=True
        )
        for who in range(3)
    ]
    refused = sum(spender.communicate()[0].count("refused") for spender in spenders)
    assert all(spender.returncode == 0 for spender in spenders)
    ledger = Ledger.load(path)
    assert ledger.total() == (2.5, 0.0)
    assert len({event.name for event in ledger.events}) == 20
    assert refused == 10


def test_threads_that_share_a_ledger_keep_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(limit_epsilon=1.0)
    check = Ledger._check

    def slow(self: Ledger, events: list[Event]) -> None:
        check(self, events)
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


def test_threads_with_one_file_and_with_an_open_ledger_do_not_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    Ledger(limit_epsilon=1.0).save(path)

    def spend(number: int) -> bool:
        event = Event(str(number), "record", 0.0625)
        try:
            if number % 2:
                with Ledger.shared(path) as ledger:
                    ledger.spend(event)
            else:
                Ledger.load(path).spend(event)
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(spend, range(20), timeout=60)) == 16
    assert Ledger.load(path).total()[0] == 1.0


def test_events_that_leave_something_out_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger_of(SMALL).save(path)
    plain, _ = read_archive(path, "ledger")
    for name in plain["events"][0]:
        event = {key: value for key, value in plain["events"][0].items() if key != name}
        path.write_bytes(archived({**plain, "events": [event]}))
        with pytest.raises(FileFormatError, match="damaged"):
            Ledger.load(path)


def test_contents_that_cannot_be_a_ledger_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger_of(SMALL).save(path)
    good, _ = read_archive(path, "ledger")
    event = good["events"][0]
    path.write_bytes(archived(good))
    assert Ledger.load(path).events == (SMALL,)
    for wrong in (
        {**good, "neighbours": "add-remove"},
        {**good, "events": [{**event, "neighbours": "friends"}]},
        {**good, "events": [{**event, "epsilon": -1}]},
        {**good, "events": [{**event, "epsilon": None}]},
        {**good, "events": [{**event, "unit": "entry"}]},
        {**good, "events": [{"name": "a"}]},
        {**good, "events": [{**event, "name": 3}]},
        {**good, "events": [{**event, "count": True}]},
        {**good, "events": [{**event, "labels": "maybe"}]},
        {**good, "events": [{**event, "conditions": [3]}]},
        {**good, "events": [{**event, "more": 3}]},
        {**good, "events": 3},
        {**good, "unit": "row"},
        {key: value for key, value in good.items() if key != "limit_epsilon"},
    ):
        path.write_bytes(archived(wrong))
        with pytest.raises(FileFormatError):
            Ledger.load(path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger_of(SMALL).save(path)
    saved = path.read_bytes()
    good, _ = read_archive(path, "ledger")
    for content in (
        b"",
        b"{",
        b"[]",
        b"{" * 100_000,
        b"\xff\xfe\x00",
        saved[:-30],
        saved.replace(b"small", b"smart"),
        archive_bytes("private moments", good, {}),
        json.dumps(good).encode(),  # no digest
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError):
            Ledger.load(path)
