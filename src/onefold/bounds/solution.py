r"""Kernel and solution to which the error bounds of document 004 apply, for one class and a given map.

A map :math:`\Phi` gives every row a number in [0, 1]. The functions here take these numbers, not rows:
``FoldingClassifier``, or any other rule, makes them. The solution estimates how probable the class is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats
from onefold.bounds._arguments import fraction, squared_error
from onefold.exceptions import InvalidInputError

__all__ = ["feature_kernel", "learned_solution", "rkhs_solution"]


def feature_kernel(features: ArrayLike, others: ArrayLike) -> Floats:
    r"""Compute the kernel of a feature map: the product of the two rows' numbers.

    Parameters
    ----------
    features : array-like of shape (n,)
        Numbers :math:`\Phi(x)` in [0, 1], one for each row.
    others : array-like of shape (m,)
        The same for other rows.

    Returns
    -------
    ndarray of shape (n, m)
        :math:`K(x, x') = \Phi(x) \Phi(x')`.

    See Also
    --------
    learned_solution : What is learned with it.

    References
    ----------
    Document 004, equation 29.

    Examples
    --------
    >>> from onefold.bounds import feature_kernel
    >>> feature_kernel([0.5, 1.0], [0.2, 0.4, 0.0]).tolist()
    [[0.1, 0.2, 0.0], [0.2, 0.4, 0.0]]
    """
    return np.multiply.outer(_features("features", features), _features("others", others))


def rkhs_solution(features: ArrayLike, is_class: ArrayLike, queries: ArrayLike) -> Floats:
    r"""Compute the sample approximation inside the kernel's space.

    Parameters
    ----------
    features : array-like of shape (n_samples,)
        Numbers :math:`\Phi(x^i)` in [0, 1] of the training rows.
    is_class : array-like of shape (n_samples,)
        Whether each training row has the class: :math:`y^i`, 0 or 1.
    queries : array-like of shape (n_queries,)
        Numbers :math:`\Phi(x)` of the rows to predict.

    Returns
    -------
    ndarray of shape (n_queries,)
        :math:`\frac1N \sum_i y^i K(x^i, x)`.

    See Also
    --------
    rkhs_risk_bound : Its error, with high probability.
    learned_solution : The same, scaled to a probability.

    References
    ----------
    Document 004, equations 58 and 60.

    Examples
    --------
    >>> from onefold.bounds import rkhs_solution
    >>> rkhs_solution([1.0, 0.5, 0.5, 0.0], [1, 1, 0, 0], [1.0, 0.5]).tolist()
    [0.375, 0.1875]
    """
    numbers, found = _features("features", features), _features("queries", queries)
    labels = np.asarray(is_class)
    if labels.shape != numbers.shape or not np.all((labels == 0) | (labels == 1)):
        raise InvalidInputError("is_class must have 0 or 1 for each number of features")
    if not len(numbers):
        raise InvalidInputError("features must have at least one number")
    # The sum of eq. 58 factorises (eq. 83), so that no matrix of kernel values is needed.
    return np.asarray(found * float(numbers @ labels) / len(numbers))


def learned_solution(
    features: ArrayLike,
    is_class: ArrayLike,
    queries: ArrayLike,
    feature_norm_squared: float | None = None,
) -> Floats:
    r"""Compute the learned estimate of how probable a class is, in closed form.

    Parameters
    ----------
    features : array-like of shape (n_samples,)
        Numbers :math:`\Phi(x^i)` in [0, 1] of the training rows.
    is_class : array-like of shape (n_samples,)
        Whether each training row has the class: :math:`y^i`, 0 or 1.
    queries : array-like of shape (n_queries,)
        Numbers :math:`\Phi(x)` of the rows to predict.
    feature_norm_squared : float or None, default=None
        :math:`\|\Phi\|^2 = E[\Phi(x)^2]`, in (0, 1]. None: the share of training rows that have the class,
        as the document's hypothesis space asks for.

    Returns
    -------
    ndarray of shape (n_queries,)
        :math:`h(x) = \Phi(x) \sum_i y^i \Phi(x^i) / (N \|\Phi\|^2)`. In [0, 1] by default; with another norm
        it can exceed 1.

    See Also
    --------
    posterior_error_bound : Its error, with high probability.
    rkhs_solution : The same before it is scaled.

    Notes
    -----
    *Holds*: the bounds are about a map that was fixed before the training rows were seen.

    References
    ----------
    Document 004, equations 69, 81 to 83 and, with the default, 88.

    Examples
    --------
    >>> from onefold.bounds import learned_solution
    >>> learned_solution([1.0, 0.5, 0.5, 0.0], [1, 1, 0, 0], [1.0, 0.5]).tolist()
    [0.75, 0.375]
    >>> learned_solution([1.0, 0.5, 0.5, 0.0], [1, 1, 0, 0], [1.0, 0.5], feature_norm_squared=0.375).tolist()
    [1.0, 0.5]
    """
    inside = rkhs_solution(features, is_class, queries)
    if feature_norm_squared is None:
        norm = float(np.mean(np.asarray(is_class, dtype=np.float64)))
        if not norm > 0:
            raise InvalidInputError("no training row has the class: give feature_norm_squared")
    else:
        norm = float(fraction("feature_norm_squared", feature_norm_squared))
    return np.asarray(inside / norm)  # (J*)^-1, eq. 45


def _features(name: str, values: ArrayLike) -> Floats:
    numbers = squared_error(name, values)  # numbers of [0, 1], NaN refused
    if numbers.ndim != 1:
        raise InvalidInputError(f"{name} must be a list of numbers, one for each row")
    return numbers
