"""What the commands make of the tables of the corpus: proposed schema, findings, fit, predictions, counts."""

import csv
import io
import json
import shutil
import tempfile
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from onefold.cli.app import main
from onefold.exceptions import OnefoldError
from onefold.fabrication import TableSynthesizer
from onefold.tables import Schema, read_table

FOLDER = Path(__file__).parent
PREDICTED = 30  # rows whose predictions are stored
# What differs from run to run, or from file to file.
VOLATILE = {"seconds", "file_bytes", "model", "schema", "table", "warning", "text"}


def labels() -> dict[str, str | None]:
    """Return the column to predict of every table."""
    stored: dict[str, str | None] = json.loads((FOLDER / "labels.json").read_text("utf-8"))
    return stored


def stored(table: str) -> Any:
    """Return the outputs that are stored for a table."""
    return json.loads((FOLDER / "results" / f"{table}.json").read_text("utf-8"))


def store(table: str) -> None:
    """Write the outputs of this version for a table."""
    text = json.dumps(outputs(table), indent=1, ensure_ascii=False)
    (FOLDER / "results" / f"{table}.json").write_text(text + "\n", "utf-8")


def outputs(table: str) -> dict[str, Any]:
    """Return what every command makes of a table, refusals included."""
    label = labels()[table]
    named = [] if label is None else ["--label", label]
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shutil.copy(FOLDER / "tables" / table, table)
        made = {"schema infer": command("schema", "infer", table, *named, "--out", "s.json", "--json")}
        made |= fitted("fit", table, *named)
        if Path("s.json").exists():
            made["schema"] = json.loads(Path("s.json").read_text("utf-8"))
            made["check"] = command("check", table, "--schema", "s.json", "--json")
            made |= fitted("fit with a schema", table, *named, "--schema", "s.json")
            made["synthesize"] = counted(table)
    return made


def command(*words: str) -> Any:
    """Run a command and return what it prints, or the line with which it refuses."""
    printed, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(errors):
        code = main(list(words))
    if code not in (0, 1) or not printed.getvalue():
        return {"refused": errors.getvalue().strip().splitlines()[-1]}
    if words[0] == "predict":
        return predictions(printed.getvalue())
    return stable(json.loads(printed.getvalue()))


def fitted(name: str, table: str, *options: str) -> dict[str, Any]:
    """Fit a model and predict the rows it was fitted to."""
    made = {name: command("fit", table, *options, "--seed", "0", "--out", "m.onefold", "--json")}
    model = Path("m.onefold")
    if model.exists():
        made[f"predict after {name}"] = command("predict", "m.onefold", table, "--out", "-")
        model.unlink()
    return made


def counted(table: str) -> Any:
    """Count a table for synthetic rows with repeatable noise, and say how well they follow the counts."""
    schema = Schema.load("s.json")
    try:
        if schema.to_review:
            schema = schema.confirm(ground="a test", by="a test", on="2026-01-01")
        maker = TableSynthesizer(schema, 1.0, 1e-5, random_state=0).fit(read_table(table))
    except OnefoldError as error:
        return {"refused": str(error)}
    return stable(maker.quality_.to_dict())


def stable(value: Any) -> Any:
    """Leave out what differs from run to run."""
    if isinstance(value, dict):
        return {name: stable(part) for name, part in value.items() if name not in VOLATILE}
    return [stable(part) for part in value] if isinstance(value, list) else value


def predictions(text: str) -> dict[str, list[Any]]:
    """Return the columns of a table of predictions, numbers as numbers."""
    header, *rows = csv.reader(io.StringIO(text))
    return {name: [number(row[place]) for row in rows[:PREDICTED]] for place, name in enumerate(header)}


def number(cell: str) -> Any:
    """Return a number with nine digits, and other texts as they are."""
    try:
        return float(f"{float(cell):.9g}")
    except ValueError:
        return cell


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """List the places where two outputs differ by more than the last digits of another processor."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for name in [*one, *(set(other) - set(one))]
            for line in differences(one.get(name), other.get(name), f"{where} > {name}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        lines = [line for place, pair in pairs for line in differences(*pair, f"{where}[{place}]")]
        # Of the predicted classes one may be decided by the last digits.
        return [] if len(lines) == 1 and where.endswith("> prediction") else lines
    if isinstance(one, float) and isinstance(other, int | float):
        return [] if abs(one - other) <= 1e-6 * max(1.0, abs(one), abs(other)) else [where]
    return [] if one == other else [where]
