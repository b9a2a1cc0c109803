"""``onefold schema``: propose the contract of a table from a public sample, and show what a contract says."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import Parser, busy, count_of, show
from onefold.cli.outputs import check_writable
from onefold.exceptions import InvalidInputError, printable

if TYPE_CHECKING:
    from onefold.tables import Field, Schema

SHOWN_CATEGORIES = 6
HEADERS = ("column", "type", "role", "values", "missing", "unit", "encoded as", "review")
PUBLIC = (
    "Everything marked REVIEW was guessed from the rows of {data}, which must be public or synthetic. "
    "Correct it in the file from what the columns mean, and remove its onefold:review."
)
PRIVATE = (
    "Inferred from private rows: its ranges and categories give them away. It is for models without a "
    "promise of privacy; commands that make one refuse it."
)


def add_parser(commands: Any) -> None:
    """Declare the command and its parts."""
    parser = commands.add_parser(
        "schema",
        description="Declare what the columns of a table mean: types, ranges, categories, label and persons. "
        "Everything else follows from this file: encoding, sensitivity, and the form of what is written. "
        "Sites of a federation compare its digest.",
    )
    parts = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    _add_infer(parts)
    _add_show(parts)


def _add_infer(parts: Any) -> None:
    parser = parts.add_parser(
        "infer",
        help="propose a schema from a public or synthetic sample",
        description="Propose a schema from sample rows, and mark every guess for review. The sample must be "
        "public or synthetic, because its ranges and categories stand in the file.",
    )
    shared.add_data(parser, "public or synthetic sample of the table")
    option(parser, "--label COL", "column that holds the classes, or the numbers to predict")
    task = (
        "whether the label is a class or a number (default: a number if it has fractions or more than 20 "
        "different whole numbers)"
    )
    shared.add_task(parser, task)
    option(parser, "--out FILE", "schema to write (default: the name of DATA, ending in .schema.json)")
    private = "the rows are private: the schema says so, and whatever promises privacy refuses it"
    flag(parser, "--from-private", private)
    shared.add_output_options(parser)
    parser.set_defaults(run=run_infer)


def _add_show(parts: Any) -> None:
    parser = parts.add_parser(
        "show",
        help="print what a schema declares and what follows from it",
        description="Print what a schema declares about each column, what the column is encoded to, how much "
        "a record can change an encoded row, and what is still marked for review.",
    )
    parser.add_argument("file", metavar="SCHEMA", help="schema to read, a JSON file, or a model that has one")
    shared.add_output_options(parser, quiet=False)
    parser.set_defaults(run=run_show)


def run_infer(args: argparse.Namespace) -> int:
    """Read the sample, propose, write, tell."""
    from onefold.tables import DatabaseAddress, Schema
    from onefold.tables.sources import open_table

    if isinstance(args.data, DatabaseAddress):
        stem, folder = args.data.stem, Path()
    else:
        stem, folder = Path(args.data).name.split(".")[0], Path(args.data).parent
    out = str(folder / f"{stem}.schema.json") if args.out is None else args.out
    if args.out is None and Path(out).exists():
        raise InvalidInputError(f"{out}: exists already and may have been reviewed: name another with --out")
    check_writable(out, args.data)
    source = "private" if args.from_private else "public"
    with busy(f"reading {args.data}", args.quiet), open_table(args.data) as file:
        file.require([] if args.label is None else [args.label])
        task = args.task or "auto"
        schema = Schema.infer(file.blocks(file.names), args.label, source=source, name=stem, task=task)
    schema.save(out)
    warning = PRIVATE if args.from_private else PUBLIC.format(data=args.data)
    result = {"schema": out, **_summary(schema), "warning": warning}
    words = [*_table(schema), f"{len(schema.fields)} columns proposed, written to {out}. {warning}"]
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Load and tell."""
    from onefold._base.archive import kind_of
    from onefold.tables import Schema

    schema = Schema.load(args.file) if kind_of(args.file) is None else _stored(args.file)
    result = {"schema": args.file, **_summary(schema), "declared": schema.to_dict()}
    show(result, [*_table(schema), *_consequences(schema)], as_json=args.json)
    return 0


def _stored(path: str) -> Schema:
    """The schema that a model was fitted with."""
    from onefold.cli.models import load_predictor

    found: Schema | None = getattr(load_predictor(path)[0], "schema", None)
    if found is None:
        raise InvalidInputError(f"{path}: the model has no schema: it was fitted to columns of numbers")
    return found


def _summary(schema: Schema) -> dict[str, Any]:
    """What follows from a schema, for machines."""
    return {
        "name": schema.name,
        "source": schema.source,
        "digest": schema.digest,
        "columns": len(schema.fields),
        "features": len(schema.features),
        "encoded_columns": schema.width,
        "row_norm": schema.row_norm,
        "row_change": schema.row_change,
        "entry_change": schema.entry_change,
        "review": {known.name: known.review for known in schema.to_review},
    }


def _table(schema: Schema) -> list[str]:
    from onefold.report.tables import format_table

    rows = [[printable(cell) for cell in _row(known)] for known in schema.fields]
    return [format_table(HEADERS, rows), ""]


def _row(known: Field) -> tuple[str, ...]:
    used = known.role in ("feature", "label")
    values = _values(known) if used else ""
    missing = ("a value of its own" if known.nullable else "refused") if used else ""
    encoded = count_of(known.width, "column") if known.role == "feature" else ""
    review = f"REVIEW {known.review}" if known.review else ""
    return known.name, known.type, known.role, values, missing, known.unit, encoded, review


def _values(known: Field) -> str:
    """The range or the categories."""
    if known.type == "boolean":
        return "true or false"
    if known.is_category:
        names = [str(level) for level in known.levels[:SHOWN_CATEGORIES]]
        more = len(known.levels) - len(names)
        rest = f", ... ({more} more)" if more else ""
        other = f"; other texts: {known.other}" if known.other is not None else ""
        return ", ".join(names) + rest + other
    if known.encoder is not None:
        what = "texts" if known.encoder.kind == "text" else "image files"
        return f"{what}, by the encoder {known.encoder.digest[:16]}..."
    limits = known.contract()["constraints"]
    scale = f", by logarithm{f' from {known.log_unit:g}' if known.log_unit else ''}"
    return f"{limits['minimum']} to {limits['maximum']}" + (scale if known.scale == "log" else "")


def _consequences(schema: Schema) -> list[str]:
    """Sentences on the table as a whole."""
    about = {
        "declared": "Declared by people.",
        "public": "Proposed from a public sample.",
        "private": PRIVATE,
    }[schema.source]
    person = schema.person
    behind = any(known.encoder is not None for known in schema.features)
    lines = [
        about,
        f"{count_of(len(schema.features), 'feature')}, encoded as "
        f"{count_of(schema.width, 'number')} from {'-1/2' if behind else '0'} to 1.",
        f"Encoded rows change by at most {schema.row_norm:.4g} (Euclidean) if a record comes or goes, "
        f"{schema.row_change:.4g} if one is replaced, {schema.entry_change:.4g} if one cell is replaced.",
    ]
    tokens = ", ".join(json.dumps(token, ensure_ascii=False) for token in schema.missing_values)
    lines.append(f"Texts that mean a missing cell: {printable(tokens) or 'none'}.")
    if person is not None:
        most = schema.rows_per_person
        limit = "no limit of rows is declared" if most is None else f"at most {most} rows count for each"
        lines.append(f"Column {printable(person.name)!r} says whom a row is about; {limit}.")
    marked = len(schema.to_review)
    lines.append(
        f"{count_of(marked, 'column')} still marked REVIEW." if marked else "No column is marked for review."
    )
    return [*lines, f"Digest {schema.digest}"]
