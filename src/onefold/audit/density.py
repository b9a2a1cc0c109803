"""The difference of two densities, estimated directly by least squares (Sugiyama et al. 2013).

Estimating two densities and subtracting loses what is small in both; here one model is fitted to the
difference:

    g(x) = sum_l theta_l exp(-|x - c_l|^2 / (2 w^2)),      theta = (H + r I)^-1 h,

with H the integrals of products of two basis functions and h the difference of their two sample means.
Width w and regularisation r come from cross-validation of the criterion the fit minimises.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

from onefold._base.arrays import Floats, Index
from onefold._base.parallel import run_parallel
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.terms import number_array

__all__ = ["DensityDifference", "density_difference"]

# Relative to the median distance between centres, and to the diagonal of H: no unit of the data enters.
WIDTHS = 2.0 ** np.arange(-5, 1.5, 0.5)
REGULARISATIONS = 10.0 ** np.arange(-4, 3.5, 0.5)
BLOCK_ENTRIES = 60_000  # kernel values worked on at once: they stay in the processor's cache


@dataclass(frozen=True)
class DensityDifference:
    """The estimated difference of two densities; call it with samples to get its values.

    Made by :func:`density_difference`.

    Parameters
    ----------
    l2 : float
        Integral of the squared difference, ``2 h.theta - theta.H.theta``: the combination of the next two
        in which the shrinkage by the regularisation cancels to first order. Its unit is one over that of the
        samples, to the power of their dimension.
    l2_linear : float
        The plain estimate ``h.theta``.
    l2_quadratic : float
        The plain estimate ``theta.H.theta``; ``l2 >= l2_linear >= l2_quadratic >= 0``.
    width : float
        Kernel width chosen by cross-validation, in the unit of the samples.
    regularisation : float
        Regularisation chosen by cross-validation, relative to the diagonal of H.
    centres : ndarray of shape (n_centres, n_features)
        Centres of the basis functions.
    theta : ndarray of shape (n_centres,)
        Their weights.

    See Also
    --------
    density_difference : Estimate the difference from two samples.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = density_difference(rng.normal(size=200), rng.normal(3.0, size=200))
    >>> (found([0.0, 3.0]) > 0).tolist()
    [True, False]
    """

    l2: float
    l2_linear: float
    l2_quadratic: float
    width: float
    regularisation: float
    centres: Floats = field(repr=False)
    theta: Floats = field(repr=False)

    def __call__(self, x: ArrayLike) -> Floats:
        """Evaluate the density of ``a`` minus the density of ``b`` at each sample of ``x``, (n,)."""
        rows = sample_rows("x", x, at_least=0)
        if rows.shape[1] != self.centres.shape[1]:
            raise InvalidInputError(f"x has {rows.shape[1]} columns, the samples had {self.centres.shape[1]}")
        step = max(1, BLOCK_ENTRIES // len(self.centres))
        centres = self.centres / self.width  # before squaring: the unit may be large or small
        parts = [
            _kernel(rows[start : start + step] / self.width, centres, 1.0) @ self.theta
            for start in range(0, len(rows), step)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)


def density_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    widths: ArrayLike | None = None,
    regularisations: ArrayLike | None = None,
    n_folds: int = 5,
    max_centres: int = 300,
    random_state: int = 0,
) -> DensityDifference:
    """Estimate the difference between the densities two samples come from.

    Parameters
    ----------
    a : array-like of shape (n_samples,) or (n_samples, n_features)
        The first sample; at least ``n_folds`` values or rows.
    b : array-like of shape (n_samples,) or (n_samples, n_features)
        The second sample; at least ``n_folds`` values or rows.
    widths : array-like, default=None
        Candidate kernel widths in the unit of the samples; None tries widths half an octave apart, from 1/32
        of the median distance between centres to its double.
    regularisations : array-like, default=None
        Candidate regularisations relative to the diagonal of H; None tries 1e-4 to 1e3.
    n_folds : int, default=5
        Folds of the cross-validation.
    max_centres : int, default=300
        At most so many basis functions, half of them at samples of each side, spread evenly over the sorted
        samples. The paper puts one at every sample, as happens here below this number.
    random_state : int, default=0
        Seed of the assignment to folds, the only random thing here.

    Returns
    -------
    DensityDifference
        The estimate; its ``l2`` is the integral of the squared difference.

    See Also
    --------
    membership_inference_score : The same for distances of training and test rows.

    Notes
    -----
    The order of the samples does not matter, exchanging ``a`` and ``b`` changes the sign only, and the unit
    of the samples changes the result only as it changes a density. ``l2`` is never negative, so two small
    samples of one distribution come out above 0.

    Where many samples are exactly equal there is no density, and the value only says how narrow the narrowest
    candidate width is.

    References
    ----------
    M. Sugiyama et al., "Density-difference estimation", Neural Computation 25, 2013. Document 000, eq. 69,
    uses the integral.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=300), rng.normal(size=300)
    >>> density_difference(a, b + 2.0).l2 > 10 * density_difference(a, b).l2
    True
    """
    check_parameter("n_folds", n_folds, Whole(2))
    check_parameter("max_centres", max_centres, Whole(2))
    rows_a, rows_b = sample_rows("a", a, n_folds), sample_rows("b", b, n_folds)
    if rows_a.shape[1] != rows_b.shape[1]:
        raise InvalidInputError("a and b must have the same number of columns")
    sides = [rows[np.lexsort(rows.T[::-1])] for rows in (rows_a, rows_b)]
    centres = np.concatenate([_spread(rows, max_centres // 2) for rows in sides])
    origin, unit = np.median(centres, axis=0), _typical_distance(centres)
    scaled = [(rows - origin) / unit for rows in sides]
    candidates = WIDTHS if widths is None else _positive("widths", widths) / unit
    ridges = REGULARISATIONS if regularisations is None else _positive("regularisations", regularisations)
    # Folds of their own for each side: with common ones, equal ranks of the two sides would share a fold and
    # every held-out part would repeat the chance differences of the others. Which side is the first does not
    # depend on their names.
    root = np.random.SeedSequence(random_state)
    seeds = root.spawn(2)[:: -1 if _precedes(sides[1], sides[0]) else 1]
    folds = [
        np.random.default_rng(seed).permutation(len(rows)) % n_folds
        for rows, seed in zip(sides, seeds, strict=True)
    ]
    placed = (centres - origin) / unit
    order = np.sort(candidates)[::-1]
    sums = [_fold_sums(rows, fold, placed, order) for rows, fold in zip(scaled, folds, strict=True)]
    counts = [np.bincount(fold)[:, None] for fold in folds]

    def fit(k: int) -> tuple[float, DensityDifference]:
        return _cross_validate([side[k] for side in sums], counts, placed, order[k], ridges)

    criterion, best = min(run_parallel(fit, range(len(order))), key=itemgetter(0))
    volume = unit ** centres.shape[1]  # a density has the unit 1 / volume
    if not (np.isfinite(criterion) and 0 < volume < np.inf):
        raise InvalidInputError("too many columns for a density estimate in floating point")
    densities = {name: getattr(best, name) / volume for name in ("l2", "l2_linear", "l2_quadratic", "theta")}
    return replace(best, **densities, width=best.width * unit, centres=centres)


def _cross_validate(
    sums: list[Floats], counts: list[Index], centres: Floats, width: float, ridges: Floats
) -> tuple[float, DensityDifference]:
    """Find the regularisation of least held-out criterion at one width, and fit all samples with it.

    All is in units of the typical distance between centres.

    One eigendecomposition H = c U S U^T (c the diagonal of H) serves every regularisation and every fold:
    theta = U z / (c (s + r)) with z = U^T h.
    """
    c = (np.pi * width**2) ** (centres.shape[1] / 2)
    spectrum, U = np.linalg.eigh(_kernel(centres, centres, np.sqrt(2.0) * width))
    spectrum = np.maximum(spectrum, 0.0)  # rounding: H is positive semidefinite
    sums = [total @ U for total in sums]
    held = sums[0] / counts[0] - sums[1] / counts[1]
    totals, sizes = [total.sum(axis=0) for total in sums], [count.sum() for count in counts]
    others = [(totals[k] - sums[k]) / (sizes[k] - counts[k]) for k in (0, 1)]
    kept = others[0] - others[1]
    inverse = 1.0 / (spectrum + ridges[:, None])
    # Held-out theta.H.theta - 2 h.theta, summed over the folds, one value per regularisation.
    criteria = ((spectrum * inverse**2) @ (kept**2).sum(axis=0) - 2 * inverse @ (kept * held).sum(axis=0)) / c
    chosen = int(np.argmin(criteria))
    z = totals[0] / sizes[0] - totals[1] / sizes[1]
    weights = z * inverse[chosen]
    linear, quadratic = float(z @ weights / c), float(weights @ (spectrum * weights) / c)
    theta, parts = U @ weights / c, (2 * linear - quadratic, linear, quadratic)
    found = DensityDifference(*parts, float(width), float(ridges[chosen]), centres, theta)
    return float(criteria[chosen]) / len(held), found


def _kernel(rows: Floats, centres: Floats, width: float) -> Floats:
    squares: Floats = cdist(rows, centres, "sqeuclidean")
    squares *= -0.5 / width**2
    return np.exp(squares, out=squares)


def _fold_sums(rows: Floats, fold: Index, centres: Floats, widths: Floats) -> Floats:
    """Sum the basis functions over the samples of each fold, (n_widths, n_folds, n_centres)."""
    step = max(1, BLOCK_ENTRIES // len(centres))
    starts = range(0, len(rows), step)
    members = fold == np.arange(fold.max() + 1)[:, None]

    def block(start: int) -> Floats:
        part = slice(start, start + step)
        chosen = members[:, part].astype(np.float64)
        return np.stack([chosen @ values for values in _kernels(rows[part], centres, widths)])

    return np.asarray(np.sum(run_parallel(block, starts), axis=0))


def _kernels(rows: Floats, centres: Floats, widths: Floats) -> Iterator[Floats]:
    """Yield kernel values for widths in descending order.

    The square of a Gaussian is the Gaussian of half the squared width, and a product is far cheaper than an
    exponential: the default widths need one exponential for all.
    """
    values = _kernel(rows, centres, widths[0])
    yield values
    for wider, width in pairwise(widths):
        if abs(wider**2 - 2 * width**2) < 1e-14 * wider**2:
            np.multiply(values, values, out=values)
        else:
            values = _kernel(rows, centres, width)
        yield values


def _spread(rows: Floats, most: int) -> Floats:
    """Return at most so many of the sorted rows, evenly spaced, both ends among them."""
    if len(rows) <= most:
        return rows
    return rows[np.round(np.linspace(0, len(rows) - 1, most)).astype(np.intp)]


def _precedes(rows: Floats, others: Floats) -> bool:
    """Tell whether one sorted sample is shorter than another, or smaller where they first differ."""
    if len(rows) != len(others):
        return len(rows) < len(others)
    unequal = np.flatnonzero(rows.ravel() != others.ravel())
    return bool(unequal.size) and bool(rows.ravel()[unequal[0]] < others.ravel()[unequal[0]])


def _typical_distance(centres: Floats) -> float:
    """Return the median of the positive distances between centres; 1 when all are equal."""
    largest = float(np.abs(centres - centres[0]).max())
    if largest == 0:
        return 1.0
    distances = pdist(centres / largest)  # before squaring: the unit may be large or small
    return largest * float(np.median(distances[distances > 0]))


def _positive(name: str, values: ArrayLike) -> Floats:
    numbers = numbers_1d(name, values)
    if not (numbers > 0).all():
        raise InvalidInputError(f"{name} must be positive")
    return numbers


# --- checks of samples ------------------------------------------------------------------------------------


def sample_rows(name: str, values: ArrayLike, at_least: int = 1) -> Floats:
    """Return samples as rows, (n, d); a 1-D array holds n samples of one number each."""
    rows = number_array(values, f"{name} must be an array of finite numbers")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidInputError(f"{name} must be a 1-D or 2-D array of samples")
    if len(rows) < at_least:
        raise InvalidInputError(f"{name} must hold at least {at_least} samples")
    return rows


def numbers_1d(name: str, values: ArrayLike, at_least: int = 1) -> Floats:
    """Return a flat array of finite numbers."""
    rows = sample_rows(name, values, at_least)
    if rows.shape[1] != 1:
        raise InvalidInputError(f"{name} must be a 1-D array of numbers")
    return rows[:, 0]
