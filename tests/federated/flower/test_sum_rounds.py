"""Encrypted sums over the network without one: sites, key holders, data owners, and a server that lies."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Metadata
from flwr.app.message import make_message

from onefold._base.frames import join_frames, split_frames
from onefold.cli.app import main
from onefold.exceptions import FederationError, FileFormatError, MessageError, TamperedLogError
from onefold.federated import HolderKey, SchemaSum, SumHolder, SumParties
from onefold.federated.flower import Federation, Site, SumRound, nodes
from onefold.federated.flower.admission import exported_log
from onefold.federated.flower.registry import Status
from onefold.federated.flower.server_app import Coordinator
from onefold.federated.flower.site_app import answer_message, to_records
from onefold.federated.flower.spool import Spool
from onefold.federated.flower.summing import decide_sum, known_sums, take_step
from onefold.federated.log import SiteLog
from onefold.federated.messages import Failure, FailureCode, SumParcel
from onefold.federated.queriers import SigningKey
from onefold.federated.replays import Replays
from onefold.federated.sums.round_files import RoundFiles
from onefold.privacy import Ledger
from onefold.report import site_log_page
from onefold.tables import Field, Schema, read_table

NAMES = ("north", "south", "west")
SCHEMA = Schema(
    (
        Field("age", low=0, high=100),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("ill", "string", "label", levels=("no", "yes")),
    ),
    rows_about=300,
)
WARD = SigningKey("ward", bytes(32))


def write_rows(path: Path, seed: int, n: int = 100) -> None:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(0, 100, n), rng.choice(list("abc"), n)
    ill = np.where(age > 50, "yes", "no")
    lines = [f"{a},{w},{i}" for a, w, i in zip(age, ward, ill, strict=True)]
    path.write_text("\n".join(["age,ward,ill", *lines]) + "\n")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Present:
    """A node as Flower lists it."""

    def __init__(self, node_id: int) -> None:
        self.node_id, self.last_activated_at = node_id, "today"


class Grid:
    """Flower's grid: what is sent to a site that is there is answered at once, by the site's own code."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._patch = root, monkeypatch
        self.there = set(NAMES)
        self._replies: dict[str, Any] = {}

    def get_nodes(self) -> list[Present]:
        return [Present(number) for number, name in enumerate(NAMES) if name in self.there]

    def send(
        self,
        kind: str,
        nodes: dict[str, int],
        messages: Any,
        timeout: float,
        caller: str,
        signatures: Any = (),
    ) -> dict[str, str]:
        numbers = {}
        for site, node in nodes.items():
            number = str(len(self._replies))
            about = {"run_id": 1, "message_id": number, "src_node_id": 1, "dst_node_id": node, "group_id": ""}
            metadata = Metadata(
                **about, reply_to_message_id="", created_at=time.time(), ttl=timeout, message_type=kind
            )
            envelope = make_message(metadata=metadata, content=to_records(messages, caller, signatures))
            self._patch.setenv("ONEFOLD_SITE", str(self.root / "sites" / NAMES[node]))
            self._replies[number] = answer_message(envelope, None)
            numbers[number] = site
        return numbers

    def pull_messages(self, numbers: Any) -> list[Any]:
        return [self._replies[number] for number in numbers]


class Network:
    """A server and three sites, which are key holders too, in this process."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.federation = Federation.create(root / "f", NAMES, insecure=True)
        self.root, self.share = root / "f", root / "share"
        self.share.mkdir()
        self.grid = Grid(self.root, monkeypatch)
        Spool(self.federation.folder.spool).open_run()  # a run takes up what is asked of it from its start on
        self.coordinator = Coordinator(self.grid, self.federation.folder)
        self.coordinator.send = self.grid.send  # type: ignore[method-assign]
        self.coordinator.reception._send = self.grid.send
        self.keys = {name: HolderKey.new(name) for name in NAMES}
        self.tables = {name: root / f"{name}.csv" for name in NAMES}
        for number, name in enumerate(NAMES):
            write_rows(self.tables[name], number)
            self.keys[name].save(root / f"{name}.key")
            self.site(name).folder.prepare()
            self.site(name).configure(sum_table=self.tables[name], sum_key=root / f"{name}.key")
        self.said: list[str] = []
        self._going = True
        self._thread = threading.Thread(target=self._run)
        self.coordinator.step()
        self.coordinator.step()  # who is there has said who it is
        self._thread.start()
        until(lambda: self.online() == set(NAMES))

    def _run(self) -> None:
        while self._going:
            self.coordinator._told = 0.0
            self.coordinator.step()

    def close(self) -> None:
        self._going = False
        self._thread.join()

    def online(self) -> set[str]:
        return set(self.coordinator.spool.status() or ())

    def leave(self, name: str) -> None:
        self.grid.there.discard(name)
        until(lambda: name not in self.online())

    def site(self, name: str) -> Site:
        return Site(self.root / "sites" / name)

    def contract(self, name: str = "spring", missing: int = 1, epsilon: float = 2.0) -> SchemaSum:
        holders = tuple(key.public for key in self.keys.values())
        parties = SumParties(NAMES, holders, 2, missing_sites=missing, colluding_sites=1)
        return SchemaSum(name, parties, SCHEMA, "moments", epsilon)

    def round(self, summed: SchemaSum, kind: type[SumRound] = SumRound, key: SigningKey = WARD) -> SumRound:
        folder = self.federation.folder
        return kind(folder, summed, self.share, key, purpose="triage", say=self.said.append)

    def wait_everywhere(self, summed: SchemaSum) -> str:
        """Ask for the first time; what the querier is told."""
        with pytest.raises(FederationError) as refused:
            self.round(summed).run()
        return str(refused.value)

    def approve(self, summed: SchemaSum, *names: str) -> None:
        self.wait_everywhere(summed)
        for name in names or NAMES:
            decide_sum(self.site(name).folder, "ward", summed.total.contract.round_id, approve=True)

    def events(self, name: str) -> list[str]:
        log = SiteLog(self.site(name).folder.audit)
        log.verify()
        return [entry.event.value for entry in log]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    made = Network(tmp_path, monkeypatch)
    yield made
    made.close()


def by_files(net: Network, summed: SchemaSum, folder: Path, sites: tuple[str, ...] = NAMES) -> Any:
    """The same messages, with files carried by hand."""
    files, folder = RoundFiles(summed, net.share), folder / "by-files"
    folder.mkdir()
    holders = [SumHolder(summed.total, key, folder) for key in net.keys.values()]
    return summed.total.together([files.message_of(site) for site in sites], holders)


# --- a whole round ------------------------------------------------------------------------------------------


def test_round_is_opened_once_every_data_owner_has_approved_and_is_that_of_files(
    net: Network, tmp_path: Path
) -> None:
    summed = net.contract()
    said = net.wait_everywhere(summed)
    assert "only 0 of 3 sites have contributed, and 2 are needed: north waits for its data owner" in said
    assert not any(site.folder.ledger.exists() for site in map(net.site, NAMES))
    net.approve(summed)
    opened = net.round(summed).run()
    assert opened.sites == NAMES
    assert opened.checked
    assert opened.guarantee.holds
    other = by_files(net, summed, tmp_path)
    np.testing.assert_array_equal(opened.vector, other.vector)
    assert opened.guarantee.to_dict() == other.guarantee.to_dict()
    # The noise is far smaller than the sum of the tables, which is what the sum is of.
    plain = sum(summed.vector(read_table(path, schema=SCHEMA)) for path in net.tables.values())
    sigma = np.concatenate([np.full(b.length, b.sigma) for b in summed.total.contract.blocks])
    # Six standard deviations of the largest noise that all sites together can add.
    assert np.all(np.abs(opened.vector - plain) < 6 * sigma * np.sqrt(3))
    for name in NAMES:
        assert net.events(name) == ["waiting", "approved", *["sum-step"] * 4]
        ledger = Ledger.load(net.site(name).folder.ledger)
        assert [event.name for event in ledger.events] == ["encrypted sum spring"]
        assert ledger.total()[0] == pytest.approx(2.0)


def test_asking_again_gives_the_same_bytes_and_charges_nothing(net: Network) -> None:
    summed = net.contract()
    net.approve(summed)
    first = net.round(summed).run()
    files = {path.name: path.read_bytes() for path in net.share.iterdir() if path.suffix != ".lock"}
    for path in net.share.iterdir():
        path.unlink()  # the querier has lost everything
    net.tables["north"].write_text("age,ward,ill\n1,a,no\n")  # and a table is another one by now
    again = net.round(summed).run()
    np.testing.assert_array_equal(first.vector, again.vector)
    for path in net.share.iterdir():
        if path.suffix != ".lock":
            assert path.read_bytes() == files[path.name]
    assert len(Ledger.load(net.site("north").folder.ledger).events) == 1


def test_site_and_holder_that_drop_out_half_way_are_named_and_the_round_goes_on(
    net: Network, tmp_path: Path
) -> None:
    summed = net.contract()
    net.approve(summed)
    seen: list[str] = []

    class Leaving(SumRound):
        def _ask(self, step: str, contents: Any) -> Any:
            found = super()._ask(step, contents)
            if step == "contribute" and contents:
                seen.extend(contents)
                net.leave("west")  # it has contributed, and goes
            return found

    opened = net.round(summed, Leaving).run()
    assert sorted(seen) == list(NAMES)
    assert opened.sites == NAMES  # its shares are there
    assert not opened.checked
    assert "key holder west is not connected" in net.said
    np.testing.assert_array_equal(opened.vector, by_files(net, summed, tmp_path).vector)


def test_site_that_never_comes_is_left_out_if_the_contract_allows_it(net: Network, tmp_path: Path) -> None:
    net.leave("west")
    summed = net.contract()
    net.approve(summed, "north", "south")
    with pytest.raises(FederationError, match="2 of 3 sites have contributed, and 2 are needed") as stopped:
        net.round(summed).run()
    assert "west is not connected" in str(stopped.value)
    assert str(stopped.value).endswith("or go on with --without west")
    opened = net.round(summed).run(without=["west"])
    assert opened.sites == ("north", "south")
    other = by_files(net, summed, tmp_path, ("north", "south"))
    np.testing.assert_array_equal(opened.vector, other.vector)
    # The list is fixed now, whoever comes.
    net.grid.there.add("west")
    with pytest.raises(MessageError, match="another list is refused for ever"):
        net.round(summed).run(without=["south"])
    assert net.round(summed).run().sites == ("north", "south")


def test_fewer_sites_than_the_contract_needs_open_nothing(net: Network) -> None:
    net.leave("west")
    summed = net.contract("strict", missing=0)
    net.approve(summed, "north", "south")
    with pytest.raises(FederationError, match="only 2 of 3 sites have contributed, and 3 are needed"):
        net.round(summed).run()
    with pytest.raises(MessageError, match="without west 2 of 3 sites are left, and 3 are needed"):
        net.round(summed).run(without=["west"])
    assert not list(net.share.glob("*.answer"))


def test_more_missing_holders_than_the_threshold_allows_open_nothing_until_they_are_back(
    net: Network,
) -> None:
    summed = net.contract()
    net.approve(summed)
    for name in ("south", "west"):
        net.site(name).configure(sum_key=net.root.parent / "north.key")  # not the key of this holder
    with pytest.raises(FederationError, match="only 1 of 3 key holders are there, and 2 are needed") as few:
        net.round(summed).run()
    assert "south has no table or no key for this sum" in str(few.value)
    assert not list(net.share.glob("*.answer"))
    net.site("south").configure(sum_key=net.root.parent / "south.key")
    assert net.round(summed).run().sites == NAMES


def test_site_whose_message_a_holder_cannot_use_is_named_before_anybody_signs(net: Network) -> None:
    summed = net.contract()
    net.approve(summed)
    total = summed.total
    other = HolderKey.new("south")  # west has encrypted to a key that south does not have
    wrong = summed.total.contract.holders[1]
    object.__setattr__(
        total.contract, "holders", (net.keys["north"].public, other.public, net.keys["west"].public)
    )
    table = read_table(net.tables["west"], schema=SCHEMA)
    message = total.contribute("west", summed.vector(table), net.root)
    object.__setattr__(total.contract, "holders", (net.keys["north"].public, wrong, net.keys["west"].public))
    (net.share / "spring.west.sum").write_bytes(message)
    with pytest.raises(
        FederationError, match="west dropped out half-way: key holder south says that it cannot use"
    ) as lost:
        net.round(summed).run()
    assert "Nothing was signed or opened; go on with --without west" in str(lost.value)
    assert net.round(summed).run(without=["west"]).sites == ("north", "south")


def test_key_holder_without_rows_takes_part_and_adds_nothing(net: Network) -> None:
    settings = net.site("west").folder
    settings.settings.__class__("west", "127.0.0.1", 8443, insecure=True).save(settings.settings_file)
    net.site("west").configure(sum_key=net.root.parent / "west.key")
    holders = tuple(key.public for key in net.keys.values())
    summed = SchemaSum("two", SumParties(("north", "south"), holders, 2, colluding_sites=0), SCHEMA)
    with pytest.raises(FederationError, match="waits"):
        net.round(summed).run()
    for name in ("north", "south"):
        decide_sum(net.site(name).folder, "ward", "two", approve=True)
    opened = net.round(summed).run()
    assert opened.sites == ("north", "south")
    assert (
        "key holder west waits for its data owner's approval (onefold federate approvals list there)"
        in net.said
    )


def test_two_rounds_need_one_approval_and_are_charged_once(
    net: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SigningKey.create("lab", tmp_path / "keys")
    holders = tuple(key.public for key in net.keys.values())
    parties = SumParties(NAMES, holders, 2, missing_sites=1, colluding_sites=1)
    first = SchemaSum("spring", parties, SCHEMA, "moments", 2.0, rounds=2)
    contract = net.share / "spring-1.contract"
    first.save(contract)
    run = ["federate", "sum", "run", "--contract", str(contract), "--folder", str(net.federation.folder.root)]
    run += ["--querier", str(tmp_path / "keys" / "lab.signkey"), "--out", str(tmp_path / "all.onefold")]
    assert main(run) == 1
    capsys.readouterr()
    for name in NAMES:
        folder = net.site(name).folder
        assert main(["federate", "approvals", "list", "--folder", str(folder.root)]) == 0
        assert "two rounds: approving the first covers the second" in capsys.readouterr().out
        decide_sum(folder, "lab", "spring-1", approve=True)
    assert main(run) == 0, capsys.readouterr().err
    assert "epsilon 2 per record" in capsys.readouterr().out
    second = SchemaSum.load(net.share / "spring-2.contract")
    assert second.first is not None
    assert second.first.total.contract.digest == first.total.contract.digest
    for name in NAMES:
        ledger = Ledger.load(net.site(name).folder.ledger)
        assert [event.name for event in ledger.events] == ["encrypted sum spring-1"]
        assert net.events(name) == ["waiting", "approved", *["sum-step"] * 8]
    # A site that has not paid for the first round takes no part in the second.
    lab = SigningKey.load(tmp_path / "keys" / "lab.signkey")
    folder = net.site("north").folder
    for path in folder.rounds.glob("spring-?.north.sum"):
        path.unlink()
    parcel = SumParcel("q9", "north", "contribute", join_frames([second.to_bytes()]))
    signed = lab.sign_step(parcel, folder.federation_id, second.total.contract.digest)
    reply = take_step(folder, parcel, signed)
    assert isinstance(reply, Failure)
    assert reply.code is FailureCode.OTHER_ROUND


def test_second_contract_that_does_not_follow_from_the_answers_is_refused(net: Network) -> None:
    holders = tuple(key.public for key in net.keys.values())
    parties = SumParties(NAMES, holders, 2, missing_sites=1, colluding_sites=1)
    first = SchemaSum("spring", parties, SCHEMA, "moments", 2.0, rounds=2)
    tables = {name: read_table(path, schema=SCHEMA) for name, path in net.tables.items()}
    messages = [first.total.contribute(name, first.vector(tables[name]), net.root) for name in NAMES]
    routed = first.total.route(messages)
    both = [SumHolder(first.total, key, net.root) for key in net.keys.values()]
    lists = [holder.sign(routed[holder.name]) for holder in both]
    answers = [holder.answer(routed[holder.name], lists) for holder in both]
    second = first.proceed(answers)
    assert SchemaSum.from_bytes(second.to_bytes()).total.contract == second.total.contract
    plain = json.loads(second.to_bytes())
    for change in (
        {"answers": plain["answers"][:1]},  # fewer than the threshold
        {"contract": plain["contract"] | {"agreement": "00" * 32}},
        {"contract": plain["contract"] | {"earlier_mu": 0.0}},
        {"first": plain["first"] | {"threshold": 3}},
        {"rounds": 1},
    ):
        with pytest.raises(FileFormatError):
            SchemaSum.from_bytes(json.dumps(plain | change).encode())


# --- what a server may try ----------------------------------------------------------------------------------


def test_server_that_shows_holders_different_lists_gets_no_answer(net: Network) -> None:
    summed = net.contract()
    net.approve(summed)
    full = summed.total.route
    lists = {"north": NAMES, "south": ("north", "south"), "west": ("north", "west")}

    class Hostile(SumRound):
        def _ask(self, step: str, contents: Any) -> Any:
            if step == "check":
                files = self.files
                routed = {
                    name: full([files.message_of(site) for site in sites])[name]
                    for name, sites in lists.items()
                }
                contents = {name: routed[name] for name in contents}
            return super()._ask(step, contents)

    with pytest.raises(
        FederationError, match="only 0 of 3 key holders have answered, and 2 are needed"
    ) as no:
        net.round(summed, Hostile).run()
    assert "somebody showed them different lists" in str(no.value)
    assert len(list(net.share.glob("*.signed"))) == 3
    assert not list(net.share.glob("*.answer"))
    # What was signed stays signed: an honest server cannot make them sign another list either.
    for path in net.share.glob("*.signed"):
        path.unlink()
    with pytest.raises(FederationError, match="only 1 of 3 key holders have signed") as late:
        net.round(summed).run()
    assert "knows this round with another contract or another list of sites" in str(late.value)


def asked(net: Network, name: str, step: str = "contribute", *rest: bytes, **change: Any) -> Any:
    """One step as a server may send it; what the site says."""
    summed = change.get("summed", net.contract())
    folder = net.site(name).folder
    parcel = SumParcel(change.get("id", "q1"), name, step, join_frames([summed.to_bytes(), *rest]))
    digest = change.get("digest", summed.total.contract.digest)
    clock = change.get("clock")
    extra = {} if clock is None else {"clock": clock}
    key = change.get("key", WARD)
    signature = key.sign_step(parcel, folder.federation_id, digest, purpose="triage", **extra)
    sent = change.get("sent", parcel)
    reply = take_step(folder, sent, None if change.get("unsigned") else signature)
    return reply.code if isinstance(reply, Failure) else reply


def test_site_takes_no_step_that_its_querier_has_not_signed(net: Network) -> None:
    summed = net.contract()
    net.approve(summed, "north")
    fine = {"summed": summed}
    assert asked(net, "north", unsigned=True, **fine) is FailureCode.UNSIGNED
    other = SumParcel("q1", "north", "sign", join_frames([summed.to_bytes()]))
    assert asked(net, "north", sent=other, **fine) is FailureCode.BAD_SIGNATURE
    assert asked(net, "north", digest="00" * 32, **fine) is FailureCode.BAD_SIGNATURE
    assert asked(net, "north", clock=lambda: 1e9, **fine) is FailureCode.STALE
    stranger = SigningKey("ward", bytes(31) + b"1")  # the same name, another key
    assert asked(net, "north", key=stranger, **fine) is FailureCode.WAITING
    assert isinstance(asked(net, "north", **fine), SumParcel)
    assert asked(net, "north", **fine) is FailureCode.REPLAYED
    assert isinstance(asked(net, "north", id="q2", **fine), SumParcel)


def test_second_contract_of_a_round_is_refused_and_charges_nothing(net: Network) -> None:
    summed, second = net.contract(), net.contract(epsilon=1.0)
    net.approve(summed, "north")
    first = asked(net, "north", summed=summed)
    assert isinstance(first, SumParcel)
    assert asked(net, "north", summed=second, id="q2") is FailureCode.WAITING
    decide_sum(net.site("north").folder, "ward", second.total.contract.digest[:16], approve=True)
    assert asked(net, "north", summed=second, id="q3") is FailureCode.OTHER_ROUND
    assert len(Ledger.load(net.site("north").folder.ledger).events) == 1


def test_contract_that_does_not_follow_from_its_schema_is_refused(net: Network) -> None:
    summed = net.contract()
    plain = json.loads(summed.to_bytes())
    plain["contract"]["blocks"][0]["sigma"] /= 2
    content = json.dumps(plain).encode()

    class Changed:
        total = summed.total

        def to_bytes(self) -> bytes:
            return content

    assert asked(net, "north", summed=Changed()) is FailureCode.MALFORMED


def test_denied_sum_and_denied_querier_get_nothing(net: Network) -> None:
    summed = net.contract()
    net.wait_everywhere(summed)
    decide_sum(net.site("north").folder, "ward", "spring", approve=False)
    assert asked(net, "north", summed=summed) is FailureCode.DENIED
    lab = SigningKey.create("lab", net.root.parent / "keys")
    net.site("south").approvals().deny(str(net.root.parent / "keys" / "lab.pub"), "queriers")
    assert asked(net, "south", summed=summed, key=lab) is FailureCode.DENIED
    assert "north was told by its data owner not to take part" in net.wait_everywhere(summed)


def test_ledger_without_room_refuses_and_nothing_leaves(net: Network) -> None:
    summed = net.contract()
    net.approve(summed)
    folder = net.site("north").folder
    Ledger(limit_epsilon=1.0, unit="record", neighbours=summed.total.guarantee.neighbours).save(folder.ledger)
    assert asked(net, "north", summed=summed) is FailureCode.BUDGET_SPENT
    assert not (folder.rounds / "spring.north.sum").exists()
    assert Ledger.load(folder.ledger).events == ()
    assert "north has not enough left in its ledger" in net.wait_everywhere(summed)


def test_approval_of_a_querier_is_none_of_its_sums_whatever_earlier_settings_said(net: Network) -> None:
    summed = net.contract()
    site = net.site("north")
    plain = json.loads(site.folder.settings_file.read_text())
    site.folder.settings_file.write_text(json.dumps(plain | {"sum_approval": "queriers"}))
    lab = SigningKey.create("lab", net.root.parent / "keys")
    assert asked(net, "north", summed=summed, key=lab) is FailureCode.WAITING
    site.approvals().approve(str(net.root.parent / "keys" / "lab.pub"), "queriers")
    assert asked(net, "north", summed=summed, key=lab) is FailureCode.WAITING


# --- the site and its data owner ----------------------------------------------------------------------------


def test_site_for_sums_only_is_there_and_no_member(net: Network) -> None:
    assert net.site("north").only_sums
    status = {site.name: site for site in net.federation.status().sites}
    assert all(status[name].online for name in NAMES)
    registry = net.coordinator.registry
    assert [registry.sites[name].status for name in NAMES] == [Status.INVITED] * 3
    assert not registry.members


def test_data_owner_sees_what_a_sum_would_spend_and_decides(
    net: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    summed = net.contract()
    net.wait_everywhere(summed)
    folder = ("--folder", str(net.site("north").folder.root))
    assert main(["federate", "approvals", "list", *folder]) == 0
    said = capsys.readouterr().out
    assert f"WAITS: encrypted sum spring, contract {summed.total.contract.digest}: triage" in said
    assert "moments of the columns age, ward, ill" in said
    assert "summed over north, south, west; at least 2 of them are in the sum" in said
    assert "the noise is enough if 2 of 3 add none" in said
    assert "epsilon 2 per record" in said
    assert main(["federate", "approvals", "approve", "ward", "--sum", "summer", *folder]) == 2
    assert main(["federate", "approvals", "approve", "ward", "--sum", "spring", "--rows", "3", *folder]) == 2
    capsys.readouterr()
    assert main(["federate", "approvals", "approve", "ward", "--sum", "spring", *folder]) == 0
    assert "approved: encrypted sum spring" in capsys.readouterr().out
    (known,) = known_sums(net.site("north").folder)
    assert known[0].decision == "approved"
    assert main(["federate", "approvals", "deny", "ward", "--sum", "spring", *folder]) == 0
    assert asked(net, "north", summed=summed) is FailureCode.DENIED
    assert net.events("north") == ["waiting", "approved", "denied"]
    assert main(["federate", "log", "export", "--json", "-", *folder]) == 0


def test_exported_log_holds_signatures_of_steps_and_finds_changed_ones(net: Network) -> None:
    summed = net.contract()
    net.approve(summed, "north")
    assert isinstance(asked(net, "north", summed=summed), SumParcel)
    folder = net.site("north").folder
    found = exported_log(folder)
    assert (found["signatures"], found["unsigned"]) == (1, 0)
    facts = found["entries"][-1]["facts"]
    assert (facts["round"], facts["step"]) == ("spring", "contribute")
    assert (facts["epsilon"], facts["unit"]) == (2.0, "record")
    assert "encrypted sum: contribute, round spring" in site_log_page(found)
    # Whoever writes a chain of its own cannot sign for the querier.
    SiteLog(folder.audit).append("sum-step", "north", **facts | {"step": "answer"})
    with pytest.raises(TamperedLogError, match="line 4 of the log has a signature that is not the querier"):
        exported_log(folder)


def test_site_without_a_model_says_that_it_is_there_for_sums(
    net: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["federate", "site", "--folder", str(net.site("north").folder.root), "--fit-only"]
    assert main(folder) == 0
    said = capsys.readouterr().out
    assert "site north: no model, no query is answered" in said
    assert f"adds the rows of {net.tables['north']} and has the key {tmp_path / 'north.key'}" in said
    assert main([*folder, "--sum-table", str(tmp_path / "nothing.csv")]) == 2
    assert "nothing.csv: no such file" in capsys.readouterr().err
    assert net.site("north").settings.sum_table == str(net.tables["north"])


def test_command_goes_through_a_round_and_writes_what_open_writes(
    net: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    summed = net.contract()
    summed.save(net.share / "spring.contract")
    given = ["--contract", str(net.share / "spring.contract")]
    run = ["federate", "sum", "run", *given, "--folder", str(net.federation.folder.root), "--querier", "lab"]
    out = tmp_path / "all.onefold"
    assert main([*run, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "made a key to sign with" in said
    assert "north waits for its data owner's approval" in said
    for name in NAMES:
        decide_sum(net.site(name).folder, "lab", "spring", approve=True)
    assert main([*run, "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "epsilon 2 per record" in said.out
    assert "sum of north, south, west" in said.out
    assert "key holder west has answered" in said.err
    other = tmp_path / "other.onefold"
    assert main(["federate", "sum", "open", *given, "--out", str(other)]) == 0
    assert other.read_bytes() == out.read_bytes()


def test_pause_holds_for_a_step_that_was_taken_and_has_not_left(
    net: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed = net.contract()
    net.approve(summed, "north")
    site, enter = net.site("north"), Replays.enter

    def paused_now(*what: Any) -> None:
        site.pause()
        enter(*what)

    with monkeypatch.context() as patch:
        patch.setattr(Replays, "enter", paused_now)
        assert asked(net, "north", summed=summed) is FailureCode.PAUSED
    assert net.events("north")[-1] == "paused"
    said = net.wait_everywhere(summed)
    assert "north is paused by its data owner" in said
    site.pause(False)
    assert isinstance(asked(net, "north", id="q2", summed=summed), SumParcel)


def test_parcels_for_sites_that_are_not_there_come_back_at_once(net: Network) -> None:
    for name in NAMES:
        net.leave(name)
    said = net.wait_everywhere(net.contract())
    assert "north is not connected; south is not connected; west is not connected" in said


def test_parcel_content_is_the_contract_and_what_belongs_to_the_step() -> None:
    parcel = SumParcel("q", "north", "answer", join_frames([b"contract", b"list"]))
    assert split_frames(parcel.content) == [b"contract", b"list"]
    with pytest.raises(MessageError, match="one of contribute, check, sign, answer"):
        SumParcel("q", "north", "open", b"x")


class Started:
    """A process of Flower's that only counts how often it was started."""

    pid, is_running = 1, True
    count = 0

    def __init__(self, *_: object) -> None:
        type(self).count += 1

    def output(self) -> str:
        return ""

    def stop(self) -> None:
        pass


def test_site_for_sums_only_starts_and_connects_again_after_its_first_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Federation.create(tmp_path / "f", NAMES, insecure=True)
    write_rows(tmp_path / "rows.csv", 0)
    site = Site(tmp_path / "f" / "sites" / "north").configure(sum_table=tmp_path / "rows.csv")
    site.folder.prepare()
    monkeypatch.setattr(Started, "count", 0)
    monkeypatch.setattr(nodes, "Process", Started)
    monkeypatch.setattr(nodes.Node, "_is_server_there", lambda self: True)
    said: list[str] = []
    node = nodes.Node(site.folder, said.append)
    for _ in range(3):
        node.check()
    assert (Started.count, said) == (1, [])
    site.fit(read_table(tmp_path / "rows.csv", schema=SCHEMA), schema=SCHEMA)
    for _ in range(3):
        node.check()
    assert (Started.count, len(said)) == (2, 1)


# --- forgotten persons, encoders, addresses -----------------------------------------------------------------

OF_PERSONS = Schema((Field("who", "string", "person"), *SCHEMA.fields), rows_per_person=2, rows_about=300)


def seen_rows(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """How many rows are summed, and whether those of p3 are among them."""
    seen: list[tuple[int, bool]] = []
    vector = SchemaSum.vector

    def look(self: SchemaSum, table: Any) -> Any:
        seen.append((table.n_rows, "p3" in OF_PERSONS.persons(table)))
        return vector(self, table)

    monkeypatch.setattr(SchemaSum, "vector", look)
    return seen


def write_persons(path: Path) -> None:
    lines = [f"p{i},{i % 90},a,{'no' if i % 2 else 'yes'}" for i in range(60)]
    path.write_text("\n".join(["who,age,ward,ill", *lines]) + "\n")


def test_forgotten_persons_are_in_no_sum(
    net: Network, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_persons(net.tables["north"])
    folder = net.site("north").folder
    where = ("--folder", str(folder.root))
    assert main(["federate", "site", "forget", "--person", "p3", *where]) == 0
    said = capsys.readouterr().out
    assert "no model: nothing was fitted anew" in said
    assert "every message for an encrypted sum" in said
    assert main(["federate", "site", "status", *where]) == 0
    assert "forgotten: 1 person" in capsys.readouterr().out
    of_records = net.contract("records")
    net.approve(of_records, "north")
    assert asked(net, "north", summed=of_records) is FailureCode.NOT_READY
    assert not folder.ledger.exists()
    holders = tuple(key.public for key in net.keys.values())
    summed = SchemaSum("persons", SumParties(NAMES, holders, 2, 1, 1), OF_PERSONS, "moments", 2.0)
    net.approve(summed, "north")
    seen = seen_rows(monkeypatch)
    assert isinstance(asked(net, "north", summed=summed), SumParcel)
    assert seen == [(59, False)]
    # The same by files, which know the list if they are told the folder of the site.
    for name, made in (("persons", summed), ("records", of_records)):
        made.save(tmp_path / f"{name}.contract")
    words = ["federate", "sum", "contribute", str(net.tables["north"]), "--site", "north", *where]
    assert main([*words, "--contract", str(tmp_path / "persons.contract")]) == 0
    assert seen[1:] == [(59, False)]
    assert main([*words, "--contract", str(tmp_path / "records.contract")]) == 2
    assert "the contract's schema has no person column" in capsys.readouterr().err


def test_address_of_a_table_for_sums_is_kept_whole_and_without_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Federation.create(tmp_path / "f", NAMES, insecure=True)
    site = Site(tmp_path / "f" / "sites" / "north")
    for address in ("postgresql://u:SECRET@h/db#t", "postgresql://u@h/db?password=SECRET#t"):
        words = ["federate", "site", "--folder", str(site.folder.root), "--sum-table", address]
        assert main([*words, "--fit-only", "--json"]) == 2
        said = capsys.readouterr()
        assert ".pgpass" in said.err
        assert "SECRET" not in said.out + said.err + site.folder.settings_file.read_text()
    site.configure(sum_table="postgresql://u@h/db?sslmode=require#t")
    assert site.settings.sum_table == "postgresql://u@h/db?sslmode=require#t"
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("a b.db") as base:
        base.execute("create table rows (age real)")
        base.execute("insert into rows values (4)")
    site.configure(sum_table="sqlite:///a%20b.db#rows")
    monkeypatch.chdir(tmp_path / "f")
    assert site.settings.sum_table is not None
    assert read_table(site.settings.sum_table).n_rows == 1


def test_encoders_of_the_table_for_sums_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Federation.create(tmp_path / "f", NAMES, insecure=True)
    site = Site(tmp_path / "f" / "sites" / "north")
    (tmp_path / "notes.onnx").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    site.configure(sum_encoders={"note": "notes.onnx"})
    assert site.settings.sum_encoders == {"note": str(tmp_path / "notes.onnx")}
    assert site.configure(total=5).settings.sum_encoders == {"note": str(tmp_path / "notes.onnx")}


# --- one key ------------------------------------------------------------------------------------------------


def under_one_key(net: Network) -> SchemaSum:
    """A sum that north alone opens, and a site of it that the contract may miss."""
    pytest.importorskip("seal")
    net.keys["north"] = HolderKey.new("north", "bfv")
    net.keys["north"].save(net.root.parent / "north.key")
    parties = SumParties(NAMES, (net.keys["north"].public,), 1, missing_sites=1, scheme="bfv")
    return SchemaSum("autumn", parties, SCHEMA, "moments", 2.0)


def test_round_under_one_key_gives_its_holder_the_total_alone(
    net: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summed = under_one_key(net)
    net.wait_everywhere(summed)
    assert main(["federate", "approvals", "list", "--folder", str(net.site("north").folder.root)]) == 0
    said = capsys.readouterr().out
    assert "one key holder, who opens the total that the server adds up: north" in said
    assert "does not collude with the server" in said
    net.approve(summed)
    opened = net.round(summed).run()
    assert (opened.sites, opened.checked, opened.guarantee.holds) == (NAMES, False, True)
    plain = sum(summed.vector(read_table(path, schema=SCHEMA)) for path in net.tables.values())
    sigma = np.concatenate([np.full(b.length, b.sigma) for b in summed.total.contract.blocks])
    assert np.all(np.abs(opened.vector - plain) < 6 * sigma * np.sqrt(3))
    kept = sum(len(path.read_bytes()) for path in net.site("north").folder.rounds.glob("*.offered"))
    assert kept < 2 * len((net.share / "autumn.north.sum").read_bytes())  # one total, and no other site's
    assert net.events("south") == ["waiting", "approved", "sum-step"]
    for path in net.share.glob("autumn.north.[as]*"):  # signature and answer were lost on the way
        if path.suffix in (".signed", ".answer"):
            path.unlink()
    again = net.round(summed).run()
    np.testing.assert_array_equal(opened.vector, again.vector)


def test_site_without_seal_is_named_and_charged_nothing(net: Network, block_import: Any) -> None:
    summed = under_one_key(net)
    net.approve(summed)
    block_import("seal")
    with pytest.raises(FederationError, match="south lacks the extra fhe, which sums under one key need"):
        net.round(summed).run()
    assert not Ledger.load(net.site("south").folder.ledger).events


def test_server_that_exchanges_the_total_gets_no_answer(net: Network) -> None:
    summed = under_one_key(net)
    net.approve(summed)

    class Choosing(SumRound):
        def _ask(self, step: str, contents: Any) -> Any:
            if step == "check" and contents:  # the ciphertexts of one site, as if they were the total
                *envelopes, total = contents["north"]
                alone = split_frames(self.files.path("south", "sum").read_bytes())[2]
                contents = {"north": [*envelopes, join_frames([split_frames(total)[0], alone])]}
            return super()._ask(step, contents)

    with pytest.raises(FederationError, match="or the total under one key is not that of its list"):
        net.round(summed, Choosing).run()
    assert not list(net.share.glob("*.answer"))
