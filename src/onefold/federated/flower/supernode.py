"""A site as a whole: Flower's SuperNode, started again when it ends, and stopped without a trace."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from onefold._base.optional import require
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.flower.connection import Finding, clock_ahead, look_at
from onefold.federated.flower.environment import command, make_environment
from onefold.federated.flower.folders import SiteFolder, owner_only
from onefold.federated.flower.processes import Process, free_port

__all__ = ["Node"]

CONNECTED = "SuperNode ID:"
# A site that died is still taken to be there for a while, and not let in a second time until then; and a
# server that starts takes a while to know its sites.
GIVE_UP_SECONDS = 300.0
PAUSE = 2.0
# A server that is just stopping may say anything for a moment.
MOST_OTHERS = 5
# Seconds that the clocks of a site and of its server may differ; the server's is told to a second.
MOST_AHEAD, MOST_BEHIND = 4.0, 300.0


class Node:
    """A running site; leaving the ``with`` block stops everything it started.

    Parameters
    ----------
    folder : made by ``onefold federate init``, with a model in it (:meth:`Site.serve` checks that).
    say : is told what happens, in single lines.
    give_up : after how many seconds of being refused.
    """

    def __init__(
        self,
        folder: SiteFolder,
        say: Callable[[str], None] = lambda _: None,
        give_up: float = GIVE_UP_SECONDS,
    ) -> None:
        require("flwr", "federated")
        self.folder = folder
        self.settings = folder.settings
        self.say, self.give_up = say, give_up
        self._process: Process | None = None
        self._refused_since: float | None = None
        self._was_connected = False
        self._said_absent = False
        self._others = 0
        self._check_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id of the SuperNode."""
        return None if self._process is None else self._process.pid

    @property
    def is_connected(self) -> bool:
        """Whether the server has let the site in."""
        return self._process is not None and self._process.is_running and CONNECTED in self._process.output()

    def check(self) -> None:
        """To be called every second or so: start Flower's part, or start it again."""
        if self._process is not None and self.folder.kept_out.exists():
            raise FederationError(
                "the server keeps this site out: its columns, classes, measure, scale or model do not fit "
                "those of the members; onefold federate status there tells the reason"
            )
        if self._process is not None and self._process.is_running:
            if not self._was_connected and self.is_connected:
                self._was_connected, self._refused_since = True, None
                self.say("connected; waiting for queries")
            return
        if self._process is not None:
            self._note_ending()
        self._was_connected, self._process = False, None
        if self._is_server_there():
            environment = make_environment(self.folder)
            self.folder.kept_out.unlink(missing_ok=True)
            self._process = Process(self._arguments(), environment, self.folder.process_log)

    def stop(self) -> None:
        """Leave the server and end everything."""
        if self._process is not None:
            self._process.stop()

    def _note_ending(self) -> None:
        """The SuperNode ended by itself: wait a little, and give up when it is never let in."""
        assert self._process is not None
        self._process.stop()
        now = time.monotonic()
        if self._refused_since is None or self._was_connected:
            self._refused_since = now
            self.say(f"not let in, or connection lost{self._wrong_clock()}; trying again")
        if now - self._refused_since > self.give_up:
            raise FederationError(
                "the server does not let this site in: its key is not registered, it was removed, or it runs "
                f"elsewhere already{self._wrong_clock()}"
            )
        time.sleep(PAUSE)

    def _wrong_clock(self) -> str:
        """Flower takes signatures that are some minutes old or a few seconds in the future, and no others."""
        ca = None if self.settings.insecure else self.folder.ca
        ahead = clock_ahead(self.settings.host, self.settings.port, ca)
        if -MOST_BEHIND < ahead < MOST_AHEAD:
            return ""
        side = "ahead of" if ahead > 0 else "behind"
        return f" (this machine's clock is {abs(ahead):.0f} s {side} the server's: set it right)"

    def _is_server_there(self) -> bool:
        """Look for the server, and refuse one that is not ours: Flower itself would try for ever."""
        ca = None if self.settings.insecure else self.folder.ca
        finding = look_at(self.settings.host, self.settings.port, ca)
        if finding is Finding.ABSENT:
            self._refused_since = None
            if not self._said_absent:
                self.say(f"no server at {self.settings.host}:{self.settings.port} yet; waiting")
        self._said_absent = finding is Finding.ABSENT
        if finding is Finding.UNTRUSTED:
            raise FederationError("this is not our server: its certificate is not signed by ca.crt")
        self._others = self._others + 1 if finding is Finding.OTHER else 0
        if self._others > MOST_OTHERS:
            raise FederationError(
                "this is not our server: it does not speak the way it should (TLS or plaintext)"
            )
        return finding is Finding.READY

    def _arguments(self) -> list[str]:
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        own = [
            "--superlink",
            f"{host}:{self.settings.port}",
            "--host",
            "127.0.0.1",
            "--port",
            str(free_port()),
        ]
        if self.settings.insecure:
            return command("flower-supernode", "--insecure", *own)
        secure = ["--root-certificates", str(self.folder.ca.resolve())]
        secure += ["--auth-supernode-private-key", str(self.folder.key.resolve())]
        return command("flower-supernode", *secure, *own)

    def _check_files(self) -> None:
        if self.settings.insecure:
            return
        _require_file(self.folder.ca, "ask the server's owner for the folder of this site")
        make = 'ssh-keygen -t ecdsa -b 384 -N "" -f node.key'
        _require_file(self.folder.key, f"make one with {make} and have the server's owner add node.key.pub")
        if not owner_only(self.folder.key):
            raise InvalidInputError(f"{self.folder.key}: others can read this key; chmod 600 it")


def _require_file(path: Path, else_do: str) -> None:
    if not path.is_file():
        raise InvalidInputError(f"{path}: no such file; {else_do}")
