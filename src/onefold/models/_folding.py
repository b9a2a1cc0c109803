"""How much a query must be folded to reach its image: the distance and the space folding measures.

004 eq. 102 combines a Euclidean part, 1 - exp(-distance), and an angular part, angle / pi, in four ways.
The raw distance of 000 eq. 48 is the fifth measure (004 Remark 12).
"""

from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array
from onefold.exceptions import InvalidInputError

__all__ = ["MEASURES", "Folding", "check_measure", "maximum_of"]


MEASURES = ("euclidean", "rms", "product", "min", "max")


@dataclass(frozen=True)
class Folding:
    """Squared distances between queries and images, and angles / pi where they were asked for."""

    distance2: Array
    angle: Array | None

    @classmethod
    def with_angle(cls, distance2: Array, image2: Array, query2: Array) -> "Folding":
        """Angles from three squared lengths (004 eq. 104), exact for small angles where arccos is not."""
        lengths = np.sqrt(image2) * np.sqrt(query2)
        gap = np.sqrt(image2) - np.sqrt(query2)
        with np.errstate(divide="ignore", invalid="ignore"):
            half_sine2 = (distance2 - gap**2) / (4.0 * lengths)
        # The angle with the zero vector is undefined: none if both are zero, else a right angle.
        undefined = np.where((image2 == 0.0) & (query2 == 0.0), 0.0, 0.5)
        half_sine2 = np.where(lengths > 0.0, half_sine2, undefined)
        angle = 2.0 * np.arcsin(np.sqrt(np.clip(half_sine2, 0.0, 1.0))) / np.pi
        return cls(distance2, angle.astype(distance2.dtype))

    def closer(self, other: "Folding") -> "Folding":
        """Entry by entry, the one with the smaller distance."""
        replace = other.distance2 < self.distance2
        angle = self.angle
        if angle is not None and other.angle is not None:
            angle = np.where(replace, other.angle, angle)
        return Folding(np.where(replace, other.distance2, self.distance2), angle)

    def measure(self, name: str, factor: float, stretch: Array) -> Array:
        """The folding measure of queries that were made ``stretch`` times smaller before they were folded.

        Inside the exponential distances are seen at ``factor`` times their size.
        """
        with np.errstate(over="ignore"):
            distance = np.minimum(np.sqrt(self.distance2) * stretch, np.finfo(stretch.dtype).max)
        if name == "euclidean":
            return np.asarray(distance)
        if self.angle is None:
            raise InvalidInputError("this folding was computed without angles")
        euclidean = -np.expm1(-distance * np.asarray(factor, dtype=distance.dtype))  # 004 eq. 103
        if name == "rms":
            return np.asarray(np.sqrt(0.5 * (euclidean**2 + self.angle**2)))  # option 1
        if name == "product":
            return np.asarray(euclidean * self.angle)  # option 2
        if name == "min":
            return np.asarray(np.minimum(euclidean, self.angle))  # option 3
        return np.asarray(np.maximum(euclidean, self.angle))  # option 4


def check_measure(name: str) -> str:
    """The name itself if it is a measure, else an error that lists them."""
    if name not in MEASURES:
        raise InvalidInputError(f"measure must be one of {', '.join(MEASURES)}")
    return name


def maximum_of(name: str) -> float:
    """Largest value of a measure: what a class without samples answers (004 eq. 123, 000 Remark 5)."""
    return float("inf") if check_measure(name) == "euclidean" else 1.0
