r"""How likely a model fitted to released rows is near the one of the raw rows (document 002).

Noise :math:`n_i` with second moment :math:`V = E[n n^T]` is added to each of :math:`q` records, and a model
is fitted to the result. If its parameters move by at most :math:`c` times the noise, Markov's inequality
bounds the probability :math:`D` that they move by no more than a tolerance (002 eq. 7). The document shows
that such a :math:`c` exists for small tolerances and gives none; for the regression of its Sec. 3.2.3 it is
computed here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats
from onefold.bounds._arguments import FloatOrArray, count, non_negative, positive
from onefold.exceptions import InvalidInputError

__all__ = ["loss_utility_bound", "ridge_lipschitz_constant", "svm_utility_bound"]


def svm_utility_bound(
    n_records: ArrayLike, lipschitz: ArrayLike, tolerance: ArrayLike, noise_trace: ArrayLike
) -> FloatOrArray:
    r"""Bound the probability that a support vector machine of released rows is near that of the raw ones.

    Parameters
    ----------
    n_records : array-like of int
        Number q of records.
    lipschitz : array-like of float
        Constant c: weights, intercept and slacks together move by at most c times the Euclidean norm of the
        noise of all records, as long as that is small.
    tolerance : array-like of float
        Distance of the two solutions that is accepted, positive.
    noise_trace : array-like of float
        Trace of the second moment of the noise of a record.

    Returns
    -------
    float or ndarray
        Lower bound on the probability, zero where it says nothing.

    See Also
    --------
    loss_utility_bound : Any smooth loss.

    Notes
    -----
    Derivation: :math:`P(\sum_i \|n_i\|^2 > \varepsilon^2 / c^2) \le q c^2 \mathrm{Tr}(V) / \varepsilon^2`.

    *Holds*: for tolerances below one that depends on the rows, for which the document has no value, and with
    a constant c that holds there.

    References
    ----------
    Document 002, Proposition 2.3.

    Examples
    --------
    >>> from onefold.bounds import svm_utility_bound
    >>> float(svm_utility_bound(100, 2.0, 0.5, 1e-4))
    0.84
    """
    return _markov(count("n_records", n_records), lipschitz, tolerance, noise_trace)


def loss_utility_bound(
    n_records: ArrayLike, lipschitz: ArrayLike, tolerance: ArrayLike, noise_trace: ArrayLike
) -> FloatOrArray:
    r"""Bound the probability that a smooth loss has nearly the same minimiser on released rows.

    Parameters
    ----------
    n_records : array-like of int
        Number q of records.
    lipschitz : array-like of float
        Constant c: parameters move by at most c times the sum of the Euclidean norms of the records' noise,
        as long as that is small.
    tolerance : array-like of float
        Distance of the two minimisers that is accepted, positive.
    noise_trace : array-like of float
        Trace of the second moment of the noise of a record.

    Returns
    -------
    float or ndarray
        Lower bound on the probability, zero where it says nothing.

    See Also
    --------
    ridge_lipschitz_constant : The constant of linear regression.
    svm_utility_bound : The support vector machine.

    Notes
    -----
    Derivation: a sum of q norms is at most the root of q times that of the sum of their squares, which costs
    a second factor q in Markov's inequality.

    *Holds*: as :func:`svm_utility_bound`, for a loss with two continuous derivatives and an invertible second
    one.

    References
    ----------
    Document 002, Proposition 2.11.

    Examples
    --------
    >>> from onefold.bounds import loss_utility_bound
    >>> float(loss_utility_bound(100, 0.02, 0.5, 1e-2))
    0.84
    """
    return _markov(count("n_records", n_records) ** 2, lipschitz, tolerance, noise_trace)


def ridge_lipschitz_constant(X: ArrayLike, y: ArrayLike, penalty: float) -> float:
    r"""Compute how far linear regression can move per unit of noise on one record, to first order.

    The loss is :math:`\sigma \|\varphi\|^2 + \sum_i (y_i - \varphi^T x_i)^2 / q`.

    Parameters
    ----------
    X : array-like of shape (n_records, n_features)
        Raw records.
    y : array-like of shape (n_records,)
        Their targets.
    penalty : float
        The penalty sigma, positive.

    Returns
    -------
    float
        The constant c of :func:`loss_utility_bound`. It tells something of the raw records: it is for their
        owner, before a release.

    See Also
    --------
    loss_utility_bound : Takes this constant.

    Notes
    -----
    Derivation: the derivative of the minimiser by record j is :math:`-H^{-1} M_j` with
    :math:`H = \sigma I + X^T X / q` and :math:`M_j = ((\varphi^T x_j - y_j) I + x_j \varphi^T) / q`; c is the
    largest spectral norm.

    *Holds*: to first order, for noise that is small beside the records; for larger noise derivatives at the
    noisy records count, which may be larger.

    References
    ----------
    Document 002, Section 3.2.3 and Appendix G.

    Examples
    --------
    >>> from onefold.bounds import ridge_lipschitz_constant
    >>> round(ridge_lipschitz_constant([[1.0], [2.0]], [1.0, 2.0], 1e-9), 3)
    0.4
    """
    rows, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if rows.ndim != 2 or targets.shape != rows.shape[:1] or 0 in rows.shape:
        raise InvalidInputError("X must be a table (n, p) and y have one number for each of its rows")
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(targets))):
        raise InvalidInputError("X and y must be finite numbers")
    n_records, n_features = rows.shape
    sigma = float(positive("penalty", penalty))
    hessian = sigma * np.eye(n_features) + rows.T @ rows / n_records
    minimiser = np.linalg.solve(hessian, rows.T @ targets / n_records)
    residuals = rows @ minimiser - targets
    mixed = np.multiply.outer(rows, minimiser) + residuals[:, None, None] * np.eye(n_features)
    moved: Floats = np.linalg.solve(hessian, mixed / n_records)
    return float(np.linalg.norm(moved, ord=2, axis=(1, 2)).max())


def _markov(factor: Floats, lipschitz: ArrayLike, tolerance: ArrayLike, trace: ArrayLike) -> FloatOrArray:
    ratio = non_negative("lipschitz", lipschitz) / positive("tolerance", tolerance)
    found = np.asarray(1.0 - factor * ratio**2 * non_negative("noise_trace", trace))
    return np.maximum(found, 0.0)[()]
