"""Between our messages and Flower's records: the only place where both are known.

A Flower message carries several of ours, so that many queries cost a site one process: message ``i`` is a
``ConfigRecord`` with its header as JSON and an ``ArrayRecord`` with its arrays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onefold._base.optional import require
from onefold.exceptions import MessageError
from onefold.federated.messages import Limits, Message, from_parts, to_parts

__all__ = ["MOST_MESSAGES", "caller_of", "from_records", "to_records"]

MOST_MESSAGES = 256
LONGEST_HEADER = 4 * 2**20
CALLER = "caller"


def to_records(messages: Sequence[Message], caller: str | None = None) -> Any:
    """Flower's ``RecordDict`` of some messages."""
    app = require("flwr.app", "federated")
    content: dict[str, Any] = {}
    for number, message in enumerate(messages):
        header, arrays = to_parts(message)
        content[f"header-{number}"] = app.ConfigRecord({"json": json.dumps(header, allow_nan=False)})
        content[f"arrays-{number}"] = app.ArrayRecord({name: app.Array(a) for name, a in arrays.items()})
    if caller is not None:
        content[CALLER] = app.ConfigRecord({"name": caller})
    return app.RecordDict(content)


def from_records(content: Any, limits: Limits | None = None) -> list[Message]:
    """The messages in Flower's ``RecordDict``; whatever else it may hold is refused."""
    try:
        numbers = range(len([name for name in content if name != CALLER]) // 2)
        if len(numbers) > MOST_MESSAGES:
            raise MessageError("there are more messages than allowed")
        if not numbers or set(content) - {CALLER} != _names(numbers):
            raise MessageError("the records are not those of a federation")
        limits = Limits() if limits is None else limits
        if sum(record.count_bytes() for record in content.values()) > limits.max_bytes + LONGEST_HEADER:
            raise MessageError("the message is larger than allowed")
        return [_message(content, number, limits) for number in numbers]
    except MessageError:
        raise
    except Exception:  # whatever Flower's records may raise, nothing of it is passed on
        raise MessageError("the records cannot be read") from None


def caller_of(content: Any) -> str:
    """Who asks, as the server says."""
    try:
        name = content[CALLER]["name"]
    except Exception:
        raise MessageError("the query does not say who asks") from None
    if not isinstance(name, str):
        raise MessageError("the query does not say who asks")
    return name


def _names(numbers: range) -> set[str]:
    return {f"{kind}-{number}" for number in numbers for kind in ("header", "arrays")}


def _message(content: Any, number: int, limits: Limits) -> Message:
    record = content[f"header-{number}"]
    text = record["json"]
    if set(record) != {"json"} or not isinstance(text, str) or len(text) > LONGEST_HEADER:
        raise MessageError("the header of a message cannot be read")
    arrays = {name: array.numpy() for name, array in content[f"arrays-{number}"].items()}
    return from_parts(json.loads(text), arrays, limits)
