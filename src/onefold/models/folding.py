"""How much a query must be folded to reach its image: the distance and the space folding measures.

004 eq. 102 combines a Euclidean part, 1 - exp(-distance), and an angular part, angle / pi, in four ways.
The raw distance of 000 eq. 48 is the fifth measure (004 Remark 12), and what a Gaussian membership of the
distance leaves to one the sixth (003 eq. 2.162): the smallest is the largest membership.

The measure "joined" is of a federation, not of a machine: a squared distance plus a public offset that is the
same at all sites.
"""

from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import OneOf
from onefold.exceptions import InvalidInputError

__all__ = ["JOINED", "MAXIMA", "MEASURES", "WITHOUT_ANGLES", "Folding", "check_measure", "maximum_of"]


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
