"""A report before it is a page: numbers and sentences in JSON; the page shows these and no others."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, ValidationError, model_serializer

import onefold
from onefold._base.foreign import parse_json
from onefold._base.records import CONFIG, _adapter, first_fault
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError
from onefold.report.displays import Display, display_of

FORMAT = "onefold report 1"
LARGEST = 64 * 2**20
PACKAGES = ("numpy", "scipy", "scikit-learn")


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers."""
    packages = {name: version(name) for name in PACKAGES}
    return {"Python": platform.python_version(), "onefold": onefold.__version__, **packages}


Picture = Annotated[Display, PlainValidator(display_of), PlainSerializer(lambda display: display.numbers)]


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
    >>> Section("Accuracy", headers=["model", "accuracy"], rows=[["majority", 0.4], ["onefold", 0.96]]).title
    'Accuracy'
    """

    __pydantic_config__ = CONFIG

    title: str
    text: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    display: Picture | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if any(not row or len(row) != len(self.headers) for row in self.rows):
            raise FileFormatError("a table of this report does not have one cell for each heading")

    @model_serializer(mode="wrap")
    def _without_gaps(self, serialize: Any) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value}


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
    versions : mapping of str to str, default={}
        Versions of the packages; where they are left out, those of this process.
    format : str, default="onefold report 1"
        Format of the JSON file.

    See Also
    --------
    report_page : The report as an HTML page.
    write_report : The page in a file, with its numbers beside it.

    Examples
    --------
    >>> report = Report("model", "Irises", ["96 of 100 rows are predicted right."], [])
    >>> Report.of(report.numbers) == report
    True
    """

    __pydantic_config__ = CONFIG

    format: str = field(default=FORMAT, kw_only=True)
    kind: str
    title: str
    verdict: Sequence[str]
    sections: Sequence[Section]
    versions: Mapping[str, str] = field(default_factory=package_versions)

    @property
    def numbers(self) -> dict[str, Any]:
        """Everything that the page shows, as plain values for JSON."""
        plain: dict[str, Any] = _adapter(Report).dump_python(self, mode="json")
        return plain

    @classmethod
    def of(cls, numbers: Any) -> Report:
        """Make the report again from its numbers.

        Parameters
        ----------
        numbers : mapping of str to Any
            What :attr:`numbers` gave.

        Returns
        -------
        Report
            The report.
        """
        if isinstance(numbers, Mapping) and numbers.get("format", FORMAT) != FORMAT:
            raise FileFormatError("this report is of another version of onefold")
        try:
            return _adapter(Report).validate_json(json.dumps(numbers))
        except ValidationError as error:
            raise FileFormatError(f"this is no report that onefold can draw: {first_fault(error)}") from None

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
        numbers = json_in(path)
        try:
            return cls.of(numbers)
        except OnefoldError as error:
            raise FileFormatError(f"{path}: {error}") from None


def json_in(path: str | Path, most: int = LARGEST) -> Any:
    """What a JSON file of at most so many bytes says."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise FileFormatError("too large for what it should hold")
        return parse_json(content)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except OnefoldError as error:
        raise FileFormatError(f"{path}: {error}") from None


def numbers_beside(path: str | Path) -> Path:
    """Where the numbers of a page are written."""
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"{path}: the name of a report must end in .html")
    return page.with_suffix(".json")
