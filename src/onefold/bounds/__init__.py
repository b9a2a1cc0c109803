r"""The documents' theorems as pure functions: one per statement, numbers in, a number out.

Here are the bounds on images and distances (document 000), the kernel and the solution that error bounds are
about (document 004), and bounds on how far a model moves with released noise (document 002).
:mod:`onefold.bounds.learning` holds the error bounds of the learning problem (document 004), with functions
that tell when a bound is informative, and the bound from rows held out that is informative at any size.
Some of the documents' statements need conditions they do not name: each docstring gives the condition in a
*Holds* line, and the tests show the failure without it.

Images and distances
--------------------
Derivation shared by all of them. An image is :math:`Y^T h / \sum_i h_i` with
:math:`h = (K + \lambda I)^{-1} g`, where :math:`g` holds the kernel values between query and samples. Hence
image norms and distances are at most a spectral norm times :math:`\|h\| / |\sum_i h_i|`, and everything rests
on bounding that ratio by the condition number of :math:`K + \lambda I` (000 eq. 155).

*Holds*: that step needs :math:`\sum_i h_i \ge \|g\|^2 / (\max_i g_i (\lambda + \mu_{\max}))` (000 eq. 147),
which the document derives from the product of two positive semi-definite matrices being positive
semi-definite. That is false: on data of small scale the sum passes through zero (against eq. 148), and
there the ratio is unbounded. The machines of this package ask for the inequality with N in the place of
:math:`\mu_{\max}`, and map a query that fails it onto a training sample, whose norm and distance obey every
bound. So for every query of a fitted machine the loose bounds hold, and the tight ones with
``largest_eigenvalue=N``; with the eigenvalue itself they hold wherever eq. 147 does.

A machine with ``scale=f`` works on ``f * X``: pass the norms of ``f * X``; ratios need no conversion. The
strict inequalities of the document become equalities for a single sample.

Kernel and solution
-------------------
A map :math:`\Phi` gives every row a number in [0, 1]. The functions here take these numbers, not rows:
``FoldingClassifier``, or any other rule, makes them. The solution estimates how probable the class is.

Released rows
-------------
Noise :math:`n_i` with second moment :math:`V = E[n n^T]` is added to each of :math:`q` records, and a model
is fitted to the result. If its parameters move by at most :math:`c` times the noise, Markov's inequality
bounds the probability :math:`D` that they move by no more than a tolerance (002 eq. 7). The document shows
that such a :math:`c` exists for small tolerances and gives none; for the regression of its Sec. 3.2.3 it is
computed here.
"""

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats
from onefold.bounds.learning import (
    FloatOrArray,
    count,
    direct_risk_bound,
    folding_posterior_error_bound,
    fraction,
    held_out_error_bound,
    hypothesis_posterior_error_bound,
    hypothesis_prediction_error_bound,
    is_informative,
    non_negative,
    positive,
    posterior_error_bound,
    prediction_error_bound,
    rademacher_bound,
    risk_bound,
    rkhs_risk_bound,
    smallest_informative_sample,
    squared_error,
)
from onefold.exceptions import InvalidInputError

__all__ = [
    "direct_risk_bound",
    "distance_ratio_bound",
    "feature_kernel",
    "folding_posterior_error_bound",
    "held_out_error_bound",
    "hypothesis_posterior_error_bound",
    "hypothesis_prediction_error_bound",
    "image_norm_bound",
    "is_informative",
    "learned_solution",
    "loose_distance_ratio_bound",
    "loose_image_norm_bound",
    "loss_utility_bound",
    "posterior_error_bound",
    "prediction_error_bound",
    "rademacher_bound",
    "ridge_lipschitz_constant",
    "risk_bound",
    "rkhs_risk_bound",
    "rkhs_solution",
    "smallest_informative_sample",
    "svm_utility_bound",
    "wide_distance_ratio_bound",
]

# --- images and distances (document 000) --------------------------------------------------------------------


def distance_ratio_bound(
    lambda_: ArrayLike, largest_eigenvalue: ArrayLike, smallest_eigenvalue: ArrayLike
) -> FloatOrArray:
    r"""Bound distance(x) / ||[x - y_1 ... x - y_N]||_2 by the spectrum of the kernel matrix.

    Parameters
    ----------
    lambda_ : array-like of float
        Regularisation of the fitted machine, positive.
    largest_eigenvalue : array-like of float
        Largest eigenvalue of its kernel matrix K.
    smallest_eigenvalue : array-like of float
        Smallest eigenvalue of K; pass 0 for one that rounding made slightly negative.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    loose_distance_ratio_bound : The same without the kernel matrix.

    Notes
    -----
    Derivation: the ratio is at most :math:`\|h\| / |\sum_i h_i|`, which is at most
    :math:`(\lambda + \mu_{\max}) / (\lambda + \mu_{\min})`, the condition number of :math:`K + \lambda I`.

    *Holds*: for every query with ``largest_eigenvalue=N``, else where 000 eq. 147 does (module's notes).

    References
    ----------
    Document 000, Theorem 3, eq. 49 (left).

    Examples
    --------
    Two samples with kernel value 1/2 between them: K has the eigenvalues 3/2 and 1/2, and with lambda = 1/2
    the bound is (1/2 + 3/2) / (1/2 + 1/2).

    >>> from onefold.bounds import distance_ratio_bound
    >>> float(distance_ratio_bound(0.5, largest_eigenvalue=1.5, smallest_eigenvalue=0.5))
    2.0
    """
    regularisation = positive("lambda_", lambda_)
    largest = positive("largest_eigenvalue", largest_eigenvalue)
    smallest = non_negative("smallest_eigenvalue", smallest_eigenvalue)
    if not np.all(smallest <= largest):
        raise InvalidInputError("smallest_eigenvalue must not exceed largest_eigenvalue")
    return (regularisation + largest) / (regularisation + smallest)


def loose_distance_ratio_bound(
    frobenius_norm: ArrayLike, n_samples: ArrayLike, n_features: ArrayLike
) -> FloatOrArray:
    r"""Bound distance(x) / ||[x - y_1 ... x - y_N]||_2 without the kernel matrix.

    Parameters
    ----------
    frobenius_norm : array-like of float
        Root of the sum of squares of all entries of the data matrix Y.
    n_samples : array-like of int
        Number of samples N.
    n_features : array-like of int
        Number of features p.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    distance_ratio_bound : A tighter bound by the spectrum of the kernel matrix.

    Notes
    -----
    Derivation: the trace of K is N, so :math:`\mu_{\max} \le N` and :math:`\mu_{\min} \ge 0`; and
    :math:`\lambda > 2 \|Y\|_F^2 / (pN)` (000 eq. 40). Together :math:`1 + N / \lambda < 1 + p N^2 / (2
    \|Y\|_F^2)`. A deep machine obeys it too: it keeps the nearest of its layers, and the first layer is a
    plain machine. The bound is about machines with ``regularisation="documented"``: a lambda that is a number
    need not exceed :math:`2 \|Y\|_F^2 / (pN)`, and then :func:`distance_ratio_bound` holds, with
    :math:`1 + N / \lambda` as its largest value.

    The bound grows with N and shrinks with the mean square of the data: for pixel-like data of mean square
    0.1 it is 1 + 5 N, so it proves finiteness and little else.

    References
    ----------
    Document 000, Theorem 3, eq. 49 (right), and Theorem 4; document 004, Theorem 9.

    Examples
    --------
    1000 samples with 10 features and mean square 0.1, that is a squared Frobenius norm of 1000:

    >>> from onefold.bounds import loose_distance_ratio_bound
    >>> round(float(loose_distance_ratio_bound(1000**0.5, n_samples=1000, n_features=10)))
    5001
    """
    norm = positive("frobenius_norm", frobenius_norm)
    n = count("n_samples", n_samples)
    p = count("n_features", n_features)
    return 1.0 + p * n**2 / (2.0 * norm**2)


def image_norm_bound(
    spectral_norm: ArrayLike,
    lambda_: ArrayLike,
    largest_eigenvalue: ArrayLike,
    smallest_eigenvalue: ArrayLike,
) -> FloatOrArray:
    r"""Bound the norm of every image by the spectrum of the kernel matrix.

    Parameters
    ----------
    spectral_norm : array-like of float
        Largest singular value of the data matrix Y.
    lambda_ : array-like of float
        Regularisation of the fitted machine, positive.
    largest_eigenvalue : array-like of float
        Largest eigenvalue of its kernel matrix K.
    smallest_eigenvalue : array-like of float
        Smallest eigenvalue of K; pass 0 for one that rounding made slightly negative.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    loose_image_norm_bound : The same without the kernel matrix.

    Notes
    -----
    Derivation: the image is :math:`Y^T h / \sum_i h_i`, so its norm is at most :math:`\|Y\|_2` times the
    ratio bounded in :func:`distance_ratio_bound`.

    *Holds*: for every query with ``largest_eigenvalue=N``, else where 000 eq. 147 does (module's notes).

    References
    ----------
    Document 000, Theorem 2, eq. 46 (left).

    Examples
    --------
    >>> from onefold.bounds import image_norm_bound
    >>> float(image_norm_bound(3.0, 0.5, largest_eigenvalue=1.5, smallest_eigenvalue=0.5))
    6.0
    """
    norm = positive("spectral_norm", spectral_norm)
    return norm * distance_ratio_bound(lambda_, largest_eigenvalue, smallest_eigenvalue)


def loose_image_norm_bound(
    spectral_norm: ArrayLike, frobenius_norm: ArrayLike, n_samples: ArrayLike, n_features: ArrayLike
) -> FloatOrArray:
    r"""Bound the norm of every image without the kernel matrix.

    Parameters
    ----------
    spectral_norm : array-like of float
        Largest singular value of the data matrix Y.
    frobenius_norm : array-like of float
        Root of the sum of squares of all entries of the data matrix Y.
    n_samples : array-like of int
        Number of samples N.
    n_features : array-like of int
        Number of features p.

    Returns
    -------
    float or ndarray
        The bound.

    See Also
    --------
    image_norm_bound : A tighter bound by the spectrum of the kernel matrix.

    Notes
    -----
    Derivation: :math:`\|Y\|_2` times :func:`loose_distance_ratio_bound`, and as that for machines with
    ``regularisation="documented"`` only.

    References
    ----------
    Document 000, Theorem 2, eq. 46 (right); document 004, Theorem 8.

    Examples
    --------
    Four samples in the plane, two on each axis at distance 1: both norms are known by hand
    (:math:`\|Y\|_2^2 = 2`, :math:`\|Y\|_F^2 = 4`), the bound is sqrt(2) (1 + 2 * 16 / 8) = 5 sqrt(2).

    >>> from onefold.bounds import loose_image_norm_bound
    >>> round(float(loose_image_norm_bound(2**0.5, 2.0, n_samples=4, n_features=2)), 6)
    7.071068
    """
    spectral = positive("spectral_norm", spectral_norm)
    frobenius = positive("frobenius_norm", frobenius_norm)
    # Equality for matrices of rank one; the margin lets rounded norms of such matrices pass.
    if not np.all(spectral <= frobenius * (1.0 + 1e-6)):
        raise InvalidInputError("spectral_norm must not exceed frobenius_norm")
    return spectral * loose_distance_ratio_bound(frobenius, n_samples, n_features)


def wide_distance_ratio_bound(
    branch_frobenius_norms: ArrayLike, branch_sizes: ArrayLike, n_features: int
) -> np.float64:
    r"""Bound distance(x) / ||[x - y_1 ... x - y_N]||_F of a wide machine.

    Parameters
    ----------
    branch_frobenius_norms : array-like of float
        Frobenius norm of the data matrix of each branch.
    branch_sizes : array-like of int
        Number of samples of each branch.
    n_features : int
        Number of features p.

    Returns
    -------
    float
        The bound.

    See Also
    --------
    loose_distance_ratio_bound : The bound of a single branch.

    Notes
    -----
    Derivation: the wide machine keeps its nearest branch, so its distance is at most every branch's
    :math:`c_s \|[x - y_{1,s} \dots]\|_F` with :math:`c_s = 1 + p N_s^2 / (2 \|Y_s\|_F^2)` (eq. 170). Each
    of those norms is at most the norm over **all** samples, which therefore multiplies the smallest
    :math:`c_s`: the minimum speaks of the best branch, the norm of the whole data set. Eq. 170 itself is
    sharper when the query's own norms are at hand. Like its parts it is about machines with
    ``regularisation="documented"``.

    References
    ----------
    Document 000, Theorem 5, eq. 61 and 170.

    Examples
    --------
    Branches of 10 and 20 samples with one feature and squared norms 5 and 10 give 1 + 10 and 1 + 20:

    >>> from onefold.bounds import wide_distance_ratio_bound
    >>> round(float(wide_distance_ratio_bound([5**0.5, 10**0.5], [10, 20], n_features=1)), 6)
    11.0
    """
    norms = np.atleast_1d(positive("branch_frobenius_norms", branch_frobenius_norms))
    sizes = np.atleast_1d(count("branch_sizes", branch_sizes))
    if norms.ndim != 1 or norms.shape != sizes.shape or norms.size == 0:
        raise InvalidInputError(
            "branch_frobenius_norms and branch_sizes must be lists of equal length, at least 1"
        )
    return np.float64(np.min(loose_distance_ratio_bound(norms, sizes, n_features)))


# --- kernel and solution (document 004) ---------------------------------------------------------------------


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


# --- released rows (document 002) ---------------------------------------------------------------------------


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
