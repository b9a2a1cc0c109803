"""Sources and transfer classifiers as a description and arrays, as an archive keeps them.

What is read is checked. What contains another thing keeps it under a name: a source its classifier or its
moments, a transfer classifier its source and its experts (see :func:`onefold._base.archive.nest`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from onefold import encoders, io
from onefold._base.archive import nest, part
from onefold._base.arrays import AnyArray, Arrays, Floats, Index
from onefold._base.foreign import MOST_WITHOUT_BYTES, NOT_READABLE, claimed
from onefold.encoders import Encoder
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError
from onefold.models import AutoencoderClassifier, MembershipMapping
from onefold.privacy import Guarantee, PrivateMoments
from onefold.tables import Schema
from onefold.transfer._description import Description, MomentDescription, RowDescription
from onefold.transfer.alignment import PROCRUSTES, DescriptionView, MeansView, Way, ways_to
from onefold.transfer.documented import Documented
from onefold.transfer.learners import (
    AutoencoderModel,
    GaussianModel,
    LinearModel,
    Mixture,
    Projection,
    TargetModel,
)
from onefold.transfer.pool import OF_TARGET, PRIOR, Default, Expert

if TYPE_CHECKING:
    from onefold.transfer.classifier import TransferClassifier
    from onefold.transfer.source import PrivateSource

SOURCE, CLASSIFIER = "private source", "transfer classifier"
ROW_ARRAYS = ("means", "counts", "mean_variances", "spread")
# Parameters that are kept; an estimator is used only in fit.
PARAMETERS = ("strategy", "components", "max_inducing", "allow_missing", "random_state")
ENCODERS: dict[str, type[Encoder]] = {
    kind.__name__: kind
    for kind in (encoders.GradientHistograms, encoders.LowFrequencyDCT, encoders.RandomFeatures)
}
# Parameters of encoders that say how much memory they take, and how many numbers that may be.
SIZES = ("n_outputs", "n_coefficients", "n_cells", "n_orientations")
LARGEST_MATRIX = 2**27
POSITIVE = float(np.nextafter(0.0, 1.0))  # the least number above zero
MISFIT = "the contents do not fit together"
SOURCE_ONLY = "only records of the source are meant: rows of the target are in this model as they are"
ONE_SOURCE_ONLY = (
    "only records of this source are meant: other sources have promises of their own, and rows of the target "
    "are in this model as they are"
)
# What a description or arrays of the wrong form make the code below raise.
WRONG_FORM = (OnefoldError, *NOT_READABLE)

About = dict[str, Any]


@dataclass(frozen=True)
class Parts:
    """A description and arrays: to be filled, or to be read with checks."""

    about: About = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    def add(self, name: str, about: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
        """Add a thing that this one contains."""
        for own, given in zip((self.about, self.arrays), nest(name, about, arrays), strict=True):
            own.update(given)

    def add_arrays(self, name: str, **arrays: AnyArray | None) -> None:
        """Add arrays under a name; those that are None are left out."""
        found = {f"{name}/{inner}": array for inner, array in arrays.items() if array is not None}
        self.arrays.update({inner: np.asarray(array, np.float64) for inner, array in found.items()})

    def inner(self, name: str) -> tuple[About, Arrays]:
        """Return the parts of a thing that this one contains."""
        return part(name, self.about, self.arrays)

    def array(self, name: str, *shape: int | None, least: float = -np.inf) -> Floats:
        """Return an array of finite numbers of at least ``least`` in the wanted shape; None is any length."""
        if name not in self.arrays:
            raise FileFormatError(f"the array {name} is missing")
        array = self.arrays[name]
        fits = array.ndim == len(shape) and all(
            wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
        )
        if not (fits and array.dtype == np.float64 and np.isfinite(array).all() and (array >= least).all()):
            raise FileFormatError(f"the array {name} is not what it should be")
        return np.asarray(array)

    def positions(self, name: str, n_classes: int) -> Index:
        """Return ascending positions among the classes."""
        found = self.array(name, None).astype(np.intp)
        if not len(found) or found.min() < 0 or found.max() >= n_classes or (np.diff(found) <= 0).any():
            raise FileFormatError(MISFIT)
        return found

    def width(self) -> int:
        """Return the number of features of rows, which an encoder may shorten before anything is kept."""
        held = sum(array.size for array in self.arrays.values())
        return claimed(self.about["n_features"], max(held, MOST_WITHOUT_BYTES), least=1)

    def projection(self, name: str) -> Projection:
        """Return a projection."""
        axes = self.array(f"{name}/axes", None, None)
        return Projection(self.array(f"{name}/mean", len(axes)), axes)

    def add_model(self, name: str, model: Any, compact: bool) -> None:
        """Add a model that this one contains."""
        self.arrays[f"{name}/model"] = np.frombuffer(io.to_bytes(model, compact=compact), dtype=np.uint8)

    def model(self, name: str) -> Any:
        """Return a model that this one contains."""
        return io.from_bytes(self.arrays[f"{name}/model"].tobytes())

    def classifier(self, name: str) -> AutoencoderClassifier:
        """Return a classifier by autoencoders."""
        classifier = self.model(name)
        if not isinstance(classifier, AutoencoderClassifier):
            raise FileFormatError(MISFIT)
        return classifier


# --- sources ----------------------------------------------------------------------------------------------


def parts_of_source(source: "PrivateSource", compact: bool = False) -> tuple[About, Arrays]:
    """Describe a source."""
    parts, described = Parts(), source.description_
    parts.about.update(
        guarantee=source.guarantee_.to_dict(),
        encoder=_describe_encoder(source.encoder_),
        n_features=source.n_features_in_,
        **_describe_schema(source.schema_),
    )
    parts.arrays["subspace"] = source.subspace_
    if isinstance(described, MomentDescription):
        parts.add("moments", *described.moments.to_parts())
    elif isinstance(described, RowDescription):
        parts.arrays.update({name: getattr(described, name) for name in ROW_ARRAYS})
        parts.arrays["rest"] = np.array([described.rest])
        parts.add_model("classifier", described.classifier, compact)
    return parts.about, parts.arrays


def all_sources(
    source: "PrivateSource | None", sources: "Sequence[PrivateSource] | None"
) -> "tuple[PrivateSource, ...]":
    """Return the sources of a classifier, however they were given."""
    return tuple(sources or ()) if source is None else (source,)


def promise_to(
    source: "PrivateSource | None", sources: "Sequence[PrivateSource] | None" = None
) -> Guarantee | tuple[Guarantee, ...] | None:
    """Return what a classifier for a target promises: to the records of its sources, and to no others.

    Several sources protect different records, each with its own numbers: there is no number for all.
    """
    if sources is not None:
        return tuple(each.guarantee_.provided(ONE_SOURCE_ONLY) for each in sources)
    return None if source is None else source.guarantee_.provided(SOURCE_ONLY)


def names_of_sources(about: About) -> tuple[str, ...]:
    """Return under which names a transfer classifier keeps its sources."""
    if "n_sources" not in about:
        return ("source",) if "source" in about else ()
    return tuple(f"source {number}" for number in range(1, claimed(about["n_sources"], len(about)) + 1))


def source_from_parts(about: About, arrays: Arrays) -> dict[str, Any]:
    """Return what the constructor of a source takes; contents that do not fit together are refused."""
    try:
        return _source_from(Parts(about, arrays))
    except FileFormatError:
        raise
    except WRONG_FORM:
        raise FileFormatError("the contents are not those of a source") from None


def _source_from(parts: Parts) -> dict[str, Any]:
    guarantee, width = Guarantee.from_dict(parts.about["guarantee"]), parts.width()
    encoder, described = _restore_encoder(parts.about["encoder"]), _description_from(parts)
    subspace = parts.array("subspace", None, described.means.shape[1])
    schema = _restore_schema(parts.about)
    row = np.zeros((1, width))
    n_encoded = (row if encoder is None else encoder.transform(row)).shape[1]
    fits = len(subspace) >= 1 and n_encoded == subspace.shape[1]
    if not schema.plain:
        fits = fits and (schema.width, schema.digest) == (width, guarantee.schema)
    if isinstance(described, MomentDescription):
        # The moments carry their own guarantee, which was checked against their noise: no other may be told.
        own = described.moments.guarantee_
        fits = fits and replace(guarantee, voided_by=(), conditions=()) == replace(
            own, voided_by=(), conditions=()
        )
        guarantee = own.join(guarantee) if fits else guarantee
    if not fits:
        raise FileFormatError(MISFIT)
    return {
        "description_": described,
        "subspace_": subspace,
        "guarantee_": guarantee,
        "encoder_": encoder,
        "n_features_in_": width,
        "schema_": schema,
    }


def _description_from(parts: Parts) -> Description:
    if "moments" in parts.about:
        return MomentDescription(PrivateMoments.from_parts(*parts.inner("moments")))
    classifier = parts.classifier("classifier")
    count = len(classifier.classes_)
    means = parts.array("means", count, int(classifier.n_features_in_))
    counts = parts.array("counts", count, least=1.0)
    variances = parts.array("mean_variances", count, least=0.0)
    spread, rest = parts.array("spread", None, means.shape[1]), parts.array("rest", 1, least=0.0)
    return RowDescription(classifier, means, counts, variances, spread, float(rest[0]))


# --- transfer classifiers ---------------------------------------------------------------------------------


def parts_of_classifier(model: "TransferClassifier", compact: bool = False) -> tuple[About, Arrays]:
    """Describe a fitted transfer classifier with its source."""
    classes = model.classes_.tolist()
    if json.loads(json.dumps(classes)) != classes:
        raise InvalidInputError("class labels must be all strings or all numbers to be saved")
    parts, strategy = Parts(), model._strategy
    given = {name: getattr(model, name) for name in PARAMETERS}
    parts.about.update(
        parameters=given | {"components": [int(count) for count in model.components]},
        to_source=_describe_encoder(model._to_source),
        classes=classes,
        n_features=int(model.n_features_in_),
        names=[str(name) for name in getattr(model, "feature_names_in_", [])],
        source_gain=model.source_gain_,
        decisions_changed=model.decisions_changed_,
        held_out=[model.accuracy_, model.majority_],
        **_describe_schema(model.schema_),
    )
    if isinstance(strategy, Default):
        _add_default(parts, strategy, compact)
    else:
        _add_documented(parts, strategy, compact)
    if model.source is not None:
        parts.add("source", *parts_of_source(model.source, compact))
    elif model.sources is not None:
        parts.about["n_sources"] = len(model.sources)
        for number, source in enumerate(model.sources, 1):
            parts.add(f"source {number}", *parts_of_source(source, compact))
    return parts.about, parts.arrays


def classifier_from_parts(
    about: About, arrays: Arrays, given: "Sequence[PrivateSource]"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes; contents that do not fit together are refused."""
    try:
        return _classifier_from(Parts(about, arrays), given)
    except FileFormatError:
        raise
    except WRONG_FORM:
        raise FileFormatError("the contents are not those of a transfer classifier") from None


def _classifier_from(
    parts: Parts, sources: "Sequence[PrivateSource]"
) -> tuple[dict[str, Any], dict[str, Any]]:
    about = parts.about
    turned, width = about["to_source"] == PROCRUSTES, parts.width()
    to_source: Any = PROCRUSTES if turned else _restore_encoder(about["to_source"])
    given = {name: about["parameters"][name] for name in PARAMETERS}
    classes = np.array(about["classes"])
    known = all(np.array_equal(classes, source.classes_) for source in sources)
    if classes.ndim != 1 or not len(classes) or not known:
        raise FileFormatError("its classes are not those of its source")
    schema, (accuracy, majority) = _restore_schema(about), about["held_out"]
    if not schema.plain and schema.width != width:
        raise FileFormatError(MISFIT)
    ways = ways_to(sources, to_source)
    strategy: Default | Documented
    if given["strategy"] == "default":
        strategy = _default_from(parts, ways, len(classes))
    elif len(ways) > 1:
        raise FileFormatError(MISFIT)
    else:
        strategy = _documented_from(parts, ways[0], len(classes), width)
    strategy.decide(np.zeros((1, width)))  # what does not fit fails here and not in use
    several = "n_sources" in about
    together: dict[str, Any] = {
        "source": None if several or not sources else sources[0],
        "sources": list(sources) if several else None,
    }
    fitted = {
        "_strategy": strategy,
        "_to_source": to_source,
        "classes_": classes,
        "n_features_in_": width,
        "source_gain_": about["source_gain"],
        "decisions_changed_": int(about["decisions_changed"]),
        "guarantee_": promise_to(**together),
        "schema_": schema,
        "accuracy_": accuracy,
        "majority_": majority,
        "weights_": strategy.named_weights if isinstance(strategy, Default) else None,
    }
    if about["names"]:
        fitted["feature_names_in_"] = np.array([str(name) for name in about["names"]], dtype=object)
    return given | together | {"to_source": to_source, "schema": schema}, fitted


def _add_default(parts: Parts, strategy: Default, compact: bool) -> None:
    for name in ("scale", "weight", "alone"):
        parts.arrays[f"{name}s"] = np.array([getattr(expert, name) for expert in strategy.experts])
    parts.add_arrays("default", present=strategy.present)
    for expert in strategy.experts:
        _add_model(parts, expert.name, expert.model, compact)
    parts.about["flags"] = {
        "own": strategy.own,
        "experts": [expert.name for expert in strategy.experts],
        "kinds": [expert.kind for expert in strategy.experts],
        "ways": [expert.way for expert in strategy.experts],
        "gain": strategy.gain,
    }


def _default_from(parts: Parts, ways: tuple[Way, ...], n_classes: int) -> Default:
    flags = parts.about["flags"]
    names, kinds = tuple(flags["experts"]), tuple(flags["kinds"])
    own, *places = (
        None if place is None else claimed(place, len(ways) - 1) for place in (flags["own"], *flags["ways"])
    )
    if not set(OF_TARGET) <= set(kinds) <= set(PRIOR) or len(set(names)) < len(names):
        raise FileFormatError(MISFIT)
    scales = parts.array("scales", len(names), least=POSITIVE)
    weights, alone = (parts.array(name, len(names), least=0.0) for name in ("weights", "alones"))
    if any(share > 0.0 for kind, share in zip(kinds, alone, strict=True) if kind not in OF_TARGET):
        raise FileFormatError(MISFIT)
    numbers = zip(scales.tolist(), weights.tolist(), alone.tolist(), strict=True)
    experts = tuple(
        Expert(name, kind, _model_from(parts, name, kind, n_classes, ways[place or 0]), place, *each)
        for name, kind, place, each in zip(names, kinds, places, numbers, strict=True)
    )
    present = parts.positions("default/present", n_classes)
    return Default(ways, own, experts, n_classes, present, float(flags["gain"]))


def _add_documented(parts: Parts, strategy: Documented, compact: bool) -> None:
    parts.add_model("classifier", strategy.target, compact)
    parts.arrays["codes"] = strategy.target_codes.astype(np.float64)
    if strategy.mapping is not None:
        parts.add_model("mapping", strategy.mapping, compact)
    if strategy.way.matrix is not None:
        parts.arrays["matrix"] = strategy.way.matrix
    parts.about["flags"] = {"mapping": strategy.mapping is not None}


def _documented_from(parts: Parts, way: Way, n_classes: int, width: int) -> Documented:
    if "matrix" in parts.arrays:
        if way.source is None:
            raise FileFormatError(MISFIT)
        way = replace(way, matrix=parts.array("matrix", way.source.n_encoded_, width))
    target, codes = parts.classifier("classifier"), parts.positions("codes", n_classes)
    mapping = parts.model("mapping") if parts.about["flags"]["mapping"] else None
    fits = len(codes) == len(target.classes_)
    if mapping is not None:
        fits = fits and isinstance(mapping, MembershipMapping)
        fits = fits and mapping.n_features_in_ == target.n_features_in_
    if not fits:
        raise FileFormatError(MISFIT)
    return Documented(way, target, codes, mapping, n_classes)


# --- experts ----------------------------------------------------------------------------------------------


def _add_model(parts: Parts, name: str, model: TargetModel, compact: bool) -> None:
    """Add an expert under a name."""
    if isinstance(model, AutoencoderModel):
        parts.add_model(f"{name}/classifier", model.classifier, compact)
        parts.add_arrays(name, present=model.present)
    elif isinstance(model, GaussianModel):
        parts.add_arrays(name, present=model.present, **vars(model.projection), **vars(model.mixture))
    elif isinstance(model, LinearModel):
        arrays = {"mean": model.mean, "weights": model.weights, "offset": model.offset}
        parts.add_arrays(name, present=model.present, **arrays)
    elif isinstance(model, MeansView):
        arrays = {"centres": model.centres, "variances": model.variances}
        parts.add_arrays(name, **vars(model.projection), **arrays)
    # The source itself is in the file already.


def _model_from(parts: Parts, name: str, kind: str, n_classes: int, way: Way) -> TargetModel:
    if kind == "source":
        if way.source is None:
            raise FileFormatError(MISFIT)
        described = way.source.description_
        if f"{name}/centres" not in parts.arrays:
            return DescriptionView(described)
        projection = parts.projection(name)
        size = projection.axes.shape[1]
        centres = parts.array(f"{name}/centres", len(described.means), size)
        return MeansView(projection, centres, parts.array(f"{name}/variances", size, least=POSITIVE))
    present = parts.positions(f"{name}/present", n_classes)
    if kind == "least squares":
        weights = parts.array(f"{name}/weights", None, n_classes)
        mean, offset = parts.array(f"{name}/mean", len(weights)), parts.array(f"{name}/offset", n_classes)
        return LinearModel(mean, weights, offset, present)
    if f"{name}/classifier/model" in parts.arrays:
        classifier = parts.classifier(f"{name}/classifier")
        if len(classifier.classes_) != len(present):
            raise FileFormatError(MISFIT)
        return AutoencoderModel(classifier, present)
    projection = parts.projection(name)
    count, size = len(present), projection.axes.shape[1]
    mixture = Mixture(
        parts.array(f"{name}/means", count, size),
        parts.array(f"{name}/whitening", count, size, size),
        parts.array(f"{name}/offsets", count),
    )
    return GaussianModel(projection, mixture, present)


# --- schemas, where rows are those of a table -------------------------------------------------------------


def _describe_schema(schema: Schema) -> About:
    return {"schema": schema.to_dict()}


def _restore_schema(about: About) -> Schema:
    return Schema.from_dict(about["schema"])


# --- encoders: their name and parameters, never their state -----------------------------------------------


def _describe_encoder(encoder: Any) -> About | str | None:
    """Return name, parameters and width of a fitted encoder; None for none, a word for a turned source."""
    if encoder is None or (isinstance(encoder, str) and encoder == PROCRUSTES):
        return encoder
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
        width = claimed(description["n_features"], MOST_WITHOUT_BYTES, least=1)
        sizes = [value for name, value in plain.items() if name in SIZES and type(value) is int]
        claimed(width * max(sizes, default=1), LARGEST_MATRIX)
        return fitted_encoder(kind(**plain), width)
    except NOT_READABLE:
        raise FileFormatError("it names an encoder this version does not know") from None


def fitted_encoder(encoder: Any, n_features: int) -> Encoder:
    """Prepare a fixed encoder for rows of this length; it looks at no values."""
    return cast(Encoder, clone(encoder).fit(np.zeros((1, n_features))))
