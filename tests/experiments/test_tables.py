"""The experiments on ordinary tables run at small size, and their goals hold on generated rows."""

import json

import numpy as np
import pytest

from experiments.tables import accuracy, synthesis
from experiments.tables.data import TABLES, declared


@pytest.mark.parametrize("name", ["thresholds", "circles"])
def test_the_head_is_close_to_the_better_peer_and_far_above_a_line(name: str) -> None:
    found = accuracy.scores(TABLES[name](None), 0, 600)
    assert set(found) == set(accuracy.METHODS)
    assert found["onefold"] > max(found["linear"], found["majority"]) + 0.05
    assert found["onefold"] > max(found["SVC"], found["boosting"]) - 0.06


def test_a_split_keeps_persons_apart() -> None:
    table = TABLES["wine"](None)
    grouped = type(table)(table.name, table.columns, table.label, np.arange(len(table)) // 10)
    train, test = accuracy.split(grouped, 0, 1000)
    assert grouped.groups is not None
    assert not set(grouped.groups[train]) & set(grouped.groups[test])


def test_a_synthetic_table_is_better_than_guessing_and_worse_than_the_rows() -> None:
    table = TABLES["gaps"](None)
    real, made = (synthesis.one(table, epsilon, 1, 2000) for epsilon in (np.inf, 4.0))
    assert 0.6 < made["linear AUC"] < real["linear AUC"] + 0.05
    assert 0.0 < made["pairs"] < 0.3


def test_a_declared_schema_stands_for_public_knowledge() -> None:
    schema = declared(TABLES["gaps"](None))
    schema.require_declared()
    assert schema.rows_about == 2048


@pytest.mark.slow
def test_both_experiments_run_without_files(capsys: pytest.CaptureFixture[str]) -> None:
    for script in (accuracy, synthesis):
        assert script.main(["--quick", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["values"]


def test_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    assert accuracy.main(["--data-dir", str(tmp_path)]) == 2
    assert "adult.npz not found" in capsys.readouterr().err
