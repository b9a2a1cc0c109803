"""The regularisation lambda* as a fixed point (000 eq. 40-44) and the solutions that come with it.

With A = K + lambda I, the mean squared error of kernel ridge regression of the samples on themselves is
R(lambda) = lambda^2 ||A^-1 Y||_F^2 / (pN) (000 eq. 42 and 109), and lambda* = R(lambda*) + tau with
tau = 2 ||Y||_F^2 / (pN). Solving for A^-1 [T, 1], which the machine needs anyway, gives R for free:
no inverse is formed. R is increasing with slope below one, so secant steps inside [tau, 3/2 tau] are safe.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array
from onefold._base.lapack import cholesky, cholesky_solve
from onefold.models._hull import LARGEST_STACKED

__all__ = ["Ridge", "Target", "resolvable", "solve", "solve_cholesky", "solve_equidistant", "solve_spectral"]


MAXIMUM_STEPS = 60
# Relative accuracy of lambda*, and of the lambda the solution is computed with, by precision.
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
SOLUTION_TOLERANCE = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 3e-5}
# Steps shorter than this, relative to lambda, tell nothing about the slope.
SMALLEST_SECANT = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-3}
# Below this lambda a float32 Cholesky factor of K + lambda I is too rough: solve in float64 instead.
SMALLEST_SINGLE_LAMBDA = 0.02


@dataclass(frozen=True)
class Ridge:
    """Solutions for S machines: ``solution`` = A^-1 [T, 1] of shape (S, N, r + 1)."""

    regularisation: NDArray[np.float64]  # (S,) lambda*
    solved: NDArray[np.float64]  # (S,) the lambda of the solution: equal but for the tolerance
    effective: NDArray[np.float64]  # (S,) that lambda kept within what the arithmetic can resolve
    solution: Array
    slope: float = 0.0  # dR/dlambda at the solution, to start the next layer with


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


def solve(
    kernel: Array,
    target: Target,
    previous: Ridge | None = None,
    known: NDArray[np.float64] | None = None,
) -> Ridge:
    """Whichever way suits the size of the machines."""
    if kernel.shape[1] <= LARGEST_STACKED:
        return solve_spectral(kernel, target, known)
    if len(kernel) > 1:
        raise ValueError("machines of this size are solved one by one")
    return solve_cholesky(kernel, target, previous, known)


def solve_spectral(kernel: Array, target: Target, known: NDArray[np.float64] | None = None) -> Ridge:
    """All S machines at once through eigenvalues of K: for many small machines.

    ``known`` (S, 2) gives lambda* and the lambda of the solution when they are known, as for a loaded model.
    """
    n_samples = kernel.shape[1]
    values, vectors = np.linalg.eigh(kernel.astype(np.float64))
    values = np.maximum(values, 0.0)
    right = np.concatenate([target.points, np.ones_like(target.points[:, :, :1])], axis=2)
    rotated = vectors.transpose(0, 2, 1) @ right.astype(np.float64)
    # Squared length of each row of V^T Y, from its parts inside the hull and along the mean.
    energies = _row_norms(rotated[:, :, :-1], rotated[:, :, -1], target)
    lam = _spectral_fixed_point(values, energies, target) if known is None else known[:, 1]
    used = resolvable(lam, n_samples, np.dtype(np.float64))
    solution = vectors @ (rotated / (values + used[:, None])[:, :, None])
    return Ridge(lam if known is None else known[:, 0], lam, used, solution.astype(target.points.dtype))


def solve_equidistant(target: Target, known: NDArray[np.float64] | None = None) -> Ridge:
    """All S machines at once where encodings keep every direction of the hull: K is known without data.

    Whitening N centred samples in N - 1 dimensions puts them at the corners of a regular simplex, so every
    off-diagonal kernel value is 1/e (000 eq. 35 and 39 with n = N - 1). K then has two eigenvalues: one
    along the vector of ones and one on all of its complement, where the centred samples are.
    """
    n_machines, n_samples, rank = target.points.shape
    apart = math.exp(-1.0)
    values = np.broadcast_to([1.0 - apart, 1.0 - apart + n_samples * apart], (n_machines, 2))
    inside = np.einsum("snr,snr->s", target.points, target.points, dtype=np.float64)
    energies = np.stack([inside, n_samples * target.mean_norm2.astype(np.float64)], axis=1)
    lam = _spectral_fixed_point(values, energies, target) if known is None else known[:, 1]
    used = resolvable(lam, n_samples, np.dtype(np.float64))
    shrunk = 1.0 / (values + used[:, None])
    solution = np.empty((n_machines, n_samples, rank + 1), dtype=target.points.dtype)
    solution[:, :, :-1] = target.points * shrunk[:, :1, None]
    solution[:, :, -1] = shrunk[:, 1:]
    return Ridge(lam if known is None else known[:, 0], lam, used, solution)


def _spectral_fixed_point(values: Array, energies: Array, target: Target) -> NDArray[np.float64]:
    """Newton's method on R(lambda) + tau - lambda for all machines at once.

    ``energies`` are the squared lengths of the samples' parts along the eigenvectors of K.
    """
    n_samples = target.points.shape[1]
    weights = energies * (target.factor**2 / (target.n_features * n_samples))
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
    previous: Ridge | None = None,
    known: NDArray[np.float64] | None = None,
) -> Ridge:
    """One machine (S = 1) by secant steps on Cholesky factors: for N in the hundreds or thousands.

    The search starts from the layer before, whose lambda* is close, and runs in float32 as long as
    that is precise enough to tell the next step. ``known`` as above.
    """
    tau = 2.0 * float(target.mean_square[0])
    rough = tau >= SMALLEST_SINGLE_LAMBDA
    precise = np.dtype(np.float32 if rough and target.points.dtype == np.float32 else np.float64)
    if known is not None:
        solution, _, used = _System(kernel[0], target, precise).evaluate(float(known[0, 1]))
        return Ridge(known[:, 0], known[:, 1], np.array([used]), solution[None].astype(target.points.dtype))
    search = _Search(1.25 * tau, None, tau)
    if previous is not None:
        search = _Search(float(previous.regularisation[0]), previous.slope, tau)
    if rough and precise == np.float64:
        search.run(_System(kernel[0], target, np.dtype(np.float32)), solve=False)
    lam, solution, used = search.run(_System(kernel[0], target, precise))
    solution = solution[None].astype(target.points.dtype)
    return Ridge(np.array([search.lam]), np.array([lam]), np.array([used]), solution, search.slope or 0.0)


class _System:
    """K + lambda I with its right-hand side [T, 1], in one precision."""

    def __init__(self, kernel: Array, target: Target, dtype: np.dtype) -> None:
        self.target = target
        self.kernel = np.asarray(kernel, dtype=dtype, order="F")
        self.right = np.empty((len(kernel), target.points.shape[2] + 1), dtype=dtype, order="F")
        self.right[:, :-1] = target.points[0]
        self.right[:, -1] = 1.0

    def evaluate(self, lam: float) -> tuple[Array, float, float]:
        """Solution A^-1 [T, 1], the error R(lambda), and the lambda really used."""
        n_samples, dtype = len(self.kernel), self.kernel.dtype
        used = float(resolvable(np.array([lam]), n_samples, dtype)[0])
        while True:
            factor = self.kernel.copy(order="F")
            factor.flat[:: n_samples + 1] += dtype.type(used)
            if cholesky(factor):
                break
            used *= 16.0  # rounding made K slightly indefinite: the smallest shift that heals it
        solution = self.right.copy(order="F")
        cholesky_solve(factor, solution)
        norms = _row_norms(solution[None, :, :-1], solution[None, :, -1], self.target)
        with np.errstate(over="ignore"):
            error = np.square(np.float64(used) * self.target.factor) * norms.mean() / self.target.n_features
        # R is below the mean square of the data (000 eq. 22), which a huge scale could make overflow.
        return solution, min(float(error), float(self.target.mean_square[0])), used


class _Search:
    """Secant steps towards lambda = R(lambda) + tau, which can go on in a higher precision."""

    def __init__(self, lam: float, slope: float | None, tau: float) -> None:
        self.tau, self.slope = tau, slope
        self.lam = min(max(lam, tau), 1.5 * tau)  # R lies between 0 and half of tau

    def run(self, system: _System, solve: bool = True) -> tuple[float, Array, float]:
        """Step until ``lam``, the next value, is certain and, to ``solve``, close to that of the solution.

        Returns the lambda of the last solution, the solution, and the lambda really used in it.
        """
        dtype = system.kernel.dtype
        before: tuple[float, float] | None = None
        for _ in range(MAXIMUM_STEPS):
            lam = self.lam
            solution, error, used = system.evaluate(lam)
            doubt = 0.1  # how wrong the slope may be, as a part of it
            if self.slope is None:
                self.slope, doubt = _single_mode_slope(error, lam, self.tau), 1.0
            elif before is not None and abs(lam - before[0]) > SMALLEST_SECANT[dtype] * lam:
                self.slope = min(max((error - before[1]) / (lam - before[0]), 0.0), 0.99)
            step = (error + self.tau - lam) / (1.0 - self.slope)
            self.lam = min(max(lam + step, self.tau), 1.5 * self.tau)
            # What an error in the slope leaves of the step is the error of the next lambda.
            left = doubt * self.slope / (1.0 - self.slope) * abs(self.lam - lam)
            close = not solve or abs(self.lam - lam) <= SOLUTION_TOLERANCE[dtype] * lam
            if close and left <= TOLERANCE[dtype] * lam:
                break
            before = (lam, error)
        return lam, solution, used


def _row_norms(inside: Array, ones: Array, target: Target) -> NDArray[np.float64]:
    """Squared row lengths of M Y, given M T and M 1, where Y = T Q + 1 mean^T; (S, N)."""
    own = np.einsum("snr,snr->sn", inside, inside)
    cross = np.einsum("snr,sr->sn", inside, target.mean_points) * ones
    return np.asarray(own + 2.0 * cross + ones**2 * target.mean_norm2[:, None], dtype=np.float64)


def _single_mode_slope(error: float, lam: float, tau: float) -> float:
    """Slope of R if all of the data lay in one eigenvector of K: a first guess."""
    kept = (2.0 * error / tau) ** 0.5 if tau > 0.0 else 1.0
    return min(max(2.0 * error / lam * (1.0 - kept), 0.0), 0.9) if lam > 0.0 else 0.0
