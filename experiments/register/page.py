"""The results page: ``docs/results.md``, made of the sections beside this file and the stored results.

A section is Markdown with places for numbers. ``{{table: kahm/mnist | TITLE}}`` becomes the stored table of
that title, ``{{values: kahm/mnist | all}}`` a list of its values (or of those that fit a pattern),
``{{value: kahm/mnist | NAME | .4f}}`` one value, ``{{beside: 004 | Table 1}}`` what a document prints in a
table, method by method, with ours beside it, ``{{register}}`` a summary of the register, ``{{copied}}`` how
many stored values were copied from earlier pages. A paragraph with a decimal number that is not stored says
so: :func:`unmarked` finds those that do not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import stored
from experiments.register import checking, reading, tolerances
from experiments.register.checking import Line
from onefold.exceptions import InvalidInputError

SECTIONS = Path(__file__).resolve().parent / "sections"
PAGE = checking.ROOT / "docs" / "results.md"
LISTING = checking.ROOT / "docs" / "register.md"
ADVICE = "run python docs/generate.py"
_PLACE = re.compile(r"\{\{(table|values|value|beside): *([^|}]+?) *\| *([^|}]+?) *(?:\| *([^|}]+?) *)?\}\}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_NOTE = "<!-- Made by python docs/generate.py of experiments/results and experiments/register. -->"


def sections() -> list[str]:
    """The text of every section, in the order of the page."""
    return [path.read_text(encoding="utf-8").strip() for path in sorted(SECTIONS.glob("[0-9]*.txt"))]


def places() -> Iterator[tuple[str, str, str]]:
    """What the page shows: kind, experiment and the title or name."""
    for found in _PLACE.finditer("\n".join(sections())):
        yield found[1], found[2], found[3]


def shown(raw: Mapping[str, stored.Raw]) -> dict[str, set[str]]:
    """Names of values that the page shows, by experiment: in a table, in a list, or one by one."""
    found: dict[str, set[str]] = {}
    for kind, experiment, name in places():
        if kind == "beside":
            continue  # rows of the register, which are used there
        result = raw.get(experiment, stored.empty(experiment))
        names = found.setdefault(experiment, set())
        if kind == "value":
            names.add(name)
        elif kind == "values":
            names.update(value for value in result["values"] if name == "all" or tolerances.fits(name, value))
        else:
            rows = next((table["rows"] for table in _titled(result, name)), [])
            numbers = _numbers(cell for row in rows for cell in row)
            names.update(value for value, number in result["values"].items() if _is_among(number, numbers))
    return found


def _numbers(cells: Iterable[Any]) -> set[tuple[float, int]]:
    """Every number in the cells of a table, with how many digits after the point it has."""
    found = set()
    for cell in cells:
        for text in _NUMBER.findall(_cell(cell).replace("−", "-")):
            mantissa, _, power = text.partition("e")
            digits = len(mantissa.partition(".")[2]) - int(power or 0)
            # A single digit is no rounded value: 0.92 is not shown by a 1.
            found.add((float(text), digits if len(mantissa.lstrip("-0.").replace(".", "")) > 1 else 9))
    return found


def _is_among(value: float, numbers: set[tuple[float, int]]) -> bool:
    """Whether a table shows a value, rounded as it likes, perhaps in percent or as what is lost."""
    return any(
        abs(scale * value - number) <= 0.5001 * 10.0**-digits
        for number, digits in numbers
        for scale in (1, 100, -1, -100)
    )


def results_page(raw: Mapping[str, stored.Raw], lines: Sequence[Line]) -> str:
    """The whole page."""
    text = "\n\n".join(sections())
    text = _PLACE.sub(
        lambda found: (
            beside(lines, found[2], found[3]) if found[1] == "beside" else _filled(raw, *found.groups())
        ),
        text,
    )
    text = text.replace("{{register}}", _summary(lines)).replace("{{copied}}", _copied(raw))
    return f"{_NOTE}\n\n{text}\n"


def _copied(raw: Mapping[str, stored.Raw]) -> str:
    """How much of what is stored was not measured by the scripts of this version."""
    by_hand = sum(len(_by_hand(result)) for result in raw.values())
    every = sum(len(result["values"]) for result in raw.values())
    return (
        f"Of {every} stored values {by_hand} were copied from earlier pages and files of results; their runs "
        "say `transcribed`, and a new run replaces them."
    )


def _by_hand(result: stored.Raw) -> set[str]:
    copied: set[str] = set()
    for run in result["runs"]:  # the last run that measured a value counts
        measured = set(run["measured"]) & set(result["values"])
        copied = copied | measured if run.get("transcribed") else copied - measured
    return copied


NOT_STORED = "not stored"
# Settings and names of things, which nobody measures: epsilon 0.5, Dirichlet 0.1, Tables 4.2 to 4.4.
_SETTING = re.compile(
    r"(?:epsilons?|Dirichlet|delta|lam|rho|theta|scale|Tables?|Fig\.|Thm|Prop\.|Sec\.|version|below|at least)"
    r"(?: (?:per (?:entry|record|pixel)|of))? [\d.,e-]+(?:(?:,| and| to| or) [\d.]+)*"
)
_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
_LONG_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d{2,}(?![\w.]*\d)")


def unmarked(raw: Mapping[str, stored.Raw], items: Iterable[reading.Item]) -> list[str]:
    """One line for every paragraph with decimal numbers that are neither stored nor marked as not stored.

    A number may be any of the experiments that its section shows, rounded, or one that a document prints. The
    mark of a table may be in the paragraph before it.
    """
    documents = _printed(items)
    found = []
    for path in sorted(SECTIONS.glob("[0-9]*.txt")):
        text = path.read_text(encoding="utf-8")
        known = documents | _stored_numbers(raw, {place[2] for place in _PLACE.finditer(text)})
        found += _unknown(path.name, _PLACE.sub(" ", text), known, _DECIMAL)
    return found


def unmarked_elsewhere(
    raw: Mapping[str, stored.Raw],
    items: Iterable[reading.Item],
    paths: Iterable[Path],
    constants: Mapping[str, Sequence[str]],
) -> list[str]:
    """The same for pages written by hand, where decimals of two digits and more count.

    A number may be any of the experiments and benchmarks that its section of the page names by their
    commands, or one of the page's constants: lengths, versions, defaults, what follows from a formula. The
    page of a folder of experiments may have all numbers of the folder, and those that a document prints.
    """
    found = []
    documents = _printed(items)
    for path in paths:
        own = {(float(number), 9) for number in constants.get(path.name, ())}
        beside = {name for name in raw if name.startswith(f"{path.parent.name}/")}
        own |= _stored_numbers(raw, beside) | (documents if beside else set())
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for section in re.split(r"\n(?=#+ )", text):
            known = own | _stored_numbers(raw, named_in(section))
            found += _unknown(path.name, section, known, _LONG_DECIMAL)
    return found


def named_in(text: str) -> set[str]:
    """Experiments and benchmarks that a text names, by their commands or above a stored table."""
    commands = re.findall(r"experiments\.(\w+)\.(\w+)|experiment (\w+)/(\w+)|stored: (\w+)/(\w+)", text)
    named = {"/".join(filter(None, parts)) for parts in commands}
    return named | {
        f"benchmarks/{name.replace('-', '_')}" for name in re.findall(r"benchmarks ([\w-]+)", text)
    }


def _printed(items: Iterable[reading.Item]) -> set[tuple[float, int]]:
    """Every number that a document prints."""
    printed = [row.document for item in items for row in item.rows]
    numbers = {(float(value), 9) for value in printed if isinstance(value, int | float)}
    return numbers | _numbers(value for value in printed if isinstance(value, str))


def _unknown(name: str, text: str, known: set[tuple[float, int]], decimal: re.Pattern[str]) -> list[str]:
    found = []
    before = ""
    for block in text.split("\n\n"):
        said = block if not block.startswith("|") else f"{before} {block}"
        plain = _SETTING.sub(" ", re.sub(r"`[^`]*`|\([^)]*\.md[^)]*\)", " ", block))
        missing = [number for number in decimal.findall(plain) if not _is_known(number, known)]
        if missing and NOT_STORED not in said.lower():
            found.append(f"{name}: {', '.join(missing)} in {' '.join(block.split())[:60]!r}")
        before = block
    return found


def _stored_numbers(raw: Mapping[str, stored.Raw], experiments: set[str]) -> set[tuple[float, int]]:
    """Every stored number of these experiments, with how many digits after the point are kept."""
    results = [raw[name] for name in experiments if name in raw]
    values = {(float(value), 9) for result in results for value in result["values"].values()}
    tables = (table["rows"] for result in results for table in result["tables"])
    return values | _numbers(cell for rows in tables for row in rows for cell in row)


def _is_known(text: str, known: set[tuple[float, int]]) -> bool:
    """Whether a number is a stored one, as it is or in percent, rounded as it is written."""
    step = 10.0 ** -len(text.partition(".")[2])
    return any(
        abs(scale * value - float(text)) <= 0.5001 * step
        for value, _ in known
        for scale in (1, 100, -1, -100)
    )


def _filled(raw: Mapping[str, stored.Raw], kind: str, experiment: str, name: str, form: str | None) -> str:
    if experiment not in raw:
        raise InvalidInputError(f"the results page shows {experiment}, of which nothing is stored")
    if kind == "table":
        found = _titled(raw[experiment], name)
        if len(found) != 1:
            raise InvalidInputError(
                f"the results page shows the table {name!r}, of which {experiment} has {len(found)}"
            )
        return markdown(found[0]["headers"], found[0]["rows"])
    if kind == "values":
        chosen = raw[experiment]["values"].items()
        rows = [[key, value] for key, value in chosen if name == "all" or tolerances.fits(name, key)]
        return markdown(("value", "stored"), rows)
    if name not in raw[experiment]["values"]:
        raise InvalidInputError(f"the results page shows {name!r}, which {experiment} does not have")
    return format(raw[experiment]["values"][name], form or ".4f")


_STORED_TABLE = re.compile(r"(<!-- stored: (\S+) \| (.+?) -->\n).*?(\n<!-- end -->)", flags=re.DOTALL)


def with_stored_tables(text: str) -> str:
    """The text of another page, with its tables of results as they are stored.

    Such a table stands between ``<!-- stored: EXPERIMENT | TITLE -->`` and ``<!-- end -->``.
    """
    raw = checking.results()
    return _STORED_TABLE.sub(lambda at: at[1] + _filled(raw, "table", at[2], at[3], None) + at[4], text)


def _titled(result: stored.Raw, name: str) -> list[Mapping[str, Any]]:
    """The tables with this title, or else those whose title begins with it: titles end with conditions."""
    same = [table for table in result["tables"] if table["title"] == name]
    return same or [table for table in result["tables"] if table["title"].startswith(name)]


def beside(lines: Sequence[Line], document: str, item: str) -> str:
    """What a document prints in a table and what was measured here, one line per method.

    Rows of the register are named "method, setting"; the settings become columns.
    """
    chosen = [line for line in lines if (line.item.document, line.item.name) == (document, item)]
    if not chosen:
        raise InvalidInputError(f"the results page shows {document} {item}, which is not in the register")
    named = {tuple(line.row.row.rsplit(", ", 1)): line for line in chosen}
    methods = list(dict.fromkeys(name[0] for name in named))
    settings = list(dict.fromkeys(name[-1] for name in named))
    rows: list[list[Any]] = []
    for method in methods:
        found = [named.get((method, setting)) for setting in settings]
        rows.append([method, *(None if line is None else _number(line.row.document) for line in found)])
        rows[-1] += [None if line is None or line.ours is None else f"{line.ours:.4f}" for line in found]
    sides = ("document", "here")
    return markdown(("method", *(f"{side}, {setting}" for side in sides for setting in settings)), rows)


def markdown(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table as Markdown; floats with four digits after the point, as the scripts print them."""
    names = (str(header) or "case" for header in headers)  # a header without words is lost on a screen reader
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _summary(lines: Sequence[Line]) -> str:
    """How many lines of each document have which status."""
    counts = Counter((line.item.document, line.row.status) for line in lines)
    rows: list[list[object]] = []
    for document, title in reading.titles().items():
        numbers = [counts[document, status] for status in reading.STATUSES]
        rows.append([document, title, *numbers, sum(numbers)])
    return markdown(("document", "name", *reading.STATUSES, "lines"), rows)


def listing(lines: Sequence[Line]) -> str:
    """Every line of the register, document by document."""
    parts = [
        _NOTE,
        "# Register",
        (SECTIONS / "register.txt").read_text(encoding="utf-8").strip(),
        _summary(lines),
    ]
    for document, title in reading.titles().items():
        parts.append(f"## Document {document}: {title}")
        items: dict[str, list[Line]] = {}
        for line in lines:
            if line.item.document == document:
                items.setdefault(line.item.name, []).append(line)
        parts += [_item(found) for found in items.values()]
    return "\n\n".join(parts) + "\n"


def _item(lines: Sequence[Line]) -> str:
    item = lines[0].item
    told = [f"### {document_name(item)}", "", f"{item.about[0].upper()}{item.about[1:]}."]
    where = [f"`{name}`" for name in item.code.split()]
    where += [f"`{name}`" for name in item.test.split()]
    if where:
        told += ["", "Code and test: " + ", ".join(where) + "."]
    if item.page:
        told += ["", f"Drawn by `{item.page}`."]
    if len(lines) == 1 and lines[0].row.document is None and lines[0].ours is None:
        return "\n".join([*told, "", _status(lines[0])])
    reasons = list(dict.fromkeys(line.row.reason for line in lines if line.row.reason))
    marks = {reason: f" ({number})" if len(reasons) > 1 else "" for number, reason in enumerate(reasons, 1)}
    rows = [
        [
            line.row.row,
            _number(line.row.document),
            _number(line.ours),
            None if line.difference is None else f"{line.difference:+.4g}",
            line.row.status + marks.get(line.row.reason, ""),
            f"`{line.row.experiment}`" if line.ours is not None else None,
        ]
        for line in lines
    ]
    told += ["", markdown(("row", "document", "ours", "difference", "status", "experiment"), rows)]
    return "\n".join(
        [*told, *(f"\n{marks[reason].strip()} {reason}".replace("\n ", "\n") for reason in reasons)]
    )


def document_name(item: reading.Item) -> str:
    """Heading of an item, unique on the page."""
    return f"{item.document} {item.name}"


def _status(line: Line) -> str:
    return f"Status: {line.row.status}" + (f". {line.row.reason}" if line.row.reason else ".")


def _number(value: float | str | None) -> str | None:
    return f"{value:.6g}" if isinstance(value, int | float) else value


def pages() -> dict[Path, str]:
    """Both generated pages as they should be."""
    raw = checking.results()
    lines = checking.lines(reading.read(), raw)
    made: dict[Path, Callable[[], str]] = {
        PAGE: lambda: results_page(raw, lines),
        LISTING: lambda: listing(lines),
    }
    return {path: make() for path, make in made.items()}


def stale() -> list[str]:
    """One line for every generated page that is not what it should be."""
    return [
        f"{path.relative_to(checking.ROOT)} is stale: {ADVICE}"
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
