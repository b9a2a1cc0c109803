"""Model files on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onefold.cli.tables import Table
from onefold.exceptions import InvalidInputError

__all__ = ["load_classifier", "require_width"]


def load_classifier(path: str) -> tuple[Any, list[str] | None]:
    """The classifier in a file, and the names of its features if it knows them."""
    from onefold import io
    from onefold.transfer import TransferClassifier

    if not Path(path).is_file():
        raise InvalidInputError(f"{path}: no such file")
    model: Any = TransferClassifier.load(path) if TransferClassifier.is_saved_at(path) else io.load(path)
    if not (hasattr(model, "predict") and hasattr(model, "classes_")):
        raise InvalidInputError(f"{path}: holds a {type(model).__name__}, which does not classify")
    # Taken off the model: the columns are put in order here, and plain arrays go in.
    names = vars(model).pop("feature_names_in_", None)
    return model, None if names is None else [str(name) for name in names]


def require_width(model: Any, table: Table) -> None:
    """Refuse a table with another number of features than the model knows."""
    found, wanted = table.values.shape[1], int(model.n_features_in_)
    if found != wanted:
        raise InvalidInputError(f"{table.path}: {found} feature(s), the model was fitted with {wanted}")
