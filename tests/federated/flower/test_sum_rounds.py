"""Encrypted sums over the network without one: whole rounds, and a server that lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.exceptions import FederationError, FileFormatError, InvalidInputError, MessageError
from onefold.federated import HolderKey, SchemaSum, SumHolder, SumParties
from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower import SumRound
from onefold.federated.flower.summing import decide_sum, take_step
from onefold.federated.messages import Bundle, Failure, FailureCode, SumParcel
from onefold.privacy import Ledger
from onefold.tables import Schema, read_table
from reference.sum_network import NAMES, SCHEMA, Network, asked, in_process
from reference.summing import rewritten

# --- a whole round ------------------------------------------------------------------------------------------


def test_round_is_opened_once_every_data_owner_has_approved_and_is_that_of_the_library(
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
    other = in_process(net, summed, tmp_path)
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
    files = {path.name: path.read_bytes() for path in net.share.iterdir() if path.suffix != ".querykey"}
    for path in net.share.iterdir():
        path.unlink()  # the querier has lost everything
    net.tables["north"].write_text("age,ward,ill\n1,a,no\n")  # and a table is another one by now
    again = net.round(summed).run()
    np.testing.assert_array_equal(first.vector, again.vector)
    for path in net.share.iterdir():
        if path.suffix != ".querykey":
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
    np.testing.assert_array_equal(opened.vector, in_process(net, summed, tmp_path).vector)


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
    other = in_process(net, summed, tmp_path, ("north", "south"))
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
    net.round(summed)._collect(list(NAMES), until=0.0)
    for name in ("south", "west"):
        net.site(name).configure(sum_key=net.root.parent / "north.key")  # not the key of this holder
    with pytest.raises(FederationError, match="only 1 of 3 key holders are there, and 2 are needed") as few:
        net.round(summed).run()
    assert "south does not trust a key of the contract" in str(few.value)
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
    message = total.contribute("west", summed.vector(table), net.root, key=net.keys["west"])
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
        assert [event.name for event in ledger.events] == [
            "encrypted sum spring-1",
            "encrypted sum spring-2",
        ]
        assert ledger.total()[0] == pytest.approx(2.0, rel=1e-4)  # both rounds are the promise
        assert net.events(name) == ["waiting", "approved", *["sum-step"] * 8]
    # A site that is not in the first round takes no part in the second.
    lab = SigningKey.load(tmp_path / "keys" / "lab.signkey")
    folder = net.site("north").folder
    for path in folder.rounds.glob("spring-?.north.sum"):
        path.unlink()
    parcel = SumParcel("q9", "north", "contribute", Bundle((second.to_bytes(),)).to_bytes())
    signed = lab.sign_step(parcel, folder.federation_id, second.total.contract.digest)
    reply = take_step(folder, parcel, signed)
    assert isinstance(reply, Failure)
    assert reply.code is FailureCode.OTHER_ROUND


def test_second_contract_that_does_not_follow_from_the_answers_is_refused(net: Network) -> None:
    holders = tuple(key.public for key in net.keys.values())
    parties = SumParties(NAMES, holders, 2, missing_sites=1, colluding_sites=1)
    first = SchemaSum("spring", parties, SCHEMA, "moments", 2.0, rounds=2)
    tables = {name: read_table(path, schema=SCHEMA) for name, path in net.tables.items()}
    messages = [
        first.total.contribute(name, first.vector(tables[name]), net.root, key=net.keys[name])
        for name in NAMES
    ]
    routed = first.total.route(messages)
    both = [SumHolder(first.total, key, net.root) for key in net.keys.values()]
    lists = [holder.sign(routed[holder.name]) for holder in both]
    answers = [holder.answer(routed[holder.name], lists) for holder in both]
    second = first.proceed(answers)
    assert SchemaSum.from_bytes(second.to_bytes()).total.contract == second.total.contract
    changes: list[Callable[[Any], Any]] = [
        lambda plain: plain["contract"].update(agreement="00" * 32),
        lambda plain: plain["contract"].update(earlier_mu=0.0),
        lambda plain: plain["first"].update(threshold=3),
        lambda plain: plain.update(rounds=1),
        lambda plain: plain.update(first=None, answers=[]),
    ]
    for change in changes:
        with pytest.raises(FileFormatError):
            SchemaSum.from_bytes(rewritten(second.to_bytes(), change))
    with pytest.raises(InvalidInputError):  # fewer answers than the threshold
        first.proceed(answers[:1])


# --- what a server may try ----------------------------------------------------------------------------------


def test_server_that_shows_holders_different_lists_gets_no_answer(net: Network) -> None:
    summed = net.contract()
    net.approve(summed)
    full = summed.total.route
    lists = {"north": NAMES, "south": ("north", "south"), "west": ("north", "west")}

    class Hostile(SumRound):
        def _ask(self, step: str, contents: Any) -> Any:
            if step == "check":
                routed = {
                    name: full([self.message_of(site) for site in sites])[name]
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


def flip(path: Path, place: int = -5) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_files_of_the_round_that_somebody_changed_are_named(net: Network) -> None:
    summed = net.contract()
    net.approve(summed)
    asked_round = net.round(summed)
    asked_round._collect(list(NAMES), until=0.0)
    west, south = net.share / "spring.west.sum", net.share / "spring.south.sum"
    kept = {path: path.read_bytes() for path in (west, south)}
    flip(west)
    with pytest.raises(MessageError, match=r"spring\.west\.sum: damaged"):
        asked_round.run()
    west.write_bytes(kept[south])
    with pytest.raises(MessageError, match=r"spring\.west\.sum: the message is from another site"):
        asked_round.run()
    west.write_bytes(kept[west])
    assert not list(net.share.glob("*.signed"))

    class Changing(SumRound):
        def _ask(self, step: str, contents: Any) -> Any:
            if step == "answer":  # the lists of two holders
                lists = next(iter(contents.values()))
                changed = [lists[0], *(each[:-9] for each in lists[1:])]
                contents = dict.fromkeys(contents, changed)
            return super()._ask(step, contents)

    with pytest.raises(FederationError, match="only 0 of 3 key holders have answered"):
        net.round(summed, Changing).run()
    net.round(summed).run()
    flip(net.share / "spring.west.answer")
    with pytest.raises(MessageError, match="damaged"):
        net.round(summed).run()


def test_holder_signs_what_it_has_checked_and_answers_what_it_has_signed(net: Network) -> None:
    summed = net.contract()
    net.approve(summed, "north")
    assert asked(net, "north", "sign", summed=summed) is FailureCode.NOT_READY
    assert asked(net, "north", "answer", summed=summed, id="q2") is FailureCode.NOT_READY
    assert not list(net.site("north").folder.rounds.glob("*.round"))


def test_site_takes_no_contract_with_guesses_that_nobody_confirmed(net: Network) -> None:
    guessed = Schema.infer(read_table(net.tables["north"]), label="ill")
    assert guessed.to_review
    holders = tuple(key.public for key in net.keys.values())
    summed = SchemaSum("guesses", SumParties(NAMES, holders, 2), guessed)
    assert asked(net, "north", summed=summed) is FailureCode.MALFORMED
    assert not list(net.site("north").folder.rounds.glob("*.contract"))


def test_site_takes_no_step_that_its_querier_has_not_signed(net: Network) -> None:
    summed = net.contract()
    net.approve(summed, "north")
    fine = {"summed": summed}
    assert asked(net, "north", unsigned=True, **fine) is FailureCode.UNSIGNED
    other = SumParcel("q1", "north", "sign", Bundle((summed.to_bytes(),)).to_bytes())
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

    def with_less_noise(plain: Any) -> None:
        plain["contract"]["blocks"][0]["sigma"] /= 2

    content = rewritten(summed.to_bytes(), with_less_noise)

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


def test_approval_of_a_querier_is_none_of_its_sums(net: Network) -> None:
    summed = net.contract()
    site = net.site("north")
    lab = SigningKey.create("lab", net.root.parent / "keys")
    assert asked(net, "north", summed=summed, key=lab) is FailureCode.WAITING
    site.approvals().approve(str(net.root.parent / "keys" / "lab.pub"), "queriers")
    assert asked(net, "north", summed=summed, key=lab) is FailureCode.WAITING
