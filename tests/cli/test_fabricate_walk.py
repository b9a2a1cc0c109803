"""Every way through ``onefold fabricate``, right and wrong: no false claim, and none without conditions."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onefold.cli.app import main
from onefold.privacy import Guarantee
from onefold.privacy.guarantee import FLOAT_SAMPLER

N_ROWS = 30
OUTLIER = 1001.0  # far outside the declared range: clipped, and nobody is told


def write_table(path: Path, record: dict[str, str] | None = None) -> Path:
    """Three features, a label and whom each row is about; the record takes the place of one."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "a": f"{value}",
            "b": f"{value % 7}",
            "c": "2.5",
            "answer": "yes" if i % 2 else "no",
            "who": f"p{i // 3}",
        }
        for i, value in enumerate(rng.integers(0, 11, N_ROWS))
    ]
    rows[4] |= {"a": f"{OUTLIER:g}"}
    rows[7] |= record or {}
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


UNITS = ("entry", "record", "person")
DOMAINS = {"none": [], "range": ["--range", "0", "10"], "word": ["--sensitivity", "10"]}
SAMPLERS = ([], ["--sampler", "float"])
PERSONS = {"none": [], "half": ["--person", "who"], "both": ["--person", "who", "--rows-per-person", "2"]}
STOPPINGS = ("honest", "documented", "1")
NOISES = ("laplace", "optimal", "gaussian")
LABELS = {
    "none": ["--ignore", "answer"],
    "raw": ["--label", "answer"],
    "private": ["--label", "answer", "--label-epsilon", "2", "--classes", "yes", "no", "a longer answer"],
}
CHOICE = random.Random(0)
WAYS = [
    (*way, CHOICE.choice(NOISES), CHOICE.choice(list(LABELS)))
    for way in itertools.product(UNITS, DOMAINS, range(len(SAMPLERS)), PERSONS, STOPPINGS)
]


def options(
    unit: str, domain: str, sampler: int, person: str, stopping: str, noise: str, label: str
) -> list[str]:
    chosen = [*DOMAINS[domain], *SAMPLERS[sampler], *PERSONS[person], *LABELS[label]]
    if person == "none":
        chosen += ["--ignore", "who"]
    return ["--epsilon", "1", "--unit", unit, "--stopping", stopping, "--noise", noise, *chosen]


def refused(unit: str, domain: str, person: str) -> bool:
    """Noise without a domain, a row of unknown size, half of what persons need."""
    if domain == "none" or person == "half":
        return True
    return unit != "entry" and (domain == "word" or (unit == "person" and person == "none"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("walk") / "survey.csv")


@pytest.mark.filterwarnings("ignore::onefold.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("unit", UNITS)
def test_every_combination_of_options_is_refused_or_states_what_it_does(
    unit, table, tmp_path, capsys
) -> None:
    done = 0
    for number, way in enumerate(way for way in WAYS if way[0] == unit):
        _, domain, sampler, person, stopping, _, label = way
        out = tmp_path / f"{number}.csv"
        given = options(*way)
        code = main(["fabricate", str(table), "--out", str(out), *given])
        captured = capsys.readouterr()
        assert f"{OUTLIER:g}" not in captured.out + captured.err, given
        if refused(unit, domain, person):
            assert code == 2, given
            assert captured.out == ""
            assert len(captured.err.splitlines()) == 1
            assert not out.exists()
            continue
        assert code == 0, (given, captured.err)
        done += 1
        promise = json.loads((tmp_path / f"{number}.csv.guarantee.json").read_text(encoding="utf-8"))
        assert promise["text"] in captured.out
        assert promise["odds"][unit] in captured.out
        guarantee = Guarantee.from_dict(promise)
        check_promise(
            guarantee, unit, domain, SAMPLERS[sampler] == ["--sampler", "float"], person, stopping, label
        )
        check_values(out, domain, person, label)
    assert done == {"entry": 24, "record": 12, "person": 6}[unit]


def check_promise(
    guarantee: Guarantee, unit: str, domain: str, float_sampler: bool, person: str, stopping: str, label: str
) -> None:
    text = str(guarantee)
    assert guarantee.unit == unit
    assert getattr(guarantee, unit)[0] == pytest.approx(1.0, rel=1e-4)
    assert guarantee.entry[0] <= guarantee.record[0] * (1 + 1e-4)
    assert guarantee.holds == (not float_sampler and stopping != "documented")
    assert (FLOAT_SAMPLER in guarantee.voided_by) == float_sampler
    assert text.startswith("VOID") == (not guarantee.holds)
    assert ("guarantee is void" in guarantee.odds(unit)) == (not guarantee.holds)
    about = [
        line
        for line in text.splitlines()
        if line.startswith(("One entry", "A whole record", "One person")) and "with their labels" not in line
    ]
    assert len(about) == (3 if person == "both" else 2)
    limit = "clipped to the declared domain"
    if domain == "word":
        what = "entry" if unit == "entry" else "record"
        assert f"no {what} changes by more than 10" in text
        limit = "(not checked)" if unit == "entry" else "under the conditions below"
    assert all(limit in line for line in about)
    if guarantee.holds and domain == "word":
        assert "if the conditions are true" in guarantee.odds(unit)
    if person == "both":
        assert guarantee.rows_per_person == 2
        assert guarantee.person[0] >= guarantee.record[0] * (1 - 1e-4)
        assert all("under the conditions below" in line for line in about)
        assert "whom each row is about is taken as known" in text
    else:
        assert guarantee.person is None
        assert "NOT covered as a person" in text
    assert guarantee.labels == ((2.0, 0.0) if label == "private" else None)
    assert ("Labels and class sizes: NOT covered" in text) == (label != "private")


def check_values(out: Path, domain: str, person: str, label: str) -> None:
    lines = out.read_text(encoding="utf-8").splitlines()
    features = ["a", "b", "c"]
    assert lines[0] == ",".join(features + ([] if label == "none" else ["answer"]))
    assert len(lines) == 1 + (20 if person == "both" else N_ROWS)
    values = np.array([[float(cell) for cell in line.split(",")[:3]] for line in lines[1:]])
    if domain == "range":
        assert values.min() >= 0
        assert values.max() <= 10


WRONG = {
    "no domain": (["--epsilon", "1"], "noise needs --range LOW HIGH"),
    "range upside down": (["--epsilon", "1", "--range", "10", "0"], "LOW below HIGH"),
    "endless range": (["--epsilon", "1", "--range", "0", "inf"], "LOW below HIGH"),
    "range without numbers": (["--epsilon", "1", "--range", "nan", "nan"], "LOW below HIGH"),
    "two domains": (["--epsilon", "1", "--range", "0", "1", "--sensitivity", "1"], "not allowed with"),
    "sensitivity of nothing": (["--epsilon", "1", "--sensitivity", "0"], "positive"),
    "a sampler nobody knows": (["--epsilon", "1", "--range", "0", "1", "--sampler", "fast"], "--sampler"),
    "a seed": (["--epsilon", "1", "--range", "0", "1", "--seed", "1"], "--seed"),
    "classes without label": (["--epsilon", "1", "--range", "0", "1", "--classes", "x", "y"], "need --label"),
    "person as label": (
        [
            "--epsilon",
            "1",
            "--range",
            "0",
            "1",
            "--label",
            "who",
            "--person",
            "who",
            "--rows-per-person",
            "1",
        ],
        "same column",
    ),
    "no such person": (
        ["--epsilon", "1", "--range", "0", "1", "--person", "whom", "--rows-per-person", "1"],
        "there is no column 'whom'",
    ),
    "no rows of a person": (
        ["--epsilon", "1", "--range", "0", "1", "--person", "who", "--rows-per-person", "0"],
        "whole number from 1",
    ),
    "text among the features": (["--epsilon", "1", "--range", "0", "1"], "is not numeric"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_refused_in_one_line_and_nothing_is_written(name, table, tmp_path, capsys) -> None:
    wrong, message = WRONG[name]
    out = tmp_path / "s.csv"
    assert main(["fabricate", str(table), "--out", str(out), *wrong]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_row_without_a_person_is_refused(tmp_path, capsys) -> None:
    path = write_table(tmp_path / "t.csv", {"who": ""})
    given = [
        "--epsilon",
        "1",
        "--range",
        "0",
        "10",
        "--ignore",
        "answer",
        "--person",
        "who",
        "--rows-per-person",
        "2",
    ]
    assert main(["fabricate", str(path), "--out", str(tmp_path / "s.csv"), *given]) == 2
    assert "missing value" in capsys.readouterr().err


def test_first_record_is_not_released_as_names_of_columns(tmp_path, capsys) -> None:
    """A file without a header line: its first record would stand in the new table as it is."""
    path = tmp_path / "bare.csv"
    path.write_text("5.1,3.5,1001\n" + "4.9,3.0,2\n" * 20, encoding="utf-8")
    given = ["--epsilon", "1", "--range", "0", "10", "--out", str(tmp_path / "s.csv")]
    assert main(["fabricate", str(path), *given]) == 2
    told = capsys.readouterr().err
    assert "add a line with names of columns" in told
    assert "1001" not in told.replace(str(path), "")
    path.write_text("0,1,2\n" + "4.9,3.0,2\n" * 20, encoding="utf-8")  # numbered columns are names
    assert main(["fabricate", str(path), *given]) == 0


def test_guarantee_of_an_earlier_table_never_lies_beside_a_new_one(table, tmp_path, monkeypatch) -> None:
    out = tmp_path / "s.csv"
    given = [
        "fabricate",
        str(table),
        "--out",
        str(out),
        "--range",
        "0",
        "10",
        "--ignore",
        "answer",
        "--ignore",
        "who",
    ]
    assert main([*given, "--epsilon", "0.1", "--quiet"]) == 0

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("onefold.cli.outputs.write_beside", fail)
    assert main([*given, "--epsilon", "50", "--quiet"]) != 0
    assert not (tmp_path / "s.csv.guarantee.json").exists()


# --- neighbouring tables ----------------------------------------------------------------------------------

records = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["3", "1e9", "0.125", "-4", "123456789012345678"]),
        "b": st.sampled_from(["3", "0.5", "-1e-9"]),
        "c": st.sampled_from(["2", "2.5", "99999"]),
        "answer": st.sampled_from(["no", "yes", "a longer answer"]),
    }
)


def seen_by_a_receiver(table: Path, out: Path, capsys: Any) -> tuple[Any, ...]:
    """All that leaves except the noisy numbers themselves."""
    given = ["--epsilon", "1", "--range", "0", "10", "--stopping", "1", "--ignore", "who", *LABELS["private"]]
    assert main(["fabricate", str(table), "--out", str(out), *given]) == 0
    captured = capsys.readouterr()
    told = (captured.out, captured.err, Path(f"{out}.guarantee.json").read_bytes())
    if out.suffix == ".npz":
        with np.load(out) as made:
            return (
                *told,
                [(name, made[name].dtype, made[name].shape) for name in made.files],
                out.stat().st_size,
            )
    if out.suffix == ".parquet":
        import pyarrow.parquet as pq

        return *told, str(pq.read_schema(out)), pq.read_metadata(out).num_rows
    lines = out.read_text(encoding="utf-8").splitlines()
    whole = [
        all("." not in cell for cell in column)
        for column in zip(*(x.split(",") for x in lines[1:]), strict=True)
    ]
    return *told, lines[0], len(lines), whole


@pytest.mark.parametrize(
    "suffix", ["csv", *(pytest.param(other, marks=pytest.mark.merge) for other in ("npz", "parquet"))]
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=records)
def test_files_and_words_are_the_same_for_neighbouring_tables(suffix, record, tmp_path, capsys) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"s.{suffix}"
    seen = [
        seen_by_a_receiver(write_table(tmp_path / "t.csv", chosen), out, capsys) for chosen in (None, record)
    ]
    assert seen[0] == seen[1]


def test_optimal_noise_without_a_delta_and_columns_of_any_name(tmp_path, capsys) -> None:
    data, out = tmp_path / "t.csv", tmp_path / "made.npz"
    data.write_text("file,allow_pickle\n" + "\n".join(f"{k / 20},{k % 3 / 2}" for k in range(20)) + "\n")
    options = ["--epsilon", "1", "--delta", "0", "--range", "0", "1", "--out", str(out)]
    assert main(["fabricate", str(data), *options]) == 0
    assert (
        "One entry, clipped to the declared domain: epsilon 1 per entry, delta 0." in capsys.readouterr().out
    )
    assert sorted(np.load(out)) == ["allow_pickle", "file"]
    assert main(["fabricate", str(data), *options, "--noise", "gaussian"]) == 2
    assert "delta" in capsys.readouterr().err
