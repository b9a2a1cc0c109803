"""Released moments as a description and arrays, as an archive keeps them; what is read is checked."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import AnyArray, Arrays, Labels
from onefold._base.stored_zip import NOT_READABLE
from onefold._base.validation import check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy.calibration import mu_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.moments._release import CONSTRAINTS, SENSITIVITIES

if TYPE_CHECKING:
    from onefold.privacy.moments._estimator import PrivateMoments

__all__ = ["KIND", "moments_from_parts", "parts_of_moments", "plain_labels"]

KIND = "private moments"
DAMAGED = "damaged, or not a file of moments"
LEVELS = ("count_noise", "sum_noise", "second_noise")
NAMES = ("counts", "sums", "second_moments", *LEVELS, "centre")


def plain_labels(classes: Labels) -> Labels:
    """Return labels as numbers or as strings; those of pandas arrive as objects."""
    if classes.dtype.kind in "biufU":
        return classes
    if not all(isinstance(label, str) for label in classes):
        raise InvalidInputError("class labels must be all strings or all numbers")
    return classes.astype(np.str_)


def parts_of_moments(moments: "PrivateMoments") -> tuple[dict[str, Any], Arrays]:
    """Return the description and the arrays of a release."""
    about = {
        "parameters": {
            "epsilon": None if moments.epsilon is None else float(moments.epsilon),
            "delta": float(moments.delta),
            "radius": float(moments.radius),
            "neighbours": moments.neighbours,
            "hardened": bool(moments.hardened),
        },
        "guarantee": moments.guarantee_.to_dict(),
        "encoding": moments.encoding_,
    }
    arrays = {name: getattr(moments, f"{name}_") for name in NAMES}
    return about, {"classes": plain_labels(moments.classes_), **arrays}


def moments_from_parts(
    about: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes; refuse what does not fit together."""
    try:
        given, guarantee = dict(about["parameters"]), Guarantee.from_dict(about["guarantee"])
        encoding = about.get("encoding", "")
        if set(arrays) != {"classes", *NAMES} or set(given) != set(CONSTRAINTS):
            raise FileFormatError(DAMAGED)
        if not isinstance(encoding, str):
            raise FileFormatError(DAMAGED)
        for name, entry in CONSTRAINTS.items():
            check_parameter(name, given[name], entry)
        _check_arrays(arrays)
        _check_claim(given, guarantee, arrays)
    except FileFormatError:
        raise
    except NOT_READABLE:
        raise FileFormatError(DAMAGED) from None
    fitted = {f"{name}_": array for name, array in arrays.items()}
    size = len(arrays["centre"])
    return given, {**fitted, "guarantee_": guarantee, "encoding_": encoding, "n_features_in_": size}


def _check_arrays(arrays: Mapping[str, AnyArray]) -> None:
    classes = arrays["classes"]
    if classes.ndim != 1 or not classes.size or classes.dtype.kind not in "biufU":
        raise FileFormatError("the classes are not what they should be")
    if not np.array_equal(np.unique(classes), classes):  # NaN is among what this refuses
        raise FileFormatError("the classes are not what they should be")
    size = arrays["centre"].size
    each = (len(classes),)
    shapes = (each, (*each, size), (*each, size, size), each, each, each, (size,))
    for name, shape in zip(NAMES, shapes, strict=True):
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise FileFormatError(f"the array {name} is not what it should be")
    matrices = arrays["second_moments"]
    if not size or not np.array_equal(matrices, matrices.transpose(0, 2, 1)):
        raise FileFormatError("the array second_moments is not what it should be")


def _check_claim(given: Mapping[str, Any], guarantee: Guarantee, arrays: Mapping[str, AnyArray]) -> None:
    """Refuse stated noise that is too small for the guarantee; whether it was added, no file can show."""
    levels = np.array([arrays[name] for name in LEVELS])
    epsilon, delta = guarantee.record
    told = (given["epsilon"], given["delta"], given["neighbours"], len(arrays["centre"]))
    if not (levels >= 0.0).all() or guarantee.unit != "record" or not guarantee.labels_in_record:
        raise FileFormatError("the guarantee is not one of moments")
    if told[0] is None:
        if math.isfinite(epsilon):
            raise FileFormatError("the guarantee does not fit the parameters")
        return
    if told != (epsilon, delta, guarantee.neighbours, guarantee.n_features):
        raise FileFormatError("the guarantee does not fit the parameters")
    bounds = np.array(SENSITIVITIES[guarantee.neighbours][1:])[:, None]
    with np.errstate(divide="ignore", over="ignore"):
        spent = np.sqrt(np.sum((bounds / levels) ** 2, axis=0)).max()
    if not spent <= mu_of(epsilon, delta) * (1.0 + 1e-9):
        raise FileFormatError("the stated noise is too small for the stated guarantee")
