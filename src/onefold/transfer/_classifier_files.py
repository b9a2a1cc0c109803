"""Transfer classifiers in files: the source, the strategy's experts, and how they are combined."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onefold import io
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError
from onefold.transfer._archive import array_bytes, array_from, pack, unpack
from onefold.transfer._decision import EXPERTS
from onefold.transfer._default import Default
from onefold.transfer._documented import Documented
from onefold.transfer._encoding import describe_encoder, restore_encoder
from onefold.transfer._model_files import (
    classifier_from,
    mapping_from,
    model_from,
    model_parts,
    positions_from,
    view_from,
    view_parts,
)
from onefold.transfer._spaces import Way
from onefold.transfer.source import PrivateSource

if TYPE_CHECKING:
    from onefold.transfer.classifier import TransferClassifier

__all__ = ["KIND", "pack_classifier", "unpack_classifier"]

KIND = "transfer classifier"
FORMAT = 1
# Parameters that are kept; an estimator's only use is in fit.
PARAMETERS = ("strategy", "components", "max_inducing", "allow_missing", "random_state")

Parts = dict[str, bytes]


def pack_classifier(model: "TransferClassifier") -> bytes:
    """The bytes of a file."""
    strategy = model._strategy
    parts: Parts = {} if model.source is None else {"source": model.source.to_bytes()}
    if isinstance(strategy, Default):
        flags, own = _default_parts(strategy)
    elif isinstance(strategy, Documented):
        flags, own = _documented_parts(strategy)
    given = {name: getattr(model, name) for name in PARAMETERS}
    about = {
        "parameters": given | {"components": [int(count) for count in model.components]},
        "to_source": describe_encoder(model._to_source),
        "classes": _plain(model.classes_),
        "n_features": int(model.n_features_in_),
        "names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "source_gain": model.source_gain_,
        "decisions_changed": model.decisions_changed_,
        "flags": flags,
    }
    return pack(KIND, FORMAT, about, parts | own)


def unpack_classifier(packed: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and fitted attributes; contents that do not fit together are refused."""
    about, parts = unpack(KIND, FORMAT, packed)
    try:
        source = PrivateSource.from_bytes(parts["source"]) if "source" in parts else None
        to_source, width = restore_encoder(about["to_source"]), int(about["n_features"])
        given = {name: about["parameters"][name] for name in PARAMETERS}
        classes = np.array(about["classes"])
        if classes.ndim != 1 or not len(classes) or (source and not np.array_equal(classes, source.classes_)):
            raise FileFormatError("its classes are not those of its source")
        kind = _default_from if given["strategy"] == "default" else _documented_from
        strategy = kind(about["flags"], parts, source, to_source, len(classes), width)
        strategy.decide(np.zeros((1, width)))  # what does not fit fails here and not in use
        fitted = {
            "_strategy": strategy,
            "_to_source": to_source,
            "classes_": classes,
            "n_features_in_": width,
            "source_gain_": about["source_gain"],
            "decisions_changed_": int(about["decisions_changed"]),
            "guarantee_": None if source is None else source.guarantee_,
            "weights_": _named(strategy.weights) if isinstance(strategy, Default) else None,
        }
        if about["names"]:
            fitted["feature_names_in_"] = np.array([str(name) for name in about["names"]], dtype=object)
    except FileFormatError:
        raise
    except (OnefoldError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise FileFormatError("the contents are not those of a transfer classifier") from None
    return given | {"source": source, "to_source": to_source}, fitted


def _named(weights: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(EXPERTS, weights.tolist(), strict=True))


def _plain(classes: NDArray[Any]) -> list[Any]:
    """Class labels as JSON has them."""
    plain = classes.tolist()
    if json.loads(json.dumps(plain)) != plain:
        raise InvalidInputError("class labels must be all strings or all numbers to be saved")
    return list(plain)


def _default_parts(strategy: Default) -> tuple[dict[str, Any], Parts]:
    parts = model_parts("target", strategy.target)
    parts |= {name: array_bytes(getattr(strategy, name)) for name in ("scales", "weights")}
    if strategy.mapping is not None:
        parts |= model_parts("mapping", strategy.mapping)
    if strategy.view is not None:
        parts |= view_parts("view", strategy.view)
    flags = {
        "own_rows": strategy.own_rows,
        "view_placed": strategy.view_placed,
        "mapping": strategy.mapping is not None,
        "view": None if strategy.view is None else strategy.view.name,
        "gain": strategy.gain,
    }
    return flags, parts


def _default_from(
    flags: Mapping[str, Any], parts: Parts, source: Any, to_source: Any, n_classes: int, width: int
) -> Default:
    scales, weights = (array_from(parts, name, (len(EXPERTS),)) for name in ("scales", "weights"))
    if not ((scales > 0.0).all() and (weights >= 0.0).all()):
        raise FileFormatError("the contents do not fit together")
    view = None
    if flags["view"] is not None:
        view = view_from("view", parts, str(flags["view"]), source.description_)
    return Default(
        Way(source, to_source),
        bool(flags["own_rows"]),
        model_from("target", parts, n_classes),
        model_from("mapping", parts, n_classes) if flags["mapping"] else None,
        view,
        bool(flags["view_placed"]),
        scales,
        weights,
        n_classes,
        float(flags["gain"]),
    )


def _documented_parts(strategy: Documented) -> tuple[dict[str, Any], Parts]:
    parts = {
        "classifier": io.to_bytes(strategy.target),
        "codes": array_bytes(strategy.target_codes.astype(np.float64)),
    }
    if strategy.mapping is not None:
        parts["mapping"] = io.to_bytes(strategy.mapping)
    if strategy.way.matrix is not None:
        parts["matrix"] = array_bytes(strategy.way.matrix)
    return {"mapping": strategy.mapping is not None}, parts


def _documented_from(
    flags: Mapping[str, Any], parts: Parts, source: Any, to_source: Any, n_classes: int, width: int
) -> Documented:
    matrix = None
    if "matrix" in parts:
        matrix = array_from(parts, "matrix", (source.n_encoded_, width))
    target = classifier_from(parts, "classifier")
    codes = positions_from(parts, "codes", n_classes)
    if len(codes) != len(target.classes_):
        raise FileFormatError("the contents do not fit together")
    mapping = mapping_from(parts, "mapping", int(target.n_features_in_)) if flags["mapping"] else None
    return Documented(Way(source, to_source, matrix), target, codes, mapping, n_classes)
