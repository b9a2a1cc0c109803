"""Messages between the three roles of an encrypted query: four kinds, one version, no pickle.

:class:`PublicKey` goes from the querier to the sites, :class:`EvaluationKeys` from the querier to the
server, :class:`EncryptedAnswers` from each site to the server, :class:`EncryptedResult` from the server
back to the querier. All name the key they belong to by ``key_id``, a SHA-256 sum of the public key, so
nothing of another key is ever mixed in. They are records: reading refuses what is malformed, of a newer
version or larger than allowed, with a :class:`~onefold.exceptions.MessageError` of one line that quotes
nothing of what was received.
"""

from dataclasses import field
from typing import Annotated, ClassVar, Self

from pydantic import Field

from onefold._base.records import Content, Record, record
from onefold.exceptions import InvalidInputError, MessageError, OnefoldError
from onefold.federated.fhe.parameters import Parameters, choose
from onefold.federated.messages import Digest, Filled, Name, QueryKey, digest_of

__all__ = [
    "MAX_BYTES",
    "MAX_KEY_BYTES",
    "MAX_ROWS",
    "EncryptedAnswers",
    "EncryptedResult",
    "EvaluationKeys",
    "PublicKey",
    "public_key_of",
]

MAX_BYTES = 2**30  # of answers or a result
MAX_KEY_BYTES = 2**31
MAX_ROWS = 1_000_000
RowCount = Annotated[int, Field(ge=1, le=MAX_ROWS)]


@record
class _Keyed(Record):
    """What every message has: the setting, which decides all parameters, and the key it belongs to."""

    error: ClassVar[type[OnefoldError]] = MessageError
    most_bytes = MAX_BYTES

    n_clients: int
    n_classes: int
    bits: int
    key_id: Digest

    def __post_init__(self) -> None:
        try:
            choose(self.n_clients, self.n_classes, self.bits)
        except InvalidInputError:
            raise MessageError("the setting of the message is not supported") from None

    @classmethod
    def of(cls, message: Self | bytes) -> Self:
        """Return a message as it is, or read it from bytes."""
        return message if isinstance(message, cls) else cls.from_bytes(message)  # type: ignore[arg-type]

    @property
    def parameters(self) -> Parameters:
        """Ring and primes, which follow from the setting."""
        return choose(self.n_clients, self.n_classes, self.bits)

    @property
    def setting(self) -> tuple[int, int, int, str]:
        """The fields ``n_clients``, ``n_classes``, ``bits`` and ``key_id``, which all messages share."""
        return self.n_clients, self.n_classes, self.bits, self.key_id

    def _check_key(self, key: bytes) -> None:
        if digest_of(key) != self.key_id:
            raise MessageError("the public key does not have the digest that the message gives")


@record
class PublicKey(_Keyed, kind="public key"):
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

    key: Filled = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_key(self.key)


@record
class EvaluationKeys(_Keyed, kind="evaluation keys"):
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
    sections : tuple of (bytes, bytes)
        For each SEAL context, from the full one down, its relinearisation keys and its rotation keys. A
        context without rotations has no bytes for them.

    See Also
    --------
    onefold.federated.fhe.Querier.evaluation_keys : Makes this message.

    Examples
    --------
    >>> from onefold.federated.fhe import Querier
    >>> len(Querier(n_clients=2, n_classes=3).evaluation_keys().sections)
    2
    """

    most_bytes = MAX_KEY_BYTES

    key: Filled = field(repr=False)
    sections: tuple[tuple[Filled, Content], ...] = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_key(self.key)
        if len(self.sections) != len(self.parameters.chains):
            raise MessageError("there are too few or too many evaluation keys for the setting")
        if [bool(rotations) for _, rotations in self.sections] != [
            bool(s) for s in self.parameters.rotations
        ]:
            raise MessageError("the evaluation keys do not rotate where the setting asks for it")


@record
class EncryptedAnswers(_Keyed, kind="encrypted answers"):
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

    query_id: Name
    client: Name
    n_rows: RowCount
    content: Filled = field(repr=False)


@record
class EncryptedResult(_Keyed, kind="encrypted result"):
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

    query_id: Name
    n_rows: RowCount
    n_answered: Annotated[int, Field(ge=1)]
    content: Filled = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_answered > self.n_clients:
            raise MessageError("the number of sites in the result is impossible")


def public_key_of(lock: QueryKey) -> PublicKey:
    """Return the public key in a query key, if the two belong together."""
    key = PublicKey.from_bytes(lock.content)
    if (key.key_id, key.n_classes, key.bits) != (lock.key_id, len(lock.classes), lock.bits):
        raise MessageError("the query key and its public key do not belong together")
    return key
