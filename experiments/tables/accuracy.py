"""Accuracy of the default classifier on ordinary tables, beside a linear model, SVC and boosting.

Every table is split three times; at most ``--rows`` training rows. The schema is inferred from the training
rows, nothing is tuned, and the test rows are looked at once. WESAD is split by person.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments import harness
from experiments.harness import Outcome, Table
from experiments.tables.data import NEEDS_FILES, TABLES, Rows
from onefold import AutoencoderClassifier
from onefold.tables import Schema

METHODS = ("majority", "linear", "without head", "onefold", "SVC", "boosting")


def split(table: Rows, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to fit and to test: 70 % and 30 %, no person in both."""
    rows = np.arange(len(table))
    if table.groups is None:
        train, test = train_test_split(rows, test_size=0.3, random_state=seed, stratify=table.y)
    else:
        train, test = next(
            GroupShuffleSplit(1, test_size=0.3, random_state=seed).split(rows, groups=table.groups)
        )
        train = np.random.default_rng(seed).permutation(train)
    return train[:most], test


def scores(table: Rows, seed: int, most: int) -> dict[str, float]:
    """Accuracy of every method on one split."""
    train, test = split(table, seed, most)
    rows, queries, y, truth = table.part(train), table.part(test), table.y[train], table.y[test]
    schema = Schema.infer(rows, table.label, source="private")
    encoded, encoded_queries = schema.transform(rows), schema.transform(queries)
    classes, counts = np.unique(y, return_counts=True)
    found = {"majority": float(np.mean(truth == classes[counts.argmax()]))}
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(encoded, y)
    found["linear"] = linear.score(encoded_queries, truth)
    machine = make_pipeline(StandardScaler(), SVC()).fit(encoded, y)
    found["SVC"] = machine.score(encoded_queries, truth)
    columns, their_queries = (raw_columns(schema, part) for part in (rows, queries))
    nominal = [known.is_category for known in schema.features]
    boosting = HistGradientBoostingClassifier(categorical_features=nominal, random_state=0).fit(columns, y)
    found["boosting"] = boosting.score(their_queries, truth)
    for name, head in (("without head", None), ("onefold", "auto")):
        model = AutoencoderClassifier(schema=schema, head=head).fit(rows, y)
        found[name] = float(np.mean(model.predict(queries) == truth))
    return found


def raw_columns(schema: Schema, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Numbers as they stand and numbers of categories, NaN where missing: what boosting likes best."""
    parsed = schema.parse(rows, strict=False)
    columns = [
        np.where(np.isnan(c := parsed[f.name].astype(float)) | ((c < 0) & f.is_category), np.nan, c)
        for f in schema.features
    ]
    return np.column_stack(columns)


def experiment(args: argparse.Namespace) -> Outcome:
    names = [name for name in TABLES if not (args.quick and name in NEEDS_FILES)]
    splits = 1 if args.quick else args.splits
    values: dict[str, float] = {}
    lines, gaps = [], []
    for name in names:
        table = TABLES[name](args.data_dir)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [scores(table, seed, 300 if args.quick else args.rows) for seed in range(splits)]
        mean = {method: float(np.mean([each[method] for each in found])) for method in METHODS}
        gap = max(mean["SVC"], mean["boosting"]) - mean["onefold"]
        gaps.append(gap)
        values |= {f"{name}: {method}": mean[method] for method in METHODS}
        lines.append([name, len(table), *(f"{mean[method]:.3f}" for method in METHODS), f"{100 * gap:+.1f}"])
        harness.note(f"{name}: {mean['onefold']:.3f}, better peer {max(mean['SVC'], mean['boosting']):.3f}")
    values |= {"mean gap": float(np.mean(gaps)), "worst gap": float(max(gaps))}
    lines.append(["mean", "", *[""] * len(METHODS), f"{100 * np.mean(gaps):+.1f}"])
    title = f"Accuracy, mean of {splits} splits, at most {args.rows} training rows; gap to the better peer"
    return Outcome(values, [Table(title, ["table", "rows", *METHODS, "gap"], lines)])


def main(arguments: list[str] | None = None) -> int:
    options = harness.parser(__doc__)
    options.add_argument(
        "--rows", type=int, default=2500, help="largest number of training rows (default: 2500)"
    )
    options.add_argument("--splits", type=int, default=3, help="number of random splits (default: 3)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
