"""A key holder of encrypted sums: it sees random numbers, signs one list of sites per round, and adds."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onefold._base.arrays import Residues
from onefold._base.files import file_lock, write_whole
from onefold._base.frames import join_frames, split_frames
from onefold._base.validation import Instance, check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.messages import check_digest
from onefold.federated.secret.keys import TAG_BYTES, HolderKey, KnownKeys, canonical, decrypt
from onefold.federated.secret.rounds import (
    ANSWER,
    LIST,
    MESSAGE,
    EncryptedSum,
    about_share,
    check_enough,
    check_message,
    digest_of,
    list_digest,
    read_header,
    residues,
    signed_header,
)
from onefold.federated.secret.shares import SEED_BYTES, add_shares, expand_seed

__all__ = ["SumHolder"]


@dataclass(frozen=True)
class _List:
    """A list of sites with the sum of what they sent to one holder."""

    digest: str
    sites: tuple[str, ...]
    seeded: bool
    shares: Residues = field(repr=False)


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
        self._number = self._contract.number(key.name)
        self._known = KnownKeys(folder, key.name, key)
        self._known.check(self._contract)
        self._memory = Path(folder) / self._contract.file(key.name, "round")

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
        for envelope in envelopes:
            header, part = self._opened(envelope)
            try:
                self._share(header, part)
            except MessageError as error:
                found[str(header["site"])] = str(error)
        return found

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
                raise MessageError(
                    "another list of sites was signed in this round, and only that one is ever answered: "
                    "begin a new round"
                )
        return signed_header(LIST, self._contract, self._key, list=listed.digest, holder=self.name)

    def answer(self, envelopes: Iterable[bytes], signatures: Iterable[bytes]) -> bytes:
        """Return the sum of the shares of the sites on the list that t holders have signed.

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
        content = listed.shares.astype("<u8", copy=False).tobytes()
        about = {"sites": list(listed.sites), "seeded": listed.seeded, "sum": digest_of(content)}
        who = {"list": listed.digest, "holder": self.name}
        return join_frames([signed_header(ANSWER, self._contract, self._key, **who, **about), content])

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
        for envelope in envelopes:
            header, part = self._opened(envelope)
            site = header["site"]
            if site in listed:
                raise MessageError(f"site {site} is in the list twice")
            listed[site] = digest_of(split_frames(envelope)[0])
            share = self._share(header, part)
            shares = share if shares is None else add_shares(shares, share)
            seeded |= header["seeded"]
        check_enough(self._contract, len(listed))
        assert shares is not None  # of one site at least
        return _List(list_digest(self._contract, listed), tuple(sorted(listed)), seeded, shares)

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
        site, contract = header["site"], self._contract
        if digest_of(part) != header["parts"][self._number - 1]:
            raise MessageError(
                f"the part of site {site} for this holder is missing or was changed: leave it out"
            )
        seed = self._number < contract.threshold
        if len(part) != TAG_BYTES + (SEED_BYTES if seed else 8 * contract.length):
            raise MessageError(f"site {site}: its share has the wrong length; leave it out")
        try:
            content = decrypt(part, header["sender"], self._key, about_share(contract, site, self.name))
        except MessageError as error:
            raise MessageError(f"site {site}: {error}; leave it out") from None
        return expand_seed(content, contract.length) if seed else residues(content)
