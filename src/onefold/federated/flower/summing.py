"""What a site does in an encrypted sum: add its rows, and as a key holder check, sign and answer.

The steps are those of :mod:`onefold.federated.secret`; here they come as parcels from the server and go back.
Every parcel holds the contract and is signed by the querier. A site takes no part in a sum before its data
owner has approved the contract, whatever else it answers. What it would spend is in the contract, which is
kept for the data owner to look at. Rows of persons who were forgotten are left out.

``contribute``
    The contract. Back: the encrypted shares. The ledger of the folder is charged before they are made, and
    they are made once per round: asked again, the site sends the same bytes and spends nothing.
``check``
    The contract and the shares of all sites for this holder. Back: which sites' shares it cannot use.
``sign``
    The contract. Back: the signed list of the sites whose shares it has checked; one list per round.
``answer``
    The contract and the signed lists of the holders. Back: the sum of the shares, if t agree.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from onefold._base.files import write_whole
from onefold._base.records import Record, record
from onefold.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    MessageError,
    MissingDependencyError,
    OnefoldError,
    QueryRefused,
)
from onefold.federated.access.approvals import Approval, Approvals
from onefold.federated.access.guard import Replays
from onefold.federated.access.log import SiteEvent
from onefold.federated.access.signatures import QuerierKey, SumSignature
from onefold.federated.flower.admission import approvals_of, note_sent, site_log
from onefold.federated.flower.folders import SiteFolder, SiteSettings, private_folder
from onefold.federated.flower.keeping import begin_ledger
from onefold.federated.forgotten import ForgottenPersons, check_named, without_forgotten
from onefold.federated.messages import Bundle, Failure, FailureCode, Message, SumParcel
from onefold.federated.secret import HolderKey, SchemaSum, SumContract, SumHolder
from onefold.federated.secret.keys import KnownKeys
from onefold.tables import read_table

LOG = logging.getLogger(__name__)
LARGEST_CONTRACT = 4 * 2**20
REFUSALS: dict[type[Exception], FailureCode] = {
    BudgetExceededError: FailureCode.BUDGET_SPENT,
    MissingDependencyError: FailureCode.NO_ENCRYPTION,
    MessageError: FailureCode.MALFORMED,
}
OFFERED, SIGNED = "offered", "messages"  # what a holder was asked to sign, and what it has signed


def take_step(folder: SiteFolder, parcel: SumParcel, signature: SumSignature | None) -> Message:
    """Take one step of an encrypted sum, if the data owner has approved the contract."""
    settings = folder.settings
    code = FailureCode.INTERNAL
    try:
        if parcel.site != settings.name:
            raise QueryRefused(FailureCode.MALFORMED)
        if signature is None:
            raise QueryRefused(FailureCode.UNSIGNED)
        signature.check(parcel, folder.federation_id)
        Replays(folder.store).check(signature)
        contract, *rest = Bundle.from_bytes(parcel.content).parts
        taken = _Step(folder, settings, _admitted(folder, settings, contract, signature))
        content = getattr(taken, parcel.step)(rest)  # one of four names: a parcel has no others
        reply = SumParcel(parcel.query_id, settings.name, parcel.step, content)
        stated = signature.plain
        about = {"querier": stated.pop("name"), "id": signature.key.id, **stated}
        with folder.store.transaction():
            Replays(folder.store).enter(signature)
            note_sent(folder, SiteEvent.SUM_STEP, **about, **taken.about, bytes=len(reply.content))
        return reply
    except QueryRefused as refusal:
        code = FailureCode(refusal.code)
        LOG.warning("refused sum step=%s query=%s code=%s", parcel.step, parcel.query_id, code)
    except tuple(REFUSALS) as error:
        code = next(code for kind, code in REFUSALS.items() if isinstance(error, kind))
        LOG.warning("refused sum step=%s query=%s: %s", parcel.step, parcel.query_id, error)
    except Exception as error:
        # The kind of error only: its text may quote rows.
        LOG.error("failed sum step=%s query=%s error=%s", parcel.step, parcel.query_id, type(error).__name__)
    return Failure(parcel.query_id, settings.name, code)


@record
class UnusableShares(Record, kind="list of unusable shares"):
    """Sites whose shares a holder cannot use, and why."""

    problems: dict[str, str]


class _Step:
    """One site in one sum that was approved."""

    def __init__(self, folder: SiteFolder, settings: SiteSettings, summed: SchemaSum) -> None:
        self._folder, self._settings, self._summed = folder, settings, summed
        self._total, self._contract = summed.total, summed.total.contract
        self._rounds = private_folder(folder.rounds)
        self.about: dict[str, Any] = {"round": self._contract.round_id}

    def _kept(self, who: str, kind: str) -> Path:
        return self._rounds / self._contract.file(who, kind)

    def contribute(self, rest: list[bytes]) -> bytes:
        """Charge the ledger, draw this site's share of the noise, encrypt; or send the same bytes again."""
        site = self._settings.name
        self._contract.place(site)
        key = own_key(self._settings)
        promise = self._total.guarantee
        epsilon, delta = promise.record if promise.person is None else promise.person
        self.about |= {"unit": promise.unit, "epsilon": epsilon, "delta": delta}
        if self._kept(site, "sum").is_file():  # nothing is read, and nothing charged
            with refusing(FailureCode.OTHER_ROUND, self._contract):
                return self._total.contribute(site, None, self._rounds, key=key)  # type: ignore[arg-type]
        if self._settings.sum_table is None:
            raise QueryRefused(FailureCode.NOT_READY)
        vector = self._summed.vector(self._rows(self._settings.sum_table))
        with refusing(
            FailureCode.OTHER_ROUND, self._contract
        ):  # the second of two rounds only after the first
            self._summed.check_first(site, self._rounds)
        ledger = self._folder.ledger
        begin_ledger(self._folder, promise)
        return self._total.contribute(site, vector, self._rounds, key=key, ledger=ledger)

    def _rows(self, place: str) -> Any:
        """The rows of this site's table, without those of forgotten persons."""
        schema = self._summed.schema
        forgotten = ForgottenPersons(self._folder.store)
        with refusing(FailureCode.NOT_READY, self._contract):
            check_named(forgotten, schema)
        table = read_table(
            place, schema=schema.with_encoders(self._settings.sum_encoders or {}), private=True
        )
        return without_forgotten(forgotten, table, None, None, schema)[0]

    def check(self, rest: list[bytes]) -> bytes:
        """Keep the shares of all sites for this holder, and tell which of them cannot be used."""
        holder = self._holder()
        problems = holder.problems(rest)
        Bundle(tuple(rest)).save(self._kept(holder.name, OFFERED))
        return UnusableShares(problems).to_bytes()

    def sign(self, rest: list[bytes]) -> bytes:
        """Sign the list of the sites whose shares were checked last, unless another one was signed."""
        holder = self._holder()
        offered = self._kept(holder.name, OFFERED)
        if not offered.is_file():
            raise QueryRefused(FailureCode.NOT_READY)
        envelopes = Bundle.load(offered).parts
        with refusing(FailureCode.OTHER_ROUND, self._contract):
            signature = holder.sign(envelopes)
        Bundle(envelopes).save(self._kept(holder.name, SIGNED))
        return signature

    def answer(self, rest: list[bytes]) -> bytes:
        """Add up the shares of the sites on the signed list, if enough holders have signed the same one."""
        holder = self._holder()
        kept = self._kept(holder.name, SIGNED)
        if not kept.is_file():
            raise QueryRefused(FailureCode.NOT_READY)
        envelopes = Bundle.load(kept).parts
        with refusing(FailureCode.NOT_AGREED, self._contract):
            return holder.answer(envelopes, rest)

    def _holder(self) -> SumHolder:
        key = own_key(self._settings)
        with refusing(FailureCode.NOT_READY, self._contract):
            if key is None or key.name != self._settings.name:  # shares are sent to the site of that name
                raise InvalidInputError("the key of this site is missing, or has another name than the site")
            return SumHolder(self._total, key, self._rounds)


@contextmanager
def refusing(code: FailureCode, contract: SumContract) -> Iterator[None]:
    """Refuse a step with this code if the block fails, and say in the log why."""
    try:
        yield
    except InvalidInputError as error:
        LOG.warning("sum round=%s: %s", contract.round_id, error)
        raise QueryRefused(code) from None


def own_key(settings: SiteSettings) -> HolderKey | None:
    """The key of a site for encrypted sums, if it has one."""
    return None if settings.sum_key is None else HolderKey.load(settings.sum_key)


def known_keys(folder: SiteFolder) -> KnownKeys:
    """The keys that a site has met in encrypted sums."""
    settings = folder.settings
    return KnownKeys(private_folder(folder.rounds), settings.name, own_key(settings))


# --- approval -----------------------------------------------------------------------------------------------


class AskedSum(NamedTuple):
    """That a querier asks for one encrypted sum, for the data owner to decide about."""

    key: QuerierKey
    public: str
    purpose: str
    amount: int = 1


def _named(round_id: str) -> str:
    return f"encrypted sum {round_id}, contract "


def sum_approvals_of(folder: SiteFolder) -> Approvals:
    """What the data owner of a site has decided about encrypted sums."""
    return Approvals(site_log(folder), folder.settings.name, subject="sum")


def _admitted(
    folder: SiteFolder, settings: SiteSettings, content: bytes, signature: SumSignature
) -> SchemaSum:
    """The sum of a contract that was approved; otherwise it is kept, to be decided about, and refused."""
    # A querier that was refused as a whole is not listened to.
    asked = AskedSum(signature.key, signature.public, signature.purpose)
    approvals_of(folder).admit(asked, 0, "anyone", count=False)
    if len(content) > LARGEST_CONTRACT:
        raise QueryRefused(FailureCode.TOO_LARGE)
    try:
        summed = SchemaSum.from_bytes(content)
        summed.schema.require_confirmed("the contract")
    except InvalidInputError as error:
        raise MessageError(f"a contract cannot be used: {error}") from None
    contract = summed.total.contract
    if contract.digest != signature.contract:
        raise QueryRefused(FailureCode.BAD_SIGNATURE)
    if settings.name not in (*contract.sites, *(holder.name for holder in contract.holders)):
        raise QueryRefused(FailureCode.MALFORMED)
    with refusing(FailureCode.UNTRUSTED_KEY, contract):
        known_keys(folder).check(contract)
    # Of two rounds the first is asked for: its promise covers both, and the second follows from it.
    first = (summed if summed.first is None else summed.first).total.contract
    stated = f": {signature.purpose}" if signature.purpose else ""
    asked = asked._replace(purpose=f"{_named(first.round_id)}{first.digest}{stated}")
    # Before the data owner can decide, there is something to look at.
    kept = private_folder(folder.rounds) / f"{contract.digest}.contract"
    try:
        sum_approvals_of(folder).admit(asked, 1, "purposes", count=False)
    except QueryRefused as refusal:
        if refusal.code == FailureCode.WAITING and not kept.is_file():
            write_whole(kept, content)
        raise
    return summed


def known_sums(folder: SiteFolder) -> list[tuple[Approval, SchemaSum | None]]:
    """Every sum that was asked for with what was decided, what waits first; None if its contract is gone."""
    found: list[tuple[Approval, SchemaSum | None]] = []
    for entry in sum_approvals_of(folder).entries():
        digest = (entry.purpose or "").partition(", contract ")[2][:64]
        try:
            summed: SchemaSum | None = SchemaSum.load(folder.rounds / f"{digest}.contract")
        except OnefoldError:
            summed = None
        is_it = summed is not None and summed.total.contract.digest == digest
        found.append((entry, summed if is_it else None))
    return found


def decide_sum(
    folder: SiteFolder, who: str, name: str, *, approve: bool, until: int | None = None
) -> tuple[Approval, ...]:
    """Let the site take part in a sum that a querier has asked for, or refuse it.

    What is approved is the contract by its digest, with every key in it; keys that were not known are from
    now on, and another key under the same name is refused.

    Parameters
    ----------
    folder : the site's. who : name or id of the querier. name : the round, or the beginning of the digest of
        its contract. approve : False refuses. until : when an approval ends, in seconds since 1970.
    """
    approvals = sum_approvals_of(folder)
    chosen = [
        (entry, summed)
        for entry, summed in known_sums(folder)
        if who in (entry.querier.name, entry.querier.id) and _is_named(entry.purpose or "", name)
    ]
    if not chosen:
        raise InvalidInputError(f"{who} has not asked for an encrypted sum {name}: see the list")
    if len(chosen) > 1:
        raise InvalidInputError(
            f"{who} has asked for several sums {name}: give the id of the querier and the digest of the "
            "contract, as the list shows them"
        )
    entry, summed = chosen[0]
    if approve:
        if summed is None:
            raise InvalidInputError("its contract is not here any more: have the querier ask again")
        known_keys(folder).keep(summed.total.contract)
        return approvals.approve(entry.querier.id, "purposes", purpose=entry.purpose, rows=1, until=until)
    return approvals.deny(entry.querier.id, "purposes", purpose=entry.purpose)


def _is_named(purpose: str, name: str) -> bool:
    digest = purpose.partition(", contract ")[2][:64]
    return purpose.startswith(_named(name)) or (len(name) >= 8 and digest.startswith(name))
