"""Plain-text tables: aligned columns that survive an e-mail."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

__all__ = ["format_table"]

GAP = "  "


def format_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lay out rows under headers, numbers to the right and text to the left.

    Parameters
    ----------
    headers : sequence of str
        One header per column.
    rows : sequence of sequences
        Cells; floats are shown with four digits after the point, None as an empty cell.

    Returns
    -------
    str
        The table without a line break at its end.

    Raises
    ------
    ValueError
        If a row has more or fewer cells than there are headers.

    See Also
    --------
    Comparison.table : The table of a comparison.

    Examples
    --------
    >>> print(format_table(["site", "accuracy"], [["north", 0.5], ["all", 1.0]]))
    site   accuracy
    -----  --------
    north    0.5000
    all      1.0000
    """
    if any(len(row) != len(headers) for row in rows):
        raise ValueError("every row needs one cell for each header")
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headers, *cells, strict=True)]
    right = [_is_numeric([row[j] for row in rows]) for j in range(len(headers))]
    lines = [list(headers), ["-" * width for width in widths], *cells]
    return "\n".join(_line(line, widths, right) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        padding = " " * (width - _width(cell))
        parts.append(padding + cell if to_right else cell + padding)
    return GAP.join(parts).rstrip()


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4f}" if isinstance(cell, float) else " ".join(str(cell).split())


def _is_numeric(column: Sequence[object]) -> bool:
    present = [cell for cell in column if cell is not None]
    return bool(present) and all(isinstance(cell, int | float) for cell in present)


def _width(text: str) -> int:
    """Count the columns a text takes on a terminal: wide characters two, combining marks none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )
