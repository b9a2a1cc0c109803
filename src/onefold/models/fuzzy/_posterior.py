"""The variational posterior of the consequents of one layer (003 Sec. 2.2.2), for all outputs at once.

In the eigenvectors of K'K it is diagonal, and the precision Lambda is the same for all outputs, so every step
for beta costs O(M). The prior mean of the consequents is the mean of the outputs, not zero: shares add up to
one, so this is the same as modelling deviations from that mean, and a constant is reproduced whatever its
size.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from onefold._base.arrays import Array
from onefold._base.lapack import eigenvectors, product, symmetric_product

__all__ = ["Posterior", "squared"]

# 003 Alg. 1, step 10: the Gamma prior of beta and the Gaussian prior of the consequents.
PRIOR_SHAPE = PRIOR_RATE = PRIOR_PRECISION = 1e-6
STEPS = 1000
CONVERGED = 1e-10
# Eigenvalues of K'K are known to about this part of the largest one: consequents must not rest on less.
RESOLVED = 1e-12
LARGEST_FACTOR = 1e100
# An error that is this part of the squared targets or more is known to ten digits as a difference.
LARGE_ERROR = 1e-4


@dataclass(frozen=True)
class Posterior:
    """Shares K (N, M) and targets (N, p) in the eigenvectors of K'K; targets as they are seen, factor
    included."""

    values: Array  # (M,) eigenvalues
    vectors: Array  # (M, M)
    rotated: Array  # (M, p) K'Y in the eigenvectors, as it is
    energies: Array  # (M,) its squared lengths, as seen
    total: float  # sum of the squared targets, as seen
    n_samples: int
    n_outputs: int  # p, and outputs that are always zero, of which there is nothing to store

    @classmethod
    def of(cls, shares: Array, targets: Array, factor: float, n_outputs: int | None = None) -> "Posterior":
        """The posterior given targets that are deviations from their mean, seen ``factor`` times as large.

        There may be more outputs than these targets, all zero.
        """
        n_outputs = targets.shape[1] if n_outputs is None else n_outputs
        vectors = symmetric_product(shares, transposed=True)
        values = eigenvectors(vectors)  # in place
        rotated = product(vectors.T, product(shares.T, targets))
        seen = squared(factor)
        energies = seen * np.einsum("mp,mp->m", rotated, rotated)
        total = seen * float(np.einsum("np,np->", targets, targets))
        return cls(np.maximum(values, 0.0), vectors, rotated, energies, total, len(targets), n_outputs)

    def consequents(self, beta: float) -> Array:
        """Posterior means (M, p) (2.151)."""
        return product(self.vectors, self.rotated * self._inverse(beta)[:, None])

    def precision(self, error: float | None = None) -> float:
        """Fixed point of (2.150)-(2.154); ``error`` is the sum of squared errors if it is known better."""
        beta = 1.0
        for _ in range(STEPS):
            left = self.error(beta) if error is None else error
            following = self._shape / (PRIOR_RATE + 0.5 * (left + self._uncertainty(beta)))
            done = abs(following - beta) <= CONVERGED * following
            beta = following
            if done:
                break
        return beta

    def error(self, beta: float) -> float:
        """Sum of squared errors of the outputs, as seen; a difference, which loses digits in exact fits."""
        inverse = self._inverse(beta)
        return max(self.total - float(self.energies @ (inverse * (2.0 - self.values * inverse))), 0.0)

    def knows(self, beta: float) -> bool:
        """Whether :meth:`error` has digits enough for a precision that can be compared with another."""
        return self.error(beta) >= LARGE_ERROR * self.total > 0.0

    def free_energy(self, beta: float) -> float:
        """Negative free energy (2.139): a lower bound on the logarithm of the evidence, at its maximum."""
        prior = PRIOR_PRECISION + beta * self._floor
        spectrum = prior + beta * self.values  # of Lambda (2.150)
        rate = self._shape / beta
        log_beta = float(digamma(self._shape)) - math.log(rate)
        fit = 0.5 * self.n_samples * self.n_outputs * (log_beta - math.log(2.0 * math.pi))
        fit -= 0.5 * beta * (self.error(beta) + self._uncertainty(beta))
        # Minus the divergence of the posterior of the consequents from their prior, and of that of beta.
        spread = float(np.sum(np.log(prior / spectrum) + 1.0 - prior / spectrum))
        fit += 0.5 * self.n_outputs * spread - 0.5 * prior * float(self.energies @ self._inverse(beta) ** 2)
        fit += _gamma(PRIOR_SHAPE, PRIOR_RATE, beta, log_beta) - _gamma(self._shape, rate, beta, log_beta)
        return float(fit)

    @property
    def _shape(self) -> float:
        return PRIOR_SHAPE + 0.5 * self.n_outputs * self.n_samples  # (2.152)

    @property
    def _floor(self) -> float:
        return RESOLVED * float(self.values[-1])

    def _inverse(self, beta: float) -> Array:
        """Of the eigenvalues of Lambda / beta (2.150)."""
        return np.asarray(1.0 / (self.values + self._floor + PRIOR_PRECISION / beta))

    def _uncertainty(self, beta: float) -> float:
        """The traces in (2.153)."""
        return self.n_outputs / beta * float(self.values @ self._inverse(beta))


def squared(factor: float) -> float:
    """Square of a factor, kept finite."""
    return min(max(factor, 1.0 / LARGEST_FACTOR), LARGEST_FACTOR) ** 2


def _gamma(shape: float, rate: float, mean: float, log_mean: float) -> float:
    """Expected logarithm of a Gamma density (2.125), given the expectations of beta and of its logarithm."""
    return float(shape * math.log(rate) - gammaln(shape) + (shape - 1.0) * log_mean - rate * mean)
