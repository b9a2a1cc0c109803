"""Reading a table of numbers, whole numbers and texts as named columns, and writing the same columns back."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli.formats import open_source
from onefold.cli.labels import DECIMAL, WHOLE
from onefold.cli.outputs import write_table
from onefold.cli.tables import read_table
from onefold.exceptions import InvalidInputError

Array = NDArray[Any]
# A leading zero makes a code of what would be a number.
CODE = re.compile(r"-?0[0-9]")


@dataclass(frozen=True)
class MixedTable:
    """Columns of a file in their order, without the ignored ones.

    ``matrix`` says that they stood in one array ``X`` of an NPZ file, ``named`` that it named its columns.
    """

    path: Path
    columns: dict[str, Array]
    label: str | None
    matrix: bool = False
    named: bool = True

    @property
    def features(self) -> dict[str, Array]:
        """All columns but the label."""
        return {name: values for name, values in self.columns.items() if name != self.label}

    def write(self, path: str, features: dict[str, Array], labels: Array | None) -> None:
        """The same columns with other values; an array ``X`` stays one in an NPZ file."""
        values = features if labels is None else features | {str(self.label): labels}
        if not (self.matrix and path.lower().endswith(".npz")):
            write_table(path, {name: values[name] for name in self.columns})
            return
        arrays: dict[str, Array] = {"X": np.column_stack(list(features.values()))}
        if self.named:
            arrays["feature_names"] = np.array(list(features))
        write_table(path, arrays if labels is None else arrays | {str(self.label): labels})


def read_mixed(path: str, label: str | None, ignore: Collection[str]) -> MixedTable:
    """Read every column as what it is; missing values are refused."""
    with open_source(Path(path)) as source:
        matrix = source.names is None or (label is not None and label in source.extras)
        known = [*(source.names or ()), *source.extras]
        names = list(source.names or ())
    for name in [*ignore, *([] if label is None else [label])]:
        if name not in known:
            raise InvalidInputError(f"{path}: there is no column {name!r} among its {len(known)}")
    if label in ignore:
        raise InvalidInputError("the label cannot be left out")
    if matrix or _is_matrix(path):
        return _from_matrix(path, label, ignore)
    wanted = [name for name in names if name not in ignore]
    with open_source(Path(path)) as source:
        _, kept = source.read([], wanted)
    columns = {name: _typed(path, name, kept[name]) for name in wanted}
    if not any(name != label for name in columns):
        raise InvalidInputError(f"{path}: no feature column is left")
    if not len(next(iter(columns.values()))):
        raise InvalidInputError(f"{path}: the table has no rows")
    return MixedTable(Path(path), columns, label)


def _is_matrix(path: str) -> bool:
    if not path.lower().endswith(".npz"):
        return False
    with np.load(path, allow_pickle=False) as archive:
        return "X" in archive.files


def _from_matrix(path: str, label: str | None, ignore: Collection[str]) -> MixedTable:
    table = read_table(path, keep=[] if label is None else [label], ignore=ignore)
    names = table.names or tuple(f"x{j}" for j in range(table.values.shape[1]))
    columns = {name: table.values[:, j] for j, name in enumerate(names)}
    return MixedTable(table.path, columns | table.kept, label, matrix=True, named=table.names is not None)


def _typed(path: str, name: str, values: Array) -> Array:
    """Text that spells numbers becomes numbers; everything else stays."""
    if values.ndim != 1 or values.dtype.kind not in "iufbUS":
        raise InvalidInputError(f"{path}: column {name!r} holds neither numbers nor text")
    if values.dtype.kind not in "US":
        return values
    distinct, inverse = np.unique(values.astype(str), return_inverse=True)
    missing = np.isin(np.char.lower(np.char.strip(distinct)), ["", "nan"])
    if missing.any():
        row = int(np.argmax(missing[inverse])) + 1
        raise InvalidInputError(f"{path}: column {name!r} has a missing value in row {row}")
    if all(WHOLE.fullmatch(text) and "." not in text for text in distinct):
        return distinct.astype(np.int64)[inverse]
    if all(DECIMAL.fullmatch(text) and not CODE.match(text) for text in distinct):
        return distinct.astype(np.float64)[inverse]
    return distinct[inverse]
