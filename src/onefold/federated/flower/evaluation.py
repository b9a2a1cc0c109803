"""The server's role in an encrypted query, in a process of its own: keys and answers in, one result out.

This process reads what the sites have sealed and the querier's evaluation keys. Neither lets it read an
answer, nor the result. It is started as ``python -m onefold.federated.flower.evaluation SPOOL QUERY``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from onefold.exceptions import MessageError
from onefold.federated.fhe import Server, Tally
from onefold.federated.fhe.messages import EncryptedAnswers, from_bytes, to_bytes
from onefold.federated.flower.folders import write_private
from onefold.federated.flower.journal import log_to
from onefold.federated.flower.spool import Reply, Spool
from onefold.federated.messages import Failure, FailureCode, Message, SealedAnswers, SealedResult
from onefold.federated.messages import from_bytes as message_from_bytes

__all__ = ["Job", "evaluate"]

LOG = logging.getLogger("onefold.federated.flower.evaluation")  # this file is run as __main__
JOB_FILE = "job.json"
NICENESS = 5  # meeting the sites comes first


@dataclass(frozen=True)
class Job:
    """What is to be computed: under which key, about how many rows, and what is known without it."""

    key_id: str
    n_rows: int
    reply: Reply

    def save(self, folder: Path) -> None:
        """Write it beside the answers."""
        failures = [[m.site, m.code.value] for m in self.reply.messages if isinstance(m, Failure)]
        plain = {
            "key_id": self.key_id,
            "n_rows": self.n_rows,
            "expected": list(self.reply.expected),
            "failures": failures,
        }
        write_private(folder / JOB_FILE, json.dumps(plain).encode())

    @classmethod
    def load(cls, folder: Path, query_id: str) -> Job:
        """What :meth:`save` wrote."""
        plain = json.loads((folder / JOB_FILE).read_bytes())
        failures = tuple(Failure(query_id, site, FailureCode(code)) for site, code in plain["failures"])
        return cls(str(plain["key_id"]), int(plain["n_rows"]), Reply(tuple(plain["expected"]), failures))


def evaluate(spool: Spool, query_id: str) -> Reply:
    """Add up what came and compute on it; a site whose message does not fit is left out."""
    folder = spool.job(query_id)
    job = Job.load(folder, query_id)
    keys = spool.keys(job.key_id)
    messages: list[Message] = [m for m in job.reply.messages if isinstance(m, Failure)]
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
        messages.append(SealedResult(query_id, tuple(sorted(tally.clients)), to_bytes(tally.result())))
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
    sealed = message_from_bytes(path.read_bytes())
    if not isinstance(sealed, SealedAnswers):
        raise MessageError("these are no sealed answers")
    answers = from_bytes(EncryptedAnswers, sealed.content)
    if answers.client != path.stem:  # a site speaks in its own name only
        raise MessageError("the answers are in the name of another site")
    tally.add(answers)


def main(spool_root: str, query_id: str) -> int:
    """Compute, hand over, and say nothing but a code."""
    spool = Spool(Path(spool_root))
    log_to(spool.root.parent / "evaluation.log")
    os.nice(NICENESS)
    try:
        spool.deliver(query_id, evaluate(spool, query_id))
    except Exception as error:
        LOG.error("failed query=%s error=%s", query_id, type(error).__name__)
        return 1
    LOG.info("evaluated query=%s", query_id)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
