"""``onefold release --sweep``: what privacy costs a learner, as a figure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli import arguments as kinds
from onefold.cli.console import print_json, say, without_bars
from onefold.cli.outputs import STANDARD_OUTPUT, MixedTable, check_writable
from onefold.exceptions import InvalidInputError

MOST_CLASSES = 50


class CurveSettings(NamedTuple):
    """How the curve is made."""

    repetitions: int
    rows: int
    learner: str
    seed: int | None


def add_options(group: Any) -> None:
    """Options of the curve."""
    group.add_argument(
        "--sweep", action="store_true", help="draw utility against privacy instead of releasing rows"
    )
    group.add_argument(
        "--repetitions",
        type=kinds.positive_int,
        default=10,
        metavar="N",
        help="number of noisy tables fitted for each point of the curve (default: 10)",
    )
    group.add_argument(
        "--rows",
        type=kinds.positive_int,
        default=2000,
        metavar="N",
        help="largest number of rows used for the curve (default: 2000)",
    )
    group.add_argument(
        "--learner",
        choices=("auto", "svm", "regression"),
        default="auto",
        help="model fitted to the noisy tables (default: auto, chosen by the label)",
    )
    group.add_argument(
        "--seed", type=kinds.seed, metavar="S", help="seed of the curve; a release never has a seed"
    )


def check(data: str, out: str, label: str | None, given: list[str]) -> None:
    """Refuse what could not work before the data are read; ``given`` are options of a release."""
    from onefold.report.figures import check_figure_format

    if label is None:
        raise InvalidInputError("--sweep needs --label: the column that is learnt")
    if given:
        raise InvalidInputError(f"--sweep releases nothing: leave out {given[0]}")
    if out == STANDARD_OUTPUT:
        raise InvalidInputError("--sweep draws a figure: name a file")
    check_figure_format(out)
    check_writable(out, data)


def draw(
    table: MixedTable, codec: Any, settings: CurveSettings, delta: float, out: str, *, json: bool, quiet: bool
) -> int:
    """Fit on noisy rows over a range of lam, write the figure, tell."""
    from sklearn.model_selection import train_test_split

    from onefold.release import sweep
    from onefold.report.figures import write_curve

    label = str(table.label)
    X, y = codec.encode(table.features), table.columns[label]
    where = f"{table.path}: label column {label!r}"
    learner, measure = _learner(settings.learner, y, where)
    rng = np.random.default_rng(settings.seed)
    if len(X) > settings.rows:
        say(f"{settings.rows} of {len(X)} rows are used (--rows)", quiet)
        chosen = rng.permutation(len(X))[: settings.rows]
        X, y = X[chosen], y[chosen]
    if len(X) < 8:
        raise InvalidInputError(f"{table.path}: too few rows for a curve")
    parts = train_test_split(X, y, test_size=0.25, random_state=int(rng.integers(2**31)))
    train, test, y_train, y_test = parts
    if measure == "accuracy" and len(np.unique(y_train)) < 2:
        raise InvalidInputError(f"{where} has one class only, or nearly so")
    with without_bars(quiet):
        curve = sweep(
            train,
            y_train,
            np.logspace(-4, 8, 9).tolist(),
            learner,
            sensitivity=codec.domain,
            delta=delta,
            repetitions=settings.repetitions,
            scoring=measure,
            X_test=test,
            y_test=y_test,
            random_state=rng,
        )
    title = f"{table.path.name}: {label} learnt from released rows"
    write_curve(out, curve, title, _errors(codec, curve), void=bool(codec.inferred))
    note = "these scores come from raw rows: choosing lam by them is not covered by any guarantee"
    if json:
        inferred = "ranges were taken from the data" if codec.inferred else ""
        print_json({"figure": out, **curve.to_dict(), "note": note, "void": inferred})
    elif not quiet:
        print(f"figure written to {out}; {curve.measure} on raw rows {curve.baseline:.4f}")
        print(_in_words(curve, delta))
        if codec.inferred:
            print("VOID: ranges or categories were taken from the data; these epsilons do NOT hold.")
        print(f"Labels and class sizes are not covered; {note}.")
    return 0


def _learner(kind: str, y: AnyArray, where: str) -> tuple[Any, str]:
    """The model to fit and the measure of its success."""
    from sklearn.linear_model import LinearRegression
    from sklearn.multiclass import OneVsRestClassifier

    from onefold.release import RobustSVM

    fractions = y.dtype.kind == "f" and not np.array_equal(y, np.round(y))
    if kind == "auto":
        many = y.dtype.kind in "iuf" and len(np.unique(y)) > MOST_CLASSES
        kind = "regression" if fractions or many else "svm"
    if kind == "regression":
        if y.dtype.kind not in "iuf":
            raise InvalidInputError(f"{where} holds text: a regression needs numbers")
        return LinearRegression(), "r2"
    if fractions:
        raise InvalidInputError(f"{where} holds fractions: --learner regression")
    classes = len(np.unique(y))
    if classes < 2:
        raise InvalidInputError(f"{where} has one class only")
    return (RobustSVM() if classes == 2 else OneVsRestClassifier(RobustSVM())), "accuracy"


def _errors(codec: Any, curve: Any) -> dict[str, Any] | None:
    """For the lower axis: the first column of numbers, in its units."""
    numbers = [column for column in codec.columns if column.range is not None]
    if not numbers:
        return None
    first = numbers[0]
    at = codec.position(first.name)
    return {f"least error for {first.name}": [s.standard_errors[at] * first.width for s in curve.strengths]}


def _in_words(curve: Any, delta: float) -> str:
    from onefold.report import format_table

    rows = [
        (f"{s.lam:g}", f"{s.epsilon:.3g}", *(float(curve.mean(noise)[i]) for noise in curve.scores))
        for i, s in enumerate(curve.strengths)
    ]
    return str(format_table(["lam", f"epsilon per record, delta {delta:g}", *curve.scores], rows))
