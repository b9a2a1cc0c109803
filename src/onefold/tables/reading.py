"""Cells of tables as they stand, from CSV, NPZ or Parquet files, folders of Parquet files, and databases.

A source yields blocks of rows, so that a file of any length can be read; :func:`gather` joins them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from onefold._base.arrays import AnyArray, column_array, rounds_whole
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.tables import formats
from onefold.tables.cells import is_texts, plain_column
from onefold.tables.columns import named, names_of
from onefold.tables.delimited import CsvSource

READERS: dict[str, type[formats.Source]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".jsonl": formats.JsonLinesSource,
    ".ndjson": formats.JsonLinesSource,
    ".npz": formats.NpzSource,
    ".xlsx": formats.ExcelSource,
    **dict.fromkeys((*formats.PARQUET, *formats.ARROW), formats.ParquetSource),
}
SUFFIXES = (".gz", ".sql", *READERS)


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, Any]):
    """Columns of a file: a mapping from their names to arrays of one length.

    Parameters
    ----------
    path : Path or str
        The file or folder, or the address in a database.
    columns : dict of str to ndarray
        The columns, in the order of the file or as asked for. Those that a schema has read are of a type that
        only a schema understands. Texts may be held by Arrow until somebody asks the table for them.
    n_rows : int
        Number of rows.
    """

    path: Path | str
    columns: dict[str, Any]
    n_rows: int

    def __getitem__(self, name: str) -> Any:
        column = self.columns[name] = plain_column(self.columns[name])
        return column

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def stem_of(path: str) -> str:
    """Return the name of a table without folder and suffixes, from which the names of results are made.

    Parameters
    ----------
    path : str
        A file or an address that :func:`read_table` understands.

    Returns
    -------
    str
        Its name.
    """
    name = Path(path.rpartition("#")[2] if formats.is_address(path) else path).name
    while Path(name).suffix.lower() in SUFFIXES:
        name = Path(name).stem
    return name


def open_table(path: str | Path, *, private: bool = False) -> formats.Source:
    """Open a table with the reader that its name asks for.

    Parameters
    ----------
    path : path or str
        A file ending in .csv, .tsv, .jsonl, .xlsx, .npz, .parquet or .arrow; also .gz behind .csv, .tsv and
        .jsonl. A folder of Parquet or Arrow files. Or the address of a table in a database,
        ``sqlite:///FILE#TABLE``.
    private : bool, default=False
        Whether privacy is promised for the rows: then no row of a CSV file decides how others are read, or
        that something is said. Its delimiter follows from its header alone.

    Returns
    -------
    Source
        To be used in a ``with`` block.
    """
    if formats.is_address(path):
        return formats.DatabaseSource(str(path), private=private)
    path = Path(path)
    if path.is_dir():
        return formats.ParquetSource(path, private=private)
    name = path.name.lower()
    reader = READERS.get(Path(name.removesuffix(".gz")).suffix)
    if reader is None or (name.endswith(".gz") and reader not in (CsvSource, formats.JsonLinesSource)):
        raise InvalidInputError(
            f"{path}: the name must end in .csv, .csv.gz, .tsv, .jsonl, .xlsx, .npz, .parquet or .arrow"
        )
    if not path.is_file():
        raise InvalidInputError(f"{path}: {'not a' if path.exists() else 'no such'} file")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    with formats.own_errors(path):
        return reader(path, private=private)


def gather(source: formats.Source, columns: Sequence[str]) -> Table:
    """Read columns of an open file to its end, as they stand.

    Parameters
    ----------
    source : Source
        The open file.
    columns : sequence of str
        The columns wanted.

    Returns
    -------
    Table
        The columns, in the order asked for.
    """
    parts: dict[str, list[AnyArray]] = {name: [] for name in columns}
    for block in source.blocks(columns):
        for name, values in block.items():
            parts[name].append(values)
    # One column after the other, so that no more than one is there twice.
    found: dict[str, Any] = {name: join_blocks(parts.pop(name)) for name in list(parts)}
    return Table(source.path, found, len(next(iter(found.values()))))


class Held(formats.Source):
    """A table in memory: a frame, a dict of columns, or an array without names."""

    def _open(self) -> None:
        table = self.path
        self.path = getattr(table, "path", None) or "the table"
        if getattr(table, "ndim", 0) == 2 and not hasattr(table, "columns"):
            table = {f"x{number}": column for number, column in enumerate(np.asarray(table).T)}
            self.matrix, self.named = tuple(table), False
        self.table = table
        self.names = tuple(names_of(table))

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        found = {name: named(self.table, name) for name in columns}
        yield {
            name: column if is_texts(column) else column_array(plain_column(column))
            for name, column in found.items()
        }


def open_any(source: Any, private: bool) -> formats.Source:
    """Open a table of any kind: a path, an address, a frame, a dict of columns or an array."""
    return (
        open_table(source, private=private)
        if isinstance(source, (str, Path))
        else Held(source, private=private)
    )


def join_blocks(parts: list[Any]) -> Any:
    """Join blocks of a column to one array; no cell of one block changes what those of another are."""
    if all(map(is_texts, parts)):
        return pa.chunked_array([chunk for part in parts for chunk in getattr(part, "chunks", [part])])
    parts = list(map(plain_column, parts))
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) == 1 or kinds <= {*"iuf"}:
        joined = np.concatenate(parts)
        if kinds <= {"f"} or not rounds_whole(joined):
            return joined
    return np.fromiter(chain.from_iterable(parts), dtype=object, count=sum(map(len, parts)))
