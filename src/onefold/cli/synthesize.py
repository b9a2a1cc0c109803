"""``onefold synthesize``: a private table of any columns, or a mock of its shape."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import add_neighbours, flag, option
from onefold.cli.console import busy
from onefold.cli.outputs import (
    QUALITY,
    check_private_table,
    check_spares_ledger,
    check_writable,
    write_beside,
    write_private_table,
)
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.fabrication import TableSynthesizer
    from onefold.privacy import Guarantee
    from onefold.report import PrivacyUtilityDisplay
    from onefold.tables import Schema

Told = tuple[dict[str, Any], list[str]]  # a result for machines, and the same in words

MOCK = (
    "Mock data: for writing and trying programs against the shape of the table. Results that are computed "
    "from it mean nothing."
)
MOCK_ROWS = 100
MOST_ERROR = 0.2  # of a noisy accuracy that is worth telling
NO_ROW_READ = "No row was read: the table follows from the schema alone, so it tells nothing about anyone."


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "synthesize",
        description="Make a private synthetic table with the columns of a schema: numbers, whole numbers, "
        "dates, categories, gaps. Single columns and pairs of columns are counted once, with noise, and rows "
        "are drawn from these counts. The guarantee and the quality of the table are written beside it. "
        "Protected are whole records or persons; the number of rows is a noisy one too.",
        epilog="Cells that the schema does not allow stop nothing: numbers are clipped, anything else "
        "becomes 'other', missing, or the middle of the range or the first level. Rows without a declared "
        "label or person are left out. Several sites make one table with onefold federate sum.",
    )
    what = f"table to read: {shared.TABLES}; none for a mock of the schema"
    parser.add_argument("data", metavar="DATA", nargs="?", help=what)
    option(parser, "--schema FILE", "schema, declared without looking at private rows", required=True)
    option(parser, "--out TABLE", "table to write: .csv, .npz or .parquet", required=True)
    option(parser, "--rows N", "rows to write (default: their noisy number; 100 for a mock)", shared.whole)
    structure = "pairs of columns that rows follow; auto decides by the noisy number of rows"
    choices = ("auto", "tree", "raked", "independent")
    option(parser, "--structure", structure, default="auto", choices=choices)
    mock = "mock data: without DATA from the schema alone; with DATA and a tiny --epsilon a little closer"
    flag(parser, "--mock", mock)
    reports.add_report(parser)
    group = parser.add_argument_group("privacy")
    option(group, "--epsilon E", "epsilon of the guarantee; --unit says for what", shared.positive)
    option(group, "--delta D", "delta of the guarantee (default: at most 1e-5)", shared.fraction)
    unit = "what is protected, a record or a person (default: person if the schema has one)"
    option(group, "--unit", unit, choices=("record", "person"))
    add_neighbours(group, "add-remove")
    shared.add_ledger(group)
    group = parser.add_argument_group("evaluation")
    option(group, "--evaluate FILE", "private table on which a model of the rows is tried, with noise")
    option(group, "--evaluate-epsilon E", "what this look costs the rows of --evaluate", shared.positive)
    option(group, "--evaluate-public FILE", "the same with a public table, which nothing protects")
    shared.ends(parser, run)


def run(args: argparse.Namespace) -> None:
    """Count or mock; write; tell privacy first."""
    _check(args)
    from onefold.tables import Schema

    schema = Schema.load(args.schema)
    schema.require_confirmed(args.schema)  # also for a mock, which says that it shows no row
    reports.check_report(args)
    if args.report is not None and args.data is None:
        raise InvalidInputError("--report goes with rows that are read: there is nothing to report")
    _check_look(args.evaluate or args.evaluate_public, schema)
    result, words = _mocked(args, schema) if args.data is None else _of_rows(args, schema)
    title = f"Synthetic table {Path(args.out).name}"
    reports.tell(args, result, words, lambda: reports.table_report(args, title, result))


# --- what goes together -----------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> None:
    """Refuse what contradicts itself, before anything is read."""
    if args.data is None:
        if not args.mock:
            raise InvalidInputError("name the table to read, or give --mock")
        alone = "a mock without DATA is made from the schema alone"
        spending = ("epsilon", "delta", "ledger", "unit", "evaluate", "evaluate_public")
        shared.refuse(args, dict.fromkeys(spending), f"{alone}: leave out {{0}}")
    elif args.epsilon is None:
        tiny = " (a tiny one; without DATA no row is read)" if args.mock else ""
        raise InvalidInputError(f"a table that is read needs --epsilon{tiny}")
    if (args.evaluate is None) != (args.evaluate_epsilon is None):
        raise InvalidInputError(
            "--evaluate and --evaluate-epsilon go together; rows that are public: --evaluate-public"
        )
    if args.evaluate and args.evaluate_public:
        raise InvalidInputError("--evaluate and --evaluate-public contradict each other: leave out one")
    inputs = (args.data, args.schema, args.evaluate, args.evaluate_public)
    check_private_table(args.out, *inputs)
    check_writable(f"{args.out}{QUALITY}", *inputs)
    check_spares_ledger(args.ledger, args.out, f"{args.out}{QUALITY}")


def _for_unit(schema: Schema, unit: str | None) -> Schema:
    """The schema for what is protected: records have no column of persons."""
    if unit == "person" and schema.person is None:
        raise InvalidInputError(
            '--unit person needs a column with "onefold:role": "person" in the schema, and rowsPerPerson'
        )
    return schema.without_person() if unit == "record" else schema


# --- one table --------------------------------------------------------------------------------------------


def _of_rows(args: argparse.Namespace, schema: Schema) -> Told:
    """Count, draw and write a table, and tell it: privacy first."""
    from onefold.fabrication import TableSynthesizer
    from onefold.tables import read_table

    schema = _for_unit(schema, args.unit)
    maker = TableSynthesizer(
        schema,
        args.epsilon,
        args.delta,
        structure=args.structure,
        neighbours=args.neighbours,
        ledger=args.ledger,
    )
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, schema=schema, private=True)
    with busy("counting", args.quiet):
        promise = maker.fit(table).guarantee_
    result: dict[str, Any] = {"holds": promise.holds, "promise": promise.to_dict()}
    words = [*shared.promise_in_words(promise, args.ledger), ""]
    with busy("drawing rows", args.quiet):
        made = maker.sample(MOCK_ROWS if args.mock and args.rows is None else args.rows)
        quality = maker.quality_
    n_rows = len(next(iter(made.values())))
    judged = quality.to_dict() | _forecast(args, schema, maker)
    guarantee = write_private_table(args.out, made, promise.to_dict(), schema)
    report = write_beside(args.out, QUALITY, judged)
    words += [MOCK] * args.mock + str(quality).splitlines()
    looked = _evaluated(args, schema, maker, made)
    if looked is not None:
        write_beside(args.out, QUALITY, {**judged, "evaluation": looked})
        result["evaluation"] = looked
        words += looked["text"]
    words.append(
        f"{n_rows} rows written to {args.out}, their guarantee to {guarantee}, their quality to {report}"
    )
    result |= {"table": args.out, "rows": n_rows, "guarantee": guarantee, "quality": report}
    return {**result, "mock": args.mock, "report": judged}, words


def _forecast(args: argparse.Namespace, schema: Schema, maker: TableSynthesizer) -> dict[str, Any]:
    """What other epsilons would give, for the page; many columns take a while, so only if there is one."""
    if args.report is None or not maker.guarantee_.holds:
        return {}
    with busy("forecasting other epsilons", args.quiet):
        return {"forecast": forecast_table(schema, maker.guarantee_, maker.n_rows_).numbers}


def forecast_table(schema: Schema, promise: Guarantee, n_rows: int) -> PrivacyUtilityDisplay:
    """The curve of a synthetic table, from its schema, its guarantee and its released number of rows."""
    from onefold.report.curves import table_forecast

    epsilon, delta = promise.record if promise.unit == "record" else promise.person or promise.record
    own = _for_unit(schema, promise.unit)
    if promise.schema not in (None, own.digest):
        raise InvalidInputError("this is not the schema that the table was made with")
    return table_forecast(own, epsilon, n_rows, promise.unit, delta, promise.neighbours)


def _mocked(args: argparse.Namespace, schema: Schema) -> Told:
    """A table of the schema's shape, from nothing else."""
    from onefold.fabrication import mock_table

    made = mock_table(schema, MOCK_ROWS if args.rows is None else args.rows)
    words = [NO_ROW_READ, MOCK]
    promise = {"holds": True, "epsilon": 0.0, "delta": 0.0, "text": NO_ROW_READ}
    n_rows = len(next(iter(made.values())))
    guarantee = write_private_table(args.out, made, promise, schema)
    report = write_beside(args.out, QUALITY, {"rows": n_rows, "mock": True, "text": MOCK})
    words.append(f"{n_rows} rows written to {args.out}")
    result = {"table": args.out, "rows": n_rows, "guarantee": guarantee, "quality": report, "mock": True}
    return {**result, "holds": True, "promise": promise}, words


# --- a look at other rows ---------------------------------------------------------------------------------


def _check_look(path: str | None, schema: Schema) -> None:
    """Refuse a look that could not work before anything is spent."""
    if path is None:
        return
    from onefold.tables.reading import open_table

    if schema.classes is None:
        raise InvalidInputError("--evaluate needs a schema with a label of classes")
    with open_table(path, private=True) as source:  # no cell decides what is said, or whether
        source.require(known.name for known in (*schema.features, schema.label, schema.person) if known)


def _evaluated(
    args: argparse.Namespace, schema: Schema, maker: TableSynthesizer, made: dict[str, AnyArray]
) -> dict[str, Any] | None:
    """How often a model trained on the synthetic table is right about rows of another table."""
    path = args.evaluate or args.evaluate_public
    if path is None:
        return None
    from onefold.audit.intervals import gain_interval
    from onefold.fabrication.synthesizer import try_rows
    from onefold.report.evaluation import Measure, class_verdict
    from onefold.tables import read_table

    with busy("trying a model", args.quiet):
        table = read_table(path, schema=schema, private=True)
        tried = try_rows(maker, schema, made, table, args.evaluate_epsilon, ledger=args.ledger)
    found: dict[str, Any] = {"public": tried.guarantee is None}
    cost, name = [], reports.file_name(path)
    if tried.guarantee is not None:
        (epsilon, delta), unit = tried.guarantee.person or tried.guarantee.record, tried.guarantee.unit
        found["promise"] = tried.guarantee.to_dict()
        cost.append(
            f"This look cost the rows of {name} epsilon {epsilon:g}, delta {delta:g} per {unit}; for those "
            "in DATA too it adds to what is said above."
        )
        if tried.error > MOST_ERROR:
            told = "Too few rows for this --evaluate-epsilon: noise hides the answer."
            return {**found, "text": [told, *cost]}
    elif tried.n_rows < 1:
        raise InvalidInputError(f"{path}: no row has a declared label")
    interval = None
    if schema.person is None:  # rows of one person are alike
        won, lost, n_rows = round(tried.counts[2]), round(tried.counts[1]), round(tried.n_rows)
        interval = tried.gain_interval if tried.sigma else gain_interval(won, lost, n_rows)
    found |= {"accuracy": tried.accuracy, "majority": tried.majority}
    where, noise = f"On the public rows of {name}", ""
    if tried.sigma:
        found["error"] = tried.error
        where = f"On the rows of {name}, counted with noise"
        noise = f" (noise moves both by up to {100 * tried.error:.2g})"
    told = (
        f"{where}: a model trained on the synthetic table is right about {100 * tried.accuracy:.1f} in 100, "
        f"the table's most frequent class alone about {100 * tried.majority:.1f}{noise}."
    )
    gain = tried.accuracy - tried.majority
    verdict = class_verdict([] if interval is None else [Measure("gain in accuracy", gain, interval, 0.0)])
    return {**found, "text": [f"{told} {verdict}.", *cost]}
