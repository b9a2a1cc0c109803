"""Outputs of commands: what is checked before the work starts, private tables with their guarantee.

Tables whose columns are released (numbers, whole numbers and texts) are read here too, so that what comes out
has the columns that went in.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.files import write_whole
from onefold.cli.console import busy
from onefold.cli.tables import DECIMAL, WHOLE, as_text, distinct_texts
from onefold.exceptions import InvalidInputError
from onefold.tables.reading import gather
from onefold.tables.sources import open_table
from onefold.tables.writing import Columns, check_format, write_rows, write_table

if TYPE_CHECKING:
    from onefold.tables import Schema

STANDARD_OUTPUT = "-"


def check_writable(path: str, *inputs: str) -> None:
    """Refuse an output nobody could write, or that would replace an input, before the work starts."""
    if path == STANDARD_OUTPUT:
        return
    target = Path(path)
    inputs = tuple(str(getattr(name, "file", None) or name) for name in inputs)  # the file of a database
    if any(target.exists() and Path(name).exists() and target.samefile(name) for name in inputs):
        raise InvalidInputError(f"{path}: is an input of this command, name another file for the result")
    if not target.parent.is_dir():
        raise InvalidInputError(f"{path}: the folder does not exist")
    if target.is_dir():
        raise InvalidInputError(f"{path}: is a folder")
    if not os.access(target.parent, os.W_OK):
        raise InvalidInputError(f"{path}: permission denied")


def check_spares_ledger(ledger: str | None, *outs: str | None) -> None:
    """Refuse an output, or the guarantee beside it, that would replace the account of what is spent."""
    if ledger is None:
        return
    for out in outs:
        if out is not None and out != STANDARD_OUTPUT:
            for path in (out, f"{out}.guarantee.json"):
                check_writable(path, ledger)


def check_table_format(path: str, *inputs: str) -> None:
    """Refuse an output table whose format is unknown, needs a missing package, or that is an input."""
    check_writable(path, *inputs)
    if path == STANDARD_OUTPUT:
        return
    check_format(path)


def check_private_table(path: str, *inputs: str) -> None:
    """Refuse an output table that cannot be written, or has no file beside it for its guarantee."""
    check_table_format(path, *inputs)
    if path == STANDARD_OUTPUT:
        raise InvalidInputError("--out - has no place for the guarantee: name a file")


def write_guarantee(table: str, promise: Mapping[str, Any]) -> str:
    """Write the guarantee of a table to a file beside it, and return the name of that file."""
    path = f"{table}.guarantee.json"
    write_whole(path, json.dumps(promise, indent=1, ensure_ascii=False).encode(), public=True)
    return path


def write_model(path: str, model: Any) -> None:
    """Write a model, without the guarantee of an earlier one beside it."""
    from onefold import io

    take_guarantee_away(path)
    io.save(model, path)


def write_private_model(path: str, model: Any) -> str:
    """Write a model and its guarantee, and return the name of the guarantee's file."""
    write_model(path, model)
    return write_guarantee(path, model.guarantee_.to_dict())


def take_guarantee_away(path: str) -> None:
    """Delete the guarantee of an earlier file of this name: it must never lie beside another one."""
    Path(f"{path}.guarantee.json").unlink(missing_ok=True)


def write_private_table(
    path: str, columns: Columns, promise: Mapping[str, Any], schema: Schema | None = None
) -> str:
    """Write a table and its guarantee, and return the name of the guarantee's file."""
    take_guarantee_away(path)
    write_table(path, columns, schema, public=bool(promise["holds"]))
    return write_guarantee(path, promise)


def write_columns(path: str, columns: Columns) -> None:
    """Write a table to a file, or as CSV to standard output."""
    if path == STANDARD_OUTPUT:
        write_rows(sys.stdout, columns)
    else:
        take_guarantee_away(path)
        write_table(path, columns)


# --- tables that are read and written back ---------------------------------------------------------------


# A leading zero makes a code of what would be a number.
CODE = re.compile(r"-?0[0-9]")


@dataclass(frozen=True)
class MixedTable:
    """Columns of a file in their order as they stand there, texts of a CSV file too; no ignored ones.

    ``matrix`` says that they stood in one array ``X`` of an NPZ file, ``named`` that it named its columns.
    """

    path: Path | str
    columns: dict[str, AnyArray]
    label: str | None
    person: str | None = None
    matrix: bool = False
    named: bool = True

    @property
    def features(self) -> dict[str, AnyArray]:
        """All columns but the label and the person."""
        apart = (self.label, self.person)
        return {name: values for name, values in self.columns.items() if name not in apart}

    @property
    def persons(self) -> AnyArray | None:
        """Whom each row is about, without missing ones."""
        if self.person is None:
            return None
        column = self.columns[self.person]
        if column.dtype.kind in "US":
            distinct_texts(f"{self.path}: column {self.person!r}", column.astype(str))
        return column

    def typed(self, names: Collection[str]) -> MixedTable:
        """The same table with some columns in the type of all their cells; a missing cell is refused.

        One cell can decide the type: nothing private may depend on it.
        """
        known = {name: _typed(f"{self.path}: column {name!r}", self.columns[name]) for name in names}
        return replace(self, columns=self.columns | known)

    def with_values(self, path: str, features: dict[str, AnyArray], labels: AnyArray | None) -> Columns:
        """The columns to write to a file, without the person; an array ``X`` stays one in an NPZ file."""
        values = features if labels is None else features | {str(self.label): labels}
        if not (self.matrix and path.lower().endswith(".npz")):
            return {name: values[name] for name in self.columns if name != self.person}
        arrays: dict[str, AnyArray] = {"X": np.column_stack(list(features.values()))}
        if self.named:
            arrays["feature_names"] = np.array(list(features))
        return arrays if labels is None else arrays | {str(self.label): labels}


def read_mixed(
    path: str, label: str | None, ignore: Collection[str], person: str | None = None, quiet: bool = True
) -> MixedTable:
    """Read every column as it stands in the file, whose rows are private; what cells mean is declared."""
    kept_apart = [name for name in (label, person) if name is not None]
    with busy(f"reading {path}", quiet), open_table(path, private=True) as source:
        source.require([*ignore, *kept_apart])
        if set(kept_apart) & set(ignore):
            raise InvalidInputError("--ignore names a column that --label or --person needs")
        candidates = (*source.matrix, *kept_apart) if source.matrix else source.names
        wanted = [name for name in dict.fromkeys(candidates) if name not in ignore]
        if len(wanted) == len(set(kept_apart)):
            raise InvalidInputError(f"{path}: no feature column is left")
        found = gather(source, wanted)
    columns = {name: as_text(f"{path}: column {name!r}", values) for name, values in found.items()}
    return MixedTable(source.path, columns, label, person, source.matrix is not None, source.named)


def _typed(where: str, values: AnyArray) -> AnyArray:
    """Text that spells numbers becomes numbers; everything else stays."""
    if values.ndim != 1 or values.dtype.kind not in "iufbUS":
        raise InvalidInputError(f"{where} holds neither numbers nor text")
    if values.dtype.kind not in "US":
        return values
    distinct, inverse = distinct_texts(where, values.astype(str))
    if all(WHOLE.fullmatch(text) and "." not in text for text in distinct):
        return distinct.astype(np.int64)[inverse]
    if all(DECIMAL.fullmatch(text) and not CODE.match(text) for text in distinct):
        return distinct.astype(np.float64)[inverse]
    return distinct[inverse]
