"""Rules against lying sites on the command line, in model mode: nothing has to run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onefold import AutoencoderClassifier, WideKAHM
from onefold.cli.app import main
from onefold.cli.federate.querier import Doubt
from onefold.exceptions import FederationError
from onefold.federated import LocalModel
from onefold.federated.flower import QueryResult
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.registry import Registry
from onefold.tables.rows import rows as rows_of

pytest.importorskip("cryptography")

SITES = tuple(f"site{number}" for number in range(7))
LYING = SITES[5:]  # what is class 0 they call class 1, and so on


def rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 3
    centres = np.array([[0.2, 0.2, 0.5], [0.8, 0.3, 0.5], [0.5, 0.8, 0.4]])
    return centres[y] + 0.08 * rng.standard_normal((n_rows, 3)), y


def write(name: str, X: np.ndarray, y: np.ndarray, extra: str = "") -> None:
    head = f"a,b,c,{extra}kind\n"
    middle = "0," if extra else ""
    lines = [f"{a},{b},{c},{middle}{'xyz'[label]}\n" for (a, b, c), label in zip(X.tolist(), y, strict=True)]
    Path(name).write_text(head + "".join(lines))


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven members whose models are at the server; two of them were fitted with rotated classes."""
    root = tmp_path_factory.mktemp("rules")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        write("held_out.csv", *rows(60, 1))
        write("other.csv", *rows(60, 2), extra="note,")
        write("new.csv", *rows(90, 3))
        write("few.csv", *rows(6, 4))
        options = ["--mode", "model", "--insecure", "--rule", "weighted", "--label", "kind"]
        assert main(["federate", "init", "--sites", *SITES, *options, "--held-out", "held_out.csv"]) == 0
    folder = ServerFolder(root / "federation/server")
    for number, name in enumerate(SITES):
        X, y = rows(60, 10 + number)
        labels = np.array(list("xyz"))[(y + (name in LYING)) % 3]
        model = LocalModel(AutoencoderClassifier(WideKAHM(scale="auto")), keep_rows=False).fit(X, labels)
        model.save(folder.models / f"{name}.onefold")
        Registry(folder).admit(name, model.profile(name))
    return root


@pytest.fixture
def ask(federation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(federation)

    def asked(data: str, *options: str) -> dict:
        capsys.readouterr()
        code = main(["federate", "query", data, "--label", "kind", "--json", *options])
        said = capsys.readouterr()
        return {"code": code, "error": said.err, **(json.loads(said.out) if said.out else {})}

    return asked


def test_min_rule_is_fooled_by_lying_sites(ask) -> None:
    told = ask("new.csv", "--rule", "min")
    assert (told["code"], told["accuracy"] < 0.9) == (0, True)


def test_query_says_when_the_rule_cannot_withstand_that_many_liars(ask) -> None:
    told = ask("new.csv", "--rule", "trimmed", "--liars", "4")
    assert told["unprotected"] == ["x", "y", "z"]
    assert "3 of 3 classes are at too few sites for this rule" in told["error"]
    assert ask("new.csv", "--rule", "trimmed", "--liars", "2")["unprotected"] == []


def test_weighted_rule_finds_lying_sites_by_the_rows_of_init(ask, federation: Path) -> None:
    told = ask("new.csv")
    assert told["accuracy"] == 1.0
    assert told["code"] == 0
    assert told["rows"] == 90  # the held-out ones are not among them
    assert {site for site, why in told["outliers"].items() if why == "not-trusted"} == set(LYING)
    path = ServerFolder(federation / "federation/server").held_out
    assert path.stat().st_mode & 0o077 == 0
    again = ask("few.csv", "--batch", "4")  # every batch is judged by itself
    assert (again["accuracy"], again["rows"]) == (1.0, 6)


def test_query_takes_other_held_out_rows(ask) -> None:
    told = ask("new.csv", "--held-out", "other.csv", "--held-out-label", "kind")
    assert told["accuracy"] == 1.0  # its further column is no feature of the data
    assert "not-trusted" in told["outliers"].values()


def test_checked_rule_leaves_out_lying_sites_and_names_them(ask) -> None:
    told = ask("new.csv", "--rule", "checked", "--liars", "2")
    assert told["accuracy"] == 1.0
    assert told["refused"] == dict.fromkeys(LYING, "disagrees")
    assert told["code"] == 3
    trimmed = ask("few.csv", "--rule", "trimmed", "--liars", "2")
    assert (trimmed["accuracy"], trimmed["refused"]) == (1.0, {})


def test_held_out_rows_with_wrong_labels_exit_with_code_1(ask, federation: Path) -> None:
    X, y = rows(60, 1)
    write("noise.csv", X, np.random.default_rng(0).permutation(y))
    told = ask("new.csv", "--held-out", "noise.csv")
    assert told["code"] == 1
    assert "no site is trusted" in told["error"]
    assert told["error"].count("\n") == 1


BAD = {
    "held-out rows without the rule": ["--rule", "min", "--held-out", "held_out.csv"],
    "no such table": ["--held-out", "nowhere.csv"],
    "no such column": ["--held-out", "held_out.csv", "--held-out-label", "nothing"],
    "no such rule": ["--rule", "median"],
    "no liars": ["--rule", "checked", "--liars", "0"],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_exits_with_code_2_and_one_line(case: str, ask) -> None:
    told = ask("new.csv", *BAD[case])
    assert told["code"] == 2
    assert told["error"].count("\n") == 1


def test_init_refuses_a_rule_without_its_held_out_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("rows.csv", *rows(30, 0))
    for options in (
        ["--rule", "weighted"],
        ["--rule", "weighted", "--held-out", "rows.csv"],
        ["--held-out", "rows.csv", "--label", "kind"],
    ):
        assert main(["federate", "init", "--sites", "a", *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not Path("federation").exists()


def test_query_of_a_server_that_lost_its_held_out_rows_exits_with_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("rows.csv", *rows(30, 0))
    options = ["--rule", "weighted", "--held-out", "rows.csv", "--label", "kind"]
    assert main(["federate", "init", "--sites", "a", *options]) == 0
    path = Path("federation/server/held_out.npz")
    cut = path.read_bytes()[:-100]
    for content, why in ((b"nonsense", "cannot be read"), (cut, "cannot be read"), (None, "--held-out FILE")):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        capsys.readouterr()
        assert main(["federate", "query", "rows.csv", "--label", "kind"]) == 2
        assert why in capsys.readouterr().err


@pytest.mark.merge
def test_simulate_with_lying_sites_shows_what_each_rule_withstands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("rows.csv", *rows(400, 0))
    write("held_out.csv", *rows(60, 1))
    base = ["federate", "simulate", "rows.csv", "--label", "kind", "--sites", "8", "--partition", "iid"]
    base += ["--liars", "2", "--lie", "flipped", "--json"]
    found = {}
    for rule, options in {
        "min": [],
        "trimmed": [],
        "checked": [],
        "weighted": ["--held-out", "held_out.csv"],
    }.items():
        capsys.readouterr()
        assert main([*base, "--rule", rule, *options]) == 0
        found[rule] = json.loads(capsys.readouterr().out)
        assert found[rule]["honest"] > 0.97
    assert found["min"]["federated"] < found["min"]["honest"] - 0.04
    assert all(found[rule]["federated"] > 0.97 for rule in ("trimmed", "checked", "weighted"))
    assert main([*base, "--rule", "weighted"]) == 2
    assert main([*base, "--sites", "2"]) == 2
    capsys.readouterr()
    assert main([*base[:-1], "--rule", "checked"]) == 0
    assert "the same with 2 lying sites: flipped" in capsys.readouterr().out


SURE = ("--rule", "checked", "--liars", "2", "--calibrate", "labelled.csv")


def test_query_writes_probabilities_sets_and_foreign_rows(ask, federation) -> None:
    write("labelled.csv", *rows(150, 5))
    queries, truth = rows(90, 6)
    queries[:3] += 40.0  # unlike anything
    write("asked.csv", queries, truth)
    told = ask("asked.csv", *SURE, "--probabilities", "--sets", "--alpha", "0.1")
    assert told["code"] == 3  # without the two that lie
    assert "calibrated on 150 labelled rows" in told["error"]
    found, labels = np.array(told["probability"]), np.array(told["labels"])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(np.array(told["classes"])[found.argmax(axis=1)][3:], labels[3:])
    held = [
        ("xyz"[right]) in each.split(" | ") for right, each in zip(truth[3:], told["set"][3:], strict=True)
    ]
    assert np.mean(held) > 0.8
    assert np.mean([each.count("|") for each in told["set"][3:]]) < 0.5  # they say something
    assert told["foreign"][:3] == [True] * 3
    assert np.mean(told["foreign"][3:]) < 0.1
    out = ask("asked.csv", *SURE, "--probabilities", "--sets", "--out", "sure.csv")
    assert out["code"] == 3
    head = Path("sure.csv").read_text().splitlines()[0]
    assert head == "prediction,probability_x,probability_y,probability_z,set,foreign"


def test_query_of_rows_by_chance_is_unsure(ask, federation) -> None:
    """Labels without a meaning: probabilities near a third, and sets of nearly all classes."""
    X, y = rows(150, 5)
    write("labelled.csv", X, np.random.default_rng(0).permutation(y))
    told = ask("new.csv", *SURE, "--probabilities", "--sets")
    assert np.array(told["probability"]).max(axis=1).mean() < 0.5
    assert np.mean([each.count("|") + 1 for each in told["set"]]) > 2.0


@pytest.mark.parametrize(
    "options, words",
    [
        (("--probabilities",), "give --calibrate FILE"),
        (("--calibrate", "new.csv"), "goes with --probabilities or --sets"),
        (("--sets", "--calibrate", "few.csv", "--alpha", "0.01"), "needs more labelled rows than 6"),
    ],
)
def test_query_refuses_sets_without_enough_labelled_rows(ask, options, words) -> None:
    told = ask("new.csv", "--rule", "min", *options)
    assert told["code"] != 0
    assert words in told["error"]


def answered(labels: np.ndarray, *sites: str) -> QueryResult:
    """What an encrypted query tells: the closest class and nothing else."""
    return QueryResult(labels, None, np.array(["x", "y"]), sites, (), {}, False, encryption={"bits": 8})


def test_encrypted_answers_get_probabilities_of_the_predicted_class_and_sets() -> None:
    truth = np.repeat(["x", "y"], 100)
    said = truth.copy()
    said[:20] = "y"
    labelled = rows_of({"a": np.arange(200.0), "kind": truth}, "numbers", label="kind")
    doubt = Doubt(labelled, True, 0.1, None)
    found = doubt.columns(answered(said, "north"), answered(np.array(["x", "y"]), "north"), quiet=True)
    np.testing.assert_allclose(found["probability"], [[1.0, 0.0], [20 / 120, 100 / 120]], atol=0.02)
    assert found["set"].tolist() == ["x", "x | y"]
    assert "foreign" not in found
    with pytest.raises(FederationError, match="not the same sites"):
        doubt.columns(answered(said, "north"), answered(said, "south"), quiet=True)
