"""Deep Takagi-Sugeno fuzzy models by variational Bayes (003 Alg. 1): numbers only, no checks.

In the eigenvectors of K'K the posterior of all outputs is diagonal (the precision Lambda is the same for all
of them), so every step for beta costs O(M), and one product gives the consequents in the end.

The prior mean of the consequents is the mean of the outputs, not zero: shares add up to one, so this is the
same as modelling deviations from that mean, and a constant is reproduced whatever its size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array
from onefold.models._centroids import candidates, centroids, far_apart

__all__ = ["Layer", "Sets", "fit_layers", "make_sets"]

# 003 Alg. 1, step 10: the Gamma prior of beta and the Gaussian prior of the consequents.
PRIOR_SHAPE = PRIOR_RATE = PRIOR_PRECISION = 1e-6
ROUNDS = 20  # of k-means
STEPS = 1000
CONVERGED = 1e-10
# Eigenvalues of K'K are known to about this part of the largest one: consequents must not rest on less.
RESOLVED = 1e-12
# A layer is kept if it raises the precision by more than rounding can.
GROWTH = 1e-6
LARGEST_INPUT = 1e100  # in widths of the sets; farther points belong to the same set
LARGEST_FACTOR = 1e100


@dataclass(frozen=True)
class Sets:
    """M fuzzy sets over n inputs, all of one width per input (003 eq. 2.104)."""

    shift: Array  # (n,) subtracted first, against cancellation
    widths: Array  # (n,) W is their inverse square; zero for an input that does not count
    centres: Array  # (M, n) shifted and in widths

    @property
    def inverse_widths(self) -> Array:
        """One over the widths, zero for an input that does not count, (n,)."""
        return np.divide(1.0, self.widths, out=np.zeros_like(self.widths), where=self.widths > 0.0)

    def shares(self, x: Array) -> Array:
        """Degrees of fulfilment of inputs (N, n), divided by their sum: (N, M) (003 eq. 2.110).

        |x|^2 cancels in the ratio, and the largest exponent is made zero: a far point belongs to the sets
        farthest in its direction, and nothing is 0 / 0.
        """
        rows = (x - self.shift) * self.inverse_widths
        np.clip(rows, -LARGEST_INPUT, LARGEST_INPUT, out=rows)
        exponents = rows @ self.centres.T
        exponents -= 0.5 * np.einsum("mk,mk->m", self.centres, self.centres)
        exponents -= exponents.max(axis=1, keepdims=True)
        np.exp(exponents, out=exponents)
        exponents /= exponents.sum(axis=1, keepdims=True)
        return np.asarray(exponents)


def make_sets(x: Array, at_most: int, width: float) -> Sets:
    """Centroids of inputs (N, n) and widths: ``width`` times their range (003 Alg. 1, steps 2 and 3).

    An input that does not vary does not count.
    """
    few = candidates(x)
    centres = centroids(few, few[far_apart(few, at_most)], ROUNDS)
    shift = x.mean(axis=0)
    ranges = np.ptp(x, axis=0)
    widths = width * ranges
    inverse = np.divide(1.0, widths, out=np.zeros_like(widths), where=widths > 0.0)
    return Sets(shift, widths, (centres - shift) * inverse)


@dataclass(frozen=True)
class Layer:
    """What one layer concludes from the shares of the sets (003 Def. 6)."""

    consequents: Array  # (M, p) as deviations from the mean of the outputs
    precision: float  # expected, of the outputs as they are seen
    radius: float  # no output for a sample is farther from the mean

    def outputs(self, shares: Array) -> Array:
        """Outputs for shares (N, M), as deviations from the mean, none longer than the radius.

        Consequents of wide sets are far larger than the outputs and cancel near the samples only. Without a
        limit the output for an unlike input may be anywhere, also where that input itself is.
        """
        found = shares.astype(self.consequents.dtype, copy=False) @ self.consequents
        lengths = _lengths(found)
        long = lengths > self.radius
        if long.any():
            found[long] *= (self.radius / lengths[long])[:, None].astype(found.dtype)
        return found


def fit_layers(
    sets: Sets,
    x: Array,
    targets: Array,
    inputs_of: Callable[[Array], Array] | None,
    n_layers: int,
    factor: float,
) -> list[Layer]:
    """003 Alg. 1, steps 5-17: layers are added while precision grows.

    ``targets`` (N, p) are deviations from their mean, to be seen ``factor`` times as large. ``inputs_of``
    makes inputs of a layer of the deviations that the one before it returned (2.118); without it there is one
    layer.
    """
    layers: list[Layer] = []
    while len(layers) < n_layers:
        shares = sets.shares(x)
        consequents, outputs, precision = fit_consequents(shares, targets, factor)
        # The document prints the opposite condition; its text adds layers while precision grows.
        if layers and not precision > layers[-1].precision * (1.0 + GROWTH):
            break
        layers.append(Layer(consequents, precision, float(_lengths(outputs).max())))
        if inputs_of is None:
            break
        x = inputs_of(outputs)
    return layers


def fit_consequents(shares: Array, targets: Array, factor: float) -> tuple[Array, Array, float]:
    """Posterior means of consequents (M, p), outputs (N, p) and mean precision (003 eq. 2.150-2.155)."""
    values, vectors = np.linalg.eigh(shares.T @ shares)
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ (shares.T @ targets)
    seen = min(max(factor, 1.0 / LARGEST_FACTOR), LARGEST_FACTOR) ** 2
    energies = seen * np.einsum("mp,mp->m", rotated, rotated)
    total = seen * float(np.einsum("np,np->", targets, targets))

    def error(inverse: Array) -> float:
        return max(total - float(energies @ (inverse * (2.0 - values * inverse))), 0.0)

    beta = _fixed_point(values, targets, error)
    inverse = _inverse(values, beta)
    consequents = vectors @ (rotated * inverse[:, None])
    outputs = shares @ consequents
    # Once more with the error itself: the difference above has lost digits where the fit is almost exact.
    left = targets - outputs
    exact = seen * float(np.einsum("np,np->", left, left))
    return consequents, outputs, _fixed_point(values, targets, lambda _: exact)


def _fixed_point(values: Array, targets: Array, error: Callable[[Array], float]) -> float:
    """Precision at which (2.150)-(2.154) agree; ``error`` is a function of the inverse eigenvalues."""
    beta = 1.0
    for _ in range(STEPS):
        following = _following(values, beta, targets, error(_inverse(values, beta)))
        done = abs(following - beta) <= CONVERGED * following
        beta = following
        if done:
            break
    return beta


def _following(values: Array, beta: float, targets: Array, error: float) -> float:
    n_samples, n_outputs = targets.shape
    uncertainty = n_outputs / beta * float(values @ _inverse(values, beta))
    shape = PRIOR_SHAPE + 0.5 * n_outputs * n_samples  # (2.152)
    return float(shape / (PRIOR_RATE + 0.5 * (error + uncertainty)))  # (2.153), (2.154)


def _inverse(values: Array, beta: float) -> Array:
    """Of the eigenvalues of Lambda / beta (2.150)."""
    return np.asarray(1.0 / (values + RESOLVED * values[-1] + PRIOR_PRECISION / beta))


def _lengths(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("np,np->n", rows, rows)))
