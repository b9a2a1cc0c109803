"""Attacks on encrypted sums by names that look alike, and by rounds that a ledger would not count."""

from pathlib import Path

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.federated import EncryptedSum, HolderKey, SumBlock, SumContract, SumParties
from onefold.federated.secret.keys import KnownKeys
from onefold.federated.secret.schema import SchemaSum
from onefold.privacy import Ledger
from onefold.tables import Field, Schema

SITES = ("north", "south", "west")
KEYS = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
VECTOR = np.array([1, 2, 3])


def contract(round_id: str, keys: list[HolderKey]) -> SumContract:
    block = SumBlock("counts", 3, largest=1000)
    return SumContract(round_id, tuple(key.public for key in keys), 2, SITES, (block,), noise=False)


@pytest.mark.parametrize(("place", "name"), [(1, "Bob"), (0, "ANN"), (2, "cY")])
def test_a_known_holder_in_other_letters_is_no_new_one(place: int, name: str, tmp_path: Path) -> None:
    EncryptedSum(contract("r1", KEYS)).contribute("north", VECTOR, tmp_path)
    keys = [*KEYS[:place], HolderKey.new(name), *KEYS[place + 1 :]]
    with pytest.raises(InvalidInputError, match="another key"):
        EncryptedSum(contract("r2", keys)).contribute("north", VECTOR, tmp_path)
    EncryptedSum(contract("r3", KEYS)).contribute("north", VECTOR, tmp_path)


def test_a_foreign_key_under_the_own_name_in_other_letters_is_refused(tmp_path: Path) -> None:
    keys = [*KEYS[:2], HolderKey.new("North")]
    with pytest.raises(InvalidInputError, match="a key of north"):
        EncryptedSum(contract("r1", keys)).contribute("north", VECTOR, tmp_path)
    with pytest.raises(InvalidInputError, match="another key of north"):
        KnownKeys(tmp_path, "north", HolderKey.new("north")).check(contract("r1", keys))


def test_a_round_that_promises_nothing_is_not_made_beside_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger()
    with pytest.raises(InvalidInputError, match="void"):
        EncryptedSum(contract("r1", KEYS)).contribute("north", VECTOR, tmp_path, ledger=ledger)
    schema = Schema([Field("age", low=0, high=100), Field("ill", "boolean", role="label")])
    total = SchemaSum("r2", SumParties(SITES, tuple(key.public for key in KEYS), 2), schema)
    vector = total.vector({"age": [31, 64], "ill": [True, False]})
    with pytest.raises(InvalidInputError, match="void"):  # the noise is known
        total.total.contribute("north", vector, tmp_path, ledger=ledger, random_state=0)
    assert not ledger.events
    assert not list(tmp_path.glob("*.sum"))
    total.total.contribute("north", vector, tmp_path, ledger=ledger)
    assert len(ledger.events) == 1
