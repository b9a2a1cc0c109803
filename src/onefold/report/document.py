"""A report before it is a page: numbers and sentences in JSON; the page shows these and no others."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onefold
from onefold._base.foreign import parse_json
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError
from onefold.report.displays import Display, read_display

FORMAT = "onefold report 1"
LARGEST = 64 * 2**20
PACKAGES = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Section:
    """A part of a report under a heading of its own.

    Parameters
    ----------
    title : str
        The heading.
    text : sequence of str, default=()
        Sentences under the heading.
    facts : mapping of str to Any, default={}
        Names with their values.
    headers : sequence of str, default=()
        Headings of the columns of a table.
    rows : sequence of sequences, default=()
        Lines of the table: texts and numbers.
    display : Display or None, default=None
        A picture.
    notes : sequence of str, default=()
        Points after all this.

    See Also
    --------
    Report : Sections with a verdict before them.

    Examples
    --------
    >>> Section("Data", facts={"rows": 150}).to_dict()["facts"]
    {'rows': 150}
    """

    title: str
    text: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    display: Display | None = None
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the section as plain values for JSON.

        Returns
        -------
        dict
            What the section has, by name.
        """
        plain: dict[str, Any] = {
            "title": self.title,
            "text": list(self.text),
            "facts": dict(self.facts),
            "headers": list(self.headers),
            "rows": [list(row) for row in self.rows],
            "display": None if self.display is None else self.display.to_dict(),
            "notes": list(self.notes),
        }
        return {name: value for name, value in plain.items() if value}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Section:
        """Make the section again from what :meth:`to_dict` returned.

        Parameters
        ----------
        plain : mapping
            The description.

        Returns
        -------
        Section
            The section.
        """
        shown = plain.get("display")
        headers = [str(name) for name in plain.get("headers", ())]
        rows = [list(row) for row in plain.get("rows", ())]
        if any(not row or len(row) != len(headers) for row in rows):
            raise FileFormatError("a table of this report does not have one cell for each heading")
        return cls(
            str(plain["title"]),
            [str(line) for line in plain.get("text", ())],
            dict(plain.get("facts", {})),
            headers,
            rows,
            None if shown is None else read_display(shown),
            [str(line) for line in plain.get("notes", ())],
        )


@dataclass(frozen=True)
class Report:
    """What people should know about something fitted or released: a verdict first, then the evidence.

    Parameters
    ----------
    kind : str
        What the report is about, such as "model" or "table".
    title : str
        Heading of the page.
    verdict : sequence of str
        The verdict: sentences that a reader without training understands.
    sections : sequence of Section
        The evidence.
    versions : mapping of str to str, default=None
        Versions of the packages; None takes those of this process.

    See Also
    --------
    report_page : The report as an HTML page.
    write_report : The page in a file, with its numbers beside it.

    Examples
    --------
    >>> report = Report("model", "Irises", ["96 of 100 rows are predicted right."], [])
    >>> Report.from_dict(report.to_dict()) == report
    True
    """

    kind: str
    title: str
    verdict: Sequence[str]
    sections: Sequence[Section]
    versions: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.versions is None:
            object.__setattr__(self, "versions", package_versions())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON.

        Returns
        -------
        dict
            Everything that the page shows.
        """
        return {
            "format": FORMAT,
            "kind": self.kind,
            "title": self.title,
            "verdict": list(self.verdict),
            "sections": [section.to_dict() for section in self.sections],
            "versions": dict(self.versions or {}),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Report:
        """Make the report again from what :meth:`to_dict` returned.

        Parameters
        ----------
        plain : mapping
            The description.

        Returns
        -------
        Report
            The report.
        """
        try:
            if plain["format"] != FORMAT:
                raise FileFormatError("this report is of another version of onefold")
            sections = [Section.from_dict(section) for section in plain["sections"]]
            verdict = [str(line) for line in plain["verdict"]]
            versions = {str(name): str(value) for name, value in plain["versions"].items()}
            return cls(str(plain["kind"]), str(plain["title"]), verdict, sections, versions)
        except OnefoldError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError):
            raise FileFormatError("this is not the description of a report") from None

    @classmethod
    def read(cls, path: str | Path) -> Report:
        """Read the JSON file that :func:`onefold.report.write_report` wrote.

        Parameters
        ----------
        path : str or Path
            The JSON file.

        Returns
        -------
        Report
            The report.
        """
        try:
            with Path(path).open("rb") as file:
                content = file.read(LARGEST + 1)
        except OSError as error:
            raise InvalidInputError(f"{path}: {error.strerror or 'cannot be read'}") from None
        if len(content) > LARGEST:
            raise FileFormatError(f"{path}: too large for a report")
        try:
            return cls.from_dict(parse_json(content))
        except OnefoldError as error:
            raise FileFormatError(f"{path}: {error}") from None


def numbers_beside(path: str | Path) -> Path:
    """Where the numbers of a page are written."""
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"{path}: the name of a report must end in .html")
    return page.with_suffix(".json")


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers."""
    packages = {name: version(name) for name in PACKAGES}
    return {"Python": platform.python_version(), "onefold": onefold.__version__, **packages}
