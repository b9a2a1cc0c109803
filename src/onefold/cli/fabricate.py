"""``onefold fabricate``: a table in, a private synthetic one out, with its guarantee beside it."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import show, without_bars
from onefold.cli.outputs import check_private_table, write_guarantee, write_table
from onefold.cli.tables import Table, labels_of, read_table
from onefold.exceptions import InvalidInputError


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fabricate",
        description="Replace every row of a table by a private synthetic row, and write the guarantee to a "
        "file beside the new table. Labels and class sizes are released as they are unless --label-epsilon "
        "is given.",
        epilog="The range of the features must be known without looking at the data: give it with --range, "
        "or the largest change of an entry with --sensitivity.",
    )
    shared.add_data(parser)
    option(parser, "--label COL", "column with the classes; each class is then smoothed by itself")
    option(parser, "--out SYNTH", "table to write: .csv, .npz or .parquet", required=True)
    shared.add_ignore(parser)
    shared.add_output_options(parser)
    group = parser.add_argument_group("privacy")
    shared.add_noise_options(group, required=True)
    flag(group, "--hardened", shared.HARDENED)
    shared.add_ledger(group)
    steps = (
        "number of smoothing steps: honest chooses it from the noisy rows only; documented chooses it from "
        "the raw rows, which voids the guarantee; N fixes it"
    )
    option(group, "--stopping honest|documented|N", steps, default="honest")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, fabricate, write the table and the guarantee, tell."""
    noise = shared.NoiseOptions.of(args)
    check_private_table(args.out, args.data)
    noise.check()
    if noise.label_epsilon is not None and args.label is None:
        raise InvalidInputError("--label-epsilon needs --label")
    stopping = _stopping(args.stopping)
    keep = [] if args.label is None else [args.label]
    table = read_table(args.data, keep=keep, ignore=args.ignore, quiet=args.quiet)
    y = noise.labels(None if args.label is None else labels_of(table, args.label))
    from onefold.fabrication import Fabricator

    maker = Fabricator(
        noise.mechanism(table.values.shape[1]),
        stopping=stopping,
        label_mechanism=noise.label_mechanism(),
        clip=noise.range is not None,
        ledger=args.ledger,
    )
    with without_bars(args.quiet):
        made = maker.fabricate(table.values, y)
    labels = {} if maker.labels_ is None else {args.label: maker.labels_}
    write_table(args.out, _columns(args.out, table, made) | labels)
    guarantee = maker.guarantee_
    file = write_guarantee(args.out, guarantee.to_dict())
    result = {"table": args.out, "rows": len(made), "guarantee": file, "holds": guarantee.holds}
    words = [f"{len(made)} rows written to {args.out}, their guarantee to {file}"]
    words += shared.promise_in_words(guarantee)
    show(result | {"promise": guarantee.to_dict()}, words, as_json=args.json, quiet=args.quiet)
    return 0


def _stopping(text: str) -> str | int:
    if text in ("honest", "documented"):
        return text
    if not text.isdigit():
        raise InvalidInputError("--stopping must be honest, documented or a number of steps")
    return int(text)


def _columns(out: str, table: Table, made: Any) -> dict[str, Any]:
    """The features under their own names; an unnamed NPZ array stays one."""
    if table.names is None and out.lower().endswith(".npz"):
        return {"X": made}
    names = table.names or tuple(f"x{j}" for j in range(made.shape[1]))
    return {name: made[:, j] for j, name in enumerate(names)}
