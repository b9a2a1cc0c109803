"""``onefold demo``: several sites with unequal classes, one private classifier, one round."""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json
from onefold.cli.outputs import check_writable
from onefold.exceptions import InvalidInputError

WIDTH = 88


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo",
        description="Spread a dataset unequally over several sites and compare: each site alone, all data "
        "pooled, one global classifier made in one round from the sites' local models, and the same with "
        "differential privacy, for one entry and for a whole record. Then one site leaves, and the others "
        "answer as if it had never been there.",
    )
    parser.add_argument(
        "--sites",
        "--owners",
        dest="sites",
        type=kinds.positive_int,
        default=5,
        metavar="N",
        help="number of sites (default: 5)",
    )
    parser.add_argument(
        "--seed",
        type=kinds.seed,
        default=0,
        metavar="N",
        help="seed of everything random except the noise (default: 0)",
    )
    parser.add_argument(
        "--epsilon",
        type=kinds.positive,
        default=4.0,
        metavar="E",
        help="epsilon of the guarantee for one entry (default: 4)",
    )
    parser.add_argument(
        "--record-epsilon",
        type=kinds.positive,
        default=8.0,
        metavar="E",
        help="epsilon of the guarantee for a whole record (default: 8)",
    )
    parser.add_argument(
        "--dataset", default="digits", metavar="NAME", help="dataset to use (default: digits)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="folder with further datasets, as NAME.npz")
    parser.add_argument(
        "--n-jobs", type=kinds.jobs, metavar="N", help="number of threads; -1 uses all processors"
    )
    parser.add_argument("--report", metavar="PATH", help="file for a one-file HTML page with the results")
    kinds.add_output_options(parser, quiet=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare, then print a table or JSON and write the page if asked to."""
    from onefold.cli.federation import Plan, compare
    from onefold.report.html import comparison_page, require_page_tools, write_page

    if args.sites < 2:
        raise InvalidInputError("--sites must be at least 2: one site alone is no federation")
    if args.report is not None:
        check_writable(args.report)
        require_page_tools()
    study = compare(
        Plan(
            args.dataset,
            args.data_dir,
            args.sites,
            args.seed,
            args.n_jobs,
            args.epsilon,
            args.record_epsilon,
        )
    )
    if args.report is not None:
        with busy("drawing", quiet=False):
            write_page(args.report, comparison_page(study))
    if args.json:
        told = study.to_dict()
        told["settings"]["owners"] = args.sites  # the name that version 0.1 gave to "sites"
        print_json(told)
        return 0
    print(f"{study.title}\n{fill(study.lead, WIDTH)}\n\n{study.table()}\n")
    for note in study.notes:
        print(fill(f"- {note}", WIDTH, subsequent_indent="  "))
    if args.report is not None:
        print(f"\nreport written to {args.report}")
    return 0
