"""Where a table breaks its contract: column, row and kind of each finding, never a cell."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.tables.columns import named, names_of
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
    counts: Counter[tuple[str, int]] = Counter()
    rows: dict[tuple[str, int], list[int]] = {}
    persons: Counter[str] = Counter()
    absent: set[str] = set()
    start = 1
    for block in blocks:
        names = set(names_of(block))
        wanted = [known for known in schema.fields if known.role in ENCODED_ROLES]
        absent |= {known.name for known in wanted if known.name not in names}
        n_rows = 0
        for known in (known for known in wanted if known.name in names):
            problems = known.problems(named(block, known.name), tuple(schema.missing_values))
            n_rows = len(problems)
            for code in np.unique(problems[problems > 0]).tolist():
                places = np.flatnonzero(problems == code)
                counts[known.name, code] += len(places)
                shown = rows.setdefault((known.name, code), [])
                shown += (places[: SHOWN_ROWS - len(shown)] + start).tolist()
        if schema.person is not None and schema.person.name in names:
            persons.update(schema.persons(block))
        start += n_rows
    findings = [Finding(name, "is not in the table", 0, ()) for name in sorted(absent)]
    for known in schema.fields:
        for name, code in sorted(key for key in counts if key[0] == known.name):
            told = tuple(rows[name, code])
            findings.append(Finding(name, known.problem(code), counts[name, code], told))
    return findings + _about_persons(schema, persons)


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
