"""``onefold report``: one page about anything that was fitted or released, with its numbers beside it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.foreign import NOT_READABLE
from onefold._base.records import LENGTH, kind_of
from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import option
from onefold.cli.console import show
from onefold.cli.outputs import GUARANTEE, QUALITY
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError

if TYPE_CHECKING:
    from onefold.privacy import Guarantee
    from onefold.report import Report

TABLES = (".csv", ".npz", ".parquet")
UNKNOWN = (
    "{path}: is none of what a report can be about: a model, a private table with its .guarantee.json beside "
    "it, the folder of a federation's server, or the numbers of a report"
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report",
        description="Write one HTML page about a model, a table that was released with a guarantee, or "
        "a federation: a verdict in plain words first, then the numbers and pictures. The page needs no "
        "other file, prints well, and shows nothing that is not in the JSON file beside it.",
        epilog="The commands that make these things write the same page with --report.",
    )
    what = (
        "model file, private table, folder of a federation's server, or the JSON file of an earlier report, "
        "which is drawn again"
    )
    parser.add_argument("thing", metavar="THING", help=what)
    option(parser, "--out PAGE", "page to write (default: the name of THING, ending in .report.html)")
    data = "rows of known class that the model was not fitted to, to measure how good it is"
    option(parser, "--data TABLE", data)
    option(parser, "--label COL", "column of --data with the true classes (default: the label of its schema)")
    schema = "schema of a synthetic table, to show what another epsilon would give"
    option(parser, "--schema FILE", schema)
    reports.add_card(parser)
    shared.ends(parser, run)


def run(args: argparse.Namespace) -> None:
    """See what it is, build the report, write it, tell the verdict."""
    thing = Path(args.thing)
    if not thing.exists():
        raise InvalidInputError(f"{args.thing}: no such file or folder")
    args.report, args.out = args.out or str(thing.with_name(f"{thing.name}.report.html")), None
    reports.check_report(args)
    if args.label is not None and args.data is None:
        raise InvalidInputError("--label names a column of --data: give both")
    if args.schema and not Path(f"{thing}{QUALITY}").is_file():
        raise InvalidInputError("--schema is for a table that onefold synthesize wrote, with its quality")
    page = _build(args, thing)
    told = reports.written(args.report, page)
    show({"page": args.report, **page.numbers}, [*page.verdict, told], as_json=args.json, quiet=args.quiet)


def _build(args: argparse.Namespace, thing: Path) -> Report:
    if thing.is_dir():
        return _of_folder(args, thing)
    if Path(f"{thing}{GUARANTEE}").is_file() and thing.suffix.lower() in TABLES:
        return _of_table(args, thing)
    if thing.suffix.lower() == ".json":
        return _of_numbers(thing)
    if thing.suffix.lower() in TABLES:
        raise InvalidInputError(
            f"{thing}: there is no {thing.name}{GUARANTEE} beside it: nothing is promised"
        )
    return _of_model(args, thing)


def _of_numbers(path: Path) -> Report:
    """An earlier report; numbers that do not fit together are found by drawing them."""
    from onefold.report import Report, report_page

    report = Report.read(path)
    try:
        report_page(report)
    except NOT_READABLE:
        raise FileFormatError(f"{path}: damaged: its numbers cannot be drawn") from None
    return report


def _of_folder(args: argparse.Namespace, folder: Path) -> Report:
    from onefold.cli.federate.server import status_in_words
    from onefold.federated.flower import Federation
    from onefold.report.federations import of_federation

    try:
        federation = Federation(folder)
    except FileFormatError:
        raise
    except InvalidInputError:
        raise InvalidInputError(UNKNOWN.format(path=folder)) from None
    found = federation.status()
    return of_federation(folder.resolve().parent.name, found.to_dict(), status_in_words(found))


def _of_table(args: argparse.Namespace, table: Path) -> Report:
    from onefold.privacy import Guarantee

    beside = Path(f"{table}{GUARANTEE}")
    result: dict[str, Any] = {"table": str(table), "promise": _described(beside)}
    try:
        promise = Guarantee.from_dict(result["promise"])
        reports.forecast_in(result["promise"])
    except OnefoldError as error:
        raise InvalidInputError(f"{beside}: {error}") from None
    quality = Path(f"{table}{QUALITY}")
    if quality.is_file():
        result["report"] = _described(quality)
        if args.schema and promise.holds:
            result["report"] |= _forecast(args.schema, promise, result["report"])
    return reports.table_report(args, f"Private table {table.name}", result)


def _forecast(path: str, promise: Guarantee, quality: dict[str, Any]) -> dict[str, Any]:
    """What other epsilons would give, from the schema on which the table rests."""
    from onefold.cli.synthesize import forecast_table
    from onefold.tables import Schema

    rows = quality.get("rows")
    if not isinstance(rows, int):
        raise InvalidInputError("the quality of this table does not say how many rows were counted")
    try:
        return {"forecast": forecast_table(Schema.load(path), promise, rows).numbers}
    except InvalidInputError as error:
        raise InvalidInputError(f"--schema {path}: {error}") from None


def _described(path: Path) -> dict[str, Any]:
    from onefold.report.document import json_in

    plain = json_in(path)
    if not isinstance(plain, dict):
        raise InvalidInputError(f"{path}: does not describe anything that a report can be about")
    return plain


def _of_model(args: argparse.Namespace, path: Path) -> Report:
    from onefold.cli.models import load_model, read_rows, schema_of
    from onefold.cli.predict import measured, predictions
    from onefold.report.evaluation import estimate, numbers_of

    if kind_of(path) is None:
        with path.open("rb") as file:
            if file.read(LENGTH.size + 1)[LENGTH.size :] == b"{":  # as a record begins
                raise FileFormatError(f"{path}: not a model file, or damaged")
        raise InvalidInputError(UNKNOWN.format(path=path))
    model, names = load_model(args.thing, args.quiet, classes=True)
    schema = schema_of(model, names)
    facts = reports.about_model(model)
    if not schema.plain:
        facts |= {"columns": [field.name for field in schema.features], "digest of the schema": schema.digest}
    facts["SHA-256 of the model"] = reports.digest(args.thing)
    title = f"Model {path.name}"
    if args.data is None:
        estimated = estimate(model, bounded=schema.person is None)
        known = None if estimated is None else numbers_of(estimated)
        return reports.model_report(args, title, facts, model=model, estimated=known)
    label = args.label or (None if schema.label is None else schema.label.name)
    if label is None:
        raise InvalidInputError("name the column of classes in --data with --label COL")
    rows = read_rows(args.data, model, names, label=label, quiet=args.quiet)
    found = measured(model, rows, predictions(model, rows, quiet=args.quiet))
    about = f"{found.rows} rows of known class"
    if getattr(model, "guarantee_", None) is None:  # beside a promise nothing tells which raw rows these are
        name = reports.file_name(args.data)
        facts |= {"tested on": name, "SHA-256 of these rows": reports.digest(args.data)}
        about = f"{found.rows} rows of {name}"
    return reports.model_report(args, title, facts, model=model, evaluation=found, rows=rows, about=about)
