"""``onefold fit``: a table with a label column in, a model file out."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Index
from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, without_bars
from onefold.cli.outputs import check_writable
from onefold.cli.tables import Table, agreement, labels_of, read_table, require_two_classes
from onefold.exceptions import InvalidInputError

MEASURES = ("euclidean", "rms", "product", "min", "max", "fuzzy")
ONLY_WIDE = ("n_layers", "branch_size", "n_probe")
ONLY_FOLDING = ("batch_size",)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fit",
        description="Fit a classifier to a CSV, NPZ or Parquet file and store it.",
        epilog="CSV files need a header line. In an NPZ file, X holds the features and y (say) the labels. "
        "The model file contains the samples it was fitted on: it is as private as they are.",
    )
    kinds.add_data(parser)
    parser.add_argument("--label", required=True, metavar="COL", help="column that holds the classes")
    parser.add_argument("--out", required=True, metavar="MODEL", help="file to write the model to")
    kinds.add_ignore(parser)
    parser.add_argument(
        "--test-size",
        type=kinds.fraction,
        metavar="F",
        help="share of the rows to hold out and test on; the model is fitted on the others (default: none)",
    )
    kinds.add_output_options(parser)
    _add_model_options(parser.add_argument_group("model"))
    parser.set_defaults(run=run)


def _add_model_options(group: Any) -> None:
    group.add_argument(
        "--model",
        choices=("wide", "folding"),
        default="wide",
        help="wide: deep machines on clusters (default); folding: one-layer machines on small batches",
    )
    whole = kinds.positive_int
    group.add_argument(
        "--n-components",
        type=whole,
        default=20,
        metavar="N",
        help="number of principal components each machine uses (default: 20)",
    )
    group.add_argument(
        "--n-layers", type=whole, metavar="N", help="number of layers of a wide model (default: 5)"
    )
    group.add_argument(
        "--branch-size", type=whole, metavar="N", help="samples in a branch of a wide model (default: 1000)"
    )
    group.add_argument(
        "--n-probe",
        type=whole,
        metavar="N",
        help="branches of each class that a wide model evaluates for a row (default: all)",
    )
    group.add_argument(
        "--batch-size", type=whole, metavar="N", help="samples in a batch of a folding model (default: 100)"
    )
    group.add_argument(
        "--measure",
        choices=MEASURES,
        help="measure of how far a row is from a class (default: euclidean for wide, rms for folding)",
    )
    group.add_argument(
        "--scale",
        type=kinds.scale,
        default="auto",
        metavar="none|auto|F",
        help="factor applied to the data before fitting: none, auto or a positive number (default: auto)",
    )
    group.add_argument(
        "--n-jobs", type=kinds.jobs, metavar="N", help="number of threads; -1 uses all processors"
    )
    group.add_argument(
        "--seed", type=kinds.seed, default=0, metavar="N", help="seed of everything random (default: 0)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, split if asked to, fit, store, tell."""
    own = {n: getattr(args, n) for n in (*ONLY_WIDE, *ONLY_FOLDING) if getattr(args, n) is not None}
    measure = {} if args.measure is None else {"measure": args.measure}
    _check_options(args.model, own)
    check_writable(args.out, args.data)
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    y = labels_of(table, args.label)
    require_two_classes(table, args.label, y)
    train, held = _split(table, args.label, y, args.test_size, args.seed)
    # Imported late: a mistake in the table is told without waiting for scikit-learn.
    from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM, io

    own |= {"n_components": args.n_components, "scale": args.scale}
    if args.model == "folding":
        model: Any = FoldingClassifier(**own, **measure, n_jobs=args.n_jobs)
    else:
        machine = WideKAHM(**own, random_state=args.seed)
        model = AutoencoderClassifier(machine, **measure, n_jobs=args.n_jobs)
    started = time.perf_counter()
    with without_bars(args.quiet):  # fitting shows a bar of its own
        model.fit(table.values[train], y[train])
    result = {
        "model": args.out,
        "kind": args.model,
        "rows": int(train.size),
        "features": int(table.values.shape[1]),
        "classes": int(model.classes_.size),
        "seconds": round(time.perf_counter() - started, 3),
    }
    if held.size:
        with busy(f"testing {held.size} rows", args.quiet):
            accuracy = agreement(model.predict(table.values[held]), y[held])
        result |= {"held_out_rows": int(held.size), "held_out_accuracy": accuracy}
    if table.names is not None:
        # The scikit-learn attribute for columns with names; set after fit because a plain array went in.
        model.feature_names_in_ = np.array(table.names, dtype=object)
    io.save(model, args.out)
    result["file_bytes"] = Path(args.out).stat().st_size
    if args.json:
        print_json(result)
    elif not args.quiet:
        print("\n".join(_in_words(result)))
    return 0


def _check_options(kind: str, given: dict[str, Any]) -> None:
    """Refuse an option of the other kind of model instead of passing it over."""
    for name in ONLY_FOLDING if kind == "wide" else ONLY_WIDE:
        if name in given:
            raise InvalidInputError(f"--{name.replace('_', '-')} does not go with --model {kind}")


def _split(table: Table, label: str, y: AnyArray, test_size: float | None, seed: int) -> tuple[Index, Index]:
    """Row numbers to fit and to hold out, each class in the same proportion."""
    rows = np.arange(y.size)
    if test_size is None:
        return rows, rows[:0]
    from sklearn.model_selection import train_test_split

    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise InvalidInputError(
            f"{table.path}: --test-size needs two rows or more of every class in {label!r}"
        )
    held = round(test_size * y.size)
    if not classes.size <= held <= y.size - classes.size:
        raise InvalidInputError(f"{table.path}: --test-size leaves too few rows for {classes.size} classes")
    train, test = train_test_split(rows, test_size=held, stratify=y, random_state=seed)
    return np.sort(train), np.sort(test)


def _in_words(result: dict[str, Any]) -> list[str]:
    lines = ["{rows} rows, {features} features, {classes} classes fitted in {seconds:.2f} s"]
    if "held_out_accuracy" in result:
        lines.append("accuracy {held_out_accuracy:.4f} on {held_out_rows} rows held out")
    size = result["file_bytes"] / 1e6
    lines.append(
        f"model written to {{model}} ({size:.2f} MB); it contains the fitted samples, guard it like the data"
    )
    return [line.format(**result) for line in lines]
