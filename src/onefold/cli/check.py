"""``onefold check``: where a table breaks its contract, by column and row, never a cell."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import busy, count_of, one_line, show
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import cells_of
from onefold.tables.fields import Field
from onefold.tables.schema import Schema

FOUND = 1
LOCAL = (
    "What is said here, and whether the check passed, is about the rows and outside every guarantee: it "
    "stays on this machine unless you pass it on."
)
UNITS = "onefold cannot check units. Compare by hand:"
SHOWN = 8  # columns or classes in a line


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "check",
        description="List where a table breaks its schema, the contract of a federation: column, kind of "
        "problem, number of rows, the first rows, and never a cell. Then how many cells are missing, which "
        "declared classes have no row, and which units are declared. Nothing leaves this machine. The exit "
        "code is 0 without findings and 1 with findings.",
        epilog="Rows are counted from 1, without the header line.",
    )
    shared.add_data(parser)
    option(parser, "--schema FILE", "schema of the table, a JSON file", required=True)
    shared.add_encoders(parser, "encoder of a column of --schema")
    agreed = "digest of the schema that the federation agreed on; another schema is refused"
    option(parser, "--digest D", agreed)
    shared.ends(parser, run)


def run(args: argparse.Namespace) -> int:
    """Read block by block, compare, tell."""
    from onefold.tables import check_table
    from onefold.tables.reading import open_table

    schema = Schema.load(args.schema).with_encoders(shared.encoders_of(args))
    if args.digest is not None and args.digest != schema.digest:
        raise InvalidInputError(
            f"{args.schema}: not the schema that was agreed on; its digest is {schema.digest}"
        )
    about = _About(schema)

    with busy(f"reading {args.data}", args.quiet), open_table(args.data) as file:
        known = {field.name for field in schema.fields}
        columns = [name for name in file.names if name in known]
        if not columns:
            raise InvalidInputError(f"{args.data}: has none of the {len(known)} columns of {args.schema}")
        findings = check_table(schema.beside(file.path), about.counted(file.blocks(columns)))
    further = len(file.names) - len(columns)
    result = {
        "table": args.data,
        "schema": args.schema,
        "digest": schema.digest,
        "rows": about.n_rows,
        "passed": not findings,
        "further_columns": further,
        **{name: getattr(about, name) for name in ("missing", "classes", "units")},
        "findings": [asdict(finding) for finding in findings],
    }
    words = [one_line(finding) for finding in findings]
    found = count_of(len(findings), "finding") if findings else "no findings"
    words.append(f"{count_of(about.n_rows, 'row')} checked: {found}.")
    if further:
        words.append(f"{count_of(further, 'column')} of the table not in the schema, left out.")
    words += about.words()
    words.append(LOCAL)
    show(result, words, as_json=args.json, quiet=args.quiet)
    return FOUND if findings else 0


class _About:
    """What a table is like beside its findings: gaps, classes and the units that should be its own."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.n_rows = 0
        self.missing: dict[str, int] = {}
        label = schema.label
        levels = () if label is None or not label.is_category else label.levels
        self.classes = dict.fromkeys(map(str, levels), 0)
        used = (*schema.features, *([] if label is None else [label]))
        self.units = {known.name: known.unit for known in used if known.unit}

    def counted(self, blocks: Iterator[dict[str, AnyArray]]) -> Iterator[dict[str, AnyArray]]:
        """The same blocks, counted on their way."""
        for block in blocks:
            self.n_rows += len(next(iter(block.values())))
            for name, values in block.items():
                self._count(self.schema.field(name), values)
            yield block

    def _count(self, known: Field, values: AnyArray) -> None:
        tokens = known.tokens(tuple(self.schema.missing_values))
        if known.role in ("feature", "label"):
            gaps = int(cells_of(values, tokens)[1].sum())
            self.missing |= {known.name: self.missing.get(known.name, 0) + gaps} if gaps else {}
        if known.role == "label" and self.classes:
            codes = known.read(values, tokens)[0]
            counts = np.bincount(codes[codes >= 0], minlength=len(self.classes)).tolist()
            for name, count in zip(self.classes, counts, strict=True):
                self.classes[name] += count

    def words(self) -> list[str]:
        """One line each about gaps, classes without a row, and units."""
        gaps = [f"{name} {100 * count / self.n_rows:.3g} %" for name, count in self.missing.items()]
        without = [name for name, count in self.classes.items() if not count]
        units = [f"{name} in {unit}" for name, unit in self.units.items()]
        told = (("Missing cells:", gaps), ("Classes without a row:", without), (UNITS, units))
        return [f"{before} {_listed(items)}." for before, items in told if items]


def _listed(items: list[str]) -> str:
    return one_line(
        ", ".join(items[:SHOWN]) + (f", ... ({len(items) - SHOWN} more)" if len(items) > SHOWN else "")
    )
