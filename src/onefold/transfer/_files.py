"""Sources and transfer classifiers as a description and arrays, as an archive keeps them.

What is read is checked. What contains another thing keeps it under a name: a source its classifier or its
moments, a transfer classifier its source and its experts (see :func:`onefold._base.archive.nest`).
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from onefold import encoders, io
from onefold._base.archive import nest, part
from onefold._base.arrays import AnyArray, Arrays, Floats, Index, Labels
from onefold.encoders import Encoder
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError
from onefold.models import AutoencoderClassifier, MembershipMapping
from onefold.privacy import Guarantee, PrivateMoments
from onefold.transfer._default import Default
from onefold.transfer._description import Description, MomentDescription, RowDescription
from onefold.transfer._documented import Documented
from onefold.transfer._learners import AutoencoderModel, GaussianModel, Mixture, Projection, TargetModel
from onefold.transfer._pool import EXPERTS
from onefold.transfer.alignment import Affine, DescriptionView, MeansView, View, Way

if TYPE_CHECKING:
    from onefold.transfer.classifier import TransferClassifier
    from onefold.transfer.source import PrivateSource

SOURCE, CLASSIFIER = "private source", "transfer classifier"
ROW_ARRAYS = ("means", "counts", "mean_variances")
# Parameters that are kept; an estimator is used only in fit.
PARAMETERS = ("strategy", "components", "max_inducing", "allow_missing", "random_state")
ENCODERS: dict[str, type[Encoder]] = {
    kind.__name__: kind
    for kind in (encoders.GradientHistograms, encoders.LowFrequencyDCT, encoders.RandomFeatures)
}
MISFIT = "the contents do not fit together"
NO_SOURCE = "the contents are not those of a source"
# What a description or arrays of the wrong form make the code below raise.
WRONG_FORM = (OnefoldError, KeyError, IndexError, TypeError, ValueError, AttributeError)

About = dict[str, Any]


# --- sources ----------------------------------------------------------------------------------------------


def parts_of_source(source: "PrivateSource", compact: bool = False) -> tuple[About, Arrays]:
    """Describe a source."""
    described = source.description_
    about: About = {
        "guarantee": source.guarantee_.to_dict(),
        "encoder": _describe_encoder(source.encoder_),
        "n_features": source.n_features_in_,
    }
    arrays: Arrays = {"subspace": source.subspace_}
    if isinstance(described, MomentDescription):
        inner = nest("moments", *described.moments.to_parts())
    elif isinstance(described, RowDescription):
        arrays |= {name: getattr(described, name) for name in ROW_ARRAYS}
        inner = nest("classifier", *io.to_parts(described.classifier, compact))
    return about | inner[0], arrays | inner[1]


def source_from_parts(about: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return what the constructor of a source takes; contents that do not fit together are refused."""
    try:
        guarantee, width = Guarantee.from_dict(about["guarantee"]), int(about["n_features"])
        encoder = _restore_encoder(about["encoder"])
        described = _description_from(about, arrays)
    except FileFormatError:
        raise
    except WRONG_FORM:
        raise FileFormatError(NO_SOURCE) from None
    subspace = _array(arrays, "subspace", (None, described.means.shape[1]))
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
        raise FileFormatError(NO_SOURCE)
    return {
        "description_": described,
        "subspace_": subspace,
        "guarantee_": guarantee,
        "encoder_": encoder,
        "n_features_in_": width,
    }


def _description_from(about: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Description:
    if "moments" in about:
        return MomentDescription(PrivateMoments.from_parts(*part("moments", about, arrays)))
    classifier = _classifier_from("classifier", about, arrays)
    count, width = len(classifier.classes_), int(classifier.n_features_in_)
    means = _array(arrays, "means", (count, width))
    counts, variances = (_array(arrays, name, (count,)) for name in ROW_ARRAYS[1:])
    if not ((counts >= 1.0).all() and (variances >= 0.0).all()):
        raise FileFormatError(NO_SOURCE)
    return RowDescription(classifier, means, counts, variances)


# --- transfer classifiers ---------------------------------------------------------------------------------


def parts_of_classifier(model: "TransferClassifier", compact: bool = False) -> tuple[About, Arrays]:
    """Describe a fitted transfer classifier with its source."""
    given = {name: getattr(model, name) for name in PARAMETERS}
    about: About = {
        "parameters": given | {"components": [int(count) for count in model.components]},
        "to_source": _describe_encoder(model._to_source),
        "classes": _plain(model.classes_),
        "n_features": int(model.n_features_in_),
        "names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "source_gain": model.source_gain_,
        "decisions_changed": model.decisions_changed_,
    }
    arrays: Arrays = {}
    parts_of = _parts_of_default if isinstance(model._strategy, Default) else _parts_of_documented
    inner = [parts_of(cast(Any, model._strategy), compact)]
    if model.source is not None:
        inner.append(nest("source", *parts_of_source(model.source, compact)))
    for described, held in inner:
        about |= described
        arrays |= held
    return about, arrays


def classifier_from_parts(
    about: Mapping[str, Any], arrays: Mapping[str, AnyArray], source: "PrivateSource | None"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes; contents that do not fit together are refused."""
    try:
        to_source, width = _restore_encoder(about["to_source"]), int(about["n_features"])
        given = {name: about["parameters"][name] for name in PARAMETERS}
        classes = np.array(about["classes"])
        if classes.ndim != 1 or not len(classes) or (source and not np.array_equal(classes, source.classes_)):
            raise FileFormatError("its classes are not those of its source")
        kind = _default_from if given["strategy"] == "default" else _documented_from
        strategy = kind(about, arrays, Way(source, to_source), len(classes), width)
        strategy.decide(np.zeros((1, width)))  # what does not fit fails here and not in use
        fitted = {
            "_strategy": strategy,
            "_to_source": to_source,
            "classes_": classes,
            "n_features_in_": width,
            "source_gain_": about["source_gain"],
            "decisions_changed_": int(about["decisions_changed"]),
            "guarantee_": None if source is None else source.guarantee_,
            "weights_": strategy.named_weights if isinstance(strategy, Default) else None,
        }
        if about["names"]:
            fitted["feature_names_in_"] = np.array([str(name) for name in about["names"]], dtype=object)
    except FileFormatError:
        raise
    except WRONG_FORM:
        raise FileFormatError("the contents are not those of a transfer classifier") from None
    return given | {"source": source, "to_source": to_source}, fitted


def _plain(classes: Labels) -> list[Any]:
    """Return class labels as JSON has them."""
    plain = classes.tolist()
    if json.loads(json.dumps(plain)) != plain:
        raise InvalidInputError("class labels must be all strings or all numbers to be saved")
    return list(plain)


def _parts_of_default(strategy: Default, compact: bool) -> tuple[About, Arrays]:
    about, arrays = _parts_of_model("target", strategy.target, compact)
    arrays |= {"scales": strategy.scales, "weights": strategy.weights}
    if strategy.mapping is not None:
        described, held = _parts_of_model("mapping", strategy.mapping, compact)
        about, arrays = about | described, arrays | held
    if strategy.view is not None:
        arrays |= _arrays_of_view(strategy.view)
    flags = {
        "own_rows": strategy.own_rows,
        "view_placed": strategy.view_placed,
        "mapping": strategy.mapping is not None,
        "view": None if strategy.view is None else strategy.view.name,
        "gain": strategy.gain,
    }
    return about | {"flags": flags}, arrays


def _default_from(
    about: Mapping[str, Any], arrays: Mapping[str, AnyArray], way: Way, n_classes: int, width: int
) -> Default:
    flags = about["flags"]
    scales, weights = (_array(arrays, name, (len(EXPERTS),)) for name in ("scales", "weights"))
    if not ((scales > 0.0).all() and (weights >= 0.0).all()):
        raise FileFormatError(MISFIT)
    view = None
    if flags["view"] is not None:
        if way.source is None:
            raise FileFormatError(MISFIT)
        view = _view_from(arrays, str(flags["view"]), way.source.description_)
    return Default(
        way,
        bool(flags["own_rows"]),
        _model_from("target", about, arrays, n_classes),
        _model_from("mapping", about, arrays, n_classes) if flags["mapping"] else None,
        view,
        bool(flags["view_placed"]),
        scales,
        weights,
        n_classes,
        float(flags["gain"]),
    )


def _parts_of_documented(strategy: Documented, compact: bool) -> tuple[About, Arrays]:
    about, arrays = nest("classifier", *io.to_parts(strategy.target, compact))
    arrays["codes"] = strategy.target_codes.astype(np.float64)
    if strategy.mapping is not None:
        described, held = nest("mapping", *io.to_parts(strategy.mapping, compact))
        about, arrays = about | described, arrays | held
    if strategy.way.matrix is not None:
        arrays["matrix"] = strategy.way.matrix
    return about | {"flags": {"mapping": strategy.mapping is not None}}, arrays


def _documented_from(
    about: Mapping[str, Any], arrays: Mapping[str, AnyArray], way: Way, n_classes: int, width: int
) -> Documented:
    if "matrix" in arrays:
        if way.source is None:
            raise FileFormatError(MISFIT)
        way = replace(way, matrix=_array(arrays, "matrix", (way.source.n_encoded_, width)))
    target = _classifier_from("classifier", about, arrays)
    codes = _positions(arrays, "codes", n_classes)
    if len(codes) != len(target.classes_):
        raise FileFormatError(MISFIT)
    mapping = None
    if about["flags"]["mapping"]:
        mapping = io.from_parts(*part("mapping", about, arrays))
        if not isinstance(mapping, MembershipMapping) or mapping.n_features_in_ != target.n_features_in_:
            raise FileFormatError(MISFIT)
    return Documented(way, target, codes, mapping, n_classes)


# --- experts ----------------------------------------------------------------------------------------------


def _parts_of_model(name: str, model: TargetModel, compact: bool) -> tuple[About, Arrays]:
    """Describe a model of the target under a name."""
    if isinstance(model, AutoencoderModel):
        about, arrays = nest(f"{name}/classifier", *io.to_parts(model.classifier, compact))
        return about, arrays | _under(name, {"present": model.present})
    if not isinstance(model, GaussianModel):
        raise TypeError("an unknown model")
    found = {
        "present": model.present,
        "mean": model.projection.mean,
        "axes": model.projection.axes,
        "means": model.mixture.means,
        "whitening": model.mixture.whitening,
        "offsets": model.mixture.offsets,
    }
    return {}, _under(name, found)


def _model_from(
    name: str, about: Mapping[str, Any], arrays: Mapping[str, AnyArray], n_classes: int
) -> TargetModel:
    present = _positions(arrays, f"{name}/present", n_classes)
    if f"{name}/classifier" in about:
        classifier = _classifier_from(f"{name}/classifier", about, arrays)
        if len(classifier.classes_) != len(present):
            raise FileFormatError(MISFIT)
        return AutoencoderModel(classifier, present)
    projection = _projection(arrays, name)
    count, size = len(present), projection.axes.shape[1]
    mixture = Mixture(
        _array(arrays, f"{name}/means", (count, size)),
        _array(arrays, f"{name}/whitening", (count, size, size)),
        _array(arrays, f"{name}/offsets", (count,)),
    )
    return GaussianModel(projection, mixture, present)


def _arrays_of_view(view: View) -> Arrays:
    if isinstance(view, MeansView):
        projection = {"mean": view.projection.mean, "axes": view.projection.axes}
        return _under("view", projection | {"centres": view.centres, "variances": view.variances})
    if view.alignment is None:
        return {}
    found = {"before": view.alignment.before, "after": view.alignment.after}
    if view.alignment.matrix is not None:
        found["matrix"] = view.alignment.matrix
    return _under("view", found)


def _view_from(arrays: Mapping[str, AnyArray], name: str, described: Description) -> View:
    count, width = described.means.shape
    if "view/centres" in arrays:
        projection = _projection(arrays, "view")
        size = projection.axes.shape[1]
        centres = _array(arrays, "view/centres", (count, size))
        variances = _array(arrays, "view/variances", (size,))
        if not (variances > 0.0).all():
            raise FileFormatError(MISFIT)
        return MeansView(name, projection, centres, variances)
    if "view/before" not in arrays:
        return DescriptionView(name, described, None)
    before, after = (_array(arrays, f"view/{end}", (width,)) for end in ("before", "after"))
    matrix = _array(arrays, "view/matrix", (width, width)) if "view/matrix" in arrays else None
    return DescriptionView(name, described, Affine(matrix, before, after))


def _classifier_from(
    name: str, about: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> AutoencoderClassifier:
    classifier = io.from_parts(*part(name, about, arrays))
    if not isinstance(classifier, AutoencoderClassifier):
        raise FileFormatError(MISFIT)
    return classifier


# --- encoders: their name and parameters, never their state -----------------------------------------------


def _describe_encoder(encoder: Any) -> About | None:
    """Return name, parameters and width of a fitted encoder; None for none."""
    if encoder is None:
        return None
    if ENCODERS.get(type(encoder).__name__) is not type(encoder):
        known = ", ".join(sorted(ENCODERS))
        raise InvalidInputError(f"only an encoder that is fixed can be saved: one of {known}")
    return {
        "class": type(encoder).__name__,
        "parameters": encoder.get_params(deep=False),
        "n_features": int(encoder.n_features_in_),
    }


def _restore_encoder(description: Any) -> Encoder | None:
    """Return the encoder that was described, ready for use."""
    if description is None:
        return None
    try:
        kind, given = ENCODERS[description["class"]], description["parameters"]
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return fitted_encoder(kind(**plain), int(description["n_features"]))
    except (KeyError, TypeError, ValueError, AttributeError, MemoryError):
        raise FileFormatError("it names an encoder this version does not know") from None


def fitted_encoder(encoder: Any, n_features: int) -> Encoder:
    """Prepare a fixed encoder for rows of this length; it looks at no values."""
    return cast(Encoder, clone(encoder).fit(np.zeros((1, n_features))))


# --- arrays -----------------------------------------------------------------------------------------------


def _under(name: str, arrays: Mapping[str, AnyArray]) -> Arrays:
    return {f"{name}/{inner}": np.asarray(array, dtype=np.float64) for inner, array in arrays.items()}


def _array(arrays: Mapping[str, AnyArray], name: str, shape: tuple[int | None, ...]) -> Floats:
    """Return a finite array of float64 of the wanted shape; None stands for any length."""
    if name not in arrays:
        raise FileFormatError(f"the array {name} is missing")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != np.float64 or not np.isfinite(array).all():
        raise FileFormatError(f"the array {name} is not what it should be")
    return np.asarray(array)


def _positions(arrays: Mapping[str, AnyArray], name: str, n_classes: int) -> Index:
    """Return ascending positions among the classes."""
    found = _array(arrays, name, (None,)).astype(np.intp)
    if not len(found) or found.min() < 0 or found.max() >= n_classes or (np.diff(found) <= 0).any():
        raise FileFormatError(MISFIT)
    return found


def _projection(arrays: Mapping[str, AnyArray], name: str) -> Projection:
    axes = _array(arrays, f"{name}/axes", (None, None))
    return Projection(_array(arrays, f"{name}/mean", (len(axes),)), axes)
