"""Measuring: best of several runs, and the memory a call needs on top of what there was."""

import gc
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the result: a ratio, the goal it is held against, and how it came about."""

    name: str
    ratio: float
    goal: str | None  # ">= 20" or "<= 4"; None where there is no goal and the number is only printed
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        relation, limit = self.goal.split()
        return self.ratio >= float(limit) if relation == ">=" else self.ratio <= float(limit)


def best(
    function: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Shortest of several timed calls, in seconds of a clock: the wall's, or ``time.process_time``."""
    times = []
    for _ in range(repeats):
        gc.collect()
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def resident() -> int:
    """Memory of this process in bytes, as the system counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def peak_above(function: Callable[[], Any]) -> tuple[Any, float, int]:
    """Result, seconds, and the peak of resident memory above its level before the call, sampled."""
    gc.collect()
    before, highest, done = resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.02):
            highest = max(highest, resident() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        result = function()
        seconds = time.perf_counter() - start
    finally:
        done.set()
        watcher.join()
    return result, seconds, max(highest, resident() - before)
