r"""Bounds on images and distances of kernel affine hull machines (document 000).

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
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onefold.bounds._arguments import FloatOrArray, count, non_negative, positive
from onefold.exceptions import InvalidInputError

__all__ = [
    "distance_ratio_bound",
    "image_norm_bound",
    "loose_distance_ratio_bound",
    "loose_image_norm_bound",
    "wide_distance_ratio_bound",
]


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
