"""Fitted models as a description and arrays, and back.

The stacks of a model are written together, each array of all stacks one after the other: a model of many
branches is then a few large arrays, which are read at once and used where they lie.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Arrays
from onefold._base.foreign import NOT_READABLE, TOO_LARGE, claimed
from onefold._base.parallel import run_parallel
from onefold.exceptions import FileFormatError, InvalidInputError
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
    FoldingRegressor,
    MembershipMapping,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
    check_measure,
)
from onefold.models.compose import Regression
from onefold.models.head import EncodedColumns, TableHead
from onefold.models.pool import Pool, Stack
from onefold.models.preparation import Preparation, Settings
from onefold.models.probability import Beliefs, LeftOut
from onefold.privacy import Guarantee
from onefold.tables import Schema

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
        FoldingRegressor,
        MembershipMapping,
        DeepFuzzyModel,
    )
}
OWN = frozenset(MODELS)  # families of other packages are added by ``register``
Model = Autoencoder | ClassModels | Regression | FoldingRegressor

MACHINES = "machines/"  # arrays of the machines of a folding regressor
MAPPING = "mapping/"  # arrays of a regression
BELIEFS = "beliefs/"  # arrays of a classifier without a head: how its distances become probabilities
PREPARATION = "preparation/"  # and of the units of its columns
HEAD = "head/"  # arrays of the head of a classifier of tables
STACKS = "stacks/"  # arrays of all stacks, one after the other
SHAPES = ".shapes"  # and their shapes, one per stack
ABSENT = -1  # length of the array of a stack that does not have it


# --- to a description and arrays --------------------------------------------------------------------------


def to_parts(model: Model, compact: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Describe a fitted model by JSON values and arrays, for an archive that holds more than the model.

    Parameters
    ----------
    model : fitted model
        One of onefold's autoencoders, classifiers or regressions.
    compact : bool, default=False
        Leave out what can be computed again from the samples.

    Returns
    -------
    about : dict
        Its class, parameters and other JSON values.
    arrays : dict of str to ndarray
        What it has learned.

    See Also
    --------
    from_parts : Make the model again.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import KAHM, io
    >>> about, arrays = io.to_parts(KAHM(1, scale=1.0).fit(np.eye(3)))
    >>> about["model"]["class"]
    'KAHM'
    """
    description = _describe(model)
    learned = {
        "MembershipMapping": "mapping_",
        "DeepFuzzyModel": "precisions_",
        "FoldingRegressor": "machines_",
    }
    if not hasattr(model, learned.get(type(model).__name__, "pool_")):
        raise InvalidInputError("only a fitted model can be saved: call fit first")
    guarantee = getattr(model, "guarantee_", None)
    about = {
        "model": description,
        "n_features": int(model.n_features_in_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        **({} if guarantee is None else {"guarantee": guarantee.to_dict()}),
    }
    if isinstance(model, FoldingRegressor):
        about["machines"], inner = to_parts(model.machines_, compact)
        arrays = {MACHINES + name: array for name, array in inner.items()}
        return about, arrays | {MAPPING + name: array for name, array in model.state().items()}
    if isinstance(model, Regression):
        return about, {MAPPING + name: array for name, array in model.state().items()}
    pool, family = model.pool_, _family_of(model)
    about["pool"] = {"unit": pool.unit, "factor": pool.factor, "n_groups": pool.n_groups}
    about["compact"] = compact
    states = [
        {**family.stack_state(stack, compact), "owners": owners, "positions": positions}
        for stack, owners, positions in zip(pool.stacks, pool.owners, pool.positions, strict=True)
    ]
    arrays = _joined(states)
    if isinstance(model, ClassModels):
        arrays["classes"] = _plain_classes(model.classes_)
        settings = model.settings_
        about["settings"] = {"batch_size": settings.batch_size, "regularisation": settings.regularisation}
        if hasattr(model, "tuned_"):
            about["tuned"] = model.tuned_
        if settings.preparation is not None:
            arrays[PREPARATION + "location"] = settings.preparation.location
            arrays[PREPARATION + "scale"] = settings.preparation.scale
        if model.schema is not None:
            about["schema"] = model.schema.to_dict()
        if hasattr(model, "head_"):
            arrays |= {HEAD + name: array for name, array in model.head_.state().items()}
        elif hasattr(model, "left_out_"):
            arrays |= {BELIEFS + name: array for name, array in model.beliefs_.state().items()}
    return about, arrays


def _describe(model: Any) -> dict[str, Any]:
    """Class name and parameters, nested estimators included, as JSON."""
    kind = type(model)
    if MODELS.get(kind.__name__) is not kind:  # it could not be read again
        known = ", ".join(sorted(MODELS))
        raise InvalidInputError(f"cannot save a {kind.__name__}: not one of {known}")
    parameters = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, Autoencoder):
            value = _describe(value)
        elif isinstance(value, np.generic):
            value = value.item()
        elif not isinstance(value, (str, int, float, bool, type(None))):
            value = None  # a schema is kept beside the parameters; of a generator nothing is of use
        parameters[name] = value
    return {"class": kind.__name__, "parameters": parameters}


def _family_of(model: Autoencoder | ClassModels) -> Autoencoder:
    """Return the autoencoder that knows how its stacks are saved and rebuilt."""
    return model if isinstance(model, Autoencoder) else model.family


def _plain_classes(labels: Any) -> AnyArray:
    classes = np.asarray(labels)
    if classes.dtype == object:  # strings from pandas and the like
        if not all(isinstance(label, str) for label in classes):
            raise InvalidInputError("class labels must be all strings or all numbers to be saved")
        classes = classes.astype(np.str_)
    return classes


def _joined(states: Sequence[Arrays]) -> Arrays:
    """Put the arrays of one name of all stacks one after the other, and note their shapes."""
    joined: Arrays = {}
    for name in dict.fromkeys(name for state in states for name in state):
        found = [state[name] for state in states if name in state]
        absent = (ABSENT,) * found[0].ndim
        shapes = [state[name].shape if name in state else absent for state in states]
        joined[STACKS + name] = np.concatenate([array.ravel() for array in found])
        joined[STACKS + name + SHAPES] = np.array(shapes, dtype=np.int64)
    return joined


# --- and back ---------------------------------------------------------------------------------------------


def from_parts(
    about: Mapping[str, Any], arrays: Mapping[str, AnyArray], largest_machine: int | None = None
) -> Any:
    """Make the model that :func:`to_parts` described; right checksums do not make its contents right.

    Parameters
    ----------
    about : mapping
        The JSON values.
    arrays : mapping of str to ndarray
        The arrays; the model may keep them.
    largest_machine : int or None, default=None
        Refuse machines of more samples than this.

    Returns
    -------
    model
        The fitted model.

    Raises
    ------
    FileFormatError
        No fitted model has such contents.

    See Also
    --------
    to_parts : Describe a model.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import KAHM, io
    >>> model = KAHM(1, scale=1.0).fit(np.eye(3))
    >>> io.from_parts(*io.to_parts(model))
    KAHM(n_components=1, scale=1.0)
    """
    try:
        return _made(about, arrays, largest_machine)
    except FileFormatError:
        raise
    except MemoryError:
        raise FileFormatError(TOO_LARGE) from None
    except NOT_READABLE:
        raise FileFormatError("the contents are not those of a model") from None


def _made(about: Mapping[str, Any], arrays: Mapping[str, AnyArray], largest_machine: int | None) -> Any:
    model = _build(about["model"])
    # Every feature has a number in some array, whatever the kind of model.
    claimed(about["n_features"], sum(array.size for array in arrays.values()), least=1)
    if isinstance(model, FoldingRegressor):
        if about["machines"]["model"]["class"] != FoldingClassifier.__name__:
            raise FileFormatError("damaged: its machines are of another kind")
        machines = _made(about["machines"], _below(MACHINES, arrays), largest_machine)
        model.restore(_below(MAPPING, arrays), machines, about["n_features"])
    elif isinstance(model, Regression):
        model.restore(_below(MAPPING, arrays), about["n_features"])
    else:
        if "schema" in about:
            model.schema = Schema.from_dict(about["schema"])
        if isinstance(model, ClassModels):
            _restore_settings(model, about, arrays)
        _restore_pool(model, about, arrays, largest_machine)
        _restore_head(model, about["n_features"], arrays)
        _restore_beliefs(model, about["n_features"], arrays)
    model.n_features_in_ = about["n_features"]
    names = about["feature_names"]
    if names:
        if [type(name) for name in names] != [str] * about["n_features"]:
            raise FileFormatError("damaged: its columns do not have one name each")
        model.feature_names_in_ = np.array(names, dtype=object)
    if "guarantee" in about:
        model.guarantee_ = Guarantee.from_dict(about["guarantee"])
    return model


def _below(prefix: str, arrays: Mapping[str, AnyArray]) -> Arrays:
    """The arrays whose names begin with a prefix, without it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _build(description: dict[str, Any]) -> Any:
    """Return the model with these parameters, not fitted."""
    kind = MODELS.get(description["class"])
    if kind is None:
        raise FileFormatError("it holds a kind of model this version does not know")
    values = description["parameters"].items()
    return kind(**{name: _build(value) if isinstance(value, dict) else value for name, value in values})


def _restore_settings(model: ClassModels, about: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """What a fit settled."""
    found, preparation = about["settings"], None
    if PREPARATION + "scale" in arrays:
        preparation = Preparation(arrays[PREPARATION + "location"], arrays[PREPARATION + "scale"])
        if len(preparation.scale) != about["n_features"]:
            raise FileFormatError("damaged: its preparation does not fit its columns")
        if model.preparation is None:  # one that was given, which parameters do not hold
            model.preparation = preparation
    if "tuned" in about and isinstance(model, AutoencoderClassifier):
        model.tuned_ = dict(about["tuned"])
    model.settings_ = Settings(preparation, found["batch_size"], found["regularisation"])


def _restore_pool(
    model: Any, about: Mapping[str, Any], arrays: Mapping[str, AnyArray], largest_machine: int | None
) -> None:
    family, pool = _family_of(model), about["pool"]
    states = _separated(arrays)
    sizes = [state["centred"].shape[1] for state in states if "centred" in state]
    if largest_machine is not None and max(sizes, default=0) > largest_machine:
        raise FileFormatError(f"it has a machine of more than {largest_machine} samples")
    _check_values(pool, states, arrays)
    # A machine is fitted again from its samples, which takes the square of their number: they must be there.
    samples = [state["centred"] for state in states if "centred" in state]
    if any(each.shape[2:] != (about["n_features"],) or each.dtype.kind != "f" for each in samples):
        raise FileFormatError("damaged: its samples do not have its features")
    if isinstance(model, ClassModels):
        check_measure(model.measure)
    family.check_parameters()

    def restored(state: Arrays) -> Stack:
        return family.stack_from_state(state, pool["factor"])

    if about["compact"]:  # every machine is fitted again
        stacks = run_parallel(restored, states, model.n_jobs, "loading", show_progress=None)
    else:
        stacks = [restored(state) for state in states]
    owners = tuple(state["owners"].astype(np.intp) for state in states)
    positions = tuple(state["positions"].astype(np.intp) for state in states)
    for stack, *numbers in zip(stacks, owners, positions, strict=True):
        each = (stack.n_machines,)
        fitting = stack.centres.shape == (*each, about["n_features"]) and stack.centres.dtype.kind == "f"
        if not fitting or [n.shape for n in numbers] != [each, each]:
            raise FileFormatError("damaged: its arrays do not fit each other")
    model.pool_ = Pool(tuple(stacks), owners, positions, pool["n_groups"], pool["unit"], pool["factor"])
    model.scale_ = pool["factor"] / pool["unit"]
    if isinstance(model, ClassModels):
        model.classes_ = arrays["classes"]


def _restore_head(model: Any, n_features: int, arrays: Mapping[str, AnyArray]) -> None:
    """The head of a classifier of tables, where there is one."""
    schema = getattr(model, "schema", None)
    state = {name[len(HEAD) :]: array for name, array in arrays.items() if name.startswith(HEAD)}
    if schema is not None and schema.width != n_features:
        raise FileFormatError("damaged: its schema does not fit its arrays")
    if state:
        model.head_ = TableHead.from_state(
            EncodedColumns.plain(n_features) if schema is None else EncodedColumns.of(schema), state
        )
        if len(model.head_.offset_) != len(model.classes_):
            raise FileFormatError("damaged: its head does not fit its classes")


def _restore_beliefs(model: Any, n_features: int, arrays: Mapping[str, AnyArray]) -> None:
    """How distances become probabilities, where the file tells it."""
    state = {name[len(BELIEFS) :]: array for name, array in arrays.items() if name.startswith(BELIEFS)}
    if state:
        beliefs = Beliefs.from_state(state, len(model.classes_))
        model.left_out_ = LeftOut.known_as(model.measure, beliefs, n_features)


def _separated(arrays: Mapping[str, AnyArray]) -> list[Arrays]:
    """Return the arrays of each stack, on the memory of those of all."""
    names = [name[len(STACKS) : -len(SHAPES)] for name in arrays if name.endswith(SHAPES)]
    n_stacks = claimed(len(arrays[f"{STACKS}owners{SHAPES}"]), arrays[f"{STACKS}owners"].size, least=1)
    states: list[Arrays] = [{} for _ in range(n_stacks)]
    for name in names:
        joined, shapes = arrays[STACKS + name], arrays[STACKS + name + SHAPES].tolist()
        start = 0
        for state, shape in zip(states, shapes, strict=True):
            if ABSENT not in shape:
                end = start + math.prod(shape)
                state[name] = joined[start:end].reshape(shape)
                start = end
        if start != len(joined):
            raise FileFormatError("damaged: its arrays do not fit their shapes")
    return states


def _check_values(pool: Mapping[str, Any], states: Sequence[Arrays], arrays: Mapping[str, AnyArray]) -> None:
    """Refuse numbers that no fitted model has."""
    n_groups = pool["n_groups"]
    floats = [array for array in arrays.values() if array.dtype.kind == "f" and array.size]
    finite = all(_is_finite(array) for array in floats)
    scales = all(math.isfinite(pool[name]) and pool[name] > 0 for name in ("unit", "factor"))
    owners = np.concatenate([state["owners"] for state in states])
    owned = owners.dtype.kind in "iu" and len(np.unique(owners)) == n_groups > 0
    owned = owned and owners.min() == 0 and owners.max() == n_groups - 1
    # A family of another package need not have a regularisation.
    positive = all(bool((state["lambdas"] >= 0).all()) for state in states if "lambdas" in state)
    labels = arrays.get("classes")
    classes = labels is None or (labels.ndim == 1 and len(labels) == len(np.unique(labels)) == n_groups)
    if not (finite and scales and owned and positive and classes):
        raise FileFormatError("damaged: its numbers are not those of a fitted model")


def _is_finite(array: AnyArray) -> bool:
    """Whether there is no NaN and no infinity: a sum shows it in one pass, unless it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(array.sum()):
            return True
    return math.isfinite(array.min()) and math.isfinite(array.max())
