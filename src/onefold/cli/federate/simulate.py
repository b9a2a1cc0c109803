"""``onefold federate simulate``: what joining a federation would bring, in one process, with no network."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import option
from onefold.cli.console import count_of, say, show
from onefold.cli.federate import common
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema, read_table
from onefold.tables.rows import Rows, may_be_amounts, rows
from onefold.tables.tasks import CLASSES, NUMBERS

if TYPE_CHECKING:
    from onefold.federated import RegressionSimulation, Simulation

WAYS = ("iid", "dirichlet", "classes", "sorted")
METHODS = ("auto", "joined", "folding", "moments")
LIES = ("zero", "random", "flipped", "shrunk")
SUMS_TRAVELLED = (
    "Exact sums of rows travelled, which reveal rows; federate site sends none unless it is told to "
    "(--send-plain-sums)."
)
NO_NOISE = "No noise was added: this says nothing about privacy."


def add_simulate(parts: Any) -> None:
    """Declare the command."""
    parser = parts.add_parser(
        "simulate",
        help="simulate a whole federation in one process",
        description="Spread a table over several sites, fit a model at each, combine their answers in one "
        "round, and compare with one model of all rows. Nothing leaves this process, and no noise is added "
        "unless --epsilon asks for it.",
    )
    shared.add_data(parser)
    label = "column that holds the classes, or the numbers to predict; needed without --schema"
    option(parser, "--label COL", label)
    shared.add_task(parser, "what to predict, a class or a number (default: what the label column holds)")
    shared.add_ignore(parser)
    common.add_schema(parser)
    shared.add_sites(parser)
    method = "what sites send: answers and sums, answers alone, or sums alone"
    option(parser, "--method", method, default="auto", choices=METHODS)
    ways = "how rows are spread over the sites (default: dirichlet; iid for numbers to predict)"
    option(parser, "--partition", ways, choices=WAYS)
    alpha = "concentration for --partition dirichlet; a smaller one makes the sites less alike"
    option(parser, "--alpha A", alpha, shared.positive, 0.3)
    few = "number of classes at each site, for --partition classes"
    option(parser, "--classes-per-site N", few, shared.whole, 2)
    common.add_rule_options(parser, default="min")
    lie = "let the first F sites (see --liars) send false answers of this kind"
    option(parser, "--lie", lie, choices=LIES)
    option(parser, "--seed N", "seed with which the rows are spread", shared.seed, 0)
    option(parser, "--epsilon E", "epsilon of each site's noise, for numbers to predict", shared.positive)
    option(parser, "--delta D", "delta of the noise, with --epsilon", shared.fraction, 1e-5)
    reports.add_report(parser, card=False)
    common.ends(parser, run_simulate)


def run_simulate(args: argparse.Namespace) -> int:
    """Read, simulate, tell."""
    if args.sites < 2:
        raise InvalidInputError("--sites must be at least 2: one site alone is no federation")
    if args.lie is not None and args.liars >= args.sites:
        raise InvalidInputError("--liars must be smaller than --sites: at least one site has to be honest")
    common.check_rule(args.rule, args.held_out)
    reports.check_report(args)
    schema = common.schema_of(args)
    if schema.plain and args.label is None:
        raise InvalidInputError("--label COL is missing, or --schema FILE that names the column")
    if args.task == NUMBERS.name or (args.task is None and schema.predicts_number):
        return _run_numbers(args, schema)
    if args.epsilon is not None or args.partition == "sorted":
        raise InvalidInputError("--epsilon and --partition sorted are for numbers to predict")
    if not schema.plain:
        return _run_classes(args, read_table(args.data, schema=schema), None, schema)
    found = _undeclared(args)
    if found.task is NUMBERS:
        return _run_numbers(args, schema, found)
    if not found.schema.plain:
        say(found.summary, args.json)
    return _run_classes(args, found.X, found.y, found.schema)


def _finish(
    args: argparse.Namespace,
    result: Simulation | RegressionSimulation,
    told: dict[str, Any],
    words: list[str],
    settings: dict[str, Any],
    remarks: list[str],
) -> int:
    """Write the report if one is wanted, and tell."""
    if args.report is not None:
        from onefold.report.federations import of_simulation

        title = f"Federation of {reports.file_name(args.data)}, simulated"
        page = of_simulation(title, result, settings, remarks)
        words.append(reports.written(args.report, page))
    show(told, words, as_json=args.json)
    return 0


# --- classes ------------------------------------------------------------------------------------------------


def _run_classes(args: argparse.Namespace, X: Any, y: Any, schema: Schema) -> int:
    from onefold.federated import simulate

    args.partition = "dirichlet" if args.partition is None else args.partition
    spread = {"dirichlet": {"alpha": args.alpha}, "classes": {"classes_per_client": args.classes_per_site}}
    result = simulate(
        X,
        y,
        args.sites,
        args.partition,
        method=args.method,
        schema=schema,
        rule=args.rule,
        n_liars=args.liars,
        random_state=args.seed,
        liars=None if args.lie is None else dict.fromkeys(range(args.liars), args.lie),
        labelled=common.held_out_rows(args.held_out, args.label, args.ignore, schema),
        **spread.get(args.partition, {}),
    )
    told = {"sites": args.sites, "test_rows": result.n_test, "rule": args.rule}
    told |= {"method": result.method, "sum_bytes": result.sum_bytes}
    told |= {"lie": args.lie, "alone": list(result.alone), "pooled": result.pooled}
    told |= {"federated": result.federated, "honest": result.honest, "guarantee": None}
    words = _compared(result, args.sites, args.rule, args.lie, args.liars)
    settings = {"sites": args.sites, "what the sites sent": result.method, "rule": args.rule}
    settings |= {"how rows were spread": args.partition, "seed": args.seed}
    if args.lie is not None:
        settings |= {"lying sites": args.liars, "what they send": args.lie}
    # The verdict of the report says that there was no noise.
    return _finish(args, result, told, words, settings, _caveats(result)[:-1])


def _undeclared(args: argparse.Namespace) -> Rows:
    """Rows of a table without a declared schema: numbers as they stand, unless there are texts or gaps."""
    given = {"label": args.label, "ignore": args.ignore}
    try:
        found = rows(args.data, "numbers", **given, task=CLASSES.name)
        if args.task is not None or not may_be_amounts(found):
            return found
    except InvalidInputError:
        pass  # for texts and gaps; and an amount is no class
    return rows(args.data, **given, encoders=shared.encoders_of(args), task=args.task or "auto")


def _compared(result: Simulation, n_sites: int, rule: str, lie: str | None, n_liars: int) -> list[str]:
    from onefold.report.federations import simulated_verdict

    alone = sorted(result.alone)
    words = [
        f"{n_sites} sites, {result.n_test} rows for testing, rule {rule}, accuracies:",
        f"alone      {alone[0]:.4f} to {alone[-1]:.4f}, {sum(alone) / len(alone):.4f} on average",
        f"federated  {result.honest:.4f}, one round",
    ]
    if lie is not None:
        words.append(
            f"lying      {result.federated:.4f}, the same with {count_of(n_liars, 'lying site')}: {lie}"
        )
    words.append(f"pooled     {result.pooled:.4f}, all rows in one place")
    words.append(f"federated: {simulated_verdict(result)}")
    return [*words, *_caveats(result)]


def _caveats(result: Simulation) -> list[str]:
    return [*[SUMS_TRAVELLED] * (result.method != "folding"), NO_NOISE]


# --- numbers to predict -------------------------------------------------------------------------------------


def _check_numbers(args: argparse.Namespace) -> None:
    """Refuse options about classes and answers, and choose what was left open."""
    if args.method not in ("auto", "moments"):
        raise InvalidInputError(f"--method {args.method} is for classes: numbers take moments (sums)")
    args.partition = "iid" if args.partition is None else args.partition
    if args.partition not in ("iid", "sorted"):
        raise InvalidInputError(
            f"--partition {args.partition} spreads classes: give iid, or sorted by the number to predict"
        )
    if args.rule != "min" or args.lie is not None or args.held_out is not None:
        raise InvalidInputError("--rule, --lie and --held-out are for classes: leave them out for numbers")


def _run_numbers(args: argparse.Namespace, schema: Any, read: Rows | None = None) -> int:
    """Read by the schema, unless rows were read by one that was inferred; simulate, tell."""
    from onefold.federated import simulate_regression
    from onefold.report.federations import SIMULATED

    _check_numbers(args)
    table: Any = None
    if not schema.plain:
        table = read_table(args.data, schema=schema)
    else:
        if args.epsilon is not None:
            raise InvalidInputError("--epsilon needs --schema FILE: noise is in units of declared ranges")
        given: dict[str, Any] = {"label": args.label, "ignore": args.ignore, "task": NUMBERS.name}
        read = read or rows(args.data, encoders=shared.encoders_of(args), **given)
        table, schema = dict(read.X) | {read.label: read.y}, read.schema
    if schema.source == "private":
        # Sites of a real federation declare one like it; here nothing is promised and nothing leaves.
        schema = Schema(**(schema.get_params(deep=False) | {"source": "public"}))
    result = simulate_regression(
        table,
        n_clients=args.sites,
        spread="sorted" if args.partition == "sorted" else "even",
        schema=schema,
        epsilon=args.epsilon,
        delta=args.delta,
        random_state=args.seed,
    )
    told = {
        "task": "regression",
        "sites": args.sites,
        "test_rows": result.n_test,
        "method": "moments",
        "sum_bytes": result.n_bytes,
        "rmse": {
            "mean": result.rmse_mean,
            "alone": list(result.rmse_alone),
            "federated": result.rmse,
            "pooled": result.rmse_pooled,
        },
        "r2": {"alone": result.r2_alone.tolist(), "federated": result.r2, "pooled": result.r2_pooled},
        "guarantee": None if args.epsilon is None else result.guarantee.to_dict(),
    }
    told |= {} if told["guarantee"] is None else {"not_covered": SIMULATED}
    words = _compared_numbers(result, args)
    words += [NO_NOISE] if args.epsilon is None else [SIMULATED, *shared.promise_in_words(result.guarantee)]
    settings = {"partition": args.partition, "seed": args.seed, "epsilon": args.epsilon}
    return _finish(args, result, told, words, settings, words)


def _compared_numbers(result: RegressionSimulation, args: argparse.Namespace) -> list[str]:
    from onefold.report.federations import simulated_verdict

    alone = sorted(result.rmse_alone)
    r2 = "{:.3f}".format
    return [
        f"{args.sites} sites, {result.n_test} rows for testing, method moments, root mean square "
        "errors (and R2):",
        f"mean       {result.rmse_mean:.4g}, always predicting the mean",
        f"alone      {alone[0]:.4g} to {alone[-1]:.4g}, {math.fsum(alone) / len(alone):.4g} on average",
        f"federated  {result.rmse:.4g} ({r2(result.r2)}), one round",
        f"pooled     {result.rmse_pooled:.4g} ({r2(result.r2_pooled)}), all rows in one place, without noise",
        f"federated: {simulated_verdict(result)}",
        *[SUMS_TRAVELLED] * (args.epsilon is None),
    ]
