"""What a querier signs and a site checks: who asks, for which rows, for what, in which federation, when.

A site recognises its server by a certificate, and the server could otherwise say that anybody asks for
anything. With a :class:`Signature` the querier states, under a key that the server does not have, what the
site is asked. A server that changes any of it, or invents a querier, has no signature for it; one that sends
the same query again is found by the id of the query (:mod:`onefold.federated.replays`).

A signature says who asked. It does not make an answer private, and it does not hide the rows.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field

from onefold._base.optional import require
from onefold._base.records import record
from onefold.exceptions import InvalidInputError, MessageError, QueryRefused
from onefold.federated.messages import (
    Digest,
    FailureCode,
    Message,
    Name,
    Query,
    QueryKey,
    SumParcel,
    check_digest,
    check_name,
    digest_of,
    is_text,
)
from onefold.federated.signing import ED25519, SERIALIZATION, canonical, verify

__all__ = [
    "AnySignature",
    "KeySignature",
    "QuerierKey",
    "SentSignature",
    "Signature",
    "SumSignature",
    "check_querier_name",
    "key_digest",
    "parcel_digest",
    "rows_digest",
]

SIGNATURE_BYTES, ID_DIGITS = 64, 32
LONGEST_PURPOSE = 200
LARGEST = 2**53


def check_querier_name(name: str) -> str:
    """Return the name of a querier; one that has other letters than a name may have is refused."""
    return check_name("a querier's name", name)


def _printable(value: str) -> str:
    if not is_text(value, LONGEST_PURPOSE):
        raise MessageError(f"must be one printable line of at most {LONGEST_PURPOSE} letters")
    return value


QuerierName = Annotated[str, AfterValidator(check_querier_name)]
PublicKey = Digest  # the 32 bytes of a key have as many digits
Signed = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{2 * SIGNATURE_BYTES}}}$")]
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Line = Annotated[str, AfterValidator(_printable)]


# --- who signs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuerierKey:
    """The public half of a querier's signing key, with the name that the querier gave it.

    Parameters
    ----------
    name : str
        What the querier calls itself; only the key is checked.
    public : str
        The Ed25519 public key, 64 hexadecimal digits.

    See Also
    --------
    onefold.federated.queriers.SigningKey : The private half.

    Examples
    --------
    >>> QuerierKey("ward", "00" * 32).id
    '66687aadf862bd776c8fc18b8e9f8e20'
    """

    name: str
    public: str

    def __post_init__(self) -> None:
        check_querier_name(self.name)
        check_digest(self.public)

    @property
    def id(self) -> str:
        """The first 32 digits of the SHA-256 sum of the key: what people compare."""
        return digest_of(bytes.fromhex(self.public))[:ID_DIGITS]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QuerierKey:
        """Read a public key file.

        Parameters
        ----------
        path : str or path-like
            File that ``SigningKey.create`` wrote: one line in OpenSSH's format.

        Returns
        -------
        QuerierKey
            The key; its name is the comment of the line.

        Raises
        ------
        InvalidInputError
            If there is no such file, or it holds no Ed25519 key with a name.
        """
        unsupported = require("cryptography.exceptions", "federated").UnsupportedAlgorithm
        try:
            line = Path(path).read_bytes()
            key = require(SERIALIZATION, "federated").load_ssh_public_key(line)
            name = line.decode("ascii").split()[2]
        except FileNotFoundError:
            raise InvalidInputError(f"{os.fspath(path)}: no such file") from None
        except (OSError, ValueError, IndexError, unsupported):
            key, name = None, ""
        if not isinstance(key, require(ED25519, "federated").Ed25519PublicKey):
            raise InvalidInputError(
                f"{os.fspath(path)}: no public key of a querier (onefold federate querier new)"
            )
        return cls(name, key.public_bytes_raw().hex())


# --- what is signed ---------------------------------------------------------------------------------------


class _Statement(Message):
    """What a querier states, with the signature of every other field; the fields are those of subclasses."""

    # What is signed begins with this, so that a signature made for anything else is none of this kind.
    domain: ClassVar[bytes]
    name: QuerierName
    public: PublicKey
    signed: Signed

    @property
    def key(self) -> QuerierKey:
        """Name and public key of the querier."""
        return QuerierKey(self.name, self.public)

    @property
    def plain(self) -> dict[str, Any]:
        """All fields as plain values, for a log."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # every statement is a dataclass

    @property
    def statement(self) -> bytes:
        """The bytes that are signed: every field but the signature, in one order."""
        plain = {name: value for name, value in self.plain.items() if name != "signed"}
        return self.domain + canonical(plain)

    @property
    def is_genuine(self) -> bool:
        """Whether the key has signed the statement; says nothing about any query."""
        return verify(self.public, self.signed, self.statement)


@record
class Signature(_Statement, kind="query signature"):
    """What a querier states about one query, with the signature of the statement.

    Parameters
    ----------
    federation : str
        Id of the federation whose sites are asked.
    query : str
        Id of the query.
    rows : int
        Number of its rows.
    content : str
        SHA-256 sum of the rows, see :func:`rows_digest`.
    encrypted : str or None
        SHA-256 sum of the query key with its map; None for answers in clear.
    rule : str
        How the server is asked to combine answers.
    name, public : str
        Name and public key of the querier.
    purpose : str
        What the answers are for.
    amount : int
        Rows of all messages of the same question.
    time : int
        When it was signed, in seconds since 1970.
    signed : str
        The Ed25519 signature of :attr:`statement`, 128 hexadecimal digits.

    See Also
    --------
    onefold.federated.queriers.SigningKey.sign : Makes one.

    Notes
    -----
    Nothing is promised about a signature before :meth:`check` has returned.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated.messages import Query
    >>> from onefold.federated.queriers import SigningKey
    >>> query = Query("q1", np.zeros((2, 3)))
    >>> signature = SigningKey("ward", bytes(32)).sign(query, "ab" * 32, purpose="triage")
    >>> signature.check(query, "ab" * 32)
    >>> signature.check(query, "cd" * 32)
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: bad-signature
    """

    domain = b"onefold query 1\n"

    federation: Digest
    query: Name
    rows: Whole
    content: Digest
    encrypted: Digest | None
    rule: Line
    name: QuerierName
    purpose: Line
    amount: Whole
    time: Whole
    public: PublicKey
    signed: Signed

    def check(self, query: Query, federation: str, query_key: QueryKey | None = None) -> None:
        """Check that this is a statement about a query, signed by the key in it.

        Parameters
        ----------
        query : Query
            The query that came with it.
        federation : str
            Id of the site's own federation.
        query_key : QueryKey or None, default=None
            The query key that came with it.

        Raises
        ------
        QueryRefused
            With the code ``bad-signature`` if anything differs.
        """
        stated = (self.federation, self.query, self.rows, self.content, self.encrypted)
        asked = (federation, query.id, len(query.features), rows_digest(query), key_digest(query_key))
        if stated != asked or self.amount < self.rows or not self.is_genuine:
            raise QueryRefused(FailureCode.BAD_SIGNATURE)


@record
class KeySignature(_Statement, kind="key signature"):
    """What a querier states about its query key: that answers under it are for the querier, and how many.

    It lets somebody else ask: whoever has the query key chooses the rows, and only the querier can read what
    comes back. Each site counts the rows under it.

    Parameters
    ----------
    federation : str
        Id of the federation whose sites may answer.
    encrypted : str
        SHA-256 sum of the query key with its classes and its map.
    name, public : str
        Name and public key of the querier.
    purpose : str
        What the answers are for.
    amount : int
        Rows that each site may answer under it.
    until : int
        When it ends, in seconds since 1970.
    signed : str
        The Ed25519 signature of :attr:`statement`, 128 hexadecimal digits.

    See Also
    --------
    onefold.federated.queriers.SigningKey.sign_key : Makes one.

    Examples
    --------
    >>> from onefold.federated.messages import QueryKey
    >>> from onefold.federated.queriers import SigningKey
    >>> query_key = QueryKey("12" * 32, ("a", "b"), 8, 1.0, 1.0, 0.0, b"key")
    >>> ward = SigningKey("ward", bytes(32))
    >>> ward.sign_key(query_key, "ab" * 32, amount=100, until=4_000_000_000).check(query_key, "ab" * 32)
    """

    domain = b"onefold query key 1\n"

    federation: Digest
    encrypted: Digest
    name: QuerierName
    purpose: Line
    amount: Whole
    until: Whole
    public: PublicKey
    signed: Signed

    def check(
        self, query_key: QueryKey | None, federation: str, clock: Callable[[], float] = time.time
    ) -> None:
        """Check that this is a statement about a query key, signed by the key in it and not over.

        Parameters
        ----------
        query_key : QueryKey or None
            The query key that came with it.
        federation : str
            Id of the site's own federation.
        clock : callable, default=time.time
            Returns seconds since 1970.

        Raises
        ------
        QueryRefused
            With the code ``bad-signature`` if anything differs, ``stale`` if it has ended.
        """
        stated, asked = (self.federation, self.encrypted), (federation, key_digest(query_key))
        if query_key is None or stated != asked or not self.is_genuine:
            raise QueryRefused(FailureCode.BAD_SIGNATURE)
        if clock() > self.until:
            raise QueryRefused(FailureCode.STALE)

    @property
    def mark(self) -> str:
        """What its rows are counted under: another amount or end is another statement."""
        return digest_of(self.statement)[:ID_DIGITS]


@record
class SumSignature(_Statement, kind="sum signature"):
    """What a querier states about one step of an encrypted sum, with the signature of the statement.

    Parameters
    ----------
    federation : str
        Id of the federation whose sites are asked.
    query : str
        Id of the request.
    step : str
        What the site is asked for.
    contract : str
        Digest of the contract of the sum.
    content : str
        SHA-256 sum of the site's name, the step and the bytes of the request, see :func:`parcel_digest`.
    name, public : str
        Name and public key of the querier.
    purpose : str
        What the sum is for.
    time : int
        When it was signed, in seconds since 1970.
    signed : str
        The Ed25519 signature of :attr:`statement`, 128 hexadecimal digits.

    See Also
    --------
    onefold.federated.queriers.SigningKey.sign_step : Makes one.

    Examples
    --------
    >>> from onefold.federated.messages import SumParcel
    >>> from onefold.federated.queriers import SigningKey
    >>> parcel = SumParcel("q1", "north", "contribute", b"contract")
    >>> stated = SigningKey("ward", bytes(32)).sign_step(parcel, "ab" * 32, "cd" * 32, purpose="triage")
    >>> stated.check(parcel, "ab" * 32)
    >>> stated.check(SumParcel("q1", "south", "contribute", b"contract"), "ab" * 32)
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: bad-signature
    """

    domain = b"onefold sum step 1\n"

    federation: Digest
    query: Name
    step: Line
    contract: Digest
    content: Digest
    name: QuerierName
    purpose: Line
    time: Whole
    public: PublicKey
    signed: Signed

    def check(self, parcel: SumParcel, federation: str) -> None:
        """Check that this is a statement about a request, signed by the key in it.

        Whether the request holds the contract that is named is for whoever reads the contract.

        Parameters
        ----------
        parcel : SumParcel
            The request that came with it.
        federation : str
            Id of the site's own federation.

        Raises
        ------
        QueryRefused
            With the code ``bad-signature`` if anything differs.
        """
        stated = (self.federation, self.query, self.step, self.content)
        asked = (federation, parcel.query_id, parcel.step, parcel_digest(parcel))
        if stated != asked or not self.is_genuine:
            raise QueryRefused(FailureCode.BAD_SIGNATURE)


AnySignature = Signature | KeySignature  # of queries
SentSignature = AnySignature | SumSignature


def parcel_digest(parcel: SumParcel) -> str:
    """SHA-256 sum of the site, the step and the bytes of a step of an encrypted sum."""
    return digest_of(json.dumps([parcel.site, parcel.step, digest_of(parcel.content)]).encode())


def rows_digest(query: Query) -> str:
    """SHA-256 sum of kind, shape and content of the rows of a query, the same on every machine."""
    rows = np.ascontiguousarray(query.features)
    little = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
    head = json.dumps([rows.dtype.name, *rows.shape]).encode()
    return digest_of(head + b"\n" + little.tobytes())


def key_digest(query_key: QueryKey | None) -> str | None:
    """SHA-256 sum of a query key, its classes and its map to whole numbers; None without one."""
    return None if query_key is None else digest_of(query_key.to_bytes())
