"""The carrier of steps of encrypted sums, without a network: nothing is lost, or sent for nobody."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from onefold._base import files
from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower import parcels
from onefold.federated.flower.parcels import ABSENT, SLOW, UNSENT, Carrier, ParcelRequest, ParcelSpool
from onefold.federated.messages import SumParcel

KEY = SigningKey("ward", bytes(32))
ONLINE = {"north": 1, "south": 2}


class Post:
    """Takes parcels to sites and remembers which."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.takes = True

    def __call__(self, nodes: dict[str, int], messages: Sequence[Any], *what: Any) -> dict[str, str]:
        if not self.takes:
            return {}
        self.sent += nodes
        return {f"to-{site}": site for site in nodes}


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def spool(tmp_path: Path) -> ParcelSpool:
    (tmp_path / "parcels").mkdir()
    return ParcelSpool(tmp_path)


@pytest.fixture
def carrier(spool: ParcelSpool, post: Post) -> Carrier:
    return Carrier(spool, post)


@pytest.fixture(autouse=True)
def _room() -> Iterator[None]:
    yield
    files.fault = None


def fill_the_disk() -> None:
    def full(*what: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.fault = full


def submit(spool: ParcelSpool, site: str, **stated: Any) -> SumParcel:
    parcel = SumParcel(f"query-{site}", site, "contribute", b"x")
    signature = KEY.sign_step(parcel, "ab" * 32, "cd" * 32)
    spool.submit(ParcelRequest(parcel, "ward", 300.0, signature, **stated))
    return parcel


def test_full_disk_loses_no_parcel_and_no_reply(spool: ParcelSpool, carrier: Carrier, post: Post) -> None:
    asked = {site: submit(spool, site) for site in ("absent", "north", "south")}
    fill_the_disk()
    carrier.look(ONLINE)
    assert post.sent == ["north", "south"]
    carrier.take("to-north", [asked["north"]])
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            carrier.spool.hand_over()
    files.fault = None
    carrier.look(ONLINE)
    carrier.spool.hand_over()
    assert post.sent == ["north", "south"]  # once each
    assert spool.wait(asked["absent"], 1.0) == ABSENT
    found = spool.wait(asked["north"], 1.0)
    assert isinstance(found, SumParcel)
    assert found.query_id == "query-north"
    assert carrier.waiting == ["to-south"]


def test_parcel_that_nobody_waits_for_is_not_sent(spool: ParcelSpool, carrier: Carrier, post: Post) -> None:
    submit(spool, "north", until=time.time() - 1)
    carrier.look(ONLINE)
    carrier.spool.hand_over()
    assert not post.sent
    assert not list((spool.root / "parcels").iterdir())


def test_slow_site_is_not_called_absent(
    spool: ParcelSpool, carrier: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = submit(spool, "north")
    carrier.look(ONLINE)
    later = time.monotonic() + 301
    with monkeypatch.context() as patch:
        patch.setattr(parcels.time, "monotonic", lambda: later)
        carrier.look(ONLINE)
    carrier.spool.hand_over()
    assert spool.wait(parcel, 1.0) == SLOW


def test_site_whose_message_is_not_taken_is_not_called_absent(
    spool: ParcelSpool, carrier: Carrier, post: Post
) -> None:
    post.takes = False
    parcel = submit(spool, "north")
    carrier.look(ONLINE)
    carrier.spool.hand_over()
    assert spool.wait(parcel, 1.0) == UNSENT
