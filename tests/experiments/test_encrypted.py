"""The experiment on encrypted aggregation runs on tiny data and finds what it claims."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("seal")

from experiments.harness import main, parser
from experiments.operator import data, encrypted, encrypted_default


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Files of the real ones' names and arrays, made of scikit-learn's digits."""
    digits = load_digits()
    labels = digits.target.astype(np.uint8)
    unit = (digits.data / np.linalg.norm(digits.data, axis=1, keepdims=True)).astype(np.float32)
    parts = {"train": slice(0, 300), "test": slice(300, 400)}
    arrays = {f"X_{part}": unit[rows] for part, rows in parts.items()}
    np.savez(tmp_path / data.NEWS, **arrays, **{f"y_{part}": labels[rows] for part, rows in parts.items()})
    for name in ("usps", data.IMAGES):
        y = {f"y_{part}": labels[rows] for part, rows in parts.items()}
        np.savez(tmp_path / name, **arrays, **y, scale=np.float32(1.0))
    np.savez(tmp_path / data.GERMAN, X=unit[:200].astype(np.float16), y=labels[:200])
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    given = ["--quick", "--json", *arguments]
    assert main(encrypted.__file__, encrypted.options(), encrypted.experiment, given) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.nightly
def test_encrypted_answers_equal_the_simulated_circuit_and_plain_minima(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--data-dir", str(data_dir), "--resume", str(tmp_path / "journal"))
    found = run(capsys, *arguments)
    values = found["values"]
    for name in encrypted.ENCRYPTED:
        assert values[f"{name} rows that differ"] == 0
        assert values[f"{name} rows encrypted"] == 16
        assert abs(values[f"{name} simulated"] - values[f"{name} plain"]) < 0.1
    for name in (encrypted.DIGITS, encrypted.NEWS):
        for bits in encrypted.FLIP_BITS:
            assert (
                values[f"{name} {bits} bits fitted flips"] <= values[f"{name} {bits} bits plain flips"] + 0.02
            )
        assert values[f"{name} 10 bits fitted flips"] < 0.05
    assert len(found["tables"]) == 3
    assert run(capsys, *arguments)["values"] == values  # nothing is done twice, so nothing changes


@pytest.mark.nightly
def test_default_map_and_looks_change_few_decisions_and_encryption_none(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--quick", "--json", "--data-dir", str(data_dir)]
    options = parser(encrypted_default.__doc__)
    assert main(encrypted_default.__file__, options, encrypted_default.experiment, given) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    for name in encrypted_default.SITES:
        for measure in encrypted_default.MEASURES:
            key = f"{name} {measure}"
            assert values[f"{key} rows that differ"] == 0
            assert values[f"{key} flips"] <= 0.02
            assert abs(values[f"{key} default"]) <= 2.0  # points; a row is one


def test_flips_of_a_quantiser_equal_those_counted_by_hand() -> None:
    """Two clients, three rows: rounding to two bits ties the first row, and the first class wins the tie."""
    answers = np.full((2, 4, 2), np.nan)
    answers[0, :, 0] = [0.40, 0.10, 0.90, 0.5]
    answers[1, :, 1] = [0.35, 0.60, 0.20, 0.5]
    found = encrypted.Measures(answers, np.array([1, 0, 1, 0]))
    assert found.exact.tolist() == [1, 0, 1, 0]
    assert found.held_out.tolist() == [0, 3]
    assert found.others.tolist() == [1, 2]
    every = encrypted.Measures(np.repeat(answers, 2, axis=1), np.repeat(found.y, 2))
    piece = encrypted.flips_piece(every, 2)
    assert every.others.size == 4
    rounded = np.rint(3 * np.nanmin(every.answers[:, every.others], axis=0))
    flipped = np.mean(rounded.argmin(axis=1) != every.exact[every.others])
    assert piece["plain flips"] == flipped


def test_missing_data_prints_one_line_and_exits_with_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--data-dir", str(tmp_path)]
    assert main(encrypted.__file__, encrypted.options(), encrypted.experiment, arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
