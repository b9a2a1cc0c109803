"""``onefold federate query``: a table in, one prediction for each row out, and who had a part in it."""

from __future__ import annotations

import argparse
import getpass
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, say
from onefold.cli.federate import encrypted, outcome, rules, running
from onefold.cli.labels import agreement, identifiers_of, labels_of
from onefold.cli.outputs import check_table_format, check_writable, write_table
from onefold.cli.tables import Table, read_table
from onefold.exceptions import FederationError, InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.flower.folders import ServerFolder
    from onefold.federated.flower.registry import Site
    from onefold.federated.server import Result

    Results = Sequence[Result | encrypted.Opened]


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "query",
        help="predict the classes of a table by the federation",
        description="Predict the class of every row from the answers of all members. Columns must be those "
        "of the sites, in their order. Exit code 3: only some members answered, and the result is of those.",
    )
    parser.add_argument("data", metavar="DATA", help="table of rows: .csv, .npz or .parquet")
    running.add_folder_option(parser, "server")
    parser.add_argument(
        "--out", metavar="PRED", help="predictions: .csv, .npz, .parquet, - for the terminal (-)"
    )
    parser.add_argument("--label", metavar="COL", help="column with the true classes: report the accuracy")
    parser.add_argument("--id", metavar="COL", help="column to copy beside the predictions")
    parser.add_argument("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    parser.add_argument("--measures", action="store_true", help="add the combined measure of every class")
    parser.add_argument(
        "--timeout", type=kinds.positive, default=60.0, metavar="S", help="for the sites (60)"
    )
    parser.add_argument(
        "--batch", type=kinds.positive_int, default=5000, metavar="N", help="rows at once (5000)"
    )
    rules.add_rule_options(parser.add_argument_group("another rule than the server's"), default=None)
    parser.add_argument(
        "--held-out-label", metavar="COL", help="column of --held-out with the classes (that of --label)"
    )
    encrypted.add_options(parser.add_argument_group("encrypted answers"))
    parser.add_argument("--caller", metavar="NAME", help="who asks, for the sites' budgets (user name)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing but predictions and errors")
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Read, ask, combine, write, tell."""
    out = outcome.destination(args)
    folder = running.server_folder(args)
    encrypted.check_options(args, folder)
    if args.lock is not None:
        check_writable(args.out, args.data, args.lock)
    elif out is not None:
        check_table_format(out, args.data)
    keep = [name for name in (args.label, args.id) if name is not None]
    table = read_table(args.data, keep=keep, ignore=args.ignore)
    labels = None if args.label is None else labels_of(table, args.label)
    more: dict[str, Any] = {}
    with busy(f"asking about {len(table.values)} rows", args.quiet):
        if args.lock is not None:
            return _ask_for_another(folder, table, args)
        if args.encrypted:
            results, more = _ask_encrypted(folder, table, args)
        else:
            results = _ask(folder, table, rules.Combining(folder, args, table.names), args)
    predicted = np.concatenate([result.labels for result in results])
    columns = {} if args.id is None else {args.id: identifiers_of(table, args.id)}
    columns |= {"prediction": predicted} | (_measures(results) if args.measures else {})
    if out is not None:
        write_table(out, columns)
    accuracy = None if labels is None else agreement(predicted, labels)
    summary = more | _summary(results, args, accuracy, _kept_out(folder))
    outcome.tell(summary, predicted, args, args.quiet)
    _remark(summary, args.quiet)
    return running.PARTIAL if summary["partial"] else 0


def _caller(args: argparse.Namespace) -> str:
    return args.caller or re.sub(r"[^A-Za-z0-9._-]", "-", getpass.getuser())


def _members(folder: ServerFolder, table: Table) -> Mapping[str, Site]:
    """Those who will be asked: at least one, with as many features, and columns of the same names."""
    from onefold.federated.flower.registry import Registry
    from onefold.federated.messages import columns_digest

    members = Registry(folder).members
    if not members:
        raise FederationError("the federation has no member yet")
    profiles = [site.profile for site in members.values() if site.profile is not None]
    widths, n_features = {profile.n_features for profile in profiles}, table.values.shape[1]
    if widths and n_features not in widths:
        raise InvalidInputError(f"{table.path}: {n_features} feature(s), the sites have {max(widths)}")
    columns = columns_digest(table.names)
    if columns is not None and any(profile.columns not in (None, columns) for profile in profiles):
        raise InvalidInputError(f"{table.path}: the columns are not those of the sites, or in another order")
    return members


def _ask(folder: ServerFolder, table: Table, combining: rules.Combining, args: argparse.Namespace) -> Results:
    from onefold.federated.flower.asking import new_query_id, way_of_asking

    _members(folder, table)
    values = table.values
    asking = way_of_asking(folder, _caller(args), args.timeout)
    starts = range(0, len(values), args.batch)
    asked = [combining.query(values[start : start + args.batch], new_query_id()) for start in starts]
    gathered = asking.ask([each.mixed for each in asked])
    return [combining.result(each, found) for each, found in zip(asked, gathered, strict=True)]


def _ask_encrypted(
    folder: ServerFolder, table: Table, args: argparse.Namespace
) -> tuple[Results, dict[str, Any]]:
    """Ask under our own key, and open what comes."""
    sealing = encrypted.Sealing.of(args, folder, _members(folder, table), table.values)
    parts = encrypted.ask(folder, table.values, sealing, _caller(args), args)
    classes = list(sealing.lock.classes)
    assert sealing.querier is not None
    results = [encrypted.opened(sealing.querier, classes, part) for part in parts]
    return results, encrypted.remark(results, sealing.lock)


def _ask_for_another(folder: ServerFolder, table: Table, args: argparse.Namespace) -> int:
    """Ask under the lock of a querier elsewhere, and put down what only the querier can open."""
    from onefold.cli.federate.sealed_file import save_sealed

    values = table.values
    sealing = encrypted.Sealing.of(args, folder, _members(folder, table), values)
    parts = encrypted.ask(folder, values, sealing, _caller(args), args)
    save_sealed(Path(args.out), sealing.lock, parts)
    partial = any(not set(part.expected) <= set(part.sites) for part in parts)
    if args.json:
        print_json({"rows": len(values), "sealed": args.out, "key": sealing.lock.key_id, "partial": partial})
    else:
        say(f"{len(values)} rows, sealed in {args.out}: onefold federate open", args.quiet)
    return running.PARTIAL if partial else 0


def _measures(results: Results) -> dict[str, NDArray[Any]]:
    plain = [result for result in results if not isinstance(result, encrypted.Opened)]
    classes = plain[0].classes
    if any(not np.array_equal(result.classes, classes) for result in plain):
        raise FederationError("sites came and went while they were asked: ask again")
    return {"measures": np.concatenate([result.measures for result in plain]), "classes": classes}


def _kept_out(folder: ServerFolder) -> dict[str, str]:
    """Sites that are there and not asked, and why."""
    from onefold.federated.flower.registry import Registry, Status

    sites = Registry(folder).sites.values()
    return {site.name: site.reason or "" for site in sites if site.status is Status.REFUSED}


def _summary(
    results: Results, args: argparse.Namespace, accuracy: float | None, kept_out: dict[str, str]
) -> dict[str, Any]:
    summary = outcome.of_sites(results)
    summary |= {
        "outliers": {site: code for result in results for site, code in result.outliers.items()},
        "kept_out": kept_out,
    }
    if args.out is not None:
        summary["predictions"] = args.out
    return summary if accuracy is None else summary | {"accuracy": accuracy}


def _remark(summary: dict[str, Any], quiet: bool) -> None:
    for site, reason in summary["kept_out"].items():
        say(f"{site} is kept out and was not asked: {reason}", quiet)
    for site, code in summary["outliers"].items():
        say(f"answers of {site} look odd: {code}", quiet)
