"""Which sites take part: the server's list on disk, and its history in a log."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isclose
from pathlib import Path
from typing import Any

from onefold._base.files import file_lock, remove_file, write_whole
from onefold.exceptions import FileFormatError, InvalidInputError, TamperedLogError
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.log import MembershipEvent, MembershipLog
from onefold.federated.messages import LONGEST_TEXT, Profile, check_name
from onefold.tables.schema_format import differing

FORMAT = 1
LOG = logging.getLogger(__name__)
# Joined answers and distances cannot be compared, and no site's sums are taken without the others'.
NO_SUMS = (
    "no-sums: the other sites send plain sums of their rows; fit with --send-plain-sums if yours may leave"
)
OTHER_SUMS = (
    "other-sums: the other sites send no sums, and yours were not taken; fit without --send-plain-sums"
)
NO_MOMENTS = (
    "no-moments: the other sites send private moments; fit with --epsilon, --unit record and --method moments"
)
OTHER_MOMENTS = "other-moments: the other sites answer queries; fit with --method rows"
OTHER_NOISE = (
    "other-noise: sums with noise and sums without are not added up; fit like the other sites, with "
    "--epsilon or with --send-plain-sums"
)
NO_RULE = (
    "moments-refused: the rule of this server withstands lying sites, which a sum of moments cannot; "
    "its operator can take the rule min, or you fit with --method rows"
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

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        profile = None if self.profile is None else self.profile.to_bytes().hex()
        return {
            "public_key": self.public_key,
            "status": self.status.value,
            "node_id": self.node_id,
            "profile": profile,
            "reason": self.reason,
        }

    @classmethod
    def from_plain(cls, name: str, plain: Mapping[str, Any]) -> RegistryEntry:
        """What :meth:`to_plain` wrote."""
        header = plain["profile"]
        profile = None if header is None else Profile.from_bytes(bytes.fromhex(header))
        if not isinstance(plain["public_key"], str):
            raise ValueError
        node = plain["node_id"]
        return cls(
            check_name("a site's name", name),
            plain["public_key"],
            Status(plain["status"]),
            None if node is None else int(node),
            profile,
            plain["reason"],
        )


# --- the list -----------------------------------------------------------------------------------------------


class Registry:
    """The list of sites of one server folder; safe for several processes, and the same after a restart."""

    def __init__(self, folder: ServerFolder) -> None:
        self.folder = folder
        self.log = MembershipLog(folder.log)

    @property
    def sites(self) -> dict[str, RegistryEntry]:
        """All sites that were ever invited, by name."""
        return self._read()

    @property
    def kept_out(self) -> dict[str, str]:
        """Sites that are there and not asked, and why."""
        sites = self.sites.values()
        return {site.name: site.reason or "" for site in sites if site.status is Status.REFUSED}

    @property
    def members(self) -> dict[str, RegistryEntry]:
        """Sites whose answers count, by name, in the order of their names."""
        return {name: site for name, site in sorted(self._read().items()) if site.status is Status.MEMBER}

    def stamp(self) -> int:
        """A number that changes when the list does."""
        return self.folder.registry.stat().st_mtime_ns if self.folder.registry.exists() else 0

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
        return self._objection(name, profile, self._read())

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
        with self._changing(lambda: self._delete_files(name)) as sites:
            if name in self._finished:  # an earlier removal, which was stopped, is complete now
                return
            if name not in sites or sites[name].status is Status.REMOVED:
                raise InvalidInputError(f"no site {name} is in this federation")
            if sites[name].status is Status.MEMBER:
                self.log.append(MembershipEvent.LEAVE, name)
            sites[name] = _left(sites[name])

    def recover(self) -> None:
        """Finish what a process that was killed has begun; to be called when the server's run starts."""
        with self._changing() as sites:
            for name in self._removed(sites):  # its model or sums may have come while it was removed
                self._delete_files(name)

    def finish_removals(self) -> None:
        """Delete what is left of sites whose removal was killed after it had changed the list.

        The run may be another process, which goes on: it looks every now and then, and writes nothing as long
        as there is nothing to delete.
        """
        files = [path for name in self._removed(self._read()) for path in self._files(name)]
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

    def _finish(self, sites: dict[str, RegistryEntry]) -> set[str]:
        """Bring list and log together where a process was stopped between the two; whose removal that ends.

        The log is written first. Who has left there is no member; who has joined there and is no member has
        not joined. A site that was refused or has not joined is asked again when it connects.
        """
        try:
            last = {entry.site: entry for entry in self.log}
        except TamperedLogError as error:  # whoever writes to the log is told so
            LOG.error("the membership log was not compared with the list of sites: %s", error)
            return set()
        removed = set()
        for name, entry in last.items():
            is_member = name in sites and sites[name].status is Status.MEMBER
            if is_member and entry.event is MembershipEvent.LEAVE and entry.facts.get("refused"):
                sites[name] = replace(sites[name], status=Status.REFUSED, reason="not-accepted")
            elif is_member and entry.event is MembershipEvent.LEAVE:
                removed.add(name)
                sites[name] = _left(sites[name])
            elif not is_member and entry.event in (MembershipEvent.JOIN, MembershipEvent.REJOIN):
                self.log.append(MembershipEvent.LEAVE, name)
        return removed

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
    def _changing(self, then: Callable[[], None] = lambda: None) -> Iterator[dict[str, RegistryEntry]]:
        """The list to be changed, while nobody else can; ``then`` is done when the new list is on disk."""
        with file_lock(self.folder.registry):
            sites = self._read()
            self._finished = self._finish(sites)
            if self._finished:
                self._write(sites)
                for name in self._finished:
                    self._delete_files(name)
            yield sites
            self._write(sites)
            then()

    def _write(self, sites: Mapping[str, RegistryEntry]) -> None:
        plain = {"format": FORMAT, "sites": {name: site.to_plain() for name, site in sites.items()}}
        write_whole(self.folder.registry, json.dumps(plain, indent=1, allow_nan=False).encode())

    def _read(self) -> dict[str, RegistryEntry]:
        try:
            plain = json.loads(self.folder.registry.read_bytes())
            if plain["format"] != FORMAT:
                raise ValueError
            return {name: RegistryEntry.from_plain(name, site) for name, site in plain["sites"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise FileFormatError(f"{self.folder.registry}: the list of sites is damaged") from None


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
        if profile.measure != other.measure:
            return "other-measure"
        if not isclose(profile.scale or 1.0, other.scale or 1.0, rel_tol=1e-9):
            return "other-scale"
        if profile.n_features != other.n_features:
            return "other-features"
        if None not in (profile.columns, other.columns) and profile.columns != other.columns:
            return "other-columns"
        if type(profile.classes[0]) is not type(other.classes[0]):
            return "other-labels"
    return None


def _other_schema(profile: Profile, other: Profile) -> str:
    """Where a site's schema differs from that of the sites that take part, in one line."""
    if profile.schema is None:
        return "no-schema: the other sites use a schema"
    if other.schema is None:
        return "other-schema: the other sites use none"
    where = differing(other.schema_fields, profile.schema_fields) or "the digest"
    return f"other-schema: {where}"[:LONGEST_TEXT]


def _left(site: RegistryEntry) -> RegistryEntry:
    return replace(site, status=Status.REMOVED, profile=None, reason=None)
