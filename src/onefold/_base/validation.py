"""Checks of parameters and of queries, each failing with one clear line.

The parameters of a class are checked against a table, one line per parameter::

    constraints = {
        "n_components": Whole(1),
        "epsilon": (Number(above=0), None),
        "measure": OneOf(MEASURES),
        "scale": ("auto", Number(above=0), None),
    }

and ``check_parameters(self)`` where the values are used. An entry is one constraint, or a tuple of
alternatives in which None and plain words stand for themselves.
"""

import math
import numbers
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from onefold.exceptions import InvalidInputError

# float32 stays float32; everything else becomes float64.
FLOATS = (np.float64, np.float32)


# --- constraints ------------------------------------------------------------------------------------------


def _is_boolean(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


@dataclass(frozen=True)
class Whole:
    """A whole number between two ends, both allowed; a boolean is none."""

    at_least: int = 1
    at_most: int | None = None

    def accepts(self, value: Any) -> bool:
        """Return whether the value satisfies the constraint."""
        whole = isinstance(value, numbers.Integral) and not _is_boolean(value)
        return whole and self.at_least <= value and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        if self.at_most is None:
            return f"a whole number of at least {self.at_least}"
        return f"a whole number from {self.at_least} to {self.at_most}"


@dataclass(frozen=True)
class Number:
    """A finite real number within limits; NaN fails every comparison and is therefore refused."""

    at_least: float = -math.inf
    at_most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def accepts(self, value: Any) -> bool:
        """Return whether the value satisfies the constraint."""
        if _is_boolean(value) or not isinstance(value, numbers.Real):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        within = self.at_least <= number <= self.at_most and self.above < number < self.below
        return within and math.isfinite(number)

    def __str__(self) -> str:
        if (self.above, self.below, self.at_least, self.at_most) == (0, math.inf, -math.inf, math.inf):
            return "positive and finite"
        limits = {
            "of at least": self.at_least,
            "above": self.above,
            "of at most": self.at_most,
            "below": self.below,
        }
        told = [f"{words} {limit:g}" for words, limit in limits.items() if math.isfinite(limit)]
        return " ".join(["a finite number", " and ".join(told)]).strip()


@dataclass(frozen=True)
class OneOf:
    """One of some words."""

    words: Collection[str]

    def accepts(self, value: Any) -> bool:
        """Return whether the value satisfies the constraint."""
        return isinstance(value, str) and value in self.words

    def __str__(self) -> str:
        quoted = [repr(word) for word in self.words]
        return " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def accepts(self, value: Any) -> bool:
        """Return whether the value satisfies the constraint."""
        return _is_boolean(value)

    def __str__(self) -> str:
        return "True or False"


@dataclass(frozen=True)
class Instance:
    """An object of a class, or one that passes a test; ``words`` says which in an error."""

    kind: type | tuple[type, ...] | Callable[[Any], bool]
    words: str

    def accepts(self, value: Any) -> bool:
        """Return whether the value satisfies the constraint."""
        if isinstance(self.kind, (type, tuple)):
            return isinstance(value, self.kind)
        return bool(self.kind(value))

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Several:
    """A tuple of values that satisfy one constraint; ``counts`` says how many, ``words`` both in an error."""

    each: Whole | Number
    counts: tuple[int, ...]
    words: str

    def accepts(self, value: Any) -> bool:
        """Return whether the value satisfies the constraint."""
        return isinstance(value, tuple) and len(value) in self.counts and all(map(self.each.accepts, value))

    def __str__(self) -> str:
        return self.words


Constraint = Whole | Number | OneOf | Flag | Instance | Several
Entry = Constraint | tuple[Constraint | str | None, ...]


def check_parameters(holder: Any, constraints: Mapping[str, Entry] | None = None) -> None:
    """Refuse an object whose attributes break one of the constraints, naming the first that does.

    Without a table, the constraints are those of its class and of the classes it inherits from.
    """
    tables = [constraints]
    if constraints is None:
        tables = [vars(kind).get("constraints") for kind in reversed(type(holder).__mro__)]
    for name, entry in (pair for table in tables for pair in (table or {}).items()):
        check_parameter(name, getattr(holder, name), entry)


def check_parameter(name: str, value: Any, entry: Entry) -> None:
    """Refuse a value that satisfies none of the alternatives of ``entry``."""
    alternatives = entry if isinstance(entry, tuple) else (entry,)
    if not any(_accepts(alternative, value) for alternative in alternatives):
        words = " or ".join(
            repr(alternative) if alternative is None or isinstance(alternative, str) else str(alternative)
            for alternative in alternatives
        )
        raise InvalidInputError(f"{name} must be {words}")


def _accepts(alternative: Constraint | str | None, value: Any) -> bool:
    if alternative is None:
        return value is None
    if isinstance(alternative, str):
        return isinstance(value, str) and value == alternative
    return alternative.accepts(value)


# --- rows -------------------------------------------------------------------------------------------------


def check_rows(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    reset: bool = True,
    numeric_outputs: bool = False,
    declared_type: bool = False,
) -> Any:
    """Rows of ``X``, and labels with ``y``: scikit-learn's checks, with one line and no data in errors.

    With ``numeric_outputs`` there may be several numbers per row in ``y`` instead of a label. With
    ``declared_type`` rows are float64, or float32 if all of ``X`` is: one fraction makes a column of whole
    numbers a column of floats, so the type that unequal columns of a frame have in common can depend on a
    single record, and is not to be shown.
    """
    if not reset and isinstance(y, str) and y == "no_validation" and _is_plain(estimator, X):
        return X
    outputs = {"multi_output": True, "y_numeric": True} if numeric_outputs else {}
    types = getattr(X, "dtypes", ()) if declared_type else ()
    floats = list(FLOATS) if all(kind == np.float32 for kind in types) else np.float64
    try:
        rows = validate_data(estimator, X, y, reset=reset, dtype=floats, **outputs)
        if numeric_outputs and rows[1].dtype.kind not in "fiub":  # their own error would quote one
            raise InvalidInputError("y must hold one number for each row, or several")
        return rows
    except ValueError as error:
        message = str(error)
        if "Reshape your data" in message:  # the original prints the array
            raise InvalidInputError(
                "expected a 2D table of rows. Reshape your data: X.reshape(1, -1) is a single row"
            ) from None
        if "could not convert" in message:  # the original quotes the cell
            raise InvalidInputError(
                "X holds text where numbers are needed: encode the table by a Schema of onefold.tables"
            ) from None
        raise InvalidInputError(message.splitlines()[0]) from None


def _is_plain(estimator: Any, X: Any) -> bool:
    """Whether scikit-learn's checks, which take longer than a short query, would return rows as they are."""
    if (
        type(X) is not np.ndarray
        or X.ndim != 2
        or X.dtype not in FLOATS
        or hasattr(estimator, "feature_names_in_")
    ):
        return False
    fitting = len(X) > 0 and X.shape[1] == getattr(estimator, "n_features_in_", None)
    return fitting and bool(np.isfinite(X).all())
