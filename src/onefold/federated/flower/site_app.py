"""The edge of a site: Flower's message in, Flower's message out, and never the text of an error.

Flower hands the text of an exception in a client application to the server, rows of data included. Nothing
gets past :func:`answer_message`: whatever happens, the reply is one of the messages of a federation.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from onefold._base.optional import require
from onefold.exceptions import MessageError
from onefold.federated.flower import site
from onefold.federated.flower.environment import SITE_VARIABLE
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.journal import log_to
from onefold.federated.flower.records import caller_of, from_records, to_records
from onefold.federated.messages import Failure, FailureCode, Lock, Message, Query, check_name

__all__ = ["ANSWERS", "KEPT_OUT", "MODEL", "PROFILE", "SEALED", "answer_message"]

# Kinds of Flower message; Flower wants them to begin with a word of its own.
ANSWERS, PROFILE, MODEL, SEALED = "query.answers", "query.profile", "query.model", "query.sealed"
KEPT_OUT = "query.outside"  # no question: the site is told that it is not taken
# For when not even our own reply can be made. Flower has no code for it.
EDGE_FAILED = 1000

LOG = logging.getLogger(__name__)


def answer_message(message: Any, context: Any) -> Any:
    """The reply to one message of Flower, whatever it holds."""
    app = require("flwr.app", "federated")
    try:
        return app.Message(to_records(_replies(message)), reply_to=message)
    except BaseException as error:  # SystemExit and the like must not speak either
        LOG.error("failed error=%s", type(error).__name__)
        return app.Message(app.Error(EDGE_FAILED, "the site failed"), reply_to=message)


def _replies(message: Any) -> list[Message]:
    folder = SiteFolder(Path(os.environ[SITE_VARIABLE]))
    log_to(folder.log)
    name = folder.settings.name
    kind = str(message.metadata.message_type)
    try:
        if kind == PROFILE:
            return [site.read_profile(folder)]
        if kind == MODEL:
            return [site.model_parcel(folder)]
        if kind == KEPT_OUT:
            folder.kept_out.touch(0o600)
            return [site.read_profile(folder)]
        if kind == ANSWERS:
            return _answers(folder, message.content)
        if kind == SEALED:
            return _sealed_answers(folder, message.content)
    except MessageError as error:
        LOG.warning("refused a message: %s", error)
        code = FailureCode.TOO_LARGE if "larger" in str(error) else FailureCode.MALFORMED
        return [Failure(site.NO_QUERY, name, code)]
    except Exception as error:
        LOG.error("failed kind=%s error=%s", kind, type(error).__name__)
        code = FailureCode.NOT_READY if kind in (PROFILE, MODEL) else FailureCode.INTERNAL
        return [Failure(site.NO_QUERY, name, code)]
    LOG.warning("refused a message of an unknown kind")
    return [Failure(site.NO_QUERY, name, FailureCode.MALFORMED)]


def _answers(folder: SiteFolder, content: Any) -> list[Message]:
    caller = check_name("a caller", caller_of(content))
    queries = from_records(content)
    if not all(isinstance(query, Query) for query in queries):
        raise MessageError("only queries are answered")
    return [site.answer(folder, query, caller) for query in queries if isinstance(query, Query)]


def _sealed_answers(folder: SiteFolder, content: Any) -> list[Message]:
    """The first message is the lock under which the queries behind it are answered."""
    caller = check_name("a caller", caller_of(content))
    lock, *queries = from_records(content)
    if not isinstance(lock, Lock) or not all(isinstance(query, Query) for query in queries):
        raise MessageError("only a lock and queries are answered")
    return [site.answer(folder, query, caller, lock) for query in queries if isinstance(query, Query)]
