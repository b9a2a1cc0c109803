"""Datasets by name: those that need no file, and .npz files of a local folder, read without pickle.

Some names of files have rules of their own. Any other file works when it holds ``X_train, y_train, X_test,
y_test`` or ``X, y`` (then divided by :func:`onefold.datasets.train_test_split`). ``name:part`` takes the
arrays ``X_part, y_part`` of a file that holds several.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from onefold._base.arrays import AnyArray
from onefold._base.foreign import NOT_READABLE
from onefold.datasets.splitting import train_test_split
from onefold.exceptions import FileFormatError, InvalidInputError

__all__ = ["Dataset", "load", "names"]

VARIABLE = "ONEFOLD_DATA"
Bundle = tuple[AnyArray, AnyArray, tuple[str, ...], str]  # features, labels, names of features, description

# A name is a file's stem, never a path.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(:[A-Za-z0-9_.\-]+)?")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels of a classification problem, divided into a training and a test part.

    Parameters
    ----------
    X_train : ndarray of shape (n_train, n_features)
        Features of the training part, of a floating-point type.
    y_train : ndarray of shape (n_train,)
        Labels of the training part.
    X_test : ndarray of shape (n_test, n_features)
        Features of the test part, of the same type.
    y_test : ndarray of shape (n_test,)
        Labels of the test part.
    name : str
        The name it was loaded by.
    feature_names : tuple of str
        One name per column.
    description : str
        One or two sentences: what it is, how it was scaled and divided.

    See Also
    --------
    load : Loads a dataset by name.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> load("iris").feature_names[0]
    'sepal length (cm)'
    """

    X_train: AnyArray
    y_train: AnyArray
    X_test: AnyArray
    y_test: AnyArray
    name: str
    feature_names: tuple[str, ...]
    description: str

    def __post_init__(self) -> None:
        for part, X, y in (("training", self.X_train, self.y_train), ("test", self.X_test, self.y_test)):
            if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
                raise InvalidInputError(
                    f"dataset {self.name!r}: the {part} part needs features (n, p) and as many labels (n,)"
                )
        if not self.X_train.shape[1] == self.X_test.shape[1] == len(self.feature_names):
            raise InvalidInputError(
                f"dataset {self.name!r}: training part, test part and names differ in the number of features"
            )


# --- bundled ----------------------------------------------------------------------------------------------


OWN_UNITS = "measurements in their own units: standardise before use."
# Of scikit-learn, by name: what features are divided by, and a description.
FROM_SCIKIT_LEARN = {
    "breast_cancer": (1.0, f"569 tumours (0 malignant, 1 benign), 30 {OWN_UNITS}"),
    "digits": (16.0, "1797 handwritten digits of 8 x 8 pixels, divided by 16 so that they lie in [0, 1]."),
    "iris": (1.0, "150 iris flowers of three species, four lengths in centimetres."),
    "wine": (1.0, f"178 wines of three growers, 13 {OWN_UNITS}"),
}


def _from_scikit_learn(name: str) -> Bundle:
    from sklearn import datasets  # imported late: it pulls in much that `import onefold` does not need

    divisor, description = FROM_SCIKIT_LEARN[name]
    bunch = getattr(datasets, f"load_{name}")()
    return bunch.data / divisor, bunch.target, tuple(map(str, bunch.feature_names)), description


def _blobs() -> Bundle:
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(4, 10))
    y = np.repeat(np.arange(4), 200)
    X = centres[y] + rng.normal(size=(len(y), 10))
    return X, y, tuple(f"x{j}" for j in range(10)), "800 points in four Gaussian clouds in ten dimensions."


def _moons() -> Bundle:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, np.pi, size=600)
    y = np.repeat([0, 1], 300)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    lower = np.column_stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)])
    X = np.where(y[:, None] == 0, upper, lower) + 0.1 * rng.normal(size=(600, 2))
    return X, y, ("x0", "x1"), "600 points on two interleaved half circles in the plane, with noise 0.1."


GENERATED: dict[str, Callable[[], Bundle]] = {"blobs": _blobs, "moons": _moons}


# --- by name ----------------------------------------------------------------------------------------------


def _folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    chosen = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    return None if chosen is None else Path(chosen)


def names(data_dir: str | os.PathLike[str] | None = None) -> list[str]:
    """List the names that :func:`load` knows: the bundled ones and the .npz files of the local folder.

    Parameters
    ----------
    data_dir : str, os.PathLike or None, default=None
        The local folder; None takes the one named by the environment variable ``ONEFOLD_DATA``.

    Returns
    -------
    list of str
        The names, sorted.

    See Also
    --------
    load : Loads a dataset by name.

    Examples
    --------
    >>> from onefold.datasets import names
    >>> "digits" in names()
    True
    """
    folder = _folder(data_dir)
    local = () if folder is None else (path.stem for path in folder.glob("*.npz"))
    return sorted({*GENERATED, *FROM_SCIKIT_LEARN, *local})


def load(name: str, data_dir: str | os.PathLike[str] | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Load a dataset by name, ready to fit.

    Bundled are ``blobs``, ``breast_cancer``, ``digits``, ``iris``, ``moons`` and ``wine``. Every other name
    stands for ``<name>.npz`` in ``data_dir``, or in the folder named by the environment variable
    ``ONEFOLD_DATA``; ``name:part`` selects one of several parts of a file. Nothing is downloaded and
    nothing is unpickled.

    Parameters
    ----------
    name : str
        Name of the dataset.
    data_dir : str, os.PathLike or None, default=None
        The local folder; None takes the one named by the environment variable.
    dtype : dtype, default=float64
        Floating-point type of the features.

    Returns
    -------
    Dataset
        Training and test part.

    See Also
    --------
    names : Lists the names.
    partition : Spreads rows over sites.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> data = load("digits")
    >>> data.X_train.shape, data.X_test.shape, float(data.X_train.max())
    ((1346, 64), (451, 64), 1.0)
    """
    if not _NAME.fullmatch(str(name)):
        raise InvalidInputError("a dataset name consists of letters, digits and _ . - (and :part)")
    if not np.issubdtype(np.dtype(dtype), np.floating):
        raise InvalidInputError("dtype must be a floating-point type")
    if name in GENERATED or name in FROM_SCIKIT_LEARN:
        found = GENERATED[name]() if name in GENERATED else _from_scikit_learn(name)
        X, y, feature_names, description = found
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
    X_train, y_train, X_test, y_test, feature_names, description = _read(path, stem, part, dtype)
    # Labels are stored as bytes, which wrap around when somebody subtracts them.
    labels = [y.astype(np.int64) if np.issubdtype(y.dtype, np.integer) else y for y in (y_train, y_test)]
    return Dataset(X_train, labels[0], X_test, labels[1], name, feature_names, description)


# --- files of a local folder ------------------------------------------------------------------------------


Members = Mapping[str, AnyArray]  # the arrays of a file, read when they are asked for
Parts = tuple[AnyArray, AnyArray, AnyArray, AnyArray, tuple[str, ...], str]

_OFFICIAL = "Official training and test part."
_DIVIDED = "Divided here: a quarter of every class for testing."


def _array(arrays: Members, key: str) -> AnyArray:
    if key not in arrays:
        raise FileFormatError(f"the file holds no array {key!r}")
    return arrays[key]


def _columns(n_features: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(n_features))


def _scaled(X: AnyArray, arrays: Members, dtype: Any) -> AnyArray:
    """Return rows of numbers: images flattened, bytes scaled by the file's factor or else to [0, 1]."""
    flat = X.reshape(len(X), -1).astype(dtype)
    if X.dtype == np.uint8 and "scale" in arrays:
        flat *= np.asarray(arrays["scale"], dtype=dtype)
    elif X.dtype == np.uint8:
        flat /= 255
    return flat


def _official(arrays: Members, dtype: Any, target: str = "y") -> Parts:
    X_train = _scaled(_array(arrays, "X_train"), arrays, dtype)
    X_test = _scaled(_array(arrays, "X_test"), arrays, dtype)
    y_train, y_test = _array(arrays, f"{target}_train"), _array(arrays, f"{target}_test")
    return X_train, y_train, X_test, y_test, _columns(X_train.shape[1]), _OFFICIAL


def _divided(arrays: Members, dtype: Any, X_key: str = "X", y_key: str = "y") -> Parts:
    X, y = _scaled(_array(arrays, X_key), arrays, dtype), _array(arrays, y_key)
    return *train_test_split(X, y), _columns(X.shape[1]), _DIVIDED


def _mnist(arrays: Members, part: str, dtype: Any) -> Parts:
    parts = _official(arrays, dtype)
    return *parts[:5], f"Handwritten digits of 28 x 28 pixels, divided by 255. {parts[5]}"


def _usps(arrays: Members, part: str, dtype: Any) -> Parts:
    X_train, y_train, X_test, y_test, names, text = _official(arrays, dtype)
    # Stored as round(1000 * value): here the file's scale divides.
    divisor = np.asarray(_array(arrays, "scale"), dtype=dtype)
    text = "Handwritten digits of 16 x 16 pixels in [-1, 1]. " + text
    return X_train / divisor, y_train, X_test / divisor, y_test, names, text


def _grocery(arrays: Members, part: str, dtype: Any) -> Parts:
    if part not in ("", "fine", "coarse"):
        raise InvalidInputError("grocery_store_effnetlite0 has parts 'fine' (81 classes) and 'coarse' (43)")
    parts = _official(arrays, dtype, target=f"y_{part or 'fine'}")
    return *parts[:5], f"Grocery photographs as 1280 network features. {parts[5]}"


def _adult(arrays: Members, part: str, dtype: Any) -> Parts:
    names = [str(column) for column in _array(arrays, "num_cols")]
    blocks = {side: [_array(arrays, f"num_{side}").astype(dtype)] for side in ("train", "test")}
    for j, column in enumerate(_array(arrays, "cat_cols")):
        levels = _array(arrays, f"levels_{column}")
        names += [f"{column}={level}" for level in levels]
        for side, parts in blocks.items():
            codes = _array(arrays, f"cat_{side}")[:, j]
            parts.append((codes[:, None] == np.arange(len(levels))).astype(dtype))
    X_train, X_test = (np.hstack(blocks[side]) for side in ("train", "test"))
    text = (
        "Census rows, 1 = income above 50K; six numbers in their own units, eight categories one-hot. "
        + _OFFICIAL
    )
    return X_train, _array(arrays, "y_train"), X_test, _array(arrays, "y_test"), tuple(names), text


def _cogload(arrays: Members, part: str, dtype: Any) -> Parts:
    if part not in ("", "rr", "hr", "gsr", "temp"):
        raise InvalidInputError("cogload_rr has the parts 'rr', 'hr', 'gsr' and 'temp'")
    parts = _divided(arrays, dtype, f"{part or 'rr'}_train", "y_train")
    text = "30 seconds of a wristband signal; 0 cognitive load, 1 rest; labelled rows only. " + _DIVIDED
    return *parts[:5], text


def _any_file(arrays: Members, part: str, dtype: Any) -> Parts:
    if part:
        return _divided(arrays, dtype, f"X_{part}", f"y_{part}")
    return _official(arrays, dtype) if "X_train" in arrays else _divided(arrays, dtype)


_RULES: dict[str, Callable[[Members, str, Any], Parts]] = {
    "adult": _adult,
    "cogload_rr": _cogload,
    "grocery_store_effnetlite0": _grocery,
    "mnist": _mnist,
    "usps": _usps,
}
_WITH_PARTS = ("cogload_rr", "grocery_store_effnetlite0")


def _read(path: Path, name: str, part: str, dtype: Any) -> Parts:
    """Read the training and the test part from a file."""
    if part and name in _RULES and name not in _WITH_PARTS:
        raise InvalidInputError(f"dataset {name!r} has no parts")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return _RULES.get(name, _any_file)(arrays, part, dtype)
    except FileFormatError as problem:
        raise FileFormatError(f"{path.name}: {problem}") from None
    except InvalidInputError:
        raise
    except NOT_READABLE:
        raise FileFormatError(f"{path.name} is not a readable .npz file of plain arrays") from None
