"""``onefold federate sum``: encrypted sums of tables, with files that anybody may carry.

Everything public of a round lies in one folder, that of its contract: messages of sites, signatures and
answers of key holders. It may be a share, the server's disk, or a place where attachments of mails are saved.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.files import make_folder, write_whole
from onefold._base.frames import join_frames, split_frames
from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option
from onefold.cli.console import Parser, busy, count_of, show
from onefold.cli.federate.keys import PUBLIC, whole_from
from onefold.cli.outputs import check_private_table, check_writable, write_private_model
from onefold.exceptions import InvalidInputError, MessageError

if TYPE_CHECKING:
    from onefold.federated import HolderKey, OpenedSum, PublicHolder, SchemaSum
    from onefold.federated.sums.round_files import RoundFiles
    from onefold.tables import Schema

CONTRACT = ".contract"
# Kinds of files, of onefold.federated.sums.round_files.
MESSAGE, SIGNED, ANSWER, KEPT, OFFERED = "sum", "signed", "answer", "messages", "offered"
FORGOTTEN = Path("state", "forgotten.json")  # of onefold.federated.flower.folders


# --- what the parts of a round share ----------------------------------------------------------------------


def add_sum(parts: Any) -> Any:
    """Declare ``sum`` and its parts but for ``run``, and return where that is declared."""
    parser = parts.add_parser(
        "sum",
        help="sum tables of several sites encrypted, so that nobody sees a single site's numbers",
        description="One round of an encrypted sum of tables: new writes the contract, every site runs "
        "contribute, every key holder sign and then answer, and anybody open. All files of the round are in "
        "the folder of the contract, and anybody may carry them: guarantees call whoever does the server. "
        "Among the sites of a running federation, run does all steps after new.",
    )
    steps = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    _add_new(steps)
    _add_show(steps)
    _add_contribute(steps)
    _add_add(steps)
    _add_sign(steps)
    _add_answer(steps)
    _add_open(steps)
    return steps


def add_round(parser: Any) -> None:
    """Which round, and where its files are."""
    option(parser, "--contract FILE", "contract of the round, of onefold federate sum new", required=True)
    what = "folder of all messages of the round (default: the folder of the contract)"
    option(parser, "--share DIR", what)
    agreed = "refuse another contract than the one of this digest, which sum show prints (16 digits or more)"
    option(parser, "--digest D", agreed, _digest)


def _digest(text: str) -> str:
    digits = text.strip().lower()
    if not 16 <= len(digits) <= 64 or not set(digits) <= set("0123456789abcdef"):
        raise argparse.ArgumentTypeError("must be 16 to 64 hexadecimal digits of a contract's digest")
    return digits


def _add_holder(parser: Any) -> None:
    option(parser, "--key FILE", "secret key of this holder", required=True)
    folder = "folder in which this holder remembers its rounds (default: the folder of the key)"
    option(parser, "--folder DIR", folder)


def round_of(args: argparse.Namespace) -> RoundFiles:
    """The round of a contract, and the folder of its files."""
    from onefold.federated import SchemaSum
    from onefold.federated.sums.round_files import RoundFiles

    summed = SchemaSum.load(args.contract)
    summed.schema.require_confirmed(args.contract)
    if args.digest is not None and not summed.total.contract.digest.startswith(args.digest):
        raise InvalidInputError(
            f"{args.contract}: this is not the contract of the digest that was given: somebody has "
            "exchanged it, or the digest is that of another round"
        )
    return RoundFiles(summed, Path(args.contract).parent if args.share is None else args.share)


# --- the contract -----------------------------------------------------------------------------------------


def _add_new(steps: Any) -> None:
    parser = steps.add_parser(
        "new",
        help="write the contract of a round",
        description="Write the contract of a round from the schema and public numbers alone; no row is read. "
        "Give it to all sites and holders, and compare its digest by another way.",
    )
    parser.add_argument("name", metavar="ROUND", help="name of the round, never used before")
    option(parser, "--schema FILE", "schema of the tables, declared without looking at rows", required=True)
    option(parser, "--holders FILE", "file of the key holders, of onefold federate keys", required=True)
    sites = f"names of the sites, or their public files ({PUBLIC}) if sites sign what they send"
    option(parser, "--sites SITE", sites, required=True, nargs="+")
    what = (
        "what is summed: moments, for a classifier, or a regression if the label of the schema is a number; "
        "or tables of counts, for synthetic rows"
    )
    option(parser, "--what", what, default="moments", choices=("moments", "tables"))
    rounds = (
        "rounds of moments: 1 about the declared middle, or 2, of which the first finds a private centre; "
        "each is charged for its own noise"
    )
    option(parser, "--rounds", rounds, int, 1, choices=(1, 2))
    missing = "number of sites without which the sum is still opened"
    option(parser, "--missing M", missing, whole_from(0), 0)
    colluding = (
        "number of further sites that may add no noise, or look at the sum together; 1 covers sites that "
        "look at it each by itself"
    )
    option(parser, "--colluding K", colluding, whole_from(0), 1)
    option(parser, "--out FILE", f"file to write (default: ROUND{CONTRACT})")
    group = parser.add_argument_group("privacy")
    option(group, "--epsilon E", "epsilon of the guarantee of the sum", shared.positive, required=True)
    delta = "delta of the guarantee (default: 1e-5, or less for schemas of many rows)"
    option(group, "--delta D", delta, shared.fraction)
    unit = "what epsilon protects: a record or a person (default: person where the schema has one)"
    option(group, "--unit", unit, choices=("record", "person"))
    shared.add_output_options(parser, quiet=False)
    parser.set_defaults(run=run_new)


def run_new(args: argparse.Namespace) -> int:
    """Write the contract."""
    from onefold.federated import HolderGroup, SchemaSum, SumParties

    out = f"{args.name}{CONTRACT}" if args.out is None else args.out
    check_writable(out, args.schema, args.holders)
    if Path(out).exists():
        raise InvalidInputError(f"{out}: is there already; a round has one contract: choose another name")
    group = HolderGroup.load(args.holders)
    sites, site_keys = _sites(args.sites)
    parties = SumParties(
        sites,
        group.holders,
        group.threshold,
        args.missing,
        args.colluding,
        group.colluding,
        site_keys,
        group.scheme,
    )
    schema = _schema(args.schema, args.unit)
    summed = SchemaSum(args.name, parties, schema, args.what, args.epsilon, args.delta, args.rounds)
    summed.save(out)
    result, words = _described(summed)
    show({"file": out, **result}, [f"contract written to {out}", *words], as_json=args.json)
    return 0


def _add_show(steps: Any) -> None:
    parser = steps.add_parser(
        "show",
        help="say what a contract says, before anything is done",
        description="Check a contract and say what it says: who takes part, its digest, the fingerprints of "
        "the holders' keys, and what will be promised. Nothing is read or sent.",
    )
    parser.add_argument("contract", metavar="CONTRACT", help="contract of onefold federate sum new")
    shared.add_output_options(parser, quiet=False)
    parser.set_defaults(run=run_show)


def run_show(args: argparse.Namespace) -> int:
    """Describe a contract."""
    from onefold.federated import SchemaSum

    result, words = _described(SchemaSum.load(args.contract))
    show(result, words, as_json=args.json)
    return 0


def _described(summed: SchemaSum) -> tuple[dict[str, Any], list[str]]:
    from onefold.federated import HolderGroup

    contract = summed.total.contract
    group = HolderGroup(contract.holders, contract.threshold, contract.colluding_holders, contract.scheme)
    promise = contract.guarantee
    keys = {name: key.fingerprint for name, key in contract.keys.items()}
    result = {
        "round": contract.round_id,
        "digest": contract.digest,
        "what": summed.what,
        "sites": list(contract.sites),
        "least_sites": contract.least_sites,
        "scheme": contract.scheme,
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
        *group.in_words[:3],
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
    from onefold.cli.contracts import without_person
    from onefold.tables import Schema

    schema = Schema.load(path)
    if unit == "person" and schema.person is None:
        raise InvalidInputError(f'{path}: --unit person needs a column with "onefold:role": "person"')
    return without_person(schema) if unit == "record" else schema


# --- a site -----------------------------------------------------------------------------------------------


def _add_contribute(steps: Any) -> None:
    parser = steps.add_parser(
        "contribute",
        help="a site: encrypt the numbers of a table to the key holders",
        description="Count a table as the contract says, add this site's share of the noise, and encrypt the "
        "result in parts to the key holders. The message is drawn once per round and kept in the folder of "
        "the site: the command gives the same one again, whatever the table is then.",
        epilog="Cells that the schema does not allow stop nothing: they are mapped by its rules. Rows "
        "without a declared label or person are left out.",
    )
    shared.add_data(parser)
    add_round(parser)
    option(parser, "--site NAME", "name of this site (default: the name of --key)")
    option(parser, "--folder DIR", "folder of the site, in which its messages are kept", required=True)
    option(parser, "--schema FILE", "refuse a contract that was made with another schema")
    shared.add_encoders(parser, "where the encoder of a column is, which is not part of the contract")
    option(parser, "--key FILE", "secret key of this site, if the contract has keys of sites")
    shared.add_ledger(parser)
    shared.add_output_options(parser)
    parser.set_defaults(run=run_contribute)


def run_contribute(args: argparse.Namespace) -> int:
    """Charge, draw, encrypt, and keep."""
    from onefold.federated import HolderKey
    from onefold.federated.forgotten import ForgottenPersons, check_named, without_forgotten
    from onefold.tables import read_table

    this = round_of(args)
    key = None if args.key is None else HolderKey.load(args.key)
    site = args.site if key is None else key.name
    if site is None or (args.site is not None and site != args.site):
        raise InvalidInputError("name this site with --site NAME, as in the contract and in its key")
    this.contract.place(site)
    if args.schema is not None:
        _check_schema(args.schema, this.summed.schema)
    folder = Path(args.folder)
    if folder.resolve() == this.share.resolve():
        raise InvalidInputError(
            "--folder is the folder of the round: whoever carries its files could delete the kept message, "
            "and a second one would cost again; name a folder of this site's own"
        )
    make_folder(folder)
    again = this.path(site, MESSAGE, folder).is_file()
    vector: Any = None  # the kept message needs none
    if not again:
        with busy(f"reading {args.data}", args.quiet):
            schema = this.summed.schema.with_encoders(shared.encoders_of(args))
            forgotten = ForgottenPersons(folder / FORGOTTEN)  # if it is a site of a federation
            check_named(forgotten, schema)
            table = read_table(args.data, schema=schema, private=True)
            vector = this.summed.vector(without_forgotten(forgotten, table, None, None, schema)[0])
    this.summed.check_first(site, folder)
    message = this.total.contribute(site, vector, folder, key=key, ledger=args.ledger)
    sent = this.path(site, MESSAGE)
    write_whole(sent, message, public=True)
    promise = this.total.guarantee
    result = {
        "message": str(sent),
        "bytes": len(message),
        "again": again,
        "contract": this.contract.digest,
        "holds": promise.holds,
        "promise": promise.to_dict(),
    }
    words = [
        this.in_words,
        *shared.promise_in_words(promise, "counted" if again else args.ledger),
        "",
        f"message of {site} written to {sent} ({len(message)} bytes); {_readable(this)}",
    ]
    if again:
        words.append(
            "It is the one that was made before in this round: nothing was read and nothing charged."
        )
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 0


def _readable(this: RoundFiles) -> str:
    if this.contract.scheme == "bfv":
        return (
            f"{this.holders[0]} could read it, and nobody else: it is for whoever adds up, not for the holder"
        )
    return "each holder can read its part, and nobody else any"


def _check_schema(path: str, agreed: Schema) -> None:
    from onefold.cli.contracts import without_person
    from onefold.tables import Schema
    from onefold.tables.schema_format import differing

    own = Schema.load(path)
    if agreed.person is None:
        own = without_person(own)
    if own.digest != agreed.digest:
        where = differing(own.field_digests, agreed.field_digests)
        raise InvalidInputError(
            f"{path}: the contract was made with another schema{f' ({where})' if where else ''}"
        )


# --- whoever carries the messages, where there is one key -------------------------------------------------


def _add_add(steps: Any) -> None:
    parser = steps.add_parser(
        "add",
        help="the server, where one holder has the only key: add up what the sites have sent",
        description="Add up the encrypted numbers of all sites for the holder of the only key (keys of "
        "--scheme bfv), which must not see the messages themselves. Nothing can be read here. The folder "
        "that is written goes to the holder. The total is made once per round and kept: the command gives "
        "the same one again.",
    )
    add_round(parser)
    option(
        parser, "--out DIR", "folder to write the total and the contract to, for the holder", required=True
    )
    option(parser, "--without SITE", "sites to leave out", default=[], nargs="+")
    shared.add_output_options(parser)
    parser.set_defaults(run=run_add)


def run_add(args: argparse.Namespace) -> int:
    """Add ciphertexts, and keep the total."""
    this = round_of(args)
    if this.contract.scheme != "bfv":
        raise InvalidInputError("several holders add up themselves: go on with onefold federate sum sign")
    folder = Path(args.out)
    if folder.resolve() == this.share.resolve():
        raise InvalidInputError("--out is the folder of the messages, which the holder must not see")
    sites, (holder,) = _there(this, args.without), this.holders
    with busy("adding", args.quiet):
        total = join_frames(this.routed(sites)[holder])
    make_folder(folder)
    path = this.path(holder, OFFERED, folder)
    write_whole(path, total, public=True)
    write_whole(folder / Path(args.contract).name, Path(args.contract).read_bytes(), public=True)
    result = {"total": str(path), "sites": sites, "bytes": len(total), "contract": this.contract.digest}
    words = [
        f"total of {', '.join(sites)} written to {path} ({len(total)} bytes), with the contract beside it",
        f"give {folder} to {holder}: onefold federate sum sign, then answer",
    ]
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 0


# --- a key holder -----------------------------------------------------------------------------------------


def _add_sign(steps: Any) -> None:
    parser = steps.add_parser(
        "sign",
        help="a key holder: check the sites' messages and sign the list of sites",
        description="Check the messages of all sites and sign the list of sites, once per round: another "
        "list is refused for ever. All holders must sign the same list, so sites that are missing are named.",
    )
    add_round(parser)
    _add_holder(parser)
    option(parser, "--without SITE", "sites to leave out, the same at all holders", default=[], nargs="+")
    shared.add_output_options(parser)
    parser.set_defaults(run=run_sign)


def run_sign(args: argparse.Namespace) -> int:
    """Check, sign, and keep what was signed."""
    from onefold.federated import SumHolder

    this = round_of(args)
    key, folder = _holder(args)
    holder = SumHolder(this.total, key, folder)
    envelopes = _offered(this, holder.name, args.without)
    for problem in holder.problems(envelopes).values():
        raise MessageError(f"{problem} (at all holders: --without SITE)")
    signature = holder.sign(envelopes)
    write_whole(this.path(holder.name, KEPT, folder), join_frames(envelopes))
    path = this.path(holder.name, SIGNED)
    write_whole(path, signature, public=True)
    sites = holder.sites(envelopes)
    result = {"signed": str(path), "sites": sites, "contract": this.contract.digest}
    words = [
        this.in_words,
        f"signed: the sum of {', '.join(sites)}; no other list of this round is ever signed, as long as "
        f"{folder} is kept and used: it remembers the round",
        f"signature written to {path}; when {this.contract.threshold} holders have signed: onefold federate "
        "sum answer",
    ]
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 0


def _holder(args: argparse.Namespace) -> tuple[HolderKey, Path]:
    from onefold.federated import HolderKey

    folder = Path(args.key).parent if args.folder is None else Path(args.folder)
    key = HolderKey.load(args.key)
    make_folder(folder)
    return key, folder


def _offered(this: RoundFiles, holder: str, without: list[str]) -> list[bytes]:
    """What a holder is asked to sign: of the messages of sites its parts, or under one key the total."""
    if this.contract.scheme != "bfv":
        return this.routed(_there(this, without))[holder]
    if without:
        raise InvalidInputError("--without is for onefold federate sum add, which makes the total")
    if this.found(this.contract.sites, MESSAGE):
        raise InvalidInputError(
            f"{this.share}: has messages of sites, each of which the holder of the only key could read: let "
            "whoever carries them run onefold federate sum add, and give the holder the folder that it writes"
        )
    path = this.path(holder, OFFERED)
    if not path.is_file():
        raise InvalidInputError(
            f"{path}: is not there: whoever carries the messages makes it with onefold federate sum add"
        )
    return split_frames(path.read_bytes())


def _there(this: RoundFiles, without: list[str]) -> list[str]:
    """Sites that are not left out; the messages of all of them must be there."""
    for site in without:
        this.contract.place(site)
    wanted = [site for site in this.contract.sites if site not in without]
    paths = this.found(wanted, MESSAGE)
    least = this.contract.least_sites
    if len(paths) < least:
        raise MessageError(
            f"{this.share}: only {len(paths)} of {len(this.contract.sites)} sites are there, and {least} are "
            "needed: wait for the others, or begin a new round"
        )
    missing = [site for site in wanted if site not in paths]
    if missing:
        names = " ".join(missing)
        go_on = "add up" if this.contract.scheme == "bfv" else "have all holders sign"
        raise MessageError(
            f"{this.share}: there is no message of {names}: wait, or {go_on} --without {names}"
        )
    return list(paths)


def _add_answer(steps: Any) -> None:
    parser = steps.add_parser(
        "answer",
        help="a key holder: add up the shares of the sites on the signed list",
        description="Add up this holder's shares of the sites on the list that it signed, once as many "
        "holders as the threshold says have signed the same one. Whoever has that many answers can open it.",
    )
    add_round(parser)
    _add_holder(parser)
    shared.add_output_options(parser)
    parser.set_defaults(run=run_answer)


def run_answer(args: argparse.Namespace) -> int:
    """Answer what was signed."""
    from onefold.federated import SumHolder

    this = round_of(args)
    key, folder = _holder(args)
    holder = SumHolder(this.total, key, folder)
    kept = this.path(holder.name, KEPT, folder)
    if not kept.is_file():
        raise InvalidInputError(
            f"{kept}: is not there: this holder signs first, with onefold federate sum sign"
        )
    signed = this.found(this.holders, SIGNED)
    answer = holder.answer(
        split_frames(kept.read_bytes()), [signature.read_bytes() for signature in signed.values()]
    )
    path = this.path(holder.name, ANSWER)
    write_whole(path, answer, public=True)
    result = {"answer": str(path), "signed_by": sorted(signed), "contract": this.contract.digest}
    words = [
        f"answer of {holder.name} written to {path}; {this.contract.threshold} answers open the sum: onefold "
        "federate sum open"
    ]
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 0


# --- whoever opens the sum --------------------------------------------------------------------------------


def _add_open(steps: Any) -> None:
    parser = steps.add_parser(
        "open",
        help="open the sum: a model for onefold predict, or a synthetic table",
        description="Put the answers of the key holders together and make of the sum what the contract says: "
        "a model for onefold predict, or a synthetic table, with its guarantee beside it.",
    )
    add_round(parser)
    add_result(parser)
    parser.set_defaults(run=run_open)


def add_result(parser: Any) -> None:
    """What is made of the opened sum."""
    option(parser, "--out FILE", "model to write, or table: .csv, .npz or .parquet", required=True)
    rows = "rows of a synthetic table (default: the noisy number of rows)"
    option(parser, "--rows N", rows, shared.whole)
    anyway = "use the second of two rounds although a site dropped out between them"
    flag(parser, "--anyway", anyway)
    shared.add_output_options(parser)


def run_open(args: argparse.Namespace) -> int:
    """Open, write, tell privacy first."""
    this = round_of(args)
    check_result(args, this)
    answers = [path.read_bytes() for path in this.found(this.holders, ANSWER).values()]
    if this.summed.is_first:
        second = this.summed.proceed(answers)
        second.save(args.out)
        result, words = _described(second)
        words = [f"contract of the second round written to {args.out}", *words]
        show({"file": args.out, **result}, words, as_json=args.json, quiet=args.quiet)
        return 0
    return finish(args, this, this.total.open(answers))


def check_result(args: argparse.Namespace, this: RoundFiles, *, whole: bool = False) -> None:
    """Refuse what could not be written, before anything is asked for; ``whole`` if all rounds are run."""
    is_table = this.summed.what == "tables"
    if args.rows is not None and not is_table:
        raise InvalidInputError("--rows is for sums of tables; this one makes a model")
    if this.summed.is_first and not whole and not args.out.endswith(CONTRACT):
        raise InvalidInputError(
            f"this is the first of two rounds: --out is the contract of the second, FILE{CONTRACT}"
        )
    (check_private_table if is_table else check_writable)(args.out, args.contract)


def finish(args: argparse.Namespace, this: RoundFiles, opened: OpenedSum) -> int:
    """Make of the sum what the contract says, write it, tell privacy first."""
    is_table = this.summed.what == "tables"
    with busy("fitting", args.quiet):
        made: Any = this.summed.result(opened, args.anyway)
    promise = made.guarantee_
    written, words = _write(args, made, is_table)
    result = {
        "sites": list(opened.sites),
        "checked": opened.checked,
        "contract": this.contract.digest,
        **written,
        "holds": promise.holds,
        "promise": promise.to_dict(),
    }
    show(
        result,
        [*shared.promise_in_words(promise), "", *_about(this, opened), *words],
        as_json=args.json,
        quiet=args.quiet,
    )
    return 0


def _about(this: RoundFiles, opened: OpenedSum) -> list[str]:
    left = [site for site in this.contract.sites if site not in opened.sites]
    words = [f"sum of {', '.join(opened.sites)}" + (f", without {', '.join(left)}" if left else "")]
    if not opened.checked:
        t, n = this.contract.threshold, len(this.contract.holders)
        more = "one more answer checks them" if n > t else "there are no others to check them by"
        answered = f"exactly {t} holders answered" if n > 1 else "the only holder answered"
        words.append(f"{answered}: a wrong answer could not be found; {more}")
    return words


def _write(args: argparse.Namespace, made: Any, is_table: bool) -> tuple[dict[str, Any], list[str]]:
    if not is_table:
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
    from onefold.cli.synthesize import write_made

    rows, quality = made.sample(args.rows), made.quality_
    n_rows = len(next(iter(rows.values())))
    guarantee, report = write_made(args.out, rows, made.schema, made.guarantee_.to_dict(), quality.to_dict())
    words = [
        *str(quality).splitlines(),
        f"{n_rows} rows written to {args.out}, their guarantee to {guarantee}, their quality to {report}",
    ]
    return {"table": args.out, "rows": n_rows, "guarantee": guarantee, "quality": report}, words
