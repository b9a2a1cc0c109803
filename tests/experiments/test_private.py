"""The private tables on small data: their guarantees, resuming, and rows that equal those of the package."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.harness import main, printed_in
from experiments.kahm import grocery, persons, private
from experiments.kahm.private_data import SOURCES, STRESS_COLUMNS, Division, stress_recordings
from experiments.kahm.private_row import METHODS, RawClusters, Setting, classifier, measure, private_rows
from onefold.audit import membership_inference_score
from onefold.exceptions import PrivacyLeakWarning
from onefold.fabrication import PrivateClassifier
from onefold.privacy import OptimalNoise
from onefold.privacy.guarantee import SEEDED

digits, labels = load_digits(return_X_y=True)
digits = digits / 16.0


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Files of the same names and arrays as the real ones."""
    images = (digits * 255).astype(np.uint8).reshape(-1, 8, 8)
    parts = {"train": slice(0, 400), "val": slice(400, 450), "test": slice(450, 600)}
    arrays = {f"X_{name}": images[rows] for name, rows in parts.items() if name != "val"}
    arrays |= {f"y_{name}": labels[rows] for name, rows in parts.items() if name != "val"}
    np.savez(tmp_path / "mnist.npz", **arrays)
    arrays = {f"X_{name}": digits[rows].astype(np.float16) for name, rows in parts.items()}
    arrays |= {f"y_{task}_{name}": labels[rows] for name, rows in parts.items() for task in grocery.TASKS}
    np.savez(tmp_path / f"{grocery.DATASET}.npz", **arrays)
    users = np.repeat(["a", "b", "c"], 30)
    beats = 0.8 + 0.05 * np.random.default_rng(0).normal(size=(90, 30))
    np.savez(tmp_path / "cogload_rr.npz", rr_train=beats, y_train=np.arange(90) % 2, user_train=users)
    np.savez(tmp_path / "wesad_features.npz", **recordings())
    return tmp_path


def recordings() -> dict[str, np.ndarray]:
    """Four persons, 30 windows each, a third of them of stress; a column that is not used comes first."""
    rng = np.random.default_rng(1)
    y = np.tile(np.arange(3), 40)
    middle = [
        (low + high) / 2 if not log else np.sqrt(low * high) for low, high, log in STRESS_COLUMNS.values()
    ]
    X = np.array(middle) * rng.lognormal(0.1 * (y == 2)[:, None], 0.05, size=(120, len(middle)))
    X[:, list(STRESS_COLUMNS).index("BVP_min")] *= -1
    names = np.array(["age", *STRESS_COLUMNS])
    X = np.column_stack([np.full(120, 30.0), X])
    return {"X": X, "y": y, "subject": np.repeat([2, 3, 4, 17], 30), "feature_names": names}


def run(data_dir: Path, capsys, *arguments: str) -> dict:
    options = [
        "--quick",
        "--json",
        "--data-dir",
        str(data_dir),
        "--resume",
        str(data_dir / "rows"),
        *arguments,
    ]
    assert main(private.__file__, private.options(), private.experiment, options) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.nightly
def test_private_tables_state_their_guarantee_and_resume(data_dir, capsys, monkeypatch) -> None:
    found = run(data_dir, capsys)
    assert len(found["tables"]) == len(SOURCES)
    features = {"digits": 64, "groceries": 64, "heart-rates": 30, "stress": 16, "stress-others": 16}
    rows_per_person = {"stress": 42, "stress-others": 84}
    for name, table in zip(SOURCES, found["tables"], strict=True):
        methods = METHODS if name == "digits" else [way for way in METHODS if way != "noisy-raw-clusters"]
        assert [row[2] for row in table["rows"]] == [*methods[1:], *methods]
        for row in table["rows"]:
            record = float(row[0]) * features[name]
            noise = f"{record:g}"
            if name in rows_per_person:
                noise += f", {record * rows_per_person[name]:g}"
            void = f"void ({noise} for the noise alone)"
            promised = {"raw": "nothing", "documented": void, "noisy-raw-clusters": void}
            assert row[11] == promised.get(row[2], noise)
    assert found["values"]["digits (1.5, 20) raw accuracy"] > 0.8

    def again(*_: object) -> None:
        raise AssertionError("measured twice")

    monkeypatch.setattr(private, "measure", again)
    assert run(data_dir, capsys)["values"] == found["values"]
    only = run(data_dir, capsys, "--data", "heart-rates", "--epsilons", "16", "--methods", "honest")
    assert set(only["values"]) == {"heart-rates (16, 5) honest accuracy", "heart-rates (16, 5) honest score"}


@pytest.mark.parametrize("method", ["noisy", "documented", "honest"])
def test_private_rows_of_the_experiment_are_those_of_private_classifier(method: str) -> None:
    """000 Def. 12 and 15 as the package has them, distances and score (eq. 67-69) included."""
    data = Division(digits[:300], labels[:300], digits[300:600], labels[300:600], digits[:300])
    setting = Setting("digits", 4.0, 5, method, 3)
    stopping = "honest" if method == "noisy" else method
    model = PrivateClassifier(
        classifier(setting),
        OptimalNoise(4.0, 1e-5, sensitivity=1.0),
        method != "noisy",
        stopping,
        n_components=5,
        random_state=3,
    )
    if method == "documented":
        with pytest.warns(PrivacyLeakWarning):
            model.fit(data.X, data.y)
    else:
        model.fit(data.X, data.y)
    row = measure(setting, data)
    assert row["accuracy"] == model.score(data.X_test, data.y_test)
    distances = [model.distances(rows).min(axis=1) for rows in (data.members, data.X_test)]
    assert row["score"] == membership_inference_score(*distances)
    assert row["holds"] is (method != "documented")
    assert SEEDED in model.guarantee_.voided_by


@pytest.mark.nightly
def test_given_and_found_clusters_give_the_same_classifier() -> None:
    """Where the clusters are those the wide machine finds itself, so are the distances."""
    setting = Setting("digits", 4.0, 5, "noisy-raw-clusters", 3)
    X, y = np.tile(digits[:1500], (2, 1)), np.tile(labels[:1500] // 5, 2)  # two classes, two branches each
    given = RawClusters(setting, X).fit(X, y)
    found = classifier(setting).fit(X, y)
    assert len(given.class_of) == sum(len(machine.branches_) for machine in found.machines_) > 2
    np.testing.assert_allclose(given.distances(digits[1500:]), found.distances(digits[1500:]), atol=1e-6)


def test_methods_are_compared_on_the_same_noise() -> None:
    data = Division(digits[:50], labels[:50], digits[:1], labels[:1], digits[:1])
    noisy = private_rows(Setting("digits", 4.0, 5, "noisy", 3), data)[0]
    expected = OptimalNoise(4.0, 1e-5, sensitivity=1.0).randomise(data.X, np.random.default_rng(3))
    np.testing.assert_array_equal(noisy, expected)


def test_every_person_is_in_both_halves(data_dir) -> None:
    args = private.options().parse_args(["--data-dir", str(data_dir)])
    division = SOURCES["heart-rates"].load(args, 0)
    assert len(division.X) == len(division.X_test) == 45
    other = SOURCES["heart-rates"].load(args, 1)
    assert not np.array_equal(division.X, other.X)


def test_stress_is_scaled_by_declared_ranges_only(data_dir) -> None:
    """By hand for one column of each kind; rows beyond a range are moved to its end."""
    args = private.options().parse_args(["--data-dir", str(data_dir)])
    with np.load(data_dir / "wesad_features.npz") as file:
        raw = dict(file)
    data = stress_recordings(args)
    assert data.X.shape == (120, 16)
    assert data.y.tolist() == (raw["y"] == 2).tolist()
    names = raw["feature_names"].tolist()
    column = {name: raw["X"][:, names.index(name)] for name in ("BVP_mean", "BVP_min", "Resp_std")}
    np.testing.assert_allclose(data.X[:, 0], column["BVP_mean"] / 2)
    np.testing.assert_allclose(data.X[:, 1], np.log10(-column["BVP_min"] / 10) / np.log10(200))
    np.testing.assert_allclose(data.X[:, 15], np.log10(column["Resp_std"] / 0.1) / np.log10(200))
    raw["X"][:, names.index("Resp_std")] = 1e6
    np.savez(data_dir / "wesad_features.npz", **raw)
    assert (stress_recordings(args).X[:, 15] == 1.0).all()


def test_persons_are_halved_or_kept_apart(data_dir) -> None:
    args = private.options().parse_args(["--data-dir", str(data_dir)])
    halves, apart = SOURCES["stress"].load(args, 0), SOURCES["stress-others"].load(args, 0)
    assert [int(np.sum(halves.persons == person)) for person in (2, 3, 4, 17)] == [15] * 4
    assert sorted(np.unique(apart.persons, return_counts=True)[1]) == [30, 30]
    assert len(apart.X_test) == 60
    sites = persons.sites_of(halves)
    assert sorted(int(site.persons[0]) for site in sites) == [2, 3, 4, 17]
    assert all(len(np.unique(site.persons)) == 1 for site in sites)


def test_persons_as_sites_state_what_a_person_is_promised(data_dir, capsys) -> None:
    arguments = ["--quick", "--json", "--data-dir", str(data_dir)]
    assert main(persons.__file__, persons.options(), persons.experiment, arguments) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found["tables"][0]["rows"]
    promised = [f"{8 * 16 * windows:g}" for windows in (42, 84)]
    assert [row[7] for row in rows] == ["nothing", *promised[:1] * 2, "nothing", *promised[1:] * 2]
    assert found["values"]["same-persons/none/raw/central/accuracy"] > 0.8


def test_one_site_with_everything_is_the_central_classifier(data_dir) -> None:
    """Without noise, the federation of one site decides as the classifier itself does."""
    args = private.options().parse_args(["--data-dir", str(data_dir)])
    data = SOURCES["stress"].load(args, 0)
    setting = Setting("stress", 8.0, 5, "raw", 0)
    model = classifier(setting).fit(data.X, data.y)
    assert persons.accuracy(setting, [data])["accuracy"] == model.score(data.X_test, data.y_test)


def test_means_count_the_setting_that_the_document_has_twice() -> None:
    source = SOURCES["heart-rates"]
    values = {f"heart-rates ({e:g}, {n}) noisy accuracy": 0.5 for e, n in source.settings}
    values["heart-rates (32, 5) noisy accuracy"] = 0.7
    found = private.means("heart-rates", source, values)
    assert found == {"heart-rates mean noisy accuracy": pytest.approx((8 * 0.5 + 2 * 0.7) / 10)}
    del values["heart-rates (8, 5) noisy accuracy"]
    assert private.means("heart-rates", source, values) == {}


def test_the_documents_means_are_those_of_its_rows() -> None:
    """What is compared with our means; the second printing of a setting differs a little, so to 0.001."""
    for name in ("digits", "groceries", "heart-rates"):
        source = SOURCES[name]
        numbers = printed_in("000", source.document)
        for which in ("Def. 12, accuracy", "Def. 15, accuracy", "Def. 12, score", "Def. 15, score"):
            rows = [numbers[f"epsilon {e:g}, n {n}, {which}"] for e, n in (*source.settings, source.twice)]
            assert np.mean(rows) == pytest.approx(numbers[f"mean of all rows, {which}"], abs=0.0015)


def test_every_setting_has_the_documents_numbers() -> None:
    for source in SOURCES.values():
        numbers = printed_in("000", source.document)
        for epsilon, n_components in source.settings:
            for definition in ("Def. 12", "Def. 15"):
                printed = f"epsilon {epsilon:g}, n {n_components}, {definition}"
                assert 0.5 < numbers[f"{printed}, accuracy"] < 1
                assert 0 <= numbers[f"{printed}, score"] < 1


@pytest.mark.parametrize("name", SOURCES)
def test_missing_data_prints_one_line_and_exits_with_code_2(name: str, tmp_path: Path, capsys) -> None:
    arguments = ["--quick", "--data-dir", str(tmp_path), "--data", name]
    assert main(private.__file__, private.options(), private.experiment, arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
