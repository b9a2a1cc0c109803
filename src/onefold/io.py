"""Saving and loading fitted models without pickle: nothing in a file is ever executed.

A file is an uncompressed zip archive of ``.npy`` arrays and one ``manifest.json`` with a format number, the
model's parameters, and a SHA-256 sum of every array; the sum of the manifest stands in the archive's comment.
The sums show damage and careless edits. They are no signature: take models from people you trust.

The arrays are the training samples and a few scalars; of fuzzy models, their rules; of membership-mappings,
inducing points and weights. Factors of N x N size are rebuilt when loading, so a file is hardly larger than
the data. **A saved model contains the samples it was fitted on** (or what was computed from them): if
they are private, so is the file.
"""

import hashlib
import io as bytes_io
import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.files import atomic_write
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
    MembershipMapping,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
)
from onefold.models._folding import check_measure
from onefold.models.compose import Pool, Stack
from onefold.privacy import Guarantee

__all__ = ["FORMAT", "from_bytes", "load", "load_extras", "save", "to_bytes"]

FORMAT = 1
MANIFEST = "manifest.json"
MAPPING = "mapping/"  # arrays of a regression
EXTRA = "extra/"  # arrays that came with a model and are no part of it
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


def save(
    model: Model, path: str | os.PathLike[str], extras: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write a fitted model to ``path``, replacing what was there only when all is written.

    A ``guarantee_`` of the model is written too. ``extras`` are further arrays, for :func:`load_extras`.
    """
    with atomic_write(path) as file:
        _write(model, file, extras or {})


def to_bytes(model: Model) -> bytes:
    """What :func:`save` writes, as bytes."""
    content = bytes_io.BytesIO()
    _write(model, content, {})
    return content.getvalue()


def _write(model: Model, file: IO[bytes], extras: Mapping[str, NDArray[Any]]) -> None:
    if type(model).__name__ not in MODELS:
        known = ", ".join(sorted(MODELS))
        raise InvalidInputError(f"cannot save a {type(model).__name__}: not one of {known}")
    learned = {"MembershipMapping": "mapping_", "DeepFuzzyModel": "precisions_"}
    if not hasattr(model, learned.get(type(model).__name__, "pool_")):
        raise InvalidInputError("only a fitted model can be saved: call fit first")
    arrays = _arrays(model) | {f"{EXTRA}{name}.npy": array for name, array in extras.items()}
    guarantee = getattr(model, "guarantee_", None)
    sums: dict[str, str] = {}
    manifest = {
        "format": FORMAT,
        "model": _describe(model),
        **({} if isinstance(model, Regression) else _describe_pool(model.pool_)),
        "n_features": int(model.n_features_in_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        **({} if guarantee is None else {"guarantee": guarantee.to_dict()}),
        "sums": sums,
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = bytes_io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(_member(name), content.getbuffer())
            sums[name] = hashlib.sha256(content.getbuffer()).hexdigest()
        text = json.dumps(manifest, indent=1).encode()
        archive.writestr(_member(MANIFEST), text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()


def load(path: str | os.PathLike[str]) -> Any:
    """The model saved at ``path``; a damaged, foreign or newer file is refused."""
    if not Path(path).is_file():
        raise InvalidInputError(f"there is no model file at {os.fspath(path)}")
    return _read(path, os.fspath(path), _assemble)


def from_bytes(content: bytes, largest_machine: int | None = None) -> Any:
    """The model that :func:`to_bytes` wrote; anything else is refused.

    Rebuilding a machine of N samples takes N x N numbers: ``largest_machine`` refuses larger ones, for bytes
    from somebody who may want to exhaust this machine.
    """

    def assemble(manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
        sizes = [array.shape[1] for name, array in arrays.items() if name.endswith("/centred.npy")]
        if largest_machine is not None and max(sizes, default=0) > largest_machine:
            raise FileFormatError(f"it has a machine of more than {largest_machine} samples")
        return _assemble(manifest, arrays)

    return _read(bytes_io.BytesIO(content), "a model", assemble)


def load_extras(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The further arrays that were given to :func:`save`."""
    if not Path(path).is_file():
        raise InvalidInputError(f"there is no model file at {os.fspath(path)}")
    found: dict[str, NDArray[Any]] = _read(
        path,
        os.fspath(path),
        lambda _, arrays: {n[len(EXTRA) : -4]: array for n, array in arrays.items() if n.startswith(EXTRA)},
        extras=True,
    )
    return found


def _read(
    source: Any,
    name: str,
    make: Callable[[dict[str, Any], dict[str, NDArray[Any]]], Any],
    extras: bool = False,
) -> Any:
    """Something made of the manifest and the arrays of a file; every failure becomes one clear line."""
    try:
        with zipfile.ZipFile(source) as archive:
            manifest = _read_manifest(archive)
            wanted = {
                member: total
                for member, total in manifest["sums"].items()
                if member.startswith(EXTRA) == extras
            }
            arrays = {member: _read_array(archive, member, total) for member, total in wanted.items()}
        return make(manifest, arrays)
    except FileFormatError as error:
        raise FileFormatError(f"{name}: {error}") from None
    except (zipfile.BadZipFile, EOFError, OSError):
        raise FileFormatError(f"{name}: not a model file, or truncated") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, NotImplementedError):
        raise FileFormatError(f"{name}: the contents are not those of a model") from None


def _member(name: str) -> zipfile.ZipInfo:
    """An archive entry with a fixed date, so that equal models give equal files."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _describe_pool(pool: Pool) -> dict[str, Any]:
    numbers = {"unit": pool.unit, "factor": pool.factor, "n_groups": pool.n_groups}
    return {"pool": numbers, "n_stacks": len(pool.stacks)}


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    if isinstance(model, Regression):
        return {f"{MAPPING}{name}.npy": array for name, array in model.state().items()}
    pool, family = model.pool_, _family(model)
    arrays: dict[str, NDArray[Any]] = {}
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


def _family(model: Autoencoder | ClassModels) -> Autoencoder:
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


def _build(description: dict[str, Any]) -> Any:
    kind = MODELS.get(description["class"])
    if kind is None:
        raise FileFormatError("it holds a kind of model this version does not know")
    values = description["parameters"].items()
    return kind(**{name: _build(value) if isinstance(value, dict) else value for name, value in values})


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
        raise FileFormatError("not a model file: its parts are compressed")
    if archive.fp is not None and sum(entry.file_size for entry in archive.infolist()) > archive.fp.seek(
        0, 2
    ):
        raise FileFormatError("damaged: its parts are larger than the whole")  # parts that share their bytes
    text = archive.read(MANIFEST)
    if hashlib.sha256(text).hexdigest().encode() != archive.comment:
        raise FileFormatError("damaged: the manifest does not match its checksum")
    manifest: dict[str, Any] = json.loads(text)
    if manifest["format"] != FORMAT:
        raise FileFormatError(f"it has format {manifest['format']}, this version reads format {FORMAT}")
    return manifest


def _read_array(archive: zipfile.ZipFile, name: str, total: str) -> NDArray[Any]:
    content = archive.read(name)
    if hashlib.sha256(content).hexdigest() != total:
        raise FileFormatError(f"damaged: {name} does not match its checksum")
    stream = bytes_io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise FileFormatError(
            f"damaged: {name} does not have the size it claims"
        )  # before memory is set aside
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _check_values(
    manifest: dict[str, Any], parts: list[dict[str, NDArray[Any]]], arrays: dict[str, NDArray[Any]]
) -> None:
    """Refuse contents that no fitted model could have: right checksums do not make them right."""
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


def _assemble(manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    model = _build(manifest["model"])
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


def _part(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name[len(prefix) : -4]: value for name, value in arrays.items() if name.startswith(prefix)}


def _assemble_pool(model: Any, manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    family, pool = _family(model), manifest["pool"]
    parts = [_part(arrays, f"stack{index}/") for index in range(manifest["n_stacks"])]

    def rebuild(state: dict[str, NDArray[Any]]) -> Stack:
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
