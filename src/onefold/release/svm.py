"""The support vector machine with a unique solution (002 eq. 2), for two classes."""

import math
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Floats, Labels
from onefold._base.validation import Entry, Number, check_parameters, check_rows
from onefold.exceptions import InvalidInputError
from onefold.release._solver import solve

__all__ = ["RobustSVM", "signs"]

CLOSE = 1e-6
CONSTRAINTS: dict[str, Entry] = {"rho": Number(above=0), "theta": Number(above=0)}


class RobustSVM(ClassifierMixin, BaseEstimator):
    r"""Linear support vector machine with a unique solution, so that a release can keep it exactly.

    .. math:: \min \tfrac12 \alpha^\top\alpha + \tfrac\rho2 (\beta^2 + \xi^\top\xi) + \theta 1^\top\xi
        \quad\text{subject to}\quad y_i(\alpha^\top x_i + \beta) \ge 1 - \xi_i, \; \xi_i \ge 0.

    Parameters
    ----------
    rho : float, default=0.01
        Weight of the quadratic terms; a small one comes close to the usual machine (002 Prop. 2.1).
    theta : float, default=1.0
        Weight of the slacks, as ``C`` elsewhere.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two classes; the second one counts as +1.
    coef_ : ndarray of shape (1, n_features)
        Weights alpha of the hyperplane.
    intercept_ : ndarray of shape (1,)
        Intercept beta of the hyperplane.
    omega_ : ndarray of shape (n_samples,)
        Multiplier of each training row's margin; :func:`release_utility_preserving` needs it.
    xi_ : ndarray of shape (n_samples,)
        Slack of each training row.
    kkt_residual_ : float
        Largest violation of the optimality conditions (002 eq. 15), relative to their terms.
    n_iter_ : int
        Steps of the solvers.

    See Also
    --------
    release_utility_preserving : Publish rows under which this machine stays the same.

    Notes
    -----
    scipy's L-BFGS finds the rows that may lie on the margin, Clarabel solves the quadratic program in them,
    and a linear system takes what is left of the error to the rounding level. Time grows with rows x
    features^2 and memory with rows x features. Multipliers of rows exactly on the margin are not unique when
    there are more than p + 1 of them (duplicates); the classifier is.

    References
    ----------
    Document 002, eq. 2, eq. 15 and Proposition 2.1.

    Examples
    --------
    >>> svm = RobustSVM().fit([[0.0], [2.0]], [0, 1])
    >>> [round(float(v), 3) for v in (svm.coef_[0, 0], svm.intercept_[0])], svm.predict([[3.0]]).tolist()
    ([1.0, -1.0], [1])
    """

    classes_: Labels
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
        """Find the machine for rows of two classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        RobustSVM
            This object.
        """
        check_parameters(self, CONSTRAINTS)
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
        """Compute alpha.x + beta for each row: positive for the second class, 1 on its margin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Decision values.
        """
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the class on whose side of the hyperplane each row lies.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        side = (self.decision_function(X) > 0).astype(np.intp)
        return np.asarray(self.classes_[side])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def signs(svm: RobustSVM, y: Any) -> Floats:
    """Return labels as -1 and +1, in the order of a fitted machine's classes."""
    labels = np.asarray(y)
    if labels.ndim != 1 or not np.isin(labels, svm.classes_).all():
        raise InvalidInputError("y must hold the classes the machine was fitted on, one per row")
    return np.where(labels == svm.classes_[1], 1.0, -1.0)


def _check_targets(labels: Any) -> None:
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise InvalidInputError(str(error).splitlines()[0]) from None
