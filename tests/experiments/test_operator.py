"""The federated experiments run on tiny data, and compare methods on equal terms."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from experiments.harness import main
from experiments.journal import Journal
from experiments.kahm import distributed
from experiments.operator import (
    data,
    folding,
    german_news,
    gradient_heads,
    liars,
    long_tail,
    newsgroups,
    private,
)
from experiments.operator.gradient_heads import Training
from onefold import AutoencoderClassifier, WideKAHM, datasets
from onefold.exceptions import InvalidInputError
from onefold.federated import GlobalClassifier, LocalModel


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Files of the real ones' names and arrays, made of scikit-learn's digits."""
    digits = load_digits()
    labels = digits.target.astype(np.uint8)
    unit = digits.data / np.linalg.norm(digits.data, axis=1, keepdims=True)
    parts = {"train": slice(0, 300), "test": slice(300, 360)}
    for name, X in ((data.NEWS, unit), (data.IMAGES, digits.data / 16), ("mnist", digits.images / 16)):
        arrays = {f"X_{part}": X[rows].astype(np.float32) for part, rows in parts.items()}
        np.savez(tmp_path / name, **arrays, **{f"y_{part}": labels[rows] for part, rows in parts.items()})
    np.savez(tmp_path / data.GERMAN, X=unit[:200].astype(np.float16), y=labels[:200])
    words = ["".join(chr(97 + int(value)) for value in row) for row in digits.data[:200]]
    articles = {"y": labels[:200].tolist(), "title": words, "body": words}
    with gzip.open(tmp_path / data.GERMAN_TEXT, "wt", encoding="utf-8") as file:
        json.dump(articles, file)
    return tmp_path


@pytest.fixture(autouse=True)
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two candidates are enough to see a choice."""
    monkeypatch.setattr(gradient_heads, "STEPS", ((1, 0.03), (1, 0.1)))
    monkeypatch.setattr(gradient_heads, "PROXIMAL", (0.1,))


def run(module, capsys, *arguments: str) -> dict:
    assert main(module.__file__, module.options(), module.experiment, ["--quick", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.nightly
def test_newsgroups_experiment_compares_folding_with_gradient_heads(data_dir: Path, capsys) -> None:
    found = run(newsgroups, capsys, "--data-dir", str(data_dir), "--alphas", "1")
    rows = {
        row[0]: dict(zip(found["tables"][0]["headers"], row, strict=True))
        for row in found["tables"][0]["rows"]
    }
    ours, head = rows["space folding, queries travel"], rows["FedAvg, linear"]
    assert ours["accuracy"] > 0.8
    assert ours["accuracy"] > rows["space folding, a site alone"]["accuracy"]
    assert head["accuracy"] > 0.5
    # 10 clients: answers for 10 classes up, 64 features down, four bytes each.
    assert (ours["query up kB"], ours["query down kB"]) == (0.4, 2.56)
    assert head["join up MB"] == head["join down MB"] == 650 * 4 * 10 * head["rounds"] / 1e6


@pytest.mark.nightly
def test_long_tail_experiment_runs_on_small_data(data_dir: Path, capsys) -> None:
    values = run(long_tail, capsys, "--data-dir", str(data_dir))["values"]
    assert {f"rho=10 {measure} batch=20" for measure in folding.MEASURES} <= set(values)
    assert {f"rho=100 rms batch={size}" for size in (20, 50, 100)} <= set(values)
    assert all(0.3 < value <= 1.0 for name, value in values.items() if "batch=" in name)


@pytest.mark.nightly
def test_german_news_experiment_runs_with_joined_embeddings(data_dir: Path, capsys) -> None:
    found = run(german_news, capsys, "--data-dir", str(data_dir))
    assert len(found["tables"]) == 6
    assert {"alpha=2 both rms", "alpha=2 n-grams rms", "alpha=0.5 sentence max"} <= set(found["values"])


@pytest.mark.nightly
def test_private_sites_experiment_states_its_guarantee(data_dir: Path, capsys) -> None:
    found = run(private, capsys, "--data-dir", str(data_dir), "--sources", "newsgroups")
    (table,) = found["tables"]
    # What the noise of one entry promises for a whole record of 64.
    assert [row[:2] for row in table["rows"]] == [["1", "64"], ["8", "512"]]
    assert "guarantee void" in table["headers"][4]
    assert found["values"]["newsgroups epsilon=8 noise"] > found["values"]["newsgroups epsilon=1 noise"]


@pytest.mark.nightly
def test_mnist_experiment_runs_over_sites_and_resumes(data_dir: Path, capsys, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    arguments = ["--data-dir", str(data_dir), "--resume", str(journal)]
    first = run(distributed, capsys, *arguments)
    assert first["values"]["300 central epsilon=16"] > 0.8
    assert len(first["tables"][2]["rows"]) == 2
    n_lines = len(journal.read_text().splitlines())
    assert run(distributed, capsys, *arguments)["values"] == first["values"]
    assert len(journal.read_text().splitlines()) == n_lines  # nothing was done twice


@pytest.mark.nightly
def test_liars_experiment_compares_the_rules(capsys) -> None:
    """The whole table is in the documentation; here one pair of liars and one partition of each kind."""
    found = run(liars, capsys)["values"]
    for share in liars.SHARES:
        assert found[f"liars {share} min zero worst"] > 50.0
        for kind in liars.LIES:
            assert found[f"liars {share} checked {kind} worst"] < 2.0


def test_scenarios_can_be_chosen(data_dir: Path, capsys) -> None:
    found = run(distributed, capsys, "--data-dir", str(data_dir), "--scenarios", "2")["values"]
    assert any("halves" in name for name in found)
    assert not any("random" in name or "classes" in name for name in found)


def test_the_documents_stopping_rule_is_named_in_every_value_and_title(data_dir: Path, capsys) -> None:
    found = run(
        distributed, capsys, "--data-dir", str(data_dir), "--scenarios", "2", "--stopping", "documented"
    )
    assert all(name.startswith("300 documented ") for name in found["values"])
    assert found["values"]["300 documented central epsilon=16"] > 0.8
    assert all("no guarantee" in table["title"] for table in found["tables"])


def test_means_are_over_all_epsilons_and_all_partitions() -> None:
    scores = {f"halves epsilon={epsilon:g}": 0.9 for epsilon in distributed.EPSILONS}
    scores |= {"random Q=2 repeat=0": 0.5, "random Q=2 repeat=1": 0.7, "random Q=20 repeat=0": 0.1}
    found = distributed.values(scores, "60000")
    assert found["60000 mean halves"] == pytest.approx(0.9)
    assert found["60000 random Q=2"] == pytest.approx(0.6)
    del scores["halves epsilon=1.5"]
    assert "60000 mean halves" not in distributed.values(scores, "60000")


@pytest.mark.parametrize("module", [distributed, german_news, long_tail, newsgroups, private])
def test_missing_data_prints_one_line_and_exits_with_code_2(module, tmp_path: Path, capsys) -> None:
    arguments = ["--quick", "--data-dir", str(tmp_path)]
    assert main(module.__file__, module.options(), module.experiment, arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_class_per_site_gives_the_central_classifier() -> None:
    """What lets Scenario 1 share its machines with the central one: equal up to rounding."""
    digits = datasets.load("digits")
    X, y = digits.X_train[:500], digits.y_train[:500]
    machine = WideKAHM(10, 2, branch_size=20, random_state=0)
    server = GlobalClassifier()
    for number, rows in enumerate(distributed.by_class(y, 1)):
        server.add(number, LocalModel(AutoencoderClassifier(machine)).fit(X[rows], y[rows]))
    central = AutoencoderClassifier(machine).fit(X, y).distances(digits.X_test)
    measures = server.measures(digits.X_test)
    np.testing.assert_allclose(measures, central, rtol=1e-12)
    np.testing.assert_array_equal(measures.argmin(axis=1), central.argmin(axis=1))


def test_by_class_gives_every_site_rows_of_one_class() -> None:
    y = np.array([1, 0, 1, 1, 0, 1])
    assert [rows.tolist() for rows in distributed.by_class(y, 1)] == [[1, 4], [0, 2, 3, 5]]
    assert [rows.tolist() for rows in distributed.by_class(y, 2)] == [[1], [4], [0, 2], [3, 5]]


def test_batches_of_the_experiment_are_those_of_the_classifier() -> None:
    y = np.repeat([0, 1], [25, 9])
    numbers = folding.batch_numbers(y, 10)
    assert [np.sum(numbers == batch) for batch in range(4)] == [9, 8, 8, 9]
    assert np.all(np.diff(numbers) >= 0)


@pytest.mark.parametrize("hidden", [None, 7])
def test_gradient_of_a_head_is_the_slope_of_its_loss(hidden: int | None) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 5)), rng.integers(0, 3, 12)
    parameters = [part.astype(np.float64) for part in gradient_heads.initial(5, 3, hidden, rng)]
    parameters = [part + 0.3 * rng.normal(size=part.shape) for part in parameters]

    def loss() -> float:
        scores = gradient_heads.scores(parameters, X)
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(12), y]))

    for part, slope in zip(parameters, gradient_heads.gradient(parameters, X, y), strict=True):
        for index in list(np.ndindex(part.shape))[::4]:
            part[index] += 1e-6
            above = loss()
            part[index] -= 2e-6
            below = loss()
            part[index] += 1e-6
            assert (above - below) / 2e-6 == pytest.approx(slope[index], abs=1e-6)


def blobs(n_clients: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 90 * n_clients)
    X = (rng.normal(size=(3, 4))[y] * 2 + rng.normal(size=(len(y), 4))).astype(np.float32)
    return [(X[start::n_clients], y[start::n_clients]) for start in range(n_clients)]


def test_one_site_with_one_full_batch_is_gradient_descent() -> None:
    (client,) = blobs(1)
    training = Training(rate=0.1, rounds=3, clients_per_round=1, batch=len(client[0]))
    head = gradient_heads.train([client], 3, training, seed=0)
    expected = gradient_heads.initial(4, 3, None, np.random.default_rng(0))
    for _ in range(3):
        slopes = gradient_heads.gradient(expected, *client)
        expected = [part - 0.1 * slope for part, slope in zip(expected, slopes, strict=True)]
    for part, other in zip(head.parameters, expected, strict=True):
        np.testing.assert_allclose(part, other, atol=1e-5)


def test_server_averages_heads_by_their_rows() -> None:
    small, large = blobs(2)
    small = (small[0][:10], small[1][:10])
    training = Training(rate=0.1, rounds=1, clients_per_round=2, batch=200)
    both = gradient_heads.train([small, large], 3, training, seed=0).parameters
    alone = [gradient_heads.train([part], 3, training, seed=0).parameters for part in (small, large)]
    for joint, first, second in zip(both, *alone, strict=True):
        np.testing.assert_allclose(joint, (10 * first + 90 * second) / 100, atol=1e-6)


def test_proximal_term_keeps_sites_near_the_server() -> None:
    clients = blobs(1)
    free = Training(rate=0.1, rounds=1, local_epochs=20)
    lengths = [
        np.linalg.norm(gradient_heads.train(clients, 3, replace(free, mu=mu), seed=0).parameters[0])
        for mu in (0.0, 1.0, 5.0)
    ]
    assert lengths[0] > 1.5 * lengths[1] > 1.5 * lengths[2]


def test_choice_of_a_head_uses_no_test_row_and_few_rounds() -> None:
    clients = blobs(4)
    kept, held = gradient_heads.hold_out(clients, seed=0)
    for (X, _), (rest, _), (out, _) in zip(clients, kept, held, strict=True):
        assert len(rest) + len(out) == len(X)
        assert len(out) == 18
        assert {row.tobytes() for row in rest}.isdisjoint({row.tobytes() for row in out})
    start = Training(rounds=40, clients_per_round=2)
    candidates = [replace(start, rate=1e-6), replace(start, rate=0.3)]
    chosen = gradient_heads.choose(candidates, clients, 3, seed=0)
    assert chosen.rate == 0.3
    assert chosen.rounds < 40


def test_journal_resumes_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    calls = []

    def work() -> dict[str, float]:
        calls.append(1)
        return {"accuracy": 0.5}

    assert Journal(path).run("a", work)["accuracy"] == 0.5
    assert Journal(path).run("a", work)["accuracy"] == 0.5
    assert len(calls) == 1
    path.write_text(path.read_text() + '{"key": "b", "accu')  # interrupted while writing
    assert set(Journal(path).entries) == {"a"}
    assert Journal(path).run("b", work)["accuracy"] == 0.5
    assert set(Journal(path).entries) == {"a", "b"}
    path.write_text("no journal\n" + path.read_text())
    with pytest.raises(InvalidInputError, match="not a journal"):
        Journal(path)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many"])
def test_seed_that_is_no_whole_number_is_refused(value: str, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        newsgroups.options().parse_args(["--seeds", value])
    assert stopped.value.code == 2
    assert "at least 1" in capsys.readouterr().err


def test_journal_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "journal"):
        with pytest.raises(InvalidInputError, match="folder that exists"):
            Journal(path)
