"""Nothing stands for a charge that was made elsewhere: every message is entered where it is made."""

from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.fabrication import TableSynthesizer
from onefold.privacy import Ledger
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
