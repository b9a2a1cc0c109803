"""``onefold fit``: a table with a label column in, a model file out."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Index
from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import busy, show, without_bars
from onefold.cli.outputs import check_writable
from onefold.cli.tables import agreement, read_labelled
from onefold.exceptions import InvalidInputError

ONLY_WIDE = ("n_layers", "branch_size", "n_probe")
ONLY_FOLDING = ("batch_size",)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fit",
        description="Fit a classifier to a CSV, NPZ or Parquet file and store it.",
        epilog="A CSV file needs a header line. An NPZ file holds the features in an array X and the labels "
        "in another, for example y. The model file contains the rows it was fitted on: guard it like them.",
    )
    shared.add_data(parser)
    shared.add_label(parser)
    option(parser, "--out MODEL", "file to write the model to", required=True)
    shared.add_ignore(parser)
    held_out = "share of the rows to hold out and test on; the model is fitted on the others (default: none)"
    option(parser, "--test-size F", held_out, shared.fraction)
    shared.add_output_options(parser)
    group = parser.add_argument_group("model")
    shared.add_model_options(group)
    option(group, "--n-layers N", "number of layers of a wide model (default: 5)", shared.whole)
    option(group, "--branch-size N", "rows in a branch of a wide model (default: 1000)", shared.whole)
    probe = "number of branches of each class that a wide model evaluates for a row (default: all)"
    option(group, "--n-probe N", probe, shared.whole)
    option(group, "--batch-size N", "rows in a batch of a folding model (default: 100)", shared.whole)
    scale = "factor applied to the data before fitting: none, auto or a positive number"
    option(group, "--scale none|auto|F", scale, shared.scale, "auto")
    option(group, "--n-jobs N", "number of threads (default: all processors)", shared.jobs)
    option(group, "--seed N", "seed of everything random", shared.seed, 0)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, split if asked to, fit, store, tell."""
    own = {n: getattr(args, n) for n in (*ONLY_WIDE, *ONLY_FOLDING) if getattr(args, n) is not None}
    _check_options(args.model, own)
    check_writable(args.out, args.data)
    table, y = read_labelled(args.data, args.label, ignore=args.ignore, quiet=args.quiet)
    train, held = _split(args.data, args.label, y, args.test_size, args.seed)
    # Imported late, here and below: a mistake in the table is told without waiting for scikit-learn.
    from onefold import io

    own |= {"n_components": args.n_components, "scale": None if args.scale == "none" else args.scale}
    model = shared.classifier_of(args.model, measure=args.measure, seed=args.seed, n_jobs=args.n_jobs, **own)
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
    show(result, _in_words(result), as_json=args.json, quiet=args.quiet)
    return 0


def _check_options(kind: str, given: dict[str, Any]) -> None:
    """Refuse an option of the other kind of model instead of passing it over."""
    for name in ONLY_FOLDING if kind == "wide" else ONLY_WIDE:
        if name in given:
            raise InvalidInputError(f"--{name.replace('_', '-')} does not go with --model {kind}")


def _split(path: str, label: str, y: AnyArray, test_size: float | None, seed: int) -> tuple[Index, Index]:
    """Row numbers to fit and to hold out, each class in the same proportion."""
    rows = np.arange(y.size)
    if test_size is None:
        return rows, rows[:0]
    from sklearn.model_selection import train_test_split

    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise InvalidInputError(f"{path}: --test-size needs two rows or more of every class in {label!r}")
    held = round(test_size * y.size)
    if not classes.size <= held <= y.size - classes.size:
        raise InvalidInputError(f"{path}: --test-size leaves too few rows for {classes.size} classes")
    train, test = train_test_split(rows, test_size=held, stratify=y, random_state=seed)
    return np.sort(train), np.sort(test)


def _in_words(result: dict[str, Any]) -> list[str]:
    lines = ["{rows} rows, {features} features, {classes} classes fitted in {seconds:.2f} s"]
    if "held_out_accuracy" in result:
        lines.append("accuracy {held_out_accuracy:.4f} on {held_out_rows} rows held out")
    size = result["file_bytes"] / 1e6
    lines.append(
        f"model written to {{model}} ({size:.2f} MB); it contains the fitted rows: guard it like the data"
    )
    return [line.format(**result) for line in lines]
