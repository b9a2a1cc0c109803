"""My site and my federation: what their folders say is shown, and what is decided there holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("starlette")
pytest.importorskip("starlette.testclient")

from starlette import testclient

from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower import Federation, Site
from onefold.privacy import Event, Ledger
from onefold.serve import create_app
from onefold.serve.app import HEADER, FederationPage, SitePage

HOME = "http://127.0.0.1:8000"
OURS = {"origin": HOME, HEADER: "t"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    Federation.create(tmp_path / "f", ("north", "south"), port=39_998)
    site = Site(tmp_path / "f" / "sites" / "north")
    y = np.arange(40) % 2
    site.fit(np.random.default_rng(0).random((40, 2)) + y[:, None], y)
    return tmp_path / "f"


def test_data_owner_approves_denies_and_pauses(root: Path) -> None:
    page = SitePage(root / "sites" / "north")
    assert page.told()["paused"] is False
    SigningKey.create("ward", root)
    page.site.approvals().approve(str(root / "ward.pub"), "queriers")
    (entry,) = page.told()["approvals"]
    assert (entry["name"], entry["decision"], entry["waits"]) == ("ward", "approved", False)
    told = page.decide({"querier": entry["id"], "purpose": None, "decision": "deny"})
    assert told["approvals"][0]["decision"] == "denied"
    told = page.pause({"paused": True})
    assert told["paused"] is True
    assert [line["event"] for line in told["log"]] == ["paused", "denied", "approved"]
    assert page.pause({"paused": False})["paused"] is False


def test_epsilon_left_is_what_the_limit_leaves(root: Path) -> None:
    page = SitePage(root / "sites" / "north")
    assert page.told()["budget"] is None  # no noise: there is nothing to count
    ledger = Ledger(limit_epsilon=3.0)
    ledger.spend(Event("a fit", "record", 1.0 / 3.0))
    ledger.save(page.site.folder.ledger)
    told = page.told()
    assert told["budget"] == {"unit": "record", "spent": 0.3334, "limit": 3.0, "left": 2.6666}
    assert any("a fit" in line for line in told["ledger"])
    Ledger.load(page.site.folder.ledger).spend(Event("another", "record", 2.0))
    assert page.told()["budget"]["left"] == 0.6666


def test_operator_sees_sites_and_removes_one(root: Path) -> None:
    page = FederationPage(root / "server")
    assert [site["name"] for site in page.told()["sites"]] == ["north", "south"]
    told = page.remove({"site": "south"})
    assert {site["name"]: site["status"] for site in told["sites"]}["south"] == "removed"


def test_pages_of_folders_that_were_not_named_are_refused_in_one_line(root: Path) -> None:
    with testclient.TestClient(create_app("t"), base_url=HOME, headers=OURS) as client:
        for path in ("/api/site", "/api/federation"):
            reply = client.get(path)
            assert reply.status_code == 400
            assert "start onefold serve with" in reply.json()["error"]


def test_pages_decide_through_the_web(root: Path) -> None:
    app: Any = create_app("t", site=root / "sites" / "north", federation=root / "server")
    with testclient.TestClient(app, base_url=HOME, headers=OURS) as client:
        offer = client.get("/api/offer").json()
        assert (offer["site"], offer["federation"]) == (True, True)
        assert client.post("/api/site/pause", json={"paused": True}).json()["paused"] is True
        assert Site(root / "sites" / "north").is_paused
        bad = client.post("/api/site/decide", json={"querier": "nobody", "decision": "approve"})
        assert bad.status_code == 400
        assert client.post("/api/federation/remove", json={"site": "nowhere"}).status_code == 400
