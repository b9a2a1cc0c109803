"""What the server notes about its sites as it goes along: when each was last there, and what it answered.

A site tells versions, and what its operator allows to be told: a declared number of rows, and what its ledger
has spent. Nothing of this decides anything; it is for the operator's ``onefold federate status``.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from onefold.exceptions import OnefoldError
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.messages import Answers, Message, SealedAnswers, SiteFacts
from onefold.privacy.ledger import Ledger

WRITE_SECONDS = 10.0  # while nothing but the time changes
ASK_SECONDS = 600.0


def facts_of(folder: SiteFolder) -> SiteFacts:
    """What a site tells about itself besides its profile."""
    settings = folder.settings
    budget = None
    if settings.tells_epsilon and folder.ledger.is_file():
        with suppress(OnefoldError):
            ledger = Ledger.load(folder.ledger)
            limit = ledger.limit_epsilon
            of = "no limit" if limit is None else f"limit {limit:g}"
            budget = f"spent {ledger.spent}; {of}"
    return SiteFacts(settings.name, _version("onefold"), _version("flwr"), settings.declared_rows, budget)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Sighting:
    """When a site was last connected, what it has answered since the server was made, and what it tells."""

    last_seen: float | None = None
    queries: int = 0
    rows: int = 0
    version: str | None = None
    flower: str | None = None
    declared_rows: int | None = None
    budget: str | None = None


class Sightings:
    """The notes on disk; written by the run at the server, read by everybody who asks for the status."""

    def __init__(self, folder: ServerFolder, *, clock: Callable[[], float] = time.time) -> None:
        self.store = folder.store
        self._clock = clock
        self._notes = self.read()
        self._written = 0.0
        self._online: frozenset[str] = frozenset()
        self._asked: dict[str, float] = {}

    def see(self, online: Iterable[str]) -> None:
        """Note who is there now; to be called every second or so."""
        now, present = self._clock(), frozenset(online)
        for name in present:
            self._change(name, last_seen=now)
        self._asked = {name: then for name, then in self._asked.items() if name in present}
        if present != self._online or abs(now - self._written) > WRITE_SECONDS:
            self._online = present
            self._write(now)

    def to_ask(self) -> list[str]:
        """Sites that are there and have not been asked for their facts lately; they count as asked now."""
        now = self._clock()
        names = [name for name in sorted(self._online) if abs(now - self._asked.get(name, 0.0)) > ASK_SECONDS]
        self._asked |= dict.fromkeys(names, now)
        return names

    def count(self, site: str, messages: Sequence[Message] | None, sizes: Mapping[str, int]) -> None:
        """Count what a site has answered; ``sizes`` are the rows of the queries it was sent."""
        found = {
            m.query_id for m in messages or () if isinstance(m, Answers | SealedAnswers) and m.site == site
        }
        rows = [sizes[query] for query in found if query in sizes]
        if rows:
            old = self._notes.get(site, Sighting())
            self._change(site, queries=old.queries + len(rows), rows=old.rows + sum(rows))

    def keep(self, site: str, facts: SiteFacts) -> None:
        """Keep what a site tells about itself, if it speaks in its own name."""
        if facts.site == site:
            told = {"flower": facts.flower, "declared_rows": facts.rows, "budget": facts.budget}
            self._change(site, version=facts.onefold, **told)
            self._write(self._clock())

    def read(self) -> dict[str, Sighting]:
        """All notes."""
        with self.store.reading() as db:
            return {name: Sighting(*note) for name, *note in db.execute("SELECT * FROM sightings")}

    def _change(self, site: str, **values: Any) -> None:
        self._notes[site] = replace(self._notes.get(site, Sighting()), **values)

    def _write(self, now: float) -> None:
        self._written = now
        rows = [(name, *astuple(note)) for name, note in self._notes.items()]
        with suppress(OSError), self.store.transaction() as db:  # a full disk must not end the run for this
            db.executemany("INSERT OR REPLACE INTO sightings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
