"""Peers of the federation: closed forms agree with literal ones, splits are fair, the script runs."""

import json

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from experiments.federated_heads import peers, run, summary
from experiments.federated_heads.data import Source, read


@pytest.fixture(scope="module")
def parts() -> list[peers.Part]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    X = rng.normal(size=(240, 6)) + 2.0 * np.eye(3, 6)[y]
    return [(X[rows], y[rows]) for rows in np.array_split(np.arange(240), 4)]


def _whole(parts: list[peers.Part]) -> peers.Part:
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    return X, y


def test_ridge_from_the_statistic_is_ridge_regression(parts: list[peers.Part]) -> None:
    X, y = _whole(parts)
    weights, offsets = peers.ridge(peers.Statistic.of(X, y, 3), 0.1)
    strength = 0.1 * np.trace(np.cov(X.T, bias=True)) / 6 * len(y)
    literal = Ridge(alpha=strength).fit(X, np.eye(3)[y])
    np.testing.assert_allclose(X @ weights + offsets, literal.predict(X), atol=1e-10)


def test_lda_from_the_statistic_is_a_linear_discriminant(parts: list[peers.Part]) -> None:
    X, y = _whole(parts)
    weights, offsets = peers.lda(peers.Statistic.of(X, y, 3), 1e-9)
    literal = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    assert np.array_equal((X @ weights + offsets).argmax(axis=1), literal.predict(X))


def test_statistics_of_sites_add_up_to_that_of_all_rows(parts: list[peers.Part]) -> None:
    whole = peers.Statistic.of(*_whole(parts), 3)
    total = sum((peers.Statistic.of(X, y, 3) for X, y in parts[1:]), peers.Statistic.of(*parts[0], 3))
    np.testing.assert_allclose(total.gram, whole.gram)
    np.testing.assert_allclose((whole - total).sums, 0.0, atol=1e-9)


@pytest.mark.parametrize("name", list(peers.CLOSED))
def test_closed_forms_learn_and_say_what_they_chose(parts: list[peers.Part], name: str) -> None:
    X, y = _whole(parts)
    fitted = peers.CLOSED[name]([(X[:120], y[:120])], 3, 0)
    assert np.mean(fitted.predict(X[120:]) == y[120:]) > 0.7
    assert fitted.up > 0
    assert "penalty" in fitted.chosen


def test_rows_in_few_dimensions_give_the_same_head() -> None:
    rng = np.random.default_rng(1)
    F, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    inner, basis = peers._within(F)
    few, many = (
        peers.ridge(peers.Statistic.of(each, y, 2), p) for each, p in ((inner, 0.1 * 20 / 50), (F, 0.1))
    )
    np.testing.assert_allclose(basis @ few[0], many[0], atol=1e-10)


@pytest.mark.parametrize("fit", [peers.sampled, peers.averaged])
def test_trained_heads_learn_and_keep_their_setting(parts: list[peers.Part], fit) -> None:
    X, y = _whole(parts)
    head, setting = fit(parts, 3, 0)
    again, kept = fit(parts, 3, 1, setting)
    assert kept == setting
    for found in (head, again):
        assert np.mean(found.predict(X) == y) > 0.7
        assert found.up > 0


def test_splits_keep_persons_and_official_test_rows_apart() -> None:
    X, y = np.zeros((60, 2), np.float32), np.arange(60) % 2
    people = Source("persons", "table", X, y, groups=np.arange(60) // 6)
    task = people.split(0, 1000, 1000)
    assert not set(people.groups[task.train]) & set(people.groups[task.test])
    assert all(len(set(task.groups[rows])) == 1 for rows in task.sites(100))
    official = Source("official", "pixels", X, y, n_fixed=20)
    assert official.split(1, 1000, 1000).test.tolist() == list(range(40, 60))
    assert max(official.split(1, 1000, 1000, validate="rows").test) < 40


def test_held_out_clusters_are_unlike_the_rows_that_are_left() -> None:
    directions = np.repeat(np.eye(4, dtype=np.float32), 10, axis=0)
    rows = directions + np.random.default_rng(0).normal(0, 0.01, directions.shape).astype(np.float32)
    source = Source("four heaps", "embedding", rows, np.zeros(40, np.intp))
    task = source.split(0, 1000, 1000, validate="clusters")
    assert np.sort([*task.train, *task.test]).tolist() == source.split(0, 1000, 1000).train.tolist()
    assert len(task.test) > 0
    assert (task.X_test @ task.X.T).max() < 0.5


def test_sites_share_out_every_training_row_once() -> None:
    task = read("wine", None).split(0, 1000, 1000)
    for n_sites in (10, 100):
        rows = np.sort(np.concatenate(task.sites(n_sites)))
        assert rows.tolist() == list(range(len(task.train)))


def test_the_verdict_is_paired_and_takes_the_strongest_rival() -> None:
    def cells(*accuracies: float) -> list[dict[str, float]]:
        return [{"accuracy": each} for each in accuracies]

    found = {summary.OURS: cells(0.7, 0.8), "folding": cells(0.5, 0.5), "ridge (AFL)": cells(0.71, 0.8)}
    rival, gap, error = summary.verdict(found)
    assert rival == "ridge (AFL)"
    assert gap == pytest.approx(-0.5)
    assert error == pytest.approx(0.5)


@pytest.mark.nightly
def test_the_comparison_runs_without_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["values"]["digits 8 x 8, 10 sites: folding"] > 0.7


def test_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    assert run.main(["--sets", "usps", "--data-dir", str(tmp_path)]) == 2
    assert "usps.npz not found" in capsys.readouterr().err
    assert run.main(["--sets", "nothing"]) == 2
    assert "no data is called" in capsys.readouterr().err
