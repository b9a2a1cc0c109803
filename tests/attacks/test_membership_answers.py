"""The audit of a model attacks the answers that people get, and says one thing about them.

A statistical assertion here fails for a correct program with a probability below 1e-6; the seeds are fixed.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.neighbors import KNeighborsClassifier

from onefold.audit import audit_membership
from onefold.cli.app import main
from onefold.report.builders import of_membership


class Answering:
    """A classifier that gives stored answers; the rows are their numbers."""

    classes_ = np.array([0, 1])

    def __init__(self, **answers: np.ndarray) -> None:
        self._answers = answers
        for name in ("distances", "predict_proba"):
            if name in answers:
                setattr(self, name, self._of(name))

    def _of(self, name: str):
        return lambda X: self._answers[name][np.asarray(X)[:, 0].astype(int)]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self._answers["predict"][np.asarray(X)[:, 0].astype(int)]


def answering(
    rng: np.random.Generator, size: int, leak: str | None = None, strength: float = 0.0
) -> Answering:
    """Answers about ``2 * size`` rows that tell nothing of the first half, except by the one that leaks."""
    inside = np.arange(2 * size) < size
    shares = rng.random((2 * size, 1))
    shares = np.clip(shares + (strength * inside[:, None] if leak == "predict_proba" else 0.0), 0.0, 1.0)
    distances = rng.random((2 * size, 2)) - (strength * inside[:, None] if leak == "distances" else 0.0)
    predicted = (rng.random(2 * size) < 0.6 + (strength * inside if leak == "predict" else 0.0)).astype(int)
    return Answering(distances=distances, predict_proba=np.hstack([1.0 - shares, shares]), predict=predicted)


def audited(model: Answering, size: int):
    rows, labels = np.arange(2.0 * size)[:, None], np.ones(2 * size, dtype=int)
    return audit_membership(model, rows[:size], rows[size:], labels[:size], labels[size:])


def test_answers_that_tell_nothing_are_accused_in_at_most_the_stated_share() -> None:
    """Three attacks are tried, and the share is that of all together."""
    rng, runs, size, accused = np.random.default_rng(0), 400, 60, 0
    for _ in range(runs):
        shares, predicted = rng.random((2 * size, 1)), rng.integers(0, 2, 2 * size)
        model = Answering(predict_proba=np.hstack([1.0 - shares, shares]), predict=predicted)
        accused += "can be told" in audited(model, size).verdict
    assert accused <= binom.isf(1e-6, runs, 0.05)


@pytest.mark.parametrize("leak", ["distances", "predict_proba", "predict"])
def test_a_leak_is_found_in_whatever_answer_it_is(leak: str) -> None:
    found = audited(answering(np.random.default_rng(1), 300, leak, 0.35), 300)
    assert "members can be told from outsiders" in found.verdict
    words = {"distances": "distance", "predict_proba": "probability", "predict": "predicted class"}
    assert words[leak] in found.strongest
    assert f"by the {found.strongest}" in found.verdict
    quiet = [attack for name, attack in found.attacks.items() if words[leak] not in name]
    assert all(attack.auc_interval[0] <= 0.5 for attack in quiet)


def test_intervals_are_wider_the_more_attacks_are_tried() -> None:
    rng = np.random.default_rng(2)
    many = audited(answering(rng, 100), 100)
    assert {round(attack.confidence, 6) for attack in many.attacks.values()} == {0.99}
    alone = audit_membership(
        KNeighborsClassifier().fit([[0.0], [1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1, 0]),
        rng.random((20, 1)),
        rng.random((20, 1)),
    )
    assert [attack.confidence for attack in alone.attacks.values()] == pytest.approx([0.95])


def test_page_has_one_verdict_and_it_follows_from_the_interval() -> None:
    """An attack may find 1 of 100 members at 1 of 100 false accusations and still be better than guessing."""
    pytest.importorskip("matplotlib")
    for leak, strength in ((None, 0.0), ("distances", 0.1)):
        found = audited(answering(np.random.default_rng(3), 400, leak, strength), 400)
        page = of_membership(found, "Audit", {})
        low, high = found.attack.auc_interval
        said = [line for line in page.verdict if "told from outsiders" in line or "no leak" in line]
        assert said == [found.verdict]
        assert ("told from outsiders" in said[0]) == (low > 0.5 or high < 0.5) == (leak is not None)
        assert not any("without a leak" in line.lower() for line in page.verdict)


def test_audit_tells_the_accuracy_of_the_predictions(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The head of a table's model decides, not the nearest class."""
    rng = np.random.default_rng(4)
    paths = [tmp_path / name for name in ("train.csv", "test.csv")]
    for path in paths:
        rows = rng.normal(size=(250, 6))
        label = rows[:, 0] + 0.3 * rng.normal(size=250) > 0
        cells = np.column_stack([rows.round(5).astype(str), np.where(label, "yes", "no")])
        lines = [",".join(line) for line in [["a", "b", "c", "d", "e", "f", "y"], *cells.tolist()]]
        path.write_text("\n".join(lines), encoding="utf-8")
    model = tmp_path / "m.onefold"
    assert main(["fit", str(paths[0]), "--label", "y", "--out", str(model), "--quiet"]) == 0
    predicted = ["--label", "y", "--json", "--out", str(tmp_path / "p.csv")]
    assert main(["predict", str(model), str(paths[1]), *predicted]) == 0
    answers = json.loads(capsys.readouterr().out)
    files = ["--train", str(paths[0]), "--test", str(paths[1])]
    assert main(["audit", str(model), *files, "--label", "y", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["accuracy"]["test"] == answers["accuracy"] > 0.8
    kinds = ("distance to the own class", "probability of the own class", "predicted class")
    assert all(kind in told["attacks"] for kind in kinds)


def test_private_sums_can_be_audited_too(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A model on noisy sums has no distances of machines; its other answers are attacked."""
    from onefold.tables import Field, Schema

    rng = np.random.default_rng(5)
    fields = [Field(name, "number", low=-4, high=4) for name in ("a", "b")]
    Schema([*fields, Field("y", "boolean", role="label")], rows_about=200).save(tmp_path / "s.json")
    for name in ("train.csv", "test.csv"):
        rows = rng.normal(size=(200, 2)).round(4)
        lines = [f"{a},{b},{'true' if a > 0 else 'false'}" for a, b in rows]
        (tmp_path / name).write_text("\n".join(["a,b,y", *lines]), encoding="utf-8")
    files = [str(tmp_path / name) for name in ("train.csv", "test.csv", "m.onefold")]
    private = ["--schema", str(tmp_path / "s.json"), "--epsilon", "1", "--method", "moments", "--quiet"]
    assert main(["fit", files[0], *private, "--out", files[2]]) == 0
    asked = ["audit", files[2], "--train", files[0], "--test", files[1], "--label", "y", "--json"]
    assert main(asked) == 0
    assert "predicted class" in json.loads(capsys.readouterr().out)["attacks"]
