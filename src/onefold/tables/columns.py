"""Columns of tables of any kind: frames, dicts, arrays, and files that were read by their schema."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from onefold._base.arrays import AnyArray, Mask, column_array
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import missing_in, plain_column
from onefold.tables.fields import Field


class Parsed:
    """A column that was read by its field already, block by block, while the file was open.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Cells as :meth:`Field.read` returns them.
    problems : ndarray of int of shape (n_rows,) or None, default=None
        What is wrong with each; None if everything about that is said: cells without a value are encoded as
        the schema declares.
    field : Field or None, default=None
        The field; None if it does not matter.
    """

    def __init__(self, values: AnyArray, problems: Any = None, field: Field | None = None) -> None:
        self.values, self.field = values, field
        self.problems: AnyArray = np.zeros(len(values), dtype=np.int8) if problems is None else problems

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Parsed":
        return Parsed(self.values[rows], self.problems[rows], self.field)

    @property
    def missing(self) -> Mask:
        """Which cells have no value."""
        values = self.values[:, 0] if self.values.ndim == 2 else self.values  # behind an encoder
        return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values < 0, dtype=np.bool_)

    def check_field(self, known: Field) -> None:
        """Refuse to take numbers of categories of another field for those of this one."""
        if self.field is None or self.field is known:
            return
        if replace(self.field, role=known.role).contract() != known.contract():
            raise InvalidInputError(f"column {known.name!r} was read by another schema: read the table again")


def place_of(X: Any) -> str:
    """Beginning of a message about a table: the name of its file, if it has one."""
    path = getattr(X, "path", None)
    return "" if path is None else f"{path}: "


def kind_of(X: Any) -> str:
    """Return which library's frame a table is; empty if it is none."""
    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return ""
    return "pandas" if frame.implementation.is_dask() else str(frame.implementation.name).lower()


def frame_of(columns: Mapping[str, AnyArray], kind: Any) -> Any:
    """Return columns as a frame of the kind that :func:`kind_of` named; as they are if it named none."""
    if not kind:
        return columns
    return nw.from_arrow(arrow_table(columns), backend=kind).to_native()


def arrow_table(columns: Mapping[str, AnyArray]) -> pa.Table:
    """Return columns as a table of Arrow, null where a value is missing."""
    return pa.table(
        {name: pa.array(np.ma.getdata(cells), mask=missing_in(cells)) for name, cells in columns.items()}
    )


def names_of(X: Any) -> list[str]:
    """Return the names of the columns of a frame or a dict."""
    return [str(name) for name in getattr(X, "column_names", getattr(X, "columns", X))]


def _names(X: Any, fields: Sequence[Field]) -> list[str]:
    if hasattr(X, "columns") or isinstance(X, Mapping):
        return names_of(X)
    if getattr(getattr(X, "dtype", None), "names", None):
        return list(X.dtype.names)
    if getattr(X, "ndim", 0) == 2:
        features = [known for known in fields if known.role == "feature"]
        for wanted in (features, fields):
            if X.shape[1] == len(wanted):
                return [known.name for known in wanted]
        raise InvalidInputError(f"an array must have one column for each of the {len(features)} features")
    raise InvalidInputError("a table must be a frame, a dict of columns, or rows with one column per feature")


def column_of(X: Any, name: str, fields: Sequence[Field]) -> Any:
    """Return a column of a frame, a dict, a table that was read, or an array with the columns of fields."""
    if isinstance(X, list):
        X = np.array(X, dtype=object)
    names = _names(X, fields)
    if names.count(name) > 1:
        raise InvalidInputError(f"{place_of(X)}two columns of the table are called {name!r}")
    if name not in names:
        declared = {known.name for known in fields}  # another column of the contract is not meant
        raise unknown_column(name, names, f"{place_of(X)}the table", declared)
    if getattr(X, "ndim", 0) == 2 and not hasattr(X, "columns"):
        return X[:, names.index(name)]
    return named(X, name)


def named(X: Any, name: str) -> Any:
    """Return the column of a frame or dict whose name reads so: pandas calls columns also by numbers."""
    try:
        column = X.columns[name] if hasattr(X, "n_rows") else X[name]  # a table that was read: as it is held
    except KeyError:
        column = X[next(key for key in getattr(X, "columns", X) if str(key) == name)]
    return column.compute() if hasattr(column, "compute") else column  # of Dask


def count_rows(X: Any) -> int:
    """Return the number of rows of a table of any kind, or of an array."""
    if hasattr(X, "n_rows"):  # a table that was read
        return int(X.n_rows)
    return len(next(iter(X.values()), ())) if isinstance(X, Mapping) else len(X)


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a table of any kind, or of an array, by truth values or by their numbers."""
    if isinstance(X, Mapping):
        taken = {
            name: (column if isinstance(column, Parsed) else column_array(plain_column(column)))[rows]
            for name, column in X.items()
        }
        return replace(X, columns=taken, n_rows=count_rows(taken)) if is_dataclass(X) else taken
    numbers = np.arange(len(X))[rows]
    if hasattr(X, "iloc"):
        return X.iloc[numbers]
    if hasattr(X, "columns"):
        return nw.from_native(X)[numbers.tolist()].to_native()
    return np.asarray(X)[numbers]


def unknown_column(
    name: str, known: Sequence[str], where: str, taken: Collection[str] = ()
) -> InvalidInputError:
    """Return the error for a column that is not there, with the name that may be meant."""
    hint = similar_name(name, [other for other in known if other not in taken])
    return InvalidInputError(f"{where} has no column {name!r} among its {len(known)}{hint}")


def similar_name(name: str, names: Sequence[str]) -> str:
    """Return the end of a message about a name that is not there: the one that may be meant."""
    near = get_close_matches(name, names, n=1)
    return f", did you mean {near[0]!r}?" if near else ""
