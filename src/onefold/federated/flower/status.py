"""What the server's operator is told: which sites take part, which are there, and what each promises."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.registry import Registry, RegistryEntry, Status
from onefold.federated.flower.setup import expiry, expiry_warnings
from onefold.federated.flower.spool import NOT_RUNNING, Spool
from onefold.federated.messages import Answers, Message, SealedAnswers, SiteFacts


@dataclass(frozen=True)
class SiteStatus:
    """What the server knows about one site.

    Parameters
    ----------
    name : str
        Name of the site.
    status : str
        "invited", "member", "refused" or "removed".
    reason : str or None, default=None
        Why the site was refused, in one fixed word; for another schema also where it differs.
    online : bool, default=False
        Whether the site is connected now.
    classes : list or None, default=None
        Classes of its model; None, like all that follows, before the site has said what it has.
    features : int or None, default=None
        Number of features.
    measure : str or None, default=None
        Measure of its answers; "moments" for a site that sent private moments and is not asked, "numbers" for
        one that sent moments of numbers to predict.
    model : str or None, default=None
        SHA-256 sum of its model.
    guarantee : dict or None, default=None
        What its model promises about its rows; None if the answers are functions of raw rows.
    schema : str or None, default=None
        Digest of the schema of its table; None without one.
    sums : bool, default=False
        Whether the server has sums of its rows without noise.
    last_seen : str or None, default=None
        When it was last connected, in ISO 8601; None if never.
    queries, rows_answered : int, default=0
        Queries and rows that it has answered, as the server counts.
    version, flower : str or None, default=None
        Versions of onefold and of Flower there; None before the site has told them.
    declared_rows : int or None, default=None
        Number of rows that the site's operator declares; None if it is not told.
    budget : str or None, default=None
        What the site's ledger has spent, and its limit; None if it is not told.

    See Also
    --------
    Federation.status : Returns these.

    Examples
    --------
    >>> from onefold.federated.flower import SiteStatus
    >>> SiteStatus("north", "invited").online
    False
    """

    name: str
    status: str
    reason: str | None = None
    online: bool = False
    classes: list[Any] | None = None
    features: int | None = None
    measure: str | None = None
    model: str | None = None
    guarantee: dict[str, Any] | None = None
    schema: str | None = None
    sums: bool = False
    last_seen: str | None = None
    queries: int = 0
    rows_answered: int = 0
    version: str | None = None
    flower: str | None = None
    declared_rows: int | None = None
    budget: str | None = None


@dataclass(frozen=True)
class FederationStatus:
    """Whether a server is running, how it combines answers, and its sites.

    Parameters
    ----------
    running : bool
        Whether the server is running.
    mode : str
        "query" or "model".
    rule : str
        Rule by which answers are combined.
    log_entries : int
        Entries of the membership log, whose chain of hashes was checked.
    sites : tuple of SiteStatus
        All sites that were ever invited.
    certificate, authority : str or None, default=None
        When the certificates of the server and of its authority end, in ISO 8601; None in plaintext.
    warnings : tuple of str, default=()
        Certificates that end within 30 days, and what to do.
    federation : str, default=""
        Id of the federation, which queriers sign.

    See Also
    --------
    Federation.status : Returns this.

    Examples
    --------
    >>> from onefold.federated.flower import FederationStatus
    >>> FederationStatus(False, "query", "min", 0, ()).running
    False
    """

    running: bool
    mode: str
    rule: str
    log_entries: int
    sites: tuple[SiteStatus, ...]
    certificate: str | None = None
    authority: str | None = None
    warnings: tuple[str, ...] = ()
    federation: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON.

        Returns
        -------
        dict of str to Any
            The same fields; each site is a dict too.
        """
        lists = {"sites": [asdict(site) for site in self.sites], "warnings": list(self.warnings)}
        return asdict(self) | lists


# --- what the server notes as it goes along -----------------------------------------------------------------


WRITE_SECONDS = 10.0  # while nothing but the time changes
ASK_SECONDS = 600.0


@dataclass(frozen=True)
class Sighting:
    """When a site was last connected, what it has answered since the server was made, and what it tells."""

    last_seen: float | None = None
    queries: int = 0
    rows_answered: int = 0
    version: str | None = None
    flower: str | None = None
    declared_rows: int | None = None
    budget: str | None = None


class Sightings:
    """The notes on disk; written by the run at the server, read by everybody who asks for the status.

    Nothing of this decides anything: it is for the operator's ``onefold federate status``.
    """

    def __init__(self, folder: ServerFolder, *, clock: Callable[[], float] = time.time) -> None:
        self.store = folder.store
        self._clock = clock
        self._notes = self.notes
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
            self._keep_notes(now)

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
            self._change(site, queries=old.queries + len(rows), rows_answered=old.rows_answered + sum(rows))

    def keep(self, site: str, facts: SiteFacts) -> None:
        """Keep what a site tells about itself, if it speaks in its own name."""
        if facts.site == site:
            told = {"flower": facts.flower, "declared_rows": facts.rows, "budget": facts.budget}
            self._change(site, version=facts.onefold, **told)
            self._keep_notes(self._clock())

    @property
    def notes(self) -> dict[str, Sighting]:
        """All notes on disk, by the names of the sites."""
        with self.store.reading() as db:
            return {name: Sighting(*note) for name, *note in db.execute("SELECT * FROM sightings")}

    def _change(self, site: str, **values: Any) -> None:
        self._notes[site] = replace(self._notes.get(site, Sighting()), **values)

    def _keep_notes(self, now: float) -> None:
        self._written = now
        rows = [(name, *astuple(note)) for name, note in self._notes.items()]
        with suppress(OSError), self.store.transaction() as db:  # a full disk must not end the run for this
            db.executemany("INSERT OR REPLACE INTO sightings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


# --- both together ------------------------------------------------------------------------------------------


def status_of(folder: ServerFolder) -> FederationStatus:
    """The state of a federation now; its membership log is checked."""
    registry, online = Registry(folder), Spool(folder.spool).status()
    entries = registry.log.verify()
    notes = Sightings(folder).notes
    sites = tuple(
        _site_status(site, site.name in (online or ()), notes.get(site.name, Sighting()))
        for site in registry.sites.values()
    )
    settings = folder.settings
    ends = [None if settings.insecure else expiry(path) for path in (folder.certificate, folder.ca)]
    certificate, authority = (None if end is None else end.isoformat() for end in ends)
    known = (online is not None, settings.mode, settings.rule, entries, sites)
    id_ = folder.federation_id if settings.insecure or authority is not None else ""
    return FederationStatus(*known, certificate, authority, expiry_warnings(folder), id_)


def _site_status(site: RegistryEntry, online: bool, note: Sighting) -> SiteStatus:
    """What is known about a site: what it said at joining, and what the server has noted since."""
    seen = None if note.last_seen is None else datetime.fromtimestamp(note.last_seen, UTC)
    noted = asdict(note) | {"last_seen": None if seen is None else seen.isoformat(timespec="seconds")}
    known, profile = (site.name, site.status.value, site.reason, online), site.profile
    if profile is None:
        return SiteStatus(*known, **noted)
    sums = profile.sends_plain_sums and site.status is Status.MEMBER
    measure = "joined" if sums and not profile.sends_only_sums else profile.measure
    model = (profile.n_features, measure, profile.model_digest, profile.guarantee)
    return SiteStatus(*known, list(profile.classes), *model, profile.schema, sums, **noted)


def wait_for_sites(folder: ServerFolder, sites: Iterable[str], timeout: float) -> None:
    """Return once the server is running and all these sites are members and connected."""
    wanted = set(sites)
    deadline = time.monotonic() + timeout
    while True:
        known, online = Registry(folder).sites, Spool(folder.spool).status()
        for name in sorted(wanted):
            if name not in known or known[name].status is Status.REMOVED:
                raise InvalidInputError(f"no site {name} is in this federation")
            if known[name].status is Status.REFUSED:
                raise FederationError(f"the server keeps {name} out: {known[name].reason}")
        there = {n for n in wanted if known[n].status is Status.MEMBER and n in (online or ())}
        if online is not None and there == wanted:
            return
        if time.monotonic() > deadline:
            absent = f"not there in time: {', '.join(sorted(wanted - there))}"
            raise FederationError(NOT_RUNNING if online is None else absent)
        time.sleep(0.2)
