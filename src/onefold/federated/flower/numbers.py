"""What a monitoring program reads of a server: numbers that the run counts, and those of the process beside.

The run writes its numbers to a file every few seconds. The process that started it answers the monitoring
program on the loopback address, with that file and what it knows itself. Sites are told apart by their names;
queriers are not told apart at all, since their names are names of persons and they choose them themselves.
No number is made from rows or answers of a site.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import ThreadingHTTPServer
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    MetricsHandler,
    disable_created_metrics,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.setup import expiry
from onefold.federated.flower.spool import Spool
from onefold.federated.flower.status import Sightings

if TYPE_CHECKING:
    from onefold.federated.flower.nodes import ServerNode

# Name of a number, what it is, and its labels.
OF_THE_RUN = {
    "onefold_queries_total": ("Queries that came to an end.", "outcome"),
    "onefold_query_rows_total": ("Rows that queries asked about.",),
    "onefold_query_seconds": ("Time from sending a query to its last answer.",),
    "onefold_bytes_total": ("Rows sent to sites and answers of sites.", "direction"),
    "onefold_answers_total": ("Answers of sites.", "site", "outcome"),
}
OF_THE_SERVER = {
    "onefold_info": ("Version of onefold; the value is 1.", "version"),
    "onefold_start_time_seconds": ("When the server started, seconds since 1970.",),
    "onefold_run_up": ("Whether the run at the server gives its sign of life: 1 or 0.",),
    "onefold_run_step_seconds": ("Since when the run is busy with the same step.",),
    "onefold_run_restarts_total": ("How often the run was replaced.",),
    "onefold_disk_full": ("Whether the server waits for room on its disk: 1 or 0.",),
    "onefold_queries_waiting": ("Queries that wait or are on their way.",),
    "onefold_queries_waiting_bytes": ("Size of the queries that wait or are on their way.",),
    "onefold_queue_limit": ("Queries that may wait or be on their way.",),
    "onefold_busy_refusals_total": ("Queries refused because too many waited.",),
    "onefold_site_connected": ("Whether a site is connected: 1 or 0.", "site"),
    "onefold_sites": ("Sites, by where they stand.", "status"),
    "onefold_site_epsilon_left": ("What a site's ledger leaves, if it tells.", "site"),
    "onefold_certificate_expiry_seconds": ("When a certificate ends, since 1970.", "certificate"),
}
BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)  # of onefold_query_seconds
HOSTS = ("127.0.0.1", "localhost")
BUDGET = re.compile(r"spent epsilon (?P<spent>[0-9.e+-]+) per .*; limit (?P<limit>[0-9.e+-]+)")
disable_created_metrics()  # type: ignore[no-untyped-call]


class Numbers(CollectorRegistry):
    """Counters (``..._total``), gauges and one histogram, by their names."""

    def __init__(self, families: dict[str, tuple[str, ...]]) -> None:
        super().__init__()
        self._made: dict[str, Counter | Gauge | Histogram] = {}
        for name, (about, *labels) in families.items():
            if name == "onefold_query_seconds":
                self._made[name] = Histogram(name, about, buckets=BOUNDS, registry=self)
            else:
                kind = Counter if name.endswith("_total") else Gauge
                self._made[name] = kind(name, about, labels, registry=self)

    def tell(self, name: str, value: float = 1.0, **labels: str) -> None:
        """Let a counter grow, put a gauge to a value, or sort a value into the ranges of the histogram."""
        found = self._made[name].labels(**labels) if labels else self._made[name]
        if isinstance(found, Gauge):
            found.set(value)
        elif isinstance(found, Counter):
            found.inc(value)
        else:
            found.observe(value)


class ServerNumbers(Collector):
    """All numbers of a server, looked up when they are asked for, with those that the run has written last.

    Parameters
    ----------
    folder : the server's. server : the running server, for how often its run was replaced.
    """

    def __init__(self, folder: ServerFolder, server: ServerNode | None = None) -> None:
        self.folder, self.server = folder, server
        self._started = time.time()

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers of now."""
        numbers = Numbers(OF_THE_SERVER)
        with suppress(OSError, OnefoldError):  # a damaged list is told by other commands; the rest counts
            self._look(numbers)
        yield from numbers.collect()
        with suppress(OSError, ValueError):
            yield from text_string_to_metric_families(self.folder.run_numbers.read_text(encoding="utf-8"))

    def _look(self, numbers: Numbers) -> None:
        numbers.tell("onefold_info", version=version("onefold"))
        numbers.tell("onefold_start_time_seconds", self._started)
        spool = Spool(self.folder.spool)
        sign = spool.life()
        is_up = sign is not None and sign.is_fresh
        numbers.tell("onefold_run_up", is_up)
        numbers.tell("onefold_run_step_seconds", sign.busy if sign is not None and is_up else 0.0)
        is_full = (sign is not None and sign.is_full) or (
            self.server is not None and self.server.is_disk_full
        )
        numbers.tell("onefold_disk_full", is_full)
        numbers.tell("onefold_queue_limit", self.folder.settings.queue)
        count, size = spool.waiting()
        numbers.tell("onefold_queries_waiting", count)
        numbers.tell("onefold_queries_waiting_bytes", size)
        if spool.refusals.exists():
            numbers.tell("onefold_busy_refusals_total", spool.refusals.stat().st_size)
        if self.server is not None:
            numbers.tell("onefold_run_restarts_total", self.server.restarts)
        for name, path in {"server": self.folder.certificate, "authority": self.folder.ca}.items():
            end = None if self.folder.settings.insecure else expiry(path)
            if end is not None:
                numbers.tell("onefold_certificate_expiry_seconds", end.timestamp(), certificate=name)
        self._look_at_sites(numbers, sign.online if sign is not None and is_up else ())

    def _look_at_sites(self, numbers: Numbers, online: Sequence[str]) -> None:
        sites, notes = Registry(self.folder).sites, Sightings(self.folder).notes
        for status in Status:
            count = sum(site.status is status for site in sites.values())
            numbers.tell("onefold_sites", count, status=status.value)
        for name, site in sites.items():
            if site.status is Status.REMOVED:
                continue
            numbers.tell("onefold_site_connected", name in online, site=name)
            found = BUDGET.fullmatch(str(notes[name].budget)) if name in notes else None
            with suppress(ValueError):  # a site says what it likes
                if found is not None:
                    left = max(float(found["limit"]) - float(found["spent"]), 0.0)
                    numbers.tell("onefold_site_epsilon_left", left, site=name)


def serve_numbers(server: ServerNode, port: int) -> ThreadingHTTPServer:
    """Answer a monitoring program at ``http://127.0.0.1:PORT/metrics`` from a thread of this process.

    There is no password: every user of the machine can read the numbers. Requests that name another host are
    refused, so that no web page can read them through a browser.
    """
    told = CollectorRegistry()
    told.register(ServerNumbers(server.folder, server))

    class Handler(MetricsHandler):
        registry = told
        timeout = 10  # seconds for a request to arrive

        def do_GET(self) -> None:
            name, _, port = self.headers.get("Host", "").rpartition(":")
            if (name or port) in HOSTS:
                super().do_GET()
            else:
                self.send_error(403)

    try:
        found = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except (OSError, OverflowError):
        raise InvalidInputError(f"port {port} cannot be used for metrics: give --metrics another") from None
    found.daemon_threads = True
    threading.Thread(target=found.serve_forever, name="onefold-metrics", daemon=True).start()
    return found
