"""Reading tables from CSV, NPZ or Parquet files, folders of Parquet files, and databases.

:func:`scan` yields blocks of rows, so that a file of any length can be read; :func:`read_table` gathers them,
as they stand or read by a schema.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, rounds_whole
from onefold.tables.columns import Parsed
from onefold.tables.schema import Schema
from onefold.tables.sources import BLOCK_ROWS, Source, open_table

__all__ = ["Table", "columns_of", "gather", "read_table", "scan"]

MOST_SHARED = 10_000  # different texts of a column that are held once each


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, Any]):
    """Columns of a file: a mapping from their names to arrays of one length.

    Parameters
    ----------
    path : Path or str
        The file or folder, or the address in a database.
    columns : dict of str to ndarray
        The columns, in the order of the file or as asked for. Those that a schema has read are of a type that
        only a schema understands.
    n_rows : int
        Number of rows.
    """

    path: Path | str
    columns: dict[str, Any]
    n_rows: int

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def columns_of(path: str | Path) -> tuple[str, ...]:
    """Return the names of a file's columns.

    Parameters
    ----------
    path : path
        A file that :func:`read_table` understands.

    Returns
    -------
    tuple of str
        The names, in the order of the file.
    """
    with open_table(path) as source:
        return source.names


def scan(
    path: str | Path, block_rows: int = BLOCK_ROWS, *, columns: Sequence[str] | None = None
) -> Iterator[dict[str, AnyArray]]:
    """Read a file in blocks of rows, so that its length does not matter.

    Parameters
    ----------
    path : path
        A file that :func:`read_table` understands.
    block_rows : int, default=20000
        Number of rows in a block. Blocks of very wide tables have fewer, so that memory stays bounded.
    columns : sequence of str, optional
        The columns wanted, in this order. Default: all, in the order of the file.

    Yields
    ------
    dict of str to ndarray
        The columns of a block. CSV: texts without the blanks around them. Parquet: numbers, texts, booleans
        and dates, NaN, None or NaT where a value is missing, and so from a database. NPZ: slices of the
        arrays.

    Notes
    -----
    Of a CSV file are told: the delimiter (comma, semicolon, tab or bar; the one that cuts most of the first
    lines into as many cells as the header), and the encoding (UTF-8, or UTF-16 by its byte-order mark; bytes
    that are no UTF-8 are read as Windows-1252, with a warning). Cells in quotes may hold delimiters and line
    ends. Blank lines are skipped, and so are delimiters at the end of a line that no cell follows. A line
    with too few or too many cells is an error.
    """
    with open_table(path) as source:
        if columns is not None:
            source.require(columns)
        yield from source.blocks(source.names if columns is None else columns, block_rows)


def read_table(
    path: str | Path,
    *,
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    private: bool = False,
) -> Table:
    """Read a table from a file, a folder or a database.

    Parameters
    ----------
    path : path or str
        A file ending in .csv, .tsv, .npz or .parquet; .csv.gz and .tsv.gz are read too. A folder of Parquet
        files with the same columns, which are read in the order of their names. Or a table in a database:
        ``postgresql://USER@HOST/DATABASE#TABLE`` or ``sqlite:///FILE#TABLE``; ``#FILE.sql`` names a file with
        a SELECT statement instead.
    schema : Schema or None, default=None
        The contract of the table. Features and label are read by it block by block, so that a long table
        takes the memory of its numbers and not that of its texts; :meth:`Schema.parse` says which cells break
        the contract. None leaves the cells as they stand in the file.
    columns : sequence of str or None, default=None
        The columns wanted, in this order; None for all columns of the file, or with a schema for those it has
        a use for: the features, and label, person and identifiers if they are there.
    private : bool, default=False
        Whether privacy is promised for the rows. Then no row decides how others are read, whether there is a
        warning, or whether a table is one: it may have no rows. Which lines of a CSV file are rows is still
        checked, and its errors are about the file.

    Returns
    -------
    Table
        A mapping of columns, for :class:`Schema` and everything that takes one.

    See Also
    --------
    write_table : Writes a table.
    Schema : The contract of a table.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from onefold.tables import Schema, read_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "wards.csv"
    ...     _ = path.write_text("age;ward\\n31;a\\n64;b\\n")
    ...     table = read_table(path)
    >>> table["ward"].tolist()
    ['a', 'b']
    """
    with open_table(path, private=private) as source:
        if columns is None:
            columns = source.names if schema is None else _used(schema, source.names)
        source.require(columns)
        found = gather(source, columns, schema, may_be_empty=private)
    return Table(source.path, found, len(next(iter(found.values()))))


def gather(
    source: Source, columns: Sequence[str], schema: Schema | None = None, *, may_be_empty: bool = False
) -> dict[str, Any]:
    """Read columns of an open file to its end.

    Parameters
    ----------
    source : Source
        The open file.
    columns : sequence of str
        The columns wanted.
    schema : Schema or None, default=None
        The contract by which features and label are read.
    may_be_empty : bool, default=False
        Whether a table without rows is one.

    Returns
    -------
    dict of str to ndarray
        The columns, in the order asked for.
    """
    if schema is not None:
        schema = schema.beside(source.path)
    fields = (
        {} if schema is None else {known.name: known for known in (*schema.features, schema.label) if known}
    )
    tokens = () if schema is None else tuple(schema.missing_values)
    parts: dict[str, list[AnyArray]] = {name: [] for name in columns}
    problems: dict[str, list[AnyArray]] = {name: [] for name in columns if name in fields}
    books: dict[str, dict[str, str]] = {}
    for block in source.blocks(columns, may_be_empty=may_be_empty):
        for name, values in block.items():
            if name in fields:
                values, wrong = fields[name].read(values, tokens)
                problems[name].append(wrong.astype(np.int8))
            elif source.delimiter is not None:
                values = _shared(values, books.setdefault(name, {}))
            parts[name].append(values)
    # One column after the other, so that no more than one is there twice.
    found: dict[str, Any] = {name: _joined(parts.pop(name)) for name in list(parts)}
    return found | {
        name: Parsed(found[name], np.concatenate(wrong), fields[name]) for name, wrong in problems.items()
    }


def _joined(parts: list[AnyArray]) -> AnyArray:
    """One array of all blocks; no cell of one block changes what those of another are."""
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) == 1 or kinds <= {*"iuf"}:
        joined = np.concatenate(parts)
        if kinds <= {"f"} or not rounds_whole(joined):
            return joined
    return np.fromiter(chain.from_iterable(parts), dtype=object, count=sum(map(len, parts)))


def _used(schema: Schema, names: Collection[str]) -> list[str]:
    return [
        known.name
        for known in schema.fields
        if known.role == "feature" or (known.role != "ignored" and known.name in names)
    ]


def _shared(values: AnyArray, book: dict[str, str]) -> AnyArray:
    """The same texts, the first different ones of a column each once in memory: a text takes 50 bytes."""
    if len(book) >= MOST_SHARED:
        return values
    return np.array([book.setdefault(text, text) for text in values.tolist()], dtype=object)
