"""Ledgers in files: whole, unchanged, and shared by processes and threads."""

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onefold._base.archive import archive_bytes, read_archive
from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError
from onefold.privacy import Event, Ledger, OptimalNoise


def ledger_of(*events: Event, **options) -> Ledger:
    ledger = Ledger(**options)
    for event in events:
        ledger.spend(event)
    return ledger


SMALL = Event("small", "record", 0.1, 1e-8, count=100)


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
        SMALL, Event.of(OptimalNoise(0.5, 1e-9), 7), limit_epsilon=20.0, limit_delta=1e-5, how="advanced"
    )
    path = tmp_path / "ledger.json"
    ledger.save(path)
    again = Ledger.load(path)
    assert again.events == ledger.events
    assert again.total("advanced", 1e-5) == ledger.total("advanced", 1e-5)
    assert (again.limit_epsilon, again.limit_delta, again.unit, again.how) == (
        20.0,
        1e-5,
        "record",
        "advanced",
    )
    with pytest.raises(BudgetExceededError):
        again.spend(Event("too much", "record", 19.0))
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.json"]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.json"
    ledger = ledger_of(SMALL)
    ledger.save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    ledger.spend(SMALL)
    with pytest.raises(OSError, match="no space"):
        ledger.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def archived(plain: dict) -> bytes:
    """A file with checksums that fit, whatever is wrong in it."""
    return archive_bytes("ledger", plain, {})


def as_in_0_1(plain: dict) -> bytes:
    """A file of version 0.1 with a digest that fits, whatever is wrong in it."""
    plain = {"format": 2, **plain}
    content = json.dumps(plain, sort_keys=True, allow_nan=False).encode()
    return json.dumps({**plain, "digest": hashlib.sha256(content).hexdigest()}).encode()


def test_what_another_ledger_counted_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    first = ledger_of(SMALL)
    first.save(path)
    second = Ledger.load(path)
    second.spend(Event("second", "record", 1.0))
    second.save(path)
    first.spend(Event("first", "record", 1.0))
    for late in (first, Ledger()):
        with pytest.raises(InvalidInputError, match="has not read: load it"):
            late.save(path)
    assert Ledger.load(path).events == second.events
    second.save(path)  # its own file may be written again
    first.save(tmp_path / "other.json")


def test_a_shared_ledger_is_saved_when_the_block_ends_well(tmp_path: Path) -> None:
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
    assert [event.name for event in Ledger.load(path).events] == ["a"]


SPENDER = """
import sys
from onefold.exceptions import BudgetExceededError
from onefold.privacy import Event, Ledger
for number in range(10):
    try:
        with Ledger.shared(sys.argv[1]) as ledger:
            ledger.spend(Event(f"{sys.argv[2]} {number}", "record", 0.125))
    except BudgetExceededError:
        print("refused")
"""


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


@pytest.mark.parametrize("written", [archived, as_in_0_1])
def test_contents_that_cannot_be_a_ledger_are_refused(tmp_path: Path, written: Callable) -> None:
    path = tmp_path / "ledger"
    ledger_of(SMALL).save(path)
    good, _ = read_archive(path, "ledger")
    event = good["events"][0]
    path.write_bytes(written(good))
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
        {**good, "events": 3},
        {**good, "unit": "row"},
        {key: value for key, value in good.items() if key != "limit_epsilon"},
    ):
        path.write_bytes(written(wrong))
        with pytest.raises(FileFormatError):
            Ledger.load(path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger_of(SMALL).save(path)
    saved = path.read_bytes()
    good, _ = read_archive(path, "ledger")
    old = json.loads(as_in_0_1(good))
    for content in (
        b"",
        b"{",
        b"[]",
        b"{" * 100_000,
        b"\xff\xfe\x00",
        saved[:-30],
        saved.replace(b"small", b"smart"),
        archive_bytes("private moments", good, {}),
        as_in_0_1({**good, "format": 1}),  # did not name the neighbouring relation
        as_in_0_1({**good, "format": 3}),
        json.dumps(good).encode(),  # no digest
        json.dumps({**old, "limit_epsilon": 99.0}).encode(),
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError):
            Ledger.load(path)
