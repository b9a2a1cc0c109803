"""``onefold federate site``: fit a model at home, say what it promises, and answer queries."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, say, without_bars
from onefold.cli.federate import running
from onefold.cli.federate.fitting import RAW, add_model_options, add_privacy_options, local_model
from onefold.cli.labels import labels_of
from onefold.cli.tables import read_table
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.flower.folders import SiteFolder, SiteSettings
    from onefold.federated.messages import Profile


SENDS = {
    "send_model": "private-model",
    "send_raw_model": "raw-model",
    "send_answers_only": "answers",
    "send_sealed_only": "sealed-answers",
}


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "site",
        help="run a site of a federation",
        description="Fit a model to a table and answer queries with one number per row and class, until "
        "interrupted. What is promised about the rows is printed before anything is answered. Without "
        "--data the model fitted last is used.",
        epilog="The noise is drawn anew at every fit, and every fit spends its epsilon again: fit once.",
    )
    running.add_folder_option(parser, "site")
    parser.add_argument("--data", metavar="D", help="table of rows: .csv, .npz or .parquet")
    parser.add_argument("--label", metavar="COL", help="column that holds the classes")
    parser.add_argument("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    parser.add_argument("--fit-only", action="store_true", help="fit and tell, do not connect")
    parser.add_argument("--seconds", type=kinds.positive, metavar="S", help="stop by itself after this time")
    parser.add_argument(
        "--give-up", type=kinds.positive, default=300.0, metavar="S", help="when refused for so long (300)"
    )
    parser.add_argument("--json", action="store_true", help="print profile and promise as JSON")
    add_privacy_options(parser.add_argument_group("privacy"))
    add_model_options(parser.add_argument_group("model"))
    _add_limits(parser.add_argument_group("what leaves this site (kept for the next start)"))
    parser.set_defaults(run=running.with_exit_code(run))


def _add_limits(group: Any) -> None:
    whole = kinds.positive_int
    group.add_argument("--per-minute", type=whole, metavar="N", help="rows answered per minute (10000)")
    group.add_argument("--total", type=whole, metavar="N", help="rows answered for ever (1000000)")
    group.add_argument("--caller-total", type=whole, metavar="N", help="the same for each caller (1000000)")
    sends = group.add_mutually_exclusive_group()
    sends.add_argument("--send-model", action="store_true", help="let a private model go to the server")
    sends.add_argument(
        "--send-raw-model", action="store_true", help="let the model go even if it holds RAW ROWS"
    )
    sends.add_argument("--send-answers-only", action="store_true", help="let no model go (at first)")
    sends.add_argument("--send-sealed-only", action="store_true", help="give no answer that is not encrypted")
    group.add_argument(
        "--trust-key",
        action="append",
        default=[],
        type=kinds.key_id,
        metavar="ID",
        help="give encrypted answers under this querier's key, and no other that was not named so",
    )


def run(args: argparse.Namespace) -> int:
    """Fit if there is data, say what is promised, then serve."""
    from onefold.federated.flower.site import read_profile
    from onefold.federated.flower.supernode import Node

    folder = running.site_folder(args)
    settings = _settings(folder, args)
    if (args.data is None) != (args.label is None):
        raise InvalidInputError("--data and --label go together")
    profile = read_profile(folder) if args.data is None else _fit(folder, args)
    _tell(profile, settings, args)
    if args.fit_only:
        return 0
    remark = partial(say, quiet=False) if args.json else running.tell
    with running.until_stopped() as is_going, Node(folder, remark, args.give_up) as node:
        running.keep_checking(node.check, is_going, args.seconds)
    return 0


def _settings(folder: SiteFolder, args: argparse.Namespace) -> SiteSettings:
    """The settings with what the options change, kept for the next start."""
    from onefold.federated.flower.folders import write_private

    names = ("per_minute", "total", "caller_total")
    changes: dict[str, Any] = {n: getattr(args, n) for n in names if getattr(args, n) is not None}
    for option, kind in SENDS.items():
        if getattr(args, option):
            changes["sends"] = kind
    if args.trust_key:
        write_private(folder.trusted_keys, _lines({*args.trust_key, *(folder.trusted_key_ids or ())}))
    settings = replace(folder.settings, **changes)
    if settings != folder.settings:
        settings.save(folder.settings_file)
    return settings


def _lines(texts: set[str]) -> bytes:
    return "".join(f"{text}\n" for text in sorted(texts)).encode()


def _fit(folder: SiteFolder, args: argparse.Namespace) -> Profile:
    from onefold.federated.flower.site import store_model

    with busy(f"reading {args.data}", args.json):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    y = labels_of(table, args.label)
    model = local_model(args, y, table.values.shape[1])
    with without_bars(args.json):
        model.fit(table.values, y)
    return store_model(folder, model, table.names)


def _tell(profile: Profile, settings: SiteSettings, args: argparse.Namespace) -> None:
    from onefold.federated.flower.site import may_send
    from onefold.federated.messages import to_parts

    leaves = may_send(settings, profile)
    if args.json:
        limits = {"per_minute": settings.per_minute, "total": settings.total, "caller": settings.caller_total}
        print_json({"profile": to_parts(profile)[0], "limits": limits, "model_may_leave": leaves})
        return
    text = RAW if profile.guarantee is None else str(profile.guarantee["text"])
    running.tell(
        f"site {profile.site}: {len(profile.classes)} classes, {profile.n_features} features\n{text}"
    )
    running.tell(
        f"Limits: {settings.per_minute} rows a minute, {settings.total} for ever, "
        f"{settings.caller_total} for each caller."
    )
    if settings.sends == "private-model" and not leaves:
        running.tell(
            "The model stays here: it has no guarantee that holds, and --send-raw-model was not given."
        )
    elif leaves:
        raw = "" if profile.guarantee is not None and profile.guarantee["holds"] else ", RAW ROWS INCLUDED"
        running.tell(f"The model itself may go to the server{raw}.")
    else:
        what = "encrypted answers" if settings.sends == "sealed-answers" else "answers"
        running.tell(f"The model stays here; only {what} leave.")
