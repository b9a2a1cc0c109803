"""``onefold fit``: a table with a label column in, a model file out."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, without_bars
from onefold.cli.labels import agreement, labels_of, require_two_classes
from onefold.cli.outputs import check_writable
from onefold.cli.tables import Table, read_table
from onefold.exceptions import InvalidInputError

MEASURES = ("euclidean", "rms", "product", "min", "max", "fuzzy")
ONLY_WIDE = ("n_layers", "branch_size", "n_probe")
ONLY_FOLDING = ("batch_size",)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fit",
        help="fit a classifier to a table",
        description="Fit a classifier to a CSV, NPZ or Parquet file and store it.",
        epilog="CSV files need a header line. In an NPZ file, X holds the features and y (say) the labels. "
        "The model file contains the samples it was fitted on: it is as private as they are.",
    )
    parser.add_argument("data", metavar="DATA", help="table of samples: .csv, .npz or .parquet")
    parser.add_argument("--label", required=True, metavar="COL", help="column that holds the classes")
    parser.add_argument("--out", required=True, metavar="MODEL", help="file to write the model to")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="COL", help="column that is no feature (repeatable)"
    )
    parser.add_argument(
        "--test-size",
        type=kinds.fraction,
        metavar="F",
        help="share of rows to hold out for an accuracy; the model is fitted on the others",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
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
        "--n-components", type=whole, default=20, metavar="N", help="principal components (20)"
    )
    group.add_argument("--n-layers", type=whole, metavar="N", help="layers of a wide model (5)")
    group.add_argument(
        "--branch-size", type=whole, metavar="N", help="samples in a branch of a wide model (1000)"
    )
    group.add_argument(
        "--n-probe", type=whole, metavar="N", help="branches evaluated per class, wide model (all)"
    )
    group.add_argument(
        "--batch-size", type=whole, metavar="N", help="samples in a batch of a folding model (100)"
    )
    group.add_argument(
        "--measure", choices=MEASURES, help="distance to a class (wide: euclidean, folding: rms)"
    )
    group.add_argument(
        "--scale",
        type=kinds.scale,
        default="auto",
        metavar="none|auto|F",
        help="factor on the data while fitting: none, auto (the default) or a positive number",
    )
    group.add_argument("--n-jobs", type=kinds.jobs, metavar="N", help="threads, -1 for all processors")
    group.add_argument(
        "--seed", type=kinds.seed, default=0, metavar="N", help="seed of everything random (0)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, split if asked to, fit, store, tell."""
    _check_options(args)
    check_writable(args.out, args.data)
    with busy(f"reading {args.data}", args.quiet):
        table = read_table(args.data, keep=[args.label], ignore=args.ignore)
    y = labels_of(table, args.label)
    require_two_classes(table, args.label, y)
    train, held = _split(table, args.label, y, args)
    model = _model(args)
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
    _save(model, args.out)
    result["file_bytes"] = Path(args.out).stat().st_size
    _tell(result, args)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """An option of the other model is an error, not a silence."""
    for name in ONLY_FOLDING if args.model == "wide" else ONLY_WIDE:
        if getattr(args, name) is not None:
            raise InvalidInputError(f"--{name.replace('_', '-')} does not go with --model {args.model}")


def _model(args: argparse.Namespace) -> Any:
    """The estimator the options describe."""
    # Imported late, here and below: a mistake in the table is told without waiting for scikit-learn.
    from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM

    own = {n: getattr(args, n) for n in (*ONLY_WIDE, *ONLY_FOLDING) if getattr(args, n) is not None}
    shared = {"n_components": args.n_components, "scale": args.scale}
    measure = {} if args.measure is None else {"measure": args.measure}
    if args.model == "folding":
        return FoldingClassifier(**shared, **own, **measure, n_jobs=args.n_jobs)
    machine = WideKAHM(**shared, **own, random_state=args.seed)
    return AutoencoderClassifier(machine, **measure, n_jobs=args.n_jobs)


def _save(model: Any, path: str) -> None:
    from onefold import io

    io.save(model, path)


def _split(table: Table, label: str, y: Any, args: argparse.Namespace) -> tuple[Any, Any]:
    """Row numbers to fit and to hold out, each class in the same proportion."""
    rows = np.arange(y.size)
    if args.test_size is None:
        return rows, rows[:0]
    from sklearn.model_selection import train_test_split

    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise InvalidInputError(
            f"{table.path}: --test-size needs two rows or more of every class in {label!r}"
        )
    held = round(args.test_size * y.size)
    if not classes.size <= held <= y.size - classes.size:
        raise InvalidInputError(f"{table.path}: --test-size leaves too few rows for {classes.size} classes")
    train, test = train_test_split(rows, test_size=held, stratify=y, random_state=args.seed)
    return np.sort(train), np.sort(test)


def _tell(result: dict[str, Any], args: argparse.Namespace) -> None:
    if args.json:
        print_json(result)
        return
    if args.quiet:
        return
    size = result["file_bytes"] / 1e6
    print("{rows} rows, {features} features, {classes} classes fitted in {seconds:.2f} s".format(**result))
    if "held_out_accuracy" in result:
        print("accuracy {held_out_accuracy:.4f} on {held_out_rows} rows held out".format(**result))
    print(
        f"model written to {args.out} ({size:.2f} MB); it contains the fitted samples, guard it like the data"
    )
