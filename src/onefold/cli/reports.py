"""What ``--report`` of a command and ``onefold report`` share: checks before the work, and pages after it."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli.arguments import option
from onefold.cli.console import show
from onefold.cli.models import schema_of
from onefold.cli.outputs import GUARANTEE, QUALITY, check_writable, files_of
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.privacy import Guarantee
    from onefold.report import Display, PrivacyUtilityDisplay, Report
    from onefold.report.evaluation import Evaluation, NumberEvaluation
    from onefold.tables.rows import Rows

LARGEST_CARD = 2**20
# Shown by other parts of the page, or of no use to a reader.
ELSEWHERE = ("promise", "not_covered", "held_out", "estimated", "measures", "evaluation", "report", "seconds")
# Values that name files: a page shows no folder.
PATHS = ("model", "table", "guarantee", "quality", "counts", "predictions", "source")
# What commands write beside a result.
BESIDE = ("", GUARANTEE, QUALITY)
OF_A_REPORT = b'"format": "onefold report '
RAW_MEASURES = (
    "These measures come from raw rows and are covered by no epsilon: keep them to yourself unless the rows "
    "are public."
)
FIT = "How well the made rows fit what was released"
MEASURED = {"report": FIT, "evaluation": "A model of the made rows"}


def add_report(parser: Any, *, card: bool = True) -> None:
    """The page that a command can write, and what people say on it."""
    page = "HTML page to write about the result; its numbers go to a file of the same name, ending in .json"
    option(parser, "--report PAGE", page)
    if card:
        add_card(parser)


def add_card(parser: Any) -> None:
    """What people say on a page."""
    card = "JSON file with texts for the page: intended use, not intended for, data, limits, contact"
    option(parser, "--card FILE", card)


def check_report(args: argparse.Namespace, out: str | None = None) -> None:
    """Refuse a page that could not be written, or would replace another file, before the work starts.

    ``out`` is where the result goes if no option says so.
    """
    if args.report is None:
        if getattr(args, "card", None) is not None:
            raise InvalidInputError("--card goes with --report")
        return
    from onefold.report.document import numbers_beside
    from onefold.report.html import require_page_tools

    others = [*_named(args), *(f"{out}{end}" for end in BESIDE if out is not None)]
    for path in (args.report, str(numbers_beside(args.report))):
        if any(_same(path, other) for other in others):
            raise InvalidInputError(f"{path}: is another file of this command, name another page")
        check_writable(path)
    _check_numbers(numbers_beside(args.report))
    require_page_tools()
    card_of(args)


def _named(args: argparse.Namespace) -> Iterator[str]:
    """Everything in the arguments that may be a file, except the page, and what goes beside the result."""
    for name, value in vars(args).items():
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, str) and name != "report":
                ends = BESIDE if name == "out" else BESIDE[:1]
                yield from (f"{path}{end}" for path in files_of(each) for end in ends)


def _same(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _check_numbers(path: Path) -> None:
    """Refuse to replace a file that no report has written: it may be anything, a ledger or a schema."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(200)
    if head and OF_A_REPORT not in head:
        raise InvalidInputError(
            f"{path}: the numbers of the page would replace this file, which is not of a report: name "
            "another page"
        )


def card_of(args: argparse.Namespace) -> dict[str, str] | None:
    """What people say about a model or a table, from a file of theirs."""
    from onefold.report.document import json_in

    path = getattr(args, "card", None)
    if path is None:
        return None
    plain = json_in(path, LARGEST_CARD)
    if not isinstance(plain, dict) or not all(isinstance(text, str) for text in plain.values()):
        raise InvalidInputError(f'{path}: must be a JSON object of texts, such as {{"intended use": "..."}}')
    return plain


def written(path: str, report: Report) -> str:
    """Write a page and its numbers, and say so."""
    from onefold.report import write_report

    return f"report written to {path}, its numbers to {write_report(path, report)}"


def tell(
    args: argparse.Namespace, result: dict[str, Any], lines: list[str], page: Callable[[], Report]
) -> None:
    """Write the page if one was asked for, and print the result or its lines."""
    if args.report is not None:
        lines = [*lines, written(args.report, page())]
    show(result, lines, as_json=args.json, quiet=getattr(args, "quiet", False))


def facts_of(result: Mapping[str, Any], **files: str | None) -> dict[str, Any]:
    """The single values of a result, and the digests of the files that go with it."""
    single = {
        name.replace("_", " "): file_name(value) if name in PATHS else value
        for name, value in result.items()
        if name not in ELSEWHERE
        and not name.startswith("held_out")
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
    }
    sums = {f"SHA-256 of {name}": digest(path) for name, path in files.items() if path is not None}
    return single | {name: value for name, value in sums.items() if value is not None}


def file_name(path: Any) -> str:
    """The last part of a path or of a database's address: a page tells nobody where files are."""
    return Path(str(path)).name


def digest(path: str) -> str | None:
    """SHA-256 of a file; None for what is no file, such as a table in a database."""
    if not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_report(args: argparse.Namespace, title: str, result: Mapping[str, Any]) -> Report:
    """The report of a private table, from the result of the command that made it.

    The digest of the private table is left out: it would tell whoever has a copy that this is the one.
    """
    from onefold.privacy import Guarantee
    from onefold.report import Section
    from onefold.report.builders import of_table
    from onefold.report.curves import curve_section, worth
    from onefold.tables import Schema

    facts = facts_of(
        result, **{"the table": result.get("table"), "the schema": getattr(args, "schema", None)}
    )
    quality = []
    for name, heading in MEASURED.items():
        part = result.get(name)
        if isinstance(part, Mapping):
            quality.append(Section(heading, facts=_numbers(part), notes=_lines(part.get("text", []))))
    promise = Guarantee.from_dict(result["promise"])
    facts["noise"] = promise.mechanism
    if getattr(args, "schema", None) is not None:
        fields = Schema.load(args.schema).fields
        facts["columns"] = [known.name for known in fields if known.role in ("feature", "label")]
    curve = forecast_in(result["promise"]) or forecast_in(result.get("report"))
    told = []
    if curve is not None and promise.holds:  # a void guarantee has no epsilon to mark
        quality.append(curve_section(curve))
        told.append(worth(curve))
    return of_table(title, promise, facts, quality=quality, worth=told, card=card_of(args))


def forecast_in(plain: Any) -> PrivacyUtilityDisplay | None:
    """The privacy-utility curve that a command has stored with a guarantee or a quality."""
    from onefold.report import PrivacyUtilityDisplay
    from onefold.report.curves import HOW
    from onefold.report.displays import display_of

    stored = plain.get("forecast") if isinstance(plain, Mapping) else None
    if not isinstance(stored, Mapping):
        return None
    curve = display_of(stored)
    if (
        not isinstance(curve, PrivacyUtilityDisplay)
        or curve.measure not in HOW
        or "forecast" not in curve.scores
    ):
        raise InvalidInputError("the stored forecast is none that onefold makes")
    return curve


def _numbers(part: Mapping[str, Any]) -> dict[str, Any]:
    """The single numbers, without those that the page has elsewhere."""
    known = {name: value for name, value in part.items() if isinstance(value, int | float)}
    return {name.replace("_", " "): value for name, value in known.items() if name != "rows"}


def _lines(text: Any) -> list[str]:
    return [str(line) for line in text] if isinstance(text, list) else str(text).splitlines()


def evidence(model: Any, rows: Any, labels: AnyArray) -> dict[str, Display]:
    """Pictures of what a model says about rows of known class: whether it is sure, and how far they are.

    Of numbers, those that were observed and predicted.
    """
    from onefold.report import CalibrationDisplay, FoldingDisplay, ObservedDisplay

    found: dict[str, Display] = {}
    if not hasattr(model, "classes_"):
        label = schema_of(model).label
        called = "number" if label is None else f"{label.name} ({label.unit})" if label.unit else label.name
        predicted = np.asarray(model.predict(rows), dtype=np.float64)
        return {"Observed and predicted": ObservedDisplay.from_predictions(labels, predicted, called)}
    classes = np.asarray(model.classes_)
    if hasattr(model, "predict_proba"):
        sure = np.asarray(model.predict_proba(rows))
        found["Does it know when it errs?"] = CalibrationDisplay.from_predictions(labels, sure, classes)
    known = set(map(str, labels)) <= set(map(str, classes))
    if hasattr(model, "distances") and known and len(classes) > 1:
        found["How far rows are from their own class and from the next"] = FoldingDisplay.from_estimator(
            model, rows, labels
        )
    return found


def about_model(model: Any) -> dict[str, Any]:
    """What a model is: facts for a page."""
    facts = {"kind": type(model).__name__, "features": int(getattr(model, "n_features_in_", 0)) or None}
    return facts | ({"classes": [str(each) for each in model.classes_]} if hasattr(model, "classes_") else {})


def not_covered(promise: Guarantee | None) -> dict[str, str]:
    """What to say beside measures of a model that carries a promise: it is not about them."""
    return {"not_covered": RAW_MEASURES} if promise is not None and promise.holds else {}


def model_report(
    args: argparse.Namespace,
    title: str,
    facts: Mapping[str, Any],
    *,
    model: Any = None,
    evaluation: Evaluation | NumberEvaluation | None = None,
    rows: Rows | None = None,
    estimated: Mapping[str, Any] | None = None,
    about: str = "rows that were held out",
) -> Report:
    """The report of a model, with pictures of what it says about rows of known class or number."""
    from onefold.report.builders import TARGET, of_model

    page = of_model(
        title,
        facts,
        evaluation=evaluation,
        about=about,
        evidence=None if rows is None else evidence(model, rows.labelled.X, np.asarray(rows.y)),
        guarantee=getattr(model, "guarantee_", None),
        card=card_of(args),
        estimated=estimated,
    )
    # The guarantee of a transferred model is about the rows of the source alone.
    of_source = hasattr(model, "source_gain_") and getattr(model, "guarantee_", None) is not None
    return replace(page, verdict=[*page.verdict, TARGET]) if of_source else page
