"""Numbers for a monitoring program: the text format, its limits, and an endpoint that is on loopback only."""

from __future__ import annotations

import http.client
import math
import threading
from collections.abc import Iterator

import pytest

from onefold.exceptions import InvalidInputError
from onefold.federated import metrics as module
from onefold.federated.metrics import CONTENT_TYPE, SERVER_FAMILIES, Family, Metrics, serve_metrics

FAMILIES = (
    Family("asked_total", "counter", "Asked \\ so far.", ("who", "how")),
    Family("waiting", "gauge", "Waiting."),
    Family("seconds", "histogram", "Time.", ("who",), bounds=(0.5, 2.0)),
)


def test_text_has_the_format_of_prometheus() -> None:
    metrics = Metrics(FAMILIES)
    metrics.add("asked_total", who='a"b\\c\nd', how="plain")
    metrics.add("asked_total", 2.5, who="a", how="plain")
    metrics.set("waiting", math.inf)
    for value in (0.25, 0.5, 1.0, 3.0):
        metrics.observe("seconds", value, who="x")
    assert metrics.text() == (
        "# HELP asked_total Asked \\\\ so far.\n"
        "# TYPE asked_total counter\n"
        'asked_total{who="a",how="plain"} 2.5\n'
        'asked_total{who="a\\"b\\\\c\\nd",how="plain"} 1\n'
        "# HELP waiting Waiting.\n"
        "# TYPE waiting gauge\n"
        "waiting +Inf\n"
        "# HELP seconds Time.\n"
        "# TYPE seconds histogram\n"
        'seconds_bucket{who="x",le="0.5"} 2\n'
        'seconds_bucket{who="x",le="2"} 3\n'
        'seconds_bucket{who="x",le="+Inf"} 4\n'
        'seconds_sum{who="x"} 4.75\n'
        'seconds_count{who="x"} 4\n'
    )


def test_without_numbers_there_is_no_text() -> None:
    assert Metrics().text() == ""


def test_what_was_not_declared_is_refused() -> None:
    metrics = Metrics(FAMILIES)
    for wrong in (
        lambda: metrics.add("other_total"),
        lambda: metrics.add("waiting"),
        lambda: metrics.set("waiting", 1, who="a"),
        lambda: metrics.add("asked_total", who="a"),
        lambda: metrics.add("asked_total", -1, who="a", how="b"),
        lambda: metrics.observe("seconds", math.nan, who="a"),
    ):
        with pytest.raises(InvalidInputError):
            wrong()
    for name, kind, more in (
        ("Asked_total", "counter", {}),
        ("asked", "counter", {}),
        ("waiting_total", "gauge", {}),
        ("waiting", "summary", {}),
        ("seconds", "histogram", {}),
        ("seconds", "histogram", {"bounds": (2.0, 1.0)}),
        ("seconds", "histogram", {"bounds": (1.0,), "labels": ("le",)}),
    ):
        with pytest.raises(InvalidInputError):
            Family(name, kind, "Text.", **more)


def test_a_site_that_left_can_be_forgotten() -> None:
    metrics = Metrics()
    metrics.set("onefold_site_connected", 1, site="north")
    metrics.set("onefold_site_connected", 0, site="south")
    metrics.add("onefold_answers_total", site="north", outcome="done")
    metrics.forget(site="north")
    assert "north" not in metrics.text()
    assert 'onefold_site_connected{site="south"} 0' in metrics.text()


def test_labels_that_somebody_chooses_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 3)
    metrics = Metrics(FAMILIES)
    for number in range(10):
        metrics.add("asked_total", who=str(number), how="plain")
    assert metrics.text().count("asked_total{") == 4
    assert 'asked_total{who="other",how="other"} 7' in metrics.text()


def test_counting_from_several_threads_loses_nothing() -> None:
    metrics = Metrics(FAMILIES)

    def count() -> None:
        for _ in range(500):
            metrics.add("asked_total", who="a", how="b")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.text().endswith("} 2000\n")


def test_families_of_the_server_follow_the_naming_rules() -> None:
    names = [family.name for family in SERVER_FAMILIES]
    assert len(set(names)) == len(names)
    assert all(name.startswith("onefold_") for name in names)


# --- the endpoint -----------------------------------------------------------------------------------------


@pytest.fixture
def port() -> Iterator[int]:
    metrics = Metrics(FAMILIES)
    metrics.set("waiting", 2)
    server = serve_metrics(metrics, 0)
    assert server.server_address[0] == "127.0.0.1"
    yield server.server_port
    server.shutdown()
    server.server_close()


def _asked(port: int, path: str, host: str | None = None) -> tuple[int, str | None, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type"), answer.read().decode()
    connection.close()
    return found


def test_endpoint_answers_on_loopback(port: int) -> None:
    assert _asked(port, "/metrics") == (200, CONTENT_TYPE, _with(2).text())


def _with(waiting: int) -> Metrics:
    metrics = Metrics(FAMILIES)
    metrics.set("waiting", waiting)
    return metrics


def test_endpoint_refuses_other_paths_and_hosts(port: int) -> None:
    assert _asked(port, "/")[0] == 404
    assert _asked(port, "/metrics", "evil.example.org")[0] == 403
    assert _asked(port, "/metrics", f"localhost:{port}")[0] == 200
