"""``onefold federate simulate``: what would joining bring? In one process, without any network."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import show
from onefold.cli.federate import common
from onefold.cli.tables import read_labelled
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated import Simulation

WAYS = ("iid", "dirichlet", "classes")
LIES = ("zero", "random", "flipped", "shrunk")


def add_simulate(parts: Any) -> None:
    """Declare the command."""
    parser = parts.add_parser(
        "simulate",
        help="simulate a whole federation in one process",
        description="Spread a table over several sites, fit a model at each, combine their answers in one "
        "round, and compare with one model of all rows. Nothing leaves this process, and no noise is added.",
    )
    shared.add_data(parser)
    shared.add_label(parser)
    shared.add_ignore(parser)
    shared.add_sites(parser)
    ways = "how rows are spread over the sites: equally, with unequal classes, or with few classes at each"
    option(parser, "--partition", ways, default="dirichlet", choices=WAYS)
    alpha = "concentration for --partition dirichlet; a smaller one makes the sites less alike"
    option(parser, "--alpha A", alpha, shared.positive, 0.3)
    few = "number of classes at each site, for --partition classes"
    option(parser, "--classes-per-site --classes-per-owner N", few, shared.whole, 2)
    common.add_rule_options(parser, default="min")
    lie = "let the first F sites (see --liars) send false answers of this kind"
    option(parser, "--lie", lie, choices=LIES)
    option(parser, "--seed N", "seed with which the rows are spread", shared.seed, 0)
    common.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, simulate, tell."""
    from onefold.federated import simulate

    if args.sites < 2:
        raise InvalidInputError("--sites must be at least 2: one site alone is no federation")
    if args.lie is not None and args.liars >= args.sites:
        raise InvalidInputError("--liars must be smaller than --sites: at least one site has to be honest")
    common.check_rule(args.rule, args.held_out)
    table, y = read_labelled(args.data, args.label, ignore=args.ignore, quiet=args.json)
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
        labelled=common.held_out_rows(args.held_out, args.label, args.ignore, table.names),
        **spread.get(args.partition, {}),
    )
    # "owners" is the name that version 0.1 gave to "sites".
    told = {"sites": args.sites, "owners": args.sites, "test_rows": result.n_test, "rule": args.rule}
    told |= {"lie": args.lie, "alone": list(result.alone), "pooled": result.pooled}
    told |= {"federated": result.federated, "honest": result.honest, "guarantee": None}
    show(told, _in_words(result, args.sites, args.rule, args.lie, args.liars), as_json=args.json)
    return 0


def _in_words(result: Simulation, n_sites: int, rule: str, lie: str | None, n_liars: int) -> list[str]:
    alone = sorted(result.alone)
    words = [
        f"{n_sites} sites, {result.n_test} rows for testing, rule {rule}, accuracies:",
        f"alone      {alone[0]:.4f} to {alone[-1]:.4f}, {sum(alone) / len(alone):.4f} on average",
        f"federated  {result.honest:.4f}, one round",
    ]
    if lie is not None:
        words.append(f"lying      {result.federated:.4f}, the same with {n_liars} site(s) that lie: {lie}")
    words.append(f"pooled     {result.pooled:.4f}, all rows in one place")
    return [*words, "No noise was added: this says nothing about privacy."]
