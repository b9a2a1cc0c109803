"""The kinds of arrays the package works on: the only place where they are named."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnyArray", "Array", "Arrays", "Floats", "Index", "Integers", "Labels", "Mask", "Polynomials"]

AnyArray = NDArray[Any]  # numbers or texts
Array = NDArray[np.floating]  # float64, or float32 when the data came as float32
Arrays = dict[str, NDArray[Any]]  # named arrays, as archives and frames carry them
Floats = NDArray[np.float64]  # float64 only
Index = NDArray[np.intp]
Integers = NDArray[np.int64]
Labels = NDArray[Any]  # one class label per row: texts or numbers
Mask = NDArray[np.bool_]
Polynomials = NDArray[np.uint64]  # of a ciphertext: (number of polynomials, primes, N)
