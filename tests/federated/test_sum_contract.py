"""Contracts: which numbers of sites and holders fit together, and what the noise is held to promise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated import SumBlock, SumContract
from onefold.federated.messages import Bundle
from onefold.privacy.calibration import epsilon_of, mu_of
from reference.summing import DELTA, World, promise, rewritten

pytest.importorskip("cryptography")

MU = mu_of(1.0, DELTA)


@pytest.mark.parametrize(
    "n, t, colluding, least",
    [(5, 3, 1, 4), (4, 2, 0, 3), (5, 2, 0, 3), (7, 5, 3, 6), (3, 2, 1, 3), (5, 3, 2, 4)],
)
def test_threshold_that_lets_two_lists_be_opened_is_refused(
    n: int, t: int, colluding: int, least: int
) -> None:
    world = World(n_holders=n, threshold=n)
    with pytest.raises(InvalidInputError, match=f"could be opened; use at least {least}"):
        world.agree(threshold=t, colluding_holders=colluding)
    assert world.agree(threshold=least, colluding_holders=colluding).threshold == least


def test_default_is_the_largest_number_of_colluding_holders() -> None:
    world = World(n_holders=7, threshold=6)
    assert world.contract.colluding_holders == 4
    with pytest.raises(InvalidInputError, match="threshold is 8, but there are only 7 holders"):
        world.agree(threshold=8)


@pytest.mark.parametrize(
    "n, t, sentences",
    [
        (5, 3, ("2 may be missing", "No holder may collude", "2 of them together learn nothing; 3 together")),
        (5, 4, ("1 may be missing", "At most 2 of them may collude", "With 5 of 5, 4 could collude")),
        (2, 2, ("none may be missing", "At most 1 of them may collude", "one of them alone learns nothing")),
        (1, 1, ("1 of 1 holders", "No holder may collude", "The holder reads every site's numbers")),
    ],
)
def test_threshold_says_what_it_stands(n: int, t: int, sentences: tuple[str, ...]) -> None:
    said = " ".join(World(n_holders=n, threshold=t).contract.of_holders)
    assert all(sentence in said for sentence in sentences), said


def test_somebody_must_be_left_to_add_noise() -> None:
    world = World(n_sites=3)
    assert world.agree(missing_sites=1, colluding_sites=1).least_adding == 1
    with pytest.raises(InvalidInputError, match="nobody is left to add noise"):
        world.agree(missing_sites=1, colluding_sites=2)


def test_names_and_keys_must_differ() -> None:
    world = World()
    for sites in (("a",), ("a", "a"), ("a", "b/..")):
        with pytest.raises(InvalidInputError):
            world.agree(sites=sites, site_keys=())
    same = (world.contract.holders[0], replace(world.contract.holders[0], name="other"))
    with pytest.raises(InvalidInputError, match="two names with the same key"):
        world.agree(holders=same, threshold=2)
    with pytest.raises(InvalidInputError, match="one key per site"):
        world.agree(site_keys=world.contract.site_keys[:1])


@pytest.mark.parametrize("largest, fits", [((2**60 - 2) // 4, True), ((2**60 - 2) // 4 + 1, False)])
def test_sum_that_could_wrap_around_is_refused(largest: int, fits: bool) -> None:
    world = World(n_sites=4)
    block = SumBlock("large", 1, largest)
    if fits:
        assert world.agree(blocks=(block,)).length == 1
    else:
        with pytest.raises(InvalidInputError, match="'large' could wrap around"):
            world.agree(blocks=(block,))


def test_room_is_left_for_noise() -> None:
    world = World(n_sites=4, epsilon=1.0)
    with pytest.raises(InvalidInputError, match="could wrap around"):
        world.agree(blocks=(SumBlock("a", 1, (2**60 - 2) // 4, 2.0**40, 2.0**38),))


def test_noise_that_is_too_small_for_the_promise_is_refused() -> None:
    world = World(epsilon=1.0)
    sigma = 16 / MU
    for factor, enough in ((1.0, False), (1 + 0.9e-6, False), (1 + 1.1e-6, True), (2.0, True)):
        block = SumBlock("counts", 6, 1000, sigma * factor, 16.0)
        if enough:
            assert world.agree(blocks=(block,)).mu <= MU
        else:
            with pytest.raises(InvalidInputError, match="too small for the promise"):
                world.agree(blocks=(block,))


def test_epsilon_below_what_the_noise_allows_is_refused_here_and_in_a_foreign_contract() -> None:
    world = World(epsilon=1.0)
    honest = promise()
    person = replace(honest, unit="person", person=honest.record, record=(3.0, DELTA), rows_per_person=4)
    assert world.agree(promise=person).guarantee.holds
    for kind, name in ((honest, "record"), (honest, "replaced"), (person, "person"), (person, "record")):
        for pair in ((0.1, DELTA), (0.1, 0.0)):
            with pytest.raises(InvalidInputError, match="smaller epsilon than its Gaussian privacy"):
                world.agree(promise=replace(kind, **{name: pair}))
    lower = rewritten(world.contract.to_bytes(), lambda plain: plain["promise"].update(record=[0.1, DELTA]))
    with pytest.raises(InvalidInputError, match="smaller epsilon than its Gaussian privacy"):
        SumContract.from_bytes(lower)


def test_earlier_rounds_count() -> None:
    world = World(epsilon=1.0)
    with pytest.raises(InvalidInputError, match="too small for the promise"):
        world.agree(earlier_mu=MU / 10)
    half = SumBlock("counts", 6, 1000, 16 / MU * math.sqrt(2) * 1.000002, 16.0)
    assert world.agree(blocks=(half,), earlier_mu=MU / math.sqrt(2)).mu < MU


def test_promise_is_needed_unless_noise_is_left_out_by_name() -> None:
    world = World(epsilon=1.0)
    for missing in (None, replace(promise(), mu=None)):
        with pytest.raises(InvalidInputError, match="or say noise=False"):
            world.agree(promise=missing)
    assert not world.agree(noise=False).guarantee.holds
    with pytest.raises(InvalidInputError, match="at most 1000 rows"):
        world.agree(promise=replace(promise(), rows_per_person=1001))


def test_exposure_to_colluding_holders_is_that_of_one_share() -> None:
    contract = World(n_sites=10, epsilon=1.0, options={"missing_sites": 1}).contract
    assert contract.least_adding == 8
    assert contract.exposed == pytest.approx(epsilon_of(MU * math.sqrt(8), DELTA))
    assert 3.1 < contract.exposed < 3.3


def test_digest_depends_on_everything_and_survives_the_way() -> None:
    world = World(epsilon=1.0)
    contract = world.contract
    again = SumContract.from_bytes(contract.to_bytes())
    assert (again, again.digest) == (contract, contract.digest)
    assert again.guarantee == contract.guarantee
    changes = [
        {"round_id": "summer"},
        {"threshold": 4},
        {"sites": world.sites[::-1], "site_keys": contract.site_keys[::-1]},
        {"holders": contract.holders[::-1]},
        {"missing_sites": 1},
        {"colluding_sites": 2},
        {"site_keys": ()},
        {"agreement": "0" * 64},
        {"noise": False},
        {"blocks": (replace(contract.blocks[0], sigma=1000.0),)},
        {"blocks": (replace(contract.blocks[0], largest=999),)},
    ]
    digests = {world.agree(**change).digest for change in changes}
    assert len(digests | {contract.digest}) == len(changes) + 1


def test_damaged_contract_is_refused() -> None:
    content = World(epsilon=1.0).contract.to_bytes()
    damaged: list[dict[str, Any]] = [
        {"threshold": "3"},
        {"holders": [{}]},
        {"holders": 7},
        {"blocks": [{"name": "counts", "length": 6, "largest": 1000, "sigma": "x"}]},
        {"promise": {}},
        {"extra": 1},
    ]
    for each in damaged:
        changed = rewritten(content, lambda plain, each=each: plain | each)
        with pytest.raises(FileFormatError):
            SumContract.from_bytes(changed)
    for foreign in (b"[" * 10_000, b"7", content[:-1], Bundle((content,)).to_bytes()):
        with pytest.raises(FileFormatError):
            SumContract.from_bytes(foreign)
