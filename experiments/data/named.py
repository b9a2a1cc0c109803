"""The documents' files by name, some of which have rules of their own; all others as onefold reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from onefold import datasets
from onefold.datasets import Dataset, train_test_split
from onefold.exceptions import InvalidInputError

__all__ = ["load"]

Members = Mapping[str, Any]
Parts = tuple[Any, Any, Any, Any, tuple[str, ...], str]


def load(name: str, data_dir: str | os.PathLike[str] | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Load a dataset by name, ready to fit; ``name:part`` takes one of several parts."""
    stem, _, part = name.partition(":")
    folder = data_dir if data_dir is not None else os.environ.get("ONEFOLD_DATA")
    if stem not in RULES or folder is None or not Path(folder, f"{stem}.npz").is_file():
        return datasets.load(name, data_dir, dtype)  # which says what is wrong
    read, known = RULES[stem]
    if part not in ("", *known):
        raise InvalidInputError(f"{stem} has {'the parts ' + ', '.join(known) if known else 'no parts'}")
    with np.load(Path(folder, f"{stem}.npz"), allow_pickle=False) as arrays:
        X_train, y_train, X_test, y_test, names, text = read(arrays, part, dtype)
    # Labels are stored as bytes, which wrap around when somebody subtracts them.
    y_train, y_test = (
        y.astype(np.int64) if np.issubdtype(y.dtype, np.integer) else y for y in (y_train, y_test)
    )
    return Dataset(X_train, y_train, X_test, y_test, name, names, text)


def _rows(X: Any, arrays: Members, dtype: Any) -> Any:
    """Rows of numbers: bytes scaled by the factor of the file."""
    flat = X.reshape(len(X), -1).astype(dtype)
    if X.dtype == np.uint8:
        flat *= np.asarray(arrays["scale"], dtype=dtype)
    return flat


def _official(arrays: Members, dtype: Any, target: str = "y") -> Parts:
    X_train, X_test = (_rows(arrays[f"X_{side}"], arrays, dtype) for side in ("train", "test"))
    columns = tuple(f"x{j}" for j in range(X_train.shape[1]))
    said = "Official training and test part."
    return X_train, arrays[f"{target}_train"], X_test, arrays[f"{target}_test"], columns, said


def _usps(arrays: Members, part: str, dtype: Any) -> Parts:
    X_train, y_train, X_test, y_test, columns, said = _official(arrays, dtype)
    divisor = np.asarray(arrays["scale"], dtype=dtype)  # stored as round(1000 * value)
    said = f"Handwritten digits of 16 x 16 pixels in [-1, 1]. {said}"
    return X_train / divisor, y_train, X_test / divisor, y_test, columns, said


def _grocery(arrays: Members, part: str, dtype: Any) -> Parts:
    *parts, said = _official(arrays, dtype, f"y_{part or 'fine'}")
    return (*parts, f"Grocery photographs as 1280 network features. {said}")


def _adult(arrays: Members, part: str, dtype: Any) -> Parts:
    names = [str(column) for column in arrays["num_cols"]]
    blocks = {side: [arrays[f"num_{side}"].astype(dtype)] for side in ("train", "test")}
    for j, column in enumerate(arrays["cat_cols"]):
        levels = arrays[f"levels_{column}"]
        names += [f"{column}={level}" for level in levels]
        for side, parts in blocks.items():
            codes = arrays[f"cat_{side}"][:, j]
            parts.append((codes[:, None] == np.arange(len(levels))).astype(dtype))
    X_train, X_test = (np.hstack(blocks[side]) for side in ("train", "test"))
    text = "Census rows, 1 = income above 50K; six numbers in their own units, eight categories one-hot."
    return X_train, arrays["y_train"], X_test, arrays["y_test"], tuple(names), text


def _cogload(arrays: Members, part: str, dtype: Any) -> Parts:
    rows = _rows(arrays[f"{part or 'rr'}_train"], arrays, dtype)
    text = "30 seconds of a wristband signal; 0 cognitive load, 1 rest; labelled rows only."
    return *train_test_split(rows, arrays["y_train"]), tuple(f"x{j}" for j in range(rows.shape[1])), text


RULES: dict[str, tuple[Callable[[Members, str, Any], Parts], tuple[str, ...]]] = {
    "adult": (_adult, ()),
    "cogload_rr": (_cogload, ("rr", "hr", "gsr", "temp")),
    "grocery_store_effnetlite0": (_grocery, ("fine", "coarse")),
    "usps": (_usps, ()),
}
