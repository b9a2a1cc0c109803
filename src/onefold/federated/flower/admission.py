"""Whom a site answers: the signature of a query, the data owner's approval, and the site's own log.

A query is looked at twice. Before anything is computed, :func:`recognised` checks the signature and the
approval. When the answers are ready, :func:`leaving` counts the rows under the approval, enters the query
among those answered and writes the entry in the log, all of it or nothing; then, and only then, the answers
may leave. A site that dies before has not answered, and takes the same query again.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from onefold.exceptions import MessageError, QueryRefused, TamperedLogError
from onefold.federated.access.approvals import Approvals
from onefold.federated.access.guard import QueryGuard, Replays
from onefold.federated.access.log import FIRST, SiteEvent, SiteLog
from onefold.federated.access.signatures import AnySignature, KeySignature, Signature, SumSignature
from onefold.federated.flower.folders import SiteFolder, SiteSettings
from onefold.federated.messages import FailureCode, Query, QueryKey

# Counters of queriers that sign begin with this, and no name that the server gives may.
ACCOUNT = "key."
LEAVE = (SiteEvent.MODEL_SENT, SiteEvent.SUMS_SENT, SiteEvent.SUM_STEP)  # events of what goes to the server


def site_log(folder: SiteFolder) -> SiteLog:
    """The site's own hash-chained log."""
    return SiteLog(folder.store)


def approvals_of(folder: SiteFolder) -> Approvals:
    """What the data owner of a site has decided."""
    return Approvals(site_log(folder), folder.settings.name)


def recognised(
    folder: SiteFolder,
    settings: SiteSettings,
    query: Query,
    caller: str,
    signature: AnySignature | None,
    lock: QueryKey | None = None,
) -> str:
    """The name under which the querier's rows are counted; refused if the site does not answer it.

    With a signature it follows from the key. Without one it is what the server says, and only a site that
    answers anyone takes it.
    """
    if signature is None:
        if settings.approval != "anyone":
            raise QueryRefused(FailureCode.UNSIGNED)
        if caller.startswith(ACCOUNT):
            raise QueryRefused(FailureCode.UNKNOWN_CALLER)
        return caller
    if isinstance(signature, KeySignature):
        signature.check(lock, folder.federation_id)
        left = _under_key(folder, signature).remaining(signature.mark)
        if left is not None and left < len(query.features):
            raise QueryRefused(FailureCode.BUDGET_SPENT)
    else:
        signature.check(query, folder.federation_id, lock)
        Replays(folder.store).check(signature)
    approvals_of(folder).admit(signature, len(query.features), settings.approval, count=False)
    return f"{ACCOUNT}{signature.key.id}"


def are_covered(
    folder: SiteFolder,
    settings: SiteSettings,
    queries: Sequence[Query],
    signed: Sequence[AnySignature | None],
) -> bool:
    """Whether queries that were recognised, each by itself, may all be answered.

    No two are the same, and what the data owner has approved covers their rows together.
    """
    if len({query.id for query in queries}) < len(queries):
        return False
    if settings.approval == "anyone":
        return True
    rows: Counter[tuple[str, str | None]] = Counter()
    for query, signature in zip(queries, signed, strict=True):
        if signature is None:
            return False
        purpose = signature.purpose if settings.approval == "purposes" else None
        rows[signature.public, purpose] += len(query.features)
    entries = {(each.querier.public, each.purpose): each for each in approvals_of(folder).entries()}
    now = time.time()
    return all(key in entries and entries[key].covers(count, now) for key, count in rows.items())


def leaving(
    folder: SiteFolder,
    settings: SiteSettings,
    query: Query,
    caller: str,
    signature: AnySignature | None,
    encrypted: bool,
) -> None:
    """Count, enter and note a query whose answers are about to leave; refused if that is not possible."""
    _refuse_if_paused(folder)
    n_rows = len(query.features)
    about: dict[str, Any] = {"query": query.id, "rows": n_rows, "encrypted_answers": encrypted}
    if signature is None:
        about |= {"querier": caller, "signed": None}  # the server's word
    else:
        stated = signature.plain
        about |= {"querier": stated.pop("name"), "id": signature.key.id, **stated}
        # By itself first: what waits for the data owner is noted, although nothing leaves.
        approvals_of(folder).admit(signature, n_rows, settings.approval, count=False)
    with folder.store.transaction():
        if signature is not None:
            approvals_of(folder).admit(signature, n_rows, settings.approval)
        if isinstance(signature, KeySignature):
            _under_key(folder, signature).admit(signature.mark, n_rows)
        elif signature is not None:
            Replays(folder.store).enter(signature)
        site_log(folder).append(SiteEvent.ANSWERED, settings.name, **about)


def _under_key(folder: SiteFolder, signature: KeySignature) -> QueryGuard:
    """Counts the rows that were answered under a signed query key."""
    return QueryGuard(None, signature.amount, folder.store, name="keys")


def note_sent(folder: SiteFolder, event: SiteEvent, **facts: Any) -> None:
    """Note something other than answers; if it is about to leave, refused while the site is paused."""
    if event in LEAVE:
        _refuse_if_paused(folder)
    site_log(folder).append(event, folder.settings.name, **facts)


def _refuse_if_paused(folder: SiteFolder) -> None:
    """The data owner may have paused the site after the message came."""
    if folder.paused.exists():
        raise QueryRefused(FailureCode.PAUSED)


def exported_log(folder: SiteFolder, head: tuple[int, str] | None = None) -> dict[str, Any]:
    """The site's log as plain values, for an auditor; refused if anything in it was changed.

    Besides the chain of sums, every signature of a querier is checked again: whoever wrote the whole chain
    anew could leave queries out, but could not invent one that a querier has signed itself, nor enter one
    twice: a site answers a signed query once. Of a signed query key only the key, its purpose and its limits
    are signed, not which queries were asked under it.
    """
    log = site_log(folder)
    count = log.verify(head)
    entries = list(log)
    answered = [entry for entry in entries if entry.event is SiteEvent.ANSWERED]
    signed = [entry for entry in entries if entry.facts.get("signed") is not None]
    seen: dict[tuple[Any, Any], int] = {}
    for entry in signed:
        if not _is_signed(entry.facts):
            raise TamperedLogError(
                f"entry {entry.number + 1} of the log has a signature that is not the querier's"
            )
        if "until" in entry.facts or entry.event is not SiteEvent.ANSWERED:
            continue  # a query key, under which many queries are asked, or a step of a sum
        first = seen.setdefault((entry.facts["public"], entry.facts["query"]), entry.number)
        if first != entry.number:
            raise TamperedLogError(
                f"entry {entry.number + 1} of the log answers the signed query of entry {first + 1} again, "
                "which no site does"
            )
    return {
        "site": folder.settings.name,
        "federation": folder.federation_id,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "count": count,
        "head": entries[-1].sum if entries else FIRST,
        "signatures": len(signed),
        "unsigned": sum(entry.facts.get("signed") is None for entry in answered),
        "entries": [asdict(entry) | {"event": entry.event.value} for entry in entries],
    }


def _is_signed(facts: dict[str, Any]) -> bool:
    kind = KeySignature if "until" in facts else SumSignature if "contract" in facts else Signature
    plain: dict[str, Any] = {field.name: facts.get(field.name) for field in fields(kind)} | {
        "name": facts.get("querier")
    }
    try:
        return kind(**plain).is_genuine
    except MessageError:
        return False
