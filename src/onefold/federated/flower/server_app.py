"""The run at the server: one that lasts, instead of one per query.

It meets the sites that come, asks them once what they are (and, in model mode, for their model), and carries
queries to the members and their numbers back. It does not combine anything; encrypted numbers it hands on to
a process that adds them up without reading them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.app import Message as Envelope
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid, ServerApp

from onefold.exceptions import MessageError
from onefold.federated.flower.environment import SERVER_VARIABLE
from onefold.federated.flower.evaluations import Evaluations
from onefold.federated.flower.exchange import Exchange, batches
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.journal import log_to
from onefold.federated.flower.reception import Reception
from onefold.federated.flower.records import from_records, to_records
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.site_app import ANSWERS, SEALED
from onefold.federated.flower.spool import Request, Spool
from onefold.federated.messages import Message

__all__ = ["Coordinator", "app"]

LOG = logging.getLogger(__name__)
PAUSE = 0.1
SIGN_OF_LIFE = 1.0
MOST_FAILURES = 50

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Any) -> None:
    """Serve until asked to stop."""
    folder = ServerFolder(Path(os.environ[SERVER_VARIABLE]))
    log_to(folder.run_log)
    Coordinator(grid, folder).run()


class Coordinator:
    """Carries messages between the spool and the sites."""

    def __init__(self, grid: Any, folder: ServerFolder) -> None:
        self.grid = grid
        self.spool = Spool(folder.spool)
        self.registry = Registry(folder)
        self.reception = Reception(folder, self.registry, self.send)
        self.evaluations = Evaluations(self.spool)
        self.open: list[Exchange] = []
        self._run = self.spool.current_run
        self._told = 0.0

    def run(self) -> None:
        """Go round until asked to stop; a passing failure of the network does not end the run."""
        failures = 0
        self.spool.sweep()
        while self._run is not None and self.spool.current_run == self._run:
            try:
                self.step()
                failures = 0
            except Exception as error:
                failures += 1
                LOG.error("step failed error=%s", type(error).__name__)
                if failures > MOST_FAILURES:
                    raise
            time.sleep(PAUSE)

    def step(self) -> None:
        """Look once at everything there is to look at."""
        if time.monotonic() - self._told > SIGN_OF_LIFE:
            self.reception.look(self.grid.get_nodes())
            self.spool.report(self.reception.online)
            self._told = time.monotonic()
        for batch in batches(self.spool.take()):
            self.open.append(self.ask(batch))
        self.fetch()
        self.ask_again()
        for exchange in [exchange for exchange in self.open if exchange.is_over]:
            if exchange.requests[0].lock is not None:
                self.evaluations.begin(exchange)
            else:
                for query_id, reply in exchange.results().items():
                    self.spool.deliver(query_id, reply)
            self.open.remove(exchange)
        self.evaluations.look()

    def ask(self, requests: Sequence[Request]) -> Exchange:
        """Send queries to every member that is there."""
        expected = tuple(self.registry.members)
        present = {site: node for site, node in self.reception.online.items() if site in expected}
        timeout, caller = requests[0].timeout, requests[0].caller
        waiting = self.send(*_question(requests, present), timeout, caller)
        return Exchange(requests, expected, waiting, time.monotonic() + timeout)

    def ask_again(self) -> None:
        """Send queries once more to sites that went away with them and have come back."""
        for exchange in self.open:
            back = {s: node for s, node in self.reception.online.items() if s in exchange.absent}
            left = exchange.deadline - time.monotonic()
            if not back or left <= 0:
                continue
            question = _question(exchange.requests, back)
            exchange.waiting |= self.send(*question, left, exchange.requests[0].caller)
            for site in back:
                del exchange.absent[site]

    def send(
        self, kind: str, nodes: dict[str, int], messages: Sequence[Message], timeout: float, caller: str
    ) -> dict[str, str]:
        """Send the same to some nodes; Flower's number of each message, with the site it went to."""
        envelopes = [
            Envelope(to_records(messages, caller), dst_node_id=node, message_type=kind, ttl=timeout)
            for node in nodes.values()
        ]
        numbers = list(self.grid.push_messages(envelopes)) if envelopes else []
        pairs = zip(numbers, nodes, strict=False)  # fewer numbers than nodes: the push was refused
        return {str(number): site for number, site in pairs if number}

    def fetch(self) -> None:
        """Take in what has come back."""
        waiting = [number for exchange in self.open for number in exchange.waiting]
        waiting += self.reception.waiting
        if not waiting:
            return
        for envelope in self.grid.pull_messages(waiting):
            number = str(envelope.metadata.reply_to_message_id)
            gone = envelope.has_error() and envelope.error.code == ErrorCode.NODE_UNAVAILABLE
            messages = _opened(envelope)
            self.reception.take(number, messages)
            for exchange in self.open:
                if number in exchange.waiting and gone:
                    exchange.lose(number)
                elif number in exchange.waiting:
                    exchange.take(number, messages)
                    self.evaluations.keep(exchange)


def _question(
    requests: Sequence[Request], nodes: dict[str, int]
) -> tuple[str, dict[str, int], list[Message]]:
    """What is sent for some requests: the kind, to whom, and their queries, behind a lock if there is one."""
    queries: list[Message] = [request.query for request in requests]
    lock = requests[0].lock
    return (ANSWERS, nodes, queries) if lock is None else (SEALED, nodes, [lock, *queries])


def _opened(envelope: Any) -> list[Message] | None:
    """What is in an envelope of Flower; None if it is an error or nothing of a federation."""
    if envelope.has_error():
        LOG.warning("a reply is an error of Flower code=%d", envelope.error.code)
        return None
    try:
        return from_records(envelope.content)
    except MessageError:
        LOG.warning("a reply could not be read")
        return None
