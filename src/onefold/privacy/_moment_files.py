"""Files of released moments: plain arrays and JSON, nothing that could be executed."""

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.files import atomic_write
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy.guarantee import Guarantee

__all__ = ["read_moments", "write_moments"]

FORMAT = 1
KIND = "onefold moments"

Arrays = dict[str, NDArray[Any]]
Contents = tuple[dict[str, Any], Guarantee, NDArray[Any], Arrays]


def write_moments(
    path: str | os.PathLike[str], about: dict[str, Any], classes: NDArray[Any], arrays: Arrays
) -> None:
    """Write an .npz file, whole or not at all."""
    if classes.dtype == object:  # strings from pandas and the like
        if not all(isinstance(label, str) for label in classes):
            raise InvalidInputError("class labels must be all strings or all numbers to be saved")
        classes = classes.astype(np.str_)
    text = json.dumps({"kind": KIND, "format": FORMAT, **about}, default=float)
    with atomic_write(path) as file:
        np.savez(file, about=np.array(text), classes=classes, **arrays)  # type: ignore[arg-type]


def read_moments(path: str | os.PathLike[str], names: Sequence[str]) -> Contents:
    """Parameters, guarantee, classes and the named arrays, whose shapes must fit together."""
    if not Path(path).is_file():
        raise InvalidInputError(f"there are no moments at {os.fspath(path)}")
    try:
        with np.load(path, allow_pickle=False) as file:
            about, classes = json.loads(str(file["about"])), file["classes"]
            arrays = {name: file[name] for name in names}
        if (about["kind"], about["format"]) != (KIND, FORMAT):
            raise FileFormatError(f"not moments of format {FORMAT}")
        _check_shapes(arrays, names, len(classes))
        return about["parameters"], Guarantee.from_dict(about["guarantee"]), classes, arrays
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, EOFError, OSError, zipfile.BadZipFile):
        raise FileFormatError(f"{os.fspath(path)}: damaged, or not a file of moments") from None


def _check_shapes(arrays: Arrays, names: Sequence[str], n_classes: int) -> None:
    size = arrays[names[-1]].size  # the centre
    each = (n_classes,)
    shapes = (each, (n_classes, size), (n_classes, size, size), each, each, each, (size,))
    for name, shape in zip(names, shapes, strict=True):
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise FileFormatError(f"the array {name} is not what it should be")
