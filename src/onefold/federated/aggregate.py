"""From the answers of many clients to one decision: pure functions on arrays, nothing else.

An answer is how much a client must fold a query to reach its samples of a class: the smaller, the closer. Q
clients answer n queries for C classes in an array (Q, n, C). A client without a class answers the largest
value of the measure: 1 for the space folding measures (004 eq. 123), infinity for the distance (000 Remark
5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError

__all__ = ["check_answers", "decide", "minimum"]

Array = NDArray[np.floating]


def check_answers(answers: ArrayLike, n_dimensions: int, largest: float = np.inf) -> Array:
    """Answers as an array of floating-point numbers; anything that cannot be a measure is refused.

    Parameters
    ----------
    n_dimensions : 3 for the answers of all clients, 2 for those of one.
    largest : the maximum of the measure.
    """
    try:
        array = np.asarray(answers)
        numbers = array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("answers must be numbers in an array without ragged rows") from None
    if numbers.ndim != n_dimensions or 0 in numbers.shape[:-2] or numbers.shape[-1] == 0:
        shape = "(Q, n, C)" if n_dimensions == 3 else "(n, C)"
        raise InvalidInputError(f"answers must have the shape {shape} with at least one client and one class")
    # Comparisons with NaN are false, so NaN is refused too.
    if not np.all((numbers >= 0) & (numbers <= largest)):
        raise InvalidInputError(f"answers must lie between 0 and {largest:g} and must not be NaN")
    return numbers


def minimum(answers: ArrayLike) -> Array:
    """The closest client speaks for each class: (Q, n, C) -> (n, C) (000 eq. 104, 004 eq. 105 and 122).

    Examples
    --------
    >>> minimum([[[0.2, 1.0]], [[0.3, 0.1]]]).tolist()
    [[0.2, 0.1]]
    """
    return np.asarray(check_answers(answers, 3).min(axis=0))


def decide(measures: ArrayLike) -> NDArray[np.intp]:
    """Index of the class with the smallest measure, for each query: (n, C) -> (n,) (004 eq. 106 and 118).

    Of equal classes the first one wins. A query for which no client knows any class is refused.

    Examples
    --------
    >>> decide([[0.2, 0.1], [0.3, 0.3]]).tolist()
    [1, 0]
    """
    checked = check_answers(measures, 2)
    if not np.all(np.isfinite(checked).any(axis=1)):
        raise InvalidInputError("a query has no finite answer for any class")
    return np.asarray(checked.argmin(axis=1))
