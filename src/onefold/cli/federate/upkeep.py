"""What changes after a site was fitted: ``onefold federate site update``, ``site forget``, ``site status``.

New rows arrive and persons ask to be erased. Both commands make the model or the moments anew by the options
of the last fit, and say what that costs before anything is drawn or changed.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import count_of, say, show
from onefold.cli.federate import common, sources
from onefold.cli.federate.site import fit
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.flower import Site
    from onefold.privacy import Guarantee

RAW_CHANGES = (
    "Nothing is spent: there is no noise, and no guarantee. The model changes, and the server is told the "
    "digest and the classes of the new one. Whoever compares answers from before and after may learn "
    "something about the rows that make the difference."
)
RAW_SUMS_CHANGE = "Nothing is spent: there is no noise, and no guarantee. The sums that leave change."
SUMS_DIFFER = (
    "THE SERVER HAS THE PLAIN SUMS OF BEFORE and gets the new ones: their difference is the exact sum over "
    "the rows that came or went, and for a single row that row itself."
)
ADDS_UP = (
    "What both give away adds up for every {unit} that was in an earlier release and is in this one: that is "
    "what the ledger counts. For one that is in this release alone this release's epsilon is all, but the "
    "ledger does not tell them apart."
)
STAYS_RELEASED = (
    "What was released with noise before is not undone: whoever has it keeps it, and it stays covered by its "
    "guarantee."
)
MADE_WITHOUT = "The new release was made without the rows of this person."
MADE_WITH = "The release that is there was made with the rows of this person, and goes on to be used."
FROM_NOW_ON = "From now on every fit from this folder leaves the rows of this person out."
NO_MODEL = "This site has no model: nothing was fitted anew."
SUMS_TOO = (
    "So does every message for an encrypted sum that this site makes from now on. A message that was made "
    "before stays as it is, and is sent again if the same round asks again."
)
YES = "agree to the cost that is said (default: asked for on a terminal)"
MOVED = "encoder that is elsewhere than at the last fit, of a column"
EXACT = (
    "The model is, to the last bit, the one that a fit without this person's rows gives on this machine with "
    "this version of onefold."
)
EXACT_SUMS = "So are its sums, and the scores that the server makes of them."
EXACT_NUMBERS = (
    "The sums that leave are, to the last bit, those that a fit without this person's rows gives, and so is "
    "the sum that the server predicts from, once it has them."
)
NOT_TOUCHED = (
    "Not touched: your own tables and backups, answers that were given before, and copies that others made. "
    "The folder keeps a mark of the id under a secret of its own, by which later fits know the person's "
    "rows; whoever has the whole folder can test ids against it."
)
SERVER_COPY = "The server replaces its copy of the model when the site is connected next."
NOT_THERE = (
    "no row of this site's tables is about this person; nothing was changed. Check the id. If you took the "
    "rows out of the table already, run onefold federate site update; --keep-release leaves the person out "
    "of later releases and spends nothing"
)
NO_PERSON = (
    "the rows of this site do not say whom they are about, so no person can be found in them: take the rows "
    "out of the table and run onefold federate site update, which is as exact"
)


# --- update -----------------------------------------------------------------------------------------------


def add_update(parts: Any) -> None:
    """Declare ``site update``."""
    parser = parts.add_parser(
        "site update",
        help="fit a site anew: rows have come or changed",
        description="Fit the site's model, or release its moments, anew by the options of the last fit: to "
        "the tables of that fit and to DATA, all of them read as they are now. What it costs is said first. "
        "The new model takes the place of the old one in one step, a running site connects again by itself, "
        "and the server takes the new model.",
        epilog="Rows of persons who were forgotten are left out. A table called update, forget or status is "
        "named ./update and so on.",
    )
    parser.add_argument("table", nargs="?", metavar="DATA", help=f"table of new rows: {shared.TABLES}")
    common.add_site_folder(parser)
    option(parser, "--data FILE", "the same as DATA")
    flag(parser, "--replace", "fit to DATA alone, instead of the tables of the last fit")
    shared.add_encoders(parser, MOVED)
    flag(parser, "--yes", YES)
    common.ends(parser, run_update)


def run_update(args: argparse.Namespace) -> int:
    """Fit anew, once the cost was said."""
    data = common.table_of(args)
    if args.replace and data is None:
        raise InvalidInputError("--replace needs DATA: the table that takes the place of the others")
    site = common.site_of(args)
    before = _rows(site)
    again = sources.like_before(site, data, instead=args.replace, encoders=args.encoders)
    words = _fit_again(site, again, args, before, lambda _: None)
    _note(site, "updated", model=site.profile.model_digest)
    told = {"site": site.settings.name, "rows_before": before, "rows": _rows(site)}
    show(told | _kind(site), [*words, "Done."], as_json=args.json)
    return 0


# --- forget -----------------------------------------------------------------------------------------------


def add_forget(parts: Any) -> None:
    """Declare ``site forget``."""
    parser = parts.add_parser(
        "site forget",
        help="forget a person: fit a site anew without the person's rows",
        description="Fit the site's model, or release its moments, anew without the rows of one person, and "
        "leave them out of every later fit. It is exact for a model without noise. What was released with "
        "noise cannot be taken back, and a new release spends its epsilon.",
        epilog="Your table is not changed. The log notes that somebody was forgotten and when, but not who.",
    )
    common.add_site_folder(parser)
    named = parser.add_mutually_exclusive_group()
    option(named, "--person ID", "id of the person, which stays in your shell's history (default: asked for)")
    option(named, "--person-file FILE", "file whose first line is the id of the person; - for standard input")
    flag(parser, "--keep-release", "with noise: spend nothing, and leave the person out of later releases")
    option(parser, "--data FILE", "whole table as it is now, instead of those of the last fit")
    shared.add_encoders(parser, MOVED)
    flag(parser, "--yes", YES)
    common.ends(parser, run_forget)


def run_forget(args: argparse.Namespace) -> int:
    """Enter the person in the list and fit anew, or do nothing at all."""
    from onefold.federated.flower.keeping import find_profile

    site = common.site_of(args)
    if find_profile(site.folder) is None:
        return _forget_without_model(site, args)
    before, in_force = _rows(site), site.profile.model_digest
    whole: dict[str, Any] = {"instead": args.data is not None, "name_it": "with --data"}
    whole["reads"] = not args.keep_release
    again = sources.like_before(site, args.data, encoders=args.encoders, **whole)
    noisy, named = again.epsilon is not None, again.schema is not None and again.schema.person is not None
    if not (named or again.person is not None):
        raise InvalidInputError(NO_PERSON)
    if args.keep_release and not noisy:
        raise InvalidInputError("--keep-release is for a fit with noise: the model of this site has none")
    person = _person(args)
    forgotten = site.forgotten
    is_new = forgotten.add(person)
    words: list[str] = []

    def look(noise: Guarantee | None) -> None:
        if forgotten.has_met(person):
            return
        if noise is not None:
            raise InvalidInputError(NOT_THERE)
        say("No row of the tables is about this person: check the id.", quiet=False)

    if not args.keep_release:
        try:
            words = _fit_again(site, again, args, before, look)
        except BaseException:
            if is_new and site.profile.model_digest == in_force:  # otherwise it is done
                forgotten.discard(person)
            raise
    _note(site, "person-forgotten", fitted_anew=not args.keep_release)
    if noisy:
        words += [MADE_WITH if args.keep_release else MADE_WITHOUT, STAYS_RELEASED]
    else:
        exact = [EXACT_NUMBERS] if site.predicts_numbers else [EXACT]
        words += [*exact, *([EXACT_SUMS] if site.sends_plain_sums and not site.predicts_numbers else [])]
    if site.model_may_leave:
        words.append(SERVER_COPY)
    told = {"site": site.settings.name, "exact": not noisy, "fitted_anew": not args.keep_release}
    found = None if args.keep_release else forgotten.has_met(person)
    told |= {"found": found, "forgotten": len(forgotten), "rows_before": before, "rows": _rows(site)}
    show(told | _kind(site), [*words, *_from_now_on(site), NOT_TOUCHED], as_json=args.json)
    return 0


def _forget_without_model(site: Site, args: argparse.Namespace) -> int:
    """Enter the person in the list: there is nothing to fit anew."""
    if args.keep_release or args.data is not None:
        raise InvalidInputError("--keep-release and --data are for a site with a model: this one has none")
    site.forget(_person(args))
    _note(site, "person-forgotten", fitted_anew=False)
    told = {"site": site.settings.name, "fitted_anew": False, "forgotten": len(site.forgotten)}
    show(told, [NO_MODEL, *_from_now_on(site), NOT_TOUCHED], as_json=args.json)
    return 0


def _from_now_on(site: Site) -> list[str]:
    return [FROM_NOW_ON, *([SUMS_TOO] if site.settings.takes_part_in_sums else [])]


def _person(args: argparse.Namespace) -> str:
    """The id of the person, from wherever it is to come; it is never shown."""
    if args.person is not None:
        return str(args.person)
    if args.person_file is not None:
        if args.person_file == "-":
            return sys.stdin.readline().strip("\r\n")
        try:
            return Path(args.person_file).read_text(encoding="utf-8-sig").split("\n")[0].rstrip("\r")
        except UnicodeDecodeError:
            raise InvalidInputError(f"{args.person_file}: not a text in UTF-8") from None
    if not sys.stdin.isatty():
        raise InvalidInputError("whom to forget? Give --person-file FILE (- for standard input)")
    return getpass.getpass("id of the person (it is not shown): ")


# --- status -----------------------------------------------------------------------------------------------


def add_status(parts: Any) -> None:
    """Declare ``site status``."""
    parser = parts.add_parser(
        "site status",
        help="show what is known at a site: rows, ledger, forgotten persons",
        description="Show what a site's own folder knows, for its data owner: rows of the last fit, what the "
        "ledger has spent, and how many persons were forgotten. None of it is sent to anybody.",
    )
    common.add_site_folder(parser)
    common.ends(parser, run_status)


def run_status(args: argparse.Namespace) -> int:
    """Tell what the folder knows."""
    from onefold.federated.flower.keeping import find_profile
    from onefold.privacy.ledger import Ledger

    site = common.site_of(args)
    name, profile = site.settings.name, find_profile(site.folder)
    spent = Ledger.load(site.folder.ledger).spent if site.folder.ledger.is_file() else None
    rows, kind, words = None, {}, [f"site {name}: no model"]
    if profile is not None:
        rows, kind = _rows(site), _kind(site)
        predicts = "numbers to predict" if site.predicts_numbers else f"{len(profile.classes)} classes"
        words = [f"site {name}: {predicts}, {profile.n_features} features"]
        words.append("rows of the last fit: " + ("not known" if rows is None else str(rows)))
    words.append("ledger: " + ("no fit with noise was counted" if spent is None else f"spent {spent}"))
    words.append(f"forgotten: {count_of(len(site.forgotten), 'person')}")
    told: dict[str, Any] = {"site": name, "rows": rows, "spent": spent, "forgotten": len(site.forgotten)}
    show(told | kind, words, as_json=args.json)
    return 0


# --- backup -----------------------------------------------------------------------------------------------


def add_backup(parts: Any) -> None:
    """Declare ``backup``."""
    parser = parts.add_parser(
        "backup",
        help="copy what a site or a server has decided, counted and noted",
        description="Copy the store of a site or of a server as it is at one moment, also while it runs: who "
        "takes part or may ask, what was counted, who was forgotten, the log. Copying the file of a running "
        "site or server by other means is no backup. Keys, certificates, settings, models and the ledger are "
        "files of their own. To restore, stop everything and put the copy in the place of state/state.db.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="folder of the site or of the server")
    parser.add_argument("file", metavar="FILE", help="file to write, which must not be there")
    parser.set_defaults(run=run_backup)


def run_backup(args: argparse.Namespace) -> int:
    """Copy, tell."""
    from onefold.federated.flower.folders import ServerFolder, SiteFolder

    site = SiteFolder(Path(args.folder))
    folder = site if site.settings_file.is_file() else ServerFolder.find(args.folder)
    folder.store.backup(args.file)
    say(f"{args.file}: the store of {folder.root} as it is now", False)
    return 0


# --- what they share ----------------------------------------------------------------------------------------


def _rows(site: Site) -> int | None:
    found = site.recipe.get("rows")
    return found if isinstance(found, int) else None


def _kind(site: Site) -> dict[str, Any]:
    return {"sends_moments": site.sends_moments, "sends_plain_sums": site.sends_plain_sums}


def _note(site: Site, event: str, **facts: Any) -> None:
    from onefold.federated.access.log import SiteEvent
    from onefold.federated.flower.admission import note_sent

    note_sent(site.folder, SiteEvent(event), **facts)


def _fit_again(
    site: Site,
    again: argparse.Namespace,
    args: argparse.Namespace,
    before: int | None,
    look: Callable[[Guarantee | None], None],
) -> list[str]:
    """Fit by the options of the last fit, with the cost said and agreed to first; what there is to add."""
    again.json = args.json
    ledgers = {} if again.epsilon is None or again.ledger is None else {Path(again.ledger).resolve(): None}
    if again.epsilon is not None and site.folder.ledger.is_file():
        ledgers[site.folder.ledger.resolve()] = None
        # It was counted in the folder's own ledger, and goes on there.
        again.ledger = again.ledger or str(site.folder.ledger)
    again.confirm = partial(_confirm, site, args, before, list(ledgers), look)
    fit(site, again)
    if again.epsilon is None:
        return []
    from onefold.privacy import Guarantee

    return ["", *shared.promise_in_words(Guarantee.from_dict(site.profile.guarantee or {}))]


def _confirm(
    site: Site,
    args: argparse.Namespace,
    before: int | None,
    ledgers: list[Path],
    look: Callable[[Guarantee | None], None],
    promise: Guarantee | None,
    n_rows: int,
) -> None:
    """Say what the fit costs, and ask if it costs something."""
    look(promise)
    words = [f"Rows: {'not known' if before is None else before} before, {n_rows} now (told to nobody)."]
    costs = promise is not None or site.sends_plain_sums
    if promise is None:
        changes = RAW_SUMS_CHANGE if site.predicts_numbers else RAW_CHANGES
        words += [changes, *([SUMS_DIFFER] if site.sends_plain_sums else [])]
    else:
        words += _cost(promise, ledgers)
    for line in words:
        say(line, quiet=False)
    if not costs or args.yes:
        return
    if not sys.stdin.isatty() or args.json:
        raise InvalidInputError("nothing was changed: give --yes to agree to this cost")
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInputError("nothing was changed")


def _cost(promise: Guarantee, ledgers: list[Path]) -> list[str]:
    """What a release with noise spends, and what will have been spent then."""
    from onefold.privacy.ledger import Ledger

    if not promise.holds:
        return ["COST: this release promises nothing (VOID), so no ledger counts it."]
    words = []
    for path in ledgers:
        now = Ledger.load(path)
        kind: dict[str, Any] = {"unit": now.unit, "neighbours": now.neighbours}
        alone = Ledger(**kind)
        alone.spend_guarantee(promise, "the next release")
        after = Ledger(now.limit_epsilon, now.limit_delta, how=now.how, **kind)
        for event in (*now.events, *alone.events):  # refused here if the last one exceeds the limit
            after.spend(event)
        limit = "no limit" if now.limit_epsilon is None else f"limit {now.limit_epsilon:g}"
        words += [
            f"COST: this release spends {alone.spent}.",
            f"{path.name} counts {now.spent} before it and {after.spent} after it, by {now.how} composition "
            f"({limit}).",
            ADDS_UP.format(unit=now.unit),
        ]
    return [*(words or ["COST:", *shared.promise_in_words(promise)]), STAYS_RELEASED]
