"""What a monitoring program reads of a server: a text that its rules allow, on the loopback address only."""

from __future__ import annotations

import http.client
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.exceptions import InvalidInputError, ServerBusyError
from onefold.federated.flower import Federation
from onefold.federated.flower.nodes import ServerNode
from onefold.federated.flower.numbers import ServerNumbers, serve_numbers
from onefold.federated.flower.spool import Request
from onefold.federated.messages import Query, SiteFacts
from onefold.federated.metrics import SERVER_FAMILIES
from reference.fake_grid import make_coordinator, step

SAMPLE = re.compile(
    r"(?P<name>[a-z_:][a-z0-9_:]*)"
    r'(?:\{(?P<labels>(?:[a-z_][a-z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})?'
    r" (?P<value>[+-]?(?:Inf|NaN|[0-9.e+-]+))"
)


def parsed(text: str) -> dict[str, dict[str, float]]:
    """Family to sample to value, by the rules of the text format: each family once, its lines together."""
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    family = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            assert family not in found, f"{family} twice"
            found[family] = {}
        elif line.startswith("# TYPE "):
            _, _, name, kinds[family] = line.split(" ")
            assert name == family
            assert kinds[family] in ("counter", "gauge", "histogram")
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            name = sample["name"]
            if kinds[family] == "histogram":
                assert name in {f"{family}_bucket", f"{family}_sum", f"{family}_count"}
            else:
                assert name == family
                assert (kinds[family] == "counter") == name.endswith("_total")
            key = f"{name}{{{sample['labels'] or ''}}}"
            assert key not in found[family], f"{key} twice"
            found[family][key] = float(sample["value"])
    for family, kind in kinds.items():
        assert found[family], f"{family} without a sample"
        if kind == "histogram":
            buckets = [value for key, value in found[family].items() if key.startswith(f"{family}_bucket")]
            assert buckets == sorted(buckets)
            assert buckets[-1] == found[family][f"{family}_count{{}}"]
        if kind == "counter":
            assert all(value >= 0 and math.isfinite(value) for value in found[family].values())
    return found


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
    found = parsed(ServerNumbers(federation.folder).text())
    assert found["onefold_sites"]['onefold_sites{status="member"}'] == 1
    assert found["onefold_sites"]['onefold_sites{status="invited"}'] == 1
    assert found["onefold_site_connected"] == {
        'onefold_site_connected{site="north"}': 1,
        'onefold_site_connected{site="south"}': 0,
    }
    assert found["onefold_site_epsilon_left"] == {'onefold_site_epsilon_left{site="north"}': 2.5}
    assert found["onefold_busy_refusals_total"] == {"onefold_busy_refusals_total{}": 1}
    assert found["onefold_queries_waiting"] == {"onefold_queries_waiting{}": 1}
    assert found["onefold_queries_total"]['onefold_queries_total{outcome="answered"}'] == 1
    assert found["onefold_run_up"] == {"onefold_run_up{}": 1}
    assert found["onefold_disk_full"] == {"onefold_disk_full{}": 0}
    assert len(found["onefold_certificate_expiry_seconds"]) == 2
    (start,) = found["onefold_start_time_seconds"].values()
    for end in found["onefold_certificate_expiry_seconds"].values():
        assert 360 < (end - start) / 86400 < 370
    assert set(found) <= {family.name for family in SERVER_FAMILIES}


def test_no_number_tells_who_asks(federation: Federation, run: Any) -> None:
    text = ServerNumbers(federation.folder).text()
    assert "onefold_query_seconds_count 1" in text
    assert "querier" not in text


def test_numbers_without_a_run_and_with_a_damaged_list(federation: Federation) -> None:
    numbers = ServerNumbers(federation.folder)
    federation.folder.prepare()
    assert parsed(numbers.text())["onefold_run_up"] == {"onefold_run_up{}": 0}
    federation.folder.registry.write_text("{")
    assert "onefold_disk_full" in parsed(numbers.text())


def test_endpoint_is_on_the_loopback_address_and_reads_anew(federation: Federation, run: Any) -> None:
    endpoint = serve_numbers(ServerNode(federation.folder), 0)
    try:
        assert endpoint.server_address[0] == "127.0.0.1"
        with pytest.raises(InvalidInputError, match="cannot be used for metrics"):
            serve_numbers(ServerNode(federation.folder), endpoint.server_port)

        def asked() -> dict[str, dict[str, float]]:
            connection = http.client.HTTPConnection("127.0.0.1", endpoint.server_port, timeout=60)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            return parsed(text)

        assert asked()["onefold_run_restarts_total"] == {"onefold_run_restarts_total{}": 0}
        run.spool.submit(Request(Query("q1", np.ones((4, 3))), "me", 60.0))
        assert asked()["onefold_queries_waiting"] == {"onefold_queries_waiting{}": 1}
    finally:
        endpoint.shutdown()
        endpoint.server_close()
