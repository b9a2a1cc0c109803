"""The run's side of encrypted queries: put sealed answers down as they come, and have them computed on.

The run itself opens nothing. It starts :mod:`onefold.federated.flower.evaluation` in a process of its own,
since that takes seconds to minutes, in which sites must still be met and other queries carried.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections import deque
from dataclasses import dataclass

from onefold.federated.flower.evaluation import Job
from onefold.federated.flower.exchange import Exchange
from onefold.federated.flower.folders import private_folder, write_private
from onefold.federated.flower.spool import Reply, Spool
from onefold.federated.messages import Failure, SealedAnswers, to_bytes

__all__ = ["Evaluations"]

LOG = logging.getLogger(__name__)
PROGRAM = "onefold.federated.flower.evaluation"
# Each takes a processor and some hundred megabytes.
MOST_AT_ONCE = 2


@dataclass
class _Evaluation:
    query_id: str
    reply: Reply  # what is known if nothing can be computed
    process: subprocess.Popen[bytes] | None = None


class Evaluations:
    """Encrypted queries whose answers are being computed on, and those that wait for it."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._waiting: deque[_Evaluation] = deque()
        self._running: list[_Evaluation] = []
        self._take_up()

    def _take_up(self) -> None:
        """Go on with what an earlier run left behind; without a job, its query was given up."""
        for folder in self.spool.job("any").parent.iterdir():
            try:
                self._waiting.append(_Evaluation(folder.name, Job.load(folder, folder.name).reply))
            except (OSError, ValueError, KeyError, TypeError):
                shutil.rmtree(folder, ignore_errors=True)

    def keep(self, exchange: Exchange) -> None:
        """Put down what a site has sealed, so that only one message at a time is in memory."""
        for query_id, messages in exchange.replies.items():
            for message in [each for each in messages if isinstance(each, SealedAnswers)]:
                folder = private_folder(self.spool.job(query_id))
                write_private(folder / f"{message.site}.answers", to_bytes(message))
                messages.remove(message)

    def begin(self, exchange: Exchange) -> None:
        """All that will come has come."""
        for request in exchange.requests:
            assert request.lock is not None
            failures = tuple(m for m in exchange.replies.get(request.query.id, ()) if isinstance(m, Failure))
            reply = Reply(exchange.expected, failures)
            folder = private_folder(self.spool.job(request.query.id))
            Job(request.lock.key_id, len(request.query.features), reply).save(folder)
            self._waiting.append(_Evaluation(request.query.id, reply))
        self.look()

    def look(self) -> None:
        """Start what can be started; hand over what is known where computing failed."""
        for each in list(self._running):
            code = None if each.process is None else each.process.poll()
            if code is None:
                continue
            self._running.remove(each)
            if code != 0:
                LOG.error("evaluation failed query=%s code=%d", each.query_id, code)
                self.spool.deliver(each.query_id, each.reply)
            shutil.rmtree(self.spool.job(each.query_id), ignore_errors=True)
        while self._waiting and len(self._running) < MOST_AT_ONCE:
            each = self._waiting.popleft()
            arguments = [sys.executable, "-m", PROGRAM, str(self.spool.root.resolve()), each.query_id]
            each.process = subprocess.Popen(arguments, env=dict(os.environ), stdin=subprocess.DEVNULL)
            self._running.append(each)
