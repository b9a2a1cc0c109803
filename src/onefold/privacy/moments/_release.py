r"""One Gaussian release of the sums of a set of records, what to make of it, and its file.

A record is a pair (x, c): a vector of the unit ball and a class. Released are, per class, the number of its
records, the sum of their x, and the sum of their :math:`x x^T`; and before, for centring, one sum over all
records, and for whitening one sum of all :math:`x x^T`. Each of these five blocks gets Gaussian noise of
standard deviation :math:`s_k / (\mu \sqrt{w_k})`, where :math:`s_k` bounds the Euclidean change of block k
between neighbours and the shares :math:`w_k` add up to one. ``docs/proofs/private-moments.md`` proves that
this is private for records, for persons, and where the classes are found privately.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from onefold._base.arrays import Floats, Index, Integers, Labels, Mask
from onefold._base.fixed_point import DIGITS, exact_gram, unit_rows
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold._base.validation import Entry, Number, OneOf, Whole
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy.calibration import mu_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.samplers import SAMPLERS, ByteStream, RandomState, byte_stream, rounded_gaussian
from onefold.privacy.terms import DELTA, EPSILON, RELATIONS, Pair, number_array

# Parameters of a release. A radius must not lead out of the range of float64.
CONSTRAINTS: dict[str, Entry] = {
    "epsilon": (EPSILON, None),
    "delta": DELTA,
    "radius": Number(at_least=1e-150, at_most=1e150),
    "neighbours": OneOf(RELATIONS),
    "sampler": OneOf(SAMPLERS),
    "rows_per_person": (Whole(1), None),
}
SECONDS = ("class", "pooled", "auto")
NO_NOISE = "no noise was added: the moments are those of the records themselves"
SHARES = (0.05, 0.02, 0.28, 0.70)  # of centre, counts, sums and the second moments of each class
WHITENING_SHARE = 0.1  # of the whole budget, for the first of two releases, unless shares name it
SMALLEST_SHARE = 1e-6
# Share of delta that pays for finding out privately which classes there are.
CLASSES_SHARE = 0.1


class Blocks(NamedTuple):
    """One number for each of the five blocks that are released."""

    centre: float
    number: float
    total: float
    second: float
    whitening: float = 0.0


SENSITIVITIES = {
    "add-remove": Blocks(1.0, 1.0, 1.0, 1.0, 1.0),
    "replace": Blocks(2.0, math.sqrt(2.0), 2.0, math.sqrt(2.0), math.sqrt(2.0)),
}


def divided(shares: Any, private_centre: bool, private_whitening: bool = False) -> Blocks:
    """Scale shares of the budget to a sum of one; a centre or whitening that is not private gets none."""
    try:
        given = [float(share) for share in shares]
    except (TypeError, ValueError):
        given = []
    if len(given) not in (4, 5) or not all(0.0 < share < 1e100 for share in given):
        raise InvalidInputError(
            "shares must be four positive numbers: centre, counts, sums, second moments; or five: whitening"
        )
    centre, *rest = given[:4]
    parts = [centre if private_centre else 0.0, *rest]
    if private_whitening:
        of_the_rest = WHITENING_SHARE / (1.0 - WHITENING_SHARE)
        parts.append(given[4] if len(given) == 5 else of_the_rest * math.fsum(parts))
    total = math.fsum(parts)
    if min(part for part in parts if part > 0.0) < SMALLEST_SHARE * total:
        raise InvalidInputError("no share may be less than a millionth of all")
    return Blocks(*(share / total for share in parts))


def divided_anew(shares: Blocks, second: float) -> Blocks:
    """Give the part ``second`` of what sums and second moments have together to the second moments."""
    rest = shares.total + shares.second
    return shares._replace(total=rest * (1.0 - second), second=rest * second)


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


def common_classes(counts: Floats, sigma: float, delta: float, most: int) -> Mask:
    """Select classes whose noisy count one record, or person of ``most`` classes, would hardly reach."""
    quantile = -float(ndtri(-math.expm1(-CLASSES_SHARE * delta / most)))
    kept = counts > 1.0 + sigma * quantile + 0.5  # hardened counts are rounded
    if not kept.any():
        raise InvalidInputError(
            "not one class has enough records for this epsilon: give classes, or more data"
        )
    return np.asarray(kept)


def class_sums(
    rows: Floats, roots: Floats, codes: Index, n_classes: int, pooled: bool = False
) -> tuple[Floats, Floats]:
    """Add up the rows of each class, (C, p), and the outer products of ``roots``, (C, p, p).

    If ``pooled``, the outer products of all classes together, (1, p, p).
    """
    width = rows.shape[1]
    totals = np.zeros((n_classes, width))
    seconds = np.zeros((1 if pooled else n_classes, width, width))
    for code in range(n_classes):
        mine = np.flatnonzero(codes == code)
        totals[code] = rows[mine].sum(axis=0)
        if not pooled:
            seconds[code] = exact_gram(roots[mine])
    if pooled:
        seconds[0] = exact_gram(roots[codes >= 0])
    return totals, seconds


def found_labels(labels: Labels) -> Labels:
    """Return labels in a type that follows from them alone, not from others that were left out."""
    if labels.dtype.kind in "iuf" and bool(np.all(labels == np.trunc(labels))):
        return np.array([int(label) for label in labels])
    return np.array(labels.tolist())


def person_weights(codes: Index) -> Floats:
    """Weigh the records of each person so that a person counts once; a little less, for the rounding."""
    return np.asarray((1.0 - 2.0**-40) / np.bincount(codes)[codes])


@dataclass(frozen=True)
class Noise:
    """The noise of a release, all of it from one source, and the records as it sees them.

    Hardened, everything happens on dyadic grids: entries of a record are cut to 14 binary digits, which makes
    no record longer; sums of them and of their products are then exact in float64 (up to 2^25 records), and
    whole numbers of grid steps, the rounding of exact Gaussian variables, are added. Rounding the noise of a
    number that lies on the grid is rounding the noisy number: post-processing. Weights, and records
    multiplied by them, keep 28 digits.
    """

    stream: ByteStream
    hardened: bool
    silent: bool = False  # no noise: entries are rounded to the nearest step instead of cut
    weights: Floats | None = None  # of records that belong to persons

    @classmethod
    def of(
        cls, random_state: RandomState, sampler: str, person: Index | None = None, silent: bool = False
    ) -> "Noise":
        """Prepare noise from the operating system's entropy, or reproducible noise for tests."""
        weights = None if person is None else person_weights(person)
        return cls(byte_stream(random_state), sampler == "hardened", silent, weights)

    @property
    def _digits(self) -> int:
        """Binary digits of what sums add up."""
        return DIGITS if self.weights is None else 2 * DIGITS

    def _cut(self, values: Floats, digits: int) -> Floats:
        if not self.hardened:
            return values
        steps = np.ldexp(values, digits)
        return np.ldexp(np.rint(steps) if self.silent else np.trunc(steps), -digits)

    def sizes(self, codes: Index, n_classes: int) -> Floats:
        """Count the records of each class, or the persons."""
        weights = None if self.weights is None else self._cut(self.weights, self._digits)
        return np.bincount(codes, weights, minlength=n_classes).astype(np.float64)

    def firsts(self, rows: Floats) -> Floats:
        """Return the records as sums see them."""
        cut = self._cut(rows, DIGITS)
        return cut if self.weights is None else self._cut(self.weights[:, None] * cut, self._digits)

    def roots(self, rows: Floats) -> Floats:
        """Return the records as second moments see them."""
        cut = self._cut(rows, DIGITS)
        return cut if self.weights is None else self._cut(np.sqrt(self.weights)[:, None] * cut, DIGITS)

    def to_counts(self, counts: Floats, sigma: float) -> Floats:
        """Add noise to numbers of records."""
        return counts + self._draw(counts.shape, sigma, 0 if self.weights is None else self._digits)

    def to_sums(self, sums: Floats, sigma: float) -> Floats:
        """Add noise to sums of records."""
        return sums + self._draw(sums.shape, sigma, self._digits)

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
            return sigma * self.stream.normal(math.prod(shape)).reshape(shape)
        steps = rounded_gaussian(self.stream, math.ldexp(sigma, digits), math.prod(shape))
        return np.ldexp(steps.astype(np.float64), -digits).reshape(shape)


# --- whitening: rows are turned and stretched by a matrix that a first, small release found ---------------
#
# Where a few directions hold most of the variance of records, noise of the same size in all directions
# hides what the others say. A first release of one second moment A = sum(u u^T) + W for a share of the
# budget shows these directions. Records of the second release are B u, scaled to norm one again, with
# B = sqrt(f) max(A, f)^(-1/2), the eigenvalues of A below f raised to f. What the noise W hides is not
# stretched: f is half the radius sigma sqrt(2p) of its eigenvalues.
#
# B keeps so few binary digits that its product with a record on the grid is exact in float64: what becomes
# of a record depends neither on the records beside it nor on the processor.

# Share of the radius of the noise to which eigenvalues are raised: chosen on training rows of Fashion-MNIST.
FLOOR = 0.5
# The same without noise, as a share of the mean eigenvalue.
LEAST = 1e-4
# The product of a record of 14 digits and a column shorter than two has 51 digits; float64 has 53.
MATRIX_DIGITS = 36
# Matrices whose longest column is shorter than 2^1 and no shorter than 2^-8 are taken as they are.
EXPONENTS = range(-7, 2)


@one_blas_thread()  # a release has the same bits whatever the number of threads
def whitening_of(second: Floats, sigma: float) -> Floats:
    """Return the whitening matrix B of a second moment with noise of deviation ``sigma``."""
    values, vectors = np.linalg.eigh(second)
    size = len(values)
    least = LEAST * max(float(values.sum()), 0.0) / size
    floor = max(FLOOR * sigma * math.sqrt(2.0 * size), least) or 1.0
    return given_whitening((vectors * np.sqrt(floor / np.maximum(values, floor))) @ vectors.T, size)


def given_whitening(matrix: Any, n_features: int) -> Floats:
    """Return a whitening matrix with as many digits as fit; its scale does not matter.

    One that was returned before is returned as it is.
    """
    refusal = f"whitening must be 'private', None or {n_features} x {n_features} finite numbers"
    found = number_array(matrix, refusal)
    if found.shape != (n_features, n_features):
        raise InvalidInputError(refusal)
    largest = float(np.abs(found).max())
    if not largest > 0.0:
        raise InvalidInputError("whitening must not be a matrix of zeros")
    exponent = math.frexp(largest)[1]
    exponent += math.frexp(float(np.linalg.norm(np.ldexp(found, -exponent), axis=0).max()))[1]
    if exponent not in EXPONENTS:
        found = np.ldexp(found, -exponent)
    return np.asarray(np.ldexp(np.rint(np.ldexp(found, MATRIX_DIGITS)), -MATRIX_DIGITS))


def whitened(rows: Floats, matrix: Floats) -> Floats:
    """Return embedded rows times the matrix, each by itself, scaled to norm one; rows of zeros stay."""
    steps = np.ldexp(np.rint(np.ldexp(rows, DIGITS)), -DIGITS)
    return unit_rows(steps @ matrix)


# --- means and covariances from noisy moments: post-processing by public numbers only ---------------------
#
# The noise on a second-moment matrix of size d is sigma times a symmetric matrix with variance 1 on
# the diagonal and 1/2 beside it. Its squared Frobenius norm is sigma^2 d (d + 1) / 2 on average, and
# its eigenvalues fill the interval +- sigma sqrt(2 d) (Wigner's semicircle). Both numbers are
# public.


def means(counts: Floats, totals: Floats) -> Floats:
    """Estimate the mean of each class, in the unit ball; a class has at least one record."""
    found = totals / np.maximum(counts, 1.0)[:, None]
    return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0))


def raw_covariances(counts: Floats, totals: Floats, seconds: Floats, total_noise: Floats) -> Floats:
    """Estimate second moments about the class means; symmetric, not yet positive definite.

    Of one pooled moment one pooled covariance, (1, p, p).
    """
    safe = np.maximum(counts, 1.0)
    centres = means(counts, totals)
    if len(seconds) < len(counts):
        shares = safe / safe.sum()
        between = (centres * shares[:, None]).T @ centres
        noise = float(np.sum(shares * (total_noise / safe) ** 2))
        return np.asarray((seconds[0] / safe.sum() - between + noise * np.eye(totals.shape[1]))[None])
    # The noise of a mean adds its variance to the outer product of the mean with itself: taken back.
    excess = (total_noise / safe) ** 2
    covariance = seconds / safe[:, None, None] - centres[:, :, None] * centres[:, None, :]
    return np.asarray(covariance + excess[:, None, None] * np.eye(totals.shape[1]))


def pooled(covariance: Floats, counts: Floats) -> Floats:
    """Average the covariances of the classes, weighted by their sizes."""
    weights = np.maximum(counts, 1.0)
    return np.asarray(np.tensordot(weights / weights.sum(), covariance, axes=1))


@one_blas_thread()  # a loaded release has the bits of the saved one, whatever the number of threads
def covariances(
    raw: Floats, counts: Floats, second_noise: Floats, shrinkage: float | None, floor: float, least: float
) -> Floats:
    """Shrink each class towards the pooled covariance, and raise its eigenvalues to ``floor`` noise levels.

    Eigenvalues are also raised to the share ``least`` of the mean pooled one: smaller variances are not
    credible. ``shrinkage=None`` takes what :func:`noise_shares` finds.
    """
    safe, size = np.maximum(counts, 1.0), raw.shape[1]
    centre = pooled(raw, counts)
    levels = second_noise / safe  # of the noise on each class's covariance
    weights = safe / safe.sum()
    repaired = np.empty_like(raw)
    smallest = max(least * float(np.trace(centre)) / size, np.finfo(float).tiny ** 0.5)
    shares = noise_shares(raw, counts, levels) if shrinkage is None else np.full(len(raw), shrinkage)

    def repair(code: int) -> None:
        share = shares[code]
        mixture = share * weights
        mixture[code] += 1.0 - share  # how much of each class's covariance goes into this one
        level = float(np.sqrt(np.sum((mixture * levels) ** 2)))
        matrix = (1.0 - share) * raw[code] + share * centre
        repaired[code] = _raised(matrix, max(floor * level * np.sqrt(2.0 * size), smallest))

    run_parallel(repair, range(len(raw)))
    return repaired


def noise_shares(raw: Floats, counts: Floats, levels: Floats) -> Floats:
    r"""Compute how far the covariance of each class is shrunk towards the pooled one, from the noise levels.

    Expected squared distances are compared: :math:`e_c`, what the noise of the release and the finite number
    of records would make of equal covariances, and what is found. Their difference, averaged over the
    classes, estimates how different classes really are, :math:`t`. One estimate serves all, since classes
    that are shrunk differently keep different amounts of noise, and log-determinants and inverses turn that
    into a preference for some of them. James and Stein's share :math:`s = e_c / (e_c + t)` is best for the
    covariance itself. Its inverse, which classifies, suffers more from noise than from pooling where the two
    are of a size: :math:`s + s^2 (1 - s)` is taken.
    """
    safe, size = np.maximum(counts, 1.0), raw.shape[1]
    weights, centre = safe / safe.sum(), pooled(raw, counts)
    # Of an average over classes each has its own part: (1 - w_c)^2 of its own variance, w^2 of the others'.
    variances = levels**2 * size * (size + 1) / 2.0 + max(float(np.trace(centre)), 0.0) ** 2 / safe
    explained = (1.0 - 2.0 * weights) * variances + np.sum(weights**2 * variances)
    found = np.sum((raw - centre) ** 2, axis=(1, 2))
    real = max(0.0, float(np.sum(weights * (found - explained))))
    if real == 0.0:
        return np.ones(len(raw))
    share = np.maximum(explained, 0.0) / (np.maximum(explained, 0.0) + real)
    return np.asarray(share + share**2 * (1.0 - share))


def _raised(matrix: Floats, smallest: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    raised = (vectors * np.maximum(values, smallest)) @ vectors.T
    return np.asarray((raised + raised.T) / 2.0)


# --- a release as a file; what is read is checked -----------------------------------------------------------

STEP_DIGITS = 2 * DIGITS  # of the whole numbers that are added up


def to_vector(counts: Floats, sums: Floats, seconds: Floats) -> Integers:
    """Return all numbers of a release in steps of 2**-28, matrices as their upper triangles."""
    above = np.triu_indices(sums.shape[1])
    parts = (counts, sums.ravel(), seconds[:, *above].ravel())
    return np.concatenate([np.rint(np.ldexp(part, STEP_DIGITS)).astype(np.int64) for part in parts])


def from_vector(vector: Any, n_classes: int, size: int, n_seconds: int) -> tuple[Floats, Floats, Floats]:
    """Return counts, sums and second moments of what :func:`to_vector` returned, or of a sum of such."""
    above = np.triu_indices(size)
    lengths = (n_classes, n_classes * size, n_seconds * len(above[0]))
    given = np.asarray(vector)
    if given.shape != (sum(lengths),) or given.dtype != np.int64:
        raise InvalidInputError(f"expected {sum(lengths)} whole numbers of int64")
    counts, sums, triangles = np.split(
        np.ldexp(given.astype(np.float64), -STEP_DIGITS), np.cumsum(lengths[:2])
    )
    return counts, sums.reshape(n_classes, size), symmetric(triangles.reshape(n_seconds, -1), size)


def symmetric(triangles: Floats, size: int) -> Floats:
    """Return symmetric matrices (k, p, p) from their upper triangles, row by row (k, p (p + 1) / 2)."""
    above = np.triu_indices(size)
    found = np.zeros((len(triangles), size, size))
    found[:, *above] = triangles
    found[:, above[1], above[0]] = triangles
    return found


MOST_FIELDS, LONGEST_NAME = 100_000, 200  # of a schema, as sites tell each other


def plain_labels(classes: Labels) -> Labels:
    """Return labels as numbers or as strings; those of pandas arrive as objects."""
    if classes.dtype.kind in "biufU":
        return classes
    if not all(isinstance(label, str) for label in classes):
        raise InvalidInputError("class labels must be all strings or all numbers")
    return classes.astype(np.str_)


def check_release(moments: Any) -> None:
    """Refuse attributes of a file that do not fit each other, or promise more than the stated noise."""
    _check_names(moments.schema_fields_)
    if not moments.classes_.size or not np.array_equal(np.unique(moments.classes_), moments.classes_):
        raise FileFormatError("the classes are not what they should be")
    matrix, size, each = moments.whitening_, moments.centre_.size, moments.classes_.shape
    of_seconds = (1,) if moments.second_moments == "pooled" else each
    shapes = {"counts_": each, "sums_": (*each, size), "count_noise_": each, "sum_noise_": each}
    shapes |= {"second_moments_": (*of_seconds, size * (size + 1) // 2), "second_noise_": of_seconds}
    for name, shape in (shapes | {"centre_": (size,)}).items():
        array = getattr(moments, name)
        if not size or array.shape != shape or array.dtype != np.float64:
            raise FileFormatError(f"the array {name} is not what it should be")
    if matrix is not None and not np.array_equal(matrix, given_whitening(matrix, size)):
        raise FileFormatError("the array whitening_ is not what it should be")
    levels = moments.count_noise_, moments.sum_noise_, moments.second_noise_
    _check_claim(np.array(np.broadcast_arrays(*levels)), moments.guarantee_, size)


def _check_names(fields: tuple[tuple[str, str], ...]) -> None:
    names = [text for pair in fields for text in pair]
    long = len(names) > 2 * MOST_FIELDS or max(map(len, names), default=0) > LONGEST_NAME
    if long or not "".join(names).isprintable():
        raise FileFormatError("the fields of the schema are not what they should be")


def stated(guarantee: Guarantee) -> Pair:
    """Return (epsilon, delta) of a release: of persons where they are covered, else of records."""
    return guarantee.record if guarantee.person is None else guarantee.person


def _check_claim(levels: Floats, guarantee: Guarantee, n_features: int) -> None:
    """Refuse stated noise that is too small for the guarantee; whether it was added, no file can show."""
    of_persons = guarantee.person is not None
    if (
        not (levels >= 0.0).all()
        or guarantee.unit != ("person" if of_persons else "record")
        or not guarantee.labels_in_record
        or guarantee.n_features != n_features
    ):
        raise FileFormatError("the guarantee is not one of moments")
    pair, replaced = stated(guarantee), (guarantee.replaced, guarantee.entry, guarantee.labels)
    if not math.isfinite(pair[0]):
        promised = [found for found in (guarantee.record, *replaced) if found is not None]
        if guarantee.mu is not None or any(math.isfinite(epsilon) for epsilon, _ in promised):
            raise FileFormatError("the guarantee does not fit the parameters")
        return
    claims = [(guarantee.neighbours, pair), *(("replace", found) for found in replaced)]
    if of_persons:  # one record of a person makes another person of it
        claims.append(("replace", guarantee.record))
    enough = all(pair is None or _spent(levels, relation) <= _allowed(*pair) for relation, pair in claims)
    mu = math.inf if guarantee.mu is None else guarantee.mu * (1.0 + 1e-9)
    if not enough or mu < _spent(levels, guarantee.neighbours):
        raise FileFormatError("the stated noise is too small for the stated guarantee")


def _spent(levels: Floats, neighbours: str) -> float:
    """Gaussian privacy of noise of these levels, without centre and whitening, whose noise no file tells."""
    bounds = np.array(SENSITIVITIES[neighbours][1:4])[:, None]
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.sqrt(np.sum((bounds / levels) ** 2, axis=0)).max())


def _allowed(epsilon: float, delta: float) -> float:
    """Largest Gaussian privacy that is (epsilon, delta) private; none without a delta."""
    if delta == 0.0:
        return 0.0
    promises = math.isfinite(epsilon) and delta < 1.0
    return mu_of(epsilon, delta) * (1.0 + 1e-9) if promises else math.inf
