"""``onefold demo``: its numbers, its notes, its report."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import build_parser, main
from onefold.cli.demo import compare
from onefold.datasets import load


@pytest.fixture(scope="module")
def study() -> dict:
    """The demo as it runs without options."""
    args = build_parser(["demo"]).parse_args(["demo"])
    return asdict(compare(args, load("digits")))


def demo(capsys, *arguments: str) -> dict:
    assert main(["demo", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_federated_accuracy_is_near_pooled_and_above_every_single_site(study: dict) -> None:
    facts, counts = study["facts"], np.array(study["counts"])
    assert counts.shape == (5, 10)
    assert (counts == 0).any()
    assert counts.sum() == 1346
    assert len(facts["alone"]) == 5
    assert facts["federated"] > max(facts["alone"]) + 0.1
    assert abs(facts["federated"] - facts["pooled"]) < 0.01
    assert facts["pooled"] > 0.97
    assert facts["scalars_per_query"] == 50
    assert facts["scalars_in_all"] == 50 * facts["test_samples"]
    assert facts["federated_guarantee"] is None
    for row, entry in zip(counts, study["entries"], strict=False):
        assert (entry["samples"], entry["classes"]) == (row.sum(), (row > 0).sum())


def test_private_lines_cost_accuracy_and_state_their_guarantee(study: dict) -> None:
    facts = study["facts"]
    entry, record = facts["private_entry"], facts["private_record"]
    assert max(facts["alone"]) < entry["accuracy"] < facts["federated"]
    assert max(facts["alone"]) < record["accuracy"] < facts["federated"]
    assert entry["guarantee"]["unit"] == "entry"
    assert entry["guarantee"]["entry"] == {"epsilon": 4.0, "delta": 1e-5}
    assert entry["guarantee"]["record"]["epsilon"] == 4.0 * 64
    assert record["guarantee"]["unit"] == "record"
    assert record["guarantee"]["record"] == {"epsilon": 8.0, "delta": 1e-5}
    for line in (entry, record):
        assert line["guarantee"]["holds"]
        assert line["guarantee"]["clipped"]
        assert line["guarantee"]["n_owners"] == 5


@pytest.mark.merge
def test_smaller_epsilon_costs_more_accuracy(capsys) -> None:
    facts = demo(capsys, "--epsilon", "0.05", "--record-epsilon", "0.05")["facts"]
    assert facts["private_entry"]["accuracy"] < 0.7
    assert facts["private_record"]["accuracy"] < 0.7


@pytest.mark.exact
def test_leaving_site_changes_no_bit_of_the_other_answers(study: dict) -> None:
    left = study["facts"]["left"]
    assert left["exact"] is True
    assert left["site"] == 1 + int(np.array(study["counts"]).sum(axis=1).argmin())
    assert left["accuracy"] < study["facts"]["private_entry"]["accuracy"] + 0.02


def test_single_site_accuracy_is_limited_by_its_classes(study: dict) -> None:
    counts = np.array(study["counts"])
    shares = counts.sum(axis=0) / counts.sum()
    for row, accuracy in zip(counts, study["facts"]["alone"], strict=True):
        assert accuracy <= shares[row > 0].sum() + 0.01  # the test samples have the same shares


def test_same_seed_gives_the_same_split_and_accuracies(capsys) -> None:
    first = demo(capsys, "--seed", "1", "--dataset", "iris", "--sites", "3")
    again = demo(capsys, "--seed", "1", "--dataset", "iris", "--sites", "3")
    other = demo(capsys, "--seed", "2", "--dataset", "iris", "--sites", "3")
    assert again["counts"] == first["counts"] != other["counts"]
    for name in ("alone", "pooled", "federated"):
        assert again["facts"][name] == first["facts"][name]


def test_demo_prints_a_table_with_notes_and_writes_a_report(capsys, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    page = tmp_path / "page.html"
    assert main(["demo", "--sites", "3", "--report", str(page)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert len(re.findall(r"^site \d alone +\d+ +\d+ +0\.\d{4}$", shown.out, flags=re.MULTILINE)) == 3
    assert re.search(r"^federated, one round +1346 +10 +0\.\d{4}$", shown.out, flags=re.MULTILINE)
    assert re.search(r"^private, epsilon 4 per entry +1346 +10 +0\.\d{4}$", shown.out, flags=re.MULTILINE)
    words = " ".join(shown.out.split())
    assert "the same to the last bit as that of a federation that never had it" in words
    assert "epsilon 256 per record" in words
    assert "3 x 10 = 30 numbers per query" in words
    assert "no claim of differential privacy" in words
    assert words.count("One entry, clipped to the declared domain: epsilon 4 per entry") == 1
    assert words.count("An attacker who knows everything but the features of one record") == 1
    assert words.count("An attacker who knows everything but whether one record is in the data") == 1
    assert max(map(len, shown.out.splitlines()[:-1])) <= 88
    assert "no claim of differential privacy" in page.read_text(encoding="utf-8")


@pytest.mark.merge
def test_demo_runs_as_a_process_and_leaves_no_file(process, tmp_path: Path) -> None:
    done = process("demo", "--dataset", "iris", "--sites", "2", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    settings = json.loads(done.stdout)["settings"]
    assert settings["sites"] == 2
    assert list(tmp_path.iterdir()) == []
