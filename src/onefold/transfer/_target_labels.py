"""Labels of a target: few, with -1 where there is none."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from onefold._base.arrays import Index
from onefold.exceptions import InvalidInputError

__all__ = ["check_target_labels", "unlabelled"]


def unlabelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Rows without a label: -1, or its text among labels that are text."""
    if labels.dtype.kind in "OUS":
        return np.asarray(labels.astype(str) == "-1")
    return np.asarray(labels == -1)


def check_target_labels(
    labels: NDArray[Any], known: NDArray[Any] | None, allow_missing: bool
) -> tuple[NDArray[Any], Index]:
    """The classes, and the position of each row's label among them, -1 where there is none.

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
            f"no row is labelled as {_listed(lacking)}: label one, or give allow_missing=True"
        )
    codes = np.full(len(labels), -1, dtype=np.intp)
    codes[~free] = np.searchsorted(classes, given)
    return classes, codes


def _check_classes(labels: NDArray[Any]) -> None:
    """Refuse numbers that are measurements."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(labels.astype(str) if labels.dtype.kind == "O" else labels)
    except ValueError as error:
        raise InvalidInputError(str(error).splitlines()[0]) from None


def _same_kind(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return (one.dtype.kind in "OUS") == (other.dtype.kind in "OUS")


def _listed(names: Sequence[str], shown: int = 5) -> str:
    """The first of some class names, in words. Classes are the source's published ones, no data."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
