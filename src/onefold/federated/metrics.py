"""Numbers about a running server for a monitoring program, in the text format of Prometheus.

They are about the operation of the federation: how many queries, answers and bytes, how long, who is
connected. No number is made from rows or answers of a site.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from onefold.exceptions import InvalidInputError

__all__ = ["CONTENT_TYPE", "SERVER_FAMILIES", "Family", "Metrics", "serve_metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KINDS = ("counter", "gauge", "histogram")
MOST_SERIES = 2_000  # of a family: whoever chooses labels must not fill the memory
NAME = re.compile(r"[a-z_][a-z0-9_]*")
HOSTS = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Family:
    """What a number means, and by which labels it is told apart.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and underscores; that of a counter ends in ``_total``.
    kind : {"counter", "gauge", "histogram"}
        Whether it only grows, goes up and down, or sorts values into ranges.
    help : str
        One line.
    labels : tuple of str, default=()
        Names of the labels.
    bounds : tuple of float, default=()
        Ascending upper ends of the ranges of a histogram.

    See Also
    --------
    Metrics : Keeps the numbers.

    Examples
    --------
    >>> from onefold.federated.metrics import Family
    >>> Family("queries_total", "counter", "Queries.", ("outcome",)).labels
    ('outcome',)
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInputError(f"kind must be one of {', '.join(KINDS)}")
        if not all(NAME.fullmatch(name) for name in (self.name, *self.labels)) or "le" in self.labels:
            raise InvalidInputError("names of metrics and labels have lower-case letters, digits and _")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise InvalidInputError("the name of a counter, and only of a counter, ends in _total")
        ascending = all(one < other for one, other in zip(self.bounds, self.bounds[1:], strict=False))
        if (self.kind == "histogram") != bool(self.bounds) or not ascending:
            raise InvalidInputError("a histogram, and only a histogram, has ascending bounds")


SERVER_FAMILIES = (
    Family("onefold_info", "gauge", "Version of onefold; the value is 1.", ("version",)),
    Family("onefold_start_time_seconds", "gauge", "When the server started, seconds since 1970."),
    Family("onefold_run_up", "gauge", "Whether the run at the server gives its sign of life: 1 or 0."),
    Family("onefold_run_step_seconds", "gauge", "Since when the run is busy with the same step."),
    Family("onefold_run_restarts_total", "counter", "How often the run was replaced."),
    Family("onefold_disk_full", "gauge", "Whether the server waits for room on its disk: 1 or 0."),
    Family("onefold_queries_total", "counter", "Queries that came to an end.", ("outcome",)),
    Family("onefold_query_rows_total", "counter", "Rows that queries asked about."),
    Family(
        "onefold_query_seconds",
        "histogram",
        "Time from sending a query to its last answer.",
        bounds=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
    ),
    Family("onefold_queries_waiting", "gauge", "Queries that wait or are on their way."),
    Family("onefold_queries_waiting_bytes", "gauge", "Size of the queries that wait or are on their way."),
    Family("onefold_queue_limit", "gauge", "Queries that may wait or be on their way."),
    Family("onefold_busy_refusals_total", "counter", "Queries refused because too many waited."),
    Family("onefold_bytes_total", "counter", "Rows sent to sites and answers of sites.", ("direction",)),
    Family("onefold_answers_total", "counter", "Answers of sites.", ("site", "outcome")),
    Family("onefold_site_connected", "gauge", "Whether a site is connected: 1 or 0.", ("site",)),
    Family("onefold_sites", "gauge", "Sites, by where they stand.", ("status",)),
    Family("onefold_site_epsilon_left", "gauge", "What a site's ledger leaves, if it tells.", ("site",)),
    Family(
        "onefold_certificate_expiry_seconds",
        "gauge",
        "When a certificate ends, since 1970.",
        ("certificate",),
    ),
)


class Metrics:
    """Numbers of the families that were declared, safe to use from several threads.

    Parameters
    ----------
    families : iterable of Family, default=SERVER_FAMILIES
        What there is to count.

    See Also
    --------
    serve_metrics : Hands the text to a monitoring program on this machine.

    Examples
    --------
    >>> from onefold.federated.metrics import Family, Metrics
    >>> metrics = Metrics([Family("queries_total", "counter", "Queries.", ("outcome",))])
    >>> metrics.add("queries_total", outcome="done")
    >>> print(metrics.text())
    # HELP queries_total Queries.
    # TYPE queries_total counter
    queries_total{outcome="done"} 1
    <BLANKLINE>
    """

    def __init__(self, families: Iterable[Family] = SERVER_FAMILIES) -> None:
        self._families = {family.name: family for family in families}
        self._values: dict[str, dict[tuple[str, ...], Any]] = {name: {} for name in self._families}
        self._lock = threading.Lock()

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Let a counter grow.

        Parameters
        ----------
        name : str
            The family.
        amount : float, default=1.0
            How much, not negative.
        **labels : str
            A value for each label of the family.
        """
        if not 0 <= amount < math.inf:
            raise InvalidInputError("a counter grows by a finite amount that is not negative")
        with self._lock:
            series, key = self._series(name, "counter", labels)
            series[key] = series.get(key, 0.0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        """Put a gauge to a value.

        Parameters
        ----------
        name : str
            The family.
        value : float
            The value.
        **labels : str
            A value for each label of the family.
        """
        with self._lock:
            series, key = self._series(name, "gauge", labels)
            series[key] = float(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Sort a value into the ranges of a histogram.

        Parameters
        ----------
        name : str
            The family.
        value : float
            The value; NaN is refused.
        **labels : str
            A value for each label of the family.
        """
        if math.isnan(value):
            raise InvalidInputError("NaN belongs to no range of a histogram")
        with self._lock:
            series, key = self._series(name, "histogram", labels)
            bounds = self._families[name].bounds
            counts, total = series.get(key, ([0] * (len(bounds) + 1), 0.0))
            counts[bisect_left(bounds, value)] += 1
            series[key] = (counts, total + value)

    def forget(self, **labels: str) -> None:
        """Drop all numbers with these labels, such as those of a site that left.

        Parameters
        ----------
        **labels : str
            Labels and the values they must have.
        """
        with self._lock:
            for name, family in self._families.items():
                if labels and set(labels) <= set(family.labels):
                    places = {family.labels.index(label): value for label, value in labels.items()}
                    kept = self._values[name]
                    for key in [key for key in kept if all(key[at] == v for at, v in places.items())]:
                        del kept[key]

    def clear(self) -> None:
        """Drop all numbers."""
        with self._lock:
            for kept in self._values.values():
                kept.clear()

    def _series(
        self, name: str, kind: str, labels: Mapping[str, str]
    ) -> tuple[dict[tuple[str, ...], Any], tuple[str, ...]]:
        family = self._families.get(name)
        if family is None or family.kind != kind:
            raise InvalidInputError(f"there is no {kind} {name!r}")
        if set(labels) != set(family.labels):
            raise InvalidInputError(f"{name} has the labels {', '.join(family.labels) or 'none'}")
        series, key = self._values[name], tuple(str(labels[label]) for label in family.labels)
        if key not in series and len(series) >= MOST_SERIES:
            key = ("other",) * len(key)
        return series, key

    def text(self) -> str:
        """Return all numbers in the text format of Prometheus.

        Returns
        -------
        str
            Families in the order of their declaration, those without numbers left out.
        """
        lines: list[str] = []
        with self._lock:
            for name, family in self._families.items():
                if not self._values[name]:
                    continue
                lines += [f"# HELP {name} {_escaped(family.help, '')}", f"# TYPE {name} {family.kind}"]
                for key, value in sorted(self._values[name].items()):
                    pairs = tuple(zip(family.labels, key, strict=True))
                    if family.kind == "histogram":
                        lines += _ranges(family, pairs, *value)
                    else:
                        lines.append(f"{name}{_labels(pairs)} {_number(value)}")
        return "\n".join([*lines, ""]) if lines else ""


def _ranges(family: Family, pairs: tuple[tuple[str, str], ...], counts: list[int], total: float) -> list[str]:
    lines, so_far = [], 0
    for bound, count in zip((*family.bounds, math.inf), counts, strict=True):
        so_far += count
        lines.append(f"{family.name}_bucket{_labels((*pairs, ('le', _number(bound))))} {so_far}")
    lines.append(f"{family.name}_sum{_labels(pairs)} {_number(total)}")
    return [*lines, f"{family.name}_count{_labels(pairs)} {so_far}"]


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str, quote: str = '"') -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace(quote, f"\\{quote}") if quote else text


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def serve_metrics(metrics: Metrics, port: int) -> ThreadingHTTPServer:
    """Hand the numbers to whoever asks on this machine, at ``http://127.0.0.1:PORT/metrics``.

    Parameters
    ----------
    metrics : Metrics
        The numbers.
    port : int
        Port on the loopback address; 0 takes a free one, which ``server_port`` of the result tells.

    Returns
    -------
    ThreadingHTTPServer
        It answers from a thread of its own until its ``shutdown`` and ``server_close`` are called.

    Notes
    -----
    There is no password: every user of the machine can read the numbers. Requests that name another host are
    refused, so that no web page can read them through a browser.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a request to arrive

        def do_GET(self) -> None:
            asked = self.headers.get("Host", "").rpartition(":")
            if (asked[0] or asked[2]) not in HOSTS:
                self.send_error(403)
            elif self.path != "/metrics":
                self.send_error(404)
            else:
                body = metrics.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as in the base class)
            """Say nothing: a monitoring program asks every few seconds."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="onefold-metrics", daemon=True).start()
    return server
