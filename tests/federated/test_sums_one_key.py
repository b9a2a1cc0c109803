"""Sums under one key of BFV: exact, opened once, and useless to a server that breaks the protocol."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from onefold._base.frames import join_frames, pack_frame, split_frames, unpack_frame
from onefold.exceptions import (
    FileFormatError,
    InvalidInputError,
    MessageError,
    MissingDependencyError,
)
from onefold.federated import (
    HolderGroup,
    HolderKey,
    PublicHolder,
    SchemaSum,
    SumBlock,
    SumContract,
    SumHolder,
    SumParties,
)
from onefold.federated.sums import bfv
from onefold.federated.sums.keys import decrypt
from onefold.federated.sums.messages import TOTAL, about_share, signed_bytes
from onefold.federated.sums.schemes import scheme_of
from onefold.federated.sums.sharing import expand_pad
from onefold.privacy import Ledger
from onefold.tables import Field, Schema
from reference.summing import World

pytest.importorskip("cryptography")
pytest.importorskip("seal")

KEY = HolderKey.new("holder0", "bfv")
DIGITS = np.uint64(2**59 - 1)


@pytest.fixture(autouse=True)
def one_pair_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds of this file share one key of BFV, since it takes a while to make."""
    made = HolderKey.new
    monkeypatch.setattr(
        HolderKey,
        "new",
        lambda name, scheme="shamir": replace(made(name), bfv=KEY.bfv if scheme == "bfv" else None),
    )


def one_key(**options) -> World:
    return World(scheme="bfv", **options)


def offered(world: World, sites=None) -> list[bytes]:
    """What the server gives to the holder."""
    return world.sum.route(world.messages(sites))["holder0"]


def with_total(world: World, envelopes: list[bytes], content: bytes) -> list[bytes]:
    """The same with another total, as a server could make it."""
    header = {"kind": TOTAL, "contract": world.contract.digest}
    return [*envelopes[:-1], join_frames([pack_frame(header, {}), content])]


def answered(world: World, envelopes: list[bytes]) -> bytes:
    holder = world.holder(0)
    return holder.answer(envelopes, [holder.sign(envelopes)])


# --- as it should go ----------------------------------------------------------------------------------------


@pytest.mark.exact
@pytest.mark.parametrize("signed", [True, False])
def test_opened_sum_is_the_plain_sum(signed: bool) -> None:
    world = one_key(signed=signed)
    opened = world.sum.together(world.messages(), world.holders())
    assert opened.vector.dtype == np.int64
    assert np.array_equal(opened.vector, world.total())
    assert opened.sites == world.sites
    assert not opened.checked


@pytest.mark.exact
def test_sum_of_a_hundred_sites_has_no_error() -> None:
    largest = 2**58 // 100 - 1
    world = one_key(n_sites=100, length=3, signed=False, options={"blocks": (SumBlock("b", 3, largest),)})
    rng = np.random.default_rng(0)
    world.vectors = {
        site: np.array([largest, -largest, rng.integers(-largest, largest)]) for site in world.sites
    }
    opened = world.sum.together(world.messages(), world.holders())
    assert opened.vector.tolist() == [100 * largest, -100 * largest, world.total()[2]]


@pytest.mark.parametrize("largest, fits", [(2**56 - 1, True), (2**56, False)])
def test_sum_that_could_wrap_around_is_refused(largest: int, fits: bool) -> None:
    world = one_key()
    block = SumBlock("large", 1, largest)
    if fits:
        assert world.agree(blocks=(block,)).length == 1
    else:
        with pytest.raises(InvalidInputError, match=r"'large' could wrap around at 2\*\*58"):
            world.agree(blocks=(block,))


def test_guarantee_is_that_of_shares_with_one_condition_exchanged() -> None:
    world, other = one_key(epsilon=1.0), World(epsilon=1.0)
    found = world.sum.together(world.messages(), world.holders()).guarantee
    assert found.holds
    assert (found.record, found.mu) == (other.sum.guarantee.record, other.sum.guarantee.mu)
    assert (
        "Provided that the key holder does not collude with the server, and sees nothing that sites send but "
        "their total: otherwise it reads each site's numbers, with epsilon 1.8" in str(found)
    )


def test_noise_of_the_sum_has_the_size_that_was_agreed_on() -> None:
    world = one_key(epsilon=1.0, length=20_000)
    opened = world.sum.together(world.messages(), world.holders())
    sigma = world.contract.blocks[0].sigma
    assert abs((opened.vector - world.total()).std() / (sigma * (4 / 3) ** 0.5) - 1) < 0.03


def test_site_that_may_be_missing_is_left_out_and_one_more_opens_nothing() -> None:
    world = one_key(options={"missing_sites": 1})
    some = ("site0", "site2", "site3")
    envelopes = offered(world, some)
    assert world.holder(0).sites(envelopes) == list(some)
    with pytest.raises(MessageError, match="only 2 of 4 sites are there, and 3 are needed"):
        offered(world, some[:2])
    with pytest.raises(MessageError, match="only 2 of 4 sites are there, and 3 are needed"):
        world.holder(0).sign([*envelopes[:2], envelopes[-1]])
    assert np.array_equal(world.sum.open([answered(world, envelopes)]).vector, world.total(some))


def test_same_bytes_are_answered_again_after_a_restart() -> None:
    world = one_key()
    envelopes = offered(world)
    assert answered(world, envelopes) == answered(world, envelopes)


def test_numbers_of_sites_travel_in_32_bytes_and_the_holder_gets_one_total() -> None:
    world = one_key(length=8192)
    assert len(world.message("site0")) < 32 * 8192 + 1000
    assert len(join_frames(offered(world))) < 32 * 8192 + 4 * 1000


def test_two_rounds_for_tables_go_under_one_key(tmp_path) -> None:
    parties = SumParties(("north", "south", "west"), (KEY.public,), 1, scheme="bfv")
    schema = Schema([Field("age", low=0, high=100), Field("ill", "boolean", role="label")], rows_about=600)
    age = np.random.default_rng(0).integers(0, 100, 200)
    table = {"age": age, "ill": age > 50}

    def answer(summed: SchemaSum) -> bytes:
        sent = [summed.total.contribute(s, summed.vector(table), tmp_path) for s in parties.sites]
        holder, given = SumHolder(summed.total, KEY, tmp_path), summed.total.route(sent)["holder0"]
        return holder.answer(given, [holder.sign(given)])

    first = SchemaSum("autumn", parties, schema, "moments", 8.0, rounds=2)
    second = SchemaSum.from_bytes(first.proceed([answer(first)]).to_bytes())
    assert second.total.contract.scheme == "bfv"
    model = second.result(second.total.open([answer(second)]))
    assert (model.predict(table) == table["ill"]).mean() > 0.9


# --- what a server tries ------------------------------------------------------------------------------------


def _ciphertexts(world: World, site: str) -> bytes:
    return split_frames(world.message(site))[2]


def test_server_that_has_one_sites_ciphertexts_opened_gets_nothing() -> None:
    world = one_key()
    envelopes = with_total(world, offered(world), _ciphertexts(world, "site0"))
    with pytest.raises(MessageError, match="not the sum of the sites on the list") as error:
        answered(world, envelopes)
    assert "\n" not in str(error.value)
    with pytest.raises(MessageError, match="not the sum"):  # and again: the round is lost
        answered(world, envelopes)


def test_server_that_asks_for_the_secret_key_gets_nothing() -> None:
    world, made = one_key(), np.zeros(bfv.SHAPE, dtype=np.uint64)
    made[1, :, 0] = [bfv.PRIMES[0] * bfv.PRIMES[1] // 2**59 % prime for prime in bfv.PRIMES[:2]]
    with pytest.raises(MessageError, match="not the sum of the sites on the list"):
        answered(world, with_total(world, offered(world), made.astype("<u8").tobytes()))


def test_server_with_the_key_of_bfv_sees_uniform_numbers() -> None:
    # What protects from the server is the pad: this holds whatever became of BFV.
    world = one_key(length=8192)
    world.vectors["site0"] = np.zeros(8192, dtype=np.int64)
    assert KEY.bfv is not None
    seen = bfv.decrypt(KEY.bfv.secret, _ciphertexts(world, "site0"), 8192)
    counts = np.bincount((seen >> np.uint64(51)).astype(int), minlength=256)
    assert ((counts - 32) ** 2 / 32).sum() < 255 + 8 * np.sqrt(2 * 255)


def test_holder_and_server_together_read_a_site_as_the_guarantee_says() -> None:
    world = one_key()
    first, pad, ciphertexts = split_frames(world.message("site1"))
    header, _ = unpack_frame(first, 10**6)
    key = world.keys[0]
    seed = decrypt(pad, header["sender"], key, about_share(world.contract, "site1", key.name))
    assert key.bfv is not None
    found = bfv.decrypt(key.bfv.secret, ciphertexts, world.length) - expand_pad(seed, world.length)
    assert np.array_equal(found & DIGITS, world.vectors["site1"].astype(np.uint64) & DIGITS)


def test_second_list_and_second_total_of_a_round_are_refused_for_ever() -> None:
    world = one_key(options={"missing_sites": 1})
    envelopes = offered(world)
    answer = answered(world, envelopes)
    for other in (offered(world, world.sites[1:]), offered(world)):  # the latter has another flood
        with pytest.raises(MessageError, match="or another total of them, was signed in this round"):
            world.holder(0).sign(other)
        with pytest.raises(MessageError, match="it answers only what it signed"):
            world.holder(0).answer(other, [world.holder(0).sign(envelopes)])
    assert np.array_equal(world.sum.open([answer]).vector, world.total())


def test_list_and_total_of_different_sites_open_nothing() -> None:
    world = one_key(options={"missing_sites": 1})
    less, total = offered(world, world.sites[1:]), split_frames(offered(world)[-1])[1]
    with pytest.raises(MessageError, match="not the sum of the sites on the list"):
        answered(world, with_total(world, less, total))


def test_total_of_another_length_is_refused_before_anything_is_signed() -> None:
    world = one_key()
    envelopes = offered(world)
    for content in (b"", bytes(8), _ciphertexts(world, "site0") * 2):
        with pytest.raises(MessageError, match="total of the sites is missing, or has the wrong length"):
            world.holder(0).sign(with_total(world, envelopes, content))
    with pytest.raises(MessageError, match="total of the sites is missing"):
        world.holder(0).sign(envelopes[:-1])
    assert not list((world.folder / "holder0").glob("*.round"))
    large = b"\xff" * len(_ciphertexts(world, "site0"))
    with pytest.raises(MessageError, match="too large"):
        answered(world, with_total(world, envelopes, large))


# --- what a site tries --------------------------------------------------------------------------------------


def _resigned(world: World, site: str, parts: list[bytes], **changes) -> bytes:
    """A message as a site that sends anything would sign it."""
    header, _ = unpack_frame(split_frames(world.message(site))[0], 10**6)
    header |= {"parts": [hashlib.sha256(part).hexdigest() for part in parts], **changes}
    header["signature"] = world.site_keys[site].sign(signed_bytes(header))
    return join_frames([pack_frame(header, {}), *parts])


def test_site_that_sends_another_sites_ciphertexts_spoils_the_sum_and_learns_nothing() -> None:
    world = one_key()
    own = split_frames(world.message("site1"))
    copied = _resigned(world, "site1", [own[1], _ciphertexts(world, "site0")])
    envelopes = world.sum.route([copied, *world.messages(("site0", "site2", "site3"))])["holder0"]
    with pytest.raises(MessageError, match="not the sum of the sites on the list"):
        answered(world, envelopes)


def test_site_whose_ciphertexts_are_none_is_named_by_the_server() -> None:
    world = one_key(options={"missing_sites": 1})
    own, others = split_frames(world.message("site1")), world.messages(("site0", "site2", "site3"))
    for content in (b"", own[2][:-8], b"\xff" * len(own[2])):
        with pytest.raises(MessageError, match=r"site site1: the ciphertexts have .*; leave it out"):
            world.sum.route([*others, _resigned(world, "site1", [own[1], content])])


def test_site_whose_pad_cannot_be_read_is_named_before_anything_is_signed() -> None:
    world = one_key(options={"missing_sites": 1})
    own, others = split_frames(world.message("site1")), world.messages(("site0", "site2", "site3"))
    for pad in (own[1][:-1] + bytes([own[1][-1] ^ 1]), b"", own[2]):
        envelopes = world.sum.route([*others, _resigned(world, "site1", [pad, own[2]])])["holder0"]
        assert list(world.holder(0).problems(envelopes)) == ["site1"]
        with pytest.raises(MessageError, match="site1"):
            world.holder(0).sign(envelopes)


def test_number_larger_than_declared_is_found_by_the_holder() -> None:
    world = one_key()
    sender, parts = scheme_of(world.contract).parts("site0", np.full(world.length, 2**49))  # unchecked
    first = _resigned(world, "site0", parts, sender=sender)
    envelopes = world.sum.route([first, *world.messages(world.sites[1:])])["holder0"]
    with pytest.raises(MessageError, match="a site sent what it had not declared"):
        answered(world, envelopes)


def test_no_byte_string_raises_anything_but_our_errors() -> None:
    world = one_key()
    envelopes, rng = offered(world), np.random.default_rng(0)
    for _ in range(60):
        number = rng.integers(0, len(envelopes) - 1)
        changed = bytearray(envelopes[number])
        changed[rng.integers(0, len(changed))] ^= 1 + rng.integers(0, 255)
        with pytest.raises(MessageError):
            world.holder(0).sign([*envelopes[:number], bytes(changed), *envelopes[number + 1 :]])
        short = envelopes[-1][: rng.integers(0, len(envelopes[-1]))]
        with pytest.raises(MessageError):
            world.holder(0).sign([*envelopes[:-1], short])


# --- contract, keys, packages -------------------------------------------------------------------------------


def test_one_key_is_for_one_holder_that_has_it() -> None:
    world, other = one_key(), World()
    with pytest.raises(InvalidInputError, match="there is one key: one holder, threshold 1"):
        other.agree(scheme="bfv")
    with pytest.raises(InvalidInputError, match="has no key of BFV"):
        other.agree(scheme="bfv", holders=other.contract.holders[:1], threshold=1)
    with pytest.raises(InvalidInputError, match="scheme must be one of"):
        world.agree(scheme="rot13")
    with pytest.raises(InvalidInputError, match="scheme must be one of"):
        HolderGroup(world.contract.holders, 1, scheme="rot13")
    assert "no sum is opened" in HolderGroup(world.contract.holders, 1, scheme="bfv").in_words[0]


def test_contract_and_keys_are_read_again(tmp_path) -> None:
    world = one_key()
    assert SumContract.from_bytes(world.contract.to_bytes()) == world.contract
    public, group = world.contract.holders[0], HolderGroup(world.contract.holders, 1, scheme="bfv")
    public.save(tmp_path / "a.public")
    group.save(tmp_path / "group.json")
    world.keys[0].save(tmp_path / "a.key")
    assert PublicHolder.load(tmp_path / "a.public") == public
    assert HolderGroup.load(tmp_path / "group.json") == group
    assert HolderKey.load(tmp_path / "a.key") == world.keys[0]
    assert (tmp_path / "a.key").stat().st_mode & 0o077 == 0
    plain = json.loads((tmp_path / "a.key").read_bytes())
    for wrong in ({"secret": "a"}, {"secret": "a", "public": "b"}, 3):
        (tmp_path / "a.key").write_text(json.dumps({**plain, "bfv": wrong}))
        with pytest.raises(FileFormatError, match="damaged, or not a holder key"):
            HolderKey.load(tmp_path / "a.key")


def test_contracts_of_shares_have_the_bytes_that_they_always_had() -> None:
    plain = json.loads(World().contract.to_bytes())
    assert "scheme" not in plain
    assert set(plain["holders"][0]) == {"name", "agreement", "signing"}


def test_without_seal_nothing_is_charged_and_the_server_still_adds(block_import) -> None:
    world = one_key(epsilon=1.0)
    messages = world.messages(world.sites[1:])
    last = world.message("site0")
    bfv._ring.cache_clear()
    block_import("seal")
    ledger = Ledger(4.0, 1e-4)
    with pytest.raises(MissingDependencyError, match=r"onefold\[fhe\]"):
        world.message("site0", where=" again", ledger=ledger)
    assert not ledger.events
    assert len(world.sum.route([last, *messages])["holder0"]) == 5
    shares = World()  # sums by shares need no SEAL
    opened = shares.sum.together(shares.messages(), shares.holders())
    assert np.array_equal(opened.vector, shares.total())
