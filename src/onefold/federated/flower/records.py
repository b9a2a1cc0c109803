"""Between our messages and Flower's records: the only place where both are known.

A Flower message carries several of ours, so that many queries cost a site one process. Flower stores and
sends every record and every array by itself, so arrays of one kind are stacked: there is one ``ConfigRecord``
with all headers and the places of their arrays, and one ``ArrayRecord`` with the stacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.optional import require
from onefold.exceptions import MessageError
from onefold.federated.messages import Limits, Message, from_parts, to_parts

__all__ = ["MOST_MESSAGES", "caller_of", "from_records", "to_records"]

MOST_MESSAGES = 256
LONGEST_HEADERS = 16 * 2**20
CALLER, HEADERS, ARRAYS = "caller", "headers", "arrays"


def to_records(messages: Sequence[Message], caller: str | None = None) -> Any:
    """Flower's ``RecordDict`` of some messages."""
    app = require("flwr.app", "federated")
    stacks: dict[str, list[NDArray[Any]]] = {}
    ends: dict[str, int] = {}
    entries = []
    for message in messages:
        header, arrays = to_parts(message)
        places = {}
        for name, array in arrays.items():
            stack = "-".join([name, array.dtype.name, *map(str, array.shape[1:])])
            stacks.setdefault(stack, []).append(array)
            start = ends.get(stack, 0)
            ends[stack] = start + len(array)
            places[name] = [stack, start, ends[stack]]
        entries.append([header, places])
    content: dict[str, Any] = {HEADERS: app.ConfigRecord({"json": json.dumps(entries, allow_nan=False)})}
    content[ARRAYS] = app.ArrayRecord({name: app.Array(np.concatenate(p)) for name, p in stacks.items()})
    if caller is not None:
        content[CALLER] = app.ConfigRecord({"name": caller})
    return app.RecordDict(content)


def from_records(content: Any, limits: Limits | None = None) -> list[Message]:
    """The messages in Flower's ``RecordDict``; whatever else it may hold is refused."""
    limits = Limits() if limits is None else limits
    try:
        if set(content) - {CALLER} != {HEADERS, ARRAYS} or set(content[HEADERS]) != {"json"}:
            raise MessageError("the records are not those of a federation")
        text, arrays = content[HEADERS]["json"], content[ARRAYS]
        if not isinstance(text, str):
            raise MessageError("the headers are not JSON")
        # Flower's arrays are a little longer than what is in them.
        if len(text) > LONGEST_HEADERS or arrays.count_bytes() > limits.max_bytes + LONGEST_HEADERS:
            raise MessageError("the message is larger than allowed")
        entries = json.loads(text)
        if not entries or len(entries) > MOST_MESSAGES:
            raise MessageError("there must be at least one message, and not too many")
        stacks = {name: array.numpy() for name, array in arrays.items()}
        ends = dict.fromkeys(stacks, 0)
        return [from_parts(header, _placed(places, stacks, ends), limits) for header, places in entries]
    except MessageError:
        raise
    except Exception:  # whatever Flower's records may raise, nothing of it is passed on
        raise MessageError("the records cannot be read") from None


def _placed(
    places: dict[str, Any], stacks: dict[str, NDArray[Any]], ends: dict[str, int]
) -> dict[str, NDArray[Any]]:
    """The arrays of one message; each begins where the one before it ended, so that no row is read twice."""
    found = {}
    for name, (stack, start, stop) in places.items():
        if type(stop) is not int or start != ends[stack] or not start < stop <= len(stacks[stack]):
            raise MessageError("the arrays of a message do not fit")
        found[name] = stacks[stack][start:stop]
        ends[stack] = stop
    return found


def caller_of(content: Any) -> str:
    """Who asks, as the server says."""
    try:
        name = content[CALLER]["name"]
    except Exception:
        raise MessageError("the query does not say who asks") from None
    if not isinstance(name, str):
        raise MessageError("the query does not say who asks")
    return name
