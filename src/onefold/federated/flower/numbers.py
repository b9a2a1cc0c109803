"""What a monitoring program reads of a server: numbers that the run counts, and those of the process beside.

The run writes its numbers to a file every few seconds. The process that started it answers the monitoring
program on the loopback address, with that file and what it knows itself. Sites are told apart by their names;
queriers are not told apart at all, since their names are names of persons and they choose them themselves.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http.server import ThreadingHTTPServer
from importlib.metadata import version

from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.nodes import ServerNode
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.flower.renewal import expiry
from onefold.federated.flower.sightings import Sightings
from onefold.federated.flower.spool import Spool
from onefold.federated.metrics import Metrics, serve_metrics

__all__ = ["ServerNumbers", "serve_numbers"]

BUDGET = re.compile(r"spent epsilon (?P<spent>[0-9.e+-]+) per .*; limit (?P<limit>[0-9.e+-]+)")


class ServerNumbers(Metrics):
    """All numbers of a server, looked up when they are asked for.

    Parameters
    ----------
    folder : the server's. server : the running server, for how often its run was replaced.
    """

    def __init__(self, folder: ServerFolder, server: ServerNode | None = None) -> None:
        super().__init__()
        self.folder, self.server = folder, server
        self._started = time.time()
        self._one_at_a_time = threading.Lock()

    def text(self) -> str:
        """Return the numbers of now, with those that the run has written last."""
        with self._one_at_a_time:
            with suppress(OSError, OnefoldError):  # a damaged list is told by other commands; the rest counts
                self._look()
            try:
                own = self.folder.run_numbers.read_text(encoding="utf-8")
            except (OSError, ValueError):
                own = ""
            return super().text() + own

    def _look(self) -> None:
        self.clear()
        self.set("onefold_info", 1, version=version("onefold"))
        self.set("onefold_start_time_seconds", self._started)
        spool = Spool(self.folder.spool)
        sign = spool.life()
        is_up = sign is not None and sign.is_fresh
        self.set("onefold_run_up", is_up)
        self.set("onefold_run_step_seconds", sign.busy if sign is not None and is_up else 0.0)
        self.set("onefold_disk_full", sign is not None and sign.is_full)
        self.set("onefold_queue_limit", self.folder.settings.queue)
        count, size = spool.waiting()
        self.set("onefold_queries_waiting", count)
        self.set("onefold_queries_waiting_bytes", size)
        refusals = spool.refusals.stat().st_size if spool.refusals.exists() else 0
        self.add("onefold_busy_refusals_total", refusals)
        if self.server is not None:
            self.add("onefold_run_restarts_total", self.server.restarts)
            self.set("onefold_disk_full", self.server.is_disk_full or (sign is not None and sign.is_full))
        self._look_at_certificates()
        self._look_at_sites(sign.online if sign is not None and is_up else ())

    def _look_at_certificates(self) -> None:
        if self.folder.settings.insecure:
            return
        for name, path in {"server": self.folder.certificate, "authority": self.folder.ca}.items():
            end = expiry(path)
            if end is not None:
                self.set("onefold_certificate_expiry_seconds", end.timestamp(), certificate=name)

    def _look_at_sites(self, online: Sequence[str]) -> None:
        sites, notes = Registry(self.folder).sites, Sightings(self.folder).read()
        for status in Status:
            count = sum(site.status is status for site in sites.values())
            self.set("onefold_sites", count, status=status.value)
        for name, site in sites.items():
            if site.status is Status.REMOVED:
                continue
            self.set("onefold_site_connected", name in online, site=name)
            found = BUDGET.fullmatch(str(notes[name].told.get("budget"))) if name in notes else None
            with suppress(ValueError):  # a site says what it likes
                if found is not None:
                    left = max(float(found["limit"]) - float(found["spent"]), 0.0)
                    self.set("onefold_site_epsilon_left", left, site=name)


def serve_numbers(server: ServerNode, port: int) -> ThreadingHTTPServer:
    """Answer a monitoring program at ``http://127.0.0.1:PORT/metrics`` from a thread of this process."""
    try:
        return serve_metrics(ServerNumbers(server.folder, server), port)
    except (OSError, OverflowError):
        raise InvalidInputError(f"port {port} cannot be used for metrics: give --metrics another") from None
