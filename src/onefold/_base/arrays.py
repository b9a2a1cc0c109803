"""The kinds of arrays the package works on: the only place where they are named; and columns as arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

AnyArray = NDArray[Any]  # numbers or texts
Array = NDArray[np.floating]  # float64, or float32 when the data came as float32
Arrays = dict[str, NDArray[Any]]  # named arrays, as archives and frames carry them
Floats = NDArray[np.float64]  # float64 only
Index = NDArray[np.intp]
Integers = NDArray[np.int64]
Labels = NDArray[Any]  # one class label per row: texts or numbers
Mask = NDArray[np.bool_]
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
