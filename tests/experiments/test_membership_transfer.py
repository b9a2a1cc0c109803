"""The transfer experiments run on small data, resume where they stopped, and compare like with like."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.harness import printed_for, printed_in
from experiments.membership import digits, domains, measuring, nonparametric, office, ranks, sources
from onefold.privacy import OptimalNoise
from onefold.transfer import PrivateSource


@pytest.fixture(autouse=True)
def forget():
    """Domains are kept between pieces of one run, not between tests."""
    for kept in (domains.digits, domains.encoded, domains.photographs):
        kept.cache_clear()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Files of the real ones' names and arrays, made of scikit-learn's digits."""
    found = load_digits()
    labels = found.target.astype(np.uint8)
    large = np.pad(np.kron(found.images, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2))).astype(np.uint8) * 15
    small = (np.kron(found.images, np.ones((2, 2))) * 125 - 1000).astype(np.int16).reshape(-1, 256)
    for name, X, more in (("mnist", large, {}), ("usps", small, {"scale": np.int32(1000)})):
        np.savez(
            tmp_path / f"{name}.npz",
            X_train=X[:1200],
            y_train=labels[:1200],
            X_test=X[1200:],
            y_test=labels[1200:],
            **more,
        )
    rows = {f"X_{name}": found.data[k::4].astype(np.float16) for k, name in enumerate(domains.SOURCE_ROWS)}
    names = {f"y_{name}": labels[k::4] for k, name in enumerate(domains.SOURCE_ROWS)}
    np.savez(tmp_path / f"{domains.OFFICE}.npz", **rows, **names)
    return tmp_path


@pytest.mark.nightly
def test_digits_experiment_runs_and_resumes(data_dir, capsys) -> None:
    arguments = ["--quick", "--json", "--tables", "2", "--methods", "moments", "--seeds", "1"]
    arguments += ["--data-dir", str(data_dir), "--resume", str(data_dir / "journal")]
    assert digits.main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["values"]["mnist-usps moments epsilon 1 labels 100"] > 0.8
    lines = (data_dir / "journal").read_text().splitlines()
    assert digits.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["values"] == first["values"]
    assert (data_dir / "journal").read_text().splitlines() == lines


@pytest.mark.nightly
def test_documented_strategy_runs_on_rows_of_another_width(data_dir, capsys) -> None:
    arguments = ["--quick", "--json", "--tables", "2", "--methods", "documented", "--seeds", "1"]
    assert digits.main([*arguments, "--data-dir", str(data_dir)]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["mnist-usps documented epsilon 0.1 labels 100, target alone"] > 0.5


@pytest.mark.nightly
def test_several_sources_are_measured_beside_one_and_none(data_dir, capsys) -> None:
    arguments = ["--quick", "--json", "--settings", "photographs", "--labels", "3"]
    assert sources.main([*arguments, "--data-dir", str(data_dir)]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert set(values) == {f"photographs/3/{method}" for method in sources.METHODS}
    assert values["photographs/3/sources"] > values["photographs/3/no source"]


def test_equal_methods_share_a_place() -> None:
    assert ranks.places({"a": 0.9, "b": 0.8, "c": 0.9, "d": 0.7}) == {"a": 0, "c": 0, "b": 1, "d": 2}


@pytest.mark.nightly
def test_office_experiment_runs_on_small_data(data_dir, capsys) -> None:
    assert office.main(["--quick", "--json", "--data-dir", str(data_dir)]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["mean SVM"] > 0.6
    assert values["mean default none"] > 0.6


def test_missing_data_prints_one_line_and_exits_with_code_2(tmp_path, capsys) -> None:
    for experiment in (digits, office):
        assert experiment.main(["--quick", "--data-dir", str(tmp_path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_every_row_of_the_document_is_measured() -> None:
    for name, (_, pieces) in digits.TABLES.items():
        printed = {printed_for(digits.__file__, piece.key) for piece in pieces}
        proposed = (row for row in printed_in("001", f"Table {name}").items() if "other" not in row[0])
        assert {value for row, value in proposed if "variational" not in row} <= printed
    assert all(len(office._printed(number)) == 2 for number in range(4, 4 + len(office.PAIRS)))


def test_target_hides_labels_and_splits_are_disjoint(data_dir) -> None:
    mnist = domains.digits("mnist", str(data_dir))
    target = domains.divided_test(mnist, 300, 100, seed=0)
    seen = domains.with_few_labels(target.y, 2, seed=0)
    np.testing.assert_array_equal(np.unique(seen, return_counts=True)[1][1:], np.full(10, 2))
    assert (seen[seen >= 0] == target.y[seen >= 0]).all()
    rows = {row.tobytes() for row in target.X}
    assert sum(row.tobytes() in rows for row in target.X_test) <= 1  # apart from equal images
    assert (domains.with_few_labels(target.y, 2, seed=1) != seen).any()


def test_accuracies_of_three_experts_are_reported_separately() -> None:
    generator = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = np.eye(3, 5)[y] + 0.1 * generator.normal(size=(120, 5))
    source = PrivateSource.fit(
        X, (y + 1) % 3, OptimalNoise(50.0, sensitivity=1.0), random_state=0
    )  # wrong about every class
    seen = domains.with_few_labels(y, 5, 0)
    for strategy in ("default", "documented"):
        found = measuring.transfer(source, strategy, X, seen, X, y)
        assert found["source alone"] < 0.1
        assert found["target alone"] > 0.9
    assert measuring.transfer(source, "default", X, seen, X, y)["together"] > 0.9


@pytest.mark.nightly
def test_nonparametric_experiment_runs_on_moved_negatives(capsys) -> None:
    assert nonparametric.main(["--quick", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert set(values) == {f"{nonparametric.DIGITS}/{method}" for method in nonparametric.METHODS}
    assert values[f"{nonparametric.DIGITS}/nonparametric"] > 0.85
    assert values[f"{nonparametric.DIGITS}/source alone"] < 0.2  # negatives mean nothing to it
