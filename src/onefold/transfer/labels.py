"""Labels of a target: few, with -1 where a row has none."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets

from onefold._base.arrays import Index, Labels, Mask
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema

__all__ = ["check_target_labels", "few_labels", "listed", "unlabelled", "with_unlabelled"]


def with_unlabelled(schema: Schema) -> Schema:
    """Return the schema of a table of which most labels are missing or -1."""
    label = schema.label
    if label is None or not label.is_category:
        raise InvalidInputError('the schema has no field of the role "label" with classes')
    tokens = tuple(schema.missing_values if label.missing_values is None else label.missing_values)
    levels = label.levels
    if label.type in ("integer", "number") and -1 not in levels:
        levels = (*levels, -1)
    few = replace(label, missing="indicator", missing_values=(*tokens, "-1"), levels=levels)
    found: Schema = clone(schema).set_params(
        fields=[few if each is label else each for each in schema.fields]
    )
    return found


def few_labels(schema: Schema, X: Any, y: Any = None) -> Labels:
    """Return the labels of a target's table, -1 where a row has none; an undeclared one is refused."""
    if y is not None:
        return np.asarray(y)
    label = with_unlabelled(schema).label
    assert label is not None
    codes = with_unlabelled(schema).parse(X, roles=("label",))[label.name]
    shown = np.array([*label.levels, -1], dtype=str if label.type == "string" else None)
    return np.asarray(shown[codes])


def unlabelled(labels: Labels) -> Mask:
    """Find rows without a label: -1, or its text among labels that are text."""
    if labels.dtype.kind in "OUS":
        return np.asarray(labels.astype(str) == "-1")
    return np.asarray(labels == -1)


def check_target_labels(labels: Labels, known: Labels | None, allow_missing: bool) -> tuple[Labels, Index]:
    """Return the classes, and the position of each row's label among them, -1 where there is none.

    ``known`` are the classes of the source; without one the classes are those that have a label.
    """
    if labels.dtype.kind == "O" and any(label is None for label in labels):
        raise InvalidInputError("y holds None: a row without a label has -1")
    _check_classes(labels)
    free = unlabelled(labels)
    if free.all():
        raise InvalidInputError("no row has a label: all are -1")
    own = np.unique(labels[~free].astype(str) if labels.dtype.kind in "OUS" else labels[~free])
    classes = own if known is None else np.asarray(known)
    if not _same_kind(own, classes):
        raise InvalidInputError("the labels are numbers and the source's are text, or the other way round")
    if not np.isin(own, classes).all():  # before the cast, which shortens text and wraps numbers
        raise InvalidInputError("y holds a class that the source does not know")
    given = labels[~free].astype(classes.dtype)
    if len(own) < len(classes) and not allow_missing:
        lacking = [str(label) for label in classes if label not in given]
        raise InvalidInputError(
            f"no row is labelled as {listed(lacking)}: label one, or allow it "
            "(allow_missing=True, --allow-missing)"
        )
    codes = np.full(len(labels), -1, dtype=np.intp)
    codes[~free] = np.searchsorted(classes, given)
    return classes, codes


def _check_classes(labels: Labels) -> None:
    """Refuse numbers that are measurements."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(labels.astype(str) if labels.dtype.kind == "O" else labels)
    except ValueError as error:
        raise InvalidInputError(str(error).splitlines()[0]) from None


def _same_kind(one: Labels, other: Labels) -> bool:
    return (one.dtype.kind in "OUS") == (other.dtype.kind in "OUS")


def listed(names: Sequence[str], shown: int = 5) -> str:
    """List the first of some class names; classes are published by the source and no data."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
