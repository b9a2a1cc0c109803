"""One-file HTML pages in one style: no script, no network, everything inside."""

from __future__ import annotations

import base64
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.files import output_file
from onefold._base.optional import require
from onefold.report.comparison import Comparison
from onefold.report.displays import Display
from onefold.report.document import Report, Section, numbers_beside

if TYPE_CHECKING:  # a page needs no attack to be loaded
    from onefold.audit import MembershipAudit

__all__ = [
    "comparison_page",
    "membership_page",
    "report_page",
    "require_page_tools",
    "style",
    "write_page",
    "write_report",
]

WIDE, TIGHT = 5, 9  # columns of a table
SHORT = 16  # lines of a section that stays in one piece
PICTURE = 10  # lines that are as high as a picture
MOST_NAMES = 12  # of a list in a line
RANGE = re.compile(r"-?[\d.]+(e[-+]?\d+)? to -?[\d.]+(e[-+]?\d+)?")  # which no line may divide
VOID = "No privacy is promised"
SUM = re.compile(r"[0-9a-f]{64}")  # SHA-256


def write_page(path: str | Path, page: str) -> None:
    """Write a page to a file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file.
    page : str
        The page, from :func:`report_page`, :func:`comparison_page` or :func:`membership_page`.

    Raises
    ------
    InvalidInputError
        If the file cannot be written.

    See Also
    --------
    report_page : A page on anything that was fitted or released.
    comparison_page : A page on classifiers of several sites.
    membership_page : A page on a membership audit.

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
    content = json.dumps(report.to_dict(), indent=1, ensure_ascii=False, allow_nan=False).encode()
    # The page is made of what was written, so that it cannot show a number that is not there.
    page = report_page(Report.from_dict(json.loads(content)))
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


def comparison_page(comparison: Comparison) -> str:
    """Make a page with the accuracies, the class counts, the settings and the versions of a comparison.

    Every text is escaped; both figures carry a description for readers who cannot see them.

    Parameters
    ----------
    comparison : Comparison
        What the page shows.

    Returns
    -------
    str
        The page; :func:`write_page` writes it to a file.

    Raises
    ------
    MissingDependencyError
        If jinja2 or matplotlib (extra ``report``) is not installed.

    See Also
    --------
    Comparison.table : The same numbers as plain text.
    write_page : Write the page to a file.

    Examples
    --------
    >>> from onefold.report import Comparison, Entry
    >>> entries = [Entry("north alone", "alone", 50, 2, 0.8), Entry("together", "federated", 50, 2, 0.9)]
    >>> page = comparison_page(Comparison("Digits", "Two classifiers.", entries, ["0", "1"], [[20, 30]]))
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'
    """
    from onefold.report.federations import of_comparison

    return report_page(of_comparison(comparison))


def membership_page(audit: MembershipAudit, title: str, facts: dict[str, str]) -> str:
    """Make a page with the numbers, the ROC curve and the notes of a membership audit.

    Every text is escaped, and the figures carry descriptions.

    Parameters
    ----------
    audit : MembershipAudit
        What :func:`onefold.audit.audit_membership` returned.
    title : str
        Heading of the page.
    facts : dict of str to str
        What the reader should know about the audit, such as the names of the files; listed under the heading.

    Returns
    -------
    str
        The page; :func:`write_page` writes it to a file.

    Raises
    ------
    MissingDependencyError
        If jinja2 or matplotlib (extra ``report``) is not installed.

    See Also
    --------
    onefold.audit.audit_membership : Make the audit.
    write_page : Write the page to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import AutoencoderClassifier
    >>> from onefold.audit import audit_membership
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> audit = audit_membership(AutoencoderClassifier().fit(X[:20], y[:20]), X[:20], X[20:])
    >>> "<h1>Who was in?</h1>" in membership_page(audit, "Who was in?", {"model": "north.model"})
    True
    """
    from onefold.report.builders import of_membership

    return report_page(of_membership(audit, title, facts))
