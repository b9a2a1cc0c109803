"""The price of a test: an unmarked one must be cheap, in units of a yardstick that is timed first.

``make test`` runs what has no mark, ``make merge`` what is marked ``merge``, ``make nightly`` everything.
Costs are seconds of processor time, those of child processes included, and what a shared fixture costs is its
own: only the body of a test is judged. A slow or busy machine takes longer for the yardstick too, so that
the same limits hold on every machine.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Container, Generator, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

TIERS = ("merge", "nightly")
WARN, FAIL = 1.0, 3.0  # seconds of a machine on which the yardstick takes YARDSTICK
YARDSTICK = 0.043
LISTED = 60  # marked tests


def processor_time() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def yardstick() -> float:
    """Seconds of processor time that a fixed piece of work takes, the least of five."""
    return min(_work() for _ in range(5))


def _work() -> float:
    start = time.process_time()
    counts: dict[int, float] = {}
    for number in range(300_000):
        counts[number % 1009] = counts.get(number % 1009, 0.0) + number / 3
    matrix = np.random.default_rng(0).normal(size=(150, 150))
    for _ in range(60):
        matrix = np.tanh(matrix @ matrix / 12)
    return time.process_time() - start


def verdict(cost: float, speed: float, marked: bool) -> str | None:
    """``"warn"`` or ``"fail"`` for a test of this cost on a machine of this speed, or None."""
    units = cost / (speed / YARDSTICK)
    if marked or units <= WARN:
        return None
    return "warn" if units <= FAIL else "fail"


class Prices:
    """The plugin: it times the yardstick once per run and every test against it."""

    def __init__(self, config: pytest.Config) -> None:
        given = getattr(config, "workerinput", None)
        self.speed: float = given["yardstick"] if given else yardstick()
        self.start = processor_time()
        self.spent: dict[str, tuple[str | None, float]] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand the yardstick to a worker: workers would time it while others are at work."""
        node.workerinput["yardstick"] = self.speed

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
        """Time the body of a test."""
        start = processor_time()
        result = yield
        cost = processor_time() - start
        marked = any(pyfuncitem.get_closest_marker(tier) for tier in TIERS)
        judged = verdict(cost, self.speed, marked)
        if judged == "fail":  # or the machine has become slower since
            judged = verdict(cost, max(self.speed, yardstick()), marked)
        if judged == "fail":
            pytest.fail(
                f"{cost:.1f} s of processor time (the yardstick takes {self.speed:.2f} s): more than "
                f"{FAIL:g} s of an unmarked test. Make it cheaper, or mark it merge or nightly",
                pytrace=False,
            )
        if judged == "warn" or marked:
            pyfuncitem.user_properties.append(("price", (judged, round(cost, 1))))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the warnings of all workers."""
        price = dict(report.user_properties).get("price")
        if report.when == "call" and price is not None:
            self.spent[report.nodeid] = tuple(price)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """List what is dearer than it should be, the dearest of the marked tests, and what the run cost."""
        prices = sorted(self.spent.items(), key=lambda entry: -entry[1][1])
        marked = [entry for entry in prices if entry[1][0] is None][:LISTED]
        for test, (judged, price) in prices:
            if judged or (test, (judged, price)) in marked:
                terminalreporter.write_line(
                    f"{'DEAR' if judged else 'marked:'} {price:.1f} s of processor time: {test}"
                )
        total = processor_time() - self.start
        terminalreporter.write_line(
            f"processor time: {total:.0f} s, {total / (self.speed / YARDSTICK):.0f} s at the yardstick's pace"
        )


# --- cases of a parametrised test --------------------------------------------------------------------------


def later(cases: Iterable[Any], fast: Container[Any] | Callable[[Any], bool]) -> list[Any]:
    """Mark all cases ``merge`` but those that are, or that a function says are, for the fast tier."""
    keep = fast if callable(fast) else fast.__contains__
    return [
        case
        if keep(case)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.merge)
        for case in cases
    ]


def thinned(*axes: Iterable[Any]) -> list[Any]:
    """All combinations, of which those run before the night that show every value of every axis once."""
    values = [list(axis) for axis in axes]
    kept = {tuple(k % len(axis) for axis in values) for k in range(max(map(len, values)))}
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(values, places, strict=True)),
            marks=() if places in kept else pytest.mark.nightly,
        )
        for places in itertools.product(*(range(len(axis)) for axis in values))
    ]


def examples(fast: int, night: int) -> int:
    """How many random examples a test takes: few that are always the same, more where new ones are sought."""
    return night if settings.get_current_profile_name() == "search" else fast


def first_of(kind: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Say of cases, asked one after the other, whether they are the first of their kind."""
    seen: set[Any] = set()

    def is_first(case: Any) -> bool:
        new = kind(case) not in seen
        seen.add(kind(case))
        return new

    return is_first
