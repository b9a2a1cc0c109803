"""What a monitoring program reads of a server: a text that its rules allow, on the loopback address only."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from onefold.exceptions import InvalidInputError, ServerBusyError
from onefold.federated.flower import Federation
from onefold.federated.flower.nodes import ServerNode
from onefold.federated.flower.numbers import OF_THE_RUN, OF_THE_SERVER, ServerNumbers, serve_numbers
from onefold.federated.flower.spool import Request
from onefold.federated.messages import Query, SiteFacts
from reference.fake_grid import make_coordinator, step


def told(numbers: ServerNumbers) -> dict[str, dict[str, float]]:
    """Family to sample to value, from the text that a monitoring program gets."""
    registry = CollectorRegistry()
    registry.register(numbers)
    return parsed(generate_latest(registry).decode())


def parsed(text: str) -> dict[str, dict[str, float]]:
    families = [each for each in text_string_to_metric_families(text) if each.samples]
    assert len({each.name for each in families}) == len(families)
    return {
        each.name: {
            each.name + "".join(f" {name}={value}" for name, value in sample.labels.items()): sample.value
            for sample in each.samples
        }
        for each in families
    }


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation.create(tmp_path / "f", ["north", "south"])


@pytest.fixture
def run(federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run in which north has joined, and has been asked."""
    make_coordinator(tmp_path, monkeypatch)  # lets messages be made outside of Flower
    from onefold.federated.flower.registry import Registry
    from onefold.federated.flower.server_app import Coordinator
    from reference.fake_grid import FakeGrid

    federation.folder.prepare()
    Registry(federation.folder).set_node("north", 0)
    made = Coordinator(FakeGrid(["north"]), federation.folder)
    step(made, 2)
    made.spool.submit(Request(Query("q0", np.ones((4, 3))), "querier-of-a-name", 60.0))
    step(made, 3)
    return made


def test_numbers_of_a_running_server(federation: Federation, run: Any) -> None:
    budget = "spent epsilon 0.5 per record replaced, delta 0; limit 3"
    run.sightings.keep("north", SiteFacts("north", "0", "0", None, budget))
    run.sightings.keep("south", SiteFacts("south", "0", "0", None, "spent a lot; limit none"))
    run.pulse.queue = 1
    run.pulse.beat()
    run.spool.submit(Request(Query("q1", np.ones((4, 3))), "me", 60.0))
    with pytest.raises(ServerBusyError):
        run.spool.submit(Request(Query("q2", np.ones((4, 3))), "me", 60.0))
    found = told(ServerNumbers(federation.folder))
    assert found["onefold_sites"]["onefold_sites status=member"] == 1
    assert found["onefold_sites"]["onefold_sites status=invited"] == 1
    assert found["onefold_site_connected"] == {
        "onefold_site_connected site=north": 1,
        "onefold_site_connected site=south": 0,
    }
    assert found["onefold_site_epsilon_left"] == {"onefold_site_epsilon_left site=north": 2.5}
    assert found["onefold_busy_refusals"] == {"onefold_busy_refusals": 1}
    assert found["onefold_queries_waiting"] == {"onefold_queries_waiting": 1}
    assert found["onefold_queries"]["onefold_queries outcome=answered"] == 1
    assert found["onefold_run_up"] == {"onefold_run_up": 1}
    assert found["onefold_disk_full"] == {"onefold_disk_full": 0}
    assert len(found["onefold_certificate_expiry_seconds"]) == 2
    (start,) = found["onefold_start_time_seconds"].values()
    for end in found["onefold_certificate_expiry_seconds"].values():
        assert 360 < (end - start) / 86400 < 370
    assert set(found) == {name.removesuffix("_total") for name in {**OF_THE_SERVER, **OF_THE_RUN}}


def test_no_number_tells_who_asks(federation: Federation, run: Any) -> None:
    found = told(ServerNumbers(federation.folder))
    assert "onefold_query_seconds" in found
    assert "querier" not in str(found)


def test_numbers_without_a_run_and_with_a_damaged_list(federation: Federation) -> None:
    numbers = ServerNumbers(federation.folder)
    federation.folder.prepare()
    assert told(numbers)["onefold_run_up"] == {"onefold_run_up": 0}
    federation.folder.store.path.write_text("{")
    assert "onefold_disk_full" in told(numbers)


def test_endpoint_is_on_the_loopback_address_and_reads_anew(federation: Federation, run: Any) -> None:
    endpoint = serve_numbers(ServerNode(federation.folder), 0)
    try:
        assert endpoint.server_address[0] == "127.0.0.1"
        with pytest.raises(InvalidInputError, match="cannot be used for metrics"):
            serve_numbers(ServerNode(federation.folder), endpoint.server_port)

        def asked(host: str | None = None) -> tuple[int, dict[str, dict[str, float]]]:
            connection = http.client.HTTPConnection("127.0.0.1", endpoint.server_port, timeout=60)
            connection.request("GET", "/metrics", headers={} if host is None else {"Host": host})
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode()
            connection.close()
            return status, {} if status != 200 else parsed(text)

        assert asked("evil.example.org")[0] == 403  # no web page reads it through a browser
        assert asked(f"localhost:{endpoint.server_port}")[0] == 200
        assert asked()[1]["onefold_run_restarts"] == {"onefold_run_restarts": 0}
        run.spool.submit(Request(Query("q1", np.ones((4, 3))), "me", 60.0))
        assert asked()[1]["onefold_queries_waiting"] == {"onefold_queries_waiting": 1}
    finally:
        endpoint.shutdown()
        endpoint.server_close()
