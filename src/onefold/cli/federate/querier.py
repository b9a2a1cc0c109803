"""``onefold federate query``, ``querykey`` and ``decrypt``: ask a federation, in the open or encrypted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import flag, option
from onefold.cli.console import busy, count_of, print_json, say, show
from onefold.cli.federate import common
from onefold.cli.federate.approvals import signing_key
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format, check_writable, write_columns
from onefold.cli.predict import LEVEL, measured_numbers
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.contract import message_classes
from onefold.report.evaluation import numbers_of
from onefold.tables.rows import Rows, rows
from onefold.tables.tasks import CLASSES, WHOLE, identifiers_of

if TYPE_CHECKING:
    from onefold.federated.flower import Collected, Federation, QueryResult

# Options about classes, answers or models, which are for no federation that predicts numbers.
NOT_IN_A_QUERY = (
    *("encrypted", "measures", "probabilities", "sets", "mix", "query_key", "fit_on", "bits", "bound"),
    *("floor", "power", "looks", "keys", "calibrate", "calibrate_label", "rule", "liars", "held_out"),
    "held_out_label",
)
PARTIAL = 3  # exit code: only some sites answered
BITS = 8
ENCRYPTION = ("bits", "bound", "floor", "power", "looks", "keys")
OUT = "table of predictions to write: .csv, .npz or .parquet (default: -, CSV on standard output)"
PARTLY = "Exit code 3: only some sites answered, and the predictions are made from their answers."


# --- options and results of several commands --------------------------------------------------------------


def _add_encryption_options(parser: Any, own_rows: str | None) -> None:
    """The map from measures to whole numbers, and where the secret keys are."""
    option(parser, "--bits P", f"bits to which a measure is rounded (default: {BITS})", shared.whole)
    looks = "how often each row is answered, N times the bytes and time (default: 1 to 16)"
    option(parser, "--looks N", looks, shared.whole)
    instead = "" if own_rows is None else f", not to {own_rows}"
    option(parser, "--fit-on FILE", f"table of public rows to fit the map of measures to{instead}")
    option(parser, "--bound B", "take the plain map instead: its largest measure", shared.positive)
    option(parser, "--floor A", "smallest measure of the plain map (default: 0)", shared.not_negative)
    option(parser, "--power E", "exponent of the measure in the plain map (default: 1)", shared.positive)
    _add_keys(parser)


def _add_keys(parser: Any) -> None:
    option(parser, "--keys DIR", "folder of your secret keys (default: ~/.local/share/onefold/keys)")


def _destination(out: str | None, as_json: bool, *inputs: str) -> str | None:
    """Where predictions are written: to ``--out``, to the terminal, or with ``--json`` nowhere."""
    where = out if out is not None or as_json else STANDARD_OUTPUT
    if where == STANDARD_OUTPUT and as_json:
        raise InvalidInputError("--json and --out - both want standard output")
    if where is not None:
        check_table_format(where, *inputs)
    return where


def _tell_result(
    result: QueryResult,
    out: str | None,
    accuracy: float | None,
    *,
    as_json: bool,
    quiet: bool,
    more: dict[str, Any] | None = None,
) -> int:
    """Tell how many rows were answered and by whom, as JSON or in a line; the exit code."""
    if as_json:
        print_json(_summary(result, out, accuracy) | (more or {}))
    else:
        right = "" if accuracy is None else f", accuracy {accuracy:.4f}"
        where = f", written to {out}" if out not in (None, STANDARD_OUTPUT) else ""
        say(f"{result.n_rows} rows by {count_of(len(result.answered), 'site')}{where}{right}", quiet)
        if "bytes_per_site" in (about := result.encryption):
            say(_cost_in_words(about["looks"], about), quiet)
    if result.partial:
        sites = sorted({*result.refused, *result.missing})
        without = [f"{site} ({result.refused.get(site, 'no answer')})" for site in sites]
        from onefold.federated.flower.asking import advice_on

        say(f"PARTIAL: without {', '.join(without)}{advice_on(result.refused)}", quiet=False)
    for site, reason in result.kept_out.items():
        say(f"{site} is kept out and was not asked: {reason}", quiet)
    for site, code in result.outliers.items():
        say(f"answers of {site} look odd: {code}", quiet)
    if result.unprotected:
        few = f"{len(result.unprotected)} of {len(result.classes)} classes are at too few sites for this rule"
        say(f"{few}: to withstand F lying sites a class must be at 2 F + 1", quiet=False)
    return PARTIAL if result.partial else 0


def _summary(result: QueryResult, out: str | None, accuracy: float | None) -> dict[str, Any]:
    summary = {
        **result.encryption,
        "rows": result.n_rows,
        "answered": list(result.answered),
        "missing": list(result.missing),
        "refused": result.refused,
        "partial": result.partial,
        "outliers": result.outliers,
        "unprotected": list(result.unprotected),
        "kept_out": result.kept_out,
    }
    summary |= {"labels": result.predictions.tolist()} if out is None else {"predictions": out}
    return summary if accuracy is None else summary | {"accuracy": accuracy}


# --- how sure the federation is ---------------------------------------------------------------------------

DOUBT = (
    "Both options need labelled rows that no site has fitted, like the rows of DATA. They are asked about in "
    "the same way, just before. Sets hold the right class with the stated probability, for rows that are "
    "exchangeable with the labelled ones. Probabilities are right on average only."
)


def _add_doubt_options(group: Any) -> None:
    option(group, "--calibrate FILE", "table of labelled rows, with the columns of DATA and the label column")
    option(group, "--calibrate-label COL", "column of --calibrate with the classes (default: --label)")
    flag(group, "--probabilities", "also write the probability of every class")
    flag(group, "--sets", "also write the classes that remain (set) and which rows are unlike all (foreign)")
    alpha = "largest probability with which the right class is missing from a set"
    option(group, "--alpha A", alpha, shared.fraction, 0.1)
    alarm = "largest probability of calling a row like the labelled ones foreign (default: 0.01)"
    option(group, "--false-alarm A", alarm, shared.fraction)


@dataclass(frozen=True)
class Doubt:
    """What was asked for about how sure the federation is, and the labelled rows it is calibrated on."""

    table: Rows
    probabilities: bool
    alpha: float | None  # None for no sets
    false_alarm: float | None

    def columns(self, first: QueryResult, result: QueryResult, quiet: bool) -> dict[str, Any]:
        """Further columns of the result; ``first`` is what was answered about the labelled rows."""
        from onefold.federated import LabelUncertainty, Uncertainty

        if first.answered != result.answered or list(first.classes) != list(result.classes):
            raise FederationError("not the same sites answered about --calibrate and about DATA: ask again")
        labels, known = self.table.y, self.table.known
        sure: LabelUncertainty | Uncertainty
        if result.encryption:
            asked = result.predictions
            sure = LabelUncertainty(first.predictions[known], labels, result.classes)
        else:
            asked = _measures(result)["measures"]
            sure = Uncertainty(_measures(first)["measures"][known], labels, result.classes)
        n_rows = sure.n_rows
        left_out = len(labels) - n_rows
        more = f", {left_out} left out: their class is at no site" if left_out else ""
        say(f"calibrated on {count_of(n_rows, 'labelled row')}{more}", quiet)
        found: dict[str, Any] = {}
        if self.probabilities:
            found |= {"probability": sure.probabilities(asked), "classes": result.classes}
        if self.alpha is not None:
            if self.alpha < 1 / (n_rows + 1):
                raise InvalidInputError(
                    f"--alpha {self.alpha:g} needs more labelled rows than {n_rows}: every set would hold "
                    "every class"
                )
            sets, names = sure.prediction_sets(asked, self.alpha), np.asarray(result.classes).astype(str)
            found["set"] = np.array([" | ".join(names[mine]) for mine in sets])
            if isinstance(sure, Uncertainty):
                rate = max(0.01, 1 / (n_rows + 1)) if self.false_alarm is None else self.false_alarm
                found["foreign"] = sure.is_foreign(asked, rate)
        return found


def _doubt(args: argparse.Namespace, table: Rows) -> Doubt | None:
    """What to calibrate on; options that do not go together are refused."""
    wanted = args.probabilities or args.sets
    if not wanted:
        common.refuse(args, ("calibrate", "calibrate_label"), "goes with --probabilities or --sets")
        return None
    if args.query_key is not None:
        raise InvalidInputError("--probabilities and --sets are for the querier: not with --query-key")
    if args.calibrate is None:
        raise InvalidInputError(
            "--probabilities and --sets need labelled rows that no site has fitted: give --calibrate FILE"
        )
    label = args.calibrate_label or args.label
    if table.schema.plain and label is None:
        raise InvalidInputError("--calibrate needs the name of its column with the classes: give --label COL")
    known = _rows_of(args.calibrate, table.schema, label, args.ignore if table.schema.unnamed else [])
    if known.y is None or not len(known.y):
        raise InvalidInputError(f"{args.calibrate}: has no row with a class in the schema's label column")
    return Doubt(known, args.probabilities, args.alpha if args.sets else None, args.false_alarm)


# --- query ------------------------------------------------------------------------------------------------


def add_query(parts: Any) -> None:
    """Declare ``query``."""
    parser = parts.add_parser(
        "query",
        help="predict the classes or numbers of a table by the federation",
        description="Predict the class of every row of a table from the answers of all sites, or its class "
        "or number from the sum of moments that they sent, and then no site sees the rows. The table must "
        "have the columns of the sites, in their order; with --schema in any order, with further columns, "
        f"missing cells and categories that no site has seen. {PARTLY}",
    )
    shared.add_data(parser)
    common.add_folder(parser)
    option(parser, "--out PRED", OUT)
    option(parser, "--label COL", "column with the true classes; makes the command print the accuracy")
    option(parser, "--id COL", "column to copy into the table of predictions")
    option(parser, "--level F", "share of the numbers that intervals hold (default: 0.9)", shared.fraction)
    shared.add_ignore(parser)
    common.add_schema(parser)
    flag(parser, "--measures", "also write the combined measure of every class")
    _add_doubt_options(parser.add_argument_group("how sure the federation is", DOUBT))
    option(parser, "--timeout S", "seconds that the sites have to answer", shared.positive, 60.0)
    option(parser, "--batch N", "number of rows in one message", shared.whole, 5000)
    common.add_rule_options(parser.add_argument_group("another rule than the server's"), default=None)
    option(parser, "--held-out-label COL", "column of --held-out with the classes (default: --label)")
    group = parser.add_argument_group("encrypted answers")
    flag(group, "--encrypted", "have the sites encrypt their answers with your key")
    _add_encryption_options(group, "the rows of DATA")
    option(group, "--query-key FILE", "query key of a querier elsewhere, whose answers go to --out")
    flag(parser, "--mix", "combine sites that add noise with sites that do not, which then decide alone")
    common.add_querier(parser)
    flag(parser, "--json", "print the result as JSON")
    flag(parser, "--quiet", "print nothing but predictions and errors")
    parser.set_defaults(run=run_query)


def run_query(args: argparse.Namespace) -> int:
    """Read, ask, write, tell."""
    federation = common.federation_of(args)
    if federation.predicts_numbers:
        return _run_numbers(args, federation, _destination(args.out, args.json, args.data))
    if args.level is not None:
        raise InvalidInputError("--level is for a federation that predicts numbers; this one tells classes")
    given = {name: getattr(args, name) for name in ENCRYPTION if getattr(args, name) is not None}
    _check_query(args)
    if args.query_key is not None:
        check_writable(args.out, args.data, args.query_key)
    else:
        out = _destination(args.out, args.json, args.data)
    table = _asked(args)
    ways = {
        "timeout": args.timeout,
        "batch_size": args.batch,
        "querier": signing_key(args.querier, args.quiet, federation),
        "purpose": args.purpose,
        "columns": table.names or None,
        "schema": table.schema,
        "mix": args.mix,
    }
    with busy(f"asking about {len(table)} rows", args.quiet):
        if args.query_key is not None:
            found = federation.collect(table.X, args.query_key, args.out, **ways)
            return _tell_collected(found, args.json, args.quiet)
        label = args.held_out_label or args.label
        held_out = common.held_out_rows(args.held_out, label, args.ignore, table.schema)
        rule = {"rule": args.rule, "n_liars": args.liars, "held_out": held_out}
        given |= {} if args.fit_on is None else {"fit_on": _rows_of(args.fit_on, table.schema).X}
        doubt = _doubt(args, table)
        first = None
        if doubt is not None:
            if args.encrypted and not {"bound", "floor", "power", "fit_on"} & set(given):
                given["fit_on"] = doubt.table.X  # one map for both, or they would not be answered alike
            first = federation.query(doubt.table.X, encrypted=args.encrypted, **rule, **given, **ways)
        result = federation.query(table.X, encrypted=args.encrypted, **rule, **given, **ways)
    columns = dict(table.kept)
    columns["prediction"] = result.predictions
    if args.measures:
        columns |= _measures(result)
    more = {} if doubt is None or first is None else doubt.columns(first, result, args.quiet)
    columns |= more
    if out is not None:
        write_columns(out, columns)
    accuracy = table.accuracy(result.predictions)
    told = {name: np.asarray(values).tolist() for name, values in more.items()} if out is None else {}
    return _tell_result(result, args.out, accuracy, as_json=args.json, quiet=args.quiet, more=told)


def _run_numbers(args: argparse.Namespace, federation: Federation, out: str | None) -> int:
    """Read, predict from the sum of the sites, write, tell."""
    common.refuse(
        args,
        NOT_IN_A_QUERY,
        "has to be left out: the sites of this federation predict numbers, from a sum at the server; no "
        "answer of a site can be encrypted, combined or taken apart",
    )
    schema = common.schema_of(args)
    if schema.plain:
        raise InvalidInputError("the sites have a schema: give it with the query (--schema FILE)")
    keep = [] if args.id is None else [args.id]
    table = rows(args.data, schema, mode="lenient", keep=keep)
    level = LEVEL if args.level is None else args.level
    with busy(f"predicting {len(table)} rows", args.quiet):
        result = federation.predict_numbers(table.X, schema=schema, level=level)
    columns: dict[str, Any] = {name: identifiers_of(values) for name, values in table.kept.items()}
    columns |= {"prediction": result.predictions, "low": result.low, "high": result.high}
    if out is not None:
        write_columns(out, columns)
    found = None
    if table.y is not None and len(table.y):
        alone = schema.person is None
        found = measured_numbers(columns, table.y, table.known, level=level, bounded=alone)
    told: dict[str, Any] = {"rows": result.n_rows, "answered": list(result.sites), "level": level}
    told |= {"kept_out": dict(result.kept_out), "guarantee": result.guarantee.to_dict()}
    told |= {"numbers": result.predictions.tolist()} if out is None else {"predictions": out}
    told |= {} if found is None else {"measures": numbers_of(found)}
    raw = {} if found is None else reports.not_covered(result.guarantee)
    told |= raw
    if args.json:
        print_json(told)
    else:
        where = f", written to {out}" if out not in (None, STANDARD_OUTPUT) else ""
        sites = count_of(len(result.sites), "site")
        say(f"{result.n_rows} rows by the sum of {sites}{where}", args.quiet)
        if found is not None:
            for line in [*found.words(f"{found.rows} rows"), *raw.values()]:
                say(line, args.quiet)
    for site, reason in result.kept_out.items():
        say(f"{site} is kept out, and its sums do not count: {reason}", args.quiet)
    return 0


def _asked(args: argparse.Namespace) -> Rows:
    """Read the table of a query."""
    schema = common.schema_of(args, "held_out_label")
    with busy(f"reading {args.data}", args.quiet):
        found = _rows_of(args.data, schema, args.label, args.ignore, [] if args.id is None else [args.id])
    return replace(found, kept={name: identifiers_of(values) for name, values in found.kept.items()})


def _rows_of(
    path: str,
    schema: Any,
    label: str | None = None,
    ignore: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Rows:
    """Rows of a table by a contract, or as numbers; classes are known if its label column is there."""
    found = rows(path, schema, label=label, ignore=ignore, mode="lenient", task=CLASSES.name, keep=keep)
    return found if found.y is None else replace(found, y=message_classes(found.y))


def _check_query(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    from onefold.federated.flower.encrypted import ANSWERS_SUFFIX

    if not args.encrypted:
        common.refuse(args, (*ENCRYPTION, "fit_on", "query_key"), "is for --encrypted")
        return
    common.refuse(args, ("measures",), "has to be left out: an encrypted query tells the closest class only")
    if args.query_key is not None:
        common.refuse(args, (*ENCRYPTION, "fit_on"), "is in the query key already")
        common.refuse(args, ("label",), "is for the querier: onefold federate decrypt")
    if (args.query_key is not None) != (args.out or "").endswith(ANSWERS_SUFFIX):
        raise InvalidInputError(f"--query-key FILE goes with --out FILE{ANSWERS_SUFFIX}, and only with it")


def _measures(result: QueryResult) -> dict[str, Any]:
    if result.measures is None:
        raise FederationError("sites came and went while they were asked: ask again")
    return {"measures": result.measures, "classes": result.classes}


def _tell_collected(found: Collected, as_json: bool, quiet: bool) -> int:
    path = str(found.path)
    if as_json:
        told = {"rows": found.n_rows, "encrypted": path, "key": found.key_id}
        print_json(told | {"partial": found.partial, "missing": list(found.missing)})
    else:
        read = f"{found.n_rows} rows, encrypted answers in {path}: read them with onefold federate decrypt"
        say(read, quiet)
    return PARTIAL if found.partial else 0


# --- querykey ---------------------------------------------------------------------------------------------


def add_querykey(parts: Any) -> None:
    """Declare ``querykey``."""
    parser = parts.add_parser(
        "querykey",
        help="make a query key, for encrypted queries by way of a server elsewhere",
        description="Make a secret key, or take the one made before, and write a query key file: the sites "
        "encrypt with it and the server computes with it. It holds no secret. Give it to the operator "
        "of the server, and tell the sites the id of the key by another way.",
    )
    parser.add_argument("file", metavar="FILE", help="query key file to write, ending in .querykey")
    option(parser, "--sites N", "largest number of sites that may answer", shared.whole, required=True)
    option(parser, "--classes CLASS", "all classes that the sites have", required=True, nargs="+")
    _add_encryption_options(parser, None)
    about = parser.add_argument_group("for --fit-on, as at the sites")
    option(about, "--measure M", "measure of the sites, or joined for plain sums (default: euclidean)")
    option(about, "--scale F", "scale of the sites, with every measure but euclidean", shared.positive)
    shared.add_ignore(about)
    shared.add_schema(about, "the rows of --fit-on are read by it, and the scale follows from it")
    group = parser.add_argument_group("signed, for sites that approve queriers")
    option(group, "--querier NAME", "name of the querier whose signing key signs, or a .signkey file")
    option(group, "--federation ID", "id of the federation, as status shows it", shared.key_id)
    option(group, "--rows N", "largest number of rows that each site may answer under the key", shared.whole)
    option(group, "--until DATE", "last day on which it holds, as 2027-01-31, in universal time")
    option(group, "--purpose TEXT", "what the answers are for: shown to the data owners", default="")
    common.ends(parser, run_querykey)


def run_querykey(args: argparse.Namespace) -> int:
    """Make or take the keys, write the query key file."""
    from onefold.federated.flower import make_query_key
    from onefold.federated.flower.encrypted import Keyring
    from onefold.federated.flower.rounding import FULL, cost

    check_writable(args.file)
    classes = labels_from(args.classes)
    measures: dict[str, Any] = {"bits": args.bits or BITS, "power": args.power, "floor": args.floor}
    measures |= {"looks": args.looks, **_fit_of(args)}
    measures["sign"] = _key_signer(args)
    with busy("making keys", args.json):
        made = make_query_key(args.file, args.sites, classes, args.bound, **measures, keys=args.keys)
    key = made.query_key
    sent = _cost_in_words(key.looks, cost(made.parameters, [FULL], key.looks))
    map_ = "fitted to public rows" if key.knots else "plain"
    words = [
        f"{args.file}: {len(classes)} classes, {key.bits} bits, no secret in it",
        f"The map is {map_}; for {FULL} rows, {sent}",
        f"Id of the key, for the sites (--trust-key): {key.key_id}",
    ]
    told = {"query_key": args.file, "key": key.key_id}
    told |= {"classes": list(key.classes), "bits": key.bits, "bound": key.bound, "looks": key.looks}
    told |= {"fitted": bool(key.knots)}
    show(told, words, as_json=args.json)
    say(f"the secret key stays in {Keyring(args.keys).folder}", args.json)
    return 0


def _fit_of(args: argparse.Namespace) -> dict[str, Any]:
    """The public rows of --fit-on, and the measure and scale of the sites."""
    schema = shared.declared_schema(args, "ignore", "scale")
    if args.fit_on is None:
        common.refuse(args, ("measure", "scale", "schema"), "is for --fit-on FILE")
        return {}
    measure, scale = args.measure or "euclidean", args.scale
    if not schema.plain:
        from onefold.federated.contract import schema_scale

        measure = args.measure or "rms"  # as sites with a schema
        scale = None if measure in ("euclidean", "joined") else schema_scale(schema)
    public = _rows_of(args.fit_on, schema, ignore=args.ignore).encoded
    if measure not in ("euclidean", "joined") and scale is None:
        raise InvalidInputError(f"--measure {measure} needs --scale F, the number that all sites have")
    return {"fit_on": public, "measure": measure, "scale": scale}


def _cost_in_words(looks: int, sent: dict[str, Any]) -> str:
    """What so many looks cost: about so many times the bytes, and the time, of one."""
    many, one = sent["bytes_per_site"] / 1e6, sent["bytes_in_one_look"] / 1e6
    less = "" if looks == 1 else f" ({one:.1f} MB with --looks 1, and about 1/{looks} of the time)"
    return f"{count_of(looks, 'look')} at each row: every site sends {many:.1f} MB{less}"


def _key_signer(args: argparse.Namespace) -> Any:
    """What signs the query key; None if nobody is to."""
    from onefold.federated.access.approvals import end_of_day
    from onefold.federated.access.signatures import find_signing_key

    names = ("federation", "rows", "until")
    if args.querier is None:
        common.refuse(args, names, "is for a signed query key: give --querier NAME")
        return None
    missing = [f"--{name}" for name in names if getattr(args, name) is None]
    if missing:
        raise InvalidInputError(f"a signed query key needs {', '.join(missing)}")
    found = find_signing_key(args.querier)
    if found is None:
        make = f"onefold federate querier new {args.querier}"
        raise InvalidInputError(f"there is no signing key of {args.querier}: make one with {make}")
    stated = {"amount": args.rows, "until": end_of_day(args.until), "purpose": args.purpose}
    return lambda query_key: found.sign_key(query_key, args.federation, **stated)


def labels_from(texts: list[str]) -> list[Any]:
    """Class labels as tables have them: whole numbers if all texts are; sorted."""
    if len(set(texts)) < len(texts):
        raise InvalidInputError("--classes names a class twice")
    if all(WHOLE.fullmatch(text) for text in texts):  # 007 is a code, not a number
        return sorted(int(text.partition(".")[0]) for text in texts)
    return sorted(texts)


# --- decrypt ----------------------------------------------------------------------------------------------


def add_decrypt(parts: Any) -> None:
    """Declare ``decrypt``."""
    parser = parts.add_parser(
        "decrypt",
        help="decrypt the answers to an encrypted query",
        description="Decrypt a file of encrypted answers with the secret key that belongs to its query key, "
        f"and write the predictions. {PARTLY}",
    )
    answers = "file of encrypted answers, written by onefold federate query --query-key"
    parser.add_argument("file", metavar="FILE", help=answers)
    option(parser, "--out PRED", OUT)
    option(parser, "--data TABLE", "table that was asked about, for --label or --schema")
    option(parser, "--label COL", "column of --data with the true classes, to print the accuracy")
    shared.add_schema(parser, "its label column of --data has the true classes")
    shared.add_encoders(parser, "encoder of a column")
    _add_keys(parser)
    common.ends(parser, run_decrypt)


def run_decrypt(args: argparse.Namespace) -> int:
    """Read, decrypt, write, tell."""
    from onefold.federated.flower import decrypt

    out = _destination(args.out, args.json, args.file)
    schema = shared.declared_schema(args, "label")
    if (args.data is None) != (args.label is None and schema.plain):
        raise InvalidInputError("--data and --label, or --data and --schema, go together")
    result = decrypt(args.file, keys=args.keys)
    accuracy = None
    if args.data is not None:
        table = _rows_of(args.data, schema, args.label)
        if len(table) != len(result.predictions):
            raise InvalidInputError(f"{args.data}: is not the table that was asked about")
        accuracy = table.accuracy(result.predictions)
    if out is not None:
        write_columns(out, {"prediction": result.predictions})
    return _tell_result(result, args.out, accuracy, as_json=args.json, quiet=False)
