"""What an active server, colluding holders and lying sites try, and why it does not work."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated import EncryptedSum, SumContract, SumHolder
from onefold.federated.messages import Bundle
from onefold.federated.secret.keys import decrypt
from onefold.federated.secret.rounds import SumAnswer, SumHeader, SumList, about_share, residues
from onefold.federated.secret.shares import MODULUS, combine_shares, expand_seed
from reference.summing import World

pytest.importorskip("cryptography")


def _shares_of(world: World, message: bytes, numbers: list[int]) -> dict[int, np.ndarray]:
    """What colluding holders read of a site's message, all checks left out."""
    first, *parts = Bundle.from_bytes(message).parts
    header = SumHeader.from_bytes(first)
    found = {}
    for number in numbers:
        key = world.keys[number]
        about = about_share(world.contract, header.site, key.name)
        content = decrypt(parts[number], key, about)
        if number + 1 < world.threshold:
            found[number + 1] = expand_seed(content, world.length)
        else:
            found[number + 1] = np.frombuffer(content, dtype="<u8")
    return found


def test_t_holders_read_a_site_and_one_less_does_not() -> None:
    # As the conditions of the guarantee say, t of them can.
    world = World()
    message = world.message("site1")
    assert np.array_equal(combine_shares(_shares_of(world, message, [0, 2, 4])), world.vectors["site1"])
    known = _shares_of(world, message, [2, 4])
    for guess in (world.vectors["site0"], world.vectors["site1"]):
        # Each guess has a third share that makes it true.
        third = combine_shares({**known, 0: (guess % MODULUS).astype(np.uint64)}, at=1).astype(np.uint64)
        assert np.array_equal(combine_shares({**known, 1: third}), guess)


def test_server_sees_nothing_of_a_vector_in_the_message() -> None:
    world = World(length=4000)
    world.vectors["site0"] = np.zeros(4000, dtype=np.int64)
    for part in Bundle.from_bytes(world.message("site0")).parts[1:]:
        counts = np.bincount(np.frombuffer(part, dtype=np.uint8), minlength=256)
        expected = len(part) / 256
        if expected > 50:
            assert ((counts - expected) ** 2 / expected).sum() < 255 + 8 * np.sqrt(2 * 255)


def test_two_subsets_of_one_round_are_never_opened() -> None:
    # Five holders, three open: an honest holder signs one list, so two lists of three signatures do not
    # exist.
    world = World(options={"missing_sites": 1})
    all_sites = world.sum.route(world.messages())
    without = world.sum.route(world.messages(world.sites[1:]))
    one = [holder.sign(all_sites[holder.name]) for holder in world.holders([0, 1, 2])]
    two = [holder.sign(without[holder.name]) for holder in world.holders([3, 4])]
    for number in (0, 1, 2):
        holder = world.holder(number)
        with pytest.raises(MessageError, match="another list of sites was signed in this round"):
            holder.sign(without[holder.name])
        with pytest.raises(MessageError, match="it answers only what it signed"):
            holder.answer(without[holder.name], [*one, *two])
    for number in (3, 4):
        holder = world.holder(number)
        with pytest.raises(MessageError, match="2 holders have signed this list of sites, and 3 are needed"):
            holder.answer(without[holder.name], [*one, *two, *two])
    answers = [holder.answer(all_sites[holder.name], one) for holder in world.holders([0, 1, 2])]
    assert np.array_equal(world.sum.open(answers).vector, world.total())


def test_of_two_lists_at_the_same_time_one_is_signed() -> None:
    world = World(options={"missing_sites": 1})
    lists = [world.sum.route(world.messages(sites))["holder0"] for sites in (world.sites, world.sites[1:])]

    def sign(envelopes: list[bytes]) -> bytes | None:
        try:
            return world.holder(0).sign(envelopes)
        except MessageError:
            return None

    with ThreadPoolExecutor(8) as pool:
        signed = {found for found in pool.map(sign, lists * 8) if found is not None}
    assert len(signed) == 1


def test_contract_of_very_many_numbers_costs_a_holder_nothing_before_shares_are_there() -> None:
    world = World()
    block = replace(world.contract.blocks[0], length=2**26)
    contract = SumContract.from_bytes(replace(world.contract, blocks=(block,)).to_bytes())
    holder = SumHolder(EncryptedSum(contract), world.keys[0], world.folder)
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match="only 0 of"):
            holder.sign([])
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_signature_does_not_count_twice_nor_for_another_holder() -> None:
    world = World()
    routed = world.sum.route(world.messages())
    own = world.holder(0).sign(routed["holder0"])
    copied = [replace(SumList.from_bytes(own), holder=f"holder{i}").to_bytes() for i in range(1, 5)]
    with pytest.raises(MessageError, match="1 holders have signed"):
        world.holder(0).answer(routed["holder0"], [own, own, own, *copied])


def test_a_round_that_is_replayed_under_another_contract_is_refused() -> None:
    world = World()
    world.sum.together(world.messages(), world.holders())
    again = EncryptedSum(world.agree(sites=world.sites[:3], site_keys=world.contract.site_keys[:3]))
    with pytest.raises(InvalidInputError, match="about another sum"):
        world.message("site0", again)  # the site has sent its message of this round
    forgetful = [world.message(site, again, where=" again") for site in world.sites[:3]]
    routed = again.route(forgetful)
    with pytest.raises(MessageError, match="this round had another contract"):
        world.holder(0, again).sign(routed["holder0"])


def test_messages_of_another_contract_are_refused_everywhere() -> None:
    world = World()
    other = EncryptedSum(world.agree(round_id="summer"))
    messages = [world.message(site, other) for site in world.sites]
    routed = other.route(messages)
    signatures = [world.holder(i, other).sign(routed[f"holder{i}"]) for i in range(3)]
    answers = [world.holder(i, other).answer(routed[f"holder{i}"], signatures) for i in range(3)]
    with pytest.raises(MessageError, match="about another sum: all must use the same contract"):
        world.sum.route(messages)
    with pytest.raises(MessageError, match="about another sum"):
        world.holder(0).sign(routed["holder0"])
    with pytest.raises(MessageError, match="about another sum"):
        world.sum.open(answers)
    own = world.sum.route(world.messages())
    for i in range(3):
        world.holder(i).sign(own[f"holder{i}"])
    with pytest.raises(MessageError, match="0 holders have signed"):
        world.holder(0).answer(own["holder0"], signatures)


@pytest.mark.parametrize("place", [0, 1, 3, 5])
def test_tampered_bytes_are_found(place: int) -> None:
    world = World()
    message = world.message("site0")
    parts = list(Bundle.from_bytes(message).parts)
    changed = bytearray(parts[place])
    changed[len(changed) // 2] ^= 1
    parts[place] = bytes(changed)
    others = world.messages(world.sites[1:])
    with pytest.raises(MessageError, match="damaged"):
        world.sum.route([Bundle(tuple(parts)).to_bytes(), *others])
    if place:  # a server that does not check cannot get it past the holder
        routed = world.sum.route([message, *others])
        holder = world.holder(place - 1)
        routed[holder.name][0] = Bundle((parts[0], parts[place])).to_bytes()
        with pytest.raises(MessageError, match="site0 for this holder is missing or was changed"):
            holder.sign(routed[holder.name])


def test_a_site_cannot_take_another_sites_ciphertexts_as_its_own() -> None:
    # Copying would double the other's vector: shares are bound to the name of the site that encrypted them.
    world = World()
    first, *parts = Bundle.from_bytes(world.message("site0")).parts
    copy = replace(SumHeader.from_bytes(first), site="site1").by(world.site_keys["site1"])
    stolen = Bundle((copy.to_bytes(), *parts)).to_bytes()
    routed = world.sum.route([stolen, *world.messages(("site0", "site2", "site3"))])
    for holder in world.holders():
        assert list(holder.problems(routed[holder.name])) == ["site1"]
        with pytest.raises(MessageError, match="site1: the bytes were changed, or are not for this holder"):
            holder.sign(routed[holder.name])


def test_server_cannot_send_in_the_name_of_a_site_that_signs() -> None:
    world = World()
    first, *parts = Bundle.from_bytes(world.message("site0")).parts
    forged = replace(SumHeader.from_bytes(first), site="site1").to_bytes()
    with pytest.raises(MessageError, match="site1 is not signed by it"):
        world.sum.route([Bundle((forged, *parts)).to_bytes()])
    with pytest.raises(MessageError, match="site1 is not signed by it"):
        world.holder(0).sign([Bundle((forged, parts[0])).to_bytes()])


def test_site_that_sends_other_bytes_again_is_refused() -> None:
    # Two messages of a site have different noise: holders must all add the same one.
    world = World(epsilon=1.0)
    first, second = world.message("site0"), world.message("site0", where=" again")
    assert first != second
    others = world.messages(world.sites[1:])
    with pytest.raises(MessageError, match="site0 sent two different messages"):
        world.sum.route([first, second, *others])
    assert world.sum.route([first, first, *others]) == world.sum.route([first, *others])
    routed, swapped = world.sum.route([first, *others]), world.sum.route([second, *others])
    one = [holder.sign(routed[holder.name]) for holder in world.holders([0, 1])]
    two = [holder.sign(swapped[holder.name]) for holder in world.holders([2, 3])]
    for number, own in ((0, routed), (2, swapped)):
        holder = world.holder(number)
        with pytest.raises(MessageError, match="2 holders have signed this list"):
            holder.answer(own[holder.name], [*one, *two])
    with pytest.raises(MessageError, match="site0 is in the list twice"):
        world.holder(4).sign([*routed["holder4"], swapped["holder4"][0]])


def test_more_missing_sites_than_declared_open_nothing() -> None:
    world = World(epsilon=1.0, n_sites=6, options={"missing_sites": 1, "colluding_sites": 2})
    assert world.contract.least_adding == 3
    routed = world.sum.route(world.messages())
    for holder in world.holders():
        with pytest.raises(MessageError, match="only 4 of 6 sites are there, and 5 are needed"):
            holder.sign(routed[holder.name][:4])


@pytest.mark.parametrize(
    "n_answers, words", [(5, "the answer of holder holder1 does not fit"), (4, "contradict")]
)
def test_lying_holder_is_found_among_more_than_t_answers(n_answers: int, words: str) -> None:
    world = World()
    routed = world.sum.route(world.messages())
    holders = world.holders()
    signatures = [holder.sign(routed[holder.name]) for holder in holders]
    answers = [holder.answer(routed[holder.name], signatures) for holder in holders]
    answers[1] = _lie(world, answers[1])
    if n_answers == 5:
        with pytest.raises(MessageError, match=words):
            world.sum.open(answers)
        assert np.array_equal(world.sum.open([answers[0], *answers[2:]]).vector, world.total())
    else:
        with pytest.raises(MessageError, match=words):
            world.sum.open(answers[:4])
    wrong = world.sum.open(answers[:3])  # exactly t: nothing to compare with, and that is said
    assert not wrong.checked
    assert not np.array_equal(wrong.vector, world.total())
    with pytest.raises(MessageError, match="holder1 gave two answers"):
        world.sum.open([*answers, world.holder(1).answer(routed["holder1"], signatures)])


def _lie(world: World, answer: bytes) -> bytes:
    said = SumAnswer.from_bytes(answer)
    return replace(said, shares=said.shares ^ np.uint64(1)).by(world.keys[1]).to_bytes()


def test_answer_that_was_changed_on_the_way_is_refused() -> None:
    world = World()
    routed = world.sum.route(world.messages())
    signatures = [holder.sign(routed[holder.name]) for holder in world.holders()]
    answers = [holder.answer(routed[holder.name], signatures) for holder in world.holders()]
    said = SumAnswer.from_bytes(answers[0])
    shorter = {"shares": said.shares[:-1]}
    for changed in ({"sites": ("site0",)}, {"holder": "holder1"}, {"seeded": True}, shorter):
        with pytest.raises(MessageError, match="is not signed by it"):
            world.sum.open([replace(said, **changed).to_bytes(), *answers[1:]])
    for changed in (shorter, {"shares": said.shares.astype(np.uint32)}, {"sites": ("site0",) * 4}):
        with pytest.raises(MessageError, match="answer of holder holder0 is damaged"):
            world.sum.open([replace(said, **changed).by(world.keys[0]).to_bytes(), *answers[1:]])


def test_key_of_small_order_is_refused(tmp_path) -> None:
    world = World(signed=False)
    weak = replace(world.contract.holders[4], agreement="0" * 64)
    total = EncryptedSum(world.agree(holders=(*world.contract.holders[:4], weak)))
    with pytest.raises(InvalidInputError, match="the key of holder holder4 is no key"):
        total.contribute("site0", world.vectors["site0"], tmp_path)
    assert not list(tmp_path.glob("*.sum"))


def test_number_outside_the_field_is_refused() -> None:
    with pytest.raises(MessageError, match="no number of the field"):
        residues(np.array([1, MODULUS], dtype="<u8").tobytes())


def test_no_byte_string_raises_anything_but_our_errors() -> None:
    world = World()
    message = world.message("site0")
    rng = np.random.default_rng(0)
    routed = world.sum.route(world.messages())
    for _ in range(150):
        changed = bytearray(message)
        for place in rng.integers(0, len(changed), 3):
            changed[place] = rng.integers(0, 256)
        with pytest.raises(MessageError):
            world.sum.route([bytes(changed[: rng.integers(1, len(changed))])])
        envelope = bytearray(routed["holder0"][0])
        envelope[rng.integers(0, len(envelope))] ^= 1 + rng.integers(0, 255)
        with pytest.raises(MessageError):
            world.holder(0).sign([bytes(envelope), *routed["holder0"][1:]])
    for plain in (b"", b"{}", b"[]", b"null", message):
        with pytest.raises(FileFormatError):
            SumContract.from_bytes(plain)
