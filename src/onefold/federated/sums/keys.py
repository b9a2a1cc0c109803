"""Keys of those who hold shares of a sum: agreement on secrets by X25519, signatures by Ed25519.

Every message to a holder is encrypted under a key of its own: the sender's key pair is new for each message,
and what both sides agree on goes through HKDF with the names of contract, sender and holder. So AES-256-GCM
may start counting at zero each time.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onefold._base.files import read_saved, write_whole
from onefold._base.optional import require
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.messages import check_digest, check_name
from onefold.federated.signing import public_of, sign
from onefold.federated.sums.bfv import BfvKey, check_public

__all__ = [
    "SCHEMES",
    "TAG_BYTES",
    "Encryptor",
    "HolderGroup",
    "HolderKey",
    "PublicHolder",
    "canonical",
    "check_distinct",
    "check_scheme",
    "check_threshold",
    "decrypt",
    "most_colluding",
]

KIND, PUBLIC, GROUP = "onefold holder key", "onefold public key", "onefold key holders"
X25519 = "cryptography.hazmat.primitives.asymmetric.x25519"
SHAMIR, BFV = SCHEMES = ("shamir", "bfv")  # keys that several share, or one key
KEY_BYTES = 32
TAG_BYTES = 16  # by which what AES-GCM encrypts is longer
FRESH = bytes(12)  # counter of AES-GCM: every key encrypts once


def canonical(plain: Mapping[str, Any]) -> bytes:
    """Return JSON values as bytes, always the same for the same values."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True)
class PublicHolder:
    """The public part of a holder's key.

    Parameters
    ----------
    name : str
        Name of the holder.
    agreement : str
        Public key of X25519, 64 hexadecimal digits.
    signing : str
        Public key of Ed25519, 64 hexadecimal digits.
    bfv : str, default=""
        Public key of BFV, of a holder that opens sums under one key: 0.5 MB.

    See Also
    --------
    HolderKey : The secret part.

    Examples
    --------
    >>> PublicHolder("north", "0" * 64, "1" * 64).name
    'north'
    """

    name: str
    agreement: str
    signing: str
    bfv: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_name("the name of a holder", self.name)
        check_digest(self.agreement)
        check_digest(self.signing)
        if self.bfv != "":
            check_public(self.bfv)

    @property
    def digest(self) -> str:
        """SHA-256 sum of the keys, whatever they are called."""
        return hashlib.sha256((self.agreement + self.signing + self.bfv).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """The first 32 digits of the digest: what people compare."""
        return self.digest[:32]

    def to_dict(self) -> dict[str, str]:
        """Return the key as JSON values; what it has not is left out.

        Returns
        -------
        dict of str to str
            The parameters.
        """
        plain = {"name": self.name, "agreement": self.agreement, "signing": self.signing}
        return {**plain, "bfv": self.bfv} if self.bfv else plain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the public key to a file, which may be given to anybody.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        write_whole(path, canonical({"kind": PUBLIC, **self.to_dict()}), public=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PublicHolder":
        """Read a public key.

        Parameters
        ----------
        path : str or os.PathLike
            A file written by :meth:`save`.

        Returns
        -------
        PublicHolder
            The key.
        """
        return read_saved(path, "there is no public key", _read_public)


def _read_public(content: bytes) -> PublicHolder:
    try:
        plain = json.loads(content)
        if plain.pop("kind") != PUBLIC:
            raise ValueError
        return PublicHolder(**plain)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FileFormatError("damaged, or not a public key") from None


ONE_KEY = (
    "One holder has the only key: if it is missing, no sum is opened.",
    "The server adds up what sites send, and the holder reads the total. A server that breaks the protocol "
    "gets no more than that opened: numbers are under pads that only the holder can take off.",
    "Holder and server together read every site's numbers, and so does a holder that sees what sites send: "
    "give it the total alone.",
)


def most_colluding(n_holders: int, threshold: int) -> int:
    """Return how many holders may collude with a server so that still only one list of sites is opened."""
    return max(0, 2 * threshold - n_holders - 1)


def check_threshold(n_holders: int, threshold: int, colluding: int) -> None:
    """Refuse a threshold above the number of holders, or one with which two lists could be opened."""
    if threshold > n_holders:
        raise InvalidInputError(f"threshold is {threshold}, but there are only {n_holders} holders")
    if 2 * threshold <= n_holders + colluding:
        least = (n_holders + colluding) // 2 + 1
        whether = f"use at least {least}" if least <= n_holders else "no threshold is high enough"
        raise InvalidInputError(
            f"threshold {threshold} of {n_holders} holders is too low if {colluding} collude: two different "
            f"lists of sites could be opened; {whether}"
        )


def check_distinct(keys: Iterable[PublicHolder]) -> None:
    """Refuse a name with two keys and a key under two names: one would pass for another."""
    names: dict[str, PublicHolder] = {}
    for key in keys:
        if names.setdefault(key.name.lower(), key) != key:
            raise InvalidInputError(f"there are two keys under the name {key.name}: everyone has one")
    parts = [part for key in names.values() for part in (key.agreement, key.signing, key.bfv) if part]
    if len(set(parts)) < len(parts):
        raise InvalidInputError("there are two names with the same key: everyone makes one of its own")


def check_scheme(scheme: str, holders: Sequence[PublicHolder], threshold: int) -> None:
    """Refuse an unknown scheme, and for one key several holders, or one that has not got it."""
    if scheme not in SCHEMES:
        raise InvalidInputError(f"scheme must be one of {', '.join(SCHEMES)}")
    if scheme == BFV and (len(holders) != 1 or threshold != 1):
        raise InvalidInputError("with the scheme bfv there is one key: one holder, threshold 1")
    if scheme == BFV and not holders[0].bfv:
        raise InvalidInputError(
            f"holder {holders[0].name} has no key of BFV: onefold federate keys new --scheme bfv makes one"
        )


@dataclass(frozen=True)
class HolderGroup:
    """Public keys of those who open sums together, and how many of them it takes.

    Parameters
    ----------
    holders : tuple of PublicHolder
        The holders.
    threshold : int
        Number of holders whose answers open a sum.
    colluding : int or None, default=None
        Number of holders that may collude with the server; None takes the largest number that the threshold
        allows.
    scheme : {"shamir", "bfv"}, default="shamir"
        Whether the holders share every number, or one holder has the only key of BFV.

    See Also
    --------
    SumParties : The group, and the sites.

    Examples
    --------
    >>> holders = tuple(PublicHolder(name, name * 64, name * 63 + "0") for name in "abcde")
    >>> print(HolderGroup(holders, 4).in_words[0])
    4 of 5 holders open a sum together: 1 may be missing.
    """

    holders: tuple[PublicHolder, ...]
    threshold: int
    colluding: int | None = None
    scheme: str = SHAMIR

    def __post_init__(self) -> None:
        object.__setattr__(self, "holders", tuple(self.holders))
        n, known = len(self.holders), self.colluding is not None
        for number in (self.threshold, self.colluding) if known else (self.threshold,):
            if type(number) is not int or not 0 <= number <= n:
                raise InvalidInputError("threshold and colluding must be whole numbers, at most the holders'")
        if len({holder.name for holder in self.holders}) < n:
            raise InvalidInputError("two holders have the same name: name each once")
        check_distinct(self.holders)
        if self.colluding is None:
            object.__setattr__(self, "colluding", most_colluding(n, self.threshold))
        check_threshold(n, self.threshold, self.colluding or 0)
        check_scheme(self.scheme, self.holders, self.threshold)

    @property
    def in_words(self) -> tuple[str, ...]:
        """What the threshold stands, in sentences."""
        if self.scheme == BFV:
            return ONE_KEY
        n, t, c = len(self.holders), self.threshold, self.colluding or 0
        missing = "none may" if t == n else f"{n - t} may"
        few = "No holder" if c == 0 else f"At most {c} of them"
        found = [
            f"{t} of {n} holders open a sum together: {missing} be missing.",
            f"{few} may collude with a server that breaks the protocol: otherwise it could have two lists of "
            "sites opened, whose difference shows a site.",
        ]
        if t == 1:
            found.append("The holder reads every site's numbers.")
        else:
            few = "one of them alone learns" if t == 2 else f"{t - 1} of them together learn"
            enough = f"{t} together read every site's numbers"
            found.append(f"If the server follows the protocol, {few} nothing; {enough}.")
        if t < n:
            more = most_colluding(n, t + 1)
            left = f"{n - t - 1} be missing" if n - t - 1 else "none be missing"
            found.append(f"With {t + 1} of {n}, {more} could collude, and {left}.")
        return tuple(found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the group to a file, which holds nothing secret.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        plain = {
            "kind": GROUP,
            "holders": [holder.to_dict() for holder in self.holders],
            "threshold": self.threshold,
            "colluding": self.colluding,
        }
        if self.scheme != SHAMIR:
            plain["scheme"] = self.scheme
        write_whole(path, json.dumps(plain, indent=1).encode(), public=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HolderGroup":
        """Read a group.

        Parameters
        ----------
        path : str or os.PathLike
            A file written by :meth:`save`.

        Returns
        -------
        HolderGroup
            The group.
        """
        return read_saved(path, "there is no file of key holders", _read_group)


def _read_group(content: bytes) -> HolderGroup:
    try:
        plain = json.loads(content)
        if plain.pop("kind") != GROUP:
            raise ValueError
        return HolderGroup(**{**plain, "holders": tuple(PublicHolder(**each) for each in plain["holders"])})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FileFormatError("damaged, or not a file of key holders") from None


@dataclass(frozen=True)
class HolderKey:
    """A key to hold shares of sums with, and to sign with. Sites that sign have keys of the same kind.

    Parameters
    ----------
    name : str
        Name of the holder or of the site.
    agreement : bytes
        Secret key of X25519.
    signing : bytes
        Secret key of Ed25519.
    bfv : BfvKey or None, default=None
        Both keys of BFV, of a holder that opens sums under one key.

    See Also
    --------
    EncryptedSum : What the keys are for.

    Examples
    --------
    >>> key = HolderKey.new("north")  # doctest: +SKIP
    >>> key.save("north.holderkey")  # doctest: +SKIP
    """

    name: str
    agreement: bytes = field(repr=False)
    signing: bytes = field(repr=False)
    bfv: BfvKey | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_name("the name of a holder", self.name)
        for secret in (self.agreement, self.signing):
            if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
                raise InvalidInputError("a secret key must be 32 bytes: use HolderKey.new")

    @classmethod
    def new(cls, name: str, scheme: str = SHAMIR) -> "HolderKey":
        """Make a key from the entropy of the operating system.

        Parameters
        ----------
        name : str
            Name of the holder.
        scheme : {"shamir", "bfv"}, default="shamir"
            With "bfv", which needs the extra ``fhe``, it can also open sums under one key.

        Returns
        -------
        HolderKey
            The key.
        """
        if scheme not in SCHEMES:
            raise InvalidInputError(f"scheme must be one of {', '.join(SCHEMES)}")
        check_name("the name of a holder", name)
        one = BfvKey.new() if scheme == BFV else None
        return cls(name, os.urandom(KEY_BYTES), os.urandom(KEY_BYTES), one)

    @property
    def public(self) -> PublicHolder:
        """The part that others need."""
        agreement = require(X25519, "federated").X25519PrivateKey.from_private_bytes(self.agreement)
        return PublicHolder(
            self.name,
            agreement.public_key().public_bytes_raw().hex(),
            public_of(self.signing),
            "" if self.bfv is None else self.bfv.public,
        )

    def sign(self, content: bytes) -> str:
        """Sign bytes; the same bytes always get the same signature.

        Parameters
        ----------
        content : bytes
            What is signed.

        Returns
        -------
        str
            The signature, in hexadecimal digits.
        """
        return sign(self.signing, content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a file that only this account may read.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        secrets: dict[str, Any] = {"agreement": self.agreement.hex(), "signing": self.signing.hex()}
        if self.bfv is not None:
            secrets["bfv"] = {"secret": self.bfv.secret, "public": self.bfv.public}
        write_whole(path, canonical({"kind": KIND, "name": self.name, **secrets}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HolderKey":
        """Read a key; a file that another account may read is refused.

        Parameters
        ----------
        path : str or os.PathLike
            A file written by :meth:`save`.

        Returns
        -------
        HolderKey
            The key.
        """
        return read_saved(path, "there is no holder key", _read_key, secret=True)


def _read_key(content: bytes) -> HolderKey:
    try:
        plain = json.loads(content)
        if plain["kind"] != KIND:
            raise ValueError
        one = BfvKey(**plain["bfv"]) if "bfv" in plain else None
        agreement, signing = (bytes.fromhex(check_digest(plain[name])) for name in ("agreement", "signing"))
        return HolderKey(plain["name"], agreement, signing, one)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise FileFormatError("damaged, or not a holder key") from None


class Encryptor:
    """Encrypts one message to each of several holders, under a key pair that is then forgotten."""

    def __init__(self) -> None:
        self._secret = require(X25519, "federated").X25519PrivateKey.from_private_bytes(os.urandom(KEY_BYTES))

    @property
    def public(self) -> str:
        """What holders need to decrypt, in hexadecimal digits."""
        return str(self._secret.public_key().public_bytes_raw().hex())

    def encrypt(self, content: bytes, holder: PublicHolder, about: bytes) -> bytes:
        """Encrypt bytes to a holder; only once for the same ``about``, which is authenticated with them."""
        module = require(X25519, "federated")
        try:
            other = module.X25519PublicKey.from_public_bytes(bytes.fromhex(holder.agreement))
            key = _agreed(self._secret, other, self.public, holder.agreement, about)
        except ValueError:  # a point of small order: anybody could agree with it
            raise InvalidInputError(f"the key of holder {holder.name} is no key: ask for another") from None
        return bytes(_aes(key).encrypt(FRESH, content, about))


def decrypt(content: bytes, sender: str, own: HolderKey, about: bytes) -> bytes:
    """Decrypt what was encrypted to a holder; anything else is refused."""
    module = require(X25519, "federated")
    invalid = require("cryptography.exceptions", "federated").InvalidTag
    try:
        secret = module.X25519PrivateKey.from_private_bytes(own.agreement)
        other = module.X25519PublicKey.from_public_bytes(bytes.fromhex(sender))
        agreement = secret.public_key().public_bytes_raw().hex()
        key = _agreed(secret, other, sender, agreement, about)
        return bytes(_aes(key).decrypt(FRESH, content, about))
    except (invalid, ValueError, TypeError):
        raise MessageError("the bytes were changed, or are not for this holder and this sum") from None


def _agreed(secret: Any, public: Any, sender: str, holder: str, about: bytes) -> bytes:
    kdf = require("cryptography.hazmat.primitives.kdf.hkdf", "federated")
    hashes = require("cryptography.hazmat.primitives.hashes", "federated")
    info = canonical({"sender": sender, "holder": holder, "about": about.hex()})
    derive = kdf.HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info)
    return bytes(derive.derive(secret.exchange(public)))


def _aes(key: bytes) -> Any:
    return require("cryptography.hazmat.primitives.ciphers.aead", "federated").AESGCM(key)
