"""``onefold schema``: propose the contract of a table, confirm what was guessed, show what it says."""

from __future__ import annotations

import argparse
import json
import shlex
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option, repeated
from onefold.cli.console import Parser, busy, count_of, show
from onefold.cli.outputs import check_writable
from onefold.exceptions import InvalidInputError, printable

if TYPE_CHECKING:
    from onefold.tables import Field, Schema

SHOWN_CATEGORIES = 6
HEADERS = ("column", "type", "role", "values", "missing", "unit", "encoded as", "review")
PUBLIC = (
    "Everything marked REVIEW was guessed from the rows of {data}, which must be public or synthetic. "
    "Correct it in the file from what the columns mean, then run {confirm} --public-source TEXT, or with "
    "--column NAME --ground TEXT column by column: until then commands that promise privacy refuse it."
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
    part = parts.add_parser(
        "infer",
        help="propose a schema from a public or synthetic sample",
        description="Propose a schema from sample rows, and mark every guess for review. The sample must be "
        "public or synthetic, because its ranges and categories stand in the file.",
    )
    shared.add_data(part, "public or synthetic sample of the table")
    option(part, "--label COL", "column that holds the classes, or the numbers to predict")
    shared.add_task(part, "what the label is (default: a number if it has fractions or over 20 values)")
    option(part, "--out FILE", "schema to write (default: the name of DATA, ending in .schema.json)")
    flag(part, "--from-private", "the rows are private: whatever promises privacy refuses the schema")
    shared.ends(part, run_infer)
    part = parts.add_parser(
        "confirm",
        help="confirm guesses of a schema, and say on what ground",
        description="Take the mark off columns whose type, range or categories were guessed, and store who "
        "confirmed them, when, and from where they are known without the private rows. Guarantees quote the "
        "ground as a condition. All columns at once can be confirmed only by naming the public source from "
        "which the schema was inferred.",
    )
    part.add_argument("file", metavar="SCHEMA", help="schema to change, a JSON file")
    repeated(part, "--column NAME", "column to confirm; give it again for others")
    option(part, "--ground TEXT", "from where it is known: a code book, a law, a public sample")
    option(part, "--public-source TEXT", "public source of the sample, which confirms all columns")
    option(part, "--by NAME", "who answers for it (default: the name of this account)")
    shared.ends(part, run_confirm)
    part = parts.add_parser(
        "show",
        help="print what a schema declares and what follows from it",
        description="Print what a schema declares about each column, what the column is encoded to, how much "
        "a record can change an encoded row, and what is still marked for review.",
    )
    part.add_argument("file", metavar="SCHEMA", help="schema to read, a JSON file, or a model that has one")
    shared.ends(part, run_show, quiet=False)


def run_infer(args: argparse.Namespace) -> None:
    """Read the sample, propose, write, tell."""
    from onefold.tables import Schema
    from onefold.tables.formats import is_address
    from onefold.tables.reading import open_table, stem_of

    stem, folder = stem_of(args.data), Path() if is_address(args.data) else Path(args.data).parent
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
    confirm = shlex.join(["onefold", "schema", "confirm", out])
    warning = PRIVATE if args.from_private else PUBLIC.format(data=args.data, confirm=confirm)
    result = {"schema": out, **_summary(schema), "warning": warning}
    words = [*_table(schema), f"{len(schema.fields)} columns proposed, written to {out}. {warning}"]
    show(result, words, as_json=args.json, quiet=args.quiet)


def run_confirm(args: argparse.Namespace) -> None:
    """Load, confirm, write, tell."""
    from onefold.tables import Schema

    by_column = bool(args.column and args.ground and not args.public_source)
    if not by_column and (not args.public_source or args.column or args.ground):
        raise InvalidInputError(
            "say which columns and on what ground: --column NAME --ground TEXT; all columns at once only by "
            "--public-source TEXT"
        )
    schema = Schema.load(args.file)
    columns, ground = (args.column, args.ground) if by_column else (None, args.public_source)
    try:
        found = schema.confirm(columns, ground=ground, by=getuser() if args.by is None else args.by)
    except (KeyError, OSError):  # by the version of Python
        raise InvalidInputError("this account has no name: say who confirms it with --by NAME") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{args.file}: {error}") from None
    found.save(args.file)
    new = [known for known, old in zip(found.fields, schema.fields, strict=True) if known != old]
    agreed = {known.name: known.contract() for known in new}  # all of it, so that nothing is confirmed unseen
    result = {"schema": args.file, "agreed": agreed, **_summary(found)}
    lines = [printable(json.dumps(entry, ensure_ascii=False)) for entry in agreed.values()]
    lines += [f"confirmed and written to {args.file}. {_marks(found)} Guarantees will quote the ground."]
    show(result, lines, as_json=args.json, quiet=args.quiet)


def run_show(args: argparse.Namespace) -> None:
    """Load and tell."""
    from onefold._base.records import kind_of
    from onefold.tables import Schema

    schema = Schema.load(args.file) if kind_of(args.file) is None else _stored(args.file)
    result = {"schema": args.file, **_summary(schema), "declared": schema.to_dict()}
    show(result, [*_table(schema), *_consequences(schema)], as_json=args.json)


def _stored(path: str) -> Schema:
    """The schema that a model was fitted with."""
    from onefold.cli.models import load_model, schema_of

    found = schema_of(load_model(path)[0])
    if found.plain:
        raise InvalidInputError(f"{path}: the model has no schema: it was fitted to columns of numbers")
    return found


def _summary(schema: Schema) -> dict[str, Any]:
    """What follows from a schema, for machines."""
    confirmed = {known.name: known.confirmed._asdict() for known in schema.fields if known.confirmed}
    return {
        **{name: getattr(schema, name) for name in ("name", "source", "digest")},
        "columns": len(schema.fields),
        "features": len(schema.features),
        "encoded_columns": schema.width,
        **{name: getattr(schema, name) for name in ("row_norm", "row_change", "entry_change")},
        "review": {known.name: known.review for known in schema.to_review},
        "confirmed": confirmed,
    }


def _table(schema: Schema) -> list[str]:
    from onefold.report import format_table

    rows = [[printable(cell) for cell in _row(known)] for known in schema.fields]
    return [format_table(HEADERS, rows), ""]


def _row(known: Field) -> tuple[str, ...]:
    used = known.role in ("feature", "label")
    values = _values(known) if used else ""
    missing = ("a value of its own" if known.nullable else "refused") if used else ""
    encoded = count_of(known.width, "column") if known.role == "feature" else ""
    review = f"REVIEW {known.review}" if known.review else ""
    if known.confirmed is not None and not review:
        review = f"confirmed by {known.confirmed.by}, {known.confirmed.on}: {known.confirmed.ground}"
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
    return [*lines, _marks(schema), f"Digest {schema.digest}"]


def _marks(schema: Schema) -> str:
    marked = len(schema.to_review)
    return (
        f"{count_of(marked, 'column')} still marked REVIEW." if marked else "No column is marked for review."
    )
