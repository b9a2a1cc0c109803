"""Reading a table of numbers with labels from CSV, NPZ or Parquet.

One function, :func:`read_table`, whatever the format. Messages name columns and row numbers and never
repeat a cell, because the cells may be private.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli.formats import Source, open_source
from onefold.exceptions import InvalidInputError

SHOWN_NAMES = 5


@dataclass(frozen=True)
class Table:
    """Feature values of a file, with the columns that were asked for as they are.

    Attributes
    ----------
    path : Path
        The file.
    names : tuple of str or None
        Name of each feature column; None when the file does not name them (an array ``X`` in an NPZ).
    values : ndarray of shape (n_rows, n_features)
        ``float64``, or ``float32`` where the file itself holds nothing wider than that.
    kept : dict of str to ndarray
        The columns named in ``keep``: whole numbers or strings, in row order.
    ignored : int
        How many columns of the file were not used.
    """

    path: Path
    names: tuple[str, ...] | None
    values: NDArray[Any]
    kept: dict[str, NDArray[Any]]
    ignored: int


def read_table(
    path: str | Path,
    *,
    keep: Sequence[str] = (),
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
) -> Table:
    """Read a file of samples.

    Parameters
    ----------
    path : path
        A file ending in .csv, .tsv, .npz or .parquet.
    keep : sequence of str
        Columns that are no features and are handed back unchanged (a label, an identifier).
    ignore : collection of str
        Columns to leave out.
    features : sequence of str, optional
        The features wanted, in this order; further columns are then left out. Default: every column that is
        neither kept nor ignored, in the order of the file.

    Returns
    -------
    Table
    """
    path = Path(path)
    with open_source(path) as source:
        for name in [*keep, *ignore]:
            _require_column(source, name)
            if name in (features or ()):
                raise InvalidInputError(
                    f"column {name!r} is a feature of the model, so it cannot be used otherwise"
                )
        wanted = _feature_columns(source, set(keep) | set(ignore), features)
        values, kept = source.read(wanted, list(dict.fromkeys(keep)))
    names = None if source.names is None else tuple(source.names[j] for j in wanted)
    _require_rows(path, values)
    _require_finite(path, names, values)
    unused = (
        0 if source.names is None else len(source.names) - len(wanted) - len(set(keep) & set(source.names))
    )
    return Table(path, names, values, kept, unused)


def _require_column(source: Source, name: str) -> None:
    known = [*(source.names or ()), *source.extras]
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise InvalidInputError(f"{source.path}: there is no column {name!r} among its {len(known)}{hint}")


def _feature_columns(source: Source, taken: set[str], features: Sequence[str] | None) -> list[int]:
    """Positions of the feature columns in the file, in the order they are wanted."""
    if source.names is None:
        return []
    if features is None:
        chosen = [j for j, name in enumerate(source.names) if name not in taken]
        if not chosen:
            raise InvalidInputError(f"{source.path}: no feature column is left")
        return chosen
    position = {name: j for j, name in enumerate(source.names)}
    missing = [name for name in features if name not in position]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:SHOWN_NAMES])
        more = ", ..." if len(missing) > SHOWN_NAMES else ""
        raise InvalidInputError(
            f"{source.path}: {len(missing)} of the model's {len(features)} features missing: {shown}{more}"
        )
    return [position[name] for name in features]


def _require_rows(path: Path, values: NDArray[Any]) -> None:
    if values.shape[0] == 0:
        raise InvalidInputError(f"{path}: the table has no rows")
    if values.shape[1] == 0:
        raise InvalidInputError(f"{path}: no feature column is left")


def _require_finite(path: Path, names: tuple[str, ...] | None, values: NDArray[Any]) -> None:
    # One pass without a mask of the whole table: a sum is finite unless an entry is not (or it overflows).
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    row, column = np.unravel_index(np.argmin(np.isfinite(values)), values.shape)
    if not np.isfinite(values[row, column]):
        where = f"column {names[column]!r}" if names is not None else f"feature {int(column) + 1}"
        raise InvalidInputError(f"{path}: {where} has a NaN or infinite value in row {int(row) + 1}")
