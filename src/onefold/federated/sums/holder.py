"""A key holder of encrypted sums: it sees random numbers, signs one list of sites per round, and adds."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onefold._base.arrays import Residues
from onefold._base.files import file_lock, write_whole
from onefold._base.frames import join_frames, pack_frame, split_frames
from onefold._base.validation import Instance, check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.messages import check_digest
from onefold.federated.sums.encrypted import EncryptedSum
from onefold.federated.sums.keys import HolderKey, canonical
from onefold.federated.sums.known_keys import KnownKeys
from onefold.federated.sums.messages import (
    ANSWER,
    LIST,
    MESSAGE,
    check_enough,
    check_message,
    list_digest,
    read_header,
    signed_bytes,
)
from onefold.federated.sums.schemes import scheme_of

__all__ = ["SumHolder"]


@dataclass(frozen=True)
class _List:
    """A list of sites with the sum of what they sent to one holder."""

    digest: str
    sites: tuple[str, ...]
    seeded: bool
    shares: Residues = field(repr=False)
    total: bytes = field(repr=False)  # of all sites, as the server made it, where there is one key


class SumHolder:
    """A key holder: signs one list of sites per round, and adds up the shares of exactly these sites.

    What was signed is written to a file before the signature leaves. A second, different list of the same
    round is refused for ever; the same list gives the same bytes.

    Parameters
    ----------
    total : EncryptedSum
        The sum.
    key : HolderKey
        The secret key of this holder.
    folder : str or os.PathLike
        Folder in which this holder remembers its rounds. It must outlive the process.

    Attributes
    ----------
    name : str
        Name of the holder.

    See Also
    --------
    EncryptedSum : The other roles.

    Examples
    --------
    >>> holder = SumHolder(total, key, "/var/lib/onefold")  # doctest: +SKIP
    >>> signature = holder.sign(routed[holder.name])  # doctest: +SKIP
    >>> answer = holder.answer(routed[holder.name], signatures)  # doctest: +SKIP
    """

    def __init__(self, total: EncryptedSum, key: HolderKey, folder: str | os.PathLike[str]) -> None:
        check_parameter("total", total, Instance(EncryptedSum, "an EncryptedSum"))
        check_parameter("key", key, Instance(HolderKey, "a HolderKey"))
        self.name = key.name
        self._key, self._total, self._contract = key, total, total.contract
        self._scheme, self._number = scheme_of(self._contract), self._contract.number(key.name)
        self._known = KnownKeys(folder, key.name, key)
        self._known.check(self._contract)
        self._memory = Path(folder) / f"{self._contract.round_id}.{key.name}.round"

    def problems(self, envelopes: Iterable[bytes]) -> dict[str, str]:
        """Tell which sites' messages cannot be used, without signing anything.

        A list on which one holder cannot agree is lost, since the others have signed it: ask all holders
        first.

        Parameters
        ----------
        envelopes : iterable of bytes
            What :meth:`EncryptedSum.route` has for this holder.

        Returns
        -------
        dict of str to str
            Sites and what is wrong with their messages; empty if all is well.
        """
        found = {}
        for envelope in self._scheme.split(list(envelopes))[0]:
            header, part = self._opened(envelope)
            try:
                self._share(header, part)
            except MessageError as error:
                found[str(header["site"])] = str(error)
        return found

    def sites(self, envelopes: Iterable[bytes]) -> list[str]:
        """Return whose messages these are, without signing anything.

        Parameters
        ----------
        envelopes : iterable of bytes
            What :meth:`EncryptedSum.route` has for this holder.

        Returns
        -------
        list of str
            Names of the sites.
        """
        return [str(self._opened(each)[0]["site"]) for each in self._scheme.split(list(envelopes))[0]]

    def sign(self, envelopes: Iterable[bytes]) -> bytes:
        """Sign the list of sites whose messages these are, unless another one was signed in this round.

        Parameters
        ----------
        envelopes : iterable of bytes
            What :meth:`EncryptedSum.route` has for this holder.

        Returns
        -------
        bytes
            The signed list, for all other holders.
        """
        self._known.keep(self._contract)
        listed = self._added(envelopes)
        with file_lock(self._memory):
            known = self._remembered()
            if known is None:
                plain = {"contract": self._contract.digest, "list": listed.digest}
                write_whole(self._memory, canonical(plain))
            elif known != listed.digest:
                other = ", or another total of them," if listed.total else ""
                raise MessageError(
                    f"another list of sites{other} was signed in this round, and only that one is ever "
                    "answered: begin a new round"
                )
        header = {
            "kind": LIST,
            "contract": self._contract.digest,
            "list": listed.digest,
            "holder": self.name,
        }
        return pack_frame({**header, "signature": self._key.sign(signed_bytes(header))}, {})

    def answer(self, envelopes: Iterable[bytes], signatures: Iterable[bytes]) -> bytes:
        """Return the sum of the shares of the sites on the list that t holders have signed.

        Under one key it decrypts the server's total here, once per round and no other one: numbers that
        cannot be the sum of the sites on the list are refused.

        Parameters
        ----------
        envelopes : iterable of bytes
            What :meth:`EncryptedSum.route` has for this holder.
        signatures : iterable of bytes
            What :meth:`sign` returned at the holders.

        Returns
        -------
        bytes
            The answer, for the querier.
        """
        listed = self._added(envelopes)
        with file_lock(self._memory):
            if self._remembered() != listed.digest:
                raise MessageError(
                    "this holder has not signed this list of sites: it answers only what it signed"
                )
        signers = {self._signer(signature, listed.digest) for signature in signatures} - {None}
        if len(signers) < self._contract.threshold:
            raise MessageError(
                f"{len(signers)} holders have signed this list of sites, and "
                f"{self._contract.threshold} are needed: wait for the others, or begin a new round"
            )
        share = self._scheme.opened(self._key, listed.shares, listed.total)
        content = share.astype("<u8", copy=False).tobytes()
        header = {
            "kind": ANSWER,
            "contract": self._contract.digest,
            "list": listed.digest,
            "sites": list(listed.sites),
            "seeded": listed.seeded,
            "sum": hashlib.sha256(content).hexdigest(),
            "holder": self.name,
        }
        return join_frames(
            [pack_frame({**header, "signature": self._key.sign(signed_bytes(header))}, {}), content]
        )

    def _remembered(self) -> str | None:
        """The list that was signed in this round."""
        if not self._memory.is_file():
            return None
        try:
            plain = json.loads(self._memory.read_bytes())
            contract, signed = check_digest(plain["contract"]), check_digest(plain["list"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise FileFormatError("the file of this round is damaged: nothing is signed any more") from None
        if contract != self._contract.digest:
            raise MessageError("this round had another contract: a round has one; begin a new round")
        return signed

    def _signer(self, signature: bytes, digest: str) -> str | None:
        """The holder that has signed this list; None if the bytes are anything else."""
        try:
            holder, listed = self._total.signed_list(signature)
        except InvalidInputError:
            return None
        return holder if listed == digest else None

    def _added(self, envelopes: Iterable[bytes]) -> _List:
        """Decrypt what all sites sent and add it up; refuse too few sites, or one that comes twice."""
        listed: dict[str, str] = {}
        shares: Residues | None = None  # a contract of a few bytes may be of very many numbers
        seeded = False
        single, total = self._scheme.split(list(envelopes))
        for envelope in single:
            header, part = self._opened(envelope)
            site = header["site"]
            if site in listed:
                raise MessageError(f"site {site} is in the list twice")
            listed[site] = hashlib.sha256(split_frames(envelope)[0]).hexdigest()
            share = self._share(header, part)
            shares = share if shares is None else self._scheme.add(shares, share)
            seeded |= header["seeded"]
        check_enough(self._contract, len(listed))
        assert shares is not None  # of one site at least
        digest = list_digest(self._contract, listed, hashlib.sha256(total).hexdigest() if total else "")
        return _List(digest, tuple(sorted(listed)), seeded, shares, total)

    def _opened(self, envelope: bytes) -> tuple[dict[str, Any], bytes]:
        frames = split_frames(envelope)
        if len(frames) != 2:
            raise MessageError(
                "a site dropped out half-way: its part for this holder is missing; leave it out"
            )
        header = read_header(frames[0], MESSAGE, self._contract)
        check_message(self._contract, header)
        return header, frames[1]

    def _share(self, header: Mapping[str, Any], part: bytes) -> Residues:
        """Decrypt what a site sent to this holder."""
        site = header["site"]
        if hashlib.sha256(part).hexdigest() != header["parts"][self._number - 1]:
            raise MessageError(
                f"the part of site {site} for this holder is missing or was changed: leave it out"
            )
        return self._scheme.share(self._key, site, header["sender"], part)
