"""``--explain`` of ``predict``: which columns decided, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.exceptions import InvalidInputError
from onefold.models import ClassReasons, NumberReasons
from onefold.models.reasons import FEWEST_ROWS

BECAUSE = "because"
Reasons = ClassReasons | NumberReasons


def add_explain(parser: Any) -> None:
    """Declare the options."""
    about = (
        "say for the first N rows which columns decided, or moved a predicted number, in words, and write it "
        "in a column because; a row is compared with others, those of DATA unless --against names a "
        "file"
    )
    option(parser, "--explain N", about, shared.whole)
    others = (
        "table of rows that --explain compares with, in the columns of DATA; what is written tells whether "
        "cells are high or low among them"
    )
    option(parser, "--against FILE", others)


def check_explain(args: Any, n_rows: int | None = None) -> None:
    """Refuse what does not go together, or too few rows to compare with."""
    if args.explain is None and args.against is not None:
        raise InvalidInputError("--against goes with --explain N")
    if args.explain is not None and args.against is None and n_rows is not None and n_rows < FEWEST_ROWS:
        raise InvalidInputError(
            f"--explain compares a row with others, and {args.data} has {n_rows}: give at least "
            f"{FEWEST_ROWS} rows with --against FILE"
        )


def because(found: Sequence[Reasons], n_rows: int) -> AnyArray:
    """The column of sentences, empty where nothing was explained."""
    said = [str(each) for each in found]
    return np.array(said + [""] * (n_rows - len(said)))


def lines(found: Sequence[Reasons], most: int = 5) -> list[str]:
    """The first sentences, to be shown."""
    return [f"row {number}: {each}" for number, each in enumerate(found[:most], 1)]
