"""Attacks on accounts: names of one file, accounts that vanish, and releases that would cost too little."""

import math
import os
from pathlib import Path
from typing import Any

import pytest

from onefold.exceptions import BudgetExceededError, InvalidInputError
from onefold.privacy import Event, Guarantee, Ledger
from onefold.privacy.ledger import charge

ONE = Guarantee("record", (1.0, 0.0), (1.0, 0.0), 3)


def test_a_second_name_of_the_file_is_no_second_account(tmp_path: Path) -> None:
    path, link, other = (tmp_path / name for name in ("account", "link", "other"))
    Ledger(2.0).save(path)
    link.symlink_to(path)
    charge(link, ONE, "first")
    os.link(path, other)  # writing one name would leave the other behind
    for name in (path, link, other):
        with pytest.raises(InvalidInputError, match="second name"):
            charge(name, ONE, "second")
    other.unlink()
    charge(path, ONE, "second")
    with pytest.raises(BudgetExceededError):
        charge(link, ONE, "third")
    assert len(Ledger.load(path).events) == 2


@pytest.mark.parametrize("mu", [1e-9, 0.01, 0.1])
@pytest.mark.parametrize("of_persons", [False, True])
def test_a_guarantee_that_states_less_noise_privacy_than_its_numbers_costs_its_numbers(
    mu: float, of_persons: bool
) -> None:
    pair = (1.0, 1e-6)
    own: dict[str, Any] = {"person": pair, "rows_per_person": 2} if of_persons else {}
    promise = Guarantee("record", pair, pair, 3, mu=mu, **own)
    ledger = Ledger(unit="person" if of_persons else "record")
    ledger.spend_guarantee(Guarantee.from_dict(promise.to_dict()), "one")
    assert ledger.total()[0] >= 1.0 - 1e-9
    for _ in range(9):
        ledger.spend_guarantee(promise, "more")
    assert ledger.total(delta=1e-5)[0] > 3.0  # ten releases by Gaussian noise of (1, 1e-6) each


def test_labels_alone_do_not_stand_for_records_that_were_released_too() -> None:
    nothing = (math.inf, 1.0)
    of_labels = Guarantee("label", nothing, nothing, 3, labels=(1.0, 0.0))
    of_records = Guarantee("record", (5.0, 0.0), (5.0, 0.0), 3, labels=(1.0, 0.0))
    for joined in (of_labels.join(of_records), of_records.join(of_labels)):
        ledger = Ledger()
        with pytest.raises(InvalidInputError, match="promises nothing per record"):
            ledger.spend_guarantee(joined, "both")
        assert not ledger.events
    assert of_labels.join(of_labels).unit == "label"


def test_of_several_accounts_none_counts_what_one_refuses(tmp_path: Path) -> None:
    roomy, full = tmp_path / "roomy", tmp_path / "full"
    Ledger().save(roomy)
    Ledger(0.5).save(full)
    for several in ((roomy, full), (full, roomy), (Ledger.load(roomy), full)):
        with pytest.raises(BudgetExceededError):
            charge(several, ONE, "release")
        assert not Ledger.load(roomy).events
        assert not Ledger.load(full).events


@pytest.mark.parametrize(
    "odd",
    [
        {"count": 10**400},
        {"epsilon": 1e300, "count": 10},
        {"family": "gaussian", "noise_multiplier": 1e200},
        {"family": "gaussian", "noise_multiplier": 1e-200},
        {"family": "laplace", "noise_multiplier": 1e-200, "coordinates": 10**400},
    ],
)
def test_numbers_that_cannot_be_added_up_are_refused_in_one_line(odd: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="Input should be"):
        Event("forged", "record", **({"epsilon": 1.0} | odd))


@pytest.mark.parametrize("size", [1e-100, 1e100])
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_largest_numbers_can_be_added_up(size: float, family: str) -> None:
    largest: dict[str, Any] = {"count": 2**53, "coordinates": 2**53, "noise_multiplier": size}
    ledger = Ledger()
    ledger.spend(Event("huge", "record", 1e100, 1e-6, family=family, **largest))
    assert ledger.total()[0] >= 0
    assert ledger.total(delta=1e-5)[0] >= 0
    assert "epsilon" in str(ledger)
