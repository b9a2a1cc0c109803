"""My site and my federation: what a data owner and an operator see, and the few things they may do here."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.federated.access.approvals import end_of_day
from onefold.federated.flower import Federation, Site
from onefold.federated.flower.admission import exported_log
from onefold.federated.flower.keeping import state_of
from onefold.privacy import Ledger
from onefold.report.evaluation import rounded_down, rounded_up

MOST_LINES = 200
DIGITS = 4  # after the point, of epsilon


class SitePage:
    """The page of the data owner of a site."""

    def __init__(self, folder: str | Path) -> None:
        self.site = Site(folder)

    def told(self) -> dict[str, Any]:
        """Who asked what, when and for which purpose; what was decided; what is left."""
        site = self.site
        log: dict[str, Any] = {"entries": [], "count": 0}
        wrong = None
        try:
            log = exported_log(site.folder)
        except OnefoldError as error:
            wrong = str(error)
        return {
            "name": site.settings.name,
            "approval": site.settings.approval,
            "state": state_of(site.folder),
            "paused": site.is_paused,
            "approvals": [_entry(entry) for entry in site.approvals().entries()],
            "log": [_line(entry) for entry in log["entries"][-MOST_LINES:][::-1]],
            "log_entries": log["count"],
            "log_error": wrong,
            **self._spent(),
        }

    def _spent(self) -> dict[str, Any]:
        """What fits with noise have spent and what is left of the limit; nothing of either without them."""
        path = self.site.folder.ledger
        if not path.exists():
            return {"budget": None, "ledger": []}
        ledger = Ledger.load(path)
        counted = ledger.total()
        spent, limit = counted[0], ledger.limit_epsilon
        left = None if limit is None else rounded_down(max(limit - spent, 0.0), DIGITS)
        budget = {"unit": ledger.unit, "spent": rounded_up(spent, DIGITS), "limit": limit, "left": left}
        return {"budget": budget, "ledger": str(ledger).split("\n")}

    def decide(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Approve or deny what one querier asks for one purpose."""
        who, purpose = str(plain.get("querier", "")), plain.get("purpose")
        approvals, mode = self.site.approvals(), self.site.settings.approval
        stated = None if purpose is None else str(purpose)
        if plain.get("decision") == "deny":
            approvals.deny(who, mode, purpose=stated)
        elif plain.get("decision") == "approve":
            rows, until = plain.get("rows"), plain.get("until")
            approvals.approve(
                who,
                mode,
                purpose=stated,
                rows=_whole(rows),
                until=None if not until else end_of_day(str(until)),
            )
        else:
            raise InvalidInputError("decide to approve or to deny")
        return self.told()

    def pause(self, paused: bool) -> dict[str, Any]:
        """Answer nobody until this is taken back."""
        self.site.pause(paused)
        return self.told()


def _whole(rows: Any) -> int | None:
    if rows in (None, ""):
        return None
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise InvalidInputError("the number of rows must be a whole number of at least 1")
    return rows


def _entry(entry: Any) -> dict[str, Any]:
    return {
        **entry.to_dict(),
        "id": entry.querier.id,
        "name": entry.querier.name,
        "waits": entry.asked > 0,
        "left": entry.left,
    }


def _line(entry: dict[str, Any]) -> dict[str, Any]:
    facts = entry["facts"]
    rows = facts.get("rows", facts.get("asked", facts.get("allowed")))
    return {
        "time": entry["time"],
        "event": entry["event"],
        "querier": str(facts.get("querier", "")),
        "purpose": str(facts.get("purpose") or facts.get("stated") or ""),
        "rows": rows,
    }


class FederationPage:
    """The page of the operator of a federation's server."""

    def __init__(self, folder: str | Path) -> None:
        self.federation = Federation(folder)

    def told(self) -> dict[str, Any]:
        """The sites, whether they are there, and what they promise."""
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
        return {"now": now, **self.federation.status().to_dict()}

    def remove(self, site: str) -> dict[str, Any]:
        """Take a site out."""
        self.federation.remove(site)
        return self.told()
