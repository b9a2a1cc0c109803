"""Datasets in .npz files of a local folder, read without pickle.

Some names have rules of their own. Any other file works when it holds ``X_train, y_train, X_test, y_test``
or ``X, y`` (then divided by :func:`onefold.datasets.train_test_split`). ``name:part`` takes the arrays
``X_part, y_part`` of a file that holds several.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.datasets.splitting import train_test_split
from onefold.exceptions import FileFormatError, InvalidInputError

__all__ = ["read"]

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
        raise InvalidInputError(
            "grocery_store_effnetlite0 has the parts 'fine' (81 classes) and 'coarse' (43)"
        )
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


def read(path: Path, name: str, part: str, dtype: Any) -> Parts:
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
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError):
        raise FileFormatError(f"{path.name} is not a readable .npz file of plain arrays") from None
