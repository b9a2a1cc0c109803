"""The log: nothing is lost, and nothing can be edited, cut, added or moved without being found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onefold._base import files
from onefold.exceptions import InvalidInputError, TamperedLogError
from onefold.federated.log import MembershipEvent, MembershipLog

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
    log = MembershipLog(tmp_path / "members.log")
    for event, site, facts in STORY:
        log.append(event, site, **facts)
    return log


def test_entries_are_read_back_as_written(log) -> None:
    assert log.verify() == len(STORY)
    assert [(entry.event.value, entry.site, entry.facts) for entry in log] == STORY
    assert [entry.number for entry in log] == list(range(len(STORY)))
    assert log.members() == ("south", "north")
    again = MembershipLog(log.path)  # another process, later
    again.append("leave", "south")
    assert again.verify() == log.verify() == len(STORY) + 1
    assert log.members() == ("north",)


def test_empty_log_is_valid(tmp_path: Path) -> None:
    log = MembershipLog(tmp_path / "none.log")
    assert log.verify() == 0
    assert list(log) == []
    assert log.head == (0, "0" * 64)


def test_time_is_written_in_utc(tmp_path: Path) -> None:
    log = MembershipLog(tmp_path / "members.log", clock=lambda: 0.5)
    assert log.append("join", "a").time == "1970-01-01T00:00:00.500+00:00"


def test_every_single_changed_byte_is_found(log) -> None:
    content = log.path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        log.path.write_bytes(damaged)
        with pytest.raises(TamperedLogError):
            log.verify()
    log.path.write_bytes(content)
    assert log.verify() == len(STORY)


def test_every_missing_doubled_and_moved_line_is_found(log) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    n = len(lines)
    changed = [lines[:i] + lines[i + 1 :] for i in range(n)]  # one missing
    changed += [lines[:i] for i in range(n)]  # the end missing
    changed += [lines[i:] for i in range(1, n)]  # the beginning missing
    changed += [lines[: i + 1] + lines[i:] for i in range(n)]  # one doubled
    changed += [[*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]] for i in range(n - 1)]
    for variant in changed:
        log.path.write_bytes(b"".join(variant))
        with pytest.raises(TamperedLogError):
            log.verify()
    log.path.write_bytes(b"".join(lines))
    for cut in range(1, len(lines[-1])):  # the last line in part
        log.path.write_bytes(b"".join(lines)[:-cut])
        with pytest.raises(TamperedLogError):
            log.verify()


def test_the_same_content_written_differently_is_an_edit(log) -> None:
    lines = log.path.read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]), separators=(",", ":"))
    log.path.write_text("\n".join(lines) + "\n")
    with pytest.raises(TamperedLogError, match="line 2"):
        log.verify()


def test_nothing_is_appended_to_a_log_that_was_cut_or_changed(log) -> None:
    content = log.path.read_bytes()
    lines = content.splitlines(keepends=True)
    for variant in (
        b"".join(lines[:-1]),
        content[:-5],
        b"".join([*lines[:-1], lines[0]]),
        content + lines[-1],
    ):
        log.path.write_bytes(variant)
        with pytest.raises(TamperedLogError):
            log.append("join", "new")
        assert log.path.read_bytes() == variant


def test_a_rewritten_history_is_found_by_a_head_noted_elsewhere(log, tmp_path: Path) -> None:
    noted = log.head
    log.append("join", "east")
    assert log.verify(noted) == len(STORY) + 1
    forged = MembershipLog(tmp_path / "forged.log")
    for event, site, facts in STORY[:2] * 5:
        forged.append(event, site, **facts)
    assert forged.verify() == 10  # a whole new chain is consistent in itself
    with pytest.raises(TamperedLogError):
        forged.verify(noted)
    with pytest.raises(TamperedLogError):
        forged.verify((99, noted[1]))


def test_a_missing_or_damaged_head_is_found(log) -> None:
    head = Path(f"{log.path}.head")
    for content in (b"", b"[]", b"[" * 100_000, b'{"count": 1}'):
        head.write_bytes(content)
        with pytest.raises(TamperedLogError):
            log.verify()
    head.unlink()
    with pytest.raises(TamperedLogError):
        log.verify()
    with pytest.raises(TamperedLogError):
        log.append("join", "new")


def test_a_writer_that_died_half_way_does_no_harm(log) -> None:
    head = Path(f"{log.path}.head")
    before = head.read_bytes()
    log.append("leave", "south")
    head.write_bytes(before)  # died between the line and the head: the line is whole
    assert log.verify() == len(STORY) + 1
    assert log.append("re-join", "south").number == len(STORY) + 1
    assert log.verify() == len(STORY) + 2
    with open(log.path, "ab") as file:
        file.write(b'{"number": 8, "ti')  # died within the line: nobody was told it is there
    assert log.verify() == len(STORY) + 2
    log.append("leave", "south")
    assert log.verify() == len(STORY) + 3


def test_a_line_that_a_killed_writer_left_is_synced_before_the_head_names_it(log, monkeypatch) -> None:
    """Otherwise a power failure could leave a head without its line: a log that was cut."""
    before = log.path.with_name(log.path.name + ".head").read_bytes()
    log.append("leave", "north")
    log.path.with_name(log.path.name + ".head").write_bytes(before)  # where the writer was killed
    steps: list[tuple[str, bool]] = []
    monkeypatch.setattr(files, "fault", lambda step, *what: steps.append((step, isinstance(what[0], int))))
    count = log.head[0]
    assert count == log.verify()
    assert steps[:2] == [("sync", True), ("sync folder", False)]
    assert [step for step, _ in steps[2:]] == ["make", "write", "sync", "rename", "sync folder"]


def test_long_lines_are_read_back(tmp_path: Path) -> None:
    log = MembershipLog(tmp_path / "members.log")
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
from onefold.federated.log import MembershipLog
log = MembershipLog(sys.argv[1])
for number in range(20):
    log.append("join", f"{sys.argv[2]}.{number}")
"""


@pytest.mark.merge
def test_many_processes_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "members.log"
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(path), f"site{i}"]) for i in range(3)]
    assert [worker.wait() for worker in workers] == [0] * 3
    log = MembershipLog(path)
    assert log.verify() == 60
    for i in range(3):  # each writer's entries, in its order
        mine = [entry.site for entry in log if entry.site.startswith(f"site{i}.")]
        assert mine == [f"site{i}.{number}" for number in range(20)]
