"""A querier's own signing key: its file, where it is kept, and the statements that it signs.

What the signatures say, and how a site checks them, is in :mod:`onefold.federated.signatures`.
"""

from __future__ import annotations

import getpass
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from onefold._base.files import file_lock, make_folder, read_saved, write_whole
from onefold._base.optional import require
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.messages import Query, QueryKey, SumParcel
from onefold.federated.signatures import (
    SIGNATURE_BYTES,
    KeySignature,
    QuerierKey,
    Signature,
    SumSignature,
    check_querier_name,
    key_digest,
    parcel_digest,
    rows_digest,
)
from onefold.federated.signing import ED25519, SERIALIZATION, public_of, sign

__all__ = [
    "KEY_SUFFIX",
    "PUBLIC_SUFFIX",
    "KeySignature",
    "QuerierKey",
    "Signature",
    "SigningKey",
    "SumSignature",
    "default_querier_folder",
    "find_signing_key",
    "user_name",
]

KEY_SUFFIX, PUBLIC_SUFFIX = ".signkey", ".pub"
Signed = TypeVar("Signed", Signature, KeySignature, SumSignature)


class SigningKey:
    """The private signing key of a querier, in a file that only the querier's account can read.

    Parameters
    ----------
    name : str
        What the querier calls itself.
    private : bytes
        The 32 bytes of the Ed25519 key.

    Attributes
    ----------
    key : QuerierKey
        The public half.

    See Also
    --------
    Signature : What it makes.

    Examples
    --------
    >>> key = SigningKey("ward", bytes(32))
    >>> key.key.public[:16]
    '3b6a27bcceb6a42d'
    """

    def __init__(self, name: str, private: bytes) -> None:
        self._private = private
        self.key = QuerierKey(name, public_of(private))

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
        private = require(ED25519, "federated").Ed25519PrivateKey.generate()
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        try:
            make_folder(path.parent)
            with file_lock(path):
                if path.exists():
                    raise InvalidInputError(f"{path}: there is a key already; queries are signed with it")
                # The public half first: a key that can sign can also be handed over.
                public = private.public_key().public_bytes(
                    serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
                )
                line = public + b" " + name.encode("ascii") + b"\n"
                write_whole(path.with_suffix(PUBLIC_SUFFIX), line, public=True)
                content = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
                write_whole(path, content)
        except OSError as error:
            raise InvalidInputError(f"{path}: {error.strerror or 'cannot be written'}") from None
        return cls(name, private.private_bytes_raw())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Read the private key file of a querier.

        Parameters
        ----------
        path : str or path-like
            File that :meth:`create` wrote; its name without the ending is the name of the querier.

        Returns
        -------
        SigningKey
            The key.

        Raises
        ------
        InvalidInputError
            If there is no such key, or others can read it.
        """
        missing = "there is no signing key (onefold federate querier new makes one)"
        return cls(Path(path).stem, read_saved(path, missing, _read_private, secret=True))

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

    def _signed(self, kind: type[Signed], **stated: Any) -> Signed:
        stated |= {"name": self.key.name, "public": self.key.public}
        unsigned = kind(**stated, signed="00" * SIGNATURE_BYTES)
        return replace(unsigned, signed=sign(self._private, unsigned.statement))

    def __repr__(self) -> str:
        return f"SigningKey({self.key.name!r}, id={self.key.id})"


def _read_private(content: bytes) -> bytes:
    """The 32 bytes of a key in a file."""
    unsupported = require("cryptography.exceptions", "federated").UnsupportedAlgorithm
    try:
        key = require(SERIALIZATION, "federated").load_pem_private_key(content, password=None)
    except (ValueError, TypeError, unsupported):
        key = None
    if not isinstance(key, require(ED25519, "federated").Ed25519PrivateKey):
        raise FileFormatError("no signing key of a querier")
    return bytes(key.private_bytes_raw())


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
