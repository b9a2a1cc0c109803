"""Outputs of commands: what is checked before the work starts, private tables with their guarantee."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.files import read_saved, write_whole
from onefold._base.foreign import parse_json
from onefold.exceptions import InvalidInputError
from onefold.tables.schema import AS_THEY_STAND, Schema
from onefold.tables.writing import Columns, check_format, write_rows, write_table

if TYPE_CHECKING:
    from onefold.privacy import Guarantee

STANDARD_OUTPUT = "-"
GUARANTEE, QUALITY = ".guarantee.json", ".quality.json"


def check_writable(path: str, *inputs: str | None) -> None:
    """Refuse an output nobody could write, or that would replace an input, before the work starts."""
    if path == STANDARD_OUTPUT:
        return
    target = Path(path)
    files = [file for name in inputs if name is not None for file in files_of(name)]
    if any(target.exists() and Path(name).exists() and target.samefile(name) for name in files):
        raise InvalidInputError(f"{path}: is an input of this command, name another file for the result")
    if not target.parent.is_dir():
        raise InvalidInputError(f"{path}: the folder does not exist")
    if target.is_dir():
        raise InvalidInputError(f"{path}: is a folder")
    if not os.access(target.parent, os.W_OK):
        raise InvalidInputError(f"{path}: permission denied")


def files_of(name: str) -> list[str]:
    """The files behind an input: those of an address are its SQLite database, and its statement."""
    return name.removeprefix("sqlite:///").split("#") if "://" in name else [name]


def check_spares_ledger(ledger: str | None, *outs: str | None) -> None:
    """Refuse an output that would replace the ledger, and a ledger without the release that was there."""
    if ledger is None:
        return
    from onefold.privacy.ledger import check_counts

    for out in outs:
        if out is not None and out != STANDARD_OUTPUT:
            beside = f"{out}{GUARANTEE}"
            for path in (out, beside):
                check_writable(path, ledger)
            earlier = [read_guarantee(beside)] if Path(beside).is_file() else []
            check_counts(ledger, *earlier)


def read_guarantee(path: str) -> Guarantee:
    """The guarantee that a file describes."""
    from onefold.privacy import Guarantee

    return read_saved(path, "there is no guarantee", lambda text: Guarantee.from_dict(parse_json(text)))


def check_table_format(path: str, *inputs: str | None) -> None:
    """Refuse an output table whose format is unknown, needs a missing package, or that is an input."""
    check_writable(path, *inputs)
    if path != STANDARD_OUTPUT:
        check_format(path)


def check_private_table(path: str, *inputs: str | None) -> None:
    """Refuse an output table that cannot be written, or has no file beside it for its guarantee."""
    check_table_format(path, *inputs)
    if path == STANDARD_OUTPUT:
        raise InvalidInputError("--out - has no place for the guarantee: name a file")


def write_beside(path: str, end: str, content: Mapping[str, Any]) -> str:
    """Write what is to be known about a file as JSON beside it, and return the name of that file."""
    name = f"{path}{end}"
    write_whole(name, json.dumps(content, indent=1, ensure_ascii=False).encode(), public=True)
    return name


def write_model(path: str, model: Any) -> None:
    """Write a model, without the guarantee of an earlier one beside it."""
    from onefold import io

    take_promises_away(path)
    io.save(model, path)


def write_private_model(path: str, model: Any) -> str:
    """Write a model and its guarantee, and return the name of the guarantee's file."""
    write_model(path, model)
    return write_beside(path, GUARANTEE, model.guarantee_.to_dict())


def take_promises_away(path: str) -> None:
    """Delete what was said of an earlier file of this name: it must never lie beside another one."""
    for end in (GUARANTEE, QUALITY):
        Path(f"{path}{end}").unlink(missing_ok=True)


def write_private_table(
    path: str, columns: Columns, promise: Mapping[str, Any], schema: Schema = AS_THEY_STAND
) -> str:
    """Write a table and its guarantee, and return the name of the guarantee's file."""
    take_promises_away(path)
    declared = () if schema.plain else (schema,)
    write_table(path, columns, *declared, public=bool(promise["holds"]))
    return write_beside(path, GUARANTEE, promise)


def write_columns(path: str, columns: Columns) -> None:
    """Write a table to a file, or as CSV to standard output."""
    if path == STANDARD_OUTPUT:
        write_rows(sys.stdout, columns)
    else:
        take_promises_away(path)
        write_table(path, columns)
