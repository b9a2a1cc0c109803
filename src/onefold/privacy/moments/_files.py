"""Released moments as bytes: plain arrays and JSON, nothing that could be executed, all of it checked."""

import io
import json
import math
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import Arrays, Labels
from onefold._base.validation import Number, check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy.calibration import mu_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.moments._release import SENSITIVITIES

if TYPE_CHECKING:
    from onefold.privacy.moments._estimator import PrivateMoments

__all__ = ["RADIUS", "pack_moments", "plain_labels", "unpack_moments"]

# A radius that rows can be divided by without leaving the range of float64.
RADIUS = Number(at_least=1e-150, at_most=1e150)

FORMAT = 1
KIND = "onefold moments"
DAMAGED = "damaged, or not a file of moments"
LEVELS = ("count_noise", "sum_noise", "second_noise")

PARAMETERS = ("epsilon", "delta", "radius", "neighbours", "hardened")
NAMES = ("counts", "sums", "second_moments", "count_noise", "sum_noise", "second_noise", "centre")


def plain_labels(classes: Labels) -> Labels:
    """Return labels as numbers or as strings; those of pandas arrive as objects."""
    if classes.dtype.kind in "biufU":
        return classes
    if not all(isinstance(label, str) for label in classes):
        raise InvalidInputError("class labels must be all strings or all numbers")
    return classes.astype(np.str_)


def pack_moments(moments: "PrivateMoments") -> bytes:
    """Return the bytes of an .npz file."""
    about = {
        "kind": KIND,
        "format": FORMAT,
        "parameters": {name: getattr(moments, name) for name in PARAMETERS},
        "guarantee": moments.guarantee_.to_dict(),
        "encoding": moments.encoding_,
    }
    arrays = {name: getattr(moments, f"{name}_") for name in NAMES}
    text, buffer = json.dumps(about, default=float), io.BytesIO()
    np.savez(buffer, about=np.array(text), classes=plain_labels(moments.classes_), **arrays)
    return buffer.getvalue()


def unpack_moments(packed: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read parameters and fitted attributes, which must fit together."""
    try:
        _check_members(packed)
        with np.load(io.BytesIO(packed), allow_pickle=False) as file:
            about, classes = json.loads(str(file["about"])), file["classes"]
            arrays = {name: file[name] for name in NAMES}
        if (about["kind"], about["format"]) != (KIND, FORMAT):
            raise FileFormatError(f"not moments of format {FORMAT}")
        _check_arrays(arrays, classes)
        given, guarantee = about["parameters"], Guarantee.from_dict(about["guarantee"])
        encoding = about.get("encoding", "")
        if set(given) != set(PARAMETERS) or not isinstance(encoding, str):
            raise FileFormatError(DAMAGED)
        _check_claim(given, guarantee, arrays)
        fitted = {"classes_": classes, "guarantee_": guarantee, "encoding_": encoding}
        fitted["n_features_in_"] = len(arrays["centre"])
        return given, fitted | {f"{name}_": array for name, array in arrays.items()}
    except FileFormatError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        NotImplementedError,
        OSError,
    ):
        raise FileFormatError(DAMAGED) from None
    except (RuntimeError, TypeError, ValueError, zipfile.BadZipFile):
        raise FileFormatError(DAMAGED) from None


def _check_members(packed: bytes) -> None:
    """Refuse unexpected members, and compressed ones: a small file cannot unpack to a large one."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        members = archive.infolist()
    expected = sorted(f"{name}.npy" for name in ("about", "classes", *NAMES))
    plain = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if sorted(member.filename for member in members) != expected or not plain:
        raise FileFormatError(DAMAGED)


def _check_arrays(arrays: Arrays, classes: Labels) -> None:
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


def _check_claim(given: Mapping[str, Any], guarantee: Guarantee, arrays: Arrays) -> None:
    """Refuse stated noise that is too small for the guarantee; whether it was added, no file can show."""
    check_parameter("radius", given["radius"], RADIUS)
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
