"""Writing a table of results: the suffix says the format, and a file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.files import atomic_write
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError

Array = NDArray[Any]
Columns = Mapping[str, Array]

STANDARD_OUTPUT = "-"


def check_writable(path: str, *inputs: str) -> None:
    """Refuse an output nobody could write, or that would replace an input, before the work starts."""
    if path == STANDARD_OUTPUT:
        return
    target = Path(path)
    if any(target.exists() and Path(name).exists() and target.samefile(name) for name in inputs):
        raise InvalidInputError(f"{path}: is an input of this command, name another file for the result")
    if not target.parent.is_dir():
        raise InvalidInputError(f"{path}: the folder does not exist")
    if target.is_dir():
        raise InvalidInputError(f"{path}: is a folder")
    if not os.access(target.parent, os.W_OK):
        raise InvalidInputError(f"{path}: permission denied")


def check_table_format(path: str, *inputs: str) -> None:
    """Refuse an output table whose format is unknown, needs a missing package, or that is an input."""
    check_writable(path, *inputs)
    if path == STANDARD_OUTPUT:
        return
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise InvalidInputError(f"{path}: the name must end in .csv, .npz or .parquet")
    if suffix in (".parquet", ".pq"):
        require("pyarrow.parquet", "parquet")


def write_table(path: str, columns: Columns) -> None:
    """Write columns of equal length; 2-D columns become one column per entry in CSV and Parquet.

    Column ``classes`` is special: it names the second axis of 2-D columns, and is stored only in NPZ files.
    """
    if path == STANDARD_OUTPUT:
        _write_rows(sys.stdout, _flat(columns), ",")
        return
    try:
        with atomic_write(path) as file:
            WRITERS[Path(path).suffix.lower()](file, columns)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written ({error.strerror or 'I/O error'})") from error


def _flat(columns: Columns) -> dict[str, Array]:
    """One 1-D array per output column: ``distances`` of class 3 is called ``distance_3``."""
    flat: dict[str, Array] = {}
    for name, values in columns.items():
        if name == "classes" and any(column.ndim > 1 for column in columns.values()):
            continue
        if values.ndim == 1:
            flat[name] = values
        else:
            stem = name.removesuffix("s")
            flat.update({f"{stem}_{label}": values[:, j] for j, label in enumerate(columns["classes"])})
    return flat


def _write_rows(file: Any, flat: Mapping[str, Array], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(flat)
    writer.writerows(zip(*(values.tolist() for values in flat.values()), strict=True))


def _write_text(file: IO[bytes], columns: Columns, delimiter: str) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    _write_rows(text, _flat(columns), delimiter)
    text.flush()
    text.detach()


def _write_npz(file: IO[bytes], columns: Columns) -> None:
    arrays: dict[str, Any] = {
        name: values.astype(str) if values.dtype.kind == "O" else values for name, values in columns.items()
    }
    np.savez(file, allow_pickle=False, **arrays)


def _write_parquet(file: IO[bytes], columns: Columns) -> None:
    arrow = require("pyarrow", "parquet")
    parquet = require("pyarrow.parquet", "parquet")
    table = arrow.table({name: arrow.array(values) for name, values in _flat(columns).items()})
    parquet.write_table(table, file)


WRITERS: dict[str, Callable[[IO[bytes], Columns], None]] = {
    ".csv": lambda file, columns: _write_text(file, columns, ","),
    ".tsv": lambda file, columns: _write_text(file, columns, "\t"),
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
}
