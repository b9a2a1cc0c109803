"""How much a query must be folded to reach its image: the distance and the space folding measures.

004 eq. 102 combines a Euclidean part, 1 - exp(-distance), and an angular part, angle / pi, in four ways.
The raw distance of 000 eq. 48 is the fifth measure (004 Remark 12), and what a Gaussian membership of the
distance leaves to one the sixth (003 eq. 2.162): the smallest is the largest membership.

The measure "joined" is of a federation, not of a machine: a squared distance plus a public offset that is the
same at all sites.

The scale of the data enters the documents' regularisation: lambda* grows with the mean square of the data
while the Gaussian kernel does not notice its scale. Data with tiny entries is fitted almost without
regularisation, data with huge ones is smoothed away. The documents scale their data by hand; here it can be
left to ``scale="auto"``. A regularisation that is a number, as it is without a scale, does not depend on it.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Number, OneOf
from onefold.exceptions import DataScaleWarning, InvalidInputError

__all__ = [
    "JOINED",
    "MAXIMA",
    "MEASURES",
    "SCALES",
    "WITHOUT_ANGLES",
    "Folding",
    "ScaleOption",
    "check_measure",
    "maximum_of",
    "unit_and_factor",
    "unit_of",
]


JOINED = "joined"  # what sites answer with, though no machine measures by it
# Each measure with its largest value.
MAXIMA = {
    "euclidean": float("inf"),
    "rms": 1.0,
    "product": 1.0,
    "min": 1.0,
    "max": 1.0,
    "fuzzy": 1.0,
    JOINED: float("inf"),
}
MEASURES = tuple(name for name in MAXIMA if name != JOINED)  # those of a machine
WITHOUT_ANGLES = ("euclidean", "fuzzy")  # those that are functions of the distance alone


@dataclass(frozen=True)
class Folding:
    """Squared distances between queries and images, and angles / pi where they were asked for."""

    distance2: Array
    angle: Array | None

    @classmethod
    def with_angle(cls, distance2: Array, image2: Array, query2: Array, products: Array) -> "Folding":
        """Angles between queries and images (004 eq. 104) from squared lengths and inner products.

        The arc cosine is exact to half the digits only for small angles. There the sine of half the angle,
        from the distance, is better, as long as the two lengths are of one order.
        """
        image, query = np.sqrt(image2), np.sqrt(query2)
        lengths = image * query
        defined = lengths > 0.0
        divisor = np.where(defined, lengths, 1.0)
        cosine = np.where(defined, products / divisor, 0.0)  # with the zero vector: a right angle
        angle = np.arccos(np.clip(cosine, -1.0, 1.0))
        alike = (cosine > 0.9) & (image < 100.0 * query) & (query < 100.0 * image)
        if alike.any():
            differences = (image - query)[alike]
            half_sine2 = (distance2[alike] - differences**2) / (4.0 * divisor[alike])
            angle[alike] = 2.0 * np.arcsin(np.sqrt(np.clip(half_sine2, 0.0, 1.0)))
        angle /= np.pi
        angle[(image == 0.0) & (query == 0.0)] = 0.0  # zero is its own image
        return cls(distance2, angle.astype(distance2.dtype, copy=False))

    def closer(self, other: "Folding") -> "Folding":
        """Entry by entry, the one with the smaller distance."""
        replace = other.distance2 < self.distance2
        angle = self.angle
        if angle is not None and other.angle is not None:
            angle = np.where(replace, other.angle, angle)
        return Folding(np.where(replace, other.distance2, self.distance2), angle)

    def measure(self, name: str, divisor: Array, seen: Array, n_features: int) -> Array:
        """The folding measure of queries, of so many features, that had been divided by ``divisor``.

        Inside the exponential, a distance between divided points is seen ``seen`` times as large.
        """
        distance = np.sqrt(self.distance2)
        with np.errstate(over="ignore"):
            if name == "euclidean":
                return np.asarray(np.minimum(distance * divisor, np.finfo(divisor.dtype).max))
            if name == "fuzzy":
                return np.asarray(-np.expm1(-((distance * seen) ** 2) / (2.0 * n_features)))  # 003 eq. 2.162
            euclidean = -np.expm1(-distance * seen)  # 004 eq. 103
        if self.angle is None:
            raise InvalidInputError("this folding was computed without angles")
        if name == "rms":
            return np.asarray(np.sqrt(0.5 * (euclidean**2 + self.angle**2)))  # option 1
        if name == "product":
            return np.asarray(euclidean * self.angle)  # option 2
        if name == "min":
            return np.asarray(np.minimum(euclidean, self.angle))  # option 3
        return np.asarray(np.maximum(euclidean, self.angle))  # option 4


def check_measure(name: str) -> str:
    """Refuse a name that is not that of a measure of a machine.

    Parameters
    ----------
    name : str
        Name of a measure.

    Returns
    -------
    str
        The name itself.

    Raises
    ------
    InvalidInputError
        If there is no such measure; the message lists those that exist.

    See Also
    --------
    maximum_of : Largest value of a measure.

    Examples
    --------
    >>> from onefold.models import check_measure
    >>> check_measure("rms")
    'rms'
    """
    if not isinstance(name, str) or name not in MEASURES:
        raise InvalidInputError(f"measure must be {OneOf(MEASURES)}")
    return name


def maximum_of(name: str) -> float:
    """Return the largest value of a measure: what a class without samples answers.

    Parameters
    ----------
    name : str
        Name of a measure.

    Returns
    -------
    float
        Infinity for "euclidean" and "joined", else 1.

    See Also
    --------
    check_measure : Refuses unknown names.

    References
    ----------
    Document 004, eq. 123; document 000, Remark 5.

    Examples
    --------
    >>> from onefold.models import maximum_of
    >>> maximum_of("euclidean"), maximum_of("rms"), maximum_of("joined")
    (inf, 1.0, inf)
    """
    return MAXIMA[name if name == JOINED else check_measure(name)]


# --- the scale of the data ------------------------------------------------------------------------------


ScaleOption = str | float | None
SCALES = (None, "auto", Number(above=0))  # what the parameter may be

# Mean square of the entries that "auto" aims at: that of images with values in [0, 1].
AUTO_MEAN_SQUARE = 0.1
# Outside these bounds the user is told: embeddings of unit length are below, raw pixels and counts above.
SMALLEST_MEAN_SQUARE = 5e-3
LARGEST_MEAN_SQUARE = 10.0
# With a mean square within these bounds, entries can be squared and summed as they are.
COMFORTABLE = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e10}


def unit_and_factor(X: Array, scale: ScaleOption, warn: bool = True) -> tuple[float, float]:
    """Unit the data is expressed in, and the factor at which machines see data in that unit.

    Callers hold BLAS to one thread: a second one would go on waiting for work on a core needed for the fit.
    """
    unit = 1.0
    with np.errstate(over="ignore", under="ignore"):
        mean_square = _mean_square(X, unit)
    limit = COMFORTABLE[X.dtype]
    if not 1.0 / limit <= mean_square <= limit:
        largest = max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))
        if largest > 0.0:
            unit = 2.0 ** min(round(math.log2(largest)), int(np.finfo(X.dtype).maxexp) - 1)
        mean_square = _mean_square(X, unit)
    if scale == "auto":
        return unit, math.sqrt(AUTO_MEAN_SQUARE / mean_square) if mean_square > 0.0 else 1.0
    factor = unit if scale is None else unit * float(scale)
    if warn:
        _warn(mean_square, factor, scale)
    return unit, factor


def _mean_square(X: Array, unit: float) -> float:
    if unit != 1.0:
        X = X / X.dtype.type(unit)
    flat = X.ravel()
    return float(np.dot(flat, flat)) / max(flat.size, 1)


def _warn(mean_square: float, factor: float, scale: ScaleOption) -> None:
    """Compare logarithms: the square of an extreme factor would overflow."""
    if mean_square == 0.0:
        return
    level = math.log(mean_square) + 2.0 * math.log(factor)
    remedy = 'pass scale="auto" or rescale the features'
    if level < math.log(SMALLEST_MEAN_SQUARE):
        message = "the entries are so small that the regularisation vanishes"
    elif level > math.log(LARGEST_MEAN_SQUARE):
        message = "the entries are so large that the regularisation dominates and images collapse to the mean"
    else:
        return
    warnings.warn(f"{message}: {remedy}", DataScaleWarning, stacklevel=4)


def unit_of(values: Array) -> float:
    """A power of two near the largest entry, where squares could overflow or vanish; else one."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or 1e-60 < largest < 1e60:
        return 1.0
    return 2.0 ** max(min(round(math.log2(largest)), 1020), -1020)
