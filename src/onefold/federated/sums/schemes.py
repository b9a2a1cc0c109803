"""The two ways to sum in secret: shares of several key holders, and one key of BFV.

All else of a round is the same for both: contract, noise, signatures, lists, answers, files. A scheme says
what a site makes of its vector, what the server gives to each holder, and what a holder makes of that.

*Shares* (``shamir``): a site splits its vector into one share per holder, and the server gives every holder
its shares. A holder adds them up.

*One key* (``bfv``): a site hides its vector under a pad, uniform random numbers modulo 2**59, encrypts it
under the holder's key of BFV, and sends the pad to the holder, as the key of the generator that made it. The
server adds up the ciphertexts and gives the holder the total, with the pads. The holder decrypts, and takes
the pads of the sites on the list off. BFV alone would not do: it cannot be told what a ciphertext is the sum
of, and a server could have that of a single site opened, or make one whose decryption is the secret key.
Under pads it gets the sum of the sites on the list, or numbers without any meaning, which are refused.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from onefold._base.arrays import Integers, Residues
from onefold._base.frames import join_frames, pack_frame, split_frames
from onefold._base.optional import require
from onefold.exceptions import MessageError
from onefold.federated.sums.bfv import PLAIN_BITS, CiphertextSum, ciphertext_size, encrypt
from onefold.federated.sums.bfv import decrypt as decrypt_ciphertexts
from onefold.federated.sums.contract import SumContract
from onefold.federated.sums.keys import BFV, TAG_BYTES, Encryptor, HolderKey, decrypt
from onefold.federated.sums.messages import TOTAL, about_share, read_header, residues
from onefold.federated.sums.sharing import (
    SEED_BYTES,
    add_shares,
    expand_pad,
    expand_seed,
    new_seed,
    split_secret,
    to_residues,
)

__all__ = ["Routing", "Scheme", "scheme_of"]

DIGITS = np.uint64(2**PLAIN_BITS - 1)  # the numbers modulo 2**59 that BFV encrypts


class Routing(Protocol):
    """What the server makes of the messages of sites, as they come."""

    def add(self, site: str, header: bytes, parts: Sequence[bytes]) -> None:
        """Take the message of one more site."""

    def envelopes(self) -> dict[str, list[bytes]]:
        """Return what each holder gets."""


class Scheme(Protocol):
    """What differs between the ways to sum in secret."""

    def require(self) -> None:
        """Refuse to begin where a package is missing, before anything is charged."""

    def parts(self, site: str, plain: Integers) -> tuple[str, list[bytes]]:
        """Return the key of the sender, and the parts of a site's message."""

    def routing(self) -> Routing:
        """Return the server's work."""

    def split(self, envelopes: Sequence[bytes]) -> tuple[Sequence[bytes], bytes]:
        """Return those of a holder's envelopes that are about one site, and the total of all, if any."""

    def share(self, key: HolderKey, site: str, sender: str, part: bytes) -> Residues:
        """Read what a site has sent to a holder."""

    def add(self, total: Residues, share: Residues) -> Residues:
        """Return the sum of what sites have sent to a holder."""

    def opened(self, key: HolderKey, shares: Residues, total: bytes) -> Residues:
        """Return what a holder answers."""


def scheme_of(contract: SumContract) -> Scheme:
    """Return the scheme of a contract."""
    return _OneKey(contract) if contract.scheme == BFV else _Shares(contract)


def _received(contract: SumContract, key: HolderKey, site: str, sender: str, part: bytes, size: int) -> bytes:
    """Decrypt what a site has sent to a holder, of a known size."""
    if len(part) != TAG_BYTES + size:
        raise MessageError(f"site {site}: its share has the wrong length; leave it out")
    try:
        return decrypt(part, sender, key, about_share(contract, site, key.name))
    except MessageError as error:
        raise MessageError(f"site {site}: {error}; leave it out") from None


# --- shares of several holders ------------------------------------------------------------------------------


class _Shares:
    """Shares of Shamir, each encrypted to one holder."""

    def __init__(self, contract: SumContract) -> None:
        self._contract = contract

    def require(self) -> None:
        require("cryptography", "federated")

    def parts(self, site: str, plain: Integers) -> tuple[str, list[bytes]]:
        contract = self._contract
        seeds = [new_seed() for _ in range(contract.threshold - 1)]
        others = split_secret(plain, [expand_seed(seed, len(plain)) for seed in seeds], len(contract.holders))
        contents = [*seeds, *(share.astype("<u8", copy=False).tobytes() for share in others)]
        encryptor = Encryptor()
        return encryptor.public, [
            encryptor.encrypt(content, holder, about_share(contract, site, holder.name))
            for content, holder in zip(contents, contract.holders, strict=True)
        ]

    def routing(self) -> Routing:
        return _RoutedShares(self._contract)

    def split(self, envelopes: Sequence[bytes]) -> tuple[Sequence[bytes], bytes]:
        return envelopes, b""

    def share(self, key: HolderKey, site: str, sender: str, part: bytes) -> Residues:
        contract = self._contract
        seed = contract.number(key.name) < contract.threshold
        size = SEED_BYTES if seed else 8 * contract.length
        content = _received(contract, key, site, sender, part, size)
        return expand_seed(content, contract.length) if seed else residues(content)

    def add(self, total: Residues, share: Residues) -> Residues:
        return add_shares(total, share)

    def opened(self, key: HolderKey, shares: Residues, total: bytes) -> Residues:
        return shares


class _RoutedShares:
    """Every holder gets the part of every site that is for it."""

    def __init__(self, contract: SumContract) -> None:
        self._found: dict[str, list[bytes]] = {holder.name: [] for holder in contract.holders}

    def add(self, site: str, header: bytes, parts: Sequence[bytes]) -> None:
        for envelopes, part in zip(self._found.values(), parts, strict=True):
            envelopes.append(join_frames([header, part]))

    def envelopes(self) -> dict[str, list[bytes]]:
        return self._found


# --- one key ------------------------------------------------------------------------------------------------


class _OneKey:
    """Numbers under pads, encrypted with BFV: the server adds ciphertexts, the holder opens the total."""

    def __init__(self, contract: SumContract) -> None:
        self._contract, self._holder = contract, contract.holders[0]

    def require(self) -> None:
        require("cryptography", "federated")
        require("seal", "fhe")

    def parts(self, site: str, plain: Integers) -> tuple[str, list[bytes]]:
        seed, encryptor = new_seed(), Encryptor()
        padded = (plain.astype(np.uint64) + expand_pad(seed, len(plain))) & DIGITS
        about = about_share(self._contract, site, self._holder.name)
        return encryptor.public, [
            encryptor.encrypt(seed, self._holder, about),
            encrypt(self._holder.bfv, padded),
        ]

    def routing(self) -> Routing:
        return _AddedCiphertexts(self._contract)

    def split(self, envelopes: Sequence[bytes]) -> tuple[Sequence[bytes], bytes]:
        if not envelopes:
            return [], b""
        frames = split_frames(envelopes[-1])
        if len(frames) != 2 or len(frames[1]) != ciphertext_size(self._contract.length):
            raise MessageError("the total of the sites is missing, or has the wrong length: ask the server")
        read_header(frames[0], TOTAL, self._contract)
        return envelopes[:-1], frames[1]

    def share(self, key: HolderKey, site: str, sender: str, part: bytes) -> Residues:
        return expand_pad(
            _received(self._contract, key, site, sender, part, SEED_BYTES), self._contract.length
        )

    def add(self, total: Residues, share: Residues) -> Residues:
        return total + share  # modulo 2**64, of which 2**59 is a divisor

    def opened(self, key: HolderKey, shares: Residues, total: bytes) -> Residues:
        assert key.bfv is not None  # as the contract says
        found = (decrypt_ciphertexts(key.bfv.secret, total, self._contract.length) - shares) & DIGITS
        numbers = found.astype(np.int64)
        numbers[found >= 2 ** (PLAIN_BITS - 1)] -= 2**PLAIN_BITS
        start = 0
        for block in self._contract.blocks:
            own = numbers[start : start + block.length]
            if max(int(own.max()), -int(own.min())) > self._contract.largest(block):
                raise MessageError(
                    "what the server gave is not the sum of the sites on the list, or a site sent what it "
                    "had not declared: nothing is opened in this round; begin a new one"
                )
            start += block.length
        return to_residues(numbers)


class _AddedCiphertexts:
    """The holder gets the pads of all sites, and the total of their ciphertexts."""

    def __init__(self, contract: SumContract) -> None:
        self._contract, self._sum = contract, CiphertextSum(contract.length)
        self._envelopes: list[bytes] = []

    def add(self, site: str, header: bytes, parts: Sequence[bytes]) -> None:
        pad, ciphertexts = parts
        try:
            self._sum.add(ciphertexts)
        except MessageError as error:
            raise MessageError(f"site {site}: {error}; leave it out") from None
        self._envelopes.append(join_frames([header, pad]))

    def envelopes(self) -> dict[str, list[bytes]]:
        header = {"kind": TOTAL, "contract": self._contract.digest}
        total = join_frames([pack_frame(header, {}), self._sum.flooded()])
        return {self._contract.holders[0].name: [*self._envelopes, total]}
