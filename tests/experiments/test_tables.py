"""The experiments on ordinary tables run at small size, and their goals hold on generated rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import stored
from experiments.tables import accuracy, regression, regression_constants, synthesis
from experiments.tables.data import TABLES, declared


@pytest.mark.nightly
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


@pytest.mark.parametrize("name", regression.BUNDLED)
def test_no_choice_for_numbers_sees_a_test_row(name: str) -> None:
    """Splits draw from two pools that are apart, and constants are compared on the first alone."""
    table = regression.TABLES[name](None)
    train, test = (set(pool.tolist()) for pool in regression.pools(table))
    assert not train & test
    assert len(train) + len(test) == len(table)
    for seed in range(3):
        fitted, tested = regression.split(table, seed, 3000)
        assert set(fitted.tolist()) <= train
        assert set(tested.tolist()) <= test
        for part in regression_constants.inner_split(table, seed, 3000):
            assert set(part.tolist()) <= train


@pytest.mark.nightly
def test_sums_of_sites_predict_numbers_as_well_as_ridge_and_noise_costs_something() -> None:
    errors, variance = regression.errors(regression.TABLES["friedman"](None), 0, 600, 1)
    assert set(errors) == {*regression.PEERS, *regression.OWN, *regression.PRIVATE, *regression.AT_SITES}
    assert errors["mean"] == pytest.approx(variance, rel=0.02)
    assert errors["10 sites: sums"] < 0.5 * errors["ridge"]  # which is linear
    assert errors["moments, linear"] == pytest.approx(errors["ridge"], rel=0.05)
    assert errors["moments, linear"] < errors["epsilon 1"] < errors["10 sites, epsilon 1"]
    assert errors["epsilon 8"] < errors["mean"]


def test_the_package_has_the_constants_that_were_chosen_on_training_rows() -> None:
    kept = stored.read(stored.path_of(Path(regression_constants.__file__)))
    assert kept is not None
    names = ("output share", "share of the sums", "doubt", "middle")
    assert tuple(kept["values"][name] for name in names) == regression_constants.used()


def test_constants_are_set_for_a_trial_only() -> None:
    before = regression_constants.used()
    table = regression.TABLES["costs"](None)
    small, usual = (
        regression_constants.relative_error(table, constants, 0, 300, 1)
        for constants in ((0.01, 0.1, 1.0, 1.0 / 12.0), before)
    )
    assert usual < small
    assert regression_constants.used() == before


@pytest.mark.nightly
def test_quick_runs_about_numbers_need_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    for script in (regression, regression_constants):
        assert script.main(["--quick", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["values"]


@pytest.mark.nightly
def test_both_experiments_run_without_files(capsys: pytest.CaptureFixture[str]) -> None:
    for script in (accuracy, synthesis):
        assert script.main(["--quick", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["values"]


def test_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    assert accuracy.main(["--data-dir", str(tmp_path)]) == 2
    assert "adult.npz not found" in capsys.readouterr().err
