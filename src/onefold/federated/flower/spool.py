"""Between the one who asks and the run at the server: a folder of requests and one of replies.

Only the server's account can enter the folder, so every request is from that account. Files appear
whole or not at all; a request that nobody fetched and a reply that nobody read are swept away later.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onefold._base.frames import join_frames, split_frames
from onefold.exceptions import FederationError, MessageError, OnefoldError
from onefold.federated.flower.folders import private_folder, write_private
from onefold.federated.messages import (
    Message,
    Query,
    QueryKey,
    check_digest,
    check_name,
    from_bytes,
    to_bytes,
)
from onefold.federated.queriers import AnySignature, read_signature

__all__ = ["Reply", "Request", "Spool"]

STALE_SECONDS = 3600.0
# Evaluation keys are large, and asked for again when they are gone.
UNUSED_KEYS_SECONDS = 30 * 24 * 3600.0
# The run writes its sign of life every second; longer than this and it is taken for dead.
SILENCE = 15.0
SILENT_LOOKS = 600
NOT_RUNNING = "the server is not running: start it with onefold federate server, or Federation.start()"


@dataclass(frozen=True)
class Request:
    """A query, who asks, how many seconds the sites have, under which query key, and the signature."""

    query: Query
    caller: str
    timeout: float
    lock: QueryKey | None = None
    signature: AnySignature | None = None


@dataclass(frozen=True)
class Reply:
    """Who was expected to answer, and what came: answers and failures."""

    expected: tuple[str, ...]
    messages: tuple[Message, ...]

    def to_bytes(self) -> bytes:
        """The reply in one run of bytes."""
        return join_frames([_json({"expected": list(self.expected)}), *map(to_bytes, self.messages)])

    @classmethod
    def from_bytes(cls, content: bytes) -> Reply:
        """Read what :meth:`to_bytes` wrote."""
        first, *rest = split_frames(content)
        return cls(tuple(map(str, json.loads(first)["expected"])), tuple(map(from_bytes, rest)))


class Spool:
    """The two folders, and the run's sign of life beside them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def submit(self, request: Request) -> None:
        """Hand a request in."""
        meta: dict[str, Any] = {
            "caller": check_name("a querier's name", request.caller),
            "timeout": request.timeout,
        }
        if request.signature is not None:
            meta["signature"] = request.signature.to_dict()
        messages: list[Message] = [request.query]
        messages += [] if request.lock is None else [request.lock]
        write_private(self._request(request.query.id), join_frames([_json(meta), *map(to_bytes, messages)]))

    def take(self) -> list[Request]:
        """Requests that have come in, oldest first; they are gone from the folder."""
        found = []
        for path in sorted((self.root / "requests").glob("*.request"), key=_age):
            with suppress(OSError, ValueError, KeyError, OnefoldError):  # not one of ours: it is dropped
                found.append(_request(path.read_bytes()))
            path.unlink(missing_ok=True)
        return found

    def deliver(self, query_id: str, reply: Reply) -> None:
        """Put down what came."""
        write_private(self._reply(query_id), reply.to_bytes())

    def wait(self, query_id: str, seconds: float, is_busy: Callable[[], bool] = lambda: False) -> Reply:
        """The reply to a request of ours; later than ``seconds`` only while it is being worked on."""
        path = self._reply(query_id)
        deadline = time.monotonic() + seconds
        silent = 0
        while not path.exists():
            # Many looks in a row: the run may be starting again, or the whole machine may have paused.
            silent = 0 if self.status() is not None else silent + 1
            if silent > SILENT_LOOKS:
                raise FederationError(NOT_RUNNING)
            if time.monotonic() > deadline and not is_busy() and not path.exists():
                raise FederationError(f"the server did not reply within {seconds:g} s")
            time.sleep(0.05)
        content = path.read_bytes()
        path.unlink()
        return Reply.from_bytes(content)

    def withdraw(self, query_ids: Iterable[str]) -> None:
        """Drop requests of ours that nobody has fetched yet, and replies that nobody will read."""
        for query_id in query_ids:
            self._request(query_id).unlink(missing_ok=True)
            self._reply(query_id).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Drop what nobody will fetch any more."""
        for path in (*(self.root / "requests").iterdir(), *(self.root / "replies").iterdir()):
            if _age(path) < time.time() - STALE_SECONDS:
                path.unlink(missing_ok=True)
        for path in private_folder(self.root / "keys").iterdir():
            if _age(path) < time.time() - UNUSED_KEYS_SECONDS:
                path.unlink(missing_ok=True)

    def keys(self, key_id: str) -> Path:
        """Where the evaluation keys of a querier are, if they are: for the server to compute with."""
        return private_folder(self.root / "keys") / f"{check_digest(key_id)}.keys"

    def job(self, query_id: str) -> Path:
        """The folder where encrypted answers to a query are gathered."""
        return private_folder(self.root / "sealed") / check_name("a query id", query_id)

    def report(self, online: Iterable[str]) -> None:
        """The run's sign of life, with the sites it sees."""
        part = self._alive.with_suffix(".part")  # no need to reach the disk, every second of the day
        part.write_bytes(_json({"time": time.time(), "online": sorted(online)}))
        part.replace(self._alive)

    def status(self) -> tuple[str, ...] | None:
        """Sites the run sees at the moment; None if there is no run."""
        try:
            plain = json.loads(self._alive.read_bytes())
            fresh = abs(time.time() - float(plain["time"])) < SILENCE
            return tuple(map(str, plain["online"])) if fresh else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def open_run(self) -> None:
        """Make way for a new run: any other ends, so that there is never more than one for long."""
        self._alive.unlink(missing_ok=True)
        write_private(self._run, secrets.token_hex(16).encode())

    def close_run(self) -> None:
        """Ask the run to end."""
        self._run.unlink(missing_ok=True)
        self._alive.unlink(missing_ok=True)

    @property
    def current_run(self) -> bytes | None:
        """What the run that is wanted finds when it starts; None if none is wanted."""
        try:
            return self._run.read_bytes()
        except FileNotFoundError:
            return None

    @property
    def _alive(self) -> Path:
        return self.root / "alive.json"

    @property
    def _run(self) -> Path:
        return self.root / "run"

    def _request(self, query_id: str) -> Path:
        return self.root / "requests" / f"{check_name('a query id', query_id)}.request"

    def _reply(self, query_id: str) -> Path:
        return self.root / "replies" / f"{check_name('a query id', query_id)}.reply"


def _request(content: bytes) -> Request:
    meta, *rest = split_frames(content)
    plain = json.loads(meta)
    query, lock = [*map(from_bytes, rest), None][:2]
    if len(rest) > 2 or not isinstance(query, Query) or not isinstance(lock, QueryKey | None):
        raise MessageError("this is no request")
    signature = None if plain.get("signature") is None else read_signature(plain["signature"])
    return Request(query, str(plain["caller"]), float(plain["timeout"]), lock, signature)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _json(plain: Any) -> bytes:
    return json.dumps(plain, allow_nan=False).encode()
