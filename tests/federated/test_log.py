"""The log: nothing is lost, and nothing can be edited, cut, added or moved without being found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onefold.exceptions import FileFormatError, InvalidInputError, TamperedLogError
from onefold.federated.access.log import MembershipEvent, MembershipLog, SiteLog

STORY = [
    ("join", "north", {"classes": [0, 1], "rows": 120}),
    ("join", "south", {"classes": ["é"]}),
    ("forget", "north", {"rows": 3, "exact": True}),
    ("leave", "north", {}),
    ("re-join", "north", {}),
    ("class-removed", "south", {"label": "é"}),
]


@pytest.fixture
def log(tmp_path: Path) -> MembershipLog:
    log = MembershipLog(tmp_path / "members.db")
    for event, site, facts in STORY:
        log.append(event, site, **facts)
    return log


def test_entries_are_read_back_as_written(log) -> None:
    assert log.verify() == len(STORY)
    assert [(entry.event.value, entry.site, entry.facts) for entry in log] == STORY
    assert [entry.number for entry in log] == list(range(len(STORY)))
    assert log.members() == ("south", "north")
    again = MembershipLog(log.store.path)  # another process, later
    again.append("leave", "south")
    assert again.verify() == log.verify() == len(STORY) + 1
    assert log.members() == ("north",)


def test_empty_log_is_valid(tmp_path: Path) -> None:
    log = MembershipLog(tmp_path / "none.db")
    assert log.verify() == 0
    assert list(log) == []
    assert log.head == (0, "0" * 64)


def test_time_is_written_in_utc(tmp_path: Path) -> None:
    log = MembershipLog(tmp_path / "members.db", clock=lambda: 0.5)
    assert log.append("join", "a").time == "1970-01-01T00:00:00.500+00:00"


Rows = list[tuple[int, str, str]]


def rows_of(log: MembershipLog) -> Rows:
    with log.store.reading() as db:
        return db.execute("SELECT number, entry, sum FROM log ORDER BY number").fetchall()


def put(log: MembershipLog, rows: Rows) -> None:
    """What somebody who has the file can do to it."""
    with log.store.transaction() as db:
        db.execute("DELETE FROM log")
        db.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)


def test_every_single_changed_letter_is_found(log) -> None:
    rows = rows_of(log)
    for place, (number, text, total) in enumerate(rows):
        for at in range(place, len(text), 7):
            changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
            put(log, [*rows[:place], (number, changed, total), *rows[place + 1 :]])
            with pytest.raises(TamperedLogError):
                list(log)
        put(log, [*rows[:place], (number, text, total[::-1]), *rows[place + 1 :]])
        with pytest.raises(TamperedLogError):
            log.verify()
    put(log, rows)
    assert log.verify() == len(STORY)


def test_changed_byte_of_the_file_is_found_or_changes_nothing(log) -> None:
    content, entries = log.store.path.read_bytes(), list(log)
    for place in range(0, len(content), 499):
        damaged = bytearray(content)
        damaged[place] ^= 1
        log.store.path.write_bytes(damaged)
        try:
            assert log.verify() == len(STORY)
            assert list(log) == entries
        except (TamperedLogError, FileFormatError):
            pass


def numbered(rows: Rows) -> Rows:
    return [(number, text, total) for number, (_, text, total) in enumerate(rows)]


def test_every_missing_doubled_and_moved_entry_is_found(log) -> None:
    rows = rows_of(log)
    n = len(rows)
    changed = [rows[:i] + rows[i + 1 :] for i in range(n)]  # one missing
    changed += [numbered(each) for each in changed]
    changed += [rows[:i] for i in range(n)]  # the end missing
    changed += [numbered(rows[i:]) for i in range(1, n)]  # the beginning missing
    changed += [numbered(rows[: i + 1] + rows[i:]) for i in range(n)]  # one doubled
    changed += [numbered([*rows[:i], rows[i + 1], rows[i], *rows[i + 2 :]]) for i in range(n - 1)]
    for variant in changed:
        put(log, variant)
        with pytest.raises(TamperedLogError):
            log.verify()


def test_the_same_content_written_differently_is_an_edit(log) -> None:
    rows = rows_of(log)
    put(log, [rows[0], (1, json.dumps(json.loads(rows[1][1]), separators=(",", ":")), rows[1][2]), *rows[2:]])
    with pytest.raises(TamperedLogError, match="entry 2"):
        log.verify()


def test_nothing_is_appended_to_a_log_that_was_cut_or_changed(log) -> None:
    rows = rows_of(log)
    for variant in (rows[:-1], numbered([*rows[:-1], rows[0]]), numbered([*rows, rows[-1]])):
        put(log, variant)
        with pytest.raises(TamperedLogError):
            log.append("join", "new")
        assert rows_of(log) == variant


def test_a_rewritten_history_is_found_by_a_head_noted_elsewhere(log, tmp_path: Path) -> None:
    noted = log.head
    log.append("join", "east")
    assert log.verify(noted) == len(STORY) + 1
    forged = MembershipLog(tmp_path / "forged.db")
    for event, site, facts in STORY[:2] * 5:
        forged.append(event, site, **facts)
    assert forged.verify() == 10  # a whole new chain is consistent in itself
    with pytest.raises(TamperedLogError):
        forged.verify(noted)
    with pytest.raises(TamperedLogError):
        forged.verify((99, noted[1]))


@pytest.mark.parametrize("head", ["", "x", f"{len(STORY)} {'0' * 64}", "1" * 5000, "9 a", None])
def test_a_missing_or_damaged_head_is_found(log, head) -> None:
    with log.store.transaction() as db:
        if head is None:
            db.execute("DELETE FROM singles")
        else:
            db.execute("UPDATE singles SET value = ? WHERE name = 'head'", (head,))
    with pytest.raises(TamperedLogError):
        log.verify()
    with pytest.raises(TamperedLogError):
        log.append("join", "new")


def test_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "members.db").write_bytes(b"join north" * 1000)
    with pytest.raises(FileFormatError, match=r"members\.db: not a federation state file, or damaged"):
        MembershipLog(tmp_path / "members.db").append("join", "north")


def test_entries_of_another_kind_of_log_are_none(tmp_path: Path) -> None:
    SiteLog(tmp_path / "site.db").append("paused", "north")
    with pytest.raises(TamperedLogError, match="entry 1 of the log is none"):
        MembershipLog(tmp_path / "site.db").verify()


def test_an_entry_costs_the_same_in_a_long_log(tmp_path: Path) -> None:
    """By the steps that SQLite takes, which no other load changes."""
    log = MembershipLog(tmp_path / "members.db")

    def steps() -> int:
        taken = []
        with log.store.transaction() as db:
            db.set_progress_handler(lambda: taken.append(1), 1)  # type: ignore[func-returns-value,arg-type]
            log.append("join", "north")
        return len(taken)

    with log.store.transaction():
        for _ in range(100):
            log.append("join", "north")
    few = steps()
    with log.store.transaction():
        for _ in range(3000):
            log.append("join", "north")
    assert steps() <= 2 * few


def test_long_entries_are_read_back(tmp_path: Path) -> None:
    log = MembershipLog(tmp_path / "members.db")
    for number in range(3):
        log.append("join", f"site{number}", classes=list(range(5000)))
    assert log.verify() == 3


@pytest.mark.parametrize(
    "facts",
    [
        {"x": float("nan")},
        {"x": {"a": 1}},
        {"x": [[1]]},
        {"x": "a\nb"},
        {"x": "y" * 501},
        {"x": b"y"},
        {"é": 1},
    ],
)
def test_facts_must_be_plain_values(log, facts) -> None:
    with pytest.raises(InvalidInputError):
        log.append("join", "a", **facts)
    assert log.verify() == len(STORY)


def test_unknown_events_and_bad_names_are_refused(log) -> None:
    with pytest.raises(InvalidInputError, match="join"):
        log.append("party", "a")
    with pytest.raises(InvalidInputError):
        log.append("join", "a\nb")
    assert set(MembershipEvent) >= {"join", "leave", "re-join", "forget", "class-added", "class-removed"}


WORKER = """
import sys
from onefold.federated.access.log import MembershipLog
log = MembershipLog(sys.argv[1])
for number in range(20):
    log.append("join", f"{sys.argv[2]}.{number}")
"""


@pytest.mark.merge
def test_many_processes_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "members.db"
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(path), f"site{i}"]) for i in range(3)]
    assert [worker.wait() for worker in workers] == [0] * 3
    log = MembershipLog(path)
    assert log.verify() == 60
    for i in range(3):  # each writer's entries, in its order
        mine = [entry.site for entry in log if entry.site.startswith(f"site{i}.")]
        assert mine == [f"site{i}.{number}" for number in range(20)]
