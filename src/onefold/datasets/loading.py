"""Datasets by name: those that need no file, and the way to those of a local folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from onefold._base.arrays import AnyArray
from onefold.datasets.local import read
from onefold.datasets.splitting import train_test_split
from onefold.exceptions import InvalidInputError

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


def _from_scikit_learn(loader: str, divisor: float, description: str) -> Bundle:
    from sklearn import datasets  # imported late: it pulls in much that `import onefold` does not need

    bunch = getattr(datasets, loader)()
    return bunch.data / divisor, bunch.target, tuple(map(str, bunch.feature_names)), description


def _digits() -> Bundle:
    text = "1797 handwritten digits of 8 x 8 pixels, divided by 16 so that they lie in [0, 1]."
    return _from_scikit_learn("load_digits", 16.0, text)


def _iris() -> Bundle:
    return _from_scikit_learn(
        "load_iris", 1.0, "150 iris flowers of three species, four lengths in centimetres."
    )


def _wine() -> Bundle:
    text = "178 wines of three growers, 13 measurements in their own units: standardise before use."
    return _from_scikit_learn("load_wine", 1.0, text)


def _breast_cancer() -> Bundle:
    text = "569 tumours (0 malignant, 1 benign), 30 measurements in their own units: standardise before use."
    return _from_scikit_learn("load_breast_cancer", 1.0, text)


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


BUNDLED: dict[str, Callable[[], Bundle]] = {
    "blobs": _blobs,
    "breast_cancer": _breast_cancer,
    "digits": _digits,
    "iris": _iris,
    "moons": _moons,
    "wine": _wine,
}


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
    return sorted({*BUNDLED, *local})


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
