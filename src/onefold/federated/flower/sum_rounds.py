"""A round of an encrypted sum over the network: who has contributed, who waits, and the opened sum.

The round is a folder of files: whatever comes back from a site is a file there before the next step. A
command that was stopped goes on from there, and whoever has a copy of the folder can open the sum.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from onefold._base.files import file_lock, write_whole
from onefold._base.records import Record, record
from onefold._base.validation import Instance, Number, check_parameter
from onefold.exceptions import FederationError, FileFormatError, InvalidInputError, MessageError, OnefoldError
from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower.asking import GRACE, new_query_id, running_spool
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.parcels import ParcelRequest, ParcelSpool
from onefold.federated.flower.summing import UnusableShares
from onefold.federated.messages import Bundle, Failure, FailureCode, Limits, SumParcel, SumStep
from onefold.federated.secret import OpenedSum, SchemaSum

MESSAGE, SIGNED, ANSWER = "sum", "signed", "answer"  # what is in the files of a round
# What comes of a step: a file of a kind, and what is said of who has taken it.
DONE = {
    "contribute": (MESSAGE, "contributed"),
    "sign": (SIGNED, "signed the list of sites"),
    "answer": (ANSWER, "answered"),
}
RETRY = 2.0
AGAIN = "run it again, it goes on from here"
# What a site says, for whoever runs the round.
SAID = {
    FailureCode.WAITING: "waits for its data owner's approval (onefold federate approvals list there)",
    FailureCode.DENIED: "was told by its data owner not to take part",
    FailureCode.PAUSED: "is paused by its data owner",
    FailureCode.UNKNOWN_CALLER: "has too many requests waiting for its data owner",
    FailureCode.BUDGET_SPENT: "has not enough left in its ledger",
    FailureCode.NOT_READY: "has no table or no key for this sum (federate site --sum-table, --sum-key)",
    FailureCode.STALE: "takes signatures of the last minutes only: compare the clocks",
    FailureCode.OTHER_ROUND: "knows this round with another contract or another list of sites: begin anew",
    FailureCode.NOT_AGREED: "does not answer: few signed its list, or somebody showed them different lists",
    FailureCode.UNTRUSTED_KEY: "does not trust a key of the contract: it knows another (its log says which)",
    FailureCode.NO_ENCRYPTION: "lacks a package that this sum needs (its log says which)",
    FailureCode.MALFORMED: "cannot use the request: the contract, or that the site is in it, is not right",
}


@record
class SiteList(Record, kind="list of sites"):
    """Which sites are in the sum of a round, from before the first holder is asked to sign."""

    sites: tuple[str, ...]


class SumRound:
    """One round of an encrypted sum of tables among the sites of a federation.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder (``Federation.folder``); its server must be running.
    summed : SchemaSum
        The sum. A key holder is asked at the site of the same name.
    share : str or os.PathLike
        Folder of the round, which must exist. All that comes back is written there, and nothing secret is.
    key : SigningKey
        Key of the querier, which data owners approve.
    purpose : str, default=""
        What the sum is for, in one line that is signed and shown to the data owners.
    timeout : float, default=300.0
        Seconds that a site has for one step.
    say : callable, default=lambda _: None
        Called with what happens, one line at a time.

    See Also
    --------
    EncryptedSum : The protocol.
    Federation : Where the sites are.

    Notes
    -----
    Nothing that a site promises depends on this object: whoever runs it is the server of the protocol. It
    sees ciphertexts, and the opened sum.

    Examples
    --------
    >>> fed = Federation("federation/server")  # doctest: +SKIP
    >>> round = SumRound(fed.folder, SchemaSum.load("share/spring.contract"), "share", key)  # doctest: +SKIP
    >>> opened = round.run(without=["west"], wait=3600)  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: ServerFolder,
        summed: SchemaSum,
        share: str | os.PathLike[str],
        key: SigningKey,
        *,
        purpose: str = "",
        timeout: float = 300.0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_parameter("summed", summed, Instance(SchemaSum, "a SchemaSum"))
        check_parameter("timeout", timeout, Number(above=0))
        self.summed, self.share = summed, Path(share)
        if not self.share.is_dir():
            raise InvalidInputError(f"{self.share}: there is no such folder")
        self._folder, self._key, self._purpose = folder, key, purpose
        self._timeout, self._say = timeout, say
        self._total, self._contract, self._head = summed.total, summed.total.contract, summed.to_bytes()
        self._holders = [holder.name for holder in self._contract.holders]
        self._told: dict[tuple[str, str], str] = {}

    def run(self, without: Iterable[str] = (), wait: float = 0.0) -> OpenedSum:
        """Go through the round, from wherever it is, and open the sum.

        Parameters
        ----------
        without : iterable of str, default=()
            Sites to leave out. Once a key holder was asked to sign, the list of sites is fixed.
        wait : float, default=0.0
            Seconds to go on asking sites that are not there, or whose data owner has not decided.

        Returns
        -------
        OpenedSum
            The sum, as :meth:`EncryptedSum.open` returns it.

        Raises
        ------
        FederationError
            If sites or key holders are missing; nothing is opened, and the round can go on later.
        MessageError
            If another list of sites was fixed before, or the answers contradict each other.
        """
        check_parameter("wait", wait, Number(at_least=0))
        sites, until = self._listed(without), time.monotonic() + wait
        if len(self._found(self._holders, ANSWER)) < self._contract.threshold:
            self._collect(sites, until)
            ready = self._check(sites, until)
            self._fix_list(sites)
            self._gather("sign", {name: [] for name in ready}, self._holders, until)
            signed = self._found(self._holders, SIGNED)
            lists = [path.read_bytes() for path in signed.values()]
            self._gather("answer", dict.fromkeys(signed, lists), self._holders, until)
        return self._total.open(self.answers)

    # --- the folder of the round --------------------------------------------------------------------------

    @property
    def answers(self) -> list[bytes]:
        """What key holders have answered."""
        return [path.read_bytes() for path in self._found(self._holders, ANSWER).values()]

    def path(self, who: str, kind: str) -> Path:
        """Return the file of a site or holder in the folder of the round.

        Parameters
        ----------
        who : str
            Name of the site or holder.
        kind : str
            What is in it.

        Returns
        -------
        Path
            The file, which need not exist.
        """
        return self.share / self._contract.file(who, kind)

    def _found(self, names: Iterable[str], kind: str) -> dict[str, Path]:
        """The files of a kind that are there."""
        paths = {name: self.path(name, kind) for name in names}
        return {name: path for name, path in paths.items() if path.is_file()}

    def message_of(self, site: str) -> bytes:
        """Return the message of a site, if it is from that site and about this sum.

        Parameters
        ----------
        site : str
            Name of the site; its message must be there.

        Returns
        -------
        bytes
            The message.
        """
        path = self.path(site, MESSAGE)
        content = path.read_bytes()
        try:
            sender = self._total.site_of(content)
        except MessageError as error:
            raise MessageError(f"{path}: {error}") from None
        if sender != site:
            raise MessageError(f"{path}: the message is from another site")
        return content

    def _listed(self, without: Iterable[str]) -> list[str]:
        """The sites that are to be in the sum; other ones than were written down before are refused."""
        left = set(without)
        for site in left:
            self._contract.place(site)
        wanted = [site for site in self._contract.sites if site not in left]
        least = self._contract.least_sites
        if len(wanted) < least:
            raise MessageError(
                f"without {', '.join(sorted(left))} {len(wanted)} of {len(self._contract.sites)} sites are "
                f"left, and {least} are needed"
            )
        known = self._known_list()
        if known is None or known == wanted:
            return wanted
        if not left:
            return known
        raise MessageError(
            f"key holders were asked to sign the sum of {', '.join(known)} in this round, and another list "
            "is refused for ever: go on with that one, or begin a new round"
        )

    def _fix_list(self, sites: list[str]) -> None:
        """Write down which sites are in the sum, before the first holder is asked to sign."""
        path = self._list_path
        with file_lock(path):
            known = self._known_list()
            if known is None:
                SiteList(tuple(sites)).save(path, public=True)
            elif known != sites:
                raise MessageError("another list of sites was written down in this round meanwhile")

    @property
    def _list_path(self) -> Path:
        return self.share / f"{self._contract.round_id}.list"

    def _known_list(self) -> list[str] | None:
        if not self._list_path.is_file():
            return None
        try:
            sites = SiteList.load(self._list_path).sites
            return sorted(sites, key=self._contract.place)
        except InvalidInputError:  # also of a site that is not in the contract
            raise FileFormatError(f"{self._list_path}: damaged: begin a new round") from None

    # --- sites and key holders ----------------------------------------------------------------------------

    def _gather(
        self, step: SumStep, contents: Mapping[str, list[bytes]], names: list[str], until: float
    ) -> None:
        """Have every site that is to be in the sum, or enough of the key holders, take a step."""
        of_sites, (kind, done) = step == "contribute", DONE[step]
        while True:
            have = self._found(names, kind)
            lacking: dict[str, str] = {}
            wanted = {name: what for name, what in contents.items() if name not in have}
            for name, reply in self._ask(step, wanted).items():
                found = _checked(reply, self._sender(kind), name)
                if isinstance(found, str):
                    lacking[name] = found
                    said = found if of_sites else f"dropped out half-way: it {found}"
                else:
                    write_whole(self.path(name, kind), found, public=True)
                    said = f"has {done} ({len(found)} bytes)" if of_sites else f"has {done}"
                self._tell(name if of_sites else f"key holder {name}", step, said)
            there = len(self._found(names, kind))
            if there >= (len(names) if of_sites else self._contract.threshold):
                return
            if not self._pause(until):
                few = self._few(f"have {done.partition(' ')[0]}", there, lacking)
                raise FederationError(self._lacking(names, lacking) if of_sites else few)

    def _collect(self, sites: list[str], until: float) -> None:
        """Have every site that is to be in the sum contribute, unless all have."""
        if len(self._found(sites, MESSAGE)) < len(sites):
            self._gather("contribute", {site: [] for site in sites}, sites, until)

    def _sender(self, kind: str) -> Callable[[bytes], str]:
        """What tells who has made the content of a file."""
        if kind == SIGNED:
            return lambda content: self._total.signed_list(content)[0]
        return self._total.site_of if kind == MESSAGE else self._total.holder_of

    def _lacking(self, sites: list[str], lacking: Mapping[str, str]) -> str:
        there, least = len(sites) - len(lacking), self._contract.least_sites
        who = "; ".join(f"{site} {why}" for site, why in sorted(lacking.items()))
        have = f"{there} of {len(self._contract.sites)} sites have contributed, and {least} are needed"
        if there < least:
            return f"only {have}: {who}. Nothing was opened; {AGAIN}"
        names = " ".join(sorted({*lacking, *(set(self._contract.sites) - set(sites))}))
        return f"{have}: {who}. Nothing was opened; {AGAIN}, or go on with --without {names}"

    def _check(self, sites: list[str], until: float) -> list[str]:
        """Give every holder its shares; those that can use all of them, and have not signed yet."""
        routed = self._total.route(self.message_of(site) for site in sites)
        signed = self._found(self._holders, SIGNED)
        ready: dict[str, Mapping[str, str]] = {}
        while True:
            left = {name: routed[name] for name in routed if name not in signed and name not in ready}
            lacking: dict[str, str] = {}
            for name, reply in self._ask("check", left).items():
                problems = _problems(reply) if isinstance(reply, bytes) else reply
                if isinstance(problems, str):
                    lacking[name] = problems
                    self._tell(f"key holder {name}", "check", problems)
                else:
                    ready[name] = problems
            if len(signed) + len(ready) >= self._contract.threshold:
                break
            if not self._pause(until):
                raise FederationError(self._few("are there", len(signed) + len(ready), lacking))
        self._refuse_problems(ready)
        return list(ready)

    def _refuse_problems(self, ready: Mapping[str, Mapping[str, str]]) -> None:
        """Stop before anybody signs a list with a site whose shares a holder cannot use."""
        for name, problems in ready.items():
            for site, problem in sorted(problems.items()):
                if site in self._contract.sites:
                    raise FederationError(
                        f"{site} dropped out half-way: key holder {name} says that it cannot use its message "
                        f"({problem[:200]}). Nothing was signed or opened; go on with --without {site}, or "
                        "begin a new round"
                    )

    def _few(self, what: str, there: int, lacking: Mapping[str, str]) -> str:
        n, t = len(self._contract.holders), self._contract.threshold
        who = "; ".join(f"{name} {why}" for name, why in sorted(lacking.items()))
        few = f"only {there} of {n} key holders {what}, and {t} are needed"
        return f"{few}: {who}. Nothing was opened; {AGAIN}"

    # --- asking -------------------------------------------------------------------------------------------

    def _ask(self, step: SumStep, contents: Mapping[str, list[bytes]]) -> dict[str, bytes | str]:
        """Take one step at several sites: what each made of it, or why it made nothing, in words."""
        running_spool(self._folder)
        spool, federation = ParcelSpool(self._folder.spool), self._folder.federation_id
        sent: dict[str, SumParcel] = {}
        try:
            for site, rest in contents.items():
                content = Bundle((self._head, *rest)).to_bytes()
                if len(content) > Limits().max_bytes:
                    raise FederationError(
                        f"the messages of the sites are larger than one message of the network "
                        f"({Limits().max_bytes >> 20} MiB): sum fewer columns, or fewer sites at a time"
                    )
                parcel = SumParcel(new_query_id(), site, step, content)
                signature = self._key.sign_step(
                    parcel, federation, self._contract.digest, purpose=self._purpose
                )
                spool.submit(ParcelRequest(parcel, self._key.key.name, self._timeout, signature))
                sent[site] = parcel
            found: dict[str, bytes | str] = {}
            for site, parcel in sent.items():
                found[site] = _said(spool.wait(parcel, self._timeout + GRACE))
            return found
        finally:
            spool.withdraw(parcel.query_id for parcel in sent.values())

    def _tell(self, who: str, step: str, what: str) -> None:
        """Say what a site does, once."""
        if self._told.get((who, step)) != what:
            self._told[who, step] = what
            self._say(f"{who} {what}")

    def _pause(self, until: float) -> bool:
        """Wait a little before asking again; False if the time is up."""
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(RETRY, left))
        return True


def _said(reply: SumParcel | Failure | str) -> bytes | str:
    if isinstance(reply, str):
        return reply
    if isinstance(reply, Failure):
        return SAID.get(reply.code, f"refused ({reply.code})")
    return reply.content


def _checked(reply: bytes | str, sender: Callable[[bytes], str], site: str) -> bytes | str:
    """What a site sent, if it is its own; otherwise what is wrong."""
    if isinstance(reply, str):
        return reply
    try:
        return reply if sender(reply) == site else "sent what another one has made"
    except InvalidInputError as error:
        return f"sent what cannot be used ({error})"


def _problems(content: bytes) -> Mapping[str, str] | str:
    """Sites whose shares a holder cannot use; if the reply cannot be read, what is wrong with it."""
    try:
        return UnusableShares.from_bytes(content).problems
    except OnefoldError:
        return "sent what cannot be used"
