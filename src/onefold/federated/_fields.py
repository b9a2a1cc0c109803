"""Checks of single fields of messages and logs: each returns the clean value or raises, quoting nothing."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import MessageError
from onefold.models import MEASURES, maximum_of
from onefold.privacy import Guarantee

__all__ = [
    "Labels",
    "check_digest",
    "check_guarantee",
    "check_labels",
    "check_measure_and_scale",
    "check_name",
    "check_table",
    "check_values",
    "columns_digest",
    "plain_labels",
]

Labels = tuple[int, ...] | tuple[str, ...]

# Names appear in files, logs and terminals: nothing in them may end a line, a path or a colour.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
LONGEST_LABEL = 200
LARGEST_INTEGER = 2**63
LONGEST_TEXT = 500


def check_name(what: str, value: Any) -> str:
    """A name that is safe in files, logs and terminals."""
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise MessageError(
            f"{what} must be 1 to 64 letters, digits, dots, dashes or underscores, starting with one of the "
            "first two"
        )
    return str(value)


def check_digest(value: Any) -> str:
    """A SHA-256 sum as 64 hexadecimal digits."""
    if not isinstance(value, str) or DIGEST.fullmatch(value) is None:
        raise MessageError("a digest must be 64 hexadecimal digits")
    return str(value)


def columns_digest(names: Iterable[str] | None) -> str | None:
    """SHA-256 sum of the names of a table's columns in their order; None if they have none.

    Two tables with one sum have the same columns in the same order. Names can be guessed from it.
    """
    if names is None:
        return None
    return hashlib.sha256(json.dumps([str(name) for name in names]).encode()).hexdigest()


def plain_labels(classes: Iterable[Any]) -> Labels:
    """Class labels of an array as plain whole numbers or texts, as messages carry them."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in classes]
    return check_labels(plain)


def check_labels(labels: Any) -> Labels:
    """Distinct class labels: all whole numbers of at most 64 bits, or all printable texts."""
    if not isinstance(labels, (list, tuple)):
        raise MessageError("classes must be a list of labels")
    found = tuple(labels)
    if not found or len({type(label) for label in found}) > 1 or len(set(map(_hashable, found))) < len(found):
        raise MessageError("classes must be distinct labels, at least one, all of one kind")
    if all(type(label) is int and -LARGEST_INTEGER <= label < LARGEST_INTEGER for label in found):
        return found
    if all(is_text(label, LONGEST_LABEL) and label for label in found):
        return found
    raise MessageError("class labels must be whole numbers of 64 bits or short printable texts")


def _hashable(label: Any) -> Any:
    return label if isinstance(label, (str, numbers.Number)) else id(label)


def is_text(value: Any, longest: int = LONGEST_TEXT) -> bool:
    """A printable text without line ends or control characters, and not too long."""
    return type(value) is str and len(value) <= longest and value.isprintable()


def check_measure_and_scale(measure: Any, scale: Any) -> tuple[str, float | None]:
    """A known measure; a scale with the folding measures, none with the distance, which has its own units."""
    if not isinstance(measure, str) or measure not in MEASURES:
        raise MessageError(f"measure must be one of {', '.join(MEASURES)}")
    if measure == "euclidean":
        if scale is not None:
            raise MessageError("the euclidean measure has no scale")
        return measure, None
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < math.inf:
        raise MessageError("scale must be a positive finite number for the folding measures")
    return measure, float(scale)


def check_table(what: str, array: Any) -> NDArray[np.floating]:
    """A read-only copy of a two-dimensional float32 or float64 array with at least one row and column."""
    if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.float64) or array.ndim != 2:
        raise MessageError(f"{what} must be a two-dimensional array of float32 or float64")
    if 0 in array.shape:
        raise MessageError(f"{what} must have at least one row and one column")
    return frozen_copy(array)


def frozen_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A copy in memory of its own that nobody can write to."""
    copy = np.array(array, order="C", copy=True, subok=False)
    copy.setflags(write=False)
    return copy


def check_values(array: Any, measure: str, n_classes: int) -> NDArray[np.floating]:
    """Answers (n, C): within the range of the measure, no NaN, one column per class."""
    values = check_table("values", array)
    if values.shape[1] != n_classes:
        raise MessageError("values must have one column per class")
    # Comparisons with NaN are false, so NaN is refused too.
    if not np.all((values >= 0) & (values <= maximum_of(measure))):
        raise MessageError("values must lie within the range of the measure and must not be NaN")
    return values


def check_guarantee(plain: Any) -> dict[str, Any] | None:
    """A guarantee as ``Guarantee.to_dict`` writes it; its text is written anew from its numbers."""
    if plain is None:
        return None
    try:
        guarantee = Guarantee.from_dict(plain)
        whole = type(guarantee.n_features) is int and 0 < guarantee.n_features < LARGEST_INTEGER
        texts = all(is_text(text) for text in (guarantee.mechanism, *guarantee.voided_by))
        numeric = all(_is_number(x) for x in (guarantee.untouched_entries, guarantee.sensitivity))
        if not whole or not texts or not numeric or len(guarantee.voided_by) > 100:
            raise MessageError("this is not the description of a guarantee")
        return guarantee.to_dict()
    except (TypeError, ValueError, ArithmeticError):
        raise MessageError("this is not the description of a guarantee") from None


def _is_number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value < math.inf)
