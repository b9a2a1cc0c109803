"""Models trained on private synthetic tables and tested on real rows, over epsilon.

The schema stands for what an owner declares: ranges rounded outward, all categories. Boosting and a linear
model are trained on the synthetic table; AUC (one against the rest for more than two classes) and accuracy on
real rows that the synthesizer never saw. The last columns quote MST and AIM from one run each, measured
elsewhere with the same bins and delta; they were not run here.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from itertools import combinations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments import harness
from experiments.harness import Outcome, Table
from experiments.tables.accuracy import split
from experiments.tables.data import NEEDS_FILES, TABLES, Rows, declared
from onefold.fabrication import TableSynthesizer
from onefold.tables import Schema

NAMES = ("Adult", "Lending 07-10", "Lending openintro", "WESAD", "cancer", "wine")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
# AUC of boosting and of a linear model: one run each, measured elsewhere.
QUOTED = {
    ("Adult", 1.0): ("MST .813/.825", "AIM light .868/.875"),
    ("Lending 07-10", 1.0): ("MST .862/.881", "AIM light .869/.869"),
    ("Lending 07-10", 4.0): ("", "AIM light .871/.884"),
    ("Lending openintro", 1.0): ("MST .646/.631 (other columns)", ""),
    ("cancer", 1.0): ("MST .918/.964", ""),
    ("wine", 1.0): ("MST .837/.912", ""),
}


def scores(
    schema: Schema, label: str, rows: dict[str, np.ndarray], queries: dict[str, np.ndarray]
) -> dict[str, float]:
    """AUC and accuracy of boosting and of a linear model that are trained on some rows."""
    X, X_test = schema.transform(rows), schema.transform(queries)
    y, truth = np.asarray(rows[label]).astype(str), np.asarray(queries[label]).astype(str)
    models = {
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "linear": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
    }
    found = {}
    for name, model in models.items():
        if len(np.unique(y)) < len(np.unique(truth)):
            found |= {f"{name} AUC": 0.5, f"{name} accuracy": float(np.mean(truth == y[0]))}
            continue
        chances = model.fit(X, y).predict_proba(X_test)
        given = chances[:, 1] if chances.shape[1] == 2 else chances
        found[f"{name} AUC"] = float(roc_auc_score(truth, given, multi_class="ovr", labels=model.classes_))
        found[f"{name} accuracy"] = float(np.mean(model.classes_[chances.argmax(axis=1)] == truth))
    return found


def pair_distance(schema: Schema, rows: dict[str, np.ndarray], made: dict[str, np.ndarray]) -> float:
    """Mean total variation between pairs of columns, numbers in deciles of the real rows."""
    codes = []
    for table in (rows, made):
        parsed = schema.parse(table, strict=False)
        codes.append(parsed)
    binned: list[list[np.ndarray]] = [[], []]
    for known in schema.features:
        real = codes[0][known.name]
        for place, parsed in enumerate(codes):
            cells = parsed[known.name]
            if known.is_category:
                binned[place].append(cells + 1)
            else:
                edges = np.unique(np.nanquantile(real, np.linspace(0.1, 0.9, 9)))
                binned[place].append(
                    np.where(np.isnan(cells), 0, 1 + np.searchsorted(edges, cells)).astype(int)
                )
    distances = []
    for left, right in combinations(range(len(schema.features)), 2):
        size = [1 + max(binned[0][k].max(), binned[1][k].max()) for k in (left, right)]
        shares = [
            np.bincount(part[left] * size[1] + part[right], minlength=size[0] * size[1]) / len(part[left])
            for part in binned
        ]
        distances.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(distances))


def one(table: Rows, epsilon: float, splits: int, most: int) -> dict[str, float]:
    """Means over splits of everything measured at one epsilon; infinity stands for the real rows."""
    schema, found = declared(table), []
    for seed in range(splits):
        train, test = split(table, seed, most)
        rows, queries = table.part(train), table.part(test)
        if epsilon == np.inf:
            found.append(scores(schema, table.label, rows, queries))
            continue
        synthesizer, seconds = harness.timed(lambda rows=rows: TableSynthesizer(schema, epsilon).fit(rows))
        made, drawing = harness.timed(synthesizer.sample)
        measured = scores(schema, table.label, made, queries)
        found.append(measured | {"pairs": pair_distance(schema, rows, made), "seconds": seconds + drawing})
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def experiment(args: argparse.Namespace) -> Outcome:
    names = [name for name in NAMES if not (args.quick and name in NEEDS_FILES)]
    epsilons = (1.0,) if args.quick else EPSILONS
    values: dict[str, float] = {}
    lines: list[list[object]] = []
    for name in names:
        table = TABLES[name](args.data_dir)
        for epsilon in (np.inf, *epsilons):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = one(table, epsilon, 1 if args.quick else args.splits, args.rows)
            told = "real rows" if epsilon == np.inf else f"{epsilon:g}"
            values |= {f"{name}, {told}: {what}": value for what, value in found.items() if what != "seconds"}
            lines.append(
                [
                    name,
                    told,
                    *(
                        f"{found[f'{model} {what}']:.3f}"
                        for model in ("boosting", "linear")
                        for what in ("AUC", "accuracy")
                    ),
                    *(
                        f"{found[what]:.{digits}f}" if what in found else ""
                        for what, digits in (("pairs", 3), ("seconds", 1))
                    ),
                    *QUOTED.get((name, epsilon), ("", "")),
                ]
            )
            harness.note(f"{name}, {told}: boosting AUC {found['boosting AUC']:.3f}")
    headers = [
        "table",
        "epsilon",
        "boosting AUC",
        "accuracy",
        "linear AUC",
        "accuracy",
        "pairs",
        "s",
        "quoted",
        "quoted",
    ]
    title = "Trained on synthetic rows, tested on real ones; epsilon per record"
    return Outcome(values, [Table(title, headers, lines)])


def main(arguments: list[str] | None = None) -> int:
    options = harness.parser(__doc__)
    options.add_argument(
        "--rows", type=int, default=40_000, help="largest number of rows to synthesize from (default: 40000)"
    )
    options.add_argument("--splits", type=int, default=3, help="number of random splits (default: 3)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
