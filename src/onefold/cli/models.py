"""Stored classifiers, and tables with the features that they know."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Mask
from onefold.cli import contracts
from onefold.cli.console import count_of, say, without_bars
from onefold.cli.tables import NumberTable, identifiers_of, labels_of, numbers_in, read_numbers
from onefold.exceptions import InvalidInputError


def load_classifier(path: str, quiet: bool = True) -> tuple[Any, list[str] | None]:
    """The classifier in a file, and the names of its features if it knows them."""
    model, names = load_predictor(path, quiet)
    if not hasattr(model, "classes_"):
        raise InvalidInputError(f"{path}: holds a {type(model).__name__}, which does not classify")
    return model, names


def load_predictor(path: str, quiet: bool = True) -> tuple[Any, list[str] | None]:
    """What predicts classes or numbers in a file, and the names of its features if it knows them."""
    from onefold import io
    from onefold.transfer import TransferClassifier

    if not Path(path).is_file():
        raise InvalidInputError(f"{path}: no such file")
    with without_bars(quiet):  # a compact file shows a bar while its machines are fitted again
        model: Any = TransferClassifier.load(path) if TransferClassifier.is_saved_at(path) else io.load(path)
    if not hasattr(model, "predict"):
        raise InvalidInputError(f"{path}: holds a {type(model).__name__}, which does not classify")
    # Taken off the model: the columns are put in order here, and plain arrays go in.
    names = vars(model).pop("feature_names_in_", None)
    return model, None if names is None else [str(name) for name in names]


@dataclass(frozen=True)
class KnownRows:
    """Rows of a table as a model wants them, with what the file says besides the features.

    Attributes
    ----------
    rows : ndarray or dict
        A matrix, or columns read by the schema of the model.
    labels : ndarray or None
        True classes, or numbers, of the rows that have one; None if they were not asked for.
    with_label : ndarray of bool
        Which rows these are.
    ids : ndarray or None
        The column to copy.
    """

    rows: Any
    n_rows: int
    labels: AnyArray | None
    with_label: Mask
    ids: AnyArray | None

    def __len__(self) -> int:
        return self.n_rows

    @property
    def labelled(self) -> Any:
        """The rows whose class is known."""
        if isinstance(self.rows, dict):
            return contracts.take(self.rows, self.with_label)
        return self.rows[self.with_label]

    def block(self, start: int, stop: int) -> Any:
        """Some consecutive rows."""
        part = slice(start, stop)
        return contracts.take(self.rows, part) if isinstance(self.rows, dict) else self.rows[part]


def read_rows(
    path: str,
    model: Any,
    names: list[str] | None,
    *,
    label: str | None = None,
    identifier: str | None = None,
    quiet: bool = True,
) -> KnownRows:
    """Read what a model knows of a table, by its schema or as numbers; say what was left out."""
    numbers = not hasattr(model, "classes_")
    keep = [name for name in (label, identifier) if name is not None]
    schema = getattr(model, "schema", None)
    if schema is None:
        table = read_known(path, model, names, keep, quiet)
        tell_ignored(table, quiet)
        everywhere = np.ones(len(table.values), dtype=np.bool_)
        labels = None
        if label is not None:
            labels = numbers_in(table, label) if numbers else labels_of(table, label)
        ids = None if identifier is None else identifiers_of(table.kept[identifier])
        return KnownRows(table.values, len(table.values), labels, everywhere, ids)
    features = [known.name for known in schema.features]
    if label in features:
        raise InvalidInputError(f"column {label!r} is a feature of the model: use another column")
    found = contracts.read_columns(path, keep, quiet, schema=schema)
    rows, told = contracts.rows_like(schema, found)
    for line in told:
        say(line, quiet)
    labels, with_label = None, np.ones(found.n_rows, dtype=np.bool_)
    if label is not None:
        labels, with_label = contracts.answers_like(schema, found, label)
        if not len(labels):
            raise InvalidInputError(f"{path}: label column {label!r} is empty")
        if len(labels) < found.n_rows:
            what = "number" if numbers else "class"
            say(f"{found.n_rows - len(labels)} of {found.n_rows} rows have no {what} in {label!r}", quiet)
    unknown = set(found) - {known.name for known in schema.fields} - set(keep)
    tell_ignored_columns(path, len(unknown), quiet)
    ids = None if identifier is None else identifiers_of(found[identifier])
    return KnownRows(rows, found.n_rows, labels, with_label, ids)


def read_known(path: str, model: Any, names: list[str] | None, keep: list[str], quiet: bool) -> NumberTable:
    """The table with the features that the model knows; another number of features is an error."""
    table = read_numbers(path, keep=keep, features=names, quiet=quiet)
    found, wanted = table.values.shape[1], int(model.n_features_in_)
    if found != wanted:
        raise InvalidInputError(f"{path}: {found} feature(s), the model was fitted with {wanted}")
    return table


def tell_ignored(table: NumberTable, quiet: bool) -> None:
    """Say how many columns of a table the model does not know."""
    tell_ignored_columns(table.path, table.ignored, quiet)


def tell_ignored_columns(path: str | Path, count: int, quiet: bool) -> None:
    """Say how many columns of a file the model does not know."""
    if count:
        say(f"{count_of(count, 'column')} of {path} left out: unknown to the model", quiet)
