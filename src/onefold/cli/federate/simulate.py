"""``onefold federate simulate``: what would joining bring? In one process, without any network."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json
from onefold.cli.federate import rules
from onefold.cli.labels import labels_of, require_two_classes
from onefold.cli.tables import Table, read_table
from onefold.exceptions import InvalidInputError

WAYS = ("iid", "dirichlet", "classes")
LIES = ("zero", "random", "flipped", "shrunk")


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "simulate",
        help="a whole federation in one process",
        description="Spread a table over some owners, fit each alone, combine them in one round, and compare "
        "with one model of all rows. Nothing leaves this process; no noise is added.",
    )
    parser.add_argument("data", metavar="DATA", help="table of rows: .csv, .npz or .parquet")
    parser.add_argument("--label", required=True, metavar="COL", help="column that holds the classes")
    parser.add_argument("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    parser.add_argument("--owners", type=kinds.positive_int, default=5, metavar="N", help="owners (5)")
    parser.add_argument(
        "--partition", choices=WAYS, default="dirichlet", help="how rows are spread (dirichlet)"
    )
    parser.add_argument("--alpha", type=kinds.positive, default=0.3, metavar="A", help="of dirichlet (0.3)")
    parser.add_argument("--classes-per-owner", type=kinds.positive_int, default=2, metavar="N", help="(2)")
    rules.add_rule_options(parser, default="min")
    parser.add_argument("--lie", choices=LIES, help="let the first F owners of --liars answer this instead")
    parser.add_argument("--seed", type=kinds.seed, default=0, metavar="N", help="of the spreading (0)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, simulate, tell."""
    from onefold.federated import simulate

    if args.owners < 2:
        raise InvalidInputError("--owners must be at least 2: a federation needs somebody to federate with")
    if args.lie is not None and args.liars >= args.owners:
        raise InvalidInputError("--liars must be fewer than --owners: somebody has to be honest")
    rules.check_rule(args.rule, args.held_out)
    with busy(f"reading {args.data}", args.json):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    y = labels_of(table, args.label)
    require_two_classes(table, args.label, y)
    result = simulate(table.values, y, args.owners, args.partition, **_options(args, table))
    summary = {
        "owners": args.owners,
        "test_rows": result.n_test,
        "rule": args.rule,
        "lie": args.lie,
        "alone": list(result.alone),
        "pooled": result.pooled,
        "federated": result.federated,
        "honest": result.honest,
        "guarantee": None,
    }
    if args.json:
        print_json(summary)
        return 0
    alone = sorted(result.alone)
    print(f"{args.owners} owners, {result.n_test} rows for testing, rule {args.rule}, accuracies:")
    print(f"alone      {alone[0]:.4f} to {alone[-1]:.4f}, {sum(alone) / len(alone):.4f} on average")
    print(f"federated  {result.honest:.4f}, one round")
    if args.lie is not None:
        print(f"lying      {result.federated:.4f}, the same with {args.liars} owner(s) who lie: {args.lie}")
    print(f"pooled     {result.pooled:.4f}, all rows in one place")
    print("No noise was added: this says nothing about privacy.")
    return 0


def _options(args: argparse.Namespace, table: Table) -> dict[str, Any]:
    found: dict[str, Any] = {"rule": args.rule, "n_liars": args.liars, "random_state": args.seed}
    if args.partition == "dirichlet":
        found["alpha"] = args.alpha
    elif args.partition == "classes":
        found["classes_per_client"] = args.classes_per_owner
    if args.lie is not None:
        found["liars"] = dict.fromkeys(range(args.liars), args.lie)
    if args.held_out is not None:
        found["labelled"] = rules.held_out_rows(args.held_out, args.label, args.ignore, table.names)
    return found
