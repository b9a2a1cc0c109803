"""The single fields of messages: each check returns the clean value or raises, quoting nothing of it."""

import hashlib
import json
import math
import numbers
import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Number
from onefold.exceptions import MessageError
from onefold.models import MAXIMA
from onefold.privacy import Guarantee

MOMENTS = "moments"  # what a site has that sends private moments instead of answers
NUMBERS = "numbers"  # the same for numbers to predict, with noise or without
ClassLabels = tuple[int, ...] | tuple[str, ...]

# Names appear in files, logs and terminals: nothing in them may end a line, a path or a colour.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
FIELD_SUM = re.compile(r"[0-9a-f]{16}", re.ASCII)
LONGEST_LABEL = 200
LONGEST_TEXT = 500
LARGEST_INTEGER = 2**63
MOST_REASONS = 100
MOST_KNOTS = 257


def check_name(what: str, value: Any) -> str:
    """Return a name that is safe in files, logs and terminals; ``what`` names it in the error."""
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise MessageError(
            f"{what} must be 1 to 64 letters a to z, digits, dots, dashes or underscores, starting with a "
            "letter or a digit"
        )
    return str(value)


def check_digest(value: Any) -> str:
    """Return a SHA-256 sum given as 64 hexadecimal digits."""
    if not isinstance(value, str) or DIGEST.fullmatch(value) is None:
        raise MessageError("a digest must be 64 hexadecimal digits")
    return str(value)


def columns_digest(names: Iterable[str] | None) -> str | None:
    """Return the SHA-256 sum of the names of a table's columns in their order; None if they have no names.

    Two tables with the same sum have the same columns in the same order. Names can be guessed from the sum.
    """
    if names is None:
        return None
    return hashlib.sha256(json.dumps([str(name) for name in names]).encode()).hexdigest()


def plain_labels(classes: Iterable[Any]) -> ClassLabels:
    """Return class labels of an array as plain whole numbers or texts, as messages carry them."""
    return check_labels([label.item() if isinstance(label, np.generic) else label for label in classes])


def check_labels(labels: Any) -> ClassLabels:
    """Return distinct class labels: all whole numbers of at most 64 bits, or all printable texts."""
    if not isinstance(labels, (list, tuple)):
        raise MessageError("classes must be a list of labels")
    found = tuple(labels)
    keys = {label if isinstance(label, (str, numbers.Number)) else id(label) for label in found}
    if not found or len({type(label) for label in found}) > 1 or len(keys) < len(found):
        raise MessageError("classes must be distinct labels, at least one, all of one kind")
    whole = all(type(label) is int and -LARGEST_INTEGER <= label < LARGEST_INTEGER for label in found)
    if not whole and not all(is_text(label, LONGEST_LABEL) and label for label in found):
        raise MessageError("class labels must be whole numbers of 64 bits or short printable texts")
    return found


def is_text(value: Any, longest: int = LONGEST_TEXT) -> bool:
    """Return whether a value is a printable text without control characters, and not too long."""
    return type(value) is str and len(value) <= longest and value.isprintable()


def check_guarantee(plain: Any) -> dict[str, Any] | None:
    """Return a guarantee as ``Guarantee.to_dict`` writes it; its text is written anew from its numbers."""
    if plain is None:
        return None
    try:
        guarantee = Guarantee.from_dict(plain)
        whole = type(guarantee.n_features) is int and 0 < guarantee.n_features < LARGEST_INTEGER
        sentences = (*guarantee.voided_by, *guarantee.conditions)
        texts = all(is_text(text) for text in (guarantee.mechanism, *sentences))
        numeric = all(
            number is None or (type(number) in (int, float) and 0 <= number < math.inf)
            for number in (guarantee.untouched_entries, guarantee.sensitivity, guarantee.mu)
        )
        if not whole or not texts or not numeric or len(sentences) > MOST_REASONS:
            raise MessageError("this is not the description of a guarantee")
        return guarantee.to_dict()
    except (TypeError, ValueError, ArithmeticError):
        raise MessageError("this is not the description of a guarantee") from None


def _schema_fields(pairs: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(pairs, (list, tuple)):
        raise MessageError("the fields of a schema must be a list")
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not is_text(pair[0], LONGEST_LABEL):
            raise MessageError("every field of a schema must have a short printable name and a sum")
        if not isinstance(pair[1], str) or FIELD_SUM.fullmatch(pair[1]) is None:
            raise MessageError("the sum of a field must be 16 hexadecimal digits")
    return tuple((str(name), str(total)) for name, total in pairs)


def _reason(value: Any) -> str:
    if not is_text(value) or not value:
        raise MessageError("the reason of a refusal must be a printable line")
    return str(value)


def _measure(value: Any) -> str:
    known = (*MAXIMA, MOMENTS, NUMBERS)
    if not isinstance(value, str) or value not in known:
        raise MessageError(f"measure must be one of {', '.join(known)}")
    return value


def check_scale(measure: str, scale: Any) -> float | None:
    """A number for the folding and the joined measures; None for distances and moments, which have none."""
    if measure in ("euclidean", MOMENTS, NUMBERS):
        if scale is not None:
            raise MessageError(f"the measure {measure} has no scale")
        return None
    return _number(
        "scale must be a positive finite number for the folding and joined measures", scale, above=0.0
    )


def _table(what: str, array: Any) -> Array:
    """A read-only copy of a two-dimensional float32 or float64 array with at least one row and column."""
    if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.float64) or array.ndim != 2:
        raise MessageError(f"{what} must be a two-dimensional array of float32 or float64")
    if 0 in array.shape:
        raise MessageError(f"{what} must have at least one row and one column")
    copy = np.array(array, order="C", copy=True, subok=False)
    copy.setflags(write=False)
    return copy


def _sites(names: Any) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple)) or not names:
        raise MessageError("a result must name the sites it is made of")
    sites = tuple(check_name("a site's name", name) for name in names)
    if len(set(sites)) < len(sites):
        raise MessageError("a result must name every site once")
    return sites


def _number(message: str, value: Any, above: float = -math.inf) -> float:
    if not isinstance(value, (int, float)) or not Number(above=above).accepts(value):
        raise MessageError(message)
    return float(value)


def _knots(values: Any) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or len(values) == 1 or len(values) > MOST_KNOTS:
        raise MessageError(f"the knots of a query key must be a list of 2 to {MOST_KNOTS} numbers, or empty")
    found = tuple(_number("the knots of a query key must be finite numbers", value) for value in values)
    if any(b <= a for a, b in pairwise(found)):
        raise MessageError("the knots of a query key must increase")
    return found


def _bytes(content: Any) -> bytes:
    if not isinstance(content, bytes) or not content:
        raise MessageError("the content of a message must be bytes, at least one")
    return content


CHECKS: dict[str, Callable[[Any], Any]] = {
    "id": partial(check_name, "a query id"),
    "query_id": partial(check_name, "a query id"),
    "site": partial(check_name, "a site"),
    "sites": _sites,
    "classes": check_labels,
    "measure": _measure,
    "features": partial(_table, "features"),
    "values": partial(_table, "values"),
    "guarantee": check_guarantee,
    "model_digest": check_digest,
    **dict.fromkeys(
        ("columns", "schema", "sums"), lambda digest: None if digest is None else check_digest(digest)
    ),
    "schema_fields": _schema_fields,
    "radius": partial(_number, "radius must be a positive finite number", above=0.0),
    "reason": _reason,
    "key_id": check_digest,
    **dict.fromkeys(
        ("bound", "power", "floor"),
        partial(_number, "bound, power and floor of a query key must be finite numbers"),
    ),
    "knots": _knots,
    "content": _bytes,
}
