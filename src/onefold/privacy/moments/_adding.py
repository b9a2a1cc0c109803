"""Adding up the moments of several sites' records, and taking one site's out again."""

import copy
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Floats, Labels
from onefold._base.fixed_point import MOST_ROWS
from onefold.exceptions import InvalidInputError
from onefold.privacy.guarantee import FLOAT_SAMPLER, Guarantee
from onefold.privacy.moments._release import plain_labels
from onefold.tables.schema import differing

if TYPE_CHECKING:
    from onefold.privacy.moments._estimator import PrivateMoments

RELEASED = ("counts_", "sums_", "second_moments_")
LEVELS = ("count_noise_", "sum_noise_", "second_noise_")
POOLED = ("second_moments_", "second_noise_")  # one for all classes where second moments are pooled
NO_STEPS = "numbers of the float sampler are no whole steps: use the hardened one"


def check_comparable(one: "PrivateMoments", other: "PrivateMoments") -> None:
    """Refuse two releases that cannot be added up."""
    check_is_fitted(one)
    check_is_fitted(other)
    where = differing(one.schema_fields_, other.schema_fields_)
    if one.schema_fields_ and other.schema_fields_ and where:  # radius and features follow from it
        raise InvalidInputError(f"moments by different schemas cannot be added: {where}")
    if one.centre_.shape != other.centre_.shape or one.radius != other.radius:
        raise InvalidInputError("moments of different features or radii cannot be added")
    if not np.array_equal(one.centre_, other.centre_):
        raise InvalidInputError("moments about different centres cannot be added: use the same centre")
    if not _same_matrix(one.whitening_, other.whitening_):
        raise InvalidInputError("moments of differently whitened records cannot be added: use one matrix")
    if one.is_pooled != other.is_pooled:
        raise InvalidInputError(
            "a pooled moment and moments of each class cannot be added: agree on second_moments"
        )
    if one.encoding_ != other.encoding_:
        raise InvalidInputError(
            "moments of differently encoded records cannot be added: give all sites the same encoder"
        )
    if _label_kind(one.classes_) != _label_kind(other.classes_):
        raise InvalidInputError("the class labels are numbers at one site, text at another: use one kind")
    one.guarantee_.among_owners(other.guarantee_)  # refuses different relations


def total(kind: "type[PrivateMoments]", releases: "Sequence[PrivateMoments]") -> "PrivateMoments":
    """Return the moments of the records of all releases together, added in the given order."""
    if not releases:
        raise InvalidInputError("there are no releases to add up")
    first = releases[0]
    check_is_fitted(first)
    for other in releases[1:]:
        check_comparable(first, other)
    epsilons = [release.epsilon for release in releases]
    found = kind(
        None if None in epsilons else max(epsilon or 0.0 for epsilon in epsilons),
        max(release.delta for release in releases),
        centre=first.centre,
        radius=first.radius,
        neighbours=first.neighbours,
        second_moments="pooled" if first.is_pooled else "class",
        whitening=first.whitening,
    )
    labels = [plain_labels(release.classes_) for release in releases]
    found.classes_ = np.unique(np.concatenate(labels))
    places = [np.searchsorted(found.classes_, own) for own in labels]
    for name in (*RELEASED, *LEVELS):
        power = 2 if name in LEVELS else 1  # variances add up
        one_for_all = first.is_pooled and name in POOLED
        summed = np.zeros((1 if one_for_all else len(found.classes_), *getattr(first, name).shape[1:]))
        with np.errstate(over="ignore"):
            for release, place in zip(releases, places, strict=True):
                summed[... if one_for_all else place] += getattr(release, name) ** power
        if not np.isfinite(summed).all():
            raise InvalidInputError("the sum of these releases is beyond the largest number")
        if name == "counts_" and found.epsilon is None and summed.sum() > MOST_ROWS:
            raise InvalidInputError("moments of more than 2**25 records do not add up exactly")
        setattr(found, name, np.sqrt(summed) if power == 2 else summed)
    found.centre_, found.n_features_in_ = first.centre_.copy(), first.n_features_in_
    found.whitening_ = first.whitening_
    found.encoding_, found.schema_fields_ = first.encoding_, first.schema_fields_
    found.guarantee_ = reduce(Guarantee.among_owners, (release.guarantee_ for release in releases))
    return found


def without(whole: "PrivateMoments", part: "PrivateMoments") -> "PrivateMoments":
    """Return the moments of the records of one release that are not those of another; without noise only."""
    check_comparable(whole, part)
    if whole.epsilon is not None or part.epsilon is not None:
        raise InvalidInputError("records leave moments without noise only: release the others anew")
    if FLOAT_SAMPLER in (*whole.guarantee_.voided_by, *part.guarantee_.voided_by):
        raise InvalidInputError(NO_STEPS)
    if not np.isin(part.classes_, whole.classes_).all():
        raise InvalidInputError("these moments do not hold all the classes that are to leave")
    place = np.searchsorted(whole.classes_, part.classes_)
    found = copy.copy(whole)
    for name in RELEASED:
        rest = np.array(getattr(whole, name))
        rest[... if whole.is_pooled and name in POOLED else place] -= getattr(part, name)
        setattr(found, name, rest)
    if found.counts_.min(initial=0.0) < 0.0:
        raise InvalidInputError("these moments do not hold all the records that are to leave")
    return found


def _same_matrix(one: Floats | None, other: Floats | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _label_kind(classes: Labels) -> str:
    kind = plain_labels(classes).dtype.kind
    return "number" if kind in "iuf" else kind
