"""``onefold federate simulate``: what would joining bring? In one process, without any network."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json
from onefold.cli.federate import options
from onefold.cli.tables import labels_of, read_table, require_two_classes
from onefold.exceptions import InvalidInputError

WAYS = ("iid", "dirichlet", "classes")
LIES = ("zero", "random", "flipped", "shrunk")


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "simulate",
        help="play a whole federation in one process",
        description="Spread a table over some sites, fit each alone, combine them in one round, and compare "
        "with one model of all rows. Nothing leaves this process; no noise is added.",
    )
    add = parser.add_argument
    add("data", metavar="DATA", help="table of rows: .csv, .npz or .parquet")
    add("--label", required=True, metavar="COL", help="column that holds the classes")
    add("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    add(
        "--sites",
        "--owners",
        type=kinds.positive_int,
        default=5,
        metavar="N",
        help="number of sites (default: 5)",
    )
    add("--partition", choices=WAYS, default="dirichlet", help="how rows are spread (default: dirichlet)")
    add(
        "--alpha",
        type=kinds.positive,
        default=0.3,
        metavar="A",
        help="concentration of --partition dirichlet: smaller is less equal (default: 0.3)",
    )
    add(
        "--classes-per-site",
        "--classes-per-owner",
        type=kinds.positive_int,
        default=2,
        metavar="N",
        help="number of classes at a site, for --partition classes (default: 2)",
    )
    options.add_rule_options(parser, default="min")
    add("--lie", choices=LIES, help="let the first F sites of --liars answer this instead of the truth")
    add("--seed", type=kinds.seed, default=0, metavar="N", help="seed of the spreading (default: 0)")
    add("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, simulate, tell."""
    from onefold.federated import simulate

    if args.sites < 2:
        raise InvalidInputError("--sites must be at least 2: a federation needs somebody to federate with")
    if args.lie is not None and args.liars >= args.sites:
        raise InvalidInputError("--liars must be fewer than --sites: somebody has to be honest")
    options.check_rule(args.rule, args.held_out)
    with busy(f"reading {args.data}", args.json):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    y = labels_of(table, args.label)
    require_two_classes(table, args.label, y)
    spread = {"dirichlet": {"alpha": args.alpha}, "classes": {"classes_per_client": args.classes_per_site}}
    result = simulate(
        table.values,
        y,
        args.sites,
        args.partition,
        rule=args.rule,
        n_liars=args.liars,
        random_state=args.seed,
        liars=None if args.lie is None else dict.fromkeys(range(args.liars), args.lie),
        labelled=options.held_out_rows(args.held_out, args.label, args.ignore, table.names),
        **spread.get(args.partition, {}),
    )
    accuracies = {"alone": list(result.alone), "pooled": result.pooled, "federated": result.federated}
    if args.json:
        # "owners" is the name that version 0.1 gave to "sites".
        told = {"sites": args.sites, "owners": args.sites, "test_rows": result.n_test, "rule": args.rule}
        print_json({**told, "lie": args.lie, **accuracies, "honest": result.honest, "guarantee": None})
        return 0
    alone = sorted(result.alone)
    print(f"{args.sites} sites, {result.n_test} rows for testing, rule {args.rule}, accuracies:")
    print(f"alone      {alone[0]:.4f} to {alone[-1]:.4f}, {sum(alone) / len(alone):.4f} on average")
    print(f"federated  {result.honest:.4f}, one round")
    if args.lie is not None:
        print(f"lying      {result.federated:.4f}, the same with {args.liars} site(s) that lie: {args.lie}")
    print(f"pooled     {result.pooled:.4f}, all rows in one place")
    print("No noise was added: this says nothing about privacy.")
    return 0
