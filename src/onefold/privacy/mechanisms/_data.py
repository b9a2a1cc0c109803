"""From whatever holds the numbers to a float64 array, and back to the same kind of container."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError

__all__ = ["Floats", "draw_shape", "unpack"]

Floats = NDArray[np.float64]
Restore = Callable[[Floats], Any]
EXACT_INTEGER = 2**53


def unpack(X: Any, name: str = "X") -> tuple[Floats, Restore]:
    """Checked numbers of ``X`` as float64, and a function that gives results the form of ``X``.

    Noise is drawn and added in float64. A float32 result is rounded at the very end: that is a function of
    the private float64 values alone, whereas noise rounded first would leave fewer values to hide among.
    """
    if hasattr(X, "tocsr"):
        raise InvalidInputError(f"{name} is sparse: noise touches every entry, so pass a dense array")
    if isinstance(X, np.ma.MaskedArray):
        raise InvalidInputError(f"{name} is masked: fill or drop the masked entries first")
    values = _numbers(X, name)
    if np.issubdtype(values.dtype, np.integer) and values.size:
        largest = max(int(values.max()), -int(values.min()))
        if largest > EXACT_INTEGER:
            raise InvalidInputError(f"{name} holds whole numbers beyond 2**53: rescale them first")
    floats = values.astype(np.float64)
    if not np.isfinite(floats).all():
        raise InvalidInputError(f"{name} holds NaN or infinite values: fill or drop them first")
    return floats, _restorer(X, values.dtype)


def _numbers(X: Any, name: str) -> NDArray[Any]:
    try:
        values = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        if values.dtype == object:  # extension types of pandas arrive as objects; text fails here
            values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must hold numbers only, in rows of equal length") from None
    if not (np.issubdtype(values.dtype, np.floating) or values.dtype.kind in "iub"):
        raise InvalidInputError(f"{name} must hold real numbers only")
    return values


def _restorer(X: Any, dtype: np.dtype[Any]) -> Restore:
    kept = dtype if dtype in (np.float32, np.float16) else np.dtype(np.float64)

    def cast(result: Floats) -> Any:
        with np.errstate(over="ignore"):
            array = result.astype(kept, copy=False)
        if hasattr(X, "to_numpy") and hasattr(X, "index"):
            heading = {"columns": X.columns} if hasattr(X, "columns") else {"name": X.name}
            return type(X)(array, index=X.index, **heading)
        return array

    return cast


def draw_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """The shape as a tuple of whole numbers, zero allowed."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        if isinstance(size, (bool, np.bool_)) or not isinstance(size, (int, np.integer)) or size < 0:
            raise InvalidInputError("shape must be made of whole numbers of at least 0")
    return tuple(int(size) for size in sizes)
