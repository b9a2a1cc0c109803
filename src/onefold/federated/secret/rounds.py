"""Sums of whole numbers over sites: key holders open the total, and nobody sees a single site's.

A site splits its vector, with its share of the noise, into one share per key holder and encrypts each share
to its holder. The server carries bytes and can read none of them. The holders first sign one list of sites,
then add up the shares of the sites on it; any t of their answers give the sum. Everything here is bytes in,
bytes out, so that any transport can carry it: signed records, each bound to one contract, and shares.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import AnyArray, Integers, Residues
from onefold._base.files import file_lock, write_whole
from onefold._base.optional import require
from onefold._base.records import ArrayField, Record, record
from onefold._base.validation import Instance, check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.access.signatures import canonical, verify
from onefold.federated.messages import Bundle, Digest, Name, digest_of
from onefold.federated.secret.contract import SumContract
from onefold.federated.secret.keys import MORE_BYTES, HolderKey, KnownKeys, PublicHolder, decrypt, encrypt
from onefold.federated.secret.noise import draw_shares
from onefold.federated.secret.shares import (
    MODULUS,
    SEED_BYTES,
    add_shares,
    combine_shares,
    expand_seed,
    new_seed,
    split_secret,
)
from onefold.privacy.guarantee import SEEDED, Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.samplers import RandomState

__all__ = ["EncryptedSum", "OpenedSum", "SumHolder"]

OTHER = "the bytes are about another sum: all must use the same contract"
LARGEST_HEADER = 2**20


class _Signed(Record):
    """What a site or holder says about one contract, signed as a whole."""

    error = MessageError
    contract: Digest
    signature: str

    @property
    def signed_part(self) -> bytes:
        """What the signature is about: everything else, with its kind."""
        return replace(self, signature="").to_bytes()  # type: ignore[type-var]  # subclasses are records

    def by(self, key: HolderKey | None) -> Self:
        """Return it with the signature of a key; without one if there is no key."""
        return self if key is None else replace(self, signature=key.sign(self.signed_part))  # type: ignore[type-var]

    def is_by(self, key: PublicHolder) -> bool:
        """Return whether it was signed with a key."""
        return verify(key.signing, self.signature, self.signed_part)

    @classmethod
    def about(cls, content: bytes, contract: SumContract) -> Self:
        """Read one; refuse one about another contract."""
        found = cls.from_bytes(content, LARGEST_HEADER + 200 * len(contract.sites))
        if found.contract != contract.digest:
            raise MessageError(OTHER)
        return found


@record
class SumHeader(_Signed, kind="sum message"):
    """Head of a site's message: the digests of its encrypted shares, one for each holder."""

    contract: Digest
    site: Name
    parts: tuple[Digest, ...]
    seeded: bool
    signature: str = ""

    @classmethod
    def about(cls, content: bytes, contract: SumContract) -> Self:
        """Read the head of a message; refuse one that is not what it says."""
        found = super().about(content, contract)
        found._check(contract)
        return found

    def _check(self, contract: SumContract) -> None:
        if self.site not in contract.sites:
            raise MessageError("a message is from a site that is not in the contract")
        if len(self.parts) != len(contract.holders):
            raise MessageError(f"the message of site {self.site} is damaged")
        if contract.site_keys and not self.is_by(contract.site_keys[contract.place(self.site)]):
            raise MessageError(f"the message of site {self.site} is not signed by it")


@record
class SumList(_Signed, kind="sum list"):
    """That a holder adds up the messages of one list of sites, and of no other."""

    contract: Digest
    list: Digest
    holder: Name
    signature: str = ""


@record
class SumAnswer(_Signed, kind="sum answer"):
    """The sum of what a holder got from the sites on the list."""

    contract: Digest
    list: Digest
    sites: tuple[Name, ...]
    seeded: bool
    holder: Name
    shares: Annotated[NDArray[Any], ArrayField("u", (1,))] = field(repr=False)
    signature: str = ""


def list_digest(contract: SumContract, listed: Mapping[str, str]) -> str:
    """Name of a list of sites, each with the one message of it that is added."""
    return digest_of(canonical({"contract": contract.digest, "sites": sorted(listed.items())}))


def about_share(contract: SumContract, site: str, holder: str) -> bytes:
    """Return what the encryption of a share is bound to."""
    return canonical({"contract": contract.digest, "site": site, "holder": holder})


def residues(content: bytes | NDArray[Any]) -> Residues:
    """Read a share from bytes; refuse what is no share."""
    found = np.frombuffer(content, dtype="<u8").astype(np.uint64)
    if found.size and int(found.max()) >= MODULUS:
        raise MessageError("a share is no number of the field: the sender did not follow the protocol")
    return found


def check_enough(contract: SumContract, n_sites: int) -> None:
    """Refuse fewer sites than the noise is enough for."""
    if n_sites < contract.least_sites:
        raise MessageError(
            f"only {n_sites} of {len(contract.sites)} sites are there, and "
            f"{contract.least_sites} are needed: wait for the others, or begin a new round"
        )


@dataclass(frozen=True, eq=False)
class OpenedSum:
    """The sum of the vectors of all sites on a list.

    Parameters
    ----------
    vector : ndarray of int64
        The sum, noise included.
    sites : tuple of str
        Sites whose vectors are in it.
    guarantee : Guarantee
        What is promised about it.
    checked : bool
        Whether more than t answers were compared. With exactly t a wrong answer cannot be found.

    See Also
    --------
    EncryptedSum.open : Returns it.

    Examples
    --------
    >>> promise = Guarantee("record", (1.0, 1e-5), (1.0, 1e-5), 1)
    >>> OpenedSum(np.array([3]), ("north", "south"), promise, True).sites
    ('north', 'south')
    """

    vector: Integers
    sites: tuple[str, ...]
    guarantee: Guarantee
    checked: bool


class EncryptedSum:
    r"""The sum of one whole-number vector per site, opened by t of n key holders, with shared noise.

    Nobody sees the vector of a single site unless t holders collude, and each site adds only its share of the
    noise. The opened sum has little more noise than one private release of all records: as much more as the
    sites that may fail, or collude, would have added. The same object serves all roles, each of which calls
    its own method; nothing secret is kept in it.

    Parameters
    ----------
    contract : SumContract
        What all participants have agreed on. It is public.

    Attributes
    ----------
    contract : SumContract
        The contract.

    See Also
    --------
    SumHolder : The part of a key holder.
    MomentFederation : Sums of moments with noise of each site's own.

    Notes
    -----
    One round:

    1. every site calls :meth:`contribute` and sends the bytes to the server;
    2. the server calls :meth:`route`, and sends each holder its list of bytes;
    3. every holder checks the bytes and signs the list of sites (:meth:`SumHolder.sign`), once per round;
    4. every holder gets the signatures of the others and answers (:meth:`SumHolder.answer`) if t of them
       agree;
    5. the querier calls :meth:`open` with t answers or more.

    *Guarantees.* ``guarantee`` holds for everyone who sees the opened sum, if the conditions that it prints
    are true. Fewer than t holders, the server and the network see random numbers and ciphertexts; that rests
    on HPKE with X25519, AES-256 and SHA-256. The proof is in ``docs/proofs/encrypted-sum.md``. t holders that
    collude, with the server or without it, see each site's vector, which has only its own share of the noise.
    A site that lies can spoil the sum; no encryption prevents that. Whoever carries the answers can open the
    sum as well as the querier.

    With noise no site can leave an opened sum: another round is another release, and is charged as one.

    References
    ----------
    Shamir, "How to share a secret", 1979; Kairouz, Liu and Steinke, "The distributed discrete Gaussian
    mechanism for federated learning with secure aggregation", 2021, for shares of discrete noise.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from onefold.federated import HolderKey, SumBlock, SumContract, SumHolder
    >>> keys = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
    >>> block = SumBlock("counts", 3, largest=1000)
    >>> contract = SumContract(
    ...     "spring", tuple(key.public for key in keys), 2, ("north", "south"), (block,), noise=False
    ... )
    >>> total = EncryptedSum(contract)
    >>> folder = mkdtemp()  # each keeps a file there: nobody adds or answers twice in one round
    >>> messages = [
    ...     total.contribute("north", np.array([1, 2, 3]), folder),
    ...     total.contribute("south", np.array([10, 20, 30]), folder),
    ... ]
    >>> holders = [SumHolder(total, key, folder) for key in keys]
    >>> total.together(messages, holders).vector.tolist()
    [11, 22, 33]
    """

    def __init__(self, contract: SumContract) -> None:
        check_parameter("contract", contract, Instance(SumContract, "a SumContract"))
        self.contract = contract

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about the opened sum."""
        return self.contract.guarantee

    # --- a site ---------------------------------------------------------------------------------------------

    def contribute(
        self,
        site: str,
        vector: AnyArray,
        folder: str | os.PathLike[str],
        *,
        key: HolderKey | None = None,
        ledger: AnyLedger = None,
        random_state: RandomState = None,
    ) -> bytes:
        """Add a site's share of the noise to its vector, split it, and encrypt the parts to the holders.

        The message is drawn once per round and kept: a second call returns the same bytes, whatever the
        vector. Two messages with different noise about the same rows would cost more than the contract says.

        A contract with another key under the site's own name is refused, and so is one with another key of a
        holder or site than in the rounds before (:class:`KnownKeys`): whoever has the keys can read.

        Parameters
        ----------
        site : str
            Name of the site.
        vector : ndarray of int64
            Whole numbers without noise, within the bounds of the blocks.
        folder : str or os.PathLike
            Folder of the site in which its messages are kept. It is not to be shared.
        key : HolderKey or None, default=None
            Key of the site, if the contract has one under its name: to sign with, and so that nobody else can
            read under that name.
        ledger : Ledger, path or None, default=None
            Account of what was spent on the same rows. Each of several rounds under one promise is charged
            for its own noise; a round whose guarantee is void is refused.
        random_state : None, int or Generator, default=None
            Source of the noise. A seed is for tests only, and makes the guarantee void.

        Returns
        -------
        bytes
            The message to the server.
        """
        contract = self.contract
        contract.place(site)
        KnownKeys(folder, site, key).keep(contract)
        kept = Path(folder) / contract.file(site, "sum")
        with file_lock(kept):
            if kept.is_file():
                message = kept.read_bytes()
                self._checked_message(message)  # of this contract, and whole
                return message
            require("cryptography", "federated")  # before anything is charged
            plain = self._checked(vector)
            charge(ledger, contract.cost.seeded(random_state), f"encrypted sum {contract.round_id}")
            if contract.noise:
                plain = plain + draw_shares(contract.blocks, contract.least_adding, random_state)
            message = self._message(site, plain, key, seeded=contract.noise and random_state is not None)
            write_whole(kept, message)
        return message

    def _checked(self, vector: AnyArray) -> Integers:
        """Refuse what the contract has not declared; the error tells nothing of the numbers."""
        found = np.asarray(vector)
        if found.dtype != np.int64 or found.shape != (self.contract.length,):
            raise InvalidInputError(f"the vector must be {self.contract.length} whole numbers of int64")
        start = 0
        for block in self.contract.blocks:
            own = found[start : start + block.length]
            if max(int(own.max()), -int(own.min())) > block.largest:
                raise InvalidInputError(f"a number of the block {block.name!r} is larger than declared")
            start += block.length
        return found

    def _message(self, site: str, plain: Integers, key: HolderKey | None, seeded: bool) -> bytes:
        contract = self.contract
        seeds = [new_seed() for _ in range(contract.threshold - 1)]
        others = split_secret(plain, [expand_seed(seed, len(plain)) for seed in seeds], len(contract.holders))
        contents = [*seeds, *(share.astype("<u8", copy=False).tobytes() for share in others)]
        parts = [
            encrypt(content, holder, about_share(contract, site, holder.name))
            for content, holder in zip(contents, contract.holders, strict=True)
        ]
        header = SumHeader(contract.digest, site, tuple(map(digest_of, parts)), seeded).by(key)
        return Bundle((header.to_bytes(), *parts)).to_bytes()

    # --- the server -----------------------------------------------------------------------------------------

    def route(self, messages: Iterable[bytes]) -> dict[str, list[bytes]]:
        """Sort the messages of sites into what each holder gets: one run of bytes per site.

        Parameters
        ----------
        messages : iterable of bytes
            What sites sent.

        Returns
        -------
        dict of str to list of bytes
            For each holder the header of every site and the part for this holder.
        """
        found: dict[str, list[bytes]] = {holder.name: [] for holder in self.contract.holders}
        seen: dict[str, bytes] = {}
        for message in messages:
            site, first, parts = self._checked_message(message)
            if site in seen:
                if seen[site] != first:
                    raise MessageError(f"site {site} sent two different messages: leave it out")
                continue
            seen[site] = first
            for envelopes, part in zip(found.values(), parts, strict=True):
                envelopes.append(Bundle((first, part)).to_bytes())
        check_enough(self.contract, len(seen))
        return found

    def site_of(self, message: bytes) -> str:
        """Return the site that a message is from; one of another sum, or a damaged one, is refused.

        Parameters
        ----------
        message : bytes
            What a site sent.

        Returns
        -------
        str
            Name of the site.
        """
        return self._checked_message(message)[0]

    def signed_list(self, signed: bytes) -> tuple[str, str]:
        """Return who has signed a list of sites, and which; bytes without its signature are refused.

        Parameters
        ----------
        signed : bytes
            What :meth:`SumHolder.sign` returned.

        Returns
        -------
        tuple of (str, str)
            Name of the holder, and digest of the list.
        """
        header = SumList.about(signed, self.contract)
        holder = self.contract.holders[self.contract.number(header.holder) - 1]
        if not header.is_by(holder):
            raise MessageError(f"the list of holder {holder.name} is not signed by it")
        return holder.name, header.list

    def holder_of(self, answer: bytes) -> str:
        """Return the holder that an answer is from; one of another sum, or a damaged one, is refused.

        Parameters
        ----------
        answer : bytes
            What :meth:`SumHolder.answer` returned.

        Returns
        -------
        str
            Name of the holder.
        """
        return self.contract.holders[self._checked_answer(answer)[0] - 1].name

    def _checked_message(self, message: bytes) -> tuple[str, bytes, tuple[bytes, ...]]:
        """Return the site, the header and the parts of a whole message."""
        first, *parts = Bundle.from_bytes(message).parts or (b"",)
        header = SumHeader.about(first, self.contract)
        if tuple(map(digest_of, parts)) != header.parts:
            raise MessageError(f"the message of site {header.site} is damaged")
        return header.site, first, tuple(parts)

    # --- the querier ----------------------------------------------------------------------------------------

    def open(self, answers: Iterable[bytes]) -> OpenedSum:
        """Put the answers of holders together.

        Parameters
        ----------
        answers : iterable of bytes
            What :meth:`SumHolder.answer` returned at t holders or more. Further ones are used to check.

        Returns
        -------
        OpenedSum
            The sum. A wrong answer among more than t is found and refused.
        """
        shares: dict[int, Residues] = {}
        told: set[tuple[str, tuple[str, ...], bool]] = set()
        for answer in answers:
            number, share, about = self._checked_answer(answer)
            if number in shares and not np.array_equal(shares[number], share):
                raise MessageError(f"holder {self.contract.holders[number - 1].name} gave two answers")
            shares[number] = share
            told.add(about)
        t = self.contract.threshold
        if len(shares) < t:
            raise MessageError(
                f"only {len(shares)} of {len(self.contract.holders)} holders answered, and {t} are needed: "
                "wait for the others, or begin a new round"
            )
        if len(told) > 1:
            raise MessageError("the holders answered about different lists of sites: begin a new round")
        ((_, sites, seeded),) = told
        self._check_consistent(shares)
        used = dict(sorted(shares.items())[:t])
        guarantee = self.guarantee.voided(SEEDED) if seeded else self.guarantee
        return OpenedSum(combine_shares(used), sites, guarantee, len(shares) > t)

    def _checked_answer(self, answer: bytes) -> tuple[int, Residues, tuple[str, tuple[str, ...], bool]]:
        contract = self.contract
        found = SumAnswer.from_bytes(answer, LARGEST_HEADER + 8 * contract.length + 200 * len(contract.sites))
        if found.contract != contract.digest:
            raise MessageError(OTHER)
        names = [each.name for each in contract.holders]
        if found.holder not in names:
            raise MessageError("an answer is from a holder that is not in the contract")
        number = names.index(found.holder)
        if not found.is_by(contract.holders[number]):
            raise MessageError(f"the answer of holder {found.holder} is not signed by it")
        listed = set(found.sites) <= set(contract.sites) and len(set(found.sites)) == len(found.sites)
        if not listed or found.shares.dtype != np.uint64 or len(found.shares) != contract.length:
            raise MessageError(f"the answer of holder {found.holder} is damaged")
        check_enough(contract, len(found.sites))
        return number + 1, residues(found.shares.astype("<u8")), (found.list, found.sites, found.seeded)

    def _check_consistent(self, shares: Mapping[int, Residues]) -> None:
        """Refuse answers that are not on one polynomial; name the one that does not fit, if it is clear."""
        t = self.contract.threshold
        if _fit(shares, t):
            return
        names = [self.contract.holders[number - 1].name for number in sorted(shares)]
        for number in sorted(shares) if len(shares) > t + 1 else ():
            if _fit({other: share for other, share in shares.items() if other != number}, t):
                raise MessageError(
                    f"the answer of holder {self.contract.holders[number - 1].name} does not fit those of "
                    "the others: it, or a site, sent wrong numbers; leave it out, or begin a new round"
                )
        raise MessageError(
            f"the answers of holders {', '.join(names)} contradict each other: one of them, or a site, "
            "sent wrong numbers; ask more holders, or begin a new round"
        )

    # --- all roles in one process ---------------------------------------------------------------------------

    def together(self, messages: Sequence[bytes], holders: "Sequence[SumHolder]") -> OpenedSum:
        """Run the steps after the sites' messages in one process, for tests and simulations.

        Parameters
        ----------
        messages : sequence of bytes
            What sites sent.
        holders : sequence of SumHolder
            The holders that are there.

        Returns
        -------
        OpenedSum
            The sum.
        """
        routed = self.route(messages)
        signatures = [holder.sign(routed[holder.name]) for holder in holders]
        return self.open([holder.answer(routed[holder.name], signatures) for holder in holders])


def _fit(shares: Mapping[int, Residues], threshold: int) -> bool:
    """Whether all shares are values of one polynomial of degree below the threshold."""
    points = sorted(shares)
    known = {point: shares[point] for point in points[:threshold]}
    return all(
        np.array_equal(combine_shares(known, at=point), shares[point].astype(np.int64))
        for point in points[threshold:]
    )


# --- a key holder -------------------------------------------------------------------------------------------


@record
class Remembered(Record, kind="signed list of a round"):
    """The one list that a holder has signed in a round."""

    contract: Digest
    list: Digest


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
            first, part = self._parts(envelope)
            header = SumHeader.about(first, self._contract)
            try:
                self._share(header, part)
            except MessageError as error:
                found[header.site] = str(error)
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
        digest = self._added(envelopes).list
        with file_lock(self._memory):
            known = self._remembered()
            if known is None:
                Remembered(self._contract.digest, digest).save(self._memory)
            elif known != digest:
                raise MessageError(
                    "another list of sites was signed in this round, and only that one is ever answered: "
                    "begin a new round"
                )
        return SumList(self._contract.digest, digest, self.name).by(self._key).to_bytes()

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
        answer = self._added(envelopes)
        with file_lock(self._memory):
            if self._remembered() != answer.list:
                raise MessageError(
                    "this holder has not signed this list of sites: it answers only what it signed"
                )
        signers = {self._signer(signature, answer.list) for signature in signatures} - {None}
        if len(signers) < self._contract.threshold:
            raise MessageError(
                f"{len(signers)} holders have signed this list of sites, and "
                f"{self._contract.threshold} are needed: wait for the others, or begin a new round"
            )
        return answer.by(self._key).to_bytes()

    def _remembered(self) -> str | None:
        """The list that was signed in this round."""
        if not self._memory.is_file():
            return None
        try:
            kept = Remembered.load(self._memory)
        except InvalidInputError:
            raise FileFormatError("the file of this round is damaged: nothing is signed any more") from None
        if kept.contract != self._contract.digest:
            raise MessageError("this round had another contract: a round has one; begin a new round")
        return kept.list

    def _signer(self, signature: bytes, digest: str) -> str | None:
        """The holder that has signed this list; None if the bytes are anything else."""
        try:
            holder, listed = self._total.signed_list(signature)
        except InvalidInputError:
            return None
        return holder if listed == digest else None

    def _added(self, envelopes: Iterable[bytes]) -> SumAnswer:
        """Decrypt what all sites sent and add it up; refuse too few sites, or one that comes twice."""
        listed: dict[str, str] = {}
        shares: Residues | None = None  # a contract of a few bytes may be of very many numbers
        seeded = False
        for envelope in envelopes:
            first, part = self._parts(envelope)
            header = SumHeader.about(first, self._contract)
            if header.site in listed:
                raise MessageError(f"site {header.site} is in the list twice")
            listed[header.site] = digest_of(first)
            share = self._share(header, part)
            shares = share if shares is None else add_shares(shares, share)
            seeded |= header.seeded
        check_enough(self._contract, len(listed))
        assert shares is not None  # of one site at least
        digest = list_digest(self._contract, listed)
        return SumAnswer(self._contract.digest, digest, tuple(sorted(listed)), seeded, self.name, shares)

    def _parts(self, envelope: bytes) -> tuple[bytes, bytes]:
        parts = Bundle.from_bytes(envelope).parts
        if len(parts) != 2:
            raise MessageError(
                "a site dropped out half-way: its part for this holder is missing; leave it out"
            )
        return parts[0], parts[1]

    def _share(self, header: SumHeader, part: bytes) -> Residues:
        """Decrypt what a site sent to this holder."""
        site, contract = header.site, self._contract
        if digest_of(part) != header.parts[self._number - 1]:
            raise MessageError(
                f"the part of site {site} for this holder is missing or was changed: leave it out"
            )
        seed = self._number < contract.threshold
        if len(part) != MORE_BYTES + (SEED_BYTES if seed else 8 * contract.length):
            raise MessageError(f"site {site}: its share has the wrong length; leave it out")
        try:
            content = decrypt(part, self._key, about_share(contract, site, self.name))
        except MessageError as error:
            raise MessageError(f"site {site}: {error}; leave it out") from None
        return expand_seed(content, contract.length) if seed else residues(content)
