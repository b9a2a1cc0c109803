"""Nothing stands for a charge that was made elsewhere: every message is entered where it is made."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.fabrication import TableSynthesizer
from onefold.federated import HolderKey, SumHolder
from onefold.federated.secret.contract import SumParties
from onefold.federated.secret.statistics import MomentSum
from onefold.privacy import Ledger, PrivateMoments
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.tables import Field, Schema

OPEN = Schema([Field("age", low=0, high=99), Field("ill", "boolean", role="label")], rows_about=1000)
ROWS = {"age": np.arange(90.0), "ill": np.arange(90) % 2 == 0}


@pytest.mark.parametrize("option", ["--fine", "--bins-from", "--own", "--counts", "--join", "--leave"])
def test_counts_are_not_carried_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    OPEN.save("schema.json")
    Path("rows.csv").write_text("age,ill\n1,true\n")
    given = ["rows.csv", "--schema", "schema.json", "--epsilon", "1", "--out", "made.csv"]
    assert main(["synthesize", *given, option, "file"]) == 2
    assert f"unrecognized arguments: {option} file" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "schema.json"]


def test_a_synthesizer_has_no_state_that_pays() -> None:
    for name in ("count_bins", "pause", "resume"):
        assert not hasattr(TableSynthesizer, name)
    ledgers = [Ledger(neighbours="add-remove") for _ in range(2)]
    maker = TableSynthesizer(OPEN, 1.0)
    for ledger in ledgers:
        maker.set_params(ledger=ledger).count_tables(ROWS)
    assert [len(ledger.events) for ledger in ledgers] == [1, 1]
    assert not [name for name in vars(maker) if name not in maker.get_params()]


SITES = ("a", "b", "c", "d")


@pytest.mark.parametrize("of_persons", [False, True], ids=["records", "persons"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_both_rounds_of_a_sum_are_charged_wherever_they_are_made(
    tmp_path: Path, of_persons: bool, relation: Any
) -> None:
    """The message of the first round is in the folder, and the second is counted all the same."""
    keys = [HolderKey.new(name) for name in ("x", "y", "z")]
    agreed = PrivateMoments(1.0, 1e-6, classes=[0, 1], neighbours=relation)
    parties = SumParties(SITES, tuple(key.public for key in keys), 2)
    total = MomentSum("spring", parties, agreed, 3, of_persons=of_persons)
    rng = np.random.default_rng(0)
    X, y, person = rng.random((8, 3)), np.arange(8) % 2, np.arange(8) if of_persons else None
    unit = "person" if of_persons else "record"
    one, two, both = (Ledger(unit=unit, neighbours=relation) for _ in range(3))
    rows = total.first_vector(X, y, person)
    sent = [total.first.contribute(site, rows, tmp_path, ledger=(one, both)) for site in SITES[:1]]
    sent += [total.first.contribute(site, rows, tmp_path) for site in SITES[1:]]
    opened = total.first.together(sent, [SumHolder(total.first, key, tmp_path) for key in keys])
    later = total.proceed(opened)
    later.second.contribute("a", later.second_vector(X, y, person), tmp_path, ledger=(two, both))
    assert [len(ledger.events) for ledger in (one, two, both)] == [1, 1, 2]
    for ledger, contract in ((one, total.first.contract), (two, later.second.contract)):
        epsilon, delta = ledger.total()
        assert epsilon >= epsilon_of(contract.mu, delta) * (1 - 1e-9)
    epsilon, delta = both.total()
    assert delta == pytest.approx(1e-6, rel=1e-4)
    true = math.hypot(total.first.contract.mu, later.second.contract.mu)
    assert epsilon_of(true, delta) * (1 - 1e-9) <= epsilon <= 1.0 + 1e-6  # what was promised for both
    assert true <= mu_of(1.0, 1e-6)


@pytest.mark.parametrize("of_persons", [False, True], ids=["records", "persons"])
def test_a_part_of_a_promise_is_not_below_its_noise_in_any_ledger(of_persons: bool) -> None:
    """What is replaced moves two cells: the root of two of what one more moves, and at most twice that."""
    keys = [HolderKey.new(name) for name in ("x", "y", "z")]
    agreed = PrivateMoments(1.0, 1e-6, classes=[0, 1])
    parties = SumParties(SITES, tuple(key.public for key in keys), 2)
    contract = MomentSum("spring", parties, agreed, 3, of_persons=of_persons).first.contract
    ledgers = [Ledger(), Ledger(unit="entry"), *([Ledger(unit="person")] if of_persons else [])]
    for ledger in ledgers:
        ledger.spend_guarantee(contract.cost, "round")
        (event,) = ledger.events
        whole = Ledger(unit=ledger.unit)
        whole.spend_guarantee(contract.guarantee, "both rounds")
        stated = 1.0 / event.noise_multiplier
        assert math.sqrt(2.0) * contract.mu * (1 - 1e-9) <= stated
        assert event.epsilon <= whole.events[0].epsilon or stated <= 2.0 * contract.mu * (1 + 1e-9)
