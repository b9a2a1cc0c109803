"""Starting, watching and stopping Flower's processes, so that none is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from onefold.exceptions import FederationError
from onefold.federated.flower.environment import MARK

__all__ = ["Process", "Watch", "free_port", "wait_until"]

PATIENCE = 10.0
PAUSE = 0.5


class Process:
    """One long-running program, its output in a file, with everything it started itself.

    Parameters
    ----------
    arguments : the command. environment : its variables, with a mark. log : file to append to.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._mark = environment[MARK]
        self._start = log.stat().st_size if log.exists() else 0
        self._log = log
        with _append_private(log) as output:
            # A session of its own: an interrupt from the keyboard reaches us, and we stop it in order.
            self._process = subprocess.Popen(
                list(arguments),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def output(self) -> str:
        """What it has printed since it was started."""
        with self._log.open("rb") as file:
            file.seek(self._start)
            return file.read().decode("utf-8", "replace")

    def stop(self, patience: float = PATIENCE) -> None:
        """Ask it to end, then make it; the same for whatever it started."""
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        _end_marked(self._mark, patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Watch:
    """Calls a check twice a second in the background, until it is closed or the check fails.

    Parameters
    ----------
    check : what to call. stop : called once when the watch is closed.
    """

    def __init__(self, check: Callable[[], None], stop: Callable[[], None]) -> None:
        self._check, self._stop = check, stop
        self._closing = threading.Event()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._check()
                self._closing.wait(PAUSE)
        except Exception as error:  # whoever closes the watch is told
            self.error = error

    def close(self) -> None:
        """Stop; raise what the check failed with, if it did."""
        self._closing.set()
        self._thread.join()
        self._stop()
        if self.error is not None:
            raise self.error

    @staticmethod
    def until(check: Callable[[], None], seconds: float | None, keep_going: Callable[[], bool]) -> None:
        """Call a check twice a second here, for some time or until told to stop."""
        end = None if seconds is None else time.monotonic() + seconds
        while keep_going() and (end is None or time.monotonic() < end):
            check()
            time.sleep(PAUSE)


def _append_private(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def _marked(mark: str) -> list[int]:
    """Processes that carry a mark in their environment (on Linux; elsewhere they end with their parent)."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = entry.read_bytes().split(b"\0")
        except OSError:  # not ours, or gone
            continue
        if wanted in variables and int(entry.parent.name) != os.getpid():
            found.append(int(entry.parent.name))
    return found


def _end_marked(mark: str, patience: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _marked(mark):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + patience
        while _marked(mark):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)


def wait_until(
    condition: Callable[[], bool], seconds: float, what: str, process: Process | None = None
) -> None:
    """Wait for a condition; say what did not happen when time is up or the process has ended."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and not process.is_running:
            raise FederationError(f"{what}: the process has ended, see its log")
        if time.monotonic() > deadline:
            raise FederationError(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on at the moment."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
