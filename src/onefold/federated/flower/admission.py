"""Whom a site answers: the signature of a query, the data owner's approval, and the site's own log.

A query is looked at twice. Before anything is computed, :func:`recognised` checks the signature and the
approval. When the answers are ready, :func:`leaving` counts the rows under the approval, enters the query
among those answered and writes the entry in the log; then, and only then, the answers may leave. A site that
dies in between has not answered, and takes the same query again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from onefold.exceptions import MessageError, QueryRefused, TamperedLogError
from onefold.federated.approvals import Approvals
from onefold.federated.flower.folders import SiteFolder, SiteSettings
from onefold.federated.guard import QueryGuard
from onefold.federated.log import FIRST, SiteEvent, SiteLog
from onefold.federated.messages import FailureCode, Query, QueryKey
from onefold.federated.queriers import AnySignature, KeySignature, Signature, read_signature
from onefold.federated.replays import Replays

__all__ = [
    "EVERY",
    "approvals_of",
    "exported_log",
    "leaving",
    "note_sent",
    "packed",
    "recognised",
    "site_log",
    "unpacked",
]

# Counters of queriers that sign begin with this, and no name that the server gives may.
ACCOUNT = "key."
MOST_SIGNATURES = 256
LONGEST = 2**20
EVERY = "*"  # what stands for a query where a signature is that of the query key


def site_log(folder: SiteFolder) -> SiteLog:
    """The site's own hash-chained log."""
    return SiteLog(folder.audit)


def approvals_of(folder: SiteFolder) -> Approvals:
    """What the data owner of a site has decided."""
    folder.prepare()
    return Approvals(folder.approvals, site_log(folder), folder.settings.name)


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
        Replays(folder.replays).check(signature)
    approvals_of(folder).admit(signature, len(query.features), settings.approval, count=False)
    return f"{ACCOUNT}{signature.key.id}"


def leaving(
    folder: SiteFolder,
    settings: SiteSettings,
    query: Query,
    caller: str,
    signature: AnySignature | None,
    encrypted: bool,
) -> None:
    """Count, enter and note a query whose answers are about to leave; refused if that is not possible."""
    n_rows = len(query.features)
    about: dict[str, Any] = {"query": query.id, "rows": n_rows, "encrypted_answers": encrypted}
    if signature is None:
        about |= {"querier": caller, "signed": None}  # the server's word
    else:
        approvals_of(folder).admit(signature, n_rows, settings.approval)
        if isinstance(signature, KeySignature):
            _under_key(folder, signature).admit(signature.mark, n_rows)
        else:
            Replays(folder.replays).enter(signature)
        stated = signature.to_dict()
        about |= {"querier": stated.pop("name"), "id": signature.key.id, **stated}
    site_log(folder).append(SiteEvent.ANSWERED, settings.name, **about)


def _under_key(folder: SiteFolder, signature: KeySignature) -> QueryGuard:
    """Counts the rows that were answered under a signed query key."""
    return QueryGuard(None, signature.amount, folder.guard.with_name("guard-keys.json"))


def note_sent(folder: SiteFolder, event: SiteEvent, **facts: Any) -> None:
    """Note something other than answers that is about to leave."""
    site_log(folder).append(event, folder.settings.name, **facts)


def exported_log(folder: SiteFolder, head: tuple[int, str] | None = None) -> dict[str, Any]:
    """The site's log as plain values, for an auditor; refused if anything in it was changed.

    Besides the chain of sums, every signature of a querier is checked again: whoever wrote the whole chain
    anew could leave queries out, but could not invent one that a querier has signed itself. Of a signed query
    key only the key, its purpose and its limits are signed, not which queries were asked under it.
    """
    log = site_log(folder)
    count = log.verify(head)
    entries = list(log)
    answered = [entry for entry in entries if entry.event is SiteEvent.ANSWERED]
    signed = [entry for entry in answered if entry.facts.get("signed") is not None]
    for entry in signed:
        if not _is_signed(entry.facts):
            raise TamperedLogError(
                f"line {entry.number + 1} of the log has a signature that is not the querier's"
            )
    return {
        "site": folder.settings.name,
        "federation": folder.federation_id,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "count": count,
        "head": entries[-1].sum if entries else FIRST,
        "signatures": len(signed),
        "unsigned": len(answered) - len(signed),
        "entries": [asdict(entry) | {"event": entry.event.value} for entry in entries],
    }


def _is_signed(facts: dict[str, Any]) -> bool:
    kind = KeySignature if "until" in facts else Signature
    plain = {field.name: facts.get(field.name) for field in fields(kind)} | {"name": facts.get("querier")}
    try:
        return kind.from_dict(plain).is_genuine
    except MessageError:
        return False


# --- on the way -------------------------------------------------------------------------------------------


def packed(signatures: Iterable[AnySignature | None]) -> str:
    """Signatures in one text, as they travel beside queries."""
    return json.dumps([signature.to_dict() for signature in signatures if signature is not None])


def unpacked(text: Any) -> dict[str, AnySignature]:
    """What :func:`packed` wrote, by the ids of the queries; each query has one signature at most.

    The signature of a query key is under ``EVERY``.
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise MessageError("the signatures cannot be read")
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError("the signatures cannot be read") from None
    if not isinstance(plain, list) or len(plain) > MOST_SIGNATURES:
        raise MessageError("the signatures cannot be read")
    signatures = [read_signature(each) for each in plain]
    found = {getattr(signature, "query", EVERY): signature for signature in signatures}
    if len(found) < len(plain):
        raise MessageError("a query has two signatures")
    return found
