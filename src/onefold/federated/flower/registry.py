"""Which sites take part: the server's list on disk, and its history in a log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import isclose
from pathlib import Path
from typing import Any

from onefold._base.files import remove_file
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.access.log import MembershipEvent, MembershipLog
from onefold.federated.access.store import put_value, value_of
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.messages import LONGEST_TEXT, Profile, check_name
from onefold.tables.schema import differing

# Joined answers and distances cannot be compared, and no site's sums are taken without the others'.
NO_SUMS = "no-sums: the other sites send plain sums; fit with --send-plain-sums if yours may leave"
OTHER_SUMS = "other-sums: the other sites send no sums, yours were not taken; fit without --send-plain-sums"
NO_MOMENTS = "no-moments: the other sites send private moments; fit with --epsilon and --method moments"
OTHER_MOMENTS = "other-moments: the other sites answer queries; fit with --method rows"
OTHER_NOISE = (
    "other-noise: the other sites' sums are with noise and yours not, or the other way; fit like them"
)
NO_RULE = (
    "moments-refused: this server's rule looks at each site; take the rule min, or fit with --method rows"
)


class Status(StrEnum):
    """Where a site stands."""

    INVITED = "invited"  # its key may come in; it has not said anything yet
    MEMBER = "member"  # it takes part
    REFUSED = "refused"  # its answers cannot be compared with those of the other sites, or it sent no model
    REMOVED = "removed"


@dataclass(frozen=True)
class RegistryEntry:
    """What the server knows about one site.

    Parameters
    ----------
    name : the site. public_key : by which it is recognised, one line; "" in a plaintext federation.
    status : where it stands. node_id : its number at Flower. profile : what it said at joining.
    reason : why it was refused, a fixed word; for another schema also where it differs.
    """

    name: str
    public_key: str = ""
    status: Status = Status.INVITED
    node_id: int | None = None
    profile: Profile | None = None
    reason: str | None = None


# --- the list -----------------------------------------------------------------------------------------------


class Registry:
    """The list of sites of one server folder; safe for several processes, and the same after a restart."""

    def __init__(self, folder: ServerFolder) -> None:
        self.folder = folder
        self.store = folder.store
        self.log = MembershipLog(self.store)

    @property
    def sites(self) -> dict[str, RegistryEntry]:
        """All sites that were ever invited, by name."""
        with self.store.reading() as db:
            return _listed(db)

    @property
    def kept_out(self) -> dict[str, str]:
        """Sites that are there and not asked, and why."""
        sites = self.sites.values()
        return {site.name: site.reason or "" for site in sites if site.status is Status.REFUSED}

    @property
    def members(self) -> dict[str, RegistryEntry]:
        """Sites whose answers count, by name, in the order of their names."""
        return {name: site for name, site in sorted(self.sites.items()) if site.status is Status.MEMBER}

    def stamp(self) -> int:
        """A number that changes when the list does."""
        with self.store.reading() as db:
            return int(value_of(db, "sites.changes", 0))

    def invite(self, name: str, public_key: str) -> None:
        """Let a site in by its key; one that was removed may come again, with the same key or another.

        A site that was invited and never came may get another key: the one it made itself.
        """
        with self._changing() as sites:
            known = sites.get(check_name("a site's name", name))
            if known is not None and not (known.status is Status.REMOVED or _waits_for_a_key(known)):
                raise InvalidInputError(f"there is a site {name} already: remove it first")
            others = [site for site in sites.values() if site.name != name]
            keys = {site.public_key for site in others if site.status is not Status.REMOVED}
            if public_key and public_key in keys:
                raise InvalidInputError("another site has this key: every site needs its own")
            sites[name] = RegistryEntry(name, public_key)

    def set_node(self, name: str, node_id: int | None) -> None:
        """Note a site's number at Flower."""
        with self._changing() as sites:
            sites[name] = replace(sites[name], node_id=node_id)

    def objection(self, name: str, profile: Profile) -> str | None:
        """Why a site that says this about itself would be refused; None if it would not."""
        return self._objection(name, profile, self.sites)

    def admit(self, name: str, profile: Profile, objection: str | None = None) -> Status:
        """Let an invited site take part by what it says about itself, or refuse it.

        With an ``objection`` it is refused for that.
        """
        with self._changing() as sites:
            site = sites[name]
            if site.status is Status.REMOVED:
                return Status.REMOVED
            reason = self._objection(name, profile, sites) if objection is None else objection
            if reason is not None:
                if site.status is Status.MEMBER:
                    self.log.append(MembershipEvent.LEAVE, name, refused=True)
                sites[name] = replace(site, status=Status.REFUSED, profile=profile, reason=reason)
                return Status.REFUSED
            self._note_joining(site, profile)
            sites[name] = replace(site, status=Status.MEMBER, profile=profile, reason=None)
            return Status.MEMBER

    def refuse(self, name: str, reason: str) -> None:
        """Keep a site out for now, for a reason."""
        with self._changing() as sites:
            if sites[name].status in (Status.INVITED, Status.REFUSED):
                sites[name] = replace(sites[name], status=Status.REFUSED, reason=reason)

    def remove(self, name: str) -> None:
        """Let a site leave with everything it contributed: no later answer depends on it."""
        with self._changing() as sites:
            if name not in sites or sites[name].status is Status.REMOVED:
                raise InvalidInputError(f"no site {name} is in this federation")
            if sites[name].status is Status.MEMBER:
                self.log.append(MembershipEvent.LEAVE, name)
            sites[name] = replace(sites[name], status=Status.REMOVED, profile=None, reason=None)
        self.recover()

    def recover(self) -> None:
        """Delete what is left of sites that were removed; to be called when the server's run starts.

        A removal may have been killed, and a model or sums may have come while a site was removed.
        """
        with self.store.transaction() as db:  # nobody is invited again meanwhile
            for name in self._removed(_listed(db)):
                self._delete_files(name)

    def finish_removals(self) -> None:
        """Delete what is left of sites whose removal was killed after it had changed the list.

        The run may be another process, which goes on: it looks every now and then, and writes nothing as long
        as there is nothing to delete.
        """
        files = [path for name in self._removed(self.sites) for path in self._files(name)]
        if any(path.exists() for path in files):
            self.recover()

    def _removed(self, sites: Mapping[str, RegistryEntry]) -> list[str]:
        return [name for name, site in sites.items() if site.status is Status.REMOVED]

    def _files(self, name: str) -> tuple[Path, ...]:
        """What the server keeps of a site that was or is a member."""
        return self.folder.models / f"{name}.onefold", self.folder.sums_of(name)

    def _delete_files(self, name: str) -> None:
        for path in self._files(name):
            remove_file(path, missing_ok=True)

    def _objection(self, name: str, profile: Profile, sites: Mapping[str, RegistryEntry]) -> str | None:
        others = [s.profile for s in sites.values() if s.status is Status.MEMBER and s.name != name]
        if profile.sends_only_sums and self.folder.settings.rule != "min":
            return NO_RULE
        is_joined = profile.sums is not None and not profile.sends_only_sums
        if is_joined and self.folder.settings.mode == "model":
            return "other-sums: a server in model mode takes none"
        return _objection(name, profile, [other for other in others if other is not None])

    def _note_joining(self, site: RegistryEntry, profile: Profile) -> None:
        old = site.profile
        same = old is not None and (old.model_digest, old.sums) == (profile.model_digest, profile.sums)
        if site.status is Status.MEMBER and same:
            return
        before = any(entry.site == site.name for entry in self.log)
        event = MembershipEvent.REJOIN if before else MembershipEvent.JOIN
        self.log.append(event, site.name, model=profile.model_digest, classes=list(profile.classes))

    @contextmanager
    def _changing(self) -> Iterator[dict[str, RegistryEntry]]:
        """The list to be changed, while nobody else can; what the log notes meanwhile belongs to it."""
        with self.store.transaction() as db:
            sites = _listed(db)
            before = dict(sites)
            yield sites
            changed = [site for name, site in sites.items() if site is not before.get(name)]
            db.executemany(WRITE, map(_row, changed))
            if changed:
                put_value(db, "sites.changes", value_of(db, "sites.changes", 0) + 1)


WRITE = """
INSERT INTO sites VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET public_key = excluded.public_key,
status = excluded.status, node_id = excluded.node_id, profile = excluded.profile, reason = excluded.reason
"""


def _row(site: RegistryEntry) -> tuple[Any, ...]:
    profile = None if site.profile is None else site.profile.to_bytes()
    node = None if site.node_id is None else str(site.node_id)  # Flower's are too large for SQLite
    return site.name, site.public_key, site.status.value, node, profile, site.reason


@lru_cache(maxsize=64)
def _profile(content: bytes) -> Profile:
    """What a site said, read once: the list is looked at for every query."""
    return Profile.from_bytes(content)


def _listed(db: sqlite3.Connection) -> dict[str, RegistryEntry]:
    sites = {}
    query = "SELECT name, public_key, status, node_id, profile, reason FROM sites ORDER BY rowid"
    try:
        for name, public_key, status, node, content, reason in db.execute(query):
            profile = None if content is None else _profile(content)
            number = None if node is None else int(node)
            sites[name] = RegistryEntry(name, public_key, Status(status), number, profile, reason)
    except ValueError:
        raise FileFormatError("the list of sites is damaged") from None
    return sites


def _waits_for_a_key(site: RegistryEntry) -> bool:
    return site.status is Status.INVITED and site.profile is None and bool(site.public_key)


def _objection(name: str, profile: Profile, others: list[Profile]) -> str | None:
    """Why answers of this site cannot be compared with those of the other sites; None if they can."""
    if profile.site != name:
        return "wrong-name"
    for other in others:
        # First, because measure, scale and features follow from it.
        if profile.schema != other.schema:
            return _other_schema(profile, other)
        if profile.sends_only_sums != other.sends_only_sums:
            return NO_MOMENTS if other.sends_only_sums else OTHER_MOMENTS
        if profile.sends_only_sums and profile.sends_private_sums != other.sends_private_sums:
            return OTHER_NOISE
        if (profile.sums is None) != (other.sums is None):
            return NO_SUMS if profile.sums is None else OTHER_SUMS
        alike = {
            "other-measure": profile.measure == other.measure,
            "other-scale": isclose(profile.scale or 1.0, other.scale or 1.0, rel_tol=1e-9),
            "other-features": profile.n_features == other.n_features,
            "other-columns": profile.columns == other.columns or None in (profile.columns, other.columns),
            "other-labels": type(profile.classes[0]) is type(other.classes[0]),
        }
        if not all(alike.values()):
            return next(code for code, is_alike in alike.items() if not is_alike)
    return None


def _other_schema(profile: Profile, other: Profile) -> str:
    """Where a site's schema differs from that of the sites that take part, in one line."""
    if profile.schema is None:
        return "no-schema: the other sites use a schema"
    if other.schema is None:
        return "other-schema: the other sites use none"
    where = differing(other.schema_fields, profile.schema_fields) or "the digest"
    return f"other-schema: {where}"[:LONGEST_TEXT]
