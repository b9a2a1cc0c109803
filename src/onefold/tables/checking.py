"""Where a table breaks its contract: column, row and kind of each finding, never a cell."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.tables.columns import count_rows, named, names_of
from onefold.tables.declarations import ENCODED_ROLES
from onefold.tables.schema import Schema

__all__ = ["Finding", "check_table"]

SHOWN_ROWS = 5


@dataclass(frozen=True)
class Finding:
    """One kind of problem in one column.

    Parameters
    ----------
    column : str
        Name of the column.
    problem : str
        What is wrong, in words.
    count : int
        Number of rows with it; 0 if it is about the whole column.
    rows : tuple of int
        Numbers of the first such rows, from 1.

    See Also
    --------
    check_table : Finds them.

    Examples
    --------
    >>> from onefold.tables import Finding
    >>> str(Finding("age", "is missing", 2, (3, 9)))
    "column 'age': is missing in 2 rows (3, 9)"
    """

    column: str
    problem: str
    count: int
    rows: tuple[int, ...]

    def __str__(self) -> str:
        if not self.count:
            return f"column {self.column!r}: {self.problem}"
        shown = ", ".join(map(str, self.rows)) + (", ..." if self.count > len(self.rows) else "")
        return f"column {self.column!r}: {self.problem} in {self.count} row{'s'[: self.count > 1]} ({shown})"


def check_table(schema: Schema, X: Any) -> list[Finding]:
    """Compare a table with its contract.

    Parameters
    ----------
    schema : Schema
        The contract.
    X : table or iterable of tables
        A frame, a dict of columns, a table that was read, or such tables block by block.

    Returns
    -------
    list of Finding
        In the order of the columns; empty if the table keeps the contract.

    See Also
    --------
    Schema.parse : Reads a table, and refuses the first cell that breaks the contract.

    Notes
    -----
    Findings are about the data: whoever sees them learns from them.

    Examples
    --------
    >>> from onefold.tables import Field, Schema, check_table
    >>> schema = Schema([Field("age", "integer", low=0, high=110)])
    >>> [str(finding) for finding in check_table(schema, {"age": ["41", "", "140"]})]
    ["column 'age': is missing in 1 row (2)", "column 'age': is outside the declared range in 1 row (3)"]
    """
    blocks: Iterable[Any] = [X] if hasattr(X, "columns") or isinstance(X, Mapping) else X
    wanted = [known for known in schema.fields if known.role in ENCODED_ROLES]
    findings: dict[tuple[int, int], Finding] = {}
    persons: Counter[str] = Counter()
    absent: set[str] = set()
    first = 1
    for block in blocks:
        names = set(names_of(block))
        absent |= {known.name for known in wanted} - names
        for place, known in enumerate(wanted):
            if known.name not in names:
                continue
            problems = known.problems(named(block, known.name), tuple(schema.missing_values))
            for code in np.unique(problems[problems > 0]).tolist():
                rows = (np.flatnonzero(problems == code) + first).tolist()
                before = findings.get((place, code), Finding(known.name, known.problem(code), 0, ()))
                shown = (*before.rows, *rows[:SHOWN_ROWS])[:SHOWN_ROWS]
                findings[place, code] = replace(before, count=before.count + len(rows), rows=shown)
        if schema.person is not None and schema.person.name in names:
            persons.update(schema.persons(block))
        first += count_rows(block)
    missing = [Finding(name, "is not in the table", 0, ()) for name in sorted(absent)]
    return [*missing, *(findings[key] for key in sorted(findings)), *_about_persons(schema, persons)]


def _about_persons(schema: Schema, persons: Counter[str]) -> list[Finding]:
    if schema.person is None:
        return []
    name, most = schema.person.name, schema.rows_per_person
    missing = persons.pop("", 0)
    found = [Finding(name, f"is missing in {missing} row{'s'[: missing > 1]}", 0, ())] if missing else []
    if most is not None and persons and max(persons.values()) > most:
        above = sum(count > most for count in persons.values())
        found.append(Finding(name, f"{above} person(s) have more than the declared {most} rows", 0, ()))
    return found
