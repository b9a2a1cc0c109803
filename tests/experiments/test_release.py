"""The experiments of 002 run at small size and give the document's exact numbers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments.release import adult, formulas, lending, peers, toy, wisconsin


def values(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    return dict(json.loads(capsys.readouterr().out)["values"])


def test_toy_experiment_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.main(["--quick", "--json"]) == 0
    found = values(capsys)
    assert found["draws, share identical to 1e-9"] == 1
    assert found["draws, correlated bound, 5%"] < found["draws, correlated bound, 95%"] < 100
    assert [found[f"bound at lam {lam}"] for lam in ("0.0001", "0.01", "1")] == pytest.approx([200, 20, 2])
    assert found["identical to 1e-9"] == 1


@pytest.mark.nightly
def test_wisconsin_experiment_runs_on_generated_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["--quick", "--json", "--resume", str(tmp_path / "journal")]
    assert wisconsin.main(arguments) == 0
    found = values(capsys)
    assert found["correlated bound over m"] == pytest.approx(28.4127, abs=1e-4)
    assert found["identical to 1e-6"] == 1
    assert wisconsin.main(arguments) == 0  # from the journal, nothing is fitted again
    assert values(capsys) == pytest.approx(found)


def small_adult(folder: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = {"train": rng.integers(17, 90, (600, 6)), "test": rng.integers(17, 90, (200, 6))}
    arrays = {
        "num_cols": np.array(
            ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
        ),
        "cat_cols": np.array(["sex"]),
        "levels_sex": np.array(["f", "m"]),
    }
    for side, table in numbers.items():
        arrays[f"num_{side}"] = table.astype(np.int32)
        arrays[f"cat_{side}"] = rng.integers(0, 2, (len(table), 1)).astype(np.uint8)
        arrays[f"y_{side}"] = (table[:, 0] > 50).astype(np.uint8)
    np.savez(folder / "adult.npz", **arrays)


@pytest.mark.nightly
def test_adult_experiment_runs_on_generated_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_adult(tmp_path)
    assert adult.main(["--quick", "--json", "--data-dir", str(tmp_path)]) == 0
    found = values(capsys)
    assert found["optimal, lam 10000"] > found["optimal, lam 0.001"]
    assert adult.main(["--data-dir", str(tmp_path / "nowhere")]) == 2
    whole = ["--whole", "--json", "--repetitions", "2", "--piece", "1", "--data-dir", str(tmp_path)]
    assert adult.main(whole) == 1  # other rows than those of the recorded numbers
    found = values(capsys)
    assert found["whole, baseline"] > 0.9
    assert set(found) >= {"whole, optimal, lam 100", "whole, clearly better at equal bound"}


def test_lending_experiment_runs_on_generated_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "grade": rng.choice(["A", "B", "C"], 400),
        "income": rng.normal(size=400),
        "gaps": np.full(400, np.nan),
    }
    rate = 10 + 3 * (columns["grade"] == "C") + columns["income"]
    arrays = {f"c_{name}": data for name, data in (columns | {"interest_rate": rate}).items()}
    np.savez(tmp_path / "lending_club_openintro.npz", columns=np.array([*columns, "interest_rate"]), **arrays)
    assert lending.main(["--quick", "--json", "--data-dir", str(tmp_path)]) == 0
    found = values(capsys)
    assert found["optimal, lam 0.0001"] < found["optimal, lam 1e+06"] <= found["baseline"] + 1e-9
    assert lending.main(["--data-dir", str(tmp_path / "nowhere")]) == 2


def test_formulas_experiment_gives_the_documents_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = tmp_path / "figure.svg"
    assert formulas.main(["--json", "--figure", str(figure)]) == 0
    found = values(capsys)
    assert figure.read_text(encoding="utf-8").count("<path") > 10
    # Thm 2.5 by hand: mu (1 + sqrt(2 ln(1/delta))), and the bound it stands for
    assert found["Thm 2.5, delta 1e-05"] == pytest.approx(0.1 * (1 + np.sqrt(2 * np.log(1e5))))
    assert found["bound of Thm 2.5, epsilon 1"] == pytest.approx((1 + np.sqrt(2 * np.log(1e5))) ** 2)
    # loose where noise is strong, false where it is weak
    assert found["exact, delta 1e-05"] < found["Thm 2.5, delta 1e-05"]
    assert found["exact bound, epsilon 1"] < found["bound of Thm 2.5, epsilon 1"]
    assert found["exact bound, epsilon 30"] > found["bound of Thm 2.5, epsilon 30"]
    assert formulas.main(["--figure", str(tmp_path / "figure.txt")]) == 2


def test_peers_experiment_runs_without_the_other_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], block_import: Callable[[str], None]
) -> None:
    """The optimal noise is measured wherever the other packages are not installed, and a journal is kept."""
    block_import("diffprivlib")
    block_import("opendp")
    journal = tmp_path / "journal"
    assert peers.main(["--quick", "--json", "--resume", str(journal)]) == 0
    found = values(capsys)
    assert set(found) == {f"optimal noise, epsilon {epsilon}" for epsilon in (10, 50, 200)}
    assert found["optimal noise, epsilon 200"] > 0.85
    assert len(journal.read_text(encoding="utf-8").splitlines()) == 3
