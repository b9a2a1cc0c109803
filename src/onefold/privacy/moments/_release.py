r"""One Gaussian release of the sums of a set of records, and why it is private.

A record is a pair (x, c): a vector of the unit ball and a class. Released are, per class, the number of its
records, the sum of their x, and the sum of their :math:`x x^T`; and, for centring, one sum over all records.
Each of these four blocks gets Gaussian noise of standard deviation :math:`s_k / (\mu \sqrt{w_k})`, where
:math:`s_k` bounds the Euclidean change of block k between neighbours and the shares :math:`w_k` add up to
one. A block is then :math:`\mu \sqrt{w_k}`-Gaussian private and all of them, also when later ones depend on
earlier ones, are :math:`\sqrt{\sum_k w_k \mu^2} = \mu`-Gaussian private.

**One record more or less** ("add-remove"). Only the blocks of the record's own class change, so classes cost
nothing extra, and the label is as protected as the vector. The count changes by 1, a sum by
:math:`\|x\| \le 1`, and :math:`x x^T` has Frobenius norm :math:`\|x\|^2 \le 1`: every :math:`s_k = 1`.

**One record replaced** by any other, label included ("replace"). With two classes involved, counts change by
:math:`\sqrt{1 + 1}`, sums by :math:`\sqrt{\|x\|^2 + \|x'\|^2} \le \sqrt 2`, matrices by
:math:`\sqrt{\|x\|^4 + \|x'\|^4} \le \sqrt 2`. Within one class, counts do not change, sums change by
:math:`\|x - x'\| \le 2`, and :math:`\|x x^T - x' x'^T\|_F^2 = \|x\|^4 + \|x'\|^4 - 2 (x^T x')^2 \le 2`.
So :math:`s = \sqrt 2, 2, \sqrt 2`, and 2 for the sum over all records. Each bound is attained.

A symmetric matrix is one vector: its diagonal, and :math:`\sqrt 2` times what is above it. The Euclidean norm
of that vector is the Frobenius norm. Noise :math:`\sigma` on the vector is :math:`\sigma` on the diagonal and
:math:`\sigma / \sqrt 2` on each pair of equal entries beside it.

**Finding the classes.** Classes that are not declared are found privately. Let a class have its only record
in one of two neighbouring datasets. Its count is 1, and it is kept only if 1 + noise exceeds the threshold,
with probability at most :math:`1 - e^{-\delta'}`. Otherwise the release is that of the same classes, so that
in both directions (epsilon, delta) grows by at most :math:`\delta'` in delta: up because of that event, down
because conditioning on its complement costs a factor :math:`e^{\delta'}`, and delta as a function of epsilon
has a slope of at most one.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from onefold._base.arrays import Floats, Index, Labels, Mask
from onefold._base.validation import Entry, Flag, Number, OneOf
from onefold.exceptions import InvalidInputError
from onefold.privacy.guarantee import DELTA, EPSILON, RELATIONS
from onefold.privacy.samplers import RandomState, byte_stream, generator, rounded_gaussian

__all__ = [
    "CLASSES_SHARE",
    "CONSTRAINTS",
    "SENSITIVITIES",
    "Blocks",
    "Noise",
    "candidates_of",
    "class_sums",
    "common_classes",
    "deviations",
    "divided",
]

# The parameters of a release that its file keeps. A radius must not lead out of the range of float64.
CONSTRAINTS: dict[str, Entry] = {
    "epsilon": (EPSILON, None),
    "delta": DELTA,
    "radius": Number(at_least=1e-150, at_most=1e150),
    "neighbours": OneOf(RELATIONS),
    "hardened": Flag(),
}
SMALLEST_SHARE = 1e-6
# Share of delta that pays for finding out privately which classes there are.
CLASSES_SHARE = 0.1


class Blocks(NamedTuple):
    """One number for each of the four blocks that are released."""

    centre: float
    number: float
    total: float
    second: float


SENSITIVITIES = {
    "add-remove": Blocks(1.0, 1.0, 1.0, 1.0),
    "replace": Blocks(2.0, math.sqrt(2.0), 2.0, math.sqrt(2.0)),
}


def divided(shares: Any, private_centre: bool) -> Blocks:
    """Scale shares of the budget to a sum of one; a centre that is not private gets none."""
    try:
        centre, *rest = (float(share) for share in shares)
    except (TypeError, ValueError):
        centre, rest = math.nan, []
    parts = (centre if private_centre else 0.0, *rest)
    if len(rest) != 3 or not all(0.0 < share < 1e100 for share in (centre, *rest)):
        raise InvalidInputError("shares must be four positive numbers: centre, counts, sums, second moments")
    total = math.fsum(parts)
    if min(rest) < SMALLEST_SHARE * total or (private_centre and centre < SMALLEST_SHARE * total):
        raise InvalidInputError("no share may be less than a millionth of all")
    return Blocks(*(share / total for share in parts))


def deviations(mu: float, shares: Blocks, neighbours: str) -> Blocks:
    """Compute the standard deviations of the noise; a block without a share is not released and gets none."""
    return Blocks(
        *(
            bound / (mu * math.sqrt(share)) if share > 0.0 else 0.0
            for bound, share in zip(SENSITIVITIES[neighbours], shares, strict=True)
        )
    )


def candidates_of(labels: Labels, classes: Any) -> tuple[Labels, Index]:
    """Return the possible labels in order, and the position of each row's label among them."""
    if classes is None:
        candidates, codes = np.unique(labels, return_inverse=True)
        return candidates, codes
    declared = np.asarray(list(classes) if isinstance(classes, (set, frozenset)) else classes)
    try:
        candidates = np.unique(declared)
        finite = candidates.dtype.kind not in "fc" or bool(np.isfinite(candidates).all())
    except TypeError:
        finite = False
    if declared.ndim != 1 or not declared.size or not finite:
        raise InvalidInputError("classes must be a list of labels, all numbers or all strings")
    if not np.isin(labels, candidates).all():
        raise InvalidInputError("y holds labels that are not among classes")
    return candidates, np.searchsorted(candidates, labels)


def common_classes(counts: Floats, sigma: float, delta: float, hardened: bool) -> Mask:
    """Select classes whose noisy count a single record would hardly reach, for the release's ``delta``."""
    quantile = -float(ndtri(-math.expm1(-CLASSES_SHARE * delta)))
    kept = counts > 1.0 + sigma * quantile + 0.5 * hardened  # hardened counts are rounded
    if not kept.any():
        raise InvalidInputError(
            "not one class has enough records for this epsilon: give classes, or more data"
        )
    return np.asarray(kept)


def class_sums(rows: Floats, codes: Index, n_classes: int) -> tuple[Floats, Floats]:
    """Add up the rows of each class, (C, p), and their outer products, (C, p, p)."""
    totals = np.zeros((n_classes, rows.shape[1]))
    seconds = np.zeros((n_classes, rows.shape[1], rows.shape[1]))
    for code in range(n_classes):
        own = rows[codes == code]
        totals[code] = own.sum(axis=0)
        seconds[code] = own.T @ own
    return totals, seconds


# Binary digits of an entry of a record in a hardened release.
DIGITS = 14


@dataclass(frozen=True)
class Noise:
    """The noise of a release, all of it from one source.

    Hardened, everything happens on dyadic grids: entries of a record are cut to 14 binary digits, which makes
    no record longer; sums of them and of their products are then exact in float64 (up to 2^25 records), and
    whole numbers of grid steps, the rounding of exact Gaussian variables, are added. Rounding the noise of a
    number that lies on the grid is rounding the noisy number: post-processing.
    """

    source: Any
    hardened: bool

    @classmethod
    def of(cls, random_state: RandomState, hardened: bool) -> "Noise":
        """Prepare noise from the operating system's entropy, or reproducible noise for tests."""
        return cls(byte_stream(random_state) if hardened else generator(random_state), hardened)

    def on_grid(self, rows: Floats) -> Floats:
        """Return the records as the release sees them."""
        return np.ldexp(np.trunc(np.ldexp(rows, DIGITS)), -DIGITS) if self.hardened else rows

    def to_counts(self, counts: Floats, sigma: float) -> Floats:
        """Add noise to numbers of records."""
        return counts + self._draw(counts.shape, sigma, 0)

    def to_sums(self, sums: Floats, sigma: float) -> Floats:
        """Add noise to sums of records."""
        return sums + self._draw(sums.shape, sigma, DIGITS)

    def to_matrices(self, matrices: Floats, sigma: float) -> Floats:
        """Add noise to symmetric matrices."""
        size = matrices.shape[-1]
        above = np.triu_indices(size, 1)
        diagonal = np.arange(size)
        noise = np.zeros(matrices.shape)
        noise[:, *above] = self._draw((len(matrices), len(above[0])), sigma / math.sqrt(2.0), 2 * DIGITS)
        noise += noise.transpose(0, 2, 1)
        noise[:, diagonal, diagonal] = self._draw((len(matrices), size), sigma, 2 * DIGITS)
        return matrices + noise

    def _draw(self, shape: tuple[int, ...], sigma: float, digits: int) -> Floats:
        if sigma == 0.0:
            return np.zeros(shape)
        if not self.hardened:
            return np.asarray(self.source.normal(0.0, sigma, shape))
        steps = rounded_gaussian(self.source, math.ldexp(sigma, digits), math.prod(shape))
        return np.ldexp(steps.astype(np.float64), -digits).reshape(shape)
