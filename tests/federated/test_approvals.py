"""What a data owner decides: who waits, what an approval allows, and that it survives restarts and kills."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError, QueryRefused
from onefold.federated.access.approvals import MOST_WAITING, Approvals, OwnerDecision, end_of_day
from onefold.federated.access.log import SiteEvent, SiteLog
from onefold.federated.access.signatures import Signature, SigningKey
from onefold.federated.messages import FailureCode, Query

pytest.importorskip("cryptography")

HOME = "ab" * 32
WARD, LAB = SigningKey("ward", bytes(32)), SigningKey("lab", bytes([1] * 32))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Approvals]:
    """The approvals of one site, as every process opens them anew."""
    return lambda **more: Approvals(SiteLog(tmp_path / "site.db"), "north", **more)


def asked(key: SigningKey, rows: int = 5, purpose: str = "", amount: int | None = None) -> Signature:
    return key.sign(Query("q", np.zeros((rows, 2))), HOME, purpose=purpose, amount=amount)


def refusal(approvals: Approvals, signature: Signature, mode: str = "queriers") -> str:
    with pytest.raises(QueryRefused) as caught:
        approvals.admit(signature, signature.rows, mode)
    return caught.value.code


def events(approvals: Approvals) -> list[str]:
    return [entry.event.value for entry in approvals.log]


def test_new_querier_waits_is_listed_and_noted_once(made: Callable[..., Approvals]) -> None:
    for _ in range(3):
        assert refusal(made(), asked(WARD, purpose="triage", amount=20)) == FailureCode.WAITING
    (entry,) = made().entries()
    assert (entry.querier, entry.decision, entry.asked) == (WARD.key, OwnerDecision.WAITING, 20)
    assert (entry.stated, entry.answered) == ("triage", 0)
    assert events(made()) == ["waiting"]


def test_approved_querier_is_answered_for_every_purpose_until_denied(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD))
    made().approve("ward", "queriers")
    made().admit(asked(WARD, purpose="one"), 5, "queriers")
    made().admit(asked(WARD, purpose="two"), 5, "queriers")
    assert made().entries()[0].answered == 10
    assert refusal(made(), asked(LAB)) == FailureCode.WAITING
    made().deny("ward", "queriers")
    assert refusal(made(), asked(WARD)) == FailureCode.DENIED
    assert refusal(made(), asked(WARD), "anyone") == FailureCode.DENIED
    assert events(made()) == ["waiting", "approved", "waiting", "denied"]


def test_approval_of_a_purpose_allows_what_was_asked_for_and_no_more(made: Callable[..., Approvals]) -> None:
    first = asked(WARD, purpose="triage", amount=12)
    assert refusal(made(), first, "purposes") == FailureCode.WAITING
    (entry,) = made().approve("ward", "purposes")
    assert (entry.purpose, entry.allowed) == ("triage", 12)
    for _ in range(2):
        made().admit(first, 5, "purposes")
    assert refusal(made(), first, "purposes") == FailureCode.WAITING  # 10 of 12 rows are answered
    assert refusal(made(), asked(WARD, purpose="marketing"), "purposes") == FailureCode.WAITING
    assert [each.asked for each in made().entries()] == [5, 12]
    made().approve("ward", "purposes", purpose="triage", rows=5)
    made().admit(first, 5, "purposes")
    assert refusal(made(), first, "purposes") == FailureCode.WAITING


def test_querier_that_asks_for_more_while_it_waits_is_not_given_more(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD, purpose="triage", amount=12), "purposes")
    refusal(made(), asked(WARD, purpose="triage", amount=2**53), "purposes")
    assert [each.asked for each in made().entries()] == [12]
    assert [each.allowed for each in made().approve("ward", "purposes")] == [12]
    noted = [entry.facts for entry in made().log]
    assert (noted[0]["asked"], noted[1]["allowed"]) == (12, 12)


def test_approval_of_every_purpose_is_none_of_a_single_one(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD, purpose="triage"))
    made().approve("ward", "queriers")
    assert refusal(made(), asked(WARD, purpose="triage"), "purposes") == FailureCode.WAITING


def test_purpose_that_is_approved_after_the_querier_was_refused_is_answered_and_no_other(
    made: Callable[..., Approvals],
) -> None:
    for purpose in ("triage", "billing"):
        refusal(made(), asked(WARD, purpose=purpose), "purposes")
    made().approve("ward", "purposes", rows=50, every=True)
    made().deny("ward", "purposes")
    for purpose in ("triage", "billing", "marketing"):
        assert refusal(made(), asked(WARD, purpose=purpose), "purposes") == FailureCode.DENIED
    made().approve("ward", "purposes", purpose="triage", rows=5)
    made().admit(asked(WARD, purpose="triage"), 5, "purposes")
    assert refusal(made(), asked(WARD, purpose="billing"), "purposes") == FailureCode.DENIED
    assert refusal(made(), asked(WARD, purpose="marketing"), "purposes") == FailureCode.WAITING


def test_several_purposes_that_wait_are_approved_only_by_name_or_all_together(
    made: Callable[..., Approvals],
) -> None:
    for purpose in ("triage", "billing"):
        refusal(made(), asked(WARD, purpose=purpose), "purposes")
    with pytest.raises(InvalidInputError, match=r"2 purposes .*'triage', 'billing'.*--purpose TEXT.*--all"):
        made().approve("ward", "purposes")
    assert all(entry.asked for entry in made().entries())  # nothing was approved
    with pytest.raises(InvalidInputError, match="not both"):
        made().approve("ward", "purposes", purpose="triage", every=True)
    (one,) = made().approve("ward", "purposes", purpose="triage")
    assert one.purpose == "triage"
    (other,) = made().approve("ward", "purposes")  # the only one that waits
    assert other.purpose == "billing"


def test_purpose_is_not_approved_where_it_would_not_count(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD, purpose="triage"))
    for mode in ("queriers", "anyone"):
        with pytest.raises(InvalidInputError, match="leave out the purpose"):
            made().approve("ward", mode, purpose="triage", rows=5)
    assert events(made()) == ["waiting"]


def test_approval_ends_with_its_day(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD))
    end = end_of_day("2027-01-31")
    made().approve("ward", "queriers", until=end)
    made(clock=lambda: end).admit(asked(WARD), 5, "queriers")
    assert refusal(made(clock=lambda: end + 1), asked(WARD)) == FailureCode.WAITING
    with pytest.raises(InvalidInputError, match="is no day"):
        end_of_day("31.1.2027")


def test_querier_is_approved_ahead_by_its_public_key(made: Callable[..., Approvals], tmp_path: Path) -> None:
    key = SigningKey.create("lab", tmp_path)
    made().approve(str(tmp_path / "lab.pub"), "queriers", rows=7)
    made().admit(asked(key), 5, "queriers")
    with pytest.raises(InvalidInputError, match="which purpose"):
        made().approve(str(tmp_path / "lab.pub"), "purposes")
    with pytest.raises(InvalidInputError, match="how many rows"):
        made().approve(str(tmp_path / "lab.pub"), "purposes", purpose="triage")


def test_second_key_under_a_known_name_is_a_stranger(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD))
    made().approve("ward", "queriers")
    forged = SigningKey("ward", bytes([7] * 32))
    assert refusal(made(), asked(forged)) == FailureCode.WAITING
    with pytest.raises(InvalidInputError, match="several keys"):
        made().approve("ward", "queriers")
    # A name that looks like the id of another key does not stand for that key.
    disguised = SigningKey(WARD.key.id, bytes([8] * 32))
    refusal(made(), asked(disguised))
    assert made().deny(WARD.key.id, "queriers")[0].querier == WARD.key
    with pytest.raises(InvalidInputError, match="no querier nobody"):
        made().approve("nobody", "queriers")


def test_number_of_strangers_that_wait_is_bounded(made: Callable[..., Approvals]) -> None:
    keys = [SigningKey("ward", number.to_bytes(32, "big")) for number in range(MOST_WAITING + 1)]
    codes = [refusal(made(), asked(key)) for key in keys]
    assert codes == [FailureCode.WAITING] * MOST_WAITING + [FailureCode.UNKNOWN_CALLER]
    assert len(made().entries()) == len(events(made())) == MOST_WAITING


def test_no_more_rows_than_allowed_however_many_ask_at_once(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD))
    made().approve("ward", "queriers", rows=20)

    def admitted(_: int) -> bool:
        try:
            made().admit(asked(WARD), 5, "queriers")
        except QueryRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(admitted, range(12))) == 4


class Killed(BaseException):
    """The end of the process, at a write."""


@pytest.mark.parametrize("at", ["append", "commit"])
@pytest.mark.parametrize("decide", ["approve", "deny"])
def test_decision_interrupted_at_any_write_counts_whole_or_not_at_all(
    at: str, decide: str, made: Callable[..., Approvals], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal(made(), asked(WARD))

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    def die_before(what: str, *_: Any) -> None:
        if what == "commit":
            raise Killed

    with monkeypatch.context() as patch:
        if at == "append":
            patch.setattr(SiteLog, at, die)
        else:  # all is written, and does not count yet
            patch.setattr("onefold._base.state.step", die_before)
        with pytest.raises(Killed):
            getattr(made(), decide)("ward", "queriers")
    assert made().entries()[0].decision is OwnerDecision.WAITING
    assert events(made()) == ["waiting"]
    assert made().log.verify() == 1
    getattr(made(), decide)("ward", "queriers")
    assert made().entries()[0].decision is not OwnerDecision.WAITING


@pytest.mark.parametrize("change", ["decision = 'perhaps'", "public = 'none'", "name = 'a b'"])
def test_damaged_list_refuses_everything(made: Callable[..., Approvals], change: str) -> None:
    refusal(made(), asked(WARD))
    with made().store.transaction() as db:
        db.execute(f"UPDATE approvals SET {change}")
    with pytest.raises(FileFormatError, match="no query is answered"):
        made().admit(asked(WARD), 5, "queriers")
    with pytest.raises(FileFormatError), made().store.transaction() as db:
        db.execute("UPDATE approvals SET answered = -5")


def test_lists_of_one_store_are_apart(made: Callable[..., Approvals]) -> None:
    refusal(made(), asked(WARD))
    assert made(subject="sum").entries() == ()
    made().approve("ward", "queriers")
    assert refusal(made(subject="sum"), asked(WARD)) == FailureCode.WAITING
    made().admit(asked(WARD), 5, "queriers")


def test_events_of_a_site_are_not_those_of_the_membership(tmp_path: Path) -> None:
    log = SiteLog(tmp_path / "site.db")
    assert log.append(SiteEvent.ANSWERED, "north", rows=1).number == 0
    with pytest.raises(InvalidInputError, match="must be one of approved"):
        log.append("join", "north")
