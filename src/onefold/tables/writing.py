"""Writing tables: the suffix says the format, and a file appears whole or not at all."""

import csv
import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.files import output_file
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import guarded, missing_in
from onefold.tables.columns import arrow_table
from onefold.tables.fields import Field
from onefold.tables.schema import AS_THEY_STAND, Schema

Columns = Mapping[str, AnyArray]
BLOCK_ROWS = 10_000


def check_format(path: str | Path) -> None:
    """Refuse a name whose suffix names no format.

    Parameters
    ----------
    path : path
        The file to be written.
    """
    if Path(path).suffix.lower() not in WRITERS:
        raise InvalidInputError(f"{path}: the name must end in .csv, .tsv, .npz or .parquet")


def write_table(
    path: str | Path, columns: Columns, schema: Schema = AS_THEY_STAND, *, public: bool = False
) -> None:
    """Write a table to a file that is there whole and synced when this returns, or not at all.

    Parameters
    ----------
    path : path
        A file ending in .csv, .tsv, .npz or .parquet.
    columns : mapping of str to ndarray
        Columns of one length: numbers, truth values, texts, ``datetime64``, or masked arrays of any of these.
    schema : Schema, default=numbers as they stand
        Contract of the table. A text file then has the decimal marks, dates and truth values that it
        declares, so that the same contract reads the file; Parquet and NPZ files hold values, not texts.
    public : bool, default=False
        Whether the file is made to be published, and gets the permissions that the umask leaves. Otherwise
        only the user's account may read it.

    See Also
    --------
    read_table : Reads what was written.

    Notes
    -----
    A missing value (NaN, NaT, None, or masked) is an empty cell in CSV and null in Parquet. A masked array of
    whole numbers stays whole numbers with gaps there; NPZ has none and stores it as float64 with NaN. Dates
    are written as in ISO 8601 unless a schema says otherwise. Texts are quoted where they need it. In CSV an
    apostrophe is put before a text, or a name, that a spreadsheet would take for a formula, because it begins
    with ``=``, ``+``, ``-``, ``@``, a tab or a line end and is no number; :func:`read_table` takes it off.

    A 2-D column becomes one column for each of its own in CSV and Parquet. The column ``classes`` then names
    these and is stored only in NPZ files: ``distances`` of class 3 is called ``distance_3``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from onefold.tables import write_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "wards.csv"
    ...     write_table(path, {"age": np.array([31.5, np.nan]), "ward": np.array(["a, b", "c"])})
    ...     print(path.read_text())
    age,ward
    31.5,"a, b"
    ,c
    <BLANKLINE>
    """
    schema = Schema.of(schema)
    check_format(path)
    suffix = Path(path).suffix.lower()
    if suffix in TEXT_FILES:
        declared = {known.name: known for known in schema.fields}
        columns = {
            name: _as_declared(values, declared[name]) if name in declared else values
            for name, values in columns.items()
        }
    with output_file(path, public=public) as file:
        WRITERS[suffix](file, columns)


def write_rows(file: Any, columns: Columns, delimiter: str = ",") -> None:
    """Write a table as text to an open file.

    Parameters
    ----------
    file : text file
        Where the lines go.
    columns : mapping of str to ndarray
        Columns of one length.
    delimiter : str, default=","
        What separates cells.
    """
    flat = {guarded(name): values for name, values in _flat(columns).items()}
    usual = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    # Some versions of Python do not see that a carriage return needs quotes.
    careful = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    (careful if any("\r" in name for name in flat) else usual).writerow(flat)
    for start in range(0, len(next(iter(flat.values()))), BLOCK_ROWS):
        block = [
            [guarded(cell) if isinstance(cell, str) else cell for cell in _cells(values[start:][:BLOCK_ROWS])]
            for values in flat.values()
        ]
        returns = any(isinstance(cell, str) and "\r" in cell for cells in block for cell in cells)
        (careful if returns else usual).writerows(zip(*block, strict=True))


def _as_declared(values: AnyArray, known: Field) -> AnyArray:
    """A column as its field says that texts are written; the same column where that is the usual way."""
    cells: list[Any] = np.ma.getdata(values).tolist()
    kind = np.ma.getdata(values).dtype.kind
    if kind == "f" and known.written.decimal != ".":
        texts = [str(cell).replace(".", known.written.decimal) for cell in cells]
    elif kind == "M" and known.format != "default":
        texts = ["" if cell is None else cell.strftime(known.format) for cell in cells]
    elif kind == "b" and known.true_values and known.false_values:
        texts = [known.true_values[0] if cell else known.false_values[0] for cell in cells]
    else:
        return values
    return np.where(missing_in(values), "", np.array(texts, dtype=object))


def _flat(columns: Columns) -> dict[str, AnyArray]:
    """One 1-D array per output column."""
    flat: dict[str, AnyArray] = {}
    for name, values in columns.items():
        if name == "classes" and any(column.ndim > 1 for column in columns.values()):
            continue
        if values.ndim == 1:
            flat[name] = values
        else:
            stem = name.removesuffix("s")
            flat.update({f"{stem}_{label}": values[:, j] for j, label in enumerate(columns["classes"])})
    if len({len(values) for values in flat.values()}) != 1:
        raise InvalidInputError("a table needs columns, all of one length")
    return flat


def _cells(values: AnyArray) -> list[Any]:
    """The cells as the CSV writer shows them, empty where a value is missing."""
    data = np.ma.getdata(values)
    shown: AnyArray = (np.datetime_as_string(data) if data.dtype.kind == "M" else data).astype(object)
    shown[missing_in(values)] = ""
    return list(shown.tolist())


def _lines(file: IO[bytes], columns: Columns, delimiter: str) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    write_rows(text, columns, delimiter)
    text.detach()  # writes what it holds, and leaves the file open


def _npz(file: IO[bytes], columns: Columns) -> None:
    # Not np.savez, which has parameters that a column may be named like.
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in columns.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as part:
                np.lib.format.write_array(part, _storable(values), allow_pickle=False)


def _storable(values: AnyArray) -> AnyArray:
    """An array without a mask and without Python objects, of a type that no single value decides."""
    data: AnyArray = np.ma.getdata(values)
    if data.dtype.kind == "O":
        return np.array(_cells(values), dtype=str)
    if not isinstance(values, np.ma.MaskedArray):
        return data
    missing = np.ma.getmaskarray(values)
    if data.dtype.kind in "iuf":
        return np.where(missing, np.nan, data.astype(np.float64))
    if data.dtype.kind == "M":
        return np.where(missing, np.datetime64("NaT"), data)
    return np.where(missing, "", data.astype(str))


def _parquet(file: IO[bytes], columns: Columns) -> None:
    from pyarrow import parquet

    parquet.write_table(arrow_table(_flat(columns)), file)


TEXT_FILES = (".csv", ".tsv")
WRITERS: dict[str, Callable[[IO[bytes], Columns], None]] = {
    ".csv": lambda file, columns: _lines(file, columns, ","),
    ".tsv": lambda file, columns: _lines(file, columns, "\t"),
    ".npz": _npz,
    ".parquet": _parquet,
    ".pq": _parquet,
}
