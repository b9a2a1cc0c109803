"""Sources in files: the private classifier or the moments, the subspace, the guarantee, the encoder."""

from typing import TYPE_CHECKING, Any

import numpy as np

from onefold import io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.models import AutoencoderClassifier
from onefold.privacy import Guarantee, PrivateMoments
from onefold.transfer._archive import array_bytes, array_from, pack, unpack
from onefold.transfer._description import Description, MomentDescription, RowDescription
from onefold.transfer._encoding import describe_encoder, restore_encoder

if TYPE_CHECKING:
    from onefold.transfer.source import PrivateSource

__all__ = ["KIND", "pack_source", "unpack_source"]

KIND = "private source"
FORMAT = 1
ARRAYS = ("means", "counts", "mean_variances")


def pack_source(source: "PrivateSource") -> bytes:
    """The bytes of a file."""
    described = source.description_
    parts = {"subspace": array_bytes(source.subspace_)}
    if isinstance(described, MomentDescription):
        parts["moments"] = described.moments.to_bytes()
    elif isinstance(described, RowDescription):
        parts["classifier"] = io.to_bytes(described.classifier)
        parts |= {name: array_bytes(getattr(described, name)) for name in ARRAYS}
    about = {
        "guarantee": source.guarantee_.to_dict(),
        "encoder": describe_encoder(source.encoder_),
        "n_features": source.n_features_in_,
    }
    return pack(KIND, FORMAT, about, parts)


def unpack_source(packed: bytes) -> dict[str, Any]:
    """What the constructor of a source takes; contents that do not fit together are refused."""
    about, parts = unpack(KIND, FORMAT, packed)
    try:
        guarantee, width = Guarantee.from_dict(about["guarantee"]), int(about["n_features"])
        encoder = restore_encoder(about["encoder"])
        described = _description(parts)
    except FileFormatError:
        raise
    except (InvalidInputError, KeyError, TypeError, ValueError, AttributeError):
        raise FileFormatError("the contents are not those of a source") from None
    subspace = array_from(parts, "subspace", (None, described.means.shape[1]))
    fits = len(subspace) >= 1 and width >= 1
    if encoder is None:
        fits = fits and width == subspace.shape[1]
    else:
        encoded = encoder.transform(np.zeros((1, encoder.n_features_in_))).shape[1]
        fits = fits and (width, subspace.shape[1]) == (encoder.n_features_in_, encoded)
    if isinstance(described, MomentDescription):
        # The moments carry their own guarantee, which was checked against their noise: no other may be told.
        told, own = guarantee.to_dict(), described.moments.guarantee_.to_dict()
        fits = fits and (told["record"], told["unit"]) == (own["record"], own["unit"])
    if not fits:
        raise FileFormatError("the contents are not those of a source")
    return {
        "description_": described,
        "subspace_": subspace,
        "guarantee_": guarantee,
        "encoder_": encoder,
        "n_features_in_": width,
    }


def _description(parts: dict[str, bytes]) -> Description:
    if "moments" in parts:
        return MomentDescription(PrivateMoments.from_bytes(parts["moments"]))
    classifier = io.from_bytes(parts["classifier"])
    if not isinstance(classifier, AutoencoderClassifier):
        raise FileFormatError("the contents are not those of a source")
    count, width = len(classifier.classes_), int(classifier.n_features_in_)
    means = array_from(parts, "means", (count, width))
    counts, variances = (array_from(parts, name, (count,)) for name in ARRAYS[1:])
    if not ((counts >= 1.0).all() and (variances >= 0.0).all()):
        raise FileFormatError("the contents are not those of a source")
    return RowDescription(classifier, means, counts, variances)
