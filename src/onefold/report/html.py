"""One-file HTML pages in one style: no script, no network, everything inside."""

import base64
import json
import re
import unicodedata
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from onefold._base.files import output_file
from onefold._base.optional import require
from onefold.report.displays import Display
from onefold.report.document import Report, Section, numbers_beside

WIDE, TIGHT = 5, 9  # columns of a table
SHORT = 16  # lines of a section that stays in one piece
PICTURE = 10  # lines that are as high as a picture
MOST_NAMES = 12  # of a list in a line
RANGE = re.compile(r"-?[\d.]+(e[-+]?\d+)? to -?[\d.]+(e[-+]?\d+)?")  # which no line may divide
VOID = "No privacy is promised"
SUM = re.compile(r"[0-9a-f]{64}")  # SHA-256
GAP = "  "


def write_page(path: str | Path, page: str) -> None:
    """Write a page to a file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file.
    page : str
        The page, from :func:`report_page`.

    Raises
    ------
    InvalidInputError
        If the file cannot be written.

    See Also
    --------
    report_page : A page on anything that was fitted or released.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(pathlib.Path(folder, "page.html"), "<p>north</p>")
    ...     pathlib.Path(folder, "page.html").read_text()
    '<p>north</p>'
    """
    with output_file(path, public=True) as file:
        file.write(page.encode())


def require_page_tools() -> None:
    """Raise MissingDependencyError now rather than after a long run."""
    for module in ("jinja2", "matplotlib", "matplotlib.figure"):
        require(module, "report")


def style() -> str:
    """The one style of all pages."""
    return files("onefold.report").joinpath("templates/style.css").read_text(encoding="utf-8")


def report_page(report: Report) -> str:
    """Make a page of a report.

    Every text is escaped, and every picture carries a description for readers who cannot see it.

    Parameters
    ----------
    report : Report
        What the page shows.

    Returns
    -------
    str
        The page; :func:`write_report` writes it to a file, with its numbers beside it.

    Raises
    ------
    MissingDependencyError
        If jinja2 or matplotlib (extra ``report``) is not installed.

    See Also
    --------
    Report : What a page is made of.

    Examples
    --------
    >>> from onefold.report import Report
    >>> page = report_page(Report("model", "Irises", ["96 of 100 rows are predicted right."], []))
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'
    """
    if any(section.display is not None for section in report.sections):
        require_page_tools()
    jinja2 = require("jinja2", "report")
    source = files("onefold.report").joinpath("templates/report.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "shown": shown,
        "picture": _picture,
        "numeric": _numeric,
        "layout": _layout,
        "is_sum": _is_sum,
        "is_range": _is_range,
        "void": _is_void,
    }
    markup = require("markupsafe", "report").Markup
    page: str = environment.from_string(source).render(report=report, style=markup(style()))
    return page


def write_report(path: str | Path, report: Report) -> str:
    """Write the page of a report, and its numbers as JSON beside it.

    Parameters
    ----------
    path : str or Path
        The page; its name ends in .html.
    report : Report
        What the page shows.

    Returns
    -------
    str
        Name of the JSON file: that of the page, ending in .json.

    Raises
    ------
    MissingDependencyError
        If jinja2 or matplotlib (extra ``report``) is not installed.

    See Also
    --------
    Report.read : Read the JSON file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from onefold.report import Report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "page.html")
    ...     beside = write_report(path, Report("model", "Irises", ["96 of 100 rows are right."], []))
    ...     Report.read(beside).title
    'Irises'
    """
    beside = numbers_beside(path)
    content = json.dumps(report.numbers, indent=1, ensure_ascii=False, allow_nan=False).encode()
    # The page is made of what was written, so that it cannot show a number that is not there.
    page = report_page(Report.of(json.loads(content)))
    with output_file(beside, public=True) as file:
        file.write(content)
    write_page(path, page)
    return str(beside)


def shown(value: Any) -> str:
    """A value as a reader wants it: four digits of a number, yes or no, the first names of a list."""
    if value is None:
        return "not stated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return (
            f"{value:.4g}"
            if value and not 1e-3 <= abs(value) < 1e5
            else f"{value:.4f}".rstrip("0").rstrip(".")
        )
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(end, float) for end in value):
        return f"{shown(value[0])} to {shown(value[1])}"
    if isinstance(value, list | tuple):
        more = f" and {len(value) - MOST_NAMES} more" if len(value) > MOST_NAMES + 1 else ""
        return ", ".join(map(shown, value[:MOST_NAMES] if more else value)) + more
    return str(value)


def _numeric(section: Section) -> set[int]:
    """Columns of a table that hold numbers only, and perhaps cells without any."""
    columns = zip(*section.rows, strict=False)
    return {
        place
        for place, cells in enumerate(columns)
        if any(map(_is_number, cells)) and all(cell == "" or _is_number(cell) for cell in cells)
    }


def _layout(section: Section) -> str:
    """Classes of a section: a table over both columns, or in smaller letters; what no page may divide."""
    columns = len(section.headers) if section.rows else 0
    found = [name for name, least in (("wide", WIDE), ("tight", TIGHT)) if columns >= least]
    picture = PICTURE if section.display is not None else 0
    lines = len(section.rows) + len(section.facts) + picture
    whole = bool(picture or section.rows) and lines <= SHORT and len(section.notes) <= 1
    return " ".join(found + ["whole"] * whole)


def _is_sum(value: Any) -> bool:
    return isinstance(value, str) and SUM.fullmatch(value) is not None


def _is_range(value: Any) -> bool:
    return isinstance(value, str) and RANGE.fullmatch(value) is not None


def _is_void(report: Report) -> bool:
    """Whether the verdict is that nothing is promised: it has another colour."""
    return any(line.startswith(VOID) for line in report.verdict)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _picture(display: Display) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(display.to_svg().encode()).decode("ascii")


# --- tables in plain text ---------------------------------------------------------------------------------


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
    cells = [[_cell(cell) for cell in row] for row in rows]
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


def _cell(cell: object) -> str:
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
