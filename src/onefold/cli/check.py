"""``onefold check``: where a table breaks its contract, by column and row, never a cell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import busy, count_of, one_line, show
from onefold.exceptions import InvalidInputError

FOUND = 1
LOCAL = "Findings are about the data: they stay on this machine, treat them like the data."


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "check",
        description="List where a table breaks its schema: column, kind of problem, number of rows, the "
        "first rows, and never a cell. Nothing leaves this machine. The exit code is 0 without findings and "
        "1 with findings.",
        epilog="Rows are counted from 1, without the header line.",
    )
    shared.add_data(parser)
    option(parser, "--schema FILE", "schema of the table, a JSON file", required=True)
    shared.add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read block by block, compare, tell."""
    from onefold.tables import Schema, check_table
    from onefold.tables.sources import open_table

    schema = Schema.load(args.schema)
    n_rows = 0

    def counted(blocks: Iterator[dict[str, AnyArray]]) -> Iterator[dict[str, AnyArray]]:
        nonlocal n_rows
        for block in blocks:
            n_rows += len(next(iter(block.values())))
            yield block

    with busy(f"reading {args.data}", args.quiet), open_table(args.data) as file:
        known = {field.name for field in schema.fields}
        columns = [name for name in file.names if name in known]
        if not columns:
            raise InvalidInputError(f"{args.data}: has none of the {len(known)} columns of {args.schema}")
        findings = check_table(schema, counted(file.blocks(columns)))
    further = len(file.names) - len(columns)
    result = {
        "table": args.data,
        "schema": args.schema,
        "digest": schema.digest,
        "rows": n_rows,
        "further_columns": further,
        "findings": [asdict(finding) for finding in findings],
    }
    words = [one_line(finding) for finding in findings]
    found = count_of(len(findings), "finding") if findings else "no findings"
    words.append(f"{count_of(n_rows, 'row')} checked: {found}.")
    if further:
        words.append(f"{count_of(further, 'column')} of the table not in the schema, left out.")
    if findings:
        words.append(LOCAL)
    show(result, words, as_json=args.json, quiet=args.quiet)
    return FOUND if findings else 0
