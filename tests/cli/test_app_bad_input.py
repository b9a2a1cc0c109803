"""Mistakes of a user: exit code 2, one line on standard error, no traceback, no cell shown."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from onefold import KAHM, io
from onefold.cli.app import main

SECRET = "8.7651"
GOOD = "a,b,y\n1,2,u\n2,1,u\n8,9,v\n9,8,v\n"

BAD_TABLES = {
    "empty": ("", "empty"),
    "header only": ("a,b,y\n", "no rows"),
    "unknown label": (GOOD.replace("y", "z"), "no column 'y'"),
    "one class": (GOOD.replace("v", "u"), "one class only"),
    "one number": (GOOD.replace("u", SECRET).replace("v", SECRET), "holds one number only"),
    "ragged": (GOOD + "1,2\n", "line 6 has 2 cells"),
    "no features": ("y\nu\nv\n", "no feature column"),
    "no header": (f"{SECRET},{SECRET},u\n1,2,v\n", "columns 1 and 2 have one name"),
}
# Without a schema every column must hold a number in every row.
RAW_TABLES = {
    "fractions as labels": (GOOD.replace("u", SECRET).replace("v", "1.5"), "holds fractions"),
    "nan": (GOOD.replace("9,8", f"nan,{SECRET}"), "column 'a' is not numeric"),
    "infinite": (GOOD.replace("9,8", "9,-inf"), "column 'b' has a NaN or infinite value in row 4"),
    "text feature": (GOOD.replace("9,8", f"9,x{SECRET}"), "column 'b' is not numeric (row 4)"),
    "empty cell": (GOOD.replace("9,8", "9,"), "column 'b' has an empty cell in row 4"),
    "missing label": (GOOD.replace("8,v", "8,"), "label column 'y' has a missing value in row 4"),
}


def check_line(code: int, out: str, err: str, words: str) -> None:
    assert code == 2
    assert out == ""
    assert err.startswith("onefold: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert words in err
    assert SECRET not in err


def refused(capsys, arguments: Sequence[object], words: str) -> None:
    """The same check inside this process, which is faster."""
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    check_line(code, shown.out, shown.err, words)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "good.csv").write_text(GOOD)
    path = folder / "good.model"
    assert main(["fit", str(folder / "good.csv"), "--label", "y", "--out", str(path), "--quiet"]) == 0
    return path


@pytest.mark.parametrize("case", [*BAD_TABLES, *RAW_TABLES])
def test_fit_refuses_a_bad_table_in_one_line_without_showing_a_cell(
    onefold, tmp_path: Path, case: str
) -> None:
    text, words = (BAD_TABLES | RAW_TABLES)[case]
    (tmp_path / "t.csv").write_text(text)
    raw = ["--raw"] if case in RAW_TABLES else []
    done = onefold("fit", tmp_path / "t.csv", "--label", "y", "--out", tmp_path / "m", *raw)
    check_line(done.returncode, done.stdout, done.stderr, words)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("fit none.csv --label y --out m", "none.csv: no such file"),
        ("fit . --label y --out m", "the folder has no .parquet file"),
        ("fit good.xls --label y --out m", "must end in .csv,"),
        ("fit good.csv --label y --out none/m", "the folder does not exist"),
        ("fit good.csv --label y --out .", "is a folder"),
        ("fit good.csv --out m", "--label"),
        ("fit good.csv --label y --out m --ignore q", "no column 'q'"),
        ("fit good.csv --label y --out m --n-layers 0", "from 1 on"),
        ("fit good.csv --label y --out m --n-components two", "whole number"),
        ("fit good.csv --label y --out m --scale nan", "positive"),
        ("fit good.csv --label y --out m --scale -1", "--scale"),
        ("fit good.csv --label y --out m --scale much", "number"),
        ("fit good.csv --label y --out m --seed -1", "4294967295"),
        ("fit good.csv --label y --out m --n-jobs 0", "-1 or a whole number"),
        ("fit good.csv --label y --out m --test-size 1.5", "between 0 and 1"),
        ("fit good.csv --label y --out m --test-size nan", "between 0 and 1"),
        ("fit good.csv --label y --out m --test-size 0.1", "too few rows"),
        ("fit good.csv --label y --out m --measure far", "invalid choice"),
        ("fit good.csv --label y --out m --batch-size 20", "--batch-size does not go with --model wide"),
        ("fit good.csv --label y --out m --model folding --n-layers 2", "--n-layers does not go with"),
        ("predict none.model good.csv --out p.csv", "none.model: no such file"),
        ("predict good.csv good.csv --out p.csv", "not a model file"),
        ("predict good.model none.csv --out p.csv", "none.csv: no such file"),
        ("predict good.model good.csv --out p.xlsx", "must end in"),
        ("predict good.model good.csv --out none/p.csv", "the folder does not exist"),
        ("predict good.model good.csv --out p.csv --label q", "no column 'q'"),
        ("predict good.model good.csv --out p.csv --label a", "is a feature of the model"),
        ("predict good.model good.csv --out p.csv --id y --label y", "same column"),
        ("predict good.model good.csv --out p.csv --id prediction", "taken"),
        ("predict good.model good.csv --out - --json", "standard output"),
        ("predict good.model fewer.csv --out p.csv", "no column 'b'"),
        ("predict good.model other.csv --out p.csv", "no column 'a'"),
        (
            "predict good.model three.npz --out p.csv",
            "3 feature(s) without names, the model was fitted with 2",
        ),
        ("predict cut.model good.csv --out p.csv", "cut.model"),
        ("predict changed.model good.csv --out p.csv", "changed.model"),
        ("predict empty.model good.csv --out p.csv", "empty.model"),
        ("predict machine.model good.csv --out p.csv", "holds a KAHM, which does not classify"),
        ("demo --sites 1", "at least 2"),
        ("demo --sites many", "whole number"),
        ("demo --dataset unheard-of", "unheard-of"),
        ("demo --sites 5000", "fewer rows"),
        ("demo --report none/r.html", "the folder does not exist"),
        ("dance", "invalid choice"),
        ("", "COMMAND"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(
    model: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch, arguments: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = model.read_bytes()
    Path("good.model").write_bytes(data)
    Path("cut.model").write_bytes(data[: len(data) // 2])
    Path("changed.model").write_bytes(data[:200] + bytes([data[200] ^ 255]) + data[201:])
    Path("empty.model").write_bytes(b"")
    io.save(KAHM().fit(np.eye(5)), "machine.model")
    Path("good.csv").write_text(GOOD)
    Path("good.xls").write_text(GOOD)
    Path("fewer.csv").write_text("a\n1\n")
    Path("other.csv").write_text("c,d\n1,2\n")
    np.savez("three.npz", X=np.zeros((2, 3)))
    np.savez("good.npz", Z=np.zeros((2, 3)))
    refused(capsys, arguments.split(), words)
    assert not Path("m").exists()
    assert not Path("p.csv").exists()


def test_model_of_unnamed_features_refuses_another_number_of_columns(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("t.npz", X=np.arange(8.0).reshape(4, 2), y=[0, 0, 1, 1])
    assert main(["fit", "t.npz", "--label", "y", "--out", "m", "--quiet"]) == 0
    Path("t.csv").write_text(GOOD)
    assert main(["predict", "m", "t.csv", "--out", "p.csv", "--label", "y", "--quiet"]) == 0
    capsys.readouterr()  # other classes than the model's: none is predicted right
    refused(capsys, ["predict", "m", "three.csv", "--out", "p.csv"], "no such file")
    Path("three.csv").write_text("a,b,c\n1,2,3\n")
    refused(
        capsys, ["predict", "m", "three.csv", "--out", "p.csv"], "3 feature(s), the model was fitted with 2"
    )


def test_missing_packages_name_the_extra_to_install(model: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    refused(capsys, ["demo", "--report", "r.html"], "pip install 'onefold[report]'")


@pytest.mark.merge
@pytest.mark.skipif(sys.platform == "win32", reason="no limit on file sizes")
def test_full_disk_leaves_no_file_behind(model: Path, tmp_path: Path) -> None:
    import resource

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "onefold",
            "predict",
            model,
            model.parent / "good.csv",
            "--out",
            tmp_path / "p.csv",
        ],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4)),
        check=False,
    )
    check_line(done.returncode, done.stdout, done.stderr, "p.csv: cannot be written (File too large)")
    assert list(tmp_path.iterdir()) == []


def test_table_too_large_for_memory_is_refused_in_one_line(tmp_path: Path, capsys, monkeypatch) -> None:
    def starve(*_: object, **__: object) -> None:
        raise MemoryError

    (tmp_path / "t.csv").write_text(GOOD)
    monkeypatch.setattr("onefold.tables.reading.np.fromiter", starve)
    refused(capsys, ["fit", tmp_path / "t.csv", "--label", "y", "--out", tmp_path / "m"], "not enough memory")


def test_failed_command_keeps_the_old_result(model: Path, tmp_path: Path, capsys) -> None:
    kept = shutil.copy(model, tmp_path / "kept.model")
    (tmp_path / "bad.csv").write_text(GOOD.replace("1", "?"))
    refused(capsys, ["fit", tmp_path / "bad.csv", "--label", "y", "--raw", "--out", kept], "not numeric")
    assert Path(kept).read_bytes() == model.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "kept.model"]
