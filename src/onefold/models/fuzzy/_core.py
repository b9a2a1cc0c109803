"""Deep Takagi-Sugeno fuzzy models on arrays (003 Alg. 1): fuzzy sets, layers, and how many of them; no
checks."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array
from onefold._base.lapack import product
from onefold.models._centroids import candidates, centroids, far_apart
from onefold.models.fuzzy._posterior import Posterior, squared

__all__ = ["Layer", "Sets", "fit_layers", "make_sets", "most_evident"]

ROUNDS = 20  # of k-means
# A layer is kept if it raises the precision by more than rounding can.
GROWTH = 1e-6
LARGEST_INPUT = 1e100  # in widths of the sets; farther points belong to the same set
# Widths of the sets to choose from, in ranges of the inputs; ties go to the wider ones.
WIDTHS = (2.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03)


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

    def scaled(self, width: float) -> "Sets":
        """The same centres, and sets so many times as wide."""
        return Sets(self.shift, width * self.widths, self.centres / width)

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
    n_outputs: int | None = None,
) -> list[Layer]:
    """003 Alg. 1, steps 5-17: layers are added while precision grows.

    ``targets`` (N, p) are deviations from their mean, to be seen ``factor`` times as large. ``inputs_of``
    makes inputs of a layer of the deviations that the one before it returned (2.118); without it there is one
    layer. There may be ``n_outputs``, more than targets: the others are zero.
    """
    layers: list[Layer] = []
    while len(layers) < n_layers:
        shares = sets.shares(x)
        posterior = Posterior.of(shares, targets, factor, n_outputs)
        beta = posterior.precision()
        # A layer that lowers the precision need not be computed, where that is certain.
        if layers and posterior.knows(beta) and not beta > layers[-1].precision:
            break
        consequents = posterior.consequents(beta)
        outputs = product(shares, consequents)
        left = targets - outputs
        # Once more with the error itself, which is exact where the fit is.
        precision = posterior.precision(squared(factor) * float(np.einsum("np,np->", left, left)))
        # The document prints the opposite condition; its text adds layers while precision grows.
        if layers and not precision > layers[-1].precision * (1.0 + GROWTH):
            break
        layers.append(Layer(consequents, precision, float(_lengths(outputs).max())))
        if inputs_of is None:
            break
        x = inputs_of(outputs)
    return layers


def most_evident(x: Array, targets: Array, at_most: int, factor: float) -> tuple[Sets, float]:
    """Sets of the width, among ``WIDTHS``, with the largest negative free energy; and that width."""
    widest = make_sets(x, at_most, 1.0)

    def evidence(width: float) -> float:
        posterior = Posterior.of(widest.scaled(width).shares(x), targets, factor)
        return posterior.free_energy(posterior.precision())

    width = max(WIDTHS, key=evidence)
    return widest.scaled(width), width


def _lengths(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("np,np->n", rows, rows)))
