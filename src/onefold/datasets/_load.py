"""Find a dataset by name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from onefold.datasets._bundled import BUNDLED
from onefold.datasets._dataset import Dataset
from onefold.datasets._local import read
from onefold.datasets._split import train_test_split
from onefold.exceptions import InvalidInputError

VARIABLE = "ONEFOLD_DATA"

# A name is a file's stem, never a path.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(:[A-Za-z0-9_.\-]+)?")


def _folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    chosen = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    return None if chosen is None else Path(chosen)


def names(data_dir: str | os.PathLike[str] | None = None) -> list[str]:
    """Names that :func:`load` knows: the bundled ones and the .npz files of the local folder.

    Examples
    --------
    >>> "digits" in names()
    True
    """
    folder = _folder(data_dir)
    local = () if folder is None else (path.stem for path in folder.glob("*.npz"))
    return sorted({*BUNDLED, *local})


def load(name: str, data_dir: str | os.PathLike[str] | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Load a dataset by name, ready to fit.

    Bundled: ``blobs``, ``breast_cancer``, ``digits``, ``iris``, ``moons``, ``wine``. Every other name
    stands for ``<name>.npz`` in ``data_dir``, or in the folder named by the environment variable
    ``ONEFOLD_DATA``; ``name:part`` selects one of several parts of a file. Nothing is downloaded and
    nothing is unpickled.

    Parameters
    ----------
    name : see above.
    data_dir : local folder; the environment variable when None.
    dtype : floating-point type of the features.

    Examples
    --------
    >>> data = load("digits")
    >>> data.X_train.shape, data.X_test.shape, float(data.X_train.max())
    ((1346, 64), (451, 64), 1.0)
    """
    if not _NAME.fullmatch(str(name)):
        raise InvalidInputError("a dataset name consists of letters, digits and _ . - (and :part)")
    if not np.issubdtype(np.dtype(dtype), np.floating):
        raise InvalidInputError("dtype must be a floating-point type")
    if name in BUNDLED:
        X, y, feature_names, description = BUNDLED[name]()
        parts = train_test_split(X.astype(dtype), y)
        return Dataset(*parts, name, feature_names, description + " A quarter of every class is for testing.")
    return _load_local(name, _folder(data_dir), dtype)


def _load_local(name: str, folder: Path | None, dtype: DTypeLike) -> Dataset:
    stem, _, part = name.partition(":")
    if folder is None:
        raise InvalidInputError(
            f"dataset {name!r} is not bundled: set {VARIABLE} (or data_dir) to the folder with {stem}.npz"
        )
    path = folder / f"{stem}.npz"
    if not path.is_file():
        raise InvalidInputError(
            f"dataset {name!r} not found: no {stem}.npz in the folder given by {VARIABLE} or data_dir"
        )
    X_train, y_train, X_test, y_test, feature_names, description = read(path, stem, part, dtype)
    # Labels are stored as bytes, which wrap around when somebody subtracts them.
    labels = [y.astype(np.int64) if np.issubdtype(y.dtype, np.integer) else y for y in (y_train, y_test)]
    return Dataset(X_train, labels[0], X_test, labels[1], name, feature_names, description)
