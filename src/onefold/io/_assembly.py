"""A fitted model from the contents of a file, which are checked: right checksums do not make them right."""

from typing import Any

import numpy as np

from onefold._base.parallel import run_parallel
from onefold.exceptions import FileFormatError
from onefold.io._archive import Arrays
from onefold.io._contents import MAPPING, Regression, build, family_of
from onefold.models import ClassModels
from onefold.models.folding import check_measure
from onefold.models.pool import Pool, Stack
from onefold.privacy import Guarantee

__all__ = ["assemble"]


def assemble(manifest: dict[str, Any], arrays: Arrays) -> Any:
    """The model that was written."""
    model = build(manifest["model"])
    if isinstance(model, Regression):
        model.restore(_part(arrays, MAPPING), manifest["n_features"])
    else:
        _assemble_pool(model, manifest, arrays)
    model.n_features_in_ = manifest["n_features"]
    if manifest["feature_names"]:
        model.feature_names_in_ = np.array(manifest["feature_names"], dtype=object)
    if "guarantee" in manifest:
        model.guarantee_ = Guarantee.from_dict(manifest["guarantee"])
    return model


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name[len(prefix) : -4]: value for name, value in arrays.items() if name.startswith(prefix)}


def _assemble_pool(model: Any, manifest: dict[str, Any], arrays: Arrays) -> None:
    family, pool = family_of(model), manifest["pool"]
    parts = [_part(arrays, f"stack{index}/") for index in range(manifest["n_stacks"])]

    def rebuild(state: Arrays) -> Stack:
        return family.stack_from_state(state, pool["factor"])

    _check_values(manifest, parts, arrays)
    if isinstance(model, ClassModels):
        check_measure(model.measure)
    family.check_parameters()
    stacks = tuple(run_parallel(rebuild, parts, model.n_jobs))
    owners = tuple(state["owners"].astype(np.intp) for state in parts)
    positions = tuple(state["positions"].astype(np.intp) for state in parts)
    model.pool_ = Pool(stacks, owners, positions, pool["n_groups"], pool["unit"], pool["factor"])
    model.scale_ = pool["factor"] / pool["unit"]
    if "classes.npy" in arrays:
        model.classes_ = arrays["classes.npy"]


def _check_values(manifest: dict[str, Any], parts: list[Arrays], arrays: Arrays) -> None:
    """Refuse contents that no fitted model could have."""
    pool, n_groups = manifest["pool"], manifest["pool"]["n_groups"]
    sound = bool(parts) and pool["unit"] > 0 and pool["factor"] > 0 and n_groups > 0
    for state in parts:
        floats = [array for array in state.values() if array.dtype.kind == "f"]
        sound = (
            sound
            and all(np.isfinite(array).all() for array in floats)
            and bool((state["lambdas"] >= 0).all())
        )
        sound = sound and bool(((state["owners"] >= 0) & (state["owners"] < n_groups)).all())
    sound = sound and len(arrays.get("classes.npy", range(n_groups))) == n_groups
    sound = sound and len(np.unique(np.concatenate([state["owners"] for state in parts]))) == n_groups
    if not sound:
        raise FileFormatError("damaged: its numbers are not those of a fitted model")
