"""``onefold fabricate``: a table in, a private synthetic one out, with its guarantee beside it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from onefold._base.files import atomic_write
from onefold.cli.console import busy, print_json, without_bars
from onefold.cli.labels import labels_of
from onefold.cli.noise import add_noise_options, check_noise_options, label_noise_of, noise_of
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format, write_table
from onefold.cli.tables import Table, read_table
from onefold.exceptions import InvalidInputError


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fabricate",
        help="private synthetic data: noise, then smoothing",
        description="Replace every row of a table by a private one and write its guarantee beside it. Class "
        "labels and class sizes are released as they are unless --label-epsilon is given.",
        epilog="The range of the features must be known without looking at the data: give it with --range, "
        "or the largest change of an entry with --sensitivity.",
    )
    parser.add_argument("data", metavar="DATA", help="table of samples: .csv, .npz or .parquet")
    parser.add_argument("--label", metavar="COL", help="column with the classes, which are smoothed apart")
    parser.add_argument("--out", required=True, metavar="SYNTH", help="table to write: .csv, .npz, .parquet")
    parser.add_argument("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
    _add_privacy_options(parser.add_argument_group("privacy"))
    parser.set_defaults(run=run)


def _add_privacy_options(group: Any) -> None:
    add_noise_options(group, required=True, sensitivity=1.0)
    group.add_argument("--hardened", action="store_true", help="noise safe against floating-point attacks")
    group.add_argument(
        "--stopping",
        default="honest",
        metavar="honest|documented|N",
        help="number of smoothing steps; documented looks at raw data and voids the guarantee",
    )


def run(args: argparse.Namespace) -> int:
    """Read, fabricate, write the table and the guarantee, tell."""
    _check(args)
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=[] if args.label is None else [args.label], ignore=args.ignore)
    y = None if args.label is None else labels_of(table, args.label)
    maker = _maker(args, table.values.shape[1], y)
    with without_bars(args.quiet):
        made = maker.fabricate(table.values, y)
    write_table(args.out, _columns(args, table, made, maker.labels_))
    promise = f"{args.out}.guarantee.json"
    with atomic_write(promise) as file:
        file.write(json.dumps(maker.guarantee_.to_dict(), indent=1).encode())
    result = {"table": args.out, "rows": len(made), "guarantee": promise, "holds": maker.guarantee_.holds}
    if args.json:
        print_json(result | {"promise": maker.guarantee_.to_dict()})
    elif not args.quiet:
        print(f"{len(made)} rows written to {args.out}, their guarantee to {promise}\n{maker.guarantee_}")
    return 0


def _check(args: argparse.Namespace) -> None:
    check_table_format(args.out, args.data)
    if args.out == STANDARD_OUTPUT:
        raise InvalidInputError("--out - has no place for the guarantee: name a file")
    check_noise_options(args)
    if args.label_epsilon is not None and args.label is None:
        raise InvalidInputError("--label-epsilon needs --label")
    if args.stopping not in ("honest", "documented"):
        if not args.stopping.isdigit():
            raise InvalidInputError("--stopping must be honest, documented or a number of steps")
        args.stopping = int(args.stopping)


def _maker(args: argparse.Namespace, n_features: int, y: Any) -> Any:
    from onefold.fabrication import Fabricator

    noise = noise_of(args, n_features, hardened=args.hardened)
    labels = label_noise_of(args, y)
    return Fabricator(noise, stopping=args.stopping, label_mechanism=labels, clip=args.range is not None)


def _columns(args: argparse.Namespace, table: Table, made: Any, labels: Any) -> dict[str, Any]:
    """The features under their own names (an unnamed NPZ array stays one), and the labels."""
    if table.names is None and args.out.lower().endswith(".npz"):
        columns = {"X": made}
    else:
        names = table.names or tuple(f"x{j}" for j in range(made.shape[1]))
        columns = {name: made[:, j] for j, name in enumerate(names)}
    return columns if labels is None else columns | {args.label: labels}
