"""What of a fitted model goes into a file: its parameters as JSON, what it has learned as arrays."""

from typing import Any

import numpy as np

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.io._archive import Arrays
from onefold.models import (
    KAHM,
    Autoencoder,
    AutoencoderClassifier,
    ClassModels,
    DeepFuzzyAutoencoder,
    DeepFuzzyModel,
    DeepKAHM,
    DeepMembershipAutoencoder,
    FoldingClassifier,
    MembershipMapping,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
)
from onefold.models.pool import Pool

__all__ = ["MAPPING", "Model", "Regression", "arrays_of", "build", "description_of", "family_of"]

MAPPING = "mapping/"  # arrays of a regression
MODELS: dict[str, type] = {
    model.__name__: model
    for model in (
        KAHM,
        DeepKAHM,
        WideKAHM,
        DeepMembershipAutoencoder,
        WideMembershipAutoencoder,
        DeepFuzzyAutoencoder,
        WideFuzzyAutoencoder,
        AutoencoderClassifier,
        FoldingClassifier,
        MembershipMapping,
        DeepFuzzyModel,
    )
}

Regression = MembershipMapping | DeepFuzzyModel  # they save and restore themselves
Model = Autoencoder | ClassModels | Regression


def description_of(model: Model) -> dict[str, Any]:
    """What a manifest says about a fitted model."""
    if type(model).__name__ not in MODELS:
        known = ", ".join(sorted(MODELS))
        raise InvalidInputError(f"cannot save a {type(model).__name__}: not one of {known}")
    learned = {"MembershipMapping": "mapping_", "DeepFuzzyModel": "precisions_"}
    if not hasattr(model, learned.get(type(model).__name__, "pool_")):
        raise InvalidInputError("only a fitted model can be saved: call fit first")
    guarantee = getattr(model, "guarantee_", None)
    return {
        "model": _describe(model),
        **({} if isinstance(model, Regression) else _describe_pool(model.pool_)),
        "n_features": int(model.n_features_in_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        **({} if guarantee is None else {"guarantee": guarantee.to_dict()}),
    }


def _describe_pool(pool: Pool) -> dict[str, Any]:
    numbers = {"unit": pool.unit, "factor": pool.factor, "n_groups": pool.n_groups}
    return {"pool": numbers, "n_stacks": len(pool.stacks)}


def arrays_of(model: Model) -> Arrays:
    """What a fitted model has learned; factors that can be rebuilt are left out."""
    if isinstance(model, Regression):
        return {f"{MAPPING}{name}.npy": array for name, array in model.state().items()}
    pool, family = model.pool_, family_of(model)
    arrays: Arrays = {}
    for index, stack in enumerate(pool.stacks):
        for name, array in family.stack_state(stack).items():
            arrays[f"stack{index}/{name}.npy"] = array
        arrays[f"stack{index}/owners.npy"] = pool.owners[index]
        arrays[f"stack{index}/positions.npy"] = pool.positions[index]
    if hasattr(model, "classes_"):
        classes = np.asarray(model.classes_)
        if classes.dtype == object:  # strings from pandas and the like
            if not all(isinstance(label, str) for label in classes):
                raise InvalidInputError("class labels must be all strings or all numbers to be saved")
            classes = classes.astype(np.str_)
        arrays["classes.npy"] = classes
    return arrays


def family_of(model: Autoencoder | ClassModels) -> Autoencoder:
    """The autoencoder that knows how its stacks are saved and rebuilt."""
    return model if isinstance(model, Autoencoder) else model.prototype()


def _describe(model: Any) -> dict[str, Any]:
    """Class name and parameters, nested estimators included, as JSON."""
    parameters = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, Autoencoder):
            value = _describe(value)
        elif isinstance(value, np.generic):
            value = value.item()
        elif not isinstance(value, (str, int, float, bool, type(None))):
            value = None  # a generator: its state is of no use after fitting
        parameters[name] = value
    return {"class": type(model).__name__, "parameters": parameters}


def build(description: dict[str, Any]) -> Any:
    """The model with these parameters, not fitted."""
    kind = MODELS.get(description["class"])
    if kind is None:
        raise FileFormatError("it holds a kind of model this version does not know")
    values = description["parameters"].items()
    return kind(**{name: build(value) if isinstance(value, dict) else value for name, value in values})
