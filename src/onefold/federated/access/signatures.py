"""What a querier signs and a site checks: who asks, for which rows, for what, in which federation, when.

A site recognises its server by a certificate, and the server could otherwise say that anybody asks for
anything. With a :class:`Signature` the querier states, under a key that the server does not have, what the
site is asked. A server that changes any of it, or invents a querier, has no signature for it; one that sends
the same query again is found by the id of the query (:class:`~onefold.federated.access.guard.Replays`).

A signature says who asked. It does not make an answer private, and it does not hide the rows. Keys are
Ed25519, of ``cryptography`` in the extra ``federated``: 32 bytes, public keys and signatures hexadecimal
digits. A querier's own key is a file that only its account can read.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from pydantic import AfterValidator, Field

from onefold._base.files import file_lock, make_folder, write_whole
from onefold._base.optional import require
from onefold._base.records import Content, Record, record
from onefold.exceptions import InvalidInputError, MessageError, QueryRefused
from onefold.federated.messages import (
    Digest,
    FailureCode,
    Message,
    Name,
    Query,
    QueryKey,
    SumParcel,
    check_name,
    digest_of,
    is_text,
)
from onefold.privacy.terms import Value

__all__ = [
    "KEY_SUFFIX",
    "PUBLIC_SUFFIX",
    "AnySignature",
    "KeySignature",
    "QuerierKey",
    "SentSignature",
    "Signature",
    "SigningKey",
    "SumSignature",
    "canonical",
    "default_querier_folder",
    "find_signing_key",
    "key_digest",
    "parcel_digest",
    "public_of",
    "rows_digest",
    "sign",
    "user_name",
    "verify",
]

ED25519 = "cryptography.hazmat.primitives.asymmetric.ed25519"
SERIALIZATION = "cryptography.hazmat.primitives.serialization"
KEY_SUFFIX, PUBLIC_SUFFIX = ".signkey", ".pub"
KEY_BYTES, SIGNATURE_BYTES, ID_DIGITS = 32, 64, 32
LONGEST_PURPOSE = 200
LARGEST = 2**53


def check_querier_name(name: str) -> str:
    """Return the name of a querier; one that has other letters than a name may have is refused."""
    return check_name("a querier's name", name)


def _printable(value: str) -> str:
    if not is_text(value, LONGEST_PURPOSE):
        raise MessageError(f"must be one printable line of at most {LONGEST_PURPOSE} letters")
    return value


def _whole_key(content: bytes) -> bytes:
    if len(content) != KEY_BYTES:
        raise InvalidInputError("a secret key must be 32 bytes")
    return content


QuerierName = Annotated[str, AfterValidator(check_querier_name)]
PublicKey = Digest  # the 32 bytes of a key have as many digits
Signed = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{2 * SIGNATURE_BYTES}}}$")]
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Line = Annotated[str, AfterValidator(_printable)]
SecretBytes = Annotated[Content, AfterValidator(_whole_key)]


# --- Ed25519 ----------------------------------------------------------------------------------------------


def canonical(plain: Mapping[str, Any]) -> bytes:
    """Return JSON values as bytes, always the same for the same values."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def public_of(secret: bytes) -> str:
    """Return the public key of a secret one, 64 hexadecimal digits."""
    return str(_private(secret).public_key().public_bytes_raw().hex())


def sign(secret: bytes, content: bytes) -> str:
    """Sign bytes; the same bytes always get the same signature, 128 hexadecimal digits."""
    return str(_private(secret).sign(content).hex())


def verify(public: str, signature: Any, content: bytes) -> bool:
    """Whether a signature of these bytes was made with the secret part of a public key."""
    invalid = require("cryptography.exceptions", "federated").InvalidSignature
    try:
        key = require(ED25519, "federated").Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), content)
    except (invalid, ValueError, TypeError):
        return False
    return True


def _private(secret: bytes) -> Any:
    return require(ED25519, "federated").Ed25519PrivateKey.from_private_bytes(secret)


# --- who signs --------------------------------------------------------------------------------------------


@record
class QuerierKey(Value):
    """The public half of a querier's signing key, with the name that the querier gave it.

    Parameters
    ----------
    name : str
        What the querier calls itself; only the key is checked.
    public : str
        The Ed25519 public key, 64 hexadecimal digits.

    See Also
    --------
    SigningKey : The private half.

    Examples
    --------
    >>> QuerierKey("ward", "00" * 32).id
    '66687aadf862bd776c8fc18b8e9f8e20'
    """

    name: QuerierName
    public: PublicKey

    @property
    def id(self) -> str:
        """The first 32 digits of the SHA-256 sum of the key: what people compare."""
        return digest_of(bytes.fromhex(self.public))[:ID_DIGITS]

    @property
    def plain(self) -> dict[str, str]:
        """Name, id and public key as a list or a log shows them."""
        return {"querier": self.name, "id": self.id, "public": self.public}

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


@record
class _Statement(Message):
    """What a querier states, with the signature of every other field."""

    # What is signed begins with this, so that a signature made for anything else is none of this kind.
    domain: ClassVar[bytes]

    federation: Digest
    name: QuerierName
    purpose: Line
    public: PublicKey
    signed: Signed

    @property
    def key(self) -> QuerierKey:
        """Name and public key of the querier."""
        return QuerierKey(self.name, self.public)

    @property
    def plain(self) -> dict[str, Any]:
        """All fields as plain values, for a log."""
        return asdict(self)

    @property
    def statement(self) -> bytes:
        """The bytes that are signed: every field but the signature, in one order."""
        plain = {name: value for name, value in self.plain.items() if name != "signed"}
        return self.domain + canonical(plain)

    @property
    def is_genuine(self) -> bool:
        """Whether the key has signed the statement; says nothing about any query."""
        return verify(self.public, self.signed, self.statement)

    def _require(self, is_asked: bool) -> None:
        """Refuse a statement about something else, or one that the key has not signed."""
        if not is_asked or not self.is_genuine:
            raise QueryRefused(FailureCode.BAD_SIGNATURE)


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
    SigningKey.sign : Makes one.

    Notes
    -----
    Nothing is promised about a signature before :meth:`check` has returned.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated.messages import Query
    >>> from onefold.federated.access.signatures import SigningKey
    >>> query = Query("q1", np.zeros((2, 3)))
    >>> signature = SigningKey("ward", bytes(32)).sign(query, "ab" * 32, purpose="triage")
    >>> signature.check(query, "ab" * 32)
    >>> signature.check(query, "cd" * 32)
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: bad-signature
    """

    domain = b"onefold query 1\n"

    query: Name
    rows: Whole
    content: Digest
    encrypted: Digest | None
    rule: Line
    amount: Whole
    time: Whole

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
        self._require(stated == asked and self.amount >= self.rows)


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
    SigningKey.sign_key : Makes one.

    Examples
    --------
    >>> from onefold.federated.messages import QueryKey
    >>> from onefold.federated.access.signatures import SigningKey
    >>> query_key = QueryKey("12" * 32, ("a", "b"), 8, 1.0, 1.0, 0.0, b"key")
    >>> ward = SigningKey("ward", bytes(32))
    >>> ward.sign_key(query_key, "ab" * 32, amount=100, until=4_000_000_000).check(query_key, "ab" * 32)
    """

    domain = b"onefold query key 1\n"

    encrypted: Digest
    amount: Whole
    until: Whole

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
        self._require((self.federation, self.encrypted) == (federation, key_digest(query_key)))
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
    SigningKey.sign_step : Makes one.

    Examples
    --------
    >>> from onefold.federated.messages import SumParcel
    >>> from onefold.federated.access.signatures import SigningKey
    >>> parcel = SumParcel("q1", "north", "contribute", b"contract")
    >>> stated = SigningKey("ward", bytes(32)).sign_step(parcel, "ab" * 32, "cd" * 32, purpose="triage")
    >>> stated.check(parcel, "ab" * 32)
    >>> stated.check(SumParcel("q1", "south", "contribute", b"contract"), "ab" * 32)
    Traceback (most recent call last):
    onefold.exceptions.QueryRefused: the query is refused: bad-signature
    """

    domain = b"onefold sum step 1\n"

    query: Name
    step: Line
    contract: Digest
    content: Digest
    time: Whole

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
        self._require(stated == asked)


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


# --- the key that signs -----------------------------------------------------------------------------------


Statement = TypeVar("Statement", Signature, KeySignature, SumSignature)


@record
class SigningKey(Record, kind="signing key"):
    """The private signing key of a querier, in a file that only the querier's account can read.

    Parameters
    ----------
    name : str
        What the querier calls itself.
    private : bytes
        The 32 bytes of the Ed25519 key.

    See Also
    --------
    Signature : What it makes.

    Examples
    --------
    >>> key = SigningKey("ward", bytes(32))
    >>> key.key.public[:16]
    '3b6a27bcceb6a42d'
    """

    owner_only = True

    name: QuerierName
    private: SecretBytes = field(repr=False)

    @property
    def key(self) -> QuerierKey:
        """The public half, with the name."""
        return QuerierKey(self.name, public_of(self.private))

    @classmethod
    def create(cls, name: str, folder: str | os.PathLike[str]) -> SigningKey:
        """Make a key pair: ``NAME.signkey``, for the user's account only, and ``NAME.pub`` for the sites.

        Parameters
        ----------
        name : str
            What the querier calls itself.
        folder : str or path-like
            Folder of the files; made if it is not there.

        Returns
        -------
        SigningKey
            The key, which is on disk.

        Raises
        ------
        InvalidInputError
            If there is a key of that name already, or the folder cannot be written.
        """
        path = Path(folder) / f"{check_querier_name(name)}{KEY_SUFFIX}"
        serialization = require(SERIALIZATION, "federated")
        made = cls(name, os.urandom(KEY_BYTES))
        try:
            make_folder(path.parent)
            with file_lock(path):
                if path.exists():
                    raise InvalidInputError(f"{path}: there is a key already; queries are signed with it")
                # The public half first: a key that can sign can also be handed over.
                public = (
                    _private(made.private)
                    .public_key()
                    .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
                )
                line = public + b" " + name.encode("ascii") + b"\n"
                write_whole(path.with_suffix(PUBLIC_SUFFIX), line, public=True)
                made.save(path)
        except OSError as error:
            raise InvalidInputError(f"{path}: {error.strerror or 'cannot be written'}") from None
        return made

    def sign(
        self,
        query: Query,
        federation: str,
        *,
        purpose: str = "",
        amount: int | None = None,
        rule: str = "",
        query_key: QueryKey | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Signature:
        """State what a site is asked, and sign it.

        Parameters
        ----------
        query : Query
            The rows, and the id that no other query has.
        federation : str
            Id of the federation, 64 hexadecimal digits.
        purpose : str, default=""
            What the answers are for, in one line.
        amount : int or None, default=None
            Rows of all messages of this question together; None for those of this query.
        rule : str, default=""
            How the server is asked to combine answers; sites note it and cannot check it.
        query_key : QueryKey or None, default=None
            Key under which the answers are to be encrypted; None asks for answers in clear.
        clock : callable, default=time.time
            Returns seconds since 1970.

        Returns
        -------
        Signature
            The statement and its signature.
        """
        rows = len(query.features)
        return self._signed(
            Signature,
            federation=federation,
            query=query.id,
            rows=rows,
            content=rows_digest(query),
            encrypted=key_digest(query_key),
            rule=rule,
            purpose=purpose,
            amount=rows if amount is None else amount,
            time=int(clock()),
        )

    def sign_key(
        self, query_key: QueryKey, federation: str, *, amount: int, until: int, purpose: str = ""
    ) -> KeySignature:
        """State that answers under a query key are for this querier, and sign it.

        Parameters
        ----------
        query_key : QueryKey
            The public part of the querier's key.
        federation : str
            Id of the federation, 64 hexadecimal digits.
        amount : int
            Rows that each site may answer under it.
        until : int
            When it ends, in seconds since 1970.
        purpose : str, default=""
            What the answers are for, in one line.

        Returns
        -------
        KeySignature
            The statement and its signature.
        """
        return self._signed(
            KeySignature,
            federation=federation,
            encrypted=key_digest(query_key),
            purpose=purpose,
            amount=amount,
            until=until,
        )

    def sign_step(
        self,
        parcel: SumParcel,
        federation: str,
        contract: str,
        *,
        purpose: str = "",
        clock: Callable[[], float] = time.time,
    ) -> SumSignature:
        """State which step of which encrypted sum a site is asked for, and sign it.

        Parameters
        ----------
        parcel : SumParcel
            The request.
        federation : str
            Id of the federation, 64 hexadecimal digits.
        contract : str
            Digest of the contract of the sum (``SumContract.digest``).
        purpose : str, default=""
            What the sum is for, in one line.
        clock : callable, default=time.time
            Returns seconds since 1970.

        Returns
        -------
        SumSignature
            The statement and its signature.
        """
        return self._signed(
            SumSignature,
            federation=federation,
            query=parcel.query_id,
            step=parcel.step,
            contract=contract,
            content=parcel_digest(parcel),
            purpose=purpose,
            time=int(clock()),
        )

    def _signed(self, kind: type[Statement], **stated: Any) -> Statement:
        stated |= {"name": self.name, "public": public_of(self.private)}
        unsigned = kind(**stated, signed="00" * SIGNATURE_BYTES)
        return replace(unsigned, signed=sign(self.private, unsigned.statement))


def default_querier_folder() -> Path:
    """Where signing keys are kept unless told otherwise: among the user's own data, never at a server.

    Returns
    -------
    Path
        The folder, which need not exist.
    """
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "onefold" / "queriers"


def user_name() -> str:
    """Return the name of the user's account, as a querier's name may be.

    Returns
    -------
    str
        The name; letters that a name may not have are dashes.
    """
    return re.sub(r"[^A-Za-z0-9._-]", "-", getpass.getuser())


def find_signing_key(name: str, folder: str | os.PathLike[str] | None = None) -> SigningKey | None:
    """Return the signing key of a querier, by its name or by its file; None if there is none of that name.

    Parameters
    ----------
    name : str
        Name of the querier, or a path that ends in ``.signkey``.
    folder : str, path-like or None, default=None
        Where keys are; None takes the user's own folder.

    Returns
    -------
    SigningKey or None
        The key.
    """
    if name.endswith(KEY_SUFFIX):
        return SigningKey.load(name)
    place = default_querier_folder() if folder is None else Path(folder)
    path = place / f"{check_querier_name(name)}{KEY_SUFFIX}"
    return SigningKey.load(path) if path.exists() else None
