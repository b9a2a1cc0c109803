"""Encrypted sums as they should go: bit for bit the plain sum, and everything else fails cleanly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from onefold.exceptions import BudgetExceededError, FileFormatError, InvalidInputError, MessageError
from onefold.federated import EncryptedSum, HolderKey, SumBlock, SumHolder
from onefold.privacy import Ledger
from reference.summing import World

pytest.importorskip("cryptography")


@pytest.mark.exact
@pytest.mark.parametrize("n_holders, threshold", [(1, 1), (2, 2), (3, 2), (5, 3), (5, 5)])
@pytest.mark.parametrize("signed", [True, False])
def test_opened_sum_is_the_plain_sum(n_holders: int, threshold: int, signed: bool) -> None:
    world = World(n_holders=n_holders, threshold=threshold, signed=signed)
    opened = world.sum.together(world.messages(), world.holders())
    assert opened.vector.dtype == np.int64
    assert np.array_equal(opened.vector, world.total())
    assert opened.sites == world.sites
    assert opened.checked == (n_holders > threshold)


def test_largest_numbers_of_both_signs_do_not_wrap() -> None:
    largest = (2**60 - 2) // 3 - 1
    world = World(n_sites=3, length=2, options={"blocks": (SumBlock("large", 2, largest),)})
    world.vectors = {site: np.array([largest, -largest]) for site in world.sites}
    assert world.sum.together(world.messages(), world.holders()).vector.tolist() == [
        3 * largest,
        -3 * largest,
    ]


def test_any_t_holders_open_the_same_sum() -> None:
    world = World()
    routed = world.sum.route(world.messages())
    holders = world.holders()
    signatures = [holder.sign(routed[holder.name]) for holder in holders]
    answers = [holder.answer(routed[holder.name], signatures) for holder in holders]
    for some in itertools.combinations(answers, 3):
        assert np.array_equal(world.sum.open(some).vector, world.total())


def test_sum_without_noise_is_void_and_says_so() -> None:
    world = World()
    assert "no noise was added" in str(world.sum.together(world.messages(), world.holders()).guarantee)
    assert not world.sum.guarantee.holds


def test_sum_with_noise_has_a_guarantee_with_its_conditions() -> None:
    world = World(epsilon=1.0, options={"missing_sites": 1})
    found = world.sum.together(world.messages(), world.holders())
    assert not np.array_equal(found.vector, world.total())
    assert found.guarantee.holds
    assert found.guarantee.record == (1.0, 1e-5)
    assert found.guarantee.n_owners == 4
    text = str(found.guarantee)
    assert "at least 3 of 4) those that add no noise" in text
    assert "are at most 1." in text
    assert "at most 0 of 5 key holders collude with the server, and fewer than 3 with each other" in text
    assert "3 of them together read each site's numbers, with epsilon" in text
    assert "name of a site" not in text
    assert "name of a site" in str(World(epsilon=1.0, signed=False).sum.guarantee)


def test_single_holder_is_said_to_read_each_site() -> None:
    text = str(World(epsilon=1.0, n_holders=1, threshold=1).sum.guarantee)
    assert "Provided that the only key holder looks at nothing but the sum: it can read each site's" in text
    assert "collude" not in text


def test_noise_from_a_seed_makes_the_sum_void() -> None:
    world = World(epsilon=1.0)
    messages = [world.message(site, random_state=1) for site in world.sites]
    assert "seed" in str(world.sum.together(messages, world.holders()).guarantee.voided_by)


def test_noise_of_the_sum_has_the_size_that_was_agreed_on() -> None:
    world = World(epsilon=1.0, length=20_000)
    opened = world.sum.together(world.messages(), world.holders([0, 1, 2]))
    sigma = world.contract.blocks[0].sigma
    assert abs((opened.vector - world.total()).std() / (sigma * (4 / 3) ** 0.5) - 1) < 0.03


def test_site_sends_the_same_bytes_again_whatever_its_vector_is_now() -> None:
    world = World(epsilon=1.0)
    first = world.message("site0")
    world.vectors["site0"] = world.vectors["site0"] * 0
    assert world.message("site0") == first


def test_site_is_charged_once_before_noise_is_drawn() -> None:
    world = World(epsilon=1.0)
    ledger = Ledger(3.0, 1e-4)
    world.message("site0", ledger=ledger)
    world.message("site0", ledger=ledger)
    spent = ledger.spent
    other = EncryptedSum(world.agree(round_id="summer"))
    with pytest.raises(BudgetExceededError):
        world.message("site0", other, ledger=ledger)
    assert ledger.spent == spent


def test_sum_goes_on_without_the_sites_and_holders_that_may_be_missing() -> None:
    world = World(options={"missing_sites": 1})
    some = ("site0", "site2", "site3")
    opened = world.sum.together(world.messages(some), world.holders([1, 2, 4]))
    assert np.array_equal(opened.vector, world.total(some))
    assert opened.sites == some


def test_too_few_sites_and_holders_are_told_in_one_line() -> None:
    world = World(options={"missing_sites": 1})
    with pytest.raises(MessageError, match="only 2 of 4 sites are there, and 3 are needed: wait") as error:
        world.sum.route(world.messages(("site0", "site1")))
    assert "\n" not in str(error.value)
    routed = world.sum.route(world.messages())
    few = world.holders([0, 1])
    signatures = [holder.sign(routed[holder.name]) for holder in few]
    with pytest.raises(MessageError, match="2 holders have signed this list of sites, and 3 are needed"):
        few[0].answer(routed[few[0].name], signatures)
    answers = [world.holder(i) for i in (0, 1, 2)]
    signatures.append(answers[2].sign(routed[answers[2].name]))
    with pytest.raises(MessageError, match="only 2 of 5 holders answered, and 3 are needed"):
        world.sum.open([holder.answer(routed[holder.name], signatures) for holder in answers[:2]])


def test_same_list_gives_the_same_bytes_after_a_restart() -> None:
    world = World()
    routed = world.sum.route(world.messages())
    signatures = [holder.sign(routed[holder.name]) for holder in world.holders()]
    again = [holder.sign(routed[holder.name][::-1]) for holder in world.holders()]
    assert signatures == again
    answers = [holder.answer(routed[holder.name], signatures) for holder in world.holders()]
    assert answers == [holder.answer(routed[holder.name], signatures[::-1]) for holder in world.holders()]


def test_site_that_dropped_out_half_way_is_named_before_anybody_signs() -> None:
    world = World(options={"missing_sites": 1})
    routed = world.sum.route(world.messages())
    envelopes = routed["holder3"]
    envelopes[1] = envelopes[1][:-40]
    with pytest.raises(MessageError, match="damaged"):
        world.holder(3).problems(envelopes)
    envelopes[1] = routed["holder2"][1]
    found = world.holder(3).problems(envelopes)
    assert list(found) == ["site1"]
    assert "missing or was changed: leave it out" in found["site1"]
    assert world.holder(3).problems(routed["holder3"][:1]) == {}
    rest = world.sum.route(world.messages(("site0", "site2", "site3")))
    assert world.holder(3).sign(rest["holder3"])


@pytest.mark.parametrize(
    "vector", [np.zeros(5, dtype=np.int64), np.zeros(6), np.full(6, 1001), np.full(6, -1001)]
)
def test_vector_that_was_not_declared_is_refused(vector: np.ndarray, tmp_path) -> None:
    world = World(signed=False)
    with pytest.raises(InvalidInputError) as error:
        world.sum.contribute("site0", vector, tmp_path)
    assert "1001" not in str(error.value)
    assert not list(tmp_path.glob("*.sum"))


def test_strangers_are_refused(tmp_path) -> None:
    world = World()
    with pytest.raises(InvalidInputError, match="not in the contract"):
        world.sum.contribute("nobody", np.zeros(6, dtype=np.int64), tmp_path)
    with pytest.raises(InvalidInputError, match=r"another key of site0 .* than its own"):
        world.sum.contribute("site0", world.vectors["site0"], tmp_path, key=world.site_keys["site1"])
    with pytest.raises(InvalidInputError, match="not in the contract"):
        SumHolder(world.sum, HolderKey.new("nobody"), tmp_path)
    with pytest.raises(InvalidInputError, match=r"another key of holder0 .* than its own"):
        SumHolder(world.sum, HolderKey.new("holder0"), tmp_path)


def test_key_is_saved_for_its_account_only_and_read_again(tmp_path) -> None:
    key, path = HolderKey.new("north"), tmp_path / "north.holderkey"
    key.save(path)
    assert path.stat().st_mode & 0o077 == 0
    assert HolderKey.load(path).to_bytes() == key.to_bytes()
    assert key.agreement.hex() not in repr(key)
    for damaged in (b"", b"{}", b'{"kind":1}', path.read_bytes()[:-9], b"[" * 100_000):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"north\.holderkey: "):
            HolderKey.load(path)


def test_damaged_memory_of_a_holder_signs_nothing() -> None:
    world = World()
    routed = world.sum.route(world.messages())
    holder = world.holder(0)
    holder.sign(routed["holder0"])
    (kept,) = (world.folder / "holder0").glob("*.round")
    kept.write_bytes(b"{}")
    with pytest.raises(FileFormatError, match="nothing is signed any more"):
        holder.sign(routed["holder0"])
