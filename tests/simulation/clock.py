"""A clock that only the simulation moves, and randomness that only the seed decides.

They take the place of ``time`` and ``secrets`` in the modules of onefold, of ``time.time`` where it is the
default of a parameter, of the system's random bytes below noise, and of the names of temporary files. Nothing
else in this process sees the clock.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from flwr.supercore.task_identity import TaskIdentity

from onefold.federated.flower import federation, server_app, site  # noqa: F401  # patched below, so loaded now
from onefold.privacy import samplers

START = 1_800_000_000.0


class Clock:
    """Seconds since 1970, which jump, and seconds since the start, which do not."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.offset = START

    def time(self) -> float:
        return self.now + self.offset

    def monotonic(self) -> float:
        return self.now


class Source:
    """What the patched modules see: the clock and the randomness of the world that runs now."""

    clock: Clock
    random: random.Random
    sleep: Callable[[float], None]
    names: Iterator[int]


class _Time:
    """The module ``time`` as onefold sees it."""

    def time(self) -> float:
        return Source.clock.time()

    def monotonic(self) -> float:
        return Source.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        Source.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class _Secrets:
    """The module ``secrets`` as onefold sees it."""

    def token_bytes(self, count: int) -> bytes:
        return Source.random.randbytes(count)

    def token_hex(self, count: int) -> str:
        return Source.random.randbytes(count).hex()

    def __getattr__(self, name: str) -> Any:  # anything else would not follow from the seed
        raise AssertionError(f"secrets.{name} is not simulated")


class _Names:
    """Names of temporary files."""

    def __iter__(self) -> _Names:
        return self

    def __next__(self) -> str:
        return f"{next(Source.names):08d}"


def _functions() -> Iterator[FunctionType]:
    """Every function and method of a federation."""
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("onefold.federated"):
            continue
        for found in list(vars(module).values()):
            if inspect.isfunction(found):
                yield found
            elif inspect.isclass(found) and found.__module__.startswith("onefold."):
                for each in list(vars(found).values()):
                    inner = getattr(each, "__func__", each)
                    if inspect.isfunction(inner):
                        yield inner


@contextmanager
def simulated() -> Iterator[None]:
    """Let the modules of onefold see :class:`Source` while the block runs."""
    undo: list[Callable[[], None]] = []

    def put(where: Any, name: str, value: Any) -> None:
        old = getattr(where, name)
        undo.append(lambda: setattr(where, name, old))
        setattr(where, name, value)

    fake, hidden = _Time(), _Secrets()
    for name, module in list(sys.modules.items()):
        if name.startswith("onefold."):
            if vars(module).get("time") is time:
                put(module, "time", fake)
            if vars(module).get("secrets") is secrets:
                put(module, "secrets", hidden)
    for function in {id(each): each for each in _functions()}.values():
        named = function.__kwdefaults__ or {}
        if any(value is time.time for value in named.values()):
            changed = {key: fake.time if value is time.time else value for key, value in named.items()}
            put(function, "__kwdefaults__", changed)
        if any(value is time.time for value in function.__defaults__ or ()):
            put(
                function,
                "__defaults__",
                tuple(fake.time if value is time.time else value for value in function.__defaults__ or ()),
            )
    put(samplers, "_system_bytes", lambda count: Source.random.randbytes(count))
    for name in ("_run_id", "_node_id", "_task_id"):  # Flower wants to know whose process this is
        put(TaskIdentity, name, 1)
    tempfile._get_candidate_names()  # type: ignore[attr-defined]  # there must be one to put back
    put(tempfile, "_name_sequence", _Names())
    logger, quiet = logging.getLogger("onefold"), logging.NullHandler()
    logger.addHandler(quiet)  # so that no process of the simulation opens a log of its own
    undo.append(lambda: logger.removeHandler(quiet))
    put(logger, "propagate", False)
    try:
        yield
    finally:
        for step in reversed(undo):
            step()


def begin(clock: Clock, source: random.Random, sleep: Callable[[float], None]) -> None:
    """Let a world be the one that runs."""
    Source.clock, Source.random, Source.sleep = clock, source, sleep
    Source.names = itertools.count()
