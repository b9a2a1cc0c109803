"""Messages on their way: as parts, or as bytes with a checksum. What is read is checked in full."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Arrays
from onefold._base.frames import pack_frame, unpack_frame
from onefold.exceptions import MessageError
from onefold.federated.messages._fields import check_digest
from onefold.federated.messages._kinds import (
    Answers,
    Failure,
    Limits,
    ModelParcel,
    PlainSums,
    PrivateSums,
    Profile,
    PublicScores,
    Query,
    QueryKey,
    Refusal,
    SealedAnswers,
    SealedResult,
    SiteFacts,
    SumParcel,
)

VERSION = 1
Header = dict[str, Any]

Message = (
    Query
    | Answers
    | Profile
    | ModelParcel
    | PlainSums
    | PrivateSums
    | PublicScores
    | Failure
    | Refusal
    | SiteFacts
    | QueryKey
    | SealedAnswers
    | SealedResult
    | SumParcel
)
KINDS: dict[str, type[Message]] = {
    "query": Query,
    "answers": Answers,
    "profile": Profile,
    "model": ModelParcel,
    "plain-sums": PlainSums,
    "private-sums": PrivateSums,
    "public-scores": PublicScores,
    "failure": Failure,
    "refusal": Refusal,
    "facts": SiteFacts,
    "lock": QueryKey,
    "sealed-answers": SealedAnswers,
    "sealed-result": SealedResult,
    "sum-parcel": SumParcel,
}
NAMES = dict(zip(KINDS.values(), KINDS, strict=True))
ARRAY_FIELDS = ("features", "values", "content")


def to_parts(message: Message) -> tuple[Header, Arrays]:
    """Take a message apart into a header of JSON values and named arrays."""
    if type(message) not in NAMES:
        raise MessageError("this is no message of a federation")
    header: Header = {"version": VERSION, "kind": NAMES[type(message)]}
    arrays: Arrays = {}
    for each in fields(message):
        value = getattr(message, each.name)
        if each.name == "content":
            header["sha256"] = hashlib.sha256(value).hexdigest()
            arrays["content"] = np.frombuffer(value, dtype=np.uint8)
        elif each.name in ARRAY_FIELDS:
            arrays[each.name] = value
        elif isinstance(value, StrEnum):
            header[each.name] = value.value
        elif each.name == "schema_fields":
            header[each.name] = [list(pair) for pair in value]
        else:
            header[each.name] = list(value) if isinstance(value, tuple) else value
    return header, arrays


def from_parts(header: Mapping[str, Any], arrays: Mapping[str, Any], limits: Limits | None = None) -> Message:
    """Put together the message that :func:`to_parts` took apart; every field is checked again."""
    limits = Limits() if limits is None else limits
    if not isinstance(header, Mapping) or not isinstance(arrays, Mapping):
        raise MessageError("a message must have a header and arrays")
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise MessageError(f"the message is not of version {VERSION}, the only one this program reads")
    name = header.get("kind")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise MessageError("the message is of an unknown kind")
    names = {each.name for each in fields(kind)}
    expected = {"version", "kind", *(names - set(ARRAY_FIELDS))}
    expected |= {"sha256"} if "content" in names else set()
    if set(header) != expected or set(arrays) != names & set(ARRAY_FIELDS):
        raise MessageError("the message has missing or unknown fields")
    _check_sizes(header, arrays, limits)
    values = {name: header[name] for name in names - set(ARRAY_FIELDS)}
    values |= {name: array for name, array in arrays.items() if name != "content"}
    if "content" in names:
        values["content"] = _content(arrays["content"], header["sha256"])
    return kind(**values)


def to_bytes(message: Message) -> bytes:
    """Write a message as one run of bytes with a checksum.

    Examples
    --------
    >>> from onefold.federated.messages import Failure, FailureCode
    >>> failure = Failure("q1", "north", FailureCode.RATE_LIMITED)
    >>> from_bytes(to_bytes(failure)).code
    <FailureCode.RATE_LIMITED: 'rate-limited'>
    """
    return pack_frame(*to_parts(message))


def from_bytes(data: bytes, limits: Limits | None = None) -> Message:
    """Read the message that :func:`to_bytes` wrote; nothing in it is executed, and every field is checked.

    Parameters
    ----------
    data : bytes
        The frame.
    limits : Limits or None, default=None
        The largest message that is read; None stands for ``Limits()``.

    Raises
    ------
    MessageError
        If anything about the message is wrong; the text quotes nothing of it.
    """
    limits = Limits() if limits is None else limits
    return from_parts(*unpack_frame(data, limits.max_bytes), limits)


def _check_sizes(header: Mapping[str, Any], arrays: Mapping[str, Any], limits: Limits) -> None:
    """Refuse by size first: nothing else is looked at, and nothing copied, before that."""
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise MessageError("the arrays of a message must be numpy arrays")
    classes, n_features, named = (header.get(name) for name in ("classes", "n_features", "schema_fields"))
    too_large = sum(array.nbytes for array in arrays.values()) > limits.max_bytes
    too_large |= isinstance(classes, (list, tuple)) and len(classes) > limits.max_classes
    too_large |= isinstance(named, (list, tuple)) and len(named) > limits.max_features
    too_large |= type(n_features) is int and n_features > limits.max_features
    for name, most in (("features", limits.max_features), ("values", limits.max_classes)):
        shape: tuple[int, ...] = arrays[name].shape if name in arrays else ()
        too_large |= len(shape) == 2 and (shape[0] > limits.max_rows or shape[1] > most)
    if too_large:
        raise MessageError("the message is larger than allowed")


def _content(array: AnyArray, total: Any) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise MessageError("the content of a message must be bytes")
    content = np.array(array, order="C", subok=False).tobytes()
    if hashlib.sha256(content).hexdigest() != check_digest(total):
        raise MessageError("the content of the message is damaged: its checksum does not match")
    return content
