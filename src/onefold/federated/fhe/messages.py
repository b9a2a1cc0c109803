"""What the three roles of an encrypted query say to each other: four messages, one version, no pickle.

:class:`PublicKey` goes from the querier to the clients, :class:`EvaluationKeys` from the querier to the
server, :class:`EncryptedAnswers` from each client to the server, :class:`EncryptedResult` from the server
back to the querier. All name the key they belong to by ``key_id``, a digest of the public key, so nothing
of another key is ever mixed in. They travel as one checksummed run of bytes. Reading refuses what is
malformed, of another version or larger than allowed, with a :class:`~onefold.exceptions.MessageError` of
one line that quotes nothing of what was received.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from onefold._base.frames import pack_frame, unpack_frame
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe._parameters import Parameters, choose
from onefold.federated.messages import check_digest, check_name

__all__ = [
    "MAX_BYTES",
    "MAX_KEY_BYTES",
    "MAX_ROWS",
    "VERSION",
    "EncryptedAnswers",
    "EncryptedResult",
    "EvaluationKeys",
    "PublicKey",
    "from_bytes",
    "to_bytes",
]

VERSION = 2
MAX_BYTES = 2**30  # of answers or a result
MAX_KEY_BYTES = 2**31
MAX_ROWS = 1_000_000


@dataclass(frozen=True)
class _Keyed:
    """What every message has: the setting, which decides all parameters, and the key it belongs to."""

    n_clients: int
    n_classes: int
    bits: int
    key_id: str

    def __post_init__(self) -> None:
        if not all(type(number) is int for number in (self.n_clients, self.n_classes, self.bits)):
            raise MessageError("the setting of the message is malformed")
        try:
            choose(self.n_clients, self.n_classes, self.bits)
        except InvalidInputError:
            raise MessageError("the setting of the message is not supported") from None
        check_digest(self.key_id)

    @property
    def parameters(self) -> Parameters:
        """Ring and primes, which follow from the setting."""
        return choose(self.n_clients, self.n_classes, self.bits)


@dataclass(frozen=True)
class PublicKey(_Keyed):
    """What encrypts. Anyone may have it, but a client must know that it is the querier's."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_content(self.key)
        if key_digest(self.key) != self.key_id:
            raise MessageError("the public key is not the one its digest names")


@dataclass(frozen=True)
class EvaluationKeys(_Keyed):
    """What the server computes with; it decrypts nothing. The public key in it is for hiding results.

    ``content`` has, one after the other, the keys that relinearise and those that rotate, room by room.
    """

    key: bytes = field(repr=False)
    sizes: tuple[int, ...]
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_content(self.key)
        _check_content(self.content)
        if key_digest(self.key) != self.key_id:
            raise MessageError("the public key is not the one its digest names")
        if not isinstance(self.sizes, (tuple, list)) or not all(type(size) is int for size in self.sizes):
            raise MessageError("the sizes of the evaluation keys are malformed")
        object.__setattr__(self, "sizes", tuple(self.sizes))
        if min(self.sizes, default=-1) < 0 or sum(self.sizes) != len(self.content):
            raise MessageError("the sizes of the evaluation keys do not fit")
        if len(self.sizes) != 2 * len(self.parameters.rooms):
            raise MessageError("there are too few or too many evaluation keys")
        if [size > 0 for size in self.sizes[1::2]] != [bool(steps) for steps in self.parameters.rotations]:
            raise MessageError("evaluation keys that rotate are missing, or not wanted")

    def sections(self) -> list[tuple[bytes, bytes]]:
        """For each room the keys that relinearise and those that rotate (none: no bytes)."""
        stops = list(accumulate(self.sizes))
        parts = [self.content[stop - size : stop] for size, stop in zip(self.sizes, stops, strict=True)]
        return list(zip(parts[::2], parts[1::2], strict=True))


@dataclass(frozen=True)
class EncryptedAnswers(_Keyed):
    """A client's answers to one query of ``n_rows`` rows."""

    query_id: str
    client: str
    n_rows: int
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("a query id", self.query_id)
        check_name("a client", self.client)
        _check_rows(self.n_rows)
        _check_content(self.content)


@dataclass(frozen=True)
class EncryptedResult(_Keyed):
    """What the server found, for the key holder's eyes only; ``n_answered`` clients took part."""

    query_id: str
    n_rows: int
    n_answered: int
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("a query id", self.query_id)
        _check_rows(self.n_rows)
        _check_content(self.content)
        if type(self.n_answered) is not int or not 0 < self.n_answered <= self.n_clients:
            raise MessageError("the number of clients in the result is impossible")


EncryptedMessage = PublicKey | EvaluationKeys | EncryptedAnswers | EncryptedResult
KINDS: dict[str, type[EncryptedMessage]] = {
    "fhe-public-key": PublicKey,
    "fhe-evaluation-keys": EvaluationKeys,
    "fhe-answers": EncryptedAnswers,
    "fhe-result": EncryptedResult,
}
NAMES = {kind: name for name, kind in KINDS.items()}
M = TypeVar("M", PublicKey, EvaluationKeys, EncryptedAnswers, EncryptedResult)


def key_digest(key: bytes) -> str:
    """The name of a public key."""
    return hashlib.sha256(key).hexdigest()


def to_bytes(message: EncryptedMessage) -> bytes:
    """A message as one checksummed run of bytes."""
    if type(message) not in NAMES:
        raise InvalidInputError("only messages of this module can be made bytes")
    header: dict[str, Any] = {"version": VERSION, "kind": NAMES[type(message)]}
    arrays = {}
    for each in fields(message):
        value = getattr(message, each.name)
        if isinstance(value, bytes):
            arrays[each.name] = np.frombuffer(value, dtype=np.uint8)
        else:
            header[each.name] = value
    return pack_frame(header, arrays)


def from_bytes(kind: type[M], data: bytes, max_bytes: int | None = None) -> M:
    """The message of the expected kind that :func:`to_bytes` wrote; every field is checked again."""
    if not isinstance(kind, type) or kind not in NAMES:
        raise InvalidInputError("only messages of this module can be read")
    if max_bytes is None:
        max_bytes = MAX_KEY_BYTES if kind is EvaluationKeys else MAX_BYTES
    header, arrays = unpack_frame(data, max_bytes)
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise MessageError(f"the message is not of version {VERSION}, the only one this program reads")
    if header.get("kind") != NAMES[kind]:
        raise MessageError(f"the message is not of the kind {NAMES[kind]}, which is expected here")
    contents = {name for name, array in arrays.items() if array.dtype == np.uint8 and array.ndim == 1}
    names = {each.name for each in fields(kind)}
    if contents != set(arrays) or (set(header) - {"version", "kind"}) | contents != names:
        raise MessageError("the message has missing or unknown fields")
    values: dict[str, Any] = {name: value for name, value in header.items() if name in names}
    values |= {name: arrays[name].tobytes() for name in contents}
    return kind(**values)


def _check_content(content: Any) -> None:
    if not isinstance(content, bytes) or not content:
        raise MessageError("the content of the message must be bytes, at least one")


def _check_rows(n_rows: Any) -> None:
    if type(n_rows) is not int or not 0 < n_rows <= MAX_ROWS:
        raise MessageError("the number of rows of the message is impossible")
