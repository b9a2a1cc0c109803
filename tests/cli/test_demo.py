"""The demonstration: its numbers, its words, its page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main


def demo(capsys, *arguments: str) -> dict:
    assert main(["demo", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_federated_is_close_to_pooled_and_better_than_anybody_alone(capsys) -> None:
    result = demo(capsys)
    facts = result["facts"]
    counts = np.array(result["counts"])
    assert counts.shape == (5, 10)
    assert (counts == 0).any()
    assert counts.sum() == 1346
    assert len(facts["alone"]) == 5
    assert facts["federated"] > max(facts["alone"]) + 0.1
    assert abs(facts["federated"] - facts["pooled"]) < 0.01
    assert facts["pooled"] > 0.97
    assert facts["scalars_per_query"] == 50
    assert facts["scalars_in_all"] == 50 * facts["test_samples"]
    assert facts["privacy_guarantee"] is None
    for row, entry in zip(counts, result["entries"], strict=False):
        assert (entry["samples"], entry["classes"]) == (row.sum(), (row > 0).sum())


def test_nobody_predicts_a_class_it_lacks(capsys) -> None:
    result = demo(capsys, "--owners", "12", "--seed", "4")
    counts = np.array(result["counts"])
    shares = counts.sum(axis=0) / counts.sum()
    for row, accuracy in zip(counts, result["facts"]["alone"], strict=True):
        assert accuracy <= shares[row > 0].sum() + 0.01  # the test samples have the same shares


def test_the_seed_decides(capsys) -> None:
    first = demo(capsys, "--seed", "1", "--dataset", "iris", "--owners", "3")
    assert demo(capsys, "--seed", "1", "--dataset", "iris", "--owners", "3") == first
    assert demo(capsys, "--seed", "2", "--dataset", "iris", "--owners", "3")["counts"] != first["counts"]


def test_what_a_person_sees(capsys, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    page = tmp_path / "page.html"
    assert main(["demo", "--owners", "3", "--report", str(page)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert len(re.findall(r"^owner \d alone +\d+ +\d+ +0\.\d{4}$", shown.out, flags=re.MULTILINE)) == 3
    assert re.search(r"^federated, one round +1346 +10 +0\.\d{4}$", shown.out, flags=re.MULTILINE)
    words = " ".join(shown.out.split())
    assert "3 x 10 = 30 numbers per query" in words
    assert "no claim of differential privacy" in words
    assert max(map(len, shown.out.splitlines()[:-1])) <= 88
    assert "no claim of differential privacy" in page.read_text(encoding="utf-8")


def test_local_data(capsys, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(["left", "right"], 40)
    np.savez(tmp_path / "mine.npz", X=rng.normal(size=(80, 3)) + 5.0 * (y == "right")[:, None], y=y)
    result = demo(capsys, "--dataset", "mine", "--data-dir", str(tmp_path), "--owners", "2")
    assert result["class_names"] == ["left", "right"]
    assert result["facts"]["federated"] == 1.0


def test_in_a_process_of_its_own(onefold, tmp_path: Path) -> None:
    done = onefold("demo", "--dataset", "iris", "--owners", "2", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["settings"]["owners"] == 2
    assert list(tmp_path.iterdir()) == []
