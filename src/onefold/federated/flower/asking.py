"""One interface for both deployments: rows in, what the sites say about them out.

In query mode the run carries the rows to the sites; in model mode the models are here and no row leaves the
server. Encrypted queries are a third way: the rows go to the sites, and one sealed result for all returns.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from onefold.exceptions import FederationError, OnefoldError
from onefold.federated.flower.folders import ServerFolder, write_private
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.spool import Request, Spool
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import Answers, Failure, FailureCode, Lock, Profile, Query, SealedResult

__all__ = ["Asking", "AskingModels", "AskingSealed", "AskingSites", "Gathered", "way_of_asking"]

# The server's run has this long beyond the sites' time to hand over what came.
GRACE = 60.0


@dataclass(frozen=True, eq=False)
class Gathered:
    """What came back for one query: whom it was expected of, and the message of each site that spoke."""

    query: Query
    expected: tuple[str, ...]
    messages: dict[str, Answers | Failure]
    profiles: dict[str, Profile]
    sealed: SealedResult | None = None


class Asking(ABC):
    """A way of having the sites' models answer queries."""

    def __init__(self, folder: ServerFolder) -> None:
        self.registry = Registry(folder)
        self.folder = folder

    @abstractmethod
    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """What came back for each query, in their order."""

    def _profiles(self) -> dict[str, Profile]:
        members = self.registry.members.items()
        return {name: site.profile for name, site in members if site.profile is not None}


class AskingSites(Asking):
    """Query mode: rows go to the sites, one number per row and class returns."""

    def __init__(self, folder: ServerFolder, caller: str, timeout: float) -> None:
        super().__init__(folder)
        self.caller, self.timeout = caller, timeout

    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """All queries are handed in at once, so that they travel together."""
        spool = Spool(self.folder.spool)
        if spool.status() is None:
            raise FederationError("the server is not running: start it with onefold federate server")
        for query in queries:
            spool.submit(Request(query, self.caller, self.timeout))
        for query in queries:
            reply = spool.wait(query.id, self.timeout + GRACE)
            spoken = {m.site: m for m in reply.messages if isinstance(m, Answers | Failure)}
            yield Gathered(query, reply.expected, spoken, self._profiles())


class AskingSealed(Asking):
    """Query mode with encrypted answers: this side sees one result of all sites, and no site's numbers.

    Parameters
    ----------
    lock : what the sites answer under. evaluation_keys : makes what the server computes with, if it does not
        have them from an earlier query.
    """

    def __init__(
        self,
        folder: ServerFolder,
        caller: str,
        timeout: float,
        lock: Lock,
        evaluation_keys: Callable[[], bytes],
    ) -> None:
        super().__init__(folder)
        self.caller, self.timeout, self.lock = caller, timeout, lock
        self._evaluation_keys = evaluation_keys

    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """One after the other: sealed answers are large."""
        spool = Spool(self.folder.spool)
        if spool.status() is None:
            raise FederationError("the server is not running: start it with onefold federate server")
        if not spool.keys(self.lock.key_id).exists():
            write_private(spool.keys(self.lock.key_id), self._evaluation_keys())
        for query in queries:
            spool.submit(Request(query, self.caller, self.timeout, self.lock))
            # Computing on encrypted answers takes what it takes.
            reply = spool.wait(query.id, self.timeout + GRACE, spool.job(query.id).exists)
            failures: dict[str, Answers | Failure] = {
                m.site: m for m in reply.messages if isinstance(m, Failure)
            }
            sealed = next((m for m in reply.messages if isinstance(m, SealedResult)), None)
            yield Gathered(query, reply.expected, failures, self._profiles(), sealed)


class AskingModels(Asking):
    """Model mode: the sites' models are here, and nobody else is asked."""

    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """Each model is loaded once."""
        profiles = self._profiles()
        models = {name: self._load(name) for name in profiles}
        for query in queries:
            spoken = {name: _answer(model, query, name) for name, model in models.items()}
            yield Gathered(query, tuple(profiles), spoken, profiles)

    def _load(self, name: str) -> LocalModel | None:
        try:
            return LocalModel.load(self.folder.models / f"{name}.onefold")
        except OnefoldError:
            return None


def _answer(model: LocalModel | None, query: Query, name: str) -> Answers | Failure:
    if model is None:
        return Failure(query.id, name, FailureCode.NOT_READY)
    try:
        return model.answer(query, name)
    except (OnefoldError, ValueError):
        return Failure(query.id, name, FailureCode.WRONG_FEATURES)


def way_of_asking(folder: ServerFolder, caller: str, timeout: float) -> Asking:
    """The way a server was set up for."""
    if folder.settings.mode == "model":
        return AskingModels(folder)
    return AskingSites(folder, caller, timeout)


def new_query_id() -> str:
    """An id nobody can guess."""
    return secrets.token_hex(16)
