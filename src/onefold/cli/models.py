"""Stored classifiers, and tables with the features that they know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onefold.cli.console import say, without_bars
from onefold.cli.tables import NumberTable, read_numbers
from onefold.exceptions import InvalidInputError


def load_classifier(path: str, quiet: bool = True) -> tuple[Any, list[str] | None]:
    """The classifier in a file, and the names of its features if it knows them."""
    from onefold import io
    from onefold.transfer import TransferClassifier

    if not Path(path).is_file():
        raise InvalidInputError(f"{path}: no such file")
    with without_bars(quiet):  # a compact file shows a bar while its machines are fitted again
        model: Any = TransferClassifier.load(path) if TransferClassifier.is_saved_at(path) else io.load(path)
    if not (hasattr(model, "predict") and hasattr(model, "classes_")):
        raise InvalidInputError(f"{path}: holds a {type(model).__name__}, which does not classify")
    # Taken off the model: the columns are put in order here, and plain arrays go in.
    names = vars(model).pop("feature_names_in_", None)
    return model, None if names is None else [str(name) for name in names]


def read_known(path: str, model: Any, names: list[str] | None, keep: list[str], quiet: bool) -> NumberTable:
    """The table with the features that the model knows; another number of features is an error."""
    table = read_numbers(path, keep=keep, features=names, quiet=quiet)
    found, wanted = table.values.shape[1], int(model.n_features_in_)
    if found != wanted:
        raise InvalidInputError(f"{path}: {found} feature(s), the model was fitted with {wanted}")
    return table


def tell_ignored(table: NumberTable, quiet: bool) -> None:
    """Say how many columns of a table the model does not know."""
    if table.ignored:
        say(f"{table.ignored} column(s) of {table.path} left out: the model does not know them", quiet)
