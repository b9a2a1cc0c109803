"""Messages between the three roles of an encrypted query: four kinds, one version, no pickle.

:class:`PublicKey` goes from the querier to the sites, :class:`EvaluationKeys` from the querier to the
server, :class:`EncryptedAnswers` from each site to the server, :class:`EncryptedResult` from the server
back to the querier. All name the key they belong to by ``key_id``, a SHA-256 sum of the public key, so
nothing of another key is ever mixed in. They travel as one checksummed run of bytes. Reading refuses what
is malformed, of another version or larger than allowed, with a :class:`~onefold.exceptions.MessageError` of
one line that quotes nothing of what was received.
"""

import hashlib
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from onefold._base.frames import pack_frame, unpack_frame
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe.parameters import Parameters, choose
from onefold.federated.messages import QueryKey, check_digest, check_name

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

    @property
    def setting(self) -> tuple[int, int, int, str]:
        """The fields ``n_clients``, ``n_classes``, ``bits`` and ``key_id``, which all messages share."""
        return self.n_clients, self.n_classes, self.bits, self.key_id


@dataclass(frozen=True)
class PublicKey(_Keyed):
    """The key that encrypts. Anyone may have it, but a site must know that it is the querier's.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer.
    n_classes : int
        Number of classes.
    bits : int
        Bits of a quantised measure.
    key_id : str
        SHA-256 sum of the public key, 64 hexadecimal digits.
    key : bytes
        The public key as SEAL writes it.

    See Also
    --------
    onefold.federated.fhe.Querier.public_key : Makes this message.

    Examples
    --------
    >>> from onefold.federated.fhe import Querier
    >>> Querier(n_clients=2, n_classes=3).public_key().bits
    8
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_key(self.key, self.key_id)


@dataclass(frozen=True)
class EvaluationKeys(_Keyed):
    """The keys with which the server computes; they decrypt nothing.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer.
    n_classes : int
        Number of classes.
    bits : int
        Bits of a quantised measure.
    key_id : str
        SHA-256 sum of the public key, 64 hexadecimal digits.
    key : bytes
        The public key, with which the server hides how a result was computed.
    sizes : tuple of int
        Bytes of each part of ``content``.
    content : bytes
        For each SEAL context its relinearisation keys, then its rotation keys, one after the other.

    See Also
    --------
    onefold.federated.fhe.Querier.evaluation_keys : Makes this message.

    Examples
    --------
    >>> from onefold.federated.fhe import Querier
    >>> len(Querier(n_clients=2, n_classes=3).evaluation_keys().sections())
    2
    """

    key: bytes = field(repr=False)
    sizes: tuple[int, ...]
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_key(self.key, self.key_id)
        _check_content(self.content)
        if not isinstance(self.sizes, (tuple, list)) or not all(type(size) is int for size in self.sizes):
            raise MessageError("the sizes of the evaluation keys are malformed")
        object.__setattr__(self, "sizes", tuple(self.sizes))
        if min(self.sizes, default=-1) < 0 or sum(self.sizes) != len(self.content):
            raise MessageError("the sizes of the evaluation keys do not add up to their content")
        if len(self.sizes) != 2 * len(self.parameters.chains):
            raise MessageError("there are too few or too many evaluation keys for the setting")
        if [size > 0 for size in self.sizes[1::2]] != [bool(steps) for steps in self.parameters.rotations]:
            raise MessageError("the evaluation keys do not rotate where the setting asks for it")

    def sections(self) -> list[tuple[bytes, bytes]]:
        """Return, for each SEAL context, its relinearisation keys and its rotation keys.

        Returns
        -------
        list of (bytes, bytes)
            From the full context down. A context without rotations has no bytes for them.
        """
        stops = list(accumulate(self.sizes))
        parts = [self.content[stop - size : stop] for size, stop in zip(self.sizes, stops, strict=True)]
        return list(zip(parts[::2], parts[1::2], strict=True))


@dataclass(frozen=True)
class EncryptedAnswers(_Keyed):
    """One site's encrypted answers to a query.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer.
    n_classes : int
        Number of classes.
    bits : int
        Bits of a quantised measure.
    key_id : str
        SHA-256 sum of the public key, 64 hexadecimal digits.
    query_id : str
        Name of the query.
    client : str
        Name of the site.
    n_rows : int
        Rows of the query.
    content : bytes
        The ciphertexts, packed.

    See Also
    --------
    onefold.federated.fhe.Client.encrypt : Makes this message.

    Examples
    --------
    >>> from onefold.federated.fhe import Client, Querier
    >>> key = Querier(n_clients=2, n_classes=3).public_key()
    >>> Client(key, "north").encrypt([[3, 1, 2]], "q1").n_rows
    1
    """

    query_id: str
    client: str
    n_rows: int
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("a query id", self.query_id)
        check_name("a site's name", self.client)
        _check_rows(self.n_rows)
        _check_content(self.content)


@dataclass(frozen=True)
class EncryptedResult(_Keyed):
    """The server's encrypted result, which only the holder of the secret key can read.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer.
    n_classes : int
        Number of classes.
    bits : int
        Bits of a quantised measure.
    key_id : str
        SHA-256 sum of the public key, 64 hexadecimal digits.
    query_id : str
        Name of the query.
    n_rows : int
        Rows of the query.
    n_answered : int
        Number of sites that answered.
    content : bytes
        The ciphertexts, packed.

    See Also
    --------
    onefold.federated.fhe.Server.aggregate : Makes this message.
    onefold.federated.fhe.Querier.decrypt : Reads it.

    Examples
    --------
    >>> from onefold.federated.fhe import Client, Querier, Server
    >>> querier = Querier(n_clients=2, n_classes=3)
    >>> answers = Client(querier.public_key(), "north").encrypt([[3, 1, 2]], "q1")
    >>> Server(querier.evaluation_keys()).aggregate([answers]).n_answered
    1
    """

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
            raise MessageError("the number of sites in the result is impossible")


EncryptedMessage = PublicKey | EvaluationKeys | EncryptedAnswers | EncryptedResult
KINDS: dict[type[EncryptedMessage], str] = {
    PublicKey: "fhe-public-key",
    EvaluationKeys: "fhe-evaluation-keys",
    EncryptedAnswers: "fhe-answers",
    EncryptedResult: "fhe-result",
}
M = TypeVar("M", PublicKey, EvaluationKeys, EncryptedAnswers, EncryptedResult)


def key_digest(key: bytes) -> str:
    """Return the ``key_id`` of a public key."""
    return hashlib.sha256(key).hexdigest()


def to_bytes(message: EncryptedMessage) -> bytes:
    """Write a message as one checksummed run of bytes.

    Parameters
    ----------
    message : PublicKey, EvaluationKeys, EncryptedAnswers or EncryptedResult
        The message.

    Returns
    -------
    bytes
        What :func:`from_bytes` reads.

    See Also
    --------
    from_bytes : The reverse.

    Examples
    --------
    >>> from onefold.federated.fhe import Querier, messages
    >>> key = Querier(n_clients=2, n_classes=3).public_key()
    >>> messages.from_bytes(messages.PublicKey, messages.to_bytes(key)) == key
    True
    """
    if type(message) not in KINDS:
        raise InvalidInputError("only messages of onefold.federated.fhe.messages can be written")
    header: dict[str, Any] = {"version": VERSION, "kind": KINDS[type(message)]}
    arrays = {}
    for each in fields(message):
        value = getattr(message, each.name)
        if isinstance(value, bytes):
            arrays[each.name] = np.frombuffer(value, dtype=np.uint8)
        else:
            header[each.name] = value
    return pack_frame(header, arrays)


def from_bytes(kind: type[M], data: bytes, max_bytes: int | None = None) -> M:
    """Read a message of the expected kind, and check every field of it.

    Parameters
    ----------
    kind : type
        The class of the message that is expected.
    data : bytes
        What :func:`to_bytes` wrote.
    max_bytes : int or None, default=None
        Largest size to accept; 2 GiB for evaluation keys and 1 GiB for the other kinds if None.

    Returns
    -------
    PublicKey, EvaluationKeys, EncryptedAnswers or EncryptedResult
        The message.

    Raises
    ------
    MessageError
        If the bytes are damaged, too large, of another kind or version, or a field is impossible.

    See Also
    --------
    to_bytes : The reverse, with an example.

    Examples
    --------
    >>> from onefold.federated.fhe import messages
    >>> messages.from_bytes(messages.PublicKey, b"none")
    Traceback (most recent call last):
    onefold.exceptions.MessageError: these bytes are not a message of this version
    """
    if not isinstance(kind, type) or kind not in KINDS:
        raise InvalidInputError("only messages of onefold.federated.fhe.messages can be read")
    if max_bytes is None:
        max_bytes = MAX_KEY_BYTES if kind is EvaluationKeys else MAX_BYTES
    header, arrays = unpack_frame(data, max_bytes)
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise MessageError(f"the message is not of version {VERSION}, the only one this program reads")
    if header.get("kind") != KINDS[kind]:
        raise MessageError(f"the message is not of the kind {KINDS[kind]}, which is expected here")
    names = {each.name for each in fields(kind)}
    if sorted(list(header) + list(arrays)) != sorted(names | {"version", "kind"}):
        raise MessageError("the message has missing or unknown fields")
    if any(array.dtype != np.uint8 or array.ndim != 1 for array in arrays.values()):
        raise MessageError("the contents of the message must be bytes")
    values: dict[str, Any] = {name: value for name, value in header.items() if name in names}
    values |= {name: array.tobytes() for name, array in arrays.items()}
    return kind(**values)


def as_message(kind: type[M], message: M | bytes) -> M:
    """Return a message as it is, or read it from bytes."""
    return message if isinstance(message, kind) else from_bytes(kind, message)  # type: ignore[arg-type]


def public_key_of(lock: QueryKey) -> PublicKey:
    """Return the public key in a query key, if the two belong together."""
    key = from_bytes(PublicKey, lock.content)
    if (key.key_id, key.n_classes, key.bits) != (lock.key_id, len(lock.classes), lock.bits):
        raise MessageError("the query key and its public key do not belong together")
    return key


def _check_content(content: Any) -> None:
    if not isinstance(content, bytes) or not content:
        raise MessageError("the content of the message must be bytes, at least one")


def _check_key(key: Any, key_id: str) -> None:
    _check_content(key)
    if key_digest(key) != key_id:
        raise MessageError("the public key does not have the digest that the message gives")


def _check_rows(n_rows: Any) -> None:
    if type(n_rows) is not int or not 0 < n_rows <= MAX_ROWS:
        raise MessageError("the number of rows of the message is impossible")
