"""The support vector machine with a unique solution (002 eq. 2), for two classes."""

import math
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.validation import check_rows
from onefold.exceptions import InvalidInputError
from onefold.release._problem import Floats
from onefold.release._svm_core import solve

__all__ = ["RobustSVM", "signs"]

CLOSE = 1e-6


class RobustSVM(ClassifierMixin, BaseEstimator):
    r"""Linear support vector machine that is unique, so that a release can keep it exactly (002 eq. 2).

    .. math:: \min \tfrac12 \alpha^\top\alpha + \tfrac\rho2 (\beta^2 + \xi^\top\xi) + \theta 1^\top\xi
        \quad\text{subject to}\quad y_i(\alpha^\top x_i + \beta) \ge 1 - \xi_i, \; \xi_i \ge 0.

    Parameters
    ----------
    rho : weight of the quadratic terms; a small one comes close to the usual machine (002 Prop. 2.1)
    theta : weight of the slacks, as ``C`` elsewhere

    Attributes
    ----------
    classes_ : the two classes; the second one counts as +1
    coef_, intercept_ : the hyperplane, of shape (1, p) and (1,)
    omega_ : multiplier of each training row's margin, which the release that keeps the classifier needs
    xi_ : slack of each training row
    kkt_residual_ : largest violation of the optimality conditions (002 eq. 15), relative to their terms
    n_iter_ : steps of the solvers

    Notes
    -----
    scipy's L-BFGS finds the rows that may lie on the margin, Clarabel solves the quadratic program in them,
    and a linear system takes what is left of the error to the rounding level. Time grows with rows x
    features^2 and memory with rows x features. Multipliers of rows exactly on the margin are not unique when
    more than p + 1 of them are (duplicates); the classifier is.

    Examples
    --------
    >>> svm = RobustSVM().fit([[0.0], [2.0]], [0, 1])
    >>> [round(float(v), 3) for v in (svm.coef_[0, 0], svm.intercept_[0])], svm.predict([[3.0]]).tolist()
    ([1.0, -1.0], [1])
    """

    classes_: NDArray[Any]
    coef_: Floats
    intercept_: Floats
    omega_: Floats
    xi_: Floats
    kkt_residual_: float
    n_iter_: int

    def __init__(self, rho: float = 1e-2, theta: float = 1.0) -> None:
        self.rho = rho
        self.theta = theta

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Solve the problem for the rows of ``X`` and two classes ``y``."""
        for name in ("rho", "theta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise InvalidInputError(f"{name} must be a number")
            if not 0 < value < math.inf:
                raise InvalidInputError(f"{name} must be positive and finite")
        rows, labels = check_rows(self, X, y)
        _check_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            found = "1 class" if len(self.classes_) == 1 else f"{len(self.classes_)} classes"
            raise InvalidInputError(
                f"RobustSVM needs two classes, y has {found}. Only binary classification is supported."
            )
        root = math.sqrt(self.rho)
        y_signs = 2.0 * codes - 1.0
        G = np.column_stack([rows, np.full(len(rows), 1.0 / root)]).astype(np.float64)
        G *= y_signs[:, np.newaxis]
        solution = solve(G, float(self.rho), float(self.theta))
        self.coef_, self.intercept_ = solution.z[np.newaxis, :-1], solution.z[-1:] / root
        self.omega_, self.xi_ = solution.omega, solution.xi
        self.kkt_residual_, self.n_iter_ = solution.residual, solution.steps
        if not self.kkt_residual_ <= CLOSE:
            warnings.warn(
                "the machine is only approximately optimal (see kkt_residual_): rescale the columns",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Signed distance in units of the margin: positive for the second class."""
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class on whose side of the hyperplane a row lies."""
        side = (self.decision_function(X) > 0).astype(np.intp)
        return np.asarray(self.classes_[side])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def signs(svm: RobustSVM, y: Any) -> Floats:
    """Labels as -1 and +1, in the order of a fitted machine's classes."""
    labels = np.asarray(y)
    if labels.ndim != 1 or not np.isin(labels, svm.classes_).all():
        raise InvalidInputError("y must hold the classes the machine was fitted on, one per row")
    return np.where(labels == svm.classes_[1], 1.0, -1.0)


def _check_targets(labels: Any) -> None:
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise InvalidInputError(str(error).splitlines()[0]) from None
