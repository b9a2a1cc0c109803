"""The experiments run at small sizes, on generated data of the real files' shape."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from experiments.harness import main, printed_in
from experiments.kahm import contenders, figures, grocery, mnist, timing


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Files of the same names and arrays as the real ones, made of scikit-learn's digits."""
    digits = load_digits()
    images, labels = (digits.images * 15).astype(np.uint8), digits.target.astype(np.uint8)
    arrays = {"X_train": images[:1200], "y_train": labels[:1200]}
    np.savez(tmp_path / "mnist.npz", X_test=images[1200:], y_test=labels[1200:], **arrays)
    parts = {"train": slice(0, 1000), "val": slice(1000, 1100), "test": slice(1100, None)}
    arrays = {f"X_{name}": digits.data[rows].astype(np.float16) for name, rows in parts.items()}
    arrays |= {f"y_{task}_{name}": labels[rows] for name, rows in parts.items() for task in grocery.TASKS}
    np.savez(tmp_path / f"{grocery.DATASET}.npz", **arrays)
    return tmp_path


def run(module, capsys, *arguments: str) -> dict:
    options = module.options()
    assert main(module.__file__, options, module.experiment, ["--quick", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_mnist_experiment_runs_on_small_data(data_dir: Path, capsys) -> None:
    found = run(mnist, capsys, "--data-dir", str(data_dir), "--variants", "document", "contiguous")
    assert set(found["values"]) == {
        "accuracy document",
        *(f"accuracy document n_probe={probe}" for probe in (1, 2, 3)),
        "accuracy contiguous",
    }
    assert min(found["values"].values()) > 0.9


@pytest.mark.nightly
def test_grocery_experiment_runs_and_figures_are_drawn(data_dir: Path, capsys) -> None:
    found = run(grocery, capsys, "--data-dir", str(data_dir))
    methods = {row[0] for row in found["tables"][0]["rows"]}
    assert {"KAHM", "KAHM, chosen", "SVM, chosen", "1-NN", "random forest", "decision tree"} <= methods
    assert all(0.0 <= value <= 1.0 for value in found["values"].values())
    assert found["values"]["coarse KAHM [-1, 1] accuracy random"] > 0.8
    pytest.importorskip("matplotlib")
    (data_dir / "grocery.json").write_text(json.dumps(found))
    assert figures.main([str(data_dir)]) == 0
    assert (data_dir / "grocery.svg").read_text().startswith("<?xml")
    assert (data_dir / "grocery.png").read_bytes().startswith(b"\x89PNG")


def test_grocery_methods_can_be_chosen_and_resumed(data_dir: Path, capsys, monkeypatch) -> None:
    journal = str(data_dir / "journal")
    arguments = ["--data-dir", str(data_dir), "--resume", journal, "--methods", "membership-mappings", "1-NN"]
    found = run(grocery, capsys, *arguments)
    assert {row[0] for row in found["tables"][0]["rows"]} == {"membership-mappings", "1-NN"}
    assert found["values"]["coarse membership-mappings [-1, 1] accuracy random"] > 0.8

    def again(*_: object) -> None:
        raise AssertionError("fitted twice")

    monkeypatch.setattr(grocery, "judge", again)
    assert run(grocery, capsys, *arguments)["values"] == found["values"]


@pytest.mark.nightly
def test_the_other_models_learn_digits() -> None:
    X, y = load_digits(return_X_y=True)
    X = 2 * X / 16 - 1
    found = contenders.others()
    assert set(found) == {"membership-mappings", "deep fuzzy model", "deep network", "ensemble"}
    for name, contender in found.items():
        contender.fit(X[:600], y[:600])
        decided = contender.classes_[contender.scores(X[600:900]).argmax(axis=1)]
        assert np.mean(decided == y[600:900]) > 0.75, name


@pytest.mark.nightly
def test_timing_experiment_lists_its_sizes(capsys) -> None:
    found = run(timing, capsys)
    assert [row[0] for row in found["tables"][0]["rows"]] == [10**4, 10**5, 3 * 10**5, 10**6]
    assert found["values"]["seconds at the largest size"] > 0.0


@pytest.mark.parametrize("module", [grocery, mnist])
def test_missing_data_prints_one_line_and_exits_with_code_2(module, tmp_path: Path, capsys) -> None:
    arguments = ["--quick", "--data-dir", str(tmp_path)]
    assert main(module.__file__, module.options(), module.experiment, arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_figures_without_results_print_one_line(tmp_path: Path, capsys) -> None:
    assert figures.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_sizes_of_the_timing_are_those_of_the_document() -> None:
    printed = [row for row in printed_in("000", "Table 11") if row.endswith(" entries")]
    assert [f"{size.N * size.p} entries" for size in timing.TABLE_11] == printed
    assert all(100 <= size.N <= 1000 and 10 <= size.p <= 20000 for size in timing.TABLE_11)


def test_exponent_of_a_power_law_is_found() -> None:
    sizes = np.array([10.0, 100.0, 700.0])
    assert timing.exponent(sizes, 0.3 * sizes**2.5) == pytest.approx(2.5)


@pytest.fixture
def wine_like() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = np.repeat([2, 5, 7], 40)
    return rng.normal(size=(120, 6)) + y[:, None] * rng.normal(size=6) * 0.3, y


def test_mean_auc_averages_one_class_against_the_rest(wine_like) -> None:
    _, y = wine_like
    scores = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], size=len(y))
    expected = roc_auc_score(y, scores, multi_class="ovr", average="macro")
    assert contenders.mean_auc(y, scores, np.array([2, 5, 7])) == pytest.approx(expected)
    # A class that is never tested has no curve and does not count.
    wider = np.column_stack([scores, scores[:, 0]])
    assert contenders.mean_auc(y, wider, np.array([2, 5, 7, 9])) == pytest.approx(expected)


@pytest.mark.parametrize("kernel", ["linear", "RBF"])
def test_svm_on_a_kernel_matrix_predicts_as_on_rows(wine_like, kernel: str) -> None:
    X, y = wine_like
    machine = contenders.SVM(kernel).fit(X[::2], y[::2])
    direct = SVC(kernel=kernel.lower(), C=machine.search.best_params_["C"]).fit(X[::2], y[::2])
    np.testing.assert_allclose(machine.scores(X[1::2]), direct.decision_function(X[1::2]), atol=1e-3)


def test_choice_without_alternatives_is_the_documents_setting(wine_like) -> None:
    X, y = wine_like
    chosen = contenders.ChosenKAHM({}).fit(X, y)
    assert chosen.setting == contenders.Setting(
        scaling="[-1, 1]", level=None, n_components=20, n_layers=5, measure="euclidean"
    )
    classifier = chosen.pipeline[-1]
    assert (classifier.estimator.n_components, classifier.estimator.scale) == (20, None)
