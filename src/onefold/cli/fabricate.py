"""``onefold fabricate``: a table in, a private synthetic one out, with its guarantee beside it."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import option
from onefold.cli.console import without_bars
from onefold.cli.outputs import check_private_table, check_spares_ledger, write_private_table
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema
from onefold.tables.formats import check_header
from onefold.tables.rows import Rows

BETTER = (
    "This protects single cells best; to protect whole records or persons, onefold synthesize keeps more of "
    "the table."
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fabricate",
        description="Replace every row of a table by a private synthetic row, and write the guarantee to a "
        "file beside the new table. Labels and class sizes are released as they are unless --label-epsilon "
        "is given.",
        epilog="What the columns can hold must be known without looking at the data: give a schema, one "
        "range for all features with --range, or the largest change of an entry with --sensitivity. The "
        "column of --person is not released. With a schema an entry is a cell of the table; whole records "
        "and persons are better served by onefold synthesize.",
    )
    shared.add_data(parser)
    option(parser, "--label COL", "column with the classes; each class is then smoothed by itself")
    option(parser, "--out SYNTH", "table to write: .csv, .npz or .parquet", required=True)
    shared.add_ignore(parser)
    shared.add_schema(parser, "instead of --label, --classes, --range and --person")
    reports.add_report(parser)
    group = parser.add_argument_group("privacy")
    shared.add_noise_options(group, required=True)
    shared.add_person_options(group)
    shared.add_ledger(group)
    steps = "smoothing steps: by the noisy rows, by the raw ones (voids the guarantee), or N"
    option(group, "--stopping honest|documented|N", steps, shared.stopping, "honest")
    shared.ends(parser, run)


def run(args: argparse.Namespace) -> None:
    """Read, fabricate, write the table and the guarantee, tell."""
    noise = shared.NoiseOptions.of(args)
    check_private_table(args.out, args.data)
    check_spares_ledger(args.ledger, args.out)
    reports.check_report(args)
    schema = shared.declared_schema(args, *shared.BY_SCHEMA)
    noise = noise.by_schema(schema)
    columns, maker = _fabricated(args, noise, schema)
    rows = len(next(iter(columns.values())))
    promise = maker.guarantee_.to_dict() | _forecast(noise, schema, maker)
    file = write_private_table(args.out, columns, promise, schema)
    result = {"table": args.out, "rows": rows, "guarantee": file, "holds": maker.guarantee_.holds}
    words = [f"{rows} rows written to {args.out}, their guarantee to {file}"]
    words += shared.promise_in_words(maker.guarantee_, args.ledger)
    if not schema.plain:
        words.append(BETTER)
    result |= {"promise": promise}
    title = f"Fabricated table {Path(args.out).name}"
    reports.tell(args, result, words, lambda: reports.table_report(args, title, result))


def _fabricated(args: argparse.Namespace, noise: shared.NoiseOptions, schema: Schema) -> tuple[Any, Any]:
    """The columns to write, and what made them."""
    from onefold.fabrication import Fabricator

    noise.check()
    if schema.plain and args.label is None and (noise.label_epsilon or noise.classes) is not None:
        raise InvalidInputError("--label-epsilon and --classes need --label")
    table = noise.rows_of(args.data, schema, args.label, args.ignore, quiet=args.quiet, mode="private")
    check_header(args.data, table.names if schema.plain else ())
    maker = Fabricator(
        noise.mechanism(table.schema.width),
        stopping=args.stopping,
        label_mechanism=noise.label_mechanism(schema),
        clip=noise.range is not None,
        ledger=args.ledger,
        schema=schema,
    )
    with without_bars(args.quiet):
        made = maker.fabricate(table.X, table.y, person=noise.persons(table))
    if not schema.plain:
        return made, maker
    labels = {} if maker.labels_ is None else {args.label: maker.labels_}
    return _columns(args.out, table, made) | labels, maker


def _forecast(noise: shared.NoiseOptions, schema: Any, maker: Any) -> dict[str, Any]:
    """What other epsilons would do to columns of numbers; nothing where no range of them is declared."""
    from onefold.report.curves import noise_forecast

    n_features = maker.guarantee_.n_features
    if not schema.plain:
        width = 1.0 if any(not known.is_category for known in schema.features) else None
    else:
        width = None if noise.range is None else noise.range[1] - noise.range[0]
    if width is None:
        return {}
    curve = noise_forecast(
        lambda epsilon: replace(noise, epsilon=epsilon).mechanism(n_features),
        noise.epsilon,
        width,
        noise.unit,
    )
    return {"forecast": curve.numbers}


def _columns(out: str, table: Rows, made: Any) -> dict[str, Any]:
    """The features under their own names; an unnamed NPZ array stays one."""
    if not table.names and out.lower().endswith(".npz"):
        return {"X": made}
    names = table.names or tuple(f"x{j}" for j in range(made.shape[1]))
    return {name: made[:, j] for j, name in enumerate(names)}
