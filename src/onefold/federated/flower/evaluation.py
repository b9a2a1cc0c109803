"""The server's role in an encrypted query: keys and encrypted answers in, one encrypted result out.

A process of its own reads what the sites have encrypted and the querier's evaluation keys. Neither lets it
read an answer, nor the result. It is started as ``python -m onefold.federated.flower.evaluation SPOOL QUERY``
by :class:`Evaluations`, the run's side, since it takes seconds to minutes in which sites must still be met
and other queries carried.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from onefold._base.files import has_room, write_whole
from onefold._base.records import Record, record
from onefold.exceptions import MessageError, OnefoldError
from onefold.federated.fhe import Server, Tally
from onefold.federated.fhe import messages as fhe_messages
from onefold.federated.flower.folders import log_to, private_folder
from onefold.federated.flower.spool import Reply, Request, Spool
from onefold.federated.messages import (
    Digest,
    Failure,
    FailureCode,
    Message,
    SealedAnswers,
    SealedResult,
    from_bytes,
)

LOG = logging.getLogger("onefold.federated.flower.evaluation")  # this file is run as __main__
JOB_FILE = "job"
NICENESS = 5  # meeting the sites comes first
LOOKS_FOR_ROOM = 600  # on a full disk, one a second


@record
class Job(Record, kind="encrypted evaluation"):
    """What is to be computed: under which key, how many rows in all looks, what is known without it."""

    key_id: Digest
    n_rows: int
    reply: Reply


def evaluate(spool: Spool, query_id: str) -> Reply:
    """Add up what came and compute on it; a site whose message does not fit is left out."""
    folder = spool.job(query_id)
    job = Job.load(folder / JOB_FILE)
    keys = spool.keys(job.key_id)
    messages = list(job.reply.messages)
    files = sorted(folder.glob("*.answers"))
    if not files:
        return job.reply
    tally = _server(keys, job.key_id).tally(query_id, job.n_rows)
    os.utime(keys)  # they are in use: not to be swept away
    for path in files:
        try:
            _count(tally, path)
        except MessageError as error:
            LOG.warning("refused answers query=%s site=%s: %s", query_id, path.stem, error)
            messages.append(Failure(query_id, path.stem, FailureCode.MALFORMED))
    if tally.clients:
        messages.append(SealedResult(query_id, tuple(sorted(tally.clients)), tally.result().to_bytes()))
    return Reply(job.reply.expected, tuple(messages))


def _server(keys: Path, key_id: str) -> Server:
    """Keys that cannot be used are thrown away: the next query brings them anew."""
    try:
        server = Server(keys.read_bytes())
        if server.keys.key_id != key_id:
            raise MessageError("the evaluation keys belong to another key")
    except MessageError:
        keys.unlink(missing_ok=True)
        raise
    return server


def _count(tally: Tally, path: Path) -> None:
    sealed = from_bytes(path.read_bytes())
    if not isinstance(sealed, SealedAnswers):
        raise MessageError("these are no encrypted answers")
    answers = fhe_messages.EncryptedAnswers.from_bytes(sealed.content)
    if answers.client != path.stem:  # a site speaks in its own name only
        raise MessageError("the answers are in the name of another site")
    tally.add(answers)


def main(spool_root: str, query_id: str) -> int:
    """Compute, hand over, and say nothing but a code."""
    spool = Spool(Path(spool_root))
    log_to(spool.root.parent / "evaluation.log")
    os.nice(NICENESS)
    try:
        reply = evaluate(spool, query_id)
        for _ in range(LOOKS_FOR_ROOM):  # the result took minutes to compute: it waits for room on the disk
            if has_room(spool.root, len(reply.to_bytes())):
                break
            time.sleep(1.0)
        spool.deliver(query_id, reply)
    except Exception as error:
        LOG.error("failed query=%s error=%s", query_id, type(error).__name__)
        return 1
    LOG.info("evaluated query=%s", query_id)
    return 0


# --- the run's side -----------------------------------------------------------------------------------------


PROGRAM = "onefold.federated.flower.evaluation"
# Each takes a processor and some hundred megabytes.
MOST_AT_ONCE = 2


class Evaluations:
    """Encrypted queries whose answers are being computed on, and those that wait for it."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        # By query, what is known if nothing can be computed; and the process, once it runs.
        self._waiting: dict[str, Reply] = {}
        self._running: dict[str, tuple[Reply, subprocess.Popen[bytes]]] = {}
        self._take_up()

    def _take_up(self) -> None:
        """Go on with what an earlier run left behind; without a job, its query was given up."""
        for folder in self.spool.job("any").parent.iterdir():
            try:
                self._waiting[folder.name] = Job.load(folder / JOB_FILE).reply
            except (OSError, OnefoldError):
                shutil.rmtree(folder, ignore_errors=True)

    @property
    def queries(self) -> set[str]:
        """Ids of the queries that wait to be computed, or are."""
        return {*self._waiting, *self._running}

    def keep(self, replies: Mapping[str, list[Message]]) -> None:
        """Write down what a site has encrypted, so that only one message at a time is in memory."""
        for query_id, messages in replies.items():
            for message in [each for each in messages if isinstance(each, SealedAnswers)]:
                folder = private_folder(self.spool.job(query_id))
                write_whole(folder / f"{message.site}.answers", message.to_bytes())
                messages.remove(message)

    def begin(
        self, requests: Sequence[Request], expected: tuple[str, ...], replies: Mapping[str, Sequence[Message]]
    ) -> None:
        """Compute on what has come; nothing more will come."""
        for request in requests:
            assert request.lock is not None
            failures = tuple(m for m in replies.get(request.query.id, ()) if isinstance(m, Failure))
            reply = Reply(expected, failures)
            folder = private_folder(self.spool.job(request.query.id))
            n_rows = len(request.query.features) * request.lock.looks
            Job(request.lock.key_id, n_rows, reply).save(folder / JOB_FILE)
            self._waiting[request.query.id] = reply
        self.look()

    def look(self) -> None:
        """Start what can be started; hand over what is known where computing failed."""
        for query_id, (reply, process) in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            if code != 0:
                LOG.error("evaluation failed query=%s code=%d", query_id, code)
                self.spool.deliver(query_id, reply)
            del self._running[query_id]
            shutil.rmtree(self.spool.job(query_id), ignore_errors=True)
        while self._waiting and len(self._running) < MOST_AT_ONCE:
            query_id = next(iter(self._waiting))
            arguments = [sys.executable, "-m", PROGRAM, str(self.spool.root.resolve()), query_id]
            process = subprocess.Popen(arguments, env=dict(os.environ), stdin=subprocess.DEVNULL)
            self._running[query_id] = self._waiting.pop(query_id), process


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
