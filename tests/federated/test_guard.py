"""The guard: limits hold to the row, for every caller by itself, for many processes, and after a restart."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onefold.exceptions import FileFormatError, InvalidInputError, QueryRefused
from onefold.federated.access.guard import QueryGuard
from onefold.federated.access.store import Store
from onefold.federated.messages import FailureCode


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "counts.db"


def refused(guard: QueryGuard, caller: str, n_rows: int) -> str:
    with pytest.raises(QueryRefused) as caught:
        guard.admit(caller, n_rows)
    assert FailureCode(caught.value.code) is caught.value.code
    return str(caught.value.code)


def test_spent_total_is_never_given_back(path) -> None:
    clock = Clock()
    guard = QueryGuard(None, 10, path, clock=clock)
    guard.admit("a", 6)
    assert refused(guard, "a", 5) == "budget-spent"
    guard.admit("a", 4)  # the refused query was not counted
    clock.now += 1e9
    assert refused(guard, "a", 1) == "budget-spent"
    guard.admit("b", 10)  # each caller by itself
    assert (guard.spent("a"), guard.remaining("a"), guard.spent("c"), guard.remaining("c")) == (10, 0, 0, 10)


def test_rows_per_minute_are_counted_over_the_last_sixty_seconds(path) -> None:
    clock = Clock()
    guard = QueryGuard(10, None, path, clock=clock)
    guard.admit("a", 6)
    clock.now += 30
    guard.admit("a", 4)
    assert refused(guard, "a", 1) == "rate-limited"
    clock.now += 29.9
    assert refused(guard, "a", 1) == "rate-limited"
    clock.now += 0.1  # the first six are a minute old
    guard.admit("a", 6)
    assert refused(guard, "a", 1) == "rate-limited"
    assert guard.remaining("a") is None
    assert refused(guard, "b", 11) == "rate-limited"


def test_clock_set_back_grants_no_rows_and_blocks_nobody(path) -> None:
    clock = Clock()
    guard = QueryGuard(10, None, path, clock=clock)
    guard.admit("a", 9)
    clock.now -= 1e6
    assert refused(guard, "a", 2) == "rate-limited"
    guard.admit("a", 1)
    clock.now += 60.1
    guard.admit("a", 10)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no reason to fail
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 8), st.integers(0, 100)), max_size=30))
def test_guard_agrees_with_a_plain_count(requests) -> None:
    clock = Clock()
    guard = QueryGuard(12, 40, clock=clock)
    admitted: list[tuple[str, float, int]] = []
    for caller, n_rows, pause in requests:
        clock.now += pause
        ever = sum(rows for who, _, rows in admitted if who == caller)
        lately = sum(rows for who, when, rows in admitted if who == caller and clock.now - when < 60.0)
        if ever + n_rows > 40:
            assert refused(guard, caller, n_rows) == "budget-spent"
        elif lately + n_rows > 12:
            assert refused(guard, caller, n_rows) == "rate-limited"
        else:
            guard.admit(caller, n_rows)
            admitted.append((caller, clock.now, n_rows))
        assert guard.spent(caller) == sum(rows for who, _, rows in admitted if who == caller)


def test_many_small_queries_do_not_swell_the_file(tmp_path: Path) -> None:
    clock = Clock()
    guard = QueryGuard(100_000, None, tmp_path / "counts.db", clock=clock)
    for _ in range(300):
        clock.now += 0.01
        guard.admit("a", 1)
    assert guard.spent("a") == 300
    with guard.store.reading() as db:
        assert db.execute("SELECT count(*) FROM recent").fetchone()[0] <= 31
    clock.now += 58
    assert refused(guard, "a", 99_800) == "rate-limited"  # all 300 are younger than a minute


def test_a_restart_keeps_the_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    QueryGuard(100, 10, path).admit("a", 10)
    again = QueryGuard(100, 10, path)
    assert refused(again, "a", 1) == "budget-spent"
    assert path.stat().st_mode & 0o077 == 0  # nobody else's business


def test_number_of_new_querier_names_is_limited(path) -> None:
    guard = QueryGuard(None, 1, path, max_callers=3)
    for number in range(3):
        guard.admit(f"caller{number}", 1)
    assert refused(guard, "caller3", 1) == "unknown-caller"


@pytest.mark.parametrize("content", [b"{}", b"[" * 100_000, b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_file_refuses_everything(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "counts.db"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="damaged"):
        QueryGuard(1, 1, path).admit("a", 1)
    assert path.read_bytes() == content


@pytest.mark.parametrize("bad", [-5, 1.5, "many", None])
def test_counts_are_whole_numbers_from_zero_on(tmp_path: Path, bad: object) -> None:
    guard = QueryGuard(10, 10, tmp_path / "counts.db")
    guard.admit("a", 1)
    for table in ("counts", "recent"):
        with pytest.raises(FileFormatError), guard.store.transaction() as db:
            db.execute(f"UPDATE {table} SET rows = ?", (bad,))
    assert guard.spent("a") == 1


def test_guards_of_one_store_count_apart_and_change_together(tmp_path: Path) -> None:
    store = Store(tmp_path / "counts.db")
    one, other = QueryGuard(None, 10, store), QueryGuard(None, 5, store, name="other")

    def admit_both() -> None:
        with store.transaction():
            one.admit("a", 6)
            other.admit("a", 6)

    with pytest.raises(QueryRefused):
        admit_both()
    assert (one.spent("a"), other.spent("a")) == (0, 0)
    other.admit("a", 5)
    assert (one.spent("a"), other.spent("a")) == (0, 5)


def test_every_decision_is_written_to_the_log(caplog) -> None:
    guard = QueryGuard(None, 5)
    with caplog.at_level(logging.INFO, logger="onefold.federated.access.guard"):
        guard.admit("a", 5)
        refused(guard, "a", 1)
    assert [record.getMessage() for record in caplog.records] == [
        "admitted caller=a rows=5",
        "refused caller=a rows=1 code=budget-spent",
    ]


@pytest.mark.parametrize("bad", [0, -1, 1.5, float("nan"), "many", True])
def test_limits_and_rows_must_be_whole_numbers(bad) -> None:
    for make in (
        lambda: QueryGuard(bad, 1),
        lambda: QueryGuard(1, bad),
        lambda: QueryGuard(1, 1, max_callers=bad),
        lambda: QueryGuard(1, 1).admit("a", bad),
    ):
        with pytest.raises(InvalidInputError):
            make()
    with pytest.raises(InvalidInputError):
        QueryGuard(1, 1).admit("a\nadmitted caller=b", 1)


WORKER = """
import sys
from onefold.exceptions import QueryRefused
from onefold.federated.access.guard import QueryGuard
guard = QueryGuard(None, 40, sys.argv[1])
admitted = 0
for _ in range(20):
    try:
        guard.admit("shared", 1)
        admitted += 1
    except QueryRefused:
        pass
    guard.admit(sys.argv[2], 1)
print(admitted)
"""


@pytest.mark.merge
def test_many_processes_together_get_no_more_than_the_total(tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), f"own{i}"], stdout=subprocess.PIPE, text=True
        )
        for i in range(3)
    ]
    admitted = [int(worker.communicate()[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 3
    assert sum(admitted) == 40  # 60 asked
    guard = QueryGuard(None, 40, path)
    assert guard.spent("shared") == 40
    assert [guard.spent(f"own{i}") for i in range(3)] == [20] * 3


def test_many_threads_together_get_no_more_than_the_total(path) -> None:
    guard = QueryGuard(None, 50, path)
    admitted = []

    def ask() -> None:
        for _ in range(20):
            try:
                guard.admit("shared", 1)
            except QueryRefused:
                continue
            admitted.append(1)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == guard.spent("shared") == 50
