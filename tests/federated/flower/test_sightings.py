"""What the server notes about its sites, what they tell, and what is told to a site that was removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.flower import Federation, Site
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.keeping import facts_of
from onefold.federated.flower.nodes import _let_in
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.server_app import Reception
from onefold.federated.flower.setup import expiry, expiry_warnings
from onefold.federated.flower.site_app import FACTS, KEPT_OUT, PROFILE
from onefold.federated.flower.status import ASK_SECONDS, Sightings
from onefold.federated.messages import (
    Answers,
    Failure,
    FailureCode,
    Profile,
    Refusal,
    SiteFacts,
    from_bytes,
)
from onefold.privacy import Ledger


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation.create(tmp_path, ["north", "south"])


@pytest.fixture
def site(federation: Federation, tmp_path: Path) -> SiteFolder:
    return SiteFolder(tmp_path / "sites" / "north")


def test_notes_survive_a_restart_and_are_in_the_status(federation: Federation) -> None:
    clock = Clock()
    notes = Sightings(federation.folder, clock=clock)
    notes.see(["north"])
    values = np.zeros((3, 1))
    said = [Answers("q1", "north", ("a",), "euclidean", None, values)]
    notes.count("north", [*said, Failure("q2", "north", FailureCode.DENIED)], {"q1": 3, "q2": 5})
    notes.count("north", said, {"q9": 7})  # not what it was asked
    notes.count("south", said, {"q1": 3})  # in another's name
    notes.keep("north", SiteFacts("north", "0.2", "1.41", 300, "spent epsilon 1"))
    notes.keep("south", SiteFacts("north", "0.2", "1.41", 300, None))
    again = Sightings(federation.folder, clock=clock)
    again.see([])
    north, south = federation.status().sites
    assert (north.last_seen, north.queries, north.rows_answered) == ("2027-01-15T08:00:00+00:00", 1, 3)
    assert (north.version, north.declared_rows, north.budget) == ("0.2", 300, "spent epsilon 1")
    assert (south.last_seen, south.queries, south.version) == (None, 0, None)


def test_sites_are_asked_when_they_come_and_now_and_then(federation: Federation) -> None:
    clock = Clock()
    notes = Sightings(federation.folder, clock=clock)
    notes.see(["north"])
    assert (notes.to_ask(), notes.to_ask()) == (["north"], [])
    notes.see(["north", "south"])
    assert notes.to_ask() == ["south"]
    clock.now += ASK_SECONDS + 1
    assert notes.to_ask() == ["north", "south"]
    notes.see(["south"])
    notes.see(["north", "south"])
    assert notes.to_ask() == ["north"]


def test_site_tells_rows_and_epsilon_only_if_allowed(site: SiteFolder) -> None:
    Ledger(3.0, unit="record").save(site.ledger)
    told = facts_of(site)
    assert (told.site, told.rows, told.budget) == ("north", None, None)
    Site(site.root).configure(declared_rows=300, tells_epsilon=True)
    told = facts_of(site)
    assert told.rows == 300
    assert told.budget is not None
    assert "limit 3" in told.budget
    assert from_bytes(told.to_bytes()).budget == told.budget  # type: ignore[union-attr]
    site.ledger.write_text("damaged")
    assert facts_of(site).budget is None


@pytest.mark.parametrize("bad", [{"onefold": "a\nb"}, {"budget": "x" * 600}, {"rows": -1}, {"rows": True}])
def test_facts_that_are_none_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        SiteFacts(**{"site": "north", "onefold": "1", "flower": "1", "rows": 1, "budget": None} | bad)


# --- a site that was removed --------------------------------------------------------------------------------


class Present:
    """A node as Flower lists it."""

    def __init__(self, node_id: int, since: str = "today") -> None:
        self.node_id, self.last_activated_at = node_id, since


def test_removed_site_is_told_once_each_time_it_connects(federation: Federation) -> None:
    sent: list[tuple[str, int, Any]] = []

    def send(kind: str, nodes: dict[str, int], messages: Any, timeout: float, caller: str) -> dict[str, str]:
        sent.extend((kind, node, *messages) for node in nodes.values())  # type: ignore[misc]
        return {str(len(sent) - 1): ""}

    registry = Registry(federation.folder)
    for number, name in enumerate(("north", "south")):
        registry.set_node(name, number)
    reception = Reception(federation.folder, registry, send)
    reception.look([Present(0), Present(1)])
    reception.take("1", [Profile("south", (1, 2), "euclidean", None, 3, None, "ab" * 32)])
    federation.remove("south")
    for _ in range(2):
        reception.look([Present(0), Present(1)])
        reception.note_online()
    assert [each[:2] for each in sent] == [(PROFILE, 0), (PROFILE, 1), (KEPT_OUT, 1), (FACTS, 0)]
    told = sent[2][2]
    assert isinstance(told, Refusal)
    assert told.reason.startswith("removed: ")
    assert "south" not in reception.online
    reception.take("3", [SiteFacts("north", "0.2", "1.41", None, None)])
    assert federation.status().sites[0].version == "0.2"
    reception.look([Present(0), Present(1, "later")])
    assert sent[-1][:2] == (KEPT_OUT, 1)


def test_key_of_a_removed_site_may_connect_unless_another_site_has_it(federation: Federation) -> None:
    registry = Registry(federation.folder)
    key = registry.sites["south"].public_key
    federation.remove("south")
    assert set(_let_in(registry.sites.values())) == {"north", "south"}
    registry.invite("east", key)
    assert set(_let_in(registry.sites.values())) == {"north", "east"}


# --- certificates -------------------------------------------------------------------------------------------


def test_certificates_are_renewed_under_the_same_key(federation: Federation, site: SiteFolder) -> None:
    from cryptography import x509

    folder = federation.folder
    before = folder.federation_id, folder.certificate.read_bytes(), folder.ca.read_bytes()
    status = federation.status()
    assert status.certificate is not None
    assert status.warnings == ()
    federation.renew()
    assert folder.ca.read_bytes() == before[2]
    assert folder.certificate.read_bytes() != before[1]
    old = x509.load_pem_x509_certificate(site.ca.read_bytes())
    x509.load_pem_x509_certificate(folder.certificate.read_bytes()).verify_directly_issued_by(old)
    federation.renew(authority=True)
    assert folder.ca.read_bytes() != before[2]
    assert folder.federation_id == before[0] == site.federation_id
    # The site's old file still recognises the server.
    x509.load_pem_x509_certificate(folder.certificate.read_bytes()).verify_directly_issued_by(old)


def test_warnings_come_before_the_end(federation: Federation, site: SiteFolder) -> None:
    end = expiry(site.ca)
    assert end is not None
    assert expiry_warnings(site, end - timedelta(days=31)) == ()
    (line,) = expiry_warnings(site, end - timedelta(days=10))
    assert "ends in 10 days" in line
    assert "ask the server's operator" in line
    lines = expiry_warnings(ServerFolder(federation.folder.root), end + timedelta(days=1))
    assert len(lines) == 2
    assert all("has ended" in line and "onefold federate renew" in line for line in lines)
    assert datetime.now(UTC) < end


def test_certificates_that_cannot_be_renewed(federation: Federation, tmp_path: Path) -> None:
    plain = Federation.create(tmp_path / "plain", ["north"], insecure=True)
    assert (plain.status().certificate, plain.status().warnings) == (None, ())
    with pytest.raises(InvalidInputError, match="plaintext"):
        plain.renew()
    federation.folder.ca_key.unlink()
    with pytest.raises(InvalidInputError, match="authority's key"):
        federation.renew()
