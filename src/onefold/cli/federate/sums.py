"""``onefold federate keys`` and ``sum``: encrypted sums of tables among the sites of a running federation."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.files import make_folder
from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import Parser, busy, count_of, say, show
from onefold.cli.federate import common
from onefold.cli.federate.approvals import signing_key
from onefold.cli.outputs import (
    QUALITY,
    check_private_table,
    check_writable,
    write_beside,
    write_private_model,
    write_private_table,
)
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated import OpenedSum, PublicHolder, SchemaSum
    from onefold.federated.flower import SumRound
    from onefold.tables import Schema

CONTRACT, KEY, PUBLIC = ".contract", ".key", ".public"


def whole_from_zero(text: str) -> int:
    """Read a whole number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number from 0 on")
    return int(text)


# --- keys -------------------------------------------------------------------------------------------------


def add_keys(parts: Any) -> None:
    """Declare ``keys`` and its part."""
    parser = parts.add_parser(
        "keys",
        help="make the key of one who opens encrypted sums",
        description="Make the keys of those who open encrypted sums (onefold federate sum). Each holder "
        "makes its own; their public files are for onefold federate sum new.",
    )
    kinds = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    new = kinds.add_parser(
        "new",
        help="make the key of one holder, or of a site that signs",
        description="Make the key of one holder, or of a site that signs: NAME.key is secret and stays, "
        "NAME.public goes to whoever writes the contract. Compare the printed fingerprint by another way.",
    )
    new.add_argument("name", metavar="NAME", help="name of the holder or site")
    option(new, "--folder DIR", "folder to write both files to", default=".")
    common.ends(new, run_new_key)


def run_new_key(args: argparse.Namespace) -> int:
    """Write both parts of a key."""
    from onefold.federated import HolderKey

    key, folder = HolderKey.new(args.name), Path(args.folder)
    secret, public = folder / f"{key.name}{KEY}", folder / f"{key.name}{PUBLIC}"
    if secret.exists():
        raise InvalidInputError(
            f"{secret}: is there already; sums that were sent to it need it: choose another name or folder"
        )
    make_folder(folder)
    key.public.save(public, public=True)
    key.save(secret)
    mark = key.public.fingerprint
    words = [
        f"key of {key.name} written to {secret}: it is secret and stays here; keep a copy in a safe place",
        f"public part written to {public}, fingerprint {mark}",
    ]
    result = {"name": key.name, "key": str(secret), "public": str(public), "fingerprint": mark}
    show(result, words, as_json=args.json)
    return 0


# --- the contract -----------------------------------------------------------------------------------------


def add_sum(parts: Any) -> None:
    """Declare ``sum`` and its parts."""
    parser = parts.add_parser(
        "sum",
        help="sum tables of several sites encrypted, so that nobody sees a single site's numbers",
        description="An encrypted sum of tables among the sites of a running federation: new writes the "
        "contract, show says what it says, and run has the sites take all steps and opens the sum.",
    )
    steps = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    _add_new(steps)
    _add_show(steps)
    _add_run(steps)


def _add_new(steps: Any) -> None:
    parser = steps.add_parser(
        "new",
        help="write the contract of a round",
        description="Write the contract of a round from the schema and public numbers alone; no row is read. "
        "Compare its digest, and the fingerprints of the keys, with all sites and holders by another way.",
    )
    parser.add_argument("name", metavar="ROUND", help="name of the round, never used before")
    option(parser, "--schema FILE", "schema of the tables, declared without looking at rows", required=True)
    holders = f"public files ({PUBLIC}) of the key holders, of onefold federate keys new"
    option(parser, "--holders FILE", holders, required=True, nargs="+")
    number = "number of holders that open a sum together"
    option(parser, "--threshold T", number, shared.whole, required=True)
    most = "holders that may collude with the server (default: the most that T allows)"
    option(parser, "--colluding-holders C", most, whole_from_zero)
    sites = f"names of the sites, or their public files ({PUBLIC}) if they sign what they send"
    option(parser, "--sites SITE", sites, required=True, nargs="+")
    what = "what is summed: moments for a model, or tables of counts for synthetic rows"
    option(parser, "--what", what, default="moments", choices=("moments", "tables"))
    rounds = "rounds of moments: of 2 the first finds a private centre, with its own noise"
    option(parser, "--rounds", rounds, int, 1, choices=(1, 2))
    missing = "number of sites without which the sum is still opened"
    option(parser, "--missing M", missing, whole_from_zero, 0)
    colluding = "further sites that may add no noise, or look at the sum together"
    option(parser, "--colluding K", colluding, whole_from_zero, 1)
    option(parser, "--out FILE", f"file to write (default: ROUND{CONTRACT})")
    group = parser.add_argument_group("privacy")
    option(group, "--epsilon E", "epsilon of the guarantee of the sum", shared.positive, required=True)
    option(
        group, "--delta D", "delta of the guarantee (default: 1e-5, or less for many rows)", shared.fraction
    )
    unit = "what epsilon protects (default: person where the schema has one)"
    option(group, "--unit", unit, choices=("record", "person"))
    common.ends(parser, run_new)


def run_new(args: argparse.Namespace) -> int:
    """Write the contract."""
    from onefold.federated import PublicHolder, SchemaSum, SumParties

    out = f"{args.name}{CONTRACT}" if args.out is None else args.out
    check_writable(out, args.schema, *args.holders)
    if Path(out).exists():
        raise InvalidInputError(f"{out}: is there already; a round has one contract: choose another name")
    sites, site_keys = _sites(args.sites)
    parties = SumParties(
        sites,
        tuple(PublicHolder.load(path) for path in args.holders),
        args.threshold,
        args.missing,
        args.colluding,
        args.colluding_holders,
        site_keys,
    )
    schema = _schema(args.schema, args.unit)
    summed = SchemaSum(args.name, parties, schema, args.what, args.epsilon, args.delta, args.rounds)
    summed.save(out, public=True)
    result, words = _described(summed)
    show({"file": out, **result}, [f"contract written to {out}", *words], as_json=args.json)
    return 0


def _sites(words: list[str]) -> tuple[tuple[str, ...], tuple[PublicHolder, ...]]:
    """Names of the sites, and their keys if they have any."""
    from onefold.federated import PublicHolder

    files = [word.endswith(PUBLIC) for word in words]
    if not any(files):
        return tuple(words), ()
    if not all(files):
        raise InvalidInputError(f"--sites: give the public files ({PUBLIC}) of all sites, or names only")
    known = [PublicHolder.load(word) for word in words]
    return tuple(each.name for each in known), tuple(known)


def _schema(path: str, unit: str | None) -> Schema:
    from onefold.tables import Schema

    schema = Schema.load(path)
    if unit == "person" and schema.person is None:
        raise InvalidInputError(f'{path}: --unit person needs a column with "onefold:role": "person"')
    return schema.without_person() if unit == "record" else schema


def _add_show(steps: Any) -> None:
    parser = steps.add_parser(
        "show",
        help="say what a contract says, before anything is done",
        description="Check a contract and say what it says: who takes part, its digest, the fingerprints of "
        "the holders' keys, and what will be promised. Nothing is read or sent.",
    )
    parser.add_argument("contract", metavar="CONTRACT", help="contract of onefold federate sum new")
    common.ends(parser, run_show)


def run_show(args: argparse.Namespace) -> int:
    """Describe a contract."""
    from onefold.federated import SchemaSum

    result, words = _described(SchemaSum.load(args.contract))
    show(result, words, as_json=args.json)
    return 0


def _described(summed: SchemaSum) -> tuple[dict[str, Any], list[str]]:
    contract = summed.total.contract
    promise = contract.guarantee
    keys = {name: key.fingerprint for name, key in contract.keys.items()}
    result = {
        "round": contract.round_id,
        "digest": contract.digest,
        "what": summed.what,
        "sites": list(contract.sites),
        "least_sites": contract.least_sites,
        "holders": [holder.name for holder in contract.holders],
        "keys": keys,
        "threshold": contract.threshold,
        "numbers": contract.length,
        "schema": summed.schema.digest,
        "holds": promise.holds,
        "promise": promise.to_dict(),
    }
    words = [
        f"round {contract.round_id}: {summed.what} of {', '.join(contract.sites)}, at least "
        f"{contract.least_sites} of them; {contract.length} numbers per site",
        f"digest {contract.digest}: all participants compare it",
        *(f"key of {name}: fingerprint {mark}" for name, mark in keys.items()),
        *contract.of_holders,
        *_which_round(summed),
        "What will be promised about the opened sum:",
        *shared.promise_in_words(promise),
    ]
    return result, words


def _which_round(summed: SchemaSum) -> list[str]:
    if summed.is_first:
        return [
            "first of two rounds, for counts and a private centre; its sum gives the contract of the second"
        ]
    if summed.first is None:
        return []
    before = summed.first.total.contract
    return [f"second of two rounds, after {before.round_id} of contract {before.digest}"]


# --- a round ----------------------------------------------------------------------------------------------


def _add_run(steps: Any) -> None:
    parser = steps.add_parser(
        "run",
        help="have the sites of a running federation take all steps of a round, and open the sum",
        description="Have the sites of a running federation contribute, the key holders among them sign and "
        "answer, and open the sum: a model for onefold predict, or a synthetic table. Each site waits for "
        "its data owner's approval. All that comes back is written to the folder of the round first: the "
        "command can be stopped and run again, and goes on from there.",
        epilog="A site takes part that was started with --sum-table, or with --sum-key as key holder of its "
        "name; its data owner decides with onefold federate approvals. Exit code 1: sites or key holders "
        "are missing.",
    )
    option(parser, "--contract FILE", "contract of the round, of onefold federate sum new", required=True)
    option(parser, "--share DIR", "folder of the round's messages (default: that of the contract)")
    option(parser, "--digest D", "refuse a contract of another digest than this (16 digits or more)", _digest)
    common.add_folder(parser)
    option(parser, "--out FILE", "model to write, or table: .csv, .npz or .parquet", required=True)
    option(parser, "--rows N", "rows of a synthetic table (default: the noisy number of rows)", shared.whole)
    flag(parser, "--anyway", "use the second of two rounds although a site dropped out between them")
    option(parser, "--without SITE", "sites to leave out; fixed once a holder signs", default=[], nargs="+")
    common.add_querier(parser)
    option(parser, "--wait S", "seconds to go on asking sites that are not ready", shared.not_negative, 0.0)
    option(parser, "--timeout S", "seconds that a site has for one step", shared.positive, 300.0)
    shared.ends(parser, run_round)


def _digest(text: str) -> str:
    digits = text.strip().lower()
    if not 16 <= len(digits) <= 64 or not set(digits) <= set("0123456789abcdef"):
        raise argparse.ArgumentTypeError("must be 16 to 64 hexadecimal digits of a contract's digest")
    return digits


def run_round(args: argparse.Namespace) -> int:
    """Drive the round, write what the sum is for, tell privacy first."""
    from onefold.federated.flower import SumRound

    summed, folder = checked_contract(args), common.federation_of(args).folder
    share = Path(args.contract).parent if args.share is None else Path(args.share)
    key = signing_key(args.querier, args.quiet)

    def round_of(what: SchemaSum) -> SumRound:
        say(_in_words(what), args.quiet)
        options = {"purpose": args.purpose, "timeout": args.timeout}
        return SumRound(folder, what, share, key, **options, say=lambda line: say(line, args.quiet))

    asked, without = round_of(summed), args.without
    if summed.is_first:
        asked = round_of(_second(asked, without, args.wait))
        without = [site for site in without if site in asked.summed.total.contract.sites]
    return _finish(args, asked.summed, asked.run(without, args.wait))


def checked_contract(args: argparse.Namespace) -> SchemaSum:
    """The sum of a contract, before anything is asked for; refused if its result could not be written."""
    from onefold.federated import SchemaSum

    summed = SchemaSum.load(args.contract)
    summed.schema.require_confirmed(args.contract)
    if args.digest is not None and not summed.total.contract.digest.startswith(args.digest):
        raise InvalidInputError(
            f"{args.contract}: this is not the contract of the digest that was given: somebody has "
            "exchanged it, or the digest is that of another round"
        )
    is_table = summed.what == "tables"
    if args.rows is not None and not is_table:
        raise InvalidInputError("--rows is for sums of tables; this one makes a model")
    (check_private_table if is_table else check_writable)(args.out, args.contract)
    return summed


def _in_words(summed: SchemaSum) -> str:
    """Which contract it is, and who can read: digest and fingerprints, for people to compare."""
    contract = summed.total.contract
    keys = ", ".join(f"{name} {key.fingerprint}" for name, key in contract.keys.items())
    return f"round {contract.round_id}, contract {contract.digest[:32]}, keys {keys}: the same for all?"


def _second(first: SumRound, without: list[str], wait: float) -> SchemaSum:
    """The second of two rounds, once the first is opened; its contract is kept beside that of the first."""
    from onefold.federated import SchemaSum

    contract = first.summed.total.contract
    path = first.share / f"{contract.round_id.removesuffix('-1')}-2{CONTRACT}"
    if not path.is_file():
        first.run(without, wait)
        first.summed.proceed(first.answers).save(path, public=True)
    found = SchemaSum.load(path)
    if found.first is None or found.first.total.contract.digest != contract.digest:
        raise InvalidInputError(f"{path}: this is not the second round of {contract.round_id}")
    return found


def _finish(args: argparse.Namespace, summed: SchemaSum, opened: OpenedSum) -> int:
    """Make of the sum what the contract says, write it, tell privacy first."""
    with busy("fitting", args.quiet):
        made: Any = summed.result(opened, args.anyway)
    promise = made.guarantee_
    written, words = (_finish_table if summed.what == "tables" else _finish_model)(args, made)
    result = {
        "sites": list(opened.sites),
        "checked": opened.checked,
        "contract": summed.total.contract.digest,
        **written,
        "holds": promise.holds,
        "promise": promise.to_dict(),
    }
    lines = [*shared.promise_in_words(promise), "", *_about(summed, opened), *words]
    show(result, lines, as_json=args.json, quiet=args.quiet)
    return 0


def _about(summed: SchemaSum, opened: OpenedSum) -> list[str]:
    contract = summed.total.contract
    left = [site for site in contract.sites if site not in opened.sites]
    words = [f"sum of {', '.join(opened.sites)}" + (f", without {', '.join(left)}" if left else "")]
    if not opened.checked:
        t, n = contract.threshold, len(contract.holders)
        more = "one more answer checks them" if n > t else "there are no others to check them by"
        words.append(f"exactly {t} holders answered: a wrong answer could not be found; {more}")
    return words


def _finish_model(args: argparse.Namespace, made: Any) -> tuple[dict[str, Any], list[str]]:
    guarantee = write_private_model(args.out, made)
    size = round(max(float(made.moments_.counts_.sum()), 0.0))
    counted = "persons" if made.guarantee_.unit == "person" else "rows"
    predicts = f"{len(made.classes_)} classes" if hasattr(made, "classes_") else "numbers to predict"
    words = [
        f"about {size} {counted} (with noise), {count_of(len(made.schema.features), 'feature')}, "
        f"{predicts}: fitted to private moments",
        f"model written to {args.out}, its guarantee to {guarantee}",
    ]
    return {"model": args.out, f"{counted}_about": size, "guarantee": guarantee}, words


def _finish_table(args: argparse.Namespace, made: Any) -> tuple[dict[str, Any], list[str]]:
    rows, quality = made.sample(args.rows), made.quality_
    n_rows = len(next(iter(rows.values())))
    guarantee = write_private_table(args.out, rows, made.guarantee_.to_dict(), made.schema)
    report = write_beside(args.out, QUALITY, quality.to_dict())
    words = [
        *str(quality).splitlines(),
        f"{n_rows} rows written to {args.out}, their guarantee to {guarantee}, their quality to {report}",
    ]
    return {"table": args.out, "rows": n_rows, "guarantee": guarantee, "quality": report}, words
