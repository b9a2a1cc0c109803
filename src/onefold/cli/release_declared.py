"""What the options of ``onefold release`` declare about the columns."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.cli.mixed import MixedTable
from onefold.exceptions import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from onefold.release import TableCodec

Range = tuple[float, float]


def column_value(text: str) -> tuple[str, float]:
    """``COL=NUMBER``, the number positive."""
    name, equals, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (name and equals and value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must look like COL=NUMBER, with a positive number")
    return name, value


def _column_range(option: str, text: str) -> tuple[str, Range]:
    name, _, numbers = text.rpartition("=")
    low, _, high = numbers.partition(":")
    try:
        pair = float(low), float(high)
    except ValueError:
        pair = (math.nan, math.nan)
    if not (name and pair[0] < pair[1]):
        raise InvalidInputError(f"{option} must look like COL=LOW:HIGH, with LOW below HIGH")
    return name, pair


def read_declarations(args: argparse.Namespace, table: MixedTable) -> None:
    """Turn the options into dictionaries, before any work is done."""
    args.ranges = dict(_column_range("--range", text) for text in args.range)
    args.categories = {}
    if args.declared is not None:
        for name, what in _read_json(args.declared).items():
            kind = args.ranges if _is_range(what) else args.categories
            kind.setdefault(name, tuple(what))
    for name in (*args.ranges, *args.categories, *allowed_of(args)):
        if name not in table.features:
            raise InvalidInputError(f"something is declared about a column that is not released: {name!r}")
    if any(not math.isfinite(value) for pair in args.ranges.values() for value in pair):
        raise InvalidInputError("--range must be finite; --allowed may be infinite")


def allowed_of(args: argparse.Namespace) -> dict[str, Range]:
    """What ``--allowed`` says."""
    return dict(_column_range("--allowed", text) for text in args.allowed)


def declared(args: argparse.Namespace, table: MixedTable) -> TableCodec:
    """The codec for the table's features."""
    from onefold.release import TableCodec

    return TableCodec(table.features, args.ranges, args.categories, allowed_of(args))


def _is_range(what: Any) -> bool:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in what)
    return len(what) == 2 and numbers and what[0] < what[1]


def _read_json(path: str) -> dict[str, list[Any]]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except ValueError:
        raise FileFormatError(f"{path}: not a JSON file") from None
    if not isinstance(content, dict) or not all(isinstance(v, list) and v for v in content.values()):
        raise FileFormatError(f"{path}: must hold column -> [low, high], or column -> list of texts")
    return content
