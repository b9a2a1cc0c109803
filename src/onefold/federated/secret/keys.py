"""Keys of those who hold shares of a sum: agreement on secrets by X25519, signatures by Ed25519.

Every share is encrypted to its holder by HPKE (RFC 9180), bound to the names of contract, site and holder: a
part that was meant for another holder, site or sum cannot be decrypted.
"""

import os
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.files import file_lock, write_whole
from onefold._base.optional import require
from onefold._base.records import Record, record
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.access.signatures import KEY_BYTES, SecretBytes, public_of, sign
from onefold.federated.messages import Digest, Name, check_digest, digest_of

if TYPE_CHECKING:
    from onefold.federated.secret.contract import SumContract

__all__ = [
    "MORE_BYTES",
    "HolderKey",
    "KnownKeys",
    "PublicHolder",
    "check_distinct",
    "decrypt",
    "encrypt",
]

X25519 = "cryptography.hazmat.primitives.asymmetric.x25519"
MORE_BYTES = 48  # by which what HPKE encrypts is longer: a key of 32 bytes and a tag
KNOWN_KEYS = "known_keys"  # file of those that a site or holder has met
OWN, KNOWN, NEW = "own", "known", "new"


@record
class PublicHolder(Record, kind="public key of a holder"):
    """The public part of a holder's key.

    Parameters
    ----------
    name : str
        Name of the holder.
    agreement : str
        Public key of X25519, 64 hexadecimal digits.
    signing : str
        Public key of Ed25519, 64 hexadecimal digits.

    See Also
    --------
    HolderKey : The secret part.

    Examples
    --------
    >>> PublicHolder("north", "0" * 64, "1" * 64).name
    'north'
    """

    name: Name
    agreement: Digest  # 32 bytes in hexadecimal digits, as a digest
    signing: Digest

    @property
    def digest(self) -> str:
        """SHA-256 sum of the keys, whatever they are called."""
        return digest_of((self.agreement + self.signing).encode())

    @property
    def fingerprint(self) -> str:
        """The first 32 digits of the digest: what people compare."""
        return self.digest[:32]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicHolder) and (self.name, self.digest) == (other.name, other.digest)

    def __hash__(self) -> int:
        return hash((self.name, self.digest))


def check_distinct(keys: Iterable[PublicHolder]) -> None:
    """Refuse a name with two keys and a key under two names: one would pass for another."""
    names: dict[str, PublicHolder] = {}
    for key in keys:
        if names.setdefault(key.name.lower(), key) != key:
            raise InvalidInputError(f"there are two keys under the name {key.name}: everyone has one")
    parts = [part for key in names.values() for part in (key.agreement, key.signing)]
    if len(set(parts)) < len(parts):
        raise InvalidInputError("there are two names with the same key: everyone makes one of its own")


@record
class HolderKey(Record, kind="holder key"):
    """A key to hold shares of sums with, and to sign with. Sites that sign have keys of the same kind.

    Parameters
    ----------
    name : str
        Name of the holder or of the site.
    agreement : bytes
        Secret key of X25519.
    signing : bytes
        Secret key of Ed25519.

    See Also
    --------
    EncryptedSum : What the keys are for.

    Examples
    --------
    >>> key = HolderKey.new("north")  # doctest: +SKIP
    >>> key.save("north.holderkey")  # doctest: +SKIP
    """

    owner_only = True

    name: Name
    agreement: SecretBytes = field(repr=False)
    signing: SecretBytes = field(repr=False)

    @classmethod
    def new(cls, name: str) -> "HolderKey":
        """Make a key from the entropy of the operating system.

        Parameters
        ----------
        name : str
            Name of the holder.

        Returns
        -------
        HolderKey
            The key.
        """
        return cls(name, os.urandom(KEY_BYTES), os.urandom(KEY_BYTES))

    @property
    def public(self) -> PublicHolder:
        """The part that others need."""
        agreement = require(X25519, "federated").X25519PrivateKey.from_private_bytes(self.agreement)
        own = agreement.public_key().public_bytes_raw().hex()
        return PublicHolder(self.name, own, public_of(self.signing))

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


def encrypt(content: bytes, holder: PublicHolder, about: bytes) -> bytes:
    """Encrypt bytes to a holder by HPKE (RFC 9180), bound to what they are about."""
    module = require(X25519, "federated")
    try:
        other = module.X25519PublicKey.from_public_bytes(bytes.fromhex(holder.agreement))
        return bytes(_suite().encrypt(content, other, info=about))
    except ValueError:  # a point of small order: anybody could agree with it
        raise InvalidInputError(f"the key of holder {holder.name} is no key: ask for another") from None


def decrypt(content: bytes, own: HolderKey, about: bytes) -> bytes:
    """Decrypt what was encrypted to a holder; anything else is refused."""
    invalid = require("cryptography.exceptions", "federated").InvalidTag
    try:
        secret = require(X25519, "federated").X25519PrivateKey.from_private_bytes(own.agreement)
        return bytes(_suite().decrypt(content, secret, info=about))
    except (invalid, ValueError, TypeError):
        raise MessageError("the bytes were changed, or are not for this holder and this sum") from None


def _suite() -> Any:
    hpke = require("cryptography.hazmat.primitives.hpke", "federated")
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


# --- keys that were met -------------------------------------------------------------------------------------


class KnownKeys:
    """The keys under which a site or holder takes part in encrypted sums: its own, and those met before.

    Who can read a site's numbers follows from the keys in the contract. So a contract with another key under
    one's own name is refused, and so is one with another key of a known holder or site.

    Parameters
    ----------
    folder : str or os.PathLike
        Folder of the site or holder, which keeps the keys in a file.
    name : str
        Name of the site or holder.
    key : HolderKey or None, default=None
        Its own key; None if it has none, and then no contract may have a key under its name.

    Attributes
    ----------
    path : Path
        The file: one name per line, with the SHA-256 sum of its key.

    See Also
    --------
    SumContract : Names the keys.

    Examples
    --------
    >>> known = KnownKeys("north", "north", HolderKey.load("north.key"))  # doctest: +SKIP
    >>> known.keep(summed.total.contract)  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike[str], name: str, key: HolderKey | None = None) -> None:
        self.path, self._name, self._key = Path(folder) / KNOWN_KEYS, name, key

    def check(self, contract: "SumContract") -> None:
        """Refuse a contract with a foreign key under one's own name, or with another key of a known name.

        Parameters
        ----------
        contract : SumContract
            The contract.
        """
        self._check(contract, self._read())

    def keep(self, contract: "SumContract") -> None:
        """Do as :meth:`check`, and keep the keys that were not known.

        Parameters
        ----------
        contract : SumContract
            The contract, which this site or holder is about to take part in.
        """
        with file_lock(self.path):
            digests = self._read()
            self._check(contract, digests)
            new = {name: key.digest for name, key in contract.keys.items()} | digests
            if new != digests:
                lines = (f"{name} {digest}\n" for name, digest in sorted(new.items()))
                write_whole(self.path, "".join(lines).encode())

    def states(self, contract: "SumContract") -> dict[str, str]:
        """Return what is known of each key of a contract that was checked.

        Parameters
        ----------
        contract : SumContract
            The contract.

        Returns
        -------
        dict of str to str
            By name "own", "known" or "new".
        """
        digests = self._read()
        return {
            name: OWN if name == self._name else KNOWN if name in digests else NEW for name in contract.keys
        }

    def _check(self, contract: "SumContract", digests: dict[str, str]) -> None:
        # Names that differ in capitals only are one name, as in a contract.
        listed = {name.lower(): key for name, key in contract.keys.items()}.get(self._name.lower())
        if listed is not None and self._key is None:
            raise InvalidInputError(
                f"the contract has a key of {self._name} (fingerprint {listed.fingerprint}), and no key was "
                "given to compare it with: give the key of this site, or take no part"
            )
        if listed is not None and self._key is not None and listed != self._key.public:
            raise InvalidInputError(
                f"the contract has another key of {self._name} (fingerprint {listed.fingerprint}) than its "
                f"own ({self._key.public.fingerprint}): give the right key, or take no part: another reads"
            )
        known = {name.lower(): digest for name, digest in digests.items()}
        for name, key in contract.keys.items():
            earlier = known.get(name.lower(), key.digest)
            if earlier != key.digest:
                raise InvalidInputError(
                    f"the contract has another key of {name} (fingerprint {key.fingerprint}) than the known "
                    f"one ({earlier[:32]}): ask {name}; if it has a new key, delete its line in "
                    f"{self.path}"
                )

    def _read(self) -> dict[str, str]:
        if not self.path.is_file():
            return {}
        try:
            lines = self.path.read_text(encoding="ascii").splitlines()
            return {name: check_digest(digest) for name, digest in (line.split(" ") for line in lines)}
        except ValueError:
            raise FileFormatError(f"{self.path}: damaged: take no part before it is restored") from None
