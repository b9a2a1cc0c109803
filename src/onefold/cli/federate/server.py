"""``onefold federate init, server, status, add, remove`` and ``app``: what the server's operator runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import count_of, say, show
from onefold.cli.federate import common

if TYPE_CHECKING:
    from onefold.federated.flower import SiteStatus

WIDTH = 20


# --- init -------------------------------------------------------------------------------------------------


def add_init(parts: Any) -> None:
    """Declare ``init``."""
    parser = parts.add_parser(
        "init",
        help="make the folders, keys and certificates of a federation",
        description="Make a folder for the server and one for each site, with certificates and keys for a "
        "test federation, and GUIDE.md, a page that says what to do next.",
    )
    folder = "folder to make (default: federation)"
    parser.add_argument("folder", nargs="?", default="federation", metavar="DIR", help=folder)
    option(parser, "--sites NAME", "names of the sites", required=True, nargs="+")
    option(parser, "--host HOST", "name or address where the sites reach the server", default="127.0.0.1")
    option(parser, "--port N", "port of the server", shared.whole, 8443)
    modes = "query: rows go out and numbers return; model: sites send private models once"
    option(parser, "--mode", modes, default="query", choices=("query", "model"))
    common.add_rule_options(parser, default="min")
    option(parser, "--label COL", "column of --held-out that holds the classes")
    shared.add_ignore(parser, "column of --held-out to leave out")
    common.add_schema(parser)
    option(parser, "--most-rows N", "most rows of a site in plain sums (default: any number)", shared.whole)
    flag(parser, "--own-keys", "make no keys for the sites: each makes its own, see GUIDE.md")
    flag(parser, "--insecure", "use plaintext without keys, on 127.0.0.1 only")
    anyone = "sites answer whoever the server lets ask, not approved queriers only; so with --insecure"
    flag(parser, "--answer-anyone", anyone)
    common.ends(parser, run_init)


def run_init(args: argparse.Namespace) -> int:
    """Make everything, tell where it is."""
    from onefold.federated.flower import Federation

    common.check_rule(args.rule, args.held_out)
    schema = common.schema_of(args)
    made = Federation.create(
        args.folder,
        args.sites,
        host=args.host,
        port=args.port,
        mode=args.mode,
        rule=args.rule,
        n_liars=args.liars,
        held_out=common.held_out_rows(args.held_out, args.label, args.ignore, schema=schema),
        schema=schema,
        own_keys=args.own_keys,
        insecure=args.insecure,
        most_rows=args.most_rows,
        approval="anyone" if args.answer_anyone else None,
    )
    root, server = Path(args.folder), str(made.folder.root)
    folders = {name: str(root / "sites" / name) for name in args.sites}
    guide = str(root / "GUIDE.md")
    secret = "" if args.insecure or args.own_keys else f"  ({_handed_over(True)})"
    sites = [f"site {name}: {folder}{secret}" for name, folder in folders.items()]
    words = [f"server: {server}", *sites, f"what to do next: {guide}"]
    show({"server": server, "sites": folders, "guide": guide}, words, as_json=args.json)
    return 0


def _handed_over(secret: bool) -> str:
    how = " by a safe way: it holds the site's private key" if secret else ""
    return f"to be handed over{how}"


# --- server -----------------------------------------------------------------------------------------------


def add_server(parts: Any) -> None:
    """Declare ``server``."""
    parser = parts.add_parser(
        "server",
        help="run the server of a federation",
        description="Let the sites in by their keys and carry queries to them, until interrupted. The list "
        "of sites, what they said about themselves and the log of who came and went survive a restart.",
    )
    common.add_folder(parser)
    option(parser, "--bind ADDRESS", "address to listen on (default: all of this machine)")
    option(parser, "--seconds S", "stop after this many seconds (default: never)", shared.positive)
    option(parser, "--queue N", "queries that may wait before more are refused (at first 256)", shared.whole)
    metrics = "serve numbers for Prometheus at http://127.0.0.1:PORT/metrics (PORT: 9443)"
    parser.add_argument("--metrics", metavar="PORT", nargs="?", type=int, const=9443, help=metrics)
    flag(parser, "--json", "print as JSON where the server listens, when it is ready")
    parser.set_defaults(run=run_server)


def run_server(args: argparse.Namespace) -> int:
    """Start, tell, watch, stop."""
    from onefold.federated.flower.setup import expiry_warnings

    def ready(settings: Any) -> None:
        where = {"host": settings.host, "port": settings.port, "mode": settings.mode}
        security = "PLAINTEXT, for tests" if settings.insecure else "TLS, sites known by their keys"
        what = f"{settings.mode} mode, rule {settings.rule}; {security}"
        words = [f"ready at {settings.host}:{settings.port} ({what})"]
        show({"ready": True, **where}, words, as_json=args.json)

    federation = common.federation_of(args)
    for line in expiry_warnings(federation.folder):
        say(f"WARNING: {line}", quiet=False)
    with common.until_stopped() as keep_going:
        federation.serve(
            args.seconds,
            bind=args.bind,
            ready=ready,
            keep_going=keep_going,
            say=lambda line: say(line, quiet=False),
            queue=args.queue,
            metrics=args.metrics,
        )
    return 0


# --- status -----------------------------------------------------------------------------------------------


def add_status(parts: Any) -> None:
    """Declare ``status``."""
    parser = parts.add_parser(
        "status",
        help="show the sites of a federation and what they promise",
        description="Show the sites of a federation, whether they are connected, and what they promise about "
        "their rows. Also check that nobody changed the log of who came and went.",
    )
    common.add_folder(parser)
    reports.add_report(parser, card=False)
    common.ends(parser, run_status)


def run_status(args: argparse.Namespace) -> int:
    """Read the state of the federation, tell."""
    reports.check_report(args)
    found = common.federation_of(args).status()
    words = status_in_words(found)
    if args.report is not None:
        from onefold.report.federations import of_federation

        page = of_federation(Path(args.folder).resolve().parent.name, found.to_dict(), words)
        words.append(reports.written(args.report, page))
    show(found.to_dict(), words, as_json=args.json)
    return 0


def status_in_words(found: Any) -> list[str]:
    """The state of a federation, line by line."""
    state = "running" if found.running else "NOT running"
    log = f"log intact ({found.log_entries} entries)"
    words = [f"server {state}, {found.mode} mode, rule {found.rule}, {log}"]
    for site in found.sites:
        there = "online" if site.online else "offline"
        reason = f" ({site.reason})" if site.reason else ""
        status = "takes part" if site.status == "member" else site.status
        sums = "; the server has plain sums of its rows" if site.sums else ""
        # Of a site that was refused or removed nothing is kept, whatever it would send or has sent.
        if site.measure in ("moments", "numbers") and site.guarantee is not None and site.status == "member":
            sums = "; sent private moments"
        words.append(f"{site.name:<{WIDTH}} {status}{reason}, {there}; {_promise(site)}{sums}")
        words.append(f"{'':<{WIDTH}} {_noted(site)}")
    measures = {site.measure for site in found.sites if site.status == "member"}
    if measures & {"moments", "numbers"}:
        sums = "private moments" if "moments" in measures else "moments of numbers to predict"
        words.append(
            f"Queries are answered here, from the sum of the sites' {sums}: no site is asked or sees one."
        )
    if found.certificate is not None and found.authority is not None:
        ends = f"{found.certificate[:10]}, that of its authority on {found.authority[:10]}"
        words.append(f"the server's certificate ends on {ends}")
    words.append(f"id of the federation, for signed query keys: {found.federation}")
    words += [f"WARNING: {line}" for line in found.warnings]
    return words


def _noted(site: SiteStatus) -> str:
    """When a site was there, what it answered, and what it tells about itself."""
    seen = "never seen" if site.last_seen is None else f"last seen {site.last_seen}"
    answered = "1 query" if site.queries == 1 else f"{site.queries} queries"
    parts = [seen, f"{answered} about {count_of(site.rows_answered, 'row')} answered"]
    if site.version is not None:
        parts.append(f"onefold {site.version}, Flower {site.flower}")
    if site.declared_rows is not None:
        parts.append(f"{count_of(site.declared_rows, 'row')} declared")
    if site.budget is not None:
        parts.append(f"ledger: {site.budget}")
    return "; ".join(parts)


def _promise(site: SiteStatus) -> str:
    """The guarantee in half a line, never without its unit."""
    from onefold.privacy.terms import shown

    guarantee = site.guarantee
    if site.features is None or site.classes is None:
        return "has not said anything about itself"
    numbers = site.measure == "numbers"
    predicts = "numbers to predict" if numbers else f"{len(site.classes)} classes"
    text = f"{predicts}, {site.features} features"
    if guarantee is None:
        return f"{text}; NOT private: {'sums of' if numbers else 'answers are functions of'} raw rows"
    if not guarantee["holds"]:
        return f"{text}; guarantee VOID"
    unit = guarantee["unit"]
    pair = guarantee[unit if unit in ("record", "person") else "entry"]
    if pair is None or pair["epsilon"] is None:
        return f"{text}; nothing is promised per {unit}"
    covered = "labels covered too" if guarantee["labels"] else "labels not covered"
    # What onefold has not seen is the site's word; the whole text is in the site's profile.
    word = ", on the site's word" * bool(guarantee["conditions"] or not guarantee["clipped"])
    epsilon, delta = shown(pair["epsilon"]), shown(pair["delta"], 3)
    return f"{text}; epsilon {epsilon} per {unit}, delta {delta}{word}, {covered}"


# --- renew ------------------------------------------------------------------------------------------------


def add_renew(parts: Any) -> None:
    """Declare ``renew``."""
    parser = parts.add_parser(
        "renew",
        help="renew the certificates of a federation",
        description="Write a new certificate of the server, valid for a year, under the same authority; the "
        "server uses it when it is started again, and the sites need nothing new. With --authority the "
        "authority's certificate is renewed too, for the same key: ca.crt then has to go to every site.",
    )
    common.add_folder(parser)
    flag(parser, "--authority", "renew the authority's certificate as well")
    common.ends(parser, run_renew)


def run_renew(args: argparse.Namespace) -> int:
    """Renew, tell."""
    federation = common.federation_of(args)
    made = federation.renew(authority=args.authority)
    words = [f"the server's certificate ends on {made['certificate'][:10]}; start the server again to use it"]
    if args.authority:
        words.append(f"{federation.folder.ca}: to be handed to every site, in place of its ca.crt")
    show(made, words, as_json=args.json)
    return 0


# --- add and remove ---------------------------------------------------------------------------------------


def add_add(parts: Any) -> None:
    """Declare ``add``."""
    parser = parts.add_parser(
        "add",
        help="let a site into the federation",
        description="Let a site in by its public key (ECDSA P-384, in OpenSSH's format): a new site, one "
        "that was removed, or one that was invited and has made a key of its own since. A running server "
        "notices within seconds.",
    )
    parser.add_argument("site", metavar="SITE", help="name of the site")
    key = "public key of the site; not needed with --make, or in a plaintext federation"
    parser.add_argument("key", nargs="?", metavar="KEY.pub", help=key)
    common.add_folder(parser)
    option(parser, "--make DIR", "folder to make for the site; without KEY.pub with a new key pair")
    common.ends(parser, run_add)


def run_add(args: argparse.Namespace) -> int:
    """Make a folder if asked to, add, tell."""
    from onefold.federated.flower.setup import fingerprint_of

    made = common.federation_of(args).add(args.site, args.key, make=args.make)
    mark = None if args.key is None else fingerprint_of(Path(args.key))
    words = [f"{args.site} may come in" + (f" with the key {mark}: compare it with the site" if mark else "")]
    if made is not None:
        words.append(f"{made}: {_handed_over((made / 'node.key').exists())}")
    result = {"invited": args.site, "folder": args.make, "fingerprint": mark}
    show(result, words, as_json=args.json)
    return 0


def add_remove(parts: Any) -> None:
    """Declare ``remove``."""
    parser = parts.add_parser(
        "remove",
        help="take a site and all it contributed out of the federation",
        description="Take a site out: the server asks it nothing any more and tells it so when it connects, "
        "deletes its model and its sums, and every later answer is that of a federation which never had the "
        "site. The server may be running or not.",
    )
    parser.add_argument("site", metavar="SITE", help="name of the site")
    common.add_folder(parser)
    common.ends(parser, run_remove)


def run_remove(args: argparse.Namespace) -> int:
    """Remove, tell."""
    left = list(common.federation_of(args).remove(args.site).sites)
    words = [f"{args.site} removed; sites now: {', '.join(left) or 'none'}"]
    show({"removed": args.site, "members": left}, words, as_json=args.json)
    return 0


# --- app --------------------------------------------------------------------------------------------------


def add_app(parts: Any) -> None:
    """Declare ``app``."""
    parser = parts.add_parser(
        "app",
        help="write a plain Flower app for a SuperLink of your own",
        description="Write a Flower app (ServerApp and ClientApp in Flower's documented interface) that "
        "asks sites in one round. It has none of the protection of onefold's own launcher: see "
        "docs/flower_app.md.",
    )
    parser.add_argument("folder", metavar="DIR", help="folder to make")
    common.ends(parser, run_app)


def run_app(args: argparse.Namespace) -> int:
    """Write, tell."""
    from onefold.federated.flower import write_plain_app

    root = write_plain_app(args.folder)
    words = [f"{root}: a Flower app; {root / 'README.md'} says how to run it"]
    show({"app": str(root)}, words, as_json=args.json)
    say("plain Flower does not protect what onefold federate server does: docs/flower_app.md", args.json)
    return 0
