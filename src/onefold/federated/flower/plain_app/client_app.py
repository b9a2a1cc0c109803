"""The ClientApp of a site: one number per row and class, within the site's budget.

Flower runs this next to the site's data, in a new process for each message. The SuperNode's node config says
who the site is: ``site="north" model="/srv/site/model.onefold" total=100000``.
"""

from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from onefold.exceptions import OnefoldError, QueryRefused
from onefold.federated.access.guard import QueryGuard
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import Failure, FailureCode, Query, from_bytes

__all__ = ["app"]

TOTAL = 1_000_000  # rows answered for ever, unless the node config says otherwise
FAILED = 1000  # a code of our own: Flower has none for it


def no_error_text(message: Message, context: Context, call_next: Any) -> Message:
    """Reply with a fixed word whatever happens: Flower would send the text of an error to the server."""
    try:
        reply: Message = call_next(message, context)
    except Exception:
        return Message(Error(FAILED, "the site failed"), reply_to=message)
    return reply


app = ClientApp(mods=[no_error_text])


@app.query("profile")  # type: ignore[untyped-decorator]
def profile(message: Message, context: Context) -> Message:
    """Say what the model has and what it promises."""
    site, path = _site(context), _model_path(context)
    return _reply(LocalModel.load(path).profile(site), message)


@app.query("answers")  # type: ignore[untyped-decorator]
def answers(message: Message, context: Context) -> Message:
    """Answer one query, if the budget allows it."""
    site, path = _site(context), _model_path(context)
    query = from_bytes(bytes(message.content["message"]["bytes"]))
    if not isinstance(query, Query):
        raise TypeError("only queries are answered")
    guard = QueryGuard(None, int(context.node_config.get("total", TOTAL)), path.with_name("guard.db"))
    try:
        guard.admit("all-callers", len(query.features))
        return _reply(LocalModel.load(path).answer(query, site), message)
    except QueryRefused as refusal:
        return _reply(Failure(query.id, site, FailureCode(refusal.code)), message)
    except (OnefoldError, ValueError):  # a fixed word instead of the text, which may quote rows
        return _reply(Failure(query.id, site, FailureCode.WRONG_FEATURES), message)


def _site(context: Context) -> str:
    return str(context.node_config["site"])


def _model_path(context: Context) -> Path:
    return Path(str(context.node_config["model"]))


def _reply(content: Any, message: Message) -> Message:
    record = ConfigRecord({"bytes": content.to_bytes()})
    return Message(RecordDict({"message": record}), reply_to=message)
