"""Tables as commands use them: a matrix of features, class labels, identifiers.

:func:`read_numbers` reads any format of :mod:`onefold.tables`; :func:`labels_of` turns one of its columns
into class labels. Messages name columns and row numbers and never repeat a cell: the cells may be private.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli.console import busy
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import PLAIN_NUMBERS, cells_of, numbers_of
from onefold.tables.inference import is_index
from onefold.tables.sources import Source, open_table

SHOWN_NAMES = 5
# Leading zeros mean a code ("007"), not a number. 18 digits always fit 64 bits.
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0*)?")
DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][-+]?[0-9]+)?")


# --- tables of numbers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberTable:
    """Feature values of a file, with the columns that were asked for as they are.

    Attributes
    ----------
    path : Path or str
        The file or folder, or the address in a database.
    names : tuple of str or None
        Name of each feature column; None when the file does not name them (an array ``X`` in an NPZ).
    values : ndarray of shape (n_rows, n_features)
        ``float64``, or ``float32`` where the file itself holds nothing wider than that.
    kept : dict of str to ndarray
        The columns named in ``keep``: whole numbers or strings, in row order.
    ignored : int
        How many columns of the file were not used.
    """

    path: Path | str
    names: tuple[str, ...] | None
    values: AnyArray
    kept: dict[str, AnyArray]
    ignored: int

    @property
    def in_float64(self) -> AnyArray:
        """The values for noise: a single record may be why a file keeps a column in another type."""
        return self.values.astype(np.float64, copy=False)


def read_numbers(
    path: str | Path,
    *,
    keep: Sequence[str] = (),
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
    quiet: bool = True,
    private: bool = False,
) -> NumberTable:
    """Read a file of rows.

    Parameters
    ----------
    path : path
        A file that :func:`onefold.tables.read_table` understands.
    keep : sequence of str
        Columns that are no features and are handed back unchanged (a label, an identifier).
    ignore : collection of str
        Columns to leave out.
    features : sequence of str, optional
        The features wanted, in this order; further columns are then left out. Default: every column that is
        neither kept nor ignored, in the order of the file.
    quiet : bool
        Show no clock while a large file is read.
    private : bool
        Whether privacy is promised, so that no row decides how others are read.

    Returns
    -------
    NumberTable
    """
    with busy(f"reading {path}", quiet), open_table(path, private=private) as source:
        source.require([*keep, *ignore])
        for name in [*keep, *ignore]:
            if name in (features or ()):
                raise InvalidInputError(f"column {name!r} is a feature of the model: use another column")
        wanted = _feature_columns(source, set(keep) | set(ignore), features)
        values, kept = _read(source, wanted, list(dict.fromkeys(keep)))
    names = tuple(wanted) if source.named else None
    _require_finite(source.path, names, values)
    unused = set(source.matrix or source.names) - set(wanted) - set(keep) if source.named else ()
    return NumberTable(source.path, names, values, kept, len(unused))


def _feature_columns(source: Source, taken: set[str], features: Sequence[str] | None) -> list[str]:
    """The feature columns in the order they are wanted."""
    if features is None or not source.named:
        candidates = source.matrix or [name for name in source.names if not is_index(name)]
        chosen = [name for name in candidates if name not in taken]
        if not chosen:
            raise InvalidInputError(f"{source.path}: no feature column is left")
        return chosen
    missing = [name for name in features if name not in source.names]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:SHOWN_NAMES])
        more = ", ..." if len(missing) > SHOWN_NAMES else ""
        raise InvalidInputError(
            f"{source.path}: {len(missing)} of the model's {len(features)} features missing: {shown}{more}"
        )
    return list(features)


def _read(source: Source, features: list[str], keep: list[str]) -> tuple[AnyArray, dict[str, AnyArray]]:
    """The features as one matrix, and the kept columns by name."""
    rows: list[AnyArray] = []
    kept: dict[str, list[AnyArray]] = {name: [] for name in keep}
    first = 1
    for block in source.blocks([*features, *keep]):
        rows.append(np.column_stack([_numbers(source, name, block[name], first) for name in features]))
        for name, values in kept.items():
            values.append(as_text(f"{source.path}: column {name!r}", block[name], first))
        first += len(rows[-1])
    return np.concatenate(rows), {name: np.concatenate(values) for name, values in kept.items()}


def _numbers(source: Source, name: str, values: AnyArray, first: int) -> AnyArray:
    """A column as floating-point numbers: ``float32`` stays, everything else becomes ``float64``."""
    where = f"{source.path}: column {name!r}"
    if values.dtype.kind in "fiub":
        single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
        return values.astype(np.float32 if single else np.float64, copy=False)
    cells, missing = cells_of(values)
    if missing.any():
        raise InvalidInputError(f"{where} has an empty cell in row {first + int(np.argmax(missing))}")
    found = numbers_of(cells, missing, PLAIN_NUMBERS)
    unknown = np.isnan(found)
    if unknown.any():
        row = first + int(np.argmax(unknown))
        raise InvalidInputError(f"{where} is not numeric (row {row}): a schema declares texts and dates")
    return found


def as_text(where: str, values: AnyArray, first: int = 1) -> AnyArray:
    """Python objects as texts, everything else as it is; a missing value is refused."""
    if values.dtype.kind != "O":
        return values
    missing = np.array([cell is None for cell in values], dtype=np.bool_)
    if missing.any():
        raise _missing(where, missing, first)
    return values.astype(str)


def _require_finite(path: Path | str, names: tuple[str, ...] | None, values: AnyArray) -> None:
    # One pass without a mask of the whole table: a sum is finite unless an entry is not (or it overflows).
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    row, column = np.unravel_index(np.argmin(np.isfinite(values)), values.shape)
    if not np.isfinite(values[row, column]):
        where = f"column {names[column]!r}" if names is not None else f"feature {int(column) + 1}"
        raise InvalidInputError(f"{path}: {where} has a NaN or infinite value in row {int(row) + 1}")


# --- class labels ----------------------------------------------------------------------------------------


def read_labelled(
    path: str,
    label: str,
    *,
    keep: Sequence[str] = (),
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
    two_classes: bool = True,
    quiet: bool = True,
    private: bool = False,
) -> tuple[NumberTable, AnyArray]:
    """Read a table and its class labels, at least two unless ``two_classes`` is False."""
    table = read_numbers(
        path, keep=[label, *keep], ignore=ignore, features=features, quiet=quiet, private=private
    )
    labels = labels_of(table, label)
    if two_classes and np.unique(labels).size < 2:
        raise InvalidInputError(f"{path}: label column {label!r} has one class only, at least two are needed")
    return table, labels


def labels_of(table: NumberTable, name: str) -> AnyArray:
    """Column ``name`` of a table as class labels: ``int64`` or text, no missing values.

    Text that spells whole numbers becomes numbers: a model fitted on a CSV file understands an NPZ file.
    """
    return as_labels(f"{table.path}: label column {name!r}", table.kept[name])


def numbers_in(table: NumberTable, name: str) -> AnyArray:
    """Column ``name`` of a table as numbers to predict, no missing values."""
    where = f"{table.path}: label column {name!r}"
    try:
        found = np.asarray(table.kept[name], dtype=np.float64)
    except ValueError:
        raise InvalidInputError(f"{where} holds cells that are no numbers") from None
    if not np.isfinite(found).all():
        raise _missing(where, ~np.isfinite(found))
    return found


def as_labels(where: str, column: AnyArray) -> AnyArray:
    """A column as class labels; ``where`` begins the message of an error."""
    kind = column.dtype.kind
    if kind in "US":
        return _labels_of_text(where, column.astype(str))
    if kind == "b":
        return column.astype(str)
    if kind in "iu":
        return column.astype(np.int64)
    if kind != "f":
        raise InvalidInputError(f"{where} holds neither numbers nor text")
    if np.isnan(column).any():
        raise _missing(where, np.isnan(column))
    if not np.all(np.isfinite(column) & (column == np.round(column)) & (np.abs(column) < 2**53)):
        raise _fractions(where)
    return column.astype(np.int64)


def _labels_of_text(where: str, column: AnyArray) -> AnyArray:
    distinct, inverse = distinct_texts(where, column)
    whole = [WHOLE.fullmatch(text) is not None for text in distinct]
    # Each text by itself: "1.0" is the class 1 also beside a class that is no number.
    classes = [
        str(int(text.partition(".")[0])) if is_whole else text
        for text, is_whole in zip(distinct.tolist(), whole, strict=True)
    ]
    if all(whole):
        return np.array(classes).astype(np.int64)[inverse]
    if all(DECIMAL.fullmatch(text) for text in distinct) and any("." in text for text in distinct):
        raise _fractions(where)
    return np.array(classes)[inverse]


def distinct_texts(where: str, column: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The distinct texts of a column and the number of each row's; an empty cell or ``nan`` is an error."""
    distinct, inverse = np.unique(column, return_inverse=True)
    missing = np.isin(np.char.lower(np.char.strip(distinct)), ["", "nan"])
    if missing.any():
        raise _missing(where, missing[inverse])
    return distinct, inverse


def _missing(where: str, mask: AnyArray, first: int = 1) -> InvalidInputError:
    return InvalidInputError(f"{where} has a missing value in row {first + int(np.argmax(mask))}")


def _fractions(where: str) -> InvalidInputError:
    return InvalidInputError(f"{where} holds fractions; classes must be text or whole numbers")


def identifiers_of(column: AnyArray) -> AnyArray:
    """A column as it stands: text, or ``int64`` when all entries are whole numbers."""
    if column.dtype.kind == "O":
        column = np.array(["" if cell is None else str(cell) for cell in column], dtype=str)
    if column.dtype.kind in "US":
        column = column.astype(str)
        if all(WHOLE.fullmatch(text) and "." not in text for text in column):
            return column.astype(np.int64)
    return column


def agreement(predicted: AnyArray, labels: AnyArray) -> float:
    """Share of rows predicted right; labels of another type are compared as text."""
    if predicted.dtype.kind != labels.dtype.kind:
        predicted, labels = predicted.astype(str), labels.astype(str)
    return float(np.mean(predicted == labels))
