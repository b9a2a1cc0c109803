"""Stored classifiers, and tables with the features that they know."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from onefold.cli.console import busy, say, without_bars
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema
from onefold.tables.rows import Rows, rows
from onefold.tables.tasks import CLASSES, NUMBERS


def load_model(path: str, quiet: bool = True, *, classes: bool = False) -> tuple[Any, list[str] | None]:
    """What predicts classes or numbers in a file, and the names of its features if it knows them."""
    from onefold import io

    if not Path(path).is_file():
        raise InvalidInputError(f"{path}: no such file")
    with without_bars(quiet):  # a compact file shows a bar while its machines are fitted again
        model: Any = io.load(path)
    if not hasattr(model, "classes_" if classes else "predict"):
        raise InvalidInputError(f"{path}: holds a {type(model).__name__}, which does not classify")
    # Taken off the model: the columns are put in order here, and plain arrays go in.
    names = vars(model).pop("feature_names_in_", None)
    return model, None if names is None else [str(name) for name in names]


def schema_of(model: Any, names: list[str] | None = None) -> Schema:
    """The schema of a model; of numbers as they stand, by these names, where it was fitted to a matrix."""
    return getattr(model, "schema", None) or Schema.numbers(names or int(model.n_features_in_))


def read_rows(
    path: str,
    model: Any,
    names: list[str] | None,
    *,
    label: str | None = None,
    identifier: str | None = None,
    quiet: bool = True,
) -> Rows:
    """Read what a model knows of a table; say what was left out or read in another way."""
    schema = schema_of(model, names)
    task = CLASSES if hasattr(model, "classes_") else NUMBERS
    keep = [] if identifier is None else [identifier]
    with busy(f"reading {path}", quiet):
        found = rows(path, schema, label=label, mode="lenient", task=task.name, keep=keep)
    for note in found.notes:
        say(note, quiet)
    return found if label is not None else replace(found, y=None)
