"""``onefold fabricate``: a table in, a private synthetic one out, with its guarantee beside it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from onefold._base.files import atomic_write
from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, without_bars
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format, write_table
from onefold.cli.tables import Table, labels_of, read_table
from onefold.exceptions import InvalidInputError


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fabricate",
        description="Replace every row of a table by a private one and write its guarantee beside it. Class "
        "labels and class sizes are released as they are unless --label-epsilon is given.",
        epilog="The range of the features must be known without looking at the data: give it with --range, "
        "or the largest change of an entry with --sensitivity.",
    )
    kinds.add_data(parser)
    parser.add_argument(
        "--label", metavar="COL", help="column with the classes; each class is then smoothed by itself"
    )
    parser.add_argument(
        "--out", required=True, metavar="SYNTH", help="table to write: .csv, .npz or .parquet"
    )
    kinds.add_ignore(parser)
    kinds.add_output_options(parser)
    group = parser.add_argument_group("privacy")
    kinds.add_noise_options(group, required=True, sensitivity=1.0)
    group.add_argument(
        "--hardened", action="store_true", help="draw noise that withstands floating-point attacks"
    )
    group.add_argument(
        "--stopping",
        default="honest",
        metavar="honest|documented|N",
        help="number of smoothing steps: honest chooses it from the noisy rows only, documented looks at the "
        "raw rows, which voids the guarantee, N fixes it (default: honest)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, fabricate, write the table and the guarantee, tell."""
    noise = kinds.NoiseOptions.of(args)
    check_table_format(args.out, args.data)
    if args.out == STANDARD_OUTPUT:
        raise InvalidInputError("--out - has no place for the guarantee: name a file")
    kinds.check_noise_options(noise)
    if noise.label_epsilon is not None and args.label is None:
        raise InvalidInputError("--label-epsilon needs --label")
    stopping = _stopping(args.stopping)
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=[] if args.label is None else [args.label], ignore=args.ignore)
    y = None if args.label is None else labels_of(table, args.label)
    from onefold.fabrication import Fabricator

    maker = Fabricator(
        kinds.noise_of(noise, table.values.shape[1], hardened=args.hardened),
        stopping=stopping,
        label_mechanism=kinds.label_noise_of(noise, y),
        clip=noise.range is not None,
    )
    with without_bars(args.quiet):
        made = maker.fabricate(table.values, y)
    labels = {} if maker.labels_ is None else {args.label: maker.labels_}
    write_table(args.out, _columns(args.out, table, made) | labels)
    promise = f"{args.out}.guarantee.json"
    with atomic_write(promise) as file:
        file.write(json.dumps(maker.guarantee_.to_dict(), indent=1).encode())
    result = {"table": args.out, "rows": len(made), "guarantee": promise, "holds": maker.guarantee_.holds}
    if args.json:
        print_json(result | {"promise": maker.guarantee_.to_dict()})
    elif not args.quiet:
        print(f"{len(made)} rows written to {args.out}, their guarantee to {promise}\n{maker.guarantee_}")
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
