"""A private fit says what is known about its quality without looking at a row, and how to measure it."""

import json
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.tables import Field, Schema


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables to learn from and to ask about, with a class and a number, and a schema for each of the two."""
    monkeypatch.chdir(tmp_path)
    fields = [Field(name, "number", low=-4, high=4) for name in ("a", "b")]
    Schema([*fields, Field("y", "boolean", role="label")], rows_about=600).save("classes.json")
    Schema([*fields, Field("z", "number", low=-4, high=4, role="label")], rows_about=600).save("numbers.json")
    rng = np.random.default_rng(0)
    for name in ("train.csv", "public.csv"):
        rows = rng.normal(size=(600, 2)).round(4)
        lines = [f"{a},{b},{'true' if a > 0 else 'false'},{np.clip(a + b, -4, 4)}" for a, b in rows]
        Path(name).write_text("\n".join(["a,b,y,z", *lines]), encoding="utf-8")
    return tmp_path


def fitted(kind: str) -> list[str]:
    schema, more = ("numbers", []) if kind == "numbers" else ("classes", ["--method", kind])
    return ["fit", "train.csv", "--schema", f"{schema}.json", "--epsilon", "2", *more, "--out", "m.onefold"]


KNOWN = {
    "tables": "a forecast from the noisy counts: noise moved about",
    "moments": "a forecast from the noisy number of rows: noise leaves about",
    "numbers": "from the noisy sums: one standard deviation of the noise in it is",
}


@pytest.mark.parametrize("kind", list(KNOWN))
def test_private_fit_tells_its_quality_and_how_to_measure_it(
    here: Path, capsys: pytest.CaptureFixture, kind: str
) -> None:
    assert main(fitted(kind)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert KNOWN[kind] in shown
    label = "z" if kind == "numbers" else "y"
    assert (
        f"was not measured, which would be one more release: onefold predict m.onefold ROWS --label {label}"
        in shown
    )
    assert "accuracy" not in shown  # of raw rows it would be a release
    assert main([*fitted(kind), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["quality"]["measured"] is False
    assert "held_out" not in told
    # The command that is named works, and says that its numbers are not covered.
    asked = ["predict", "m.onefold", "public.csv", "--label", label]
    assert main(asked) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "covered by no epsilon" in shown
    assert ": better than" in shown  # as it is, with an interval
    assert main([*asked, "--json"]) == 0
    assert "covered by no epsilon" in json.loads(capsys.readouterr().out)["not_covered"]


@pytest.mark.parametrize("kind", list(KNOWN))
def test_page_of_a_private_fit_has_it_too(here: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    assert main([*fitted(kind), "--report", "page.html", "--quiet"]) == 0
    verdict = " ".join(json.loads(Path("page.json").read_text(encoding="utf-8"))["verdict"])
    words = {
        "tables": "noise moved",
        "moments": "noise leaves",
        "numbers": "one standard deviation of the noise",
    }
    assert words[kind] in verdict


def test_held_out_rows_of_a_private_fit_are_refused(here: Path, capsys: pytest.CaptureFixture) -> None:
    for kind in KNOWN:
        assert main([*fitted(kind), "--test-size", "0.2"]) == 2
        assert "--test-size" in capsys.readouterr().err
    assert not Path("m.onefold").exists()


def test_measures_of_a_model_without_a_promise_have_no_such_line(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    plain = ["fit", "train.csv", "--label", "y", "--ignore", "z", "--out", "m.onefold", "--quiet"]
    assert main(plain) == 0
    assert main(["predict", "m.onefold", "public.csv", "--label", "y", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "not_covered" not in told
    assert told["measures"]["outcomes"]["AUC"] == "better"
