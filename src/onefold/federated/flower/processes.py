"""Flower's processes: what they see, how they are started, watched and stopped, and is a server there?"""

import http.client
import json
import os
import secrets
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Self

from onefold._base.files import open_file, read_saved, write_whole
from onefold.exceptions import FederationError
from onefold.federated.flower import launch
from onefold.federated.flower.folders import SERVER_VARIABLE, SITE_VARIABLE, ServerFolder, SiteFolder

# --- what they see: no telemetry, no downloads, and the only programs they may start ------------------------


# Every process of one start carries the same random mark, by which none of them is left behind.
MARK = "ONEFOLD_MARK"
CONNECTION = "onefold"
SETTINGS = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "PYTHONUNBUFFERED": "1",
}
# What would send these processes elsewhere than to their own server.
UNWANTED = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSLKEYLOGFILE")


def make_environment(folder: ServerFolder | SiteFolder) -> dict[str, str]:
    """Environment variables for the processes of one folder; writes the programs and the secret they need."""
    folder.prepare()
    _write_programs(folder.commands)
    if not folder.secret.exists():
        write_whole(folder.secret, secrets.token_hex(32).encode())
    read_saved(folder.secret, "there is no secret", len, secret=True)  # the processes read it themselves
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FLWR_", "ONEFOLD_")) and name.upper() not in UNWANTED
    }
    is_server = isinstance(folder, ServerFolder)
    own = SERVER_VARIABLE if is_server else SITE_VARIABLE
    return {
        **kept,
        **SETTINGS,
        # A site looks for messages to answer; a server only for the one run that it starts.
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "1.0" if is_server else "0.2",
        "PATH": os.pathsep.join([str(folder.commands.resolve()), kept.get("PATH", os.defpath)]),
        "FLWR_HOME": str(folder.flower_home.resolve()),
        launch.SECRET_VARIABLE: str(folder.secret.resolve()),
        launch.PARENT_VARIABLE: str(os.getpid()),
        own: str(folder.root.resolve()),
        MARK: secrets.token_hex(16),
    }


def command(program: str, *arguments: str) -> list[str]:
    """How to start one of Flower's programs."""
    return [sys.executable, str(Path(launch.__file__).resolve()), program, *arguments]


def _write_programs(folder: Path) -> None:
    for program in launch.PROGRAMS:
        path = folder / program
        text = f'#!/bin/sh\nexec {shlex.join(command(program))} "$@"\n'
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_whole(path, text.encode())
            path.chmod(0o700)


def write_connection(folder: ServerFolder, address: str) -> None:
    """Where Flower's own command finds the SuperLink."""
    ca = json.dumps(str(folder.ca.resolve()))  # a JSON string is a TOML string
    security = "insecure = true" if folder.settings.insecure else f"root-certificates = {ca}"
    lines = ["[superlink]", f'default = "{CONNECTION}"', "", f"[superlink.{CONNECTION}]"]
    lines += [f'address = "{address}"', security, ""]
    write_whole(folder.flower_home / "config.toml", "\n".join(lines).encode())


# --- starting, watching and stopping, so that none is left behind -------------------------------------------


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
        with open_file(log, "ab") as output:
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

    def has(self, pid: int) -> bool:
        """Whether a process is one of those that this one started, or that those started."""
        if Path("/proc/self/environ").exists():
            return _has_mark(Path(f"/proc/{pid}/environ"), self._mark)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    def end(self, pid: int) -> None:
        """End one of those processes at once, if it is still there."""
        if self.has(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

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


class Background:
    """What runs in the background of this process until it is stopped or a ``with`` block is left."""

    _watch: Watch | None = None

    def stop(self) -> None:
        """Stop what this object started; does nothing if it started nothing.

        Raises
        ------
        FederationError
            If it had failed before, for example because the server refused a site.
        """
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _marked(mark: str) -> list[int]:
    """Processes that carry a mark in their environment (on Linux; elsewhere they end with their parent)."""
    entries = [entry for entry in Path("/proc").glob("[0-9]*/environ") if _has_mark(entry, mark)]
    return [int(entry.parent.name) for entry in entries if int(entry.parent.name) != os.getpid()]


def _has_mark(entry: Path, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in entry.read_bytes().split(b"\0")
    except OSError:  # not ours, or gone
        return False


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


# --- a first look at a server before Flower is started ------------------------------------------------------


SECONDS = 5.0


class ServerState(StrEnum):
    """What a look at an address found."""

    READY = "ready"
    ABSENT = "absent"  # nobody answers there
    UNTRUSTED = "untrusted"  # a certificate that the authority did not sign, or for another host
    OTHER = "other"  # plaintext where TLS is expected, or the other way round, or no SuperLink at all


def look_at(host: str, port: int, ca: Path | None) -> ServerState:
    """Ask for the health of the SuperLink at an address; ``ca`` None asks in plaintext."""
    try:
        return ServerState.READY if _health(host, port, ca).status == 200 else ServerState.OTHER
    except ssl.SSLCertVerificationError:
        return ServerState.UNTRUSTED
    except (ssl.SSLError, http.client.HTTPException):
        return ServerState.OTHER
    except OSError:
        return ServerState.ABSENT


def clock_ahead(host: str, port: int, ca: Path | None) -> float:
    """Seconds by which this machine's clock is ahead of the server's, to a second; 0 if it does not say."""
    try:
        told = parsedate_to_datetime(_health(host, port, ca).headers["Date"]).timestamp()
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return 0.0
    return time.time() - told


def _health(host: str, port: int, ca: Path | None) -> http.client.HTTPResponse:
    if ca is None:
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    else:
        context = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)
    try:
        connection.request("GET", "/health")
        return connection.getresponse()
    finally:
        connection.close()
