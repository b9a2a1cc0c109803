"""``onefold federate site``: fit a model at home, say what it promises, and answer queries."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as kinds
from onefold.cli.arguments import label_noise_of
from onefold.cli.console import busy, print_json, say, without_bars
from onefold.cli.federate import fitting, running
from onefold.cli.tables import labels_of, read_table
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.flower import Site


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
    add = parser.add_argument
    add("--data", metavar="D", help="table of rows: .csv, .npz or .parquet")
    add("--label", metavar="COL", help="column that holds the classes")
    add("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    add(
        "--fit-only",
        action="store_true",
        help="fit the model, print its guarantee and exit without connecting",
    )
    add("--seconds", type=kinds.positive, metavar="S", help="stop after this many seconds")
    add(
        "--give-up",
        type=kinds.positive,
        default=300.0,
        metavar="S",
        help="seconds after which a refused site gives up (default: 300)",
    )
    add("--json", action="store_true", help="print the profile and the guarantee as JSON")
    fitting.add_privacy_options(parser.add_argument_group("privacy"))
    fitting.add_model_options(parser.add_argument_group("model, the same at all sites"))
    fitting.add_limits(parser.add_argument_group("what leaves this site (kept for the next start)"))
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Fit if there is data, say what is promised, then serve."""
    from onefold.federated.flower import Site

    site = Site("." if args.folder is None else args.folder)
    sends = next((kind for option, kind in fitting.SENDS.items() if getattr(args, option)), None)
    limits = {name: getattr(args, name) for name in ("per_minute", "total", "caller_total")}
    site.configure(**limits, sends=sends, trust_keys=args.trust_key)
    if (args.data is None) != (args.label is None):
        raise InvalidInputError("--data and --label go together")
    if args.data is not None:
        with busy(f"reading {args.data}", args.json):
            table = read_table(args.data, keep=[args.label], ignore=args.ignore)
        y = labels_of(table, args.label)
        estimator = fitting.estimator(args.model, args.measure, args.scale, args.n_components, args.seed)
        noise = fitting.mechanism(args, table.values.shape[1])
        extra = {"fabricate": not args.no_smoothing, "label_mechanism": label_noise_of(args, y)}
        with without_bars(args.json):
            site.fit(table.values, y, estimator, noise, columns=table.names, **extra)
    _tell(site, args.json)
    if args.fit_only:
        return 0
    remark = partial(say, quiet=False) if args.json else running.tell
    with running.until_stopped() as keep_going:
        site.serve(args.seconds, say=remark, give_up=args.give_up, keep_going=keep_going)
    return 0


def _tell(site: Site, as_json: bool) -> None:
    from onefold.federated.messages import to_parts

    profile, settings, leaves = site.profile, site.settings, site.model_may_leave
    if as_json:
        limits = {"per_minute": settings.per_minute, "total": settings.total, "caller": settings.caller_total}
        print_json({"profile": to_parts(profile)[0], "limits": limits, "model_may_leave": leaves})
        return
    text = fitting.RAW if profile.guarantee is None else str(profile.guarantee["text"])
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
