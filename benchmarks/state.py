"""What one more row costs in a store that holds many: entering is flat, however long the account is."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.data import QUICK, Sizes
from benchmarks.timing import Row
from onefold._base.state import State
from onefold.privacy import Event, Guarantee, Ledger, charge

FEW, MANY = 100, 10_000
GOAL = "<= 2"
RELEASE = Guarantee("record", (0.01, 1e-9), (0.01, 1e-9), 4)
TABLE = ("CREATE TABLE seen (mark TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT",)


def rows(sizes: Sizes) -> list[Row]:
    """Ledgers far from their limit, near it, with releases of all different sizes; and any other table."""
    many = MANY if sizes != QUICK else 10 * FEW
    cases: dict[str, Callable[[Path, int], Callable[[], object]]] = {
        "charge of a ledger": lambda path, n: _ledger(path, n, Ledger(1e6), same=True),
        "charge near the limit": lambda path, n: _ledger(path, n, Ledger(0.009 * n, 1e-2), same=True),
        "charge of a ledger of unequal releases": lambda path, n: _ledger(path, n, Ledger(1e6), same=False),
        "row of a table": _table,
    }
    with tempfile.TemporaryDirectory() as folder:
        return [_compared(name, Path(folder), make, many) for name, make in cases.items()]


def _compared(name: str, folder: Path, make: Callable[[Path, int], Callable[[], object]], many: int) -> Row:
    acts = {n: make(folder / f"{name} {n}", n) for n in (FEW, many)}
    seconds: dict[int, list[float]] = {n: [] for n in acts}
    for _ in range(31):  # in turn: what else the machine does meets both
        for n, act in acts.items():
            start = time.process_time()
            act()
            seconds[n].append(time.process_time() - start)
    few, much = (statistics.median(seconds[n]) for n in acts)
    details = {f"seconds at {n}": statistics.median(times) for n, times in seconds.items()}
    return Row(f"{name}: {many} beside {FEW}", much / few, GOAL, details)


def _ledger(path: Path, n: int, ledger: Ledger, *, same: bool) -> Callable[[], object]:
    """A ledger with so many events: those before the last in one go."""
    limits, ledger.limit_epsilon, ledger.limit_delta = (ledger.limit_epsilon, ledger.limit_delta), None, None
    events = [Event("release", "record", 0.01 if same else 0.01 + i * 1e-7, 1e-9) for i in range(n)]
    with ledger._open(change=True) as db:
        for event in events:
            ledger._append(db, event)
    ledger.limit_epsilon, ledger.limit_delta = limits
    ledger.save(path)
    return lambda: charge(path, RELEASE, "release")


def _table(path: Path, n: int) -> Callable[[], object]:
    store = State(path, "table", TABLE)
    store.create()
    with store.transaction() as db:
        db.executemany("INSERT INTO seen VALUES (?, ?)", ((f"{i * 7919 % n:032x}", i) for i in range(n)))
    count = iter(range(n, 2 * n))

    def enter() -> None:
        with store.transaction() as db:
            number = next(count)
            db.execute("INSERT INTO seen VALUES (?, ?)", (f"{number * 7919:064x}", number))

    return enter
