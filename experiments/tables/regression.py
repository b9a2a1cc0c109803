"""Numbers to predict: R2 of every way to learn them, beside the mean, ridge regression and boosting.

Every table is split three times; at most ``--rows`` training rows. The schema is inferred from the training
rows and stands for a declaration; nothing else is tuned by hand, and the test rows are looked at once. Lines
with an epsilon are the mean of three draws of the noise. Sites get equal parts of the rows at random.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments import harness
from experiments.harness import Outcome, Table
from experiments.tables.accuracy import raw_columns
from experiments.tables.data import LOAN_COLUMNS, Rows, adult, read_file
from onefold import FoldingRegressor, MomentRegressor
from onefold.federated import MomentFederation, combine_numbers
from onefold.tables import Schema

EPSILONS = (0.5, 1.0, 4.0, 8.0)
N_SITES, LIFT = 10, 256
PEERS = ("mean", "ridge", "boosting")
OWN = ("moments", "moments, linear", "folding", "10 sites: sums", "10 sites: folding")
PRIVATE = tuple(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
AT_SITES = tuple(f"10 sites, epsilon {epsilon:g}" for epsilon in (1.0, 8.0))


def _rates(folder: str | None) -> Rows:
    """Interest rates of loans of 2007 to 2010."""
    found = read_file("lending_club_2007_2010", folder)
    return Rows("rates 07-10", {key[2:]: found[key] for key in found if key[:2] == "c_"}, "int.rate")


def _later_rates(folder: str | None) -> Rows:
    """Interest rates of later loans, with gaps, from what is known when a loan is asked for."""
    found = read_file("lending_club_openintro", folder)
    columns = {name: found[f"c_{name}"] for name in LOAN_COLUMNS}
    return Rows("rates openintro", columns | {"rate": found["c_interest_rate"]}, "rate")


def _hours(folder: str | None) -> Rows:
    """Weekly hours of work of the census rows."""
    name = "hours-per-week"
    columns = adult(folder).columns
    return Rows("hours", columns, name if name in columns else "hours_per_week")


def _diabetes(_: str | None) -> Rows:
    found = load_diabetes(scaled=False)
    columns = {name: found.data[:, place] for place, name in enumerate(found.feature_names)}
    return Rows("diabetes", columns | {"progress": found.target}, "progress")


def _friedman(_: str | None) -> Rows:
    X, y = make_friedman1(5000, noise=1.0, random_state=0)
    return Rows("friedman", {f"x{place}": X[:, place] for place in range(10)} | {"y": y}, "y")


def _costs(_: str | None) -> Rows:
    """Generated: skewed amounts, categories, gaps, and an output that is no sum of effects."""
    rng = np.random.default_rng(5)
    n = 4000
    amount, years = rng.lognormal(7, 1.2, n), rng.integers(0, 40, n).astype(float)
    kind = rng.choice(["car", "house", "boat", "other"], n, p=[0.5, 0.3, 0.1, 0.1]).astype(object)
    rate = 4.0 + 0.6 * np.log(amount) - 0.1 * years + 3.0 * (kind == "boat") * (years < 10)
    years[rng.random(n) < 0.15] = np.nan
    columns = {"amount": amount, "years": years, "kind": kind, "rate": rate + rng.normal(size=n)}
    return Rows("costs", columns, "rate")


TABLES = {
    "diabetes": _diabetes,
    "friedman": _friedman,
    "costs": _costs,
    "rates 07-10": _rates,
    "rates openintro": _later_rates,
    "hours": _hours,
}
BUNDLED = ("diabetes", "friedman", "costs")


def scores(table: Rows, seed: int, most: int, draws: int) -> dict[str, float]:
    """R2 of every method on one split."""
    train, test = train_test_split(np.arange(len(table)), test_size=0.3, random_state=seed)
    train = train[:most]
    rows, queries = table.part(train), table.part(test)
    y, truth = (np.asarray(table.y[part], dtype=float) for part in (train, test))
    schema = Schema.infer(rows, table.label, task="regression")
    encoded, encoded_queries = schema.transform(rows), schema.transform(queries)

    def explained(predicted: np.ndarray) -> float:
        return float(1.0 - np.mean((predicted - truth) ** 2) / np.var(truth))

    found = {"mean": explained(np.full(len(truth), y.mean()))}
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 5, 17))).fit(encoded, y)
    found["ridge"] = explained(ridge.predict(encoded_queries))
    nominal = [known.is_category for known in schema.features]
    boosting = HistGradientBoostingRegressor(categorical_features=nominal, random_state=0)
    found["boosting"] = explained(
        boosting.fit(raw_columns(schema, rows), y).predict(raw_columns(schema, queries))
    )
    found["moments"] = explained(MomentRegressor(None, schema=schema).fit(rows).predict(queries))
    linear = MomentRegressor(None, schema=schema, lift=None)
    found["moments, linear"] = explained(linear.fit(rows).predict(queries))
    found["folding"] = explained(FoldingRegressor().fit(encoded, y).predict(encoded_queries))
    sites = np.array_split(np.random.default_rng(seed).permutation(len(train)), N_SITES)
    found["10 sites: sums"] = explained(_summed(schema, rows, sites, None, LIFT).predict(queries))
    answers = [FoldingRegressor().fit(encoded[mine], y[mine]).answers(encoded_queries) for mine in sites]
    distances, outputs = (np.column_stack(part) for part in zip(*answers, strict=True))
    found["10 sites: folding"] = explained(combine_numbers(distances, outputs))
    for epsilon in EPSILONS:
        drawn = [MomentRegressor(epsilon, schema=schema).fit(rows) for _ in range(draws)]
        found[f"epsilon {epsilon:g}"] = float(np.mean([explained(model.predict(queries)) for model in drawn]))
    for name, epsilon in zip(AT_SITES, (1.0, 8.0), strict=True):
        summed = [_summed(schema, rows, sites, epsilon, None) for _ in range(draws)]
        found[name] = float(np.mean([explained(model.predict(queries)) for model in summed]))
    return found


def _summed(
    schema: Schema, rows: dict[str, np.ndarray], sites: list, epsilon: float | None, lift: int | None
) -> MomentRegressor:
    """The regression from sums of sites' moments."""
    federation = MomentFederation(schema, epsilon=epsilon, lift=lift)
    for number, mine in enumerate(sites):
        part = {name: values[mine] for name, values in rows.items()}
        federation.add(number, federation.release(part))
    return federation.fitted(MomentRegressor)


def experiment(args: argparse.Namespace) -> Outcome:
    names = BUNDLED if args.quick else tuple(args.tables or TABLES)
    splits, draws = (1, 1) if args.quick else (args.splits, 3)
    methods = (*PEERS, *OWN, *PRIVATE, *AT_SITES)
    values: dict[str, float] = {}
    columns = []
    for name in names:
        table = TABLES[name](args.data_dir)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [scores(table, seed, 300 if args.quick else args.rows, draws) for seed in range(splits)]
        mean = {method: float(np.mean([each[method] for each in found])) for method in methods}
        values |= {f"{name}: {method}": mean[method] for method in methods}
        columns.append(mean)
        harness.note(f"{name}: moments {mean['moments']:.3f}, boosting {mean['boosting']:.3f}")
    lines = [[method, *(f"{mean[method]:.3f}" for mean in columns)] for method in methods]
    title = f"R2 on test rows, mean of {splits} splits, at most {args.rows} training rows"
    return Outcome(values, [Table(title, ["method", *names], lines)])


def main(arguments: list[str] | None = None) -> int:
    options = harness.parser(__doc__)
    options.add_argument(
        "--rows", type=int, default=3000, help="largest number of training rows (default: 3000)"
    )
    options.add_argument("--splits", type=int, default=3, help="number of random splits (default: 3)")
    options.add_argument("--tables", nargs="+", choices=TABLES, help="only these (default: all)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
