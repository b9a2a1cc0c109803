"""Signing keys, signatures and replays: what a server without the key cannot change or invent."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold._base import records
from onefold._base.records import pack
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError, QueryRefused
from onefold.federated.access import signatures as queriers
from onefold.federated.access.guard import WINDOW_SECONDS, Replays
from onefold.federated.access.signatures import QuerierKey, Signature, SigningKey, find_signing_key
from onefold.federated.messages import FailureCode, Query, QueryKey, from_bytes

pytest.importorskip("cryptography")

HOME, OTHER = "ab" * 32, "cd" * 32
ROWS = np.arange(6.0).reshape(2, 3)
QUERY = Query("q1", ROWS)
LOCK = QueryKey("12" * 32, ("a", "b"), 8, 1.0, 1.0, 0.0, b"key")


@pytest.fixture
def key() -> SigningKey:
    return SigningKey("ward", bytes(range(32)))


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    with pytest.raises(QueryRefused) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_signature_holds_for_the_query_it_was_made_for(key: SigningKey) -> None:
    signature = key.sign(QUERY, HOME, purpose="triage", amount=9, rule="min")
    signature.check(QUERY, HOME)
    read = from_bytes(signature.to_bytes())
    read.check(Query("q1", ROWS.copy()), HOME)
    assert (read.key, read.rows, read.amount, read.purpose) == (key.key, 2, 9, "triage")


def test_signature_does_not_hold_for_anything_else(key: SigningKey) -> None:
    signature = key.sign(QUERY, HOME)
    changed = ROWS.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], 9)
    others = [Query("q2", ROWS), Query("q1", changed), Query("q1", ROWS[:1]), Query("q1", ROWS.reshape(3, 2))]
    others.append(Query("q1", ROWS.astype(np.float32)))
    assert {refusal(signature.check, other, HOME) for other in others} == {FailureCode.BAD_SIGNATURE}
    assert refusal(signature.check, QUERY, OTHER) == FailureCode.BAD_SIGNATURE


def test_query_key_is_signed_with_its_map(key: SigningKey) -> None:
    signature = key.sign(QUERY, HOME, query_key=LOCK)
    signature.check(QUERY, HOME, LOCK)
    swapped = (
        None,
        replace(LOCK, content=b"its own"),
        replace(LOCK, bound=2.0),
        replace(LOCK, key_id="34" * 32),
    )
    for other in swapped:
        assert refusal(signature.check, QUERY, HOME, other) == FailureCode.BAD_SIGNATURE
    assert refusal(key.sign(QUERY, HOME).check, QUERY, HOME, LOCK) == FailureCode.BAD_SIGNATURE


CHANGES = {"purpose": "marketing", "name": "somebody", "amount": 1000, "rule": "checked", "time": 5}


@pytest.mark.parametrize("field", CHANGES)
def test_server_cannot_change_what_was_stated(field: str, key: SigningKey) -> None:
    signature = replace(key.sign(QUERY, HOME, purpose="triage"), **{field: CHANGES[field]})
    assert refusal(signature.check, QUERY, HOME) == FailureCode.BAD_SIGNATURE


def test_server_cannot_sign_in_the_name_of_a_key_it_lacks(key: SigningKey) -> None:
    own = SigningKey("ward", bytes(32)).sign(QUERY, HOME)
    assert refusal(replace(own, public=key.key.public).check, QUERY, HOME) == FailureCode.BAD_SIGNATURE
    assert own.key.id != key.key.id  # under its own key it is somebody else


def test_amount_below_the_rows_is_refused(key: SigningKey) -> None:
    assert refusal(key.sign(QUERY, HOME, amount=1).check, QUERY, HOME) == FailureCode.BAD_SIGNATURE


MALFORMED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no object": lambda plain: [],
    "a field too few": lambda plain: {name: plain[name] for name in list(plain)[1:]},
    "a field too many": lambda plain: plain | {"more": 1},
    "a purpose of two lines": lambda plain: plain | {"purpose": "a\nb"},
    "a long purpose": lambda plain: plain | {"purpose": "x" * 201},
    "an escape in the rule": lambda plain: plain | {"rule": "\x1b[31m"},
    "a key that is none": lambda plain: plain | {"public": "zz" * 32},
    "a short signature": lambda plain: plain | {"signed": "00"},
    "a time that is a truth value": lambda plain: plain | {"time": True},
    "rows below zero": lambda plain: plain | {"rows": -1},
    "an endless number": lambda plain: plain | {"amount": 10**400},
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_signature_is_refused(case: str, key: SigningKey) -> None:
    plain = MALFORMED[case](key.sign(QUERY, HOME).plain)
    with pytest.raises(MessageError):
        from_bytes(pack("query signature", 1, plain, {}))
    if isinstance(plain, dict) and "more" not in plain:
        with pytest.raises(MessageError):
            Signature(**plain)


def test_signed_query_key_holds_for_one_key_federation_and_time(key: SigningKey) -> None:
    stated = key.sign_key(LOCK, HOME, amount=100, until=1000, purpose="triage")
    now = {"clock": lambda: 1000.0}
    stated.check(LOCK, HOME, **now)
    assert from_bytes(stated.to_bytes()).plain == stated.plain
    other = replace(LOCK, content=b"its own")
    for lock, home in ((other, HOME), (LOCK, OTHER), (None, HOME), (replace(LOCK, bits=16), HOME)):
        assert refusal(stated.check, lock, home, **now) == FailureCode.BAD_SIGNATURE
    for change in ({"amount": 10**6}, {"until": 2000}, {"purpose": "marketing"}, {"name": "lab"}):
        assert refusal(replace(stated, **change).check, LOCK, HOME, **now) == FailureCode.BAD_SIGNATURE
    assert refusal(stated.check, LOCK, HOME, clock=lambda: 1001.0) == FailureCode.STALE
    with pytest.raises(MessageError):
        replace(stated, encrypted=None)


def test_signature_of_a_query_is_none_of_a_key_and_the_other_way_round(key: SigningKey) -> None:
    query, stated = key.sign(QUERY, HOME, query_key=LOCK), key.sign_key(LOCK, HOME, amount=2, until=9)
    swapped = replace(stated, signed=query.signed)
    assert refusal(swapped.check, LOCK, HOME, clock=lambda: 0.0) == FailureCode.BAD_SIGNATURE
    assert not replace(query, signed=stated.signed).is_genuine
    with pytest.raises(MessageError):
        from_bytes(pack("query signature", 1, stated.plain, {}))


# --- key files --------------------------------------------------------------------------------------------


def test_key_files_are_made_once_and_read_back(tmp_path: Path) -> None:
    made = SigningKey.create("ward", tmp_path / "keys")
    path = tmp_path / "keys" / "ward.signkey"
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.load(path).key == made.key == QuerierKey.load(path.with_suffix(".pub"))
    with pytest.raises(InvalidInputError, match="there is a key already"):
        SigningKey.create("ward", tmp_path / "keys")
    found = find_signing_key("ward", tmp_path / "keys")
    assert found is not None
    assert found.key == made.key
    assert find_signing_key("other", tmp_path / "keys") is None
    assert made.key.public not in repr(made)


def test_key_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    SigningKey.create("ward", tmp_path)
    path, public = tmp_path / "ward.signkey", tmp_path / "ward.pub"
    path.chmod(0o644)
    with pytest.raises(InvalidInputError, match="others can read this key"):
        SigningKey.load(path)
    path.chmod(0o600)
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="not a file of onefold"):
        SigningKey.load(path)
    public.write_bytes(public.read_bytes().rsplit(b" ", 1)[0])  # no name
    with pytest.raises(InvalidInputError, match="no public key of a querier"):
        QuerierKey.load(public)
    with pytest.raises(InvalidInputError, match="no such file"):
        QuerierKey.load(tmp_path / "none.pub")
    with pytest.raises(InvalidInputError, match="there is no signing key"):
        find_signing_key(str(tmp_path / "none.signkey"))


def test_key_that_cannot_be_written_leaves_no_private_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, content: bytes, public: bool = False) -> None:
        raise OSError(28, "No space left on device")

    for module in (queriers, records):
        monkeypatch.setattr(module, "write_whole", fail)
    with pytest.raises(InvalidInputError, match="No space left"):
        SigningKey.create("ward", tmp_path)
    assert not list(tmp_path.glob("*.signkey"))


# --- replays ----------------------------------------------------------------------------------------------


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def remembered(replays: Replays) -> int:
    with replays.store.reading() as db:
        return int(db.execute("SELECT count(*) FROM replays").fetchone()[0])


def signed(key: SigningKey, number: int, clock: Clock) -> Signature:
    return key.sign(Query(f"q{number}", ROWS), HOME, clock=clock)


def test_same_query_is_taken_once_also_after_a_restart(tmp_path: Path, key: SigningKey) -> None:
    clock = Clock()
    first = signed(key, 1, clock)
    Replays(tmp_path / "r", clock=clock).check(first)
    Replays(tmp_path / "r", clock=clock).enter(first)
    again = Replays(tmp_path / "r", clock=clock)
    assert refusal(again.check, first) == FailureCode.REPLAYED
    assert refusal(again.enter, first) == FailureCode.REPLAYED
    other = SigningKey("ward", bytes(32)).sign(Query("q1", ROWS), HOME, clock=clock)
    again.enter(other)  # another key may use the same id


def test_old_and_future_signatures_are_stale(tmp_path: Path, key: SigningKey) -> None:
    clock = Clock()
    replays, first = Replays(tmp_path / "r", clock=clock), signed(key, 1, clock)
    for shift in (-WINDOW_SECONDS - 1, WINDOW_SECONDS + 1):
        clock.now = Clock.now + shift
        assert refusal(replays.enter, first) == FailureCode.STALE
    clock.now = Clock.now + WINDOW_SECONDS
    replays.enter(first)


def test_forgotten_query_is_not_taken_again_when_the_clock_is_put_back(
    tmp_path: Path, key: SigningKey
) -> None:
    clock = Clock()
    replays, first = Replays(tmp_path / "r", clock=clock), signed(key, 1, clock)
    replays.enter(first)
    clock.now += 2 * WINDOW_SECONDS
    replays.enter(signed(key, 2, clock))
    assert remembered(replays) == 1
    clock.now = Clock.now
    assert refusal(replays.enter, first) == FailureCode.STALE


def test_memory_is_bounded_and_what_made_way_is_stale(tmp_path: Path, key: SigningKey) -> None:
    clock = Clock()
    replays = Replays(tmp_path / "r", clock=clock, most=3)
    made = []
    for number in range(6):
        made.append(signed(key, number, clock))
        replays.enter(made[-1])
        clock.now += 1
    assert remembered(replays) == 3
    codes = [refusal(replays.enter, each) for each in made]
    assert codes == [FailureCode.STALE] * 3 + [FailureCode.REPLAYED] * 3


def test_one_of_many_at_once_is_taken(tmp_path: Path, key: SigningKey) -> None:
    first = key.sign(QUERY, HOME)

    def enter(_: int) -> bool:
        try:
            Replays(tmp_path / "r").enter(first)
        except QueryRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(enter, range(16))) == 1


def test_damaged_memory_refuses_everything(tmp_path: Path, key: SigningKey) -> None:
    (tmp_path / "r").write_text('{"format": 1, "known": 3}')
    with pytest.raises(FileFormatError, match="not a federation state file, or damaged"):
        Replays(tmp_path / "r").check(key.sign(QUERY, HOME))


def test_a_query_costs_the_same_among_many(tmp_path: Path, key: SigningKey) -> None:
    """By the steps that SQLite takes, which no other load changes."""
    clock = Clock()
    replays = Replays(tmp_path / "r", clock=clock)

    def steps(number: int) -> int:
        taken: list[None] = []
        with replays.store.transaction() as db:
            db.set_progress_handler(lambda: taken.append(None), 1)  # type: ignore[func-returns-value,arg-type]
            replays.enter(signed(key, number, clock))
        return len(taken)

    def fill(start: int, end: int) -> None:
        with replays.store.transaction() as db:
            rows = ((f"{number:032d}", int(clock.now) - number % 800) for number in range(start, end))
            db.executemany("INSERT INTO replays VALUES (?, ?)", rows)
            db.execute("INSERT OR REPLACE INTO singles VALUES ('replays.count', ?)", (end,))

    fill(0, 100)
    few = steps(1)
    fill(100, 9_900)
    assert steps(2) <= 2 * few
    fill(9_900, 10_000)
    assert steps(3) <= 4 * few  # some make way
    assert remembered(replays) < 10_000
