"""The kinds of arrays the package works on."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Index", "Mask"]

Array = NDArray[np.floating]  # float64, or float32 when the data came as float32
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]
