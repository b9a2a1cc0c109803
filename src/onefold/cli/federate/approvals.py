"""Who may ask: ``onefold federate querier``, ``approvals`` and ``log``.

A querier makes a signing key and hands its public half to the sites. A data owner decides which queriers the
site answers, and exports the site's log of decisions and answers for an auditor.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from onefold._base.files import output_file
from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import Parser, count_of, print_json, say, show
from onefold.cli.federate import common
from onefold.cli.outputs import check_writable
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.access.approvals import Approval
    from onefold.federated.flower import Federation, Site

COMPARE = (
    "Compare the id with the querier by another way than through the server: names can be chosen freely."
)
START = "start it with --approve-queriers to answer approved queriers only"


# --- querier ----------------------------------------------------------------------------------------------


def add_querier(parts: Any) -> None:
    """Declare ``querier``."""
    parser = parts.add_parser(
        "querier",
        help="make and show the key with which you sign queries",
        description="Make or show the signing key of a querier. Sites that approve queriers know you by it: "
        "the server can neither ask in your name nor change what you ask.",
    )
    ways = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    new = ways.add_parser(
        "new",
        help="make a signing key",
        description="Make a signing key (Ed25519): NAME.signkey, which only your account can read and which "
        "stays with you, and NAME.pub for the sites. Keep it away from the server's machine if the server's "
        "operator is not to ask in your name.",
    )
    new.add_argument("name", nargs="?", metavar="NAME", help="your name (default: your user name)")
    shown = ways.add_parser(
        "show",
        help="show the id of a signing key",
        description="Show the id of a signing key and where it is.",
    )
    shown.add_argument("name", nargs="?", metavar="NAME", help="your name, or a .signkey file")
    for each, run in ((new, run_new), (shown, run_show)):
        option(each, "--keys DIR", "folder of signing keys (default: ~/.local/share/onefold/queriers)")
        common.ends(each, run)


def run_new(args: argparse.Namespace) -> int:
    """Make a key, tell."""
    from onefold.federated.access import signatures

    folder = args.keys or str(signatures.default_querier_folder())
    key = signatures.SigningKey.create(args.name or signatures.user_name(), folder).key
    _tell_key(key, f"{folder}/{key.name}", args.json)
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Find a key, tell."""
    from onefold.federated.access import signatures

    name, folder = args.name or signatures.user_name(), args.keys or str(signatures.default_querier_folder())
    found = signatures.find_signing_key(name, folder)
    if found is None:
        raise InvalidInputError(
            f"{folder}: no key of {name}; make one with onefold federate querier new {name}"
        )
    bare = name.removesuffix(signatures.KEY_SUFFIX)
    _tell_key(found.key, f"{folder}/{name}" if bare == name else bare, args.json)
    return 0


def _tell_key(key: Any, where: str, as_json: bool) -> None:
    from onefold.federated.access.signatures import KEY_SUFFIX, PUBLIC_SUFFIX

    words = [
        f"querier {key.name}, id of the key {key.id}",
        f"{where}{KEY_SUFFIX}: secret, stays with you",
        f"{where}{PUBLIC_SUFFIX}: for the sites, which approve it with onefold federate approvals approve "
        f"{key.name}{PUBLIC_SUFFIX} --folder SITE",
    ]
    told = {"querier": key.name, "id": key.id, "public": key.public}
    show(told | {"key": f"{where}{KEY_SUFFIX}", "file": f"{where}{PUBLIC_SUFFIX}"}, words, as_json=as_json)


def signing_key(name: str | None, quiet: bool, federation: Federation | None = None) -> Any:
    """What signs: the key of that name, made if there is none.

    A query to a ``federation`` that cannot use one is asked in the name alone.
    """
    from onefold.federated.access import signatures

    asker, folder = signatures.user_name() if name is None else name, signatures.default_querier_folder()
    found = signatures.find_signing_key(asker)
    if found is not None:
        return found
    if federation is not None:
        settings = federation.settings
        if settings.insecure or settings.mode == "model" or not federation.is_running:
            return asker
    try:
        made = signatures.SigningKey.create(asker, folder)
    except InvalidInputError as error:
        if federation is None:
            raise
        say(f"the query is not signed: {error}", quiet)  # sites that answer anyone need none
        return asker
    say(f"made a key to sign with, id {made.key.id}: {folder / (asker + signatures.KEY_SUFFIX)}", quiet)
    return made


# --- approvals --------------------------------------------------------------------------------------------


def add_approvals(parts: Any) -> None:
    """Declare ``approvals``."""
    parser = parts.add_parser(
        "approvals",
        help="decide whom a site answers",
        description="For the data owner of a site: see which queriers have asked, for what and how much, and "
        "let them ask or refuse them. Decisions hold at once, whether the site is running or not, and are "
        "noted in the site's log.",
    )
    ways = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    listed = ways.add_parser(
        "list",
        help="show who waits and what was decided",
        description="Show the queriers that wait for a decision, and what was decided about others.",
    )
    approve = ways.add_parser(
        "approve",
        help="let a querier ask",
        description="Let a querier ask: one that waits, or one whose public key you were given. At a site "
        "with --approve an approval is for one purpose, and for the rows that the list shows unless --rows "
        "is given; otherwise it is for every purpose. The site's own limits hold in any case.",
    )
    deny = ways.add_parser(
        "deny",
        help="refuse a querier",
        description="Refuse a querier, also one that was approved before. What was answered cannot be taken "
        "back.",
    )
    for each in (approve, deny):
        each.add_argument("querier", metavar="QUERIER", help="name or id from the list, or a .pub file")
        option(each, "--sum ROUND", "encrypted sum that the querier asks for: its round, or contract digest")
    purpose = "the purpose, as the querier states it"
    option(approve, "--purpose TEXT", f"{purpose} (default: the one that waits)")
    flag(approve, "--all", "approve all purposes of the querier that wait")
    option(deny, "--purpose TEXT", f"{purpose} (default: every purpose)")
    option(approve, "--rows N", "number of rows that may be answered from now on", shared.whole)
    option(approve, "--until DATE", "last day on which it holds, as 2027-01-31, in universal time")
    for each, run in ((listed, run_list), (approve, run_approve), (deny, run_deny)):
        common.add_site_folder(each)
        common.ends(each, run, approve=run is run_approve)


def run_list(args: argparse.Namespace) -> int:
    """Read, tell."""
    site = common.site_of(args)
    entries = site.approvals().entries()
    waiting = sum(entry.asked > 0 for entry in entries)
    words = [f"site {site.settings.name}: {count_of(waiting, 'request')} waiting"]
    words += [_in_words(entry) for entry in entries]
    names = [entry.querier.name for entry in {entry.querier.public: entry for entry in entries}.values()]
    words += [
        f"several keys have the name {name}: decide by id"
        for name in sorted(set(names))
        if names.count(name) > 1
    ]
    words += [COMPARE] * (waiting > 0)
    told = {"site": site.settings.name, "approval": site.settings.approval, "waiting": waiting}
    sums, lines = _sums(site)
    told |= {"approvals": [entry.plain for entry in entries], "sums": sums}
    show(told, words + lines, as_json=args.json)
    return 0


def _sums(site: Site) -> tuple[list[dict[str, Any]], list[str]]:
    """Encrypted sums that were asked for, with what each would spend."""
    from onefold.federated.flower.summing import known_sums

    told, words = [], []
    for entry, summed in known_sums(site.folder):
        about: dict[str, Any] = entry.plain
        words += ["", _asked_sum(entry)]
        if summed is None:
            words.append("its contract is not here any more")
        else:
            contract = summed.total.contract
            about |= {"contract": contract.digest, "promise": summed.total.guarantee.to_dict()}
            about |= {"keys": {name: key.fingerprint for name, key in contract.keys.items()}}
            words += _sum_in_words(summed, site) if entry.asked else []
        told.append(about)
    if any(entry["asked"] for entry in told):
        words += ["", f"{COMPARE} The same holds for the digest of a contract."]
    return told, words


KEY_STATES = {
    "own": "this site's own",
    "known": "known here",
    "new": "NEW here: whoever has it can read; compare it by another way than through the server",
}


def _keys_in_words(summed: Any, site: Site) -> list[str]:
    """The keys that decide who can read, for people to compare."""
    from onefold.federated.flower.summing import known_keys

    contract = summed.total.contract
    states = known_keys(site.folder).states(contract)
    return [
        f"key of {name}: fingerprint {key.fingerprint}, {KEY_STATES[states[name]]}"
        for name, key in contract.keys.items()
    ]


def _sum_in_words(summed: Any, site: Site) -> list[str]:
    """What a data owner should know before this site takes part."""
    contract = summed.total.contract
    margin = contract.missing_sites + contract.colluding_sites
    columns = ", ".join(field.name for field in summed.schema.fields)
    return [
        f"{summed.what} of the columns {columns}: {contract.length} numbers, summed over "
        f"{', '.join(contract.sites)}; at least {contract.least_sites} of them are in the sum, and the noise "
        f"is enough if {margin} of {len(contract.sites)} add none",
        f"key holders, {contract.threshold} of whom open it: {', '.join(h.name for h in contract.holders)}",
        *_keys_in_words(summed, site),
        *(["two rounds: approving the first covers the second, which follows from it"] * summed.is_first),
        "What this site spends by taking part, which is entered in its ledger:",
        *shared.promise_in_words(contract.guarantee),
    ]


def _asked_sum(entry: Approval) -> str:
    return f"{entry.querier.name} (id {entry.querier.id}) {_decision(entry)}: {entry.purpose}"


def _decision(entry: Approval) -> str:
    return "WAITS" if entry.asked else str(entry.decision.value)


def run_approve(args: argparse.Namespace) -> int:
    """Approve, tell."""
    from onefold.federated.access.approvals import end_of_day

    site, until = common.site_of(args), None if args.until is None else end_of_day(args.until)
    mode = site.settings.approval
    if args.sum is not None:
        return _decide_sum(site, args, until)
    limits = {"purpose": args.purpose, "rows": args.rows, "until": until}
    made = site.approvals().approve(args.querier, mode, **limits, every=args.all)
    if mode == "anyone":
        say(f"this site answers anyone: {START}", args.json)
    return _tell_decided(site, made, list(map(_in_words, made)), args.json)


def run_deny(args: argparse.Namespace) -> int:
    """Refuse, tell."""
    site = common.site_of(args)
    if args.sum is not None:
        return _decide_sum(site, args, None)
    made = site.approvals().deny(args.querier, site.settings.approval, purpose=args.purpose)
    if site.settings.approval == "anyone":
        say(f"this site answers anyone, also the same rows without a signature: {START}", args.json)
    return _tell_decided(site, made, list(map(_in_words, made)), args.json)


def _decide_sum(site: Site, args: argparse.Namespace, until: int | None) -> int:
    from onefold.federated.flower.summing import decide_sum, known_sums

    common.refuse(args, ("purpose", "rows"), "does not go with --sum: the contract says all")
    made = decide_sum(site.folder, args.querier, args.sum, approve=args.approve, until=until)
    words = [_asked_sum(entry) for entry in made]
    known = {(entry.querier.public, entry.purpose): summed for entry, summed in known_sums(site.folder)}
    for entry in made:
        summed = known.get((entry.querier.public, entry.purpose))
        words += [] if summed is None else _keys_in_words(summed, site)
    return _tell_decided(site, made, words, args.json)


def _tell_decided(site: Site, made: tuple[Approval, ...], words: list[str], as_json: bool) -> int:
    told = {"site": site.settings.name, "decided": [entry.plain for entry in made]}
    show(told, words, as_json=as_json)
    return 0


def _in_words(entry: Approval) -> str:
    what = "every purpose" if entry.purpose is None else f"purpose {entry.purpose!r}"
    parts = [f"{entry.querier.name} (id {entry.querier.id}) {_decision(entry)}, {what}"]
    if entry.asked:
        stated = f" for {entry.stated!r}" if entry.purpose is None and entry.stated else ""
        parts.append(f"asks about {count_of(entry.asked, 'row')} now{stated}")
    parts.append(f"{count_of(entry.answered, 'row')} answered so far")
    if entry.left is not None:
        parts.append(f"{count_of(entry.left, 'row')} left")
    if entry.until is not None:
        parts.append(f"until {datetime.fromtimestamp(entry.until, UTC).date().isoformat()}")
    return "; ".join(parts)


# --- log --------------------------------------------------------------------------------------------------


def add_log(parts: Any) -> None:
    """Declare ``log``."""
    parser = parts.add_parser(
        "log",
        help="export a site's log of decisions and answers",
        description="The log of a site: every decision about a querier, every query that was answered, and "
        "every model and sum that left, each line with the sum of the line before.",
    )
    ways = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    export = ways.add_parser(
        "export",
        help="check the log and write it for an auditor",
        description="Check the log of a site, the chain of its lines and the signatures of queriers in it, "
        "and write it as JSON or as a page to read and to print. A log that was changed is not exported: "
        "exit code 2. Note the number of entries and the last sum elsewhere, for --since.",
    )
    common.add_site_folder(export)
    option(export, "--json FILE", "JSON file to write")
    option(export, "--html FILE", "page to write: one file that prints well")
    option(export, "--since N:SUM", "entries and last sum noted earlier, which the log must still have")
    flag(export, "--quiet", "print nothing but errors")
    export.set_defaults(run=run_export)


def run_export(args: argparse.Namespace) -> int:
    """Check, write, tell."""
    from onefold.federated.flower.admission import exported_log

    if args.json is None and args.html is None:
        raise InvalidInputError("say what to write: --json FILE, --html FILE or both")
    for path in (args.json, args.html):
        if path is not None:
            check_writable(path)
    found = exported_log(common.site_of(args).folder, None if args.since is None else _since(args.since))
    if args.json == "-":
        print_json(found)
    elif args.json is not None:
        with output_file(args.json) as file:
            file.write(json.dumps(found, indent=1, allow_nan=False).encode() + b"\n")
    if args.html is not None:
        from onefold.report import site_log_page

        with output_file(args.html) as file:
            file.write(site_log_page(found).encode())
    say(f"log of {found['site']} intact: {found['count']}:{found['head']}", args.quiet)
    say(
        f"{count_of(found['signatures'], 'signature')} checked, {found['unsigned']} answers without one",
        args.quiet,
    )
    return 0


def _since(text: str) -> tuple[int, str]:
    number, colon, total = text.partition(":")
    if not colon or not number.isdecimal() or len(number) > 15:
        raise InvalidInputError("--since must be the number of entries, a colon and the last sum")
    return int(number), total
