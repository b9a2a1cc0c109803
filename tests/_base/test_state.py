"""The store: all or nothing, durable, safe for several processes, refused when foreign."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from onefold._base import files, state
from onefold._base.state import State
from onefold.exceptions import FileFormatError, InvalidInputError

STEPS = ["CREATE TABLE notes (number INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT"]
WRITER = """
import sys
from onefold._base.state import State
store = State(sys.argv[1], "notebook", {steps!r})
store.create()
for number in range(25):
    with store.transaction() as db:
        db.execute("INSERT INTO notes (text) VALUES (?)", (f"{{sys.argv[2]}} {{number}}",))
"""


@pytest.fixture
def store(tmp_path) -> State:
    made = State(tmp_path / "notes.db", "notebook", STEPS)
    made.create()
    return made


def write(store: State, text: str) -> None:
    with store.transaction() as db:
        db.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def _write_two(store: State, second: str) -> None:
    with store.transaction() as db:
        db.execute("INSERT INTO notes (text) VALUES ('x')")
        db.execute(second)


def _fill(store: State) -> None:
    with store.transaction() as db:
        db.execute("PRAGMA max_page_count=1")
        for _ in range(100):
            db.execute("INSERT INTO notes (text) VALUES (?)", ("x" * 4000,))


def texts(store: State) -> list[str]:
    with store.reading() as db:
        return [text for (text,) in db.execute("SELECT text FROM notes ORDER BY number")]


def test_what_a_transaction_did_is_there(store) -> None:
    write(store, "one")
    store.create()
    write(store, "two")
    assert texts(store) == ["one", "two"]
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in store.path.parent.iterdir()] == ["notes.db"]


def test_failed_transaction_leaves_nothing(store) -> None:
    with pytest.raises(FileFormatError):
        _write_two(store, "NONSENSE")
    assert texts(store) == []


@pytest.mark.parametrize("moment", ["commit", "committed"])
def test_killed_process_leaves_all_or_nothing(store, moment) -> None:
    pid = os.fork()
    if pid == 0:
        files.fault = lambda name, *_: os.kill(os.getpid(), signal.SIGKILL) if name == moment else None
        write(store, "x")
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert texts(store) == (["x"] if moment == "committed" else [])
    write(store, "y")


def test_eight_writers_lose_nothing(tmp_path) -> None:
    path = tmp_path / "notes.db"
    command = [sys.executable, "-c", WRITER.format(steps=STEPS), str(path)]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(8)]
    assert [writer.wait() for writer in writers] == [0] * 8
    stored = texts(State(path, "notebook", STEPS))
    assert sorted(stored) == sorted(f"{writer} {number}" for writer in range(8) for number in range(25))


def test_threads_exclude_each_other(store) -> None:
    def count() -> None:
        for _ in range(20):
            with store.transaction() as db:
                (number,) = db.execute("SELECT count(*) FROM notes").fetchone()
                db.execute("INSERT INTO notes (text) VALUES (?)", (str(number),))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts(store) == [str(number) for number in range(80)]


def test_full_disk_is_an_error_of_the_system_and_loses_nothing(store) -> None:
    write(store, "one")
    with pytest.raises(OSError) as caught:
        _fill(store)
    assert files.is_disk_full(caught.value)
    assert str(store.path) in str(caught.value)
    assert texts(store) == ["one"]


def test_backup_is_whole_while_others_write(store, tmp_path) -> None:
    write(store, "one")
    with store.transaction() as db:
        db.execute("INSERT INTO notes (text) VALUES ('not yet')")
        store.backup(tmp_path / "copy.db")
    assert texts(State(tmp_path / "copy.db", "notebook", STEPS)) == ["one"]
    with pytest.raises(InvalidInputError, match="exists already"):
        store.backup(tmp_path / "copy.db")


def test_older_layout_is_brought_forward_after_a_backup(store) -> None:
    write(store, "one")
    newer = State(store.path, "notebook", [*STEPS, "ALTER TABLE notes ADD COLUMN pages INTEGER DEFAULT 1"])
    with newer.reading() as db:
        assert db.execute("SELECT text, pages FROM notes").fetchall() == [("one", 1)]
    assert texts(State(f"{store.path}.1.backup", "notebook", STEPS)) == ["one"]
    with pytest.raises(FileFormatError, match="of format 2, this version of onefold reads up to 1"):
        write(store, "two")


def test_failed_step_of_a_migration_leaves_the_old_layout(store) -> None:
    write(store, "one")
    with pytest.raises(FileFormatError):
        write(State(store.path, "notebook", [*STEPS, "CREATE TABLE more (a INTEGER); NONSENSE"]), "two")
    assert texts(store) == ["one"]


def test_foreign_files_are_refused(tmp_path) -> None:
    path = tmp_path / "x.db"
    store = State(path, "notebook", STEPS)
    with pytest.raises(InvalidInputError, match="there is no notebook at"):
        write(store, "x")
    path.write_bytes(b"some text that is no database" * 100)
    with pytest.raises(FileFormatError, match="not a notebook file, or damaged"):
        write(store, "x")
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE notes (number INTEGER)")
    db.close()
    with pytest.raises(FileFormatError, match="not a notebook file"):
        write(store, "x")


def test_damage_that_sqlite_quotes_is_told_in_one_line(store) -> None:
    store.path.write_bytes(store.path.read_bytes().replace(b"text TEXT NOT", b"text TE\xffT NOT"))
    with pytest.raises(FileFormatError, match=r"notes\.db: damaged$"):
        texts(store)


def test_waiting_for_a_dead_lock_ends(store, monkeypatch) -> None:
    monkeypatch.setattr(state, "PATIENCE", 0.05)
    other = State(store.path, "notebook", STEPS)
    with (
        store.transaction(),
        pytest.raises(OSError, match="another process keeps it locked"),
        other.transaction(),
    ):
        pass


def _write_and_fail(store: State, text: str, error: BaseException) -> None:
    with store.transaction():
        write(store, text)
        raise error


def test_transaction_inside_another_is_a_part_of_it(store) -> None:
    with store.transaction():
        write(store, "one")
        with pytest.raises(FileFormatError):
            _write_and_fail(store, "undone", FileFormatError("and the rest goes on"))
        write(store, "two")
        assert texts(store) == ["one", "two"]
        assert texts(State(store.path, "notebook", STEPS)) == []
    assert texts(store) == ["one", "two"]
    with pytest.raises(KeyboardInterrupt):
        _write_and_fail(store, "three", KeyboardInterrupt())
    assert texts(store) == ["one", "two"]
