"""Released moments of several owners, added up, and with them the variances of their noise."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError
from onefold.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from onefold.privacy.moments import PrivateMoments

__all__ = ["check_comparable", "plain_labels", "sum_into"]

RELEASED = ("counts_", "sums_", "second_moments_")
LEVELS = ("count_noise_", "sum_noise_", "second_noise_")


def plain_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as numbers or as strings; those of pandas arrive as objects."""
    if classes.dtype.kind in "biufU":
        return classes
    if not all(isinstance(label, str) for label in classes):
        raise InvalidInputError("class labels must be all strings or all numbers")
    return classes.astype(np.str_)


def check_comparable(first: "PrivateMoments", other: "PrivateMoments") -> None:
    """Refuse, in one line, two releases that are not about the same thing."""
    if first.centre_.shape != other.centre_.shape or first.radius != other.radius:
        raise InvalidInputError("moments of different features or radii cannot be added")
    if not np.array_equal(first.centre_, other.centre_):
        raise InvalidInputError("moments about different centres cannot be added: give all owners the same")
    if first.encoding_ != other.encoding_:
        raise InvalidInputError(
            "moments of differently encoded records cannot be added: give all owners the same encoder"
        )
    if _label_kind(first) != _label_kind(other):
        raise InvalidInputError("the owners' class labels are of different kinds: numbers here, text there")
    first.guarantee_.among_owners(other.guarantee_)  # refuses different relations


def _label_kind(moments: "PrivateMoments") -> str:
    kind = plain_labels(moments.classes_).dtype.kind
    return "number" if kind in "iuf" else kind


def sum_into(total: "PrivateMoments", parts: Sequence["PrivateMoments"]) -> None:
    """Set what ``total`` has learned to the sum of ``parts``, in their order, none of which is changed."""
    first = parts[0]
    for other in parts[1:]:
        check_comparable(first, other)
    labels = [plain_labels(part.classes_) for part in parts]
    total.classes_ = np.unique(np.concatenate(labels))
    places = [np.searchsorted(total.classes_, own) for own in labels]
    for name in (*RELEASED, *LEVELS):
        power = 2 if name in LEVELS else 1  # variances add up
        summed = np.zeros((len(total.classes_), *getattr(first, name).shape[1:]))
        with np.errstate(over="ignore"):
            for part, place in zip(parts, places, strict=True):
                summed[place] += getattr(part, name) ** power
        if not np.isfinite(summed).all():
            raise InvalidInputError("the sum of these releases is beyond the largest number")
        setattr(total, name, np.sqrt(summed) if power == 2 else summed)
    total.centre_, total.n_features_in_ = first.centre_.copy(), first.n_features_in_
    total.encoding_ = first.encoding_
    total.guarantee_ = reduce(Guarantee.among_owners, (part.guarantee_ for part in parts))
