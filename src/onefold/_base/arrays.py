"""The kinds of arrays the package works on: the only place where they are named; and columns as arrays.

Each kind says what an array of it must be when it is read from a file, so that every dataclass of arrays can
be a part of a record (``onefold._base.records``).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError

__all__ = [
    "AnyArray",
    "Array",
    "Arrays",
    "Floats",
    "Index",
    "Integers",
    "Labels",
    "Mask",
    "Polynomials",
    "Residues",
    "column_array",
    "rounds_whole",
]

ARRAY_KEY = "array"  # {"array": name}: the place of an array in the header; with "F" it is stored transposed


@dataclass(frozen=True)
class ArrayField:
    """What an array of a record must be: its kinds of numbers (as numpy's letters), dimensions and width.

    In Python the field holds a numpy array. It is read-only, in the order of memory in which it was given.
    """

    kinds: str = "f"
    n_dims: tuple[int, ...] = (0, 1, 2, 3)
    finite: bool = True
    n_bytes: int | None = None  # of an entry; None: any number

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Validate arrays in Python, and their places in the header of a file."""
        from pydantic_core import core_schema

        return core_schema.with_info_plain_validator_function(self._checked)

    def _checked(self, value: Any, info: Any) -> NDArray[Any]:
        array = stored_array(value, info)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in self.kinds:
            raise InvalidInputError("must be an array of the right kind of numbers")
        if self.n_bytes not in (None, array.dtype.itemsize):
            raise InvalidInputError("must be an array of the right kind of numbers")
        if array.ndim not in self.n_dims:
            raise InvalidInputError("must be an array with the right number of dimensions")
        if self.finite and array.dtype.kind == "f" and not _is_finite(array):
            raise InvalidInputError("must hold finite numbers only")
        view = array.view()
        view.flags.writeable = False
        return view


def _is_finite(array: NDArray[Any]) -> bool:
    """Whether there is no NaN and no infinity: a sum shows it in one pass, unless it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(array.sum()) or bool(np.isfinite(array).all())


def stored_array(value: Any, info: Any) -> Any:
    """The array that a header names, where a record is read; in Python the value itself."""
    if info.mode != "json":
        return value
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return np.array(value, dtype=np.str_)
    if not isinstance(value, dict) or not isinstance(value.get(ARRAY_KEY), str):
        raise InvalidInputError("must be an array")
    array = None if info.context is None else info.context.get(value[ARRAY_KEY])
    if array is None:
        raise InvalidInputError("is an array that is not there")
    info.context.named.add(value[ARRAY_KEY])
    return array.T if value.get("order") == "F" else array


def sizes_of(holder: Any, **shapes: str) -> dict[str, int]:
    """Sizes by letter of an object's arrays, such as ``mean="Sp"``; refused if they do not fit each other.

    A digit is a size itself, and an array that is None fits. What a foreign file holds is so found out before
    it is used.
    """
    sizes: dict[str, int] = {}
    for name, letters in shapes.items():
        array = getattr(holder, name)
        if array is None:
            continue
        sizes = dict(zip(letters, array.shape, strict=False)) | sizes
        if array.shape != tuple(int(each) if each.isdigit() else sizes.get(each) for each in letters):
            raise InvalidInputError("the arrays do not fit each other")
    return sizes


AnyArray = NDArray[Any]  # numbers or texts
# float64, or float32 when the data came as float32
Array = Annotated[NDArray[np.floating], ArrayField("f")]
Arrays = dict[str, NDArray[Any]]  # named arrays, as files and frames carry them
Floats = Annotated[NDArray[np.float64], ArrayField("f", n_bytes=8)]  # float64 only
Index = Annotated[NDArray[np.intp], ArrayField("i", n_bytes=8)]
Integers = Annotated[NDArray[np.int64], ArrayField("i", n_bytes=8)]
Labels = Annotated[NDArray[Any], ArrayField("fiubU", (1,))]  # one class label per row: texts or numbers
Mask = Annotated[NDArray[np.bool_], ArrayField("b")]
Polynomials = NDArray[np.uint64]  # of a ciphertext: (number of polynomials, primes, N)
Residues = NDArray[np.uint64]  # whole numbers modulo a prime


MOST_EXACT = 2.0**53  # up to here float64 holds every whole number


def rounds_whole(values: AnyArray) -> bool:
    """Tell whether whole numbers lost digits when they became floats beside a missing one.

    Parameters
    ----------
    values : ndarray
        What a library made of whole numbers.

    Returns
    -------
    bool
        Whether some of them are floats too large to be exact.
    """
    return values.dtype.kind == "f" and bool((np.abs(values) >= MOST_EXACT).any())


def column_array(column: Any) -> AnyArray:
    """Return the cells of a column; no cell changes what another one is.

    Libraries make float64 of whole numbers among which one is missing. Long ones are then rounded, so that
    one record would change all others: of rounded numbers of persons, many are one person. Of texts beside
    numbers NumPy makes texts, of truth values beside numbers numbers.

    Parameters
    ----------
    column : array-like of shape (n_rows,)
        A column of pandas or polars, a NumPy array or a list.

    Returns
    -------
    ndarray
        An array of NumPy's own type; of objects where cells would become what they are not.
    """
    framed = hasattr(column, "to_numpy")
    if isinstance(column, (np.ndarray, str)) or not (framed or isinstance(column, Iterable)):
        return np.asanyarray(column)
    cells = column if framed else list(column)
    if framed or {bool}.issuperset(kinds := set(map(type, cells))) or all(map(_is_number, kinds)):
        values = np.asarray(column.to_numpy() if framed else cells)
        if values.ndim != 1 or not rounds_whole(values):
            return values
        cells = column.to_list() if framed else cells
    return np.fromiter(cells, dtype=object, count=len(cells))


def _is_number(kind: type) -> bool:
    return issubclass(kind, (int, float, np.number)) and not issubclass(kind, (bool, np.timedelta64))
