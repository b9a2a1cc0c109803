"""Faults to plant: each breaks one thing that the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onefold._base import files
from onefold.federated.access.approvals import Approvals
from onefold.federated.flower import folders, registry, site_app
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.sums import KeptSums
from onefold.privacy import Ledger
from onefold.privacy.guarantee import Charge

from .disk import Disk

Plant = tuple[Any, str, Any]


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _forgetful(prepare: Callable[[SiteFolder], None]) -> Callable[[SiteFolder], None]:
    def prepare_and_forget(folder: SiteFolder) -> None:
        prepare(folder)
        if isinstance(folder, SiteFolder):
            with folder.store.transaction() as db:
                db.execute("DELETE FROM replays")

    return prepare_and_forget


def _uncounted(admit: Callable[..., None]) -> Callable[..., None]:
    def look_only(self: Approvals, signature: Any, n_rows: int, mode: str, *, count: bool = True) -> None:
        admit(self, signature, n_rows, mode, count=False)

    return look_only


def _first_only(add_up: Callable[..., None]) -> Callable[..., None]:
    def add_up_once(self: KeptSums, members: Any) -> None:
        if not self._added:
            add_up(self, members)

    return add_up_once


def _with_removed(self: Registry) -> dict[str, Any]:
    status = (Status.MEMBER, Status.REMOVED)
    found = sorted(self.sites.items())
    return {name: site for name, site in found if site.status in status}


def _unnoted(answered: Callable[..., None]) -> Callable[..., None]:
    def leave_without_note(
        folder: Any, settings: Any, query: Any, caller: Any, signature: Any, encrypted: bool
    ) -> None:
        if signature is not None:
            answered(folder, settings, query, caller, signature, encrypted)

    return leave_without_note


@contextmanager
def _in_two_steps(self: Registry) -> Iterator[dict[str, Any]]:
    """The log has its transaction and the list another one."""
    sites = self.sites
    before = dict(sites)
    yield sites
    with self.store.transaction() as db:
        db.executemany(registry.WRITE, [registry._row(s) for n, s in sites.items() if s is not before.get(n)])


# Name -> what is put where.
FAULTS: dict[str, Callable[[], list[Plant]]] = {
    "folders are not synced": lambda: [(files, "_sync_folder", _nothing)],
    "files are not synced": lambda: [(Disk, "sync_file", _nothing)],
    "answers leave before rows are counted": lambda: [(site_app, "_admit", _nothing)],
    "unsigned answers leave without a note": lambda: [(site_app, "leaving", _unnoted(site_app.leaving))],
    "signed queries are forgotten at a restart": lambda: [
        (folders._Folder, "prepare", _forgetful(SiteFolder.prepare))
    ],
    "approved rows are not counted": lambda: [(Approvals, "admit", _uncounted(Approvals.admit))],
    "the ledger is not written": lambda: [(Ledger, "_enter", lambda *_: Charge("", 1, "", ""))],
    "list and log change in two steps": lambda: [(Registry, "_changing", _in_two_steps)],
    "sums keep sites that have left": lambda: [(KeptSums, "_add_up", _first_only(KeptSums._add_up))],
    "removed sites are members": lambda: [(Registry, "members", property(_with_removed))],
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Break one thing while the block runs."""
    plants = FAULTS[name]()
    old = [vars(where)[attribute] for where, attribute, _ in plants]
    for where, attribute, value in plants:
        setattr(where, attribute, value)
    try:
        yield
    finally:
        for (where, attribute, _), value in zip(plants, old, strict=True):
            setattr(where, attribute, value)
