"""``onefold release --sweep``: what privacy costs a learner, as a figure."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onefold.cli import arguments as kinds
from onefold.cli.console import print_json, say, without_bars
from onefold.cli.mixed import MixedTable
from onefold.cli.outputs import STANDARD_OUTPUT, check_writable
from onefold.cli.release_declared import declared
from onefold.exceptions import InvalidInputError

MOST_CLASSES = 50


def add_options(group: Any) -> None:
    """Options of the curve."""
    group.add_argument("--sweep", action="store_true", help="draw utility against privacy, release nothing")
    group.add_argument("--repetitions", type=kinds.positive_int, default=10, metavar="N", help="fits (10)")
    group.add_argument(
        "--rows", type=kinds.positive_int, default=2000, metavar="N", help="used at most (2000)"
    )
    group.add_argument("--learner", choices=("auto", "svm", "regression"), default="auto", help="who learns")
    group.add_argument("--seed", type=kinds.seed, metavar="S", help="of the curve only, never of a release")


def check(args: argparse.Namespace) -> None:
    """Refuse what could not work before the data are read."""
    from onefold.report.figures import check_figure_format

    if args.label is None:
        raise InvalidInputError("--sweep needs --label: somebody has to learn something")
    for name in ("lam", "adversary_error", "epsilon", "keep_classifier", "label_epsilon"):
        if getattr(args, name) is not None:
            raise InvalidInputError(f"--sweep releases nothing: leave out --{name.replace('_', '-')}")
    if args.out == STANDARD_OUTPUT:
        raise InvalidInputError("--sweep draws a figure: name a file")
    check_figure_format(args.out)
    check_writable(args.out, args.data)


def run(args: argparse.Namespace, table: MixedTable) -> int:
    """Fit on noisy rows over a range of lam, write the figure, tell."""
    from sklearn.model_selection import train_test_split

    from onefold.release import sweep
    from onefold.report.figures import write_curve

    codec = declared(args, table)
    X, y = codec.encode(table.features), table.columns[args.label]
    learner, measure = _learner(args, y)
    rng = np.random.default_rng(args.seed)
    if len(X) > args.rows:
        say(f"{args.rows} of {len(X)} rows are used (--rows)", args.quiet)
        chosen = rng.permutation(len(X))[: args.rows]
        X, y = X[chosen], y[chosen]
    if len(X) < 8:
        raise InvalidInputError(f"{args.data}: too few rows for a curve")
    parts = train_test_split(X, y, test_size=0.25, random_state=int(rng.integers(2**31)))
    train, test, y_train, y_test = parts
    if measure == "accuracy" and len(np.unique(y_train)) < 2:
        raise InvalidInputError(f"{args.data}: label column {args.label!r} has one class only, or nearly so")
    with without_bars(args.quiet):
        curve = sweep(
            train,
            y_train,
            np.logspace(-4, 8, 9).tolist(),
            learner,
            sensitivity=codec.domain,
            delta=args.delta,
            repetitions=args.repetitions,
            scoring=measure,
            X_test=test,
            y_test=y_test,
            random_state=rng,
        )
    title = f"{table.path.name}: {args.label} learnt from released rows"
    write_curve(args.out, curve, title, _errors(codec, curve), void=bool(codec.inferred))
    _tell(args, codec, curve)
    return 0


def _learner(args: argparse.Namespace, y: Any) -> tuple[Any, str]:
    from sklearn.linear_model import LinearRegression
    from sklearn.multiclass import OneVsRestClassifier

    from onefold.release import RobustSVM

    fractions = y.dtype.kind == "f" and not np.array_equal(y, np.round(y))
    kind = args.learner
    if kind == "auto":
        many = y.dtype.kind in "iuf" and len(np.unique(y)) > MOST_CLASSES
        kind = "regression" if fractions or many else "svm"
    if kind == "regression":
        if y.dtype.kind not in "iuf":
            raise InvalidInputError(f"{args.data}: a regression needs numbers in {args.label!r}")
        return LinearRegression(), "r2"
    if fractions:
        raise InvalidInputError(
            f"{args.data}: label column {args.label!r} holds fractions: --learner regression"
        )
    classes = len(np.unique(y))
    if classes < 2:
        raise InvalidInputError(f"{args.data}: label column {args.label!r} has one class only")
    return (RobustSVM() if classes == 2 else OneVsRestClassifier(RobustSVM())), "accuracy"


def _errors(codec: Any, curve: Any) -> dict[str, Any] | None:
    """For the lower axis: the first column of numbers, in its units."""
    numbers = [column for column in codec.columns if column.range is not None]
    if not numbers:
        return None
    first = numbers[0]
    at = codec.position(first.name)
    return {f"least error for {first.name}": [s.standard_errors[at] * first.width for s in curve.strengths]}


def _tell(args: argparse.Namespace, codec: Any, curve: Any) -> None:
    note = "these scores come from raw rows: choosing lam by them is not covered by any guarantee"
    if args.json:
        inferred = "ranges were taken from the data" if codec.inferred else ""
        print_json({"figure": args.out, **curve.to_dict(), "note": note, "void": inferred})
        return
    if args.quiet:
        return
    from onefold.report import format_table

    rows = [
        (f"{s.lam:g}", f"{s.epsilon:.3g}", *(float(curve.mean(noise)[i]) for noise in curve.scores))
        for i, s in enumerate(curve.strengths)
    ]
    print(f"figure written to {args.out}; {curve.measure} on raw rows {curve.baseline:.4f}")
    print(format_table(["lam", f"epsilon per record, delta {args.delta:g}", *curve.scores], rows))
    if codec.inferred:
        print("VOID: ranges or categories were taken from the data; these epsilons do NOT hold.")
    print(f"Labels and class sizes are not covered; {note}.")
