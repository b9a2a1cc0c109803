"""Fitted experts as arrays and back: models of the target, views of the source, the documents' mapping."""

from collections.abc import Mapping as Names
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold import io
from onefold.exceptions import FileFormatError
from onefold.models import AutoencoderClassifier, MembershipMapping
from onefold.transfer._archive import array_bytes, array_from
from onefold.transfer._description import Description
from onefold.transfer._learners import AutoencoderModel, GaussianModel, Model
from onefold.transfer._mixture import Mixture, Projection
from onefold.transfer._views import DescriptionView, MeansView, View
from onefold.transfer.alignment import Affine

__all__ = [
    "classifier_from",
    "mapping_from",
    "model_from",
    "model_parts",
    "positions_from",
    "view_from",
    "view_parts",
]

Parts = dict[str, bytes]


def _arrays(prefix: str, arrays: Names[str, NDArray[Any]]) -> Parts:
    floats = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
    return {f"{prefix}/{name}": array_bytes(array) for name, array in floats.items()}


def model_parts(prefix: str, model: Model) -> Parts:
    """A model of the target."""
    if isinstance(model, AutoencoderModel):
        machines = {f"{prefix}/classifier": io.to_bytes(model.classifier)}
        return machines | _arrays(prefix, {"present": model.present})
    if not isinstance(model, GaussianModel):
        raise TypeError("an unknown model")
    mixture = model.mixture
    return _arrays(
        prefix,
        {
            "present": model.present,
            "mean": model.projection.mean,
            "axes": model.projection.axes,
            "means": mixture.means,
            "whitening": mixture.whitening,
            "offsets": mixture.offsets,
        },
    )


def model_from(prefix: str, parts: Parts, n_classes: int) -> Model:
    """The model that ``model_parts`` described."""
    present = positions_from(parts, f"{prefix}/present", n_classes)
    if f"{prefix}/classifier" in parts:
        classifier = classifier_from(parts, f"{prefix}/classifier")
        if len(classifier.classes_) != len(present):
            raise FileFormatError("the contents do not fit together")
        return AutoencoderModel(classifier, present)
    projection = _projection_from(prefix, parts)
    count, size = len(present), projection.axes.shape[1]
    mixture = Mixture(
        array_from(parts, f"{prefix}/means", (count, size)),
        array_from(parts, f"{prefix}/whitening", (count, size, size)),
        array_from(parts, f"{prefix}/offsets", (count,)),
    )
    return GaussianModel(projection, mixture, present)


def view_parts(prefix: str, view: View) -> Parts:
    """A way to ask the source."""
    if isinstance(view, MeansView):
        return _arrays(
            prefix,
            {
                "mean": view.projection.mean,
                "axes": view.projection.axes,
                "centres": view.centres,
                "variances": view.variances,
            },
        )
    if view.alignment is None:
        return {}
    found = {"before": view.alignment.before, "after": view.alignment.after}
    if view.alignment.matrix is not None:
        found["matrix"] = view.alignment.matrix
    return _arrays(prefix, found)


def view_from(prefix: str, parts: Parts, name: str, described: Description) -> View:
    """The view that ``view_parts`` described."""
    count, width = described.means.shape
    if f"{prefix}/centres" in parts:
        projection = _projection_from(prefix, parts)
        size = projection.axes.shape[1]
        centres = array_from(parts, f"{prefix}/centres", (count, size))
        variances = array_from(parts, f"{prefix}/variances", (size,))
        if not (variances > 0.0).all():
            raise FileFormatError("the contents do not fit together")
        return MeansView(name, projection, centres, variances)
    if f"{prefix}/before" not in parts:
        return DescriptionView(name, described, None)
    before, after = (array_from(parts, f"{prefix}/{end}", (width,)) for end in ("before", "after"))
    matrix = None
    if f"{prefix}/matrix" in parts:
        matrix = array_from(parts, f"{prefix}/matrix", (width, width))
    return DescriptionView(name, described, Affine(matrix, before, after))


def mapping_from(parts: Parts, name: str, width: int) -> MembershipMapping:
    """The membership-mapping among the parts."""
    mapping = io.from_bytes(parts[name])
    if not isinstance(mapping, MembershipMapping) or int(mapping.n_features_in_) != width:
        raise FileFormatError("the contents do not fit together")
    return mapping


def classifier_from(parts: Parts, name: str) -> AutoencoderClassifier:
    """The classifier among the parts."""
    classifier = io.from_bytes(parts[name])
    if not isinstance(classifier, AutoencoderClassifier):
        raise FileFormatError("the contents do not fit together")
    return classifier


def positions_from(parts: Parts, name: str, n_classes: int) -> NDArray[np.intp]:
    """Ascending positions among the classes."""
    found = array_from(parts, name, (None,)).astype(np.intp)
    if not len(found) or found.min() < 0 or found.max() >= n_classes or (np.diff(found) <= 0).any():
        raise FileFormatError("the contents do not fit together")
    return found


def _projection_from(prefix: str, parts: Parts) -> Projection:
    axes = array_from(parts, f"{prefix}/axes", (None, None))
    return Projection(array_from(parts, f"{prefix}/mean", (len(axes),)), axes)
