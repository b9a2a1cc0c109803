"""The terms of a promise: units of privacy, neighbouring datasets, and the numbers of a loss."""

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainSerializer, PlainValidator

from onefold._base.arrays import Floats
from onefold._base.validation import Number, OneOf, check_parameter
from onefold.exceptions import InvalidInputError

__all__ = [
    "DELTA",
    "DELTA_OR_ZERO",
    "EPSILON",
    "NOTHING",
    "POSITIVE",
    "RELATIONS",
    "UNITS",
    "Pair",
    "added",
    "check_relation",
    "checked_pair",
    "group",
    "multiplied",
    "number",
    "number_array",
    "positive",
    "root",
    "round_up",
    "shown",
    "shown_limit",
    "two_steps",
]

Pair = tuple[float, float]  # (epsilon, delta)
Unit = Literal["entry", "record", "person"]
Relation = Literal["replace", "add-remove"]
Sentences = Annotated[tuple[str, ...], Field(strict=False)]
AtLeastOne = Annotated[int, Field(ge=1, le=2**53)]
# What a change of the data changes: one entry of the table, a whole record, or all records of a person.
UNITS = ("entry", "record", "person")
# What two neighbouring datasets differ in, as far as whole records go.
RELATIONS = {"replace": "replaced", "add-remove": "more or less"}
NOTHING: Pair = (math.inf, 1.0)

POSITIVE = Number(above=0)
EPSILON = Number(at_least=1e-12, at_most=1e6)
DELTA = Number(above=0, below=1)
DELTA_OR_ZERO = Number(at_least=0, below=1)


def number(name: str, value: Any, constraint: Number) -> float:
    """Return a parameter as a float, so that computing goes on in float64; refuse it outside its limits.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    value : object
        Its value.
    constraint : Number
        Its limits.

    Returns
    -------
    float
        The value.

    See Also
    --------
    positive : The same for positive numbers.

    Examples
    --------
    >>> from onefold.privacy.terms import DELTA, number
    >>> number("delta", 0.5, DELTA)
    0.5
    """
    check_parameter(name, value, constraint)
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return a positive and finite parameter as a float; refuse any other.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    value : object
        Its value.

    Returns
    -------
    float
        The value.

    See Also
    --------
    number : The same for other limits.

    Examples
    --------
    >>> from onefold.privacy.terms import positive
    >>> positive("sigma", 2)
    2.0
    """
    return number(name, value, POSITIVE)


def number_array(values: Any, refusal: str, fits: Callable[[Floats], Any] = np.isfinite) -> Floats:
    """Return a copy of numbers as an array of float64, or refuse them.

    Parameters
    ----------
    values : array-like
        The numbers.
    refusal : str
        The error where they are no numbers, or do not fit.
    fits : callable, default=numpy.isfinite
        What must be true of the array, or of all of its entries.

    Returns
    -------
    ndarray of float64
        The numbers.

    See Also
    --------
    number : The same for one number.

    Examples
    --------
    >>> from onefold.privacy.terms import number_array
    >>> number_array([1, 2], "expected numbers").tolist()
    [1.0, 2.0]
    """
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(refusal) from None
    if not np.all(fits(numbers)):
        raise InvalidInputError(refusal)
    return numbers


def check_relation(neighbours: Any) -> str:
    """Return the name of a neighbouring relation, or refuse what is none.

    Parameters
    ----------
    neighbours : str
        A name.

    Returns
    -------
    str
        The same name.

    See Also
    --------
    Guarantee : Says under which relation it holds.

    Examples
    --------
    >>> from onefold.privacy.terms import check_relation
    >>> check_relation("add-remove")
    'add-remove'
    """
    check_parameter("neighbours", neighbours, OneOf(RELATIONS))
    return str(neighbours)


def checked_pair(value: Any) -> Pair:
    """Return (epsilon, delta) as two floats, or refuse what is no such pair.

    Parameters
    ----------
    value : tuple of two float
        Its value.

    Returns
    -------
    epsilon : float
        Privacy loss, at least 0.
    delta : float
        Probability with which it may be exceeded.

    See Also
    --------
    number : The same for one number.

    Examples
    --------
    >>> from onefold.privacy.terms import checked_pair
    >>> checked_pair([1, 0])
    (1.0, 0.0)
    """
    try:
        if isinstance(value, Mapping):
            value = math.inf if value["epsilon"] is None else value["epsilon"], value["delta"]
        epsilon, delta = (float(number) for number in value)
    except (KeyError, TypeError, ValueError):
        raise InvalidInputError("must be a pair (epsilon, delta)") from None
    if not epsilon >= 0 or not 0 <= delta <= 1:
        raise InvalidInputError("must have epsilon of at least 0 and delta in [0, 1]")
    return epsilon, delta


Losses = Annotated[
    Pair,
    PlainValidator(checked_pair),
    PlainSerializer(lambda pair: {"epsilon": pair[0] if math.isfinite(pair[0]) else None, "delta": pair[1]}),
]


class Value:
    """What has no arrays: two that say the same are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


def two_steps(pair: Pair) -> Pair:
    """Return what holds for a replaced record where one record more or less is covered.

    Replacing is removing one record, then adding one: group privacy of two.

    Parameters
    ----------
    pair : tuple of two float
        (epsilon, delta) for one record more or less.

    Returns
    -------
    epsilon : float
        Privacy loss for a replaced record.
    delta : float
        Probability with which it may be exceeded.

    See Also
    --------
    Guarantee : States both pairs.

    Examples
    --------
    >>> from onefold.privacy.terms import two_steps
    >>> two_steps((0.5, 0.0))
    (1.0, 0.0)
    """
    return group(pair, 2)


def group(pair: Pair, size: int) -> Pair:
    """Return what holds for several changes at once where each single one is covered.

    Parameters
    ----------
    pair : tuple of two float
        (epsilon, delta) of one change.
    size : int
        Number of changes.

    Returns
    -------
    epsilon : float
        Privacy loss of all of them, ``size`` times as large.
    delta : float
        Probability with which it may be exceeded: delta times the sum of exp(i epsilon), i below ``size``.

    See Also
    --------
    two_steps : The group of two that a replaced record is.

    Examples
    --------
    >>> from onefold.privacy.terms import group
    >>> group((0.5, 0.0), 3)
    (1.5, 0.0)
    """
    epsilon, delta = pair
    together = multiplied(epsilon, size)
    if size == 1 or delta == 0 or not math.isfinite(epsilon):
        return together, delta
    if together > 700.0:
        return NOTHING
    # One part in 10^14 covers the errors of the exponentials and of the sum.
    larger = delta * math.fsum(math.exp(i * epsilon) for i in range(size)) * (1 + 1e-14)
    return (together, larger) if larger < 1.0 else NOTHING


# --- numbers of a promise are rounded up ------------------------------------------------------------------


def round_up(exact: Fraction) -> float:
    """Smallest float64 that is no smaller than an exact number."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def multiplied(*factors: float) -> float:
    """Product of positive numbers, rounded up."""
    if not all(map(math.isfinite, factors)):
        return math.inf
    return round_up(math.prod(map(Fraction, factors), start=Fraction(1)))


def added(*parts: float) -> float:
    """Sum of positive numbers, rounded up."""
    return round_up(sum(map(Fraction, parts), Fraction(0))) if all(map(math.isfinite, parts)) else math.inf


def root(square: Fraction | int) -> float:
    """Square root of a number that is not negative, rounded up."""
    exact = Fraction(square)
    bits = max(0, 64 + (exact.denominator.bit_length() - exact.numerator.bit_length()) // 2)
    scaled = exact * 4**bits
    whole = math.isqrt(math.floor(scaled))
    return round_up(Fraction(whole + (whole * whole < scaled), 2**bits))


def shown(number: float, digits: int = 4) -> str:
    """Write a number with a few digits, rounded up: what is printed is no less than what holds.

    One part in 10^9 is left out of that, so that errors of float64 do not turn 5 into 5.001.
    """
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    exact = Decimal(repr(float(number))) * (1 - Decimal("1e-9"))
    step = Decimal((0, (1,), exact.adjusted() - digits + 1))
    return f"{float(exact.quantize(step, ROUND_CEILING)):.{digits}g}"


def shown_limit(number: float) -> str:
    """Write the largest change that numbers hold for, with a few digits if that makes it no larger."""
    text = f"{number:g}"
    return text if float(text) <= number else repr(float(number))
