"""The kernel smoother by itself (000 Def. 13, 004 Def. 6)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from onefold._base.arrays import Array
from onefold._base.validation import check_rows, check_whole_number
from onefold.fabrication._steps import repeated, stepper

__all__ = ["Smoother"]


class Smoother(BaseEstimator):
    """Folds every row of a table by the machine of the table itself, ``n_steps`` times.

    Each step multiplies the table by a symmetric matrix with eigenvalues in [0, 1): rows move towards what
    they have in common, and noise is averaged away. It changes the rows it is given and has nothing to say
    about others, so there is no ``transform``.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding.
    n_steps : int, default=1
        How often to smooth.
    """

    def __init__(self, n_components: int = 20, n_steps: int = 1) -> None:
        self.n_components = n_components
        self.n_steps = n_steps

    def smooth(self, X: ArrayLike) -> Array:
        """The rows of ``X``, smoothed."""
        check_whole_number("n_components", self.n_components)
        check_whole_number("n_steps", self.n_steps, at_least=0)
        rows = check_rows(self, X)
        return repeated(rows, stepper(self.n_components, 1.0), self.n_steps)

    def fit(self, X: ArrayLike, y: Any = None) -> "Smoother":
        """Check ``X``; there is nothing to learn."""
        check_rows(self, X)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Array:
        """The same as :meth:`smooth`."""
        return np.asarray(self.smooth(X))
