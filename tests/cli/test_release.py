"""``onefold release``: the released table has the columns of the original, in the declared form."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from onefold.cli import release
from onefold.cli.app import main
from onefold.privacy import FisherGaussian
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.release import RobustSVM, TableCodec, sweep

N = 300
DECLARED = {
    "age": {"range": [18, 90], "whole": True},
    "income": [0, 200000],
    "town": ["Aa", "Bb, c", "D"],
    "code": ["007", "010"],
    "classes": {"range": [0, 5], "whole": True},
}


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 91, N)
    income = rng.lognormal(10, 0.5, N).round(2)
    sick = np.where(age / 90 + income / 60000 + rng.normal(0, 0.2, N) > 0.9, "yes", "no")
    return pd.DataFrame(
        {
            "age": age,
            "sick": sick,
            "income": income,
            "town": rng.choice(["Aa", "Bb, c", "D"], N),
            "code": rng.choice(["007", "010"], N),
            "classes": rng.integers(0, 6, N),
        }
    )


@pytest.fixture
def table(frame: pd.DataFrame, tmp_path):
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def declared(tmp_path):
    path = tmp_path / "declared.json"
    path.write_text(json.dumps(DECLARED))
    return path


def run(*arguments: object) -> int:
    return main(["release", *map(str, arguments)])


def read(path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"code": str})


def test_released_table_keeps_columns_order_types_and_ranges(
    frame, table, declared, tmp_path, capsys
) -> None:
    out = tmp_path / "out.csv"
    assert run(table, "--label", "sick", "--epsilon", 5, "--declared", declared, "--out", out) == 0
    made = read(out)
    assert list(made) == list(frame)
    assert made.dtypes.equals(read(table).dtypes)
    assert made["sick"].equals(frame["sick"])
    assert made["age"].between(18, 90).all()
    assert set(made["code"]) <= {"007", "010"}
    assert set(made["town"]) <= set(DECLARED["town"])
    assert np.mean(made["income"] == frame["income"]) < 0.01
    promise = json.loads((tmp_path / "out.csv.guarantee.json").read_text())
    assert promise["holds"] is True
    assert promise["record"]["epsilon"] == pytest.approx(5)
    assert promise["theorem_2_5_of_the_document"]["epsilon_per_record"] > 5
    printed = capsys.readouterr()
    assert "epsilon 5 per record" in printed.out
    assert "nobody can estimate its income better than ±" in printed.out
    assert "Several records of one person tell more together." in printed.out
    assert "NOT covered" in printed.out
    assert printed.err == ""


def test_adversary_error_is_in_the_units_of_the_column(table, declared, tmp_path, capsys) -> None:
    out = tmp_path / "out.csv"
    options = ["--declared", declared, "--out", out, "--json"]
    assert run(table, "--label", "sick", "--adversary-error", "income=5000", *options) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["least_standard_errors"]["income"] == pytest.approx(5000)
    assert promise["least_standard_errors"]["age"] == pytest.approx(72 / 40)
    assert "hardened" in promise["mechanism"]
    assert promise["holds"] is True


def test_allowed_ranges_use_bounded_noise(table, declared, tmp_path, capsys) -> None:
    out = tmp_path / "out.csv"
    options = ["--declared", declared, "--allowed", "age=0:120", "--allowed", "income=-100000:inf"]
    assert run(table, "--label", "sick", "--lam", 1, *options, "--out", out) == 0
    age = read(out)["age"]
    assert age.between(0, 120).all()
    assert age.max() > 90
    assert "no bound on epsilon per record" in capsys.readouterr().out


SAMPLERS = pytest.mark.parametrize("sampler", [[], ["--sampler", "float"]])


@SAMPLERS
def test_adversary_error_within_allowed_ranges_is_reached(table, declared, tmp_path, capsys, sampler) -> None:
    options = ["--declared", declared, "--allowed", "age=0:120", "--out", tmp_path / "out.csv", "--json"]
    assert run(table, "--label", "sick", "--adversary-error", "age=7", *options, *sampler) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["least_standard_errors"]["age"] == pytest.approx(7, rel=1e-8)


@pytest.mark.parametrize("sampler", [[], pytest.param(["--sampler", "float"], marks=pytest.mark.slow)])
def test_epsilon_within_allowed_ranges_is_kept(table, declared, tmp_path, capsys, sampler) -> None:
    """Wide ranges leave room for an epsilon; noise then has it, and keeps to the ranges."""
    out = tmp_path / "out.csv"
    options = ["--declared", declared, "--allowed", "age=-1000:1100", "--delta", 1e-4, "--out", out, "--json"]
    assert run(table, "--label", "sick", "--epsilon", 9, *options, *sampler) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["record"] == {"epsilon": pytest.approx(9, rel=1e-4), "delta": 1e-4}
    assert promise["record"]["epsilon"] <= 9
    assert promise["holds"] == (sampler != ["--sampler", "float"])
    assert ("hardened" in promise["mechanism"]) == promise["holds"]
    assert read(out)["age"].between(-1000, 1100).all()


def test_declared_file_gives_ranges_or_categories_and_options_win(tmp_path) -> None:
    path = tmp_path / "declared.json"
    about = {"age": [0, 150], "pay": [0, 9.5], "code": [3, 1], "flag": [False, True]}
    path.write_text(json.dumps(about | {"cars": {"range": [0, 9], "whole": True}}))
    declared = release.Declarations.read(["age=18:90", "0:1"], ["age"], ["pay=-1:inf"], str(path))
    assert declared.ranges == {"age": (18.0, 90.0), "pay": (0, 9.5), "cars": (0, 9)}
    assert declared.whole == ("age", "cars")
    assert declared.others == (0.0, 1.0)
    assert declared.categories == {"code": (3, 1), "flag": (False, True)}
    assert declared.allowed == {"pay": (-1.0, float("inf"))}


def test_label_epsilon_randomises_the_released_labels(frame, table, declared, tmp_path, capsys) -> None:
    out = tmp_path / "out.csv"
    options = [
        "--declared",
        declared,
        "--lam",
        1e-3,
        "--label-epsilon",
        1,
        "--json",
        "--classes",
        *sorted(set(frame["sick"])),
    ]
    assert run(table, "--label", "sick", *options, "--out", out) == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["labels"]["epsilon"] == 1
    assert 0.6 < np.mean(read(out)["sick"] == frame["sick"]) < 0.86  # e / (e + 1) = 0.73


def test_release_without_a_declared_domain_is_refused(table, tmp_path, capsys) -> None:
    """Before, ranges were taken from the data, and only the guarantee said that it was void."""
    out = tmp_path / "out.csv"
    assert run(table, "--label", "sick", "--lam", 1, "--range", "age=18:90", "--out", out) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "column 'income' is not declared: give --range income=LOW:HIGH" in error
    assert not out.exists()


def test_inferred_ranges_void_the_guarantee(table, tmp_path, capsys) -> None:
    out = tmp_path / "out.csv"
    assert run(table, "--label", "sick", "--lam", 1, "--range", "age=18:90", "--infer", "--out", out) == 0
    captured = capsys.readouterr()
    assert "VOID" in captured.out
    assert "Nothing can be said about the features of one record" in captured.out
    assert "taken from the data" in captured.err
    assert json.loads((tmp_path / "out.csv.guarantee.json").read_text())["holds"] is False


def test_file_without_a_header_is_refused_before_a_record_becomes_names(tmp_path, capsys) -> None:
    (tmp_path / "a.csv").write_text("30,41.5\n20,11.5\n")
    options = ["--range", "0:100", "--lam", 1, "--out", tmp_path / "b.csv"]
    assert run(tmp_path / "a.csv", *options) == 2
    error = capsys.readouterr().err
    assert "add a line with names of columns" in error
    assert "41.5" not in error
    assert not (tmp_path / "b.csv").exists()


def test_guarantee_of_an_earlier_table_never_lies_beside_a_new_one(
    table, declared, tmp_path, monkeypatch
) -> None:
    out, promise = tmp_path / "b.csv", tmp_path / "b.csv.guarantee.json"
    promise.write_text("{}")

    def fail(*arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("onefold.cli.outputs.write_guarantee", fail)
    assert run(table, "--label", "sick", "--lam", 1, "--declared", declared, "--out", out) != 0
    assert not promise.exists()


def test_range_without_a_column_is_for_all_others(frame, tmp_path, capsys) -> None:
    frame[["age", "income", "classes"]].to_csv(tmp_path / "a.csv", index=False)
    options = ["--range", "0:100", "--range", "income=0:1e5", "--whole", "classes", "--lam", 1]
    assert run(tmp_path / "a.csv", *options, "--out", tmp_path / "b.csv", "--json") == 0
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert promise["least_standard_errors"] == {"age": 100, "income": 1e5, "classes": 100}
    assert promise["holds"]
    made = read(tmp_path / "b.csv")
    assert made.dtypes.tolist() == ["float64", "float64", "int64"]  # fractions unless --whole


def test_inferred_release_keeps_the_types_of_parquet_and_npz(frame, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    frame = frame.astype({"age": "int16", "income": "float32"}).assign(flag=frame["age"] > 50)
    frame.to_parquet(tmp_path / "a.parquet")
    options = ["--lam", 1, "--infer", "--out"]
    assert run(tmp_path / "a.parquet", "--label", "sick", *options, tmp_path / "b.parquet") == 0
    made = pd.read_parquet(tmp_path / "b.parquet")
    assert made.dtypes.equals(pd.read_parquet(tmp_path / "a.parquet").dtypes)
    assert list(made) == list(frame)
    X = frame[["age", "income"]].to_numpy()
    for extra in ({}, {"feature_names": np.array(["age", "income"])}):
        np.savez(tmp_path / "a.npz", X=X, y=np.arange(N) % 2, **extra)
        assert run(tmp_path / "a.npz", "--label", "y", *options, tmp_path / "b.npz") == 0
        with np.load(tmp_path / "a.npz") as before, np.load(tmp_path / "b.npz") as after:
            assert {k: (before[k].dtype, before[k].shape) for k in before.files} == {
                k: (after[k].dtype, after[k].shape) for k in after.files
            }
            assert np.array_equal(before["y"], after["y"])
            assert np.mean(before["X"] == after["X"]) < 0.02  # only where both ends of a range meet


def test_keep_classifier_leaves_the_svm_and_says_it_is_not_private(frame, tmp_path, capsys) -> None:
    frame[["age", "income", "sick"]].to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "b.csv"
    options = ["--label", "sick", "--keep-classifier", 100, "--sampler", "float"]
    assert run(tmp_path / "a.csv", *options, "--out", out) == 0
    made, names = read(out), ["age", "income"]
    assert list(made) == [*names, "sick"]
    svm = RobustSVM().fit(frame[names], frame["sick"])
    again = RobustSVM().fit(made[names], made["sick"])
    assert again.coef_ == pytest.approx(svm.coef_, abs=1e-6)
    captured = capsys.readouterr()
    assert "VOID: the classifier was kept" in captured.out
    assert "NO differential privacy" in captured.out
    assert "Revealed: the decision value" in captured.out
    assert "NOT differentially private" in captured.err
    promise = json.loads((tmp_path / "b.csv.guarantee.json").read_text())
    assert promise["record"]["epsilon"] is None
    assert promise["holds"] is False
    assert len(promise["reveals"]) == 3


def test_keep_classifier_with_the_hardened_sampler_is_refused(frame, tmp_path, capsys) -> None:
    frame[["age", "income", "sick"]].to_csv(tmp_path / "a.csv", index=False)
    options = ["--label", "sick", "--keep-classifier", 100, "--out", tmp_path / "b.csv"]
    assert run(tmp_path / "a.csv", *options) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "add --sampler float" in error
    assert not (tmp_path / "b.csv").exists()


# --- persons ----------------------------------------------------------------------------------------------


def test_person_limits_rows_first_and_the_column_is_not_written(frame, declared, tmp_path, capsys) -> None:
    """Before, the name of a person was one more column to release, and persons were promised nothing."""
    visits = frame.assign(patient=[f"patient {k // 30}" for k in range(N)])
    visits.to_csv(tmp_path / "a.csv", index=False)
    out, labels = tmp_path / "b.csv", ["--label", "sick", "--label-epsilon", 0.5, "--classes", "no", "yes"]
    options = [*labels, "--declared", declared, "--epsilon", 1, "--person", "patient"]
    assert run(tmp_path / "a.csv", *options, "--rows-per-person", 4, "--out", out) == 0
    made = read(out)
    assert list(made) == list(frame)
    assert len(made) == 10 * 4
    printed = capsys.readouterr().out
    assert "patient" not in out.read_text() + printed + (tmp_path / "b.csv.guarantee.json").read_text()
    assert "40 rows written" in printed
    assert "One person with at most 4 records" in printed
    assert "An attacker who knows everything but the records of one person" in printed
    promise = json.loads((tmp_path / "b.csv.guarantee.json").read_text())
    assert promise["rows_per_person"] == 4
    # Independent noise on four rows: twice the Gaussian distance of one.
    assert promise["mu"] == pytest.approx(2 * mu_of(1.0, 1e-5), rel=1e-3)
    assert promise["person"]["epsilon"] == pytest.approx(epsilon_of(2 * mu_of(1.0, 1e-5), 1e-5), rel=1e-3)
    assert promise["holds"]


def test_epsilon_can_be_that_of_a_person(frame, declared, tmp_path, capsys) -> None:
    frame.assign(patient=[f"patient {k // 30}" for k in range(N)]).to_csv(tmp_path / "a.csv", index=False)
    options = ["--label", "sick", "--declared", declared, "--epsilon", 1, "--unit", "person"]
    options += ["--out", tmp_path / "b.csv"]
    persons = ["--person", "patient", "--rows-per-person", 9]
    assert run(tmp_path / "a.csv", *options, *persons) == 0
    promise = json.loads((tmp_path / "b.csv.guarantee.json").read_text())
    assert 0.99 < promise["person"]["epsilon"] <= 1.0
    assert promise["record"]["epsilon"] == pytest.approx(epsilon_of(mu_of(1.0, 1e-5) / 3, 1e-5), rel=1e-3)
    for wrong in ([], [*persons, "--allowed", "age=0:200"]):
        assert run(tmp_path / "a.csv", *options, *wrong) == 2
        assert "--unit person needs --person" in capsys.readouterr().err


def test_without_persons_the_text_says_that_they_are_not_covered(table, declared, tmp_path, capsys) -> None:
    options = ["--label", "sick", "--epsilon", 1, "--declared", declared, "--out", tmp_path / "b.csv"]
    assert run(table, *options) == 0
    assert "A person with several records: NOT covered as a person." in capsys.readouterr().out


def test_matrix_of_an_npz_file_is_released_without_its_persons(tmp_path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", X=rng.random((60, 3)), y=np.arange(60) % 2, who=np.arange(60) // 6)
    options = ["--label", "y", "--range", "0:1", "--epsilon", 2, "--person", "who", "--rows-per-person", 2]
    assert run(tmp_path / "a.npz", *options, "--out", tmp_path / "b.npz") == 0
    with np.load(tmp_path / "b.npz") as made:
        assert sorted(made.files) == ["X", "y"]
        assert made["X"].shape == (20, 3)
        assert made["y"].shape == (20,)


@pytest.mark.parametrize("name", ["curve.png", "curve.svg"])
def test_sweep_writes_a_figure_and_prints_a_table(table, tmp_path, capsys, name: str) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / name
    options = ["--sweep", "--infer", "--repetitions", 2, "--seed", 1]
    assert run(table, "--label", "sick", *options, "--out", out) == 0
    start = out.read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if name.endswith("png") else b"<?xml" in start
    assert name.endswith("png") or b"VOID" in out.read_bytes()
    captured = capsys.readouterr()
    assert "not covered by any guarantee" in captured.out
    assert captured.out.count("\n") == 14
    assert "VOID" in captured.out
    assert (
        float(re.search(r"accuracy on raw rows (\S+)", captured.out)[1]) > 0.8
    )  # rows with their own labels


def test_sweep_of_a_declared_table_states_the_epsilon_of_the_noise(frame, table, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    out, known = tmp_path / "curve.svg", tmp_path / "known.json"
    about = DECLARED | {"sick": ["no", "yes"]}
    known.write_text(json.dumps({name: what for name, what in about.items() if name != "income"}))
    options = ["--declared", known, "--delta", 1e-3, "--repetitions", 1, "--json", "--out", out]
    assert run(table, "--label", "income", "--sweep", *options) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["measure"] == "r2"  # fractions: a regression
    assert result["void"] == ""
    assert b"VOID" not in out.read_bytes()
    assert b"least error for age" in out.read_bytes()
    assert len(result["strengths"]) == 9
    # A record is two numbers and three categories, each of which changes by 1 in Euclidean length.
    noise = FisherGaussian(result["strengths"][4]["lam"], sensitivity=math.sqrt(2 + 3), delta=1e-3)
    assert result["strengths"][4]["epsilon"] == pytest.approx(noise.guarantee(1).record[0], rel=1e-4)


def test_sweep_errors_are_in_the_units_of_the_column() -> None:
    columns = {"town": np.array(["a", "b"] * 10), "age": np.linspace(18, 90, 20)}
    codec = TableCodec(columns, {"age": (18, 90)}, {"town": ["a", "b"]})
    labels = np.arange(20) % 2
    curve = sweep(codec.encode(columns), labels, [16.0], repetitions=1, sensitivity=codec.domain)
    assert release._errors(codec, curve) == ("least error for age", [pytest.approx(36.0)])


def test_sweep_learns_many_classes_from_limited_rows(table, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "c.svg"
    options = ["--sweep", "--infer", "--repetitions", 1, "--rows", 60]
    assert run(table, "--label", "town", *options, "--out", out) == 0
    assert "60 of 300 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--lam", "1", "--epsilon", "1"],
        ["--lam", "nan"],
        ["--epsilon", "0"],
        ["--adversary-error", "income"],
        ["--adversary-error", "income=-3"],
        ["--adversary-error", "town=3"],
        ["--adversary-error", "nothing=3"],
        ["--lam", "1", "--range", "age=9"],
        ["--lam", "1", "--range", "age=9:1"],
        ["--lam", "1", "--range", "=1:9"],
        ["--lam", "1", "--range", "9:1"],
        ["--lam", "1", "--range", "nothing=1:9"],
        ["--lam", "1", "--range", "age=18:inf"],
        ["--lam", "1", "--range", "0:inf"],
        ["--lam", "1", "--range", "town=1:2"],
        ["--lam", "1", "--whole", "town"],
        ["--lam", "1", "--whole", "nothing"],
        ["--lam", "1", "--allowed", "0:120"],
        ["--lam", "1", "--allowed", "age=30:40", "--range", "age=18:90"],
        ["--epsilon", "1", "--allowed", "age=0:120", "--range", "age=18:90"],
        ["--keep-classifier", "1", "--label", "sick", "--allowed", "age=0:120"],
        ["--adversary-error", "age=20", "--allowed", "age=0:120", "--range", "age=18:90"],
        ["--lam", "1", "--declared", "missing.json"],
        ["--lam", "1", "--declared", "bad.json"],
        ["--lam", "1", "--label", "nothing"],
        ["--lam", "1", "--label-epsilon", "1"],
        ["--lam", "1", "--out", "-"],
        ["--lam", "1", "--out", "x.txt"],
        ["--lam", "1", "--person", "town"],
        ["--lam", "1", "--rows-per-person", "2"],
        ["--lam", "1", "--label", "sick", "--person", "sick", "--rows-per-person", "2"],
        ["--lam", "1", "--person", "nothing", "--rows-per-person", "2"],
        ["--keep-classifier", "1", "--label", "sick", "--sampler", "float"],
        ["--keep-classifier", "1", "--label", "sick", "--person", "town", "--rows-per-person", "2"],
        ["--sweep", "--label", "sick", "--out", "x.csv"],
        ["--sweep", "--out", "x.png"],
        ["--sweep", "--label", "sick", "--lam", "1", "--out", "x.png"],
        ["--sweep", "--label", "sick", "--sampler", "float", "--out", "x.png"],
        ["--sweep", "--label", "town", "--learner", "regression", "--out", "x.png"],
    ],
)
def test_bad_input_prints_one_line_and_writes_no_file(table, tmp_path, capsys, options, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"age": {"range": [18, 90], "integer": true}}')
    infer = [] if "--keep-classifier" in options else ["--infer"]
    before = sorted(tmp_path.iterdir())
    out = [] if "--out" in options else ["--out", tmp_path / "out.csv"]
    assert run(table, *options, *out, *infer) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert len(errors) == 1
    assert "Traceback" not in errors[0]
    assert sorted(tmp_path.iterdir()) == before


def test_release_refuses_missing_values_and_keeps_codes_as_text(tmp_path, capsys) -> None:
    path, out = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text("a,b\n1,x\n,y\n")
    assert run(path, "--lam", 1, "--infer", "--out", out) == 2
    assert "column 'a' has a missing value in row 2" in capsys.readouterr().err
    path.write_text("a,b\n01,1.5\n02,2.5\n")
    assert run(path, "--lam", 1, "--infer", "--out", out) == 0
    assert {line[:2] for line in out.read_text().splitlines()[1:]} <= {"01", "02"}
