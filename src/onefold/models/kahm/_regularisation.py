"""The regularisation lambda* as a fixed point (000 eq. 40-44) and the solutions that come with it.

With A = K + lambda I, the mean squared error of kernel ridge regression of the samples on themselves is
R(lambda) = lambda^2 ||A^-1 Y||_F^2 / (pN) (000 eq. 42 and 109), and lambda* = R(lambda*) + tau with
tau = 2 ||Y||_F^2 / (pN). Solving for A^-1 [T, 1], which the machine needs anyway, gives R for free:
no inverse is formed. R is increasing with slope below one, so secant steps inside [tau, 3/2 tau] are safe.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from onefold._base.arrays import Array

__all__ = ["Ridge", "Target", "resolvable", "solve_cholesky", "solve_spectral"]


MAXIMUM_STEPS = 60
# Relative accuracy of lambda*, by the precision of the arithmetic.
TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
# Below this lambda a float32 Cholesky factor of K + lambda I is too rough: solve in float64 instead.
SMALLEST_SINGLE_LAMBDA = 0.02


@dataclass(frozen=True)
class Ridge:
    """Solutions for S machines: ``solution`` = A^-1 [T, 1] of shape (S, N, r + 1)."""

    regularisation: NDArray[np.float64]  # (S,) lambda*
    effective: NDArray[np.float64]  # (S,) lambda* kept within what the arithmetic can resolve
    solution: Array
    slope: float = 0.5  # dR/dlambda at the solution, to start the next layer with


@dataclass(frozen=True)
class Target:
    """What R depends on besides K: Y = T Q + 1 mean^T, with Q orthonormal and never needed."""

    points: Array  # (S, N, r) the coordinates T
    mean_points: Array  # (S, r) Q mean
    mean_norm2: Array  # (S,)
    mean_square: NDArray[np.float64]  # (S,) ||Y||_F^2 / (pN), already at the machine's scale
    n_features: int
    factor: float  # scale of the data as the machine sees it

    def select(self, index: int) -> "Target":
        """The target of one machine, still with a leading axis."""
        one = slice(index, index + 1)
        return Target(
            self.points[one],
            self.mean_points[one],
            self.mean_norm2[one],
            self.mean_square[one],
            self.n_features,
            self.factor,
        )


def resolvable(regularisation: NDArray[np.float64], n_samples: int, dtype: np.dtype) -> NDArray[np.float64]:
    """Lambda within what the arithmetic can tell apart: duplicates make K singular, huge data drown it."""
    eps = np.finfo(dtype).eps
    return np.clip(regularisation, 4.0 * n_samples * eps, n_samples / eps)


def solve_spectral(kernel: Array, target: Target, known: NDArray[np.float64] | None = None) -> Ridge:
    """All S machines at once through eigenvalues of K: for many small machines.

    ``known`` gives lambda* when it is known already, as for a loaded model.
    """
    n_samples = kernel.shape[1]
    values, vectors = np.linalg.eigh(kernel.astype(np.float64))
    values = np.maximum(values, 0.0)
    right = np.concatenate([target.points, np.ones_like(target.points[:, :, :1])], axis=2)
    rotated = vectors.transpose(0, 2, 1) @ right.astype(np.float64)
    lam = _spectral_fixed_point(values, rotated, target) if known is None else known
    used = resolvable(lam, n_samples, np.dtype(np.float64))
    solution = vectors @ (rotated / (values + used[:, None])[:, :, None])
    return Ridge(lam, used, solution.astype(target.points.dtype))


def _spectral_fixed_point(values: Array, rotated: Array, target: Target) -> NDArray[np.float64]:
    """Newton's method on R(lambda) + tau - lambda for all machines, O(N) a step."""
    n_samples = values.shape[1]
    # Squared length of each row of V^T Y, from its parts inside the hull and along the mean.
    weights = _row_norms(rotated[:, :, :-1], rotated[:, :, -1], target)
    weights *= target.factor**2 / (target.n_features * n_samples)
    tau = 2.0 * target.mean_square
    lam = 1.25 * tau
    for _ in range(MAXIMUM_STEPS):
        used = resolvable(lam, n_samples, np.dtype(np.float64))[:, None]
        shrunk = used / (values + used)
        error = (weights * shrunk**2).sum(axis=1)  # 000 eq. 42
        slope = (2.0 * weights * shrunk**2 * (1.0 - shrunk) / used).sum(axis=1)
        following = np.clip(lam + (error + tau - lam) / (1.0 - np.minimum(slope, 0.99)), tau, 1.5 * tau)
        settled = np.all(np.abs(following - lam) <= 1e-14 * lam)
        lam = following
        if settled:
            break
    return np.asarray(lam)


def solve_cholesky(
    kernel: Array,
    target: Target,
    start: float | None = None,
    slope: float = 0.5,
    known: NDArray[np.float64] | None = None,
) -> Ridge:
    """One machine (S = 1) by secant steps on Cholesky factors: for N in the hundreds or thousands.

    ``start`` and ``slope`` come from the previous layer, whose lambda* is close; ``known`` as above.
    """
    tau = 2.0 * float(target.mean_square[0])
    single = target.points.dtype == np.float32 and tau >= SMALLEST_SINGLE_LAMBDA
    dtype = np.dtype(np.float32 if single else np.float64)
    right = np.empty((kernel.shape[1], target.points.shape[2] + 1), dtype=dtype, order="F")
    right[:, :-1] = target.points[0]
    right[:, -1] = 1.0
    matrix = kernel[0].astype(dtype)
    lam = min(max(start, tau), 1.5 * tau) if start is not None else 1.25 * tau
    lam = float(known[0]) if known is not None else lam
    previous: tuple[float, float] | None = None
    for _ in range(MAXIMUM_STEPS):
        solution, error, used = _evaluate(matrix, right, target, lam)
        if known is not None:
            break
        if previous is not None and lam != previous[0]:
            slope = min(max((error - previous[1]) / (lam - previous[0]), 0.0), 0.99)
        elif start is None:
            slope = _single_mode_slope(error, lam, tau)
        following = min(max(lam + (error + tau - lam) / (1.0 - slope), tau), 1.5 * tau)
        if abs(following - lam) <= TOLERANCE[dtype] * lam:
            break
        previous, lam = (lam, error), following
    return Ridge(np.array([lam]), np.array([used]), solution[None].astype(target.points.dtype), slope)


def _evaluate(matrix: Array, right: Array, target: Target, lam: float) -> tuple[Array, float, float]:
    """Solution A^-1 [T, 1], the error R(lambda), and the lambda really used."""
    n_samples = len(matrix)
    used = float(resolvable(np.array([lam]), n_samples, matrix.dtype)[0])
    shifted = matrix.copy(order="F")
    shifted.flat[:: n_samples + 1] += matrix.dtype.type(used)
    potrf, potrs = get_lapack_funcs(("potrf", "potrs"), (matrix,))
    factor, failed = potrf(shifted, lower=1, overwrite_a=1, clean=0)
    if failed:  # rounding made K slightly indefinite: the smallest shift that heals it
        shifted = matrix.copy(order="F")
        used = max(used, 16.0 * n_samples * float(np.finfo(matrix.dtype).eps)) * 16.0
        shifted.flat[:: n_samples + 1] += matrix.dtype.type(used)
        factor, _ = potrf(shifted, lower=1, overwrite_a=1, clean=0)
    solution, _ = potrs(factor, right, lower=1)
    norms = _row_norms(solution[None, :, :-1], solution[None, :, -1], target)
    error = (used * target.factor) ** 2 * float(norms.sum()) / (target.n_features * n_samples)
    return solution, error, used


def _row_norms(inside: Array, ones: Array, target: Target) -> NDArray[np.float64]:
    """Squared row lengths of M Y, given M T and M 1, where Y = T Q + 1 mean^T; (S, N)."""
    own = np.einsum("snr,snr->sn", inside, inside)
    cross = np.einsum("snr,sr->sn", inside, target.mean_points) * ones
    return np.asarray(own + 2.0 * cross + ones**2 * target.mean_norm2[:, None], dtype=np.float64)


def _single_mode_slope(error: float, lam: float, tau: float) -> float:
    """Slope of R if all of the data lay in one eigenvector of K: a first guess."""
    kept = (2.0 * error / tau) ** 0.5 if tau > 0.0 else 1.0
    return min(max(2.0 * error / lam * (1.0 - kept), 0.0), 0.9) if lam > 0.0 else 0.0
