"""Numbers to predict: errors of every way to learn them, beside the mean, ridge regression and boosting.

Every table is divided once into a pool of training rows and a pool of test rows. The constants of private
sums are chosen on the first alone (:mod:`experiments.tables.regression_constants`). A split draws training
rows, at most ``--rows``, from the first pool and test rows from the second. The schema is inferred from the
training rows and stands for a declaration; the test rows are looked at once. Lines with an epsilon are the
mean of three draws of the noise, of 50 where there are fewer than 500 training rows; their seeds are fixed,
so that a run can be repeated. Sites get equal parts of the rows at random.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments import harness
from experiments.harness import Outcome, Table
from experiments.tables.accuracy import raw_columns
from experiments.tables.data import GRANTED, LOAN_COLUMNS, Rows, adult, read_file
from onefold import FoldingRegressor, MomentRegressor
from onefold.federated import MomentFederation
from onefold.models.regress import mixed_outputs
from onefold.tables import Schema

EPSILONS = (0.5, 1.0, 4.0, 8.0)
DRAWS, FEW_ROWS, DRAWS_OF_FEW = 3, 500, 50  # of the noise; noise decides what few rows give
N_SITES, LIFT = 10, 256
POWER = 32.0  # how much more near sites count, where answers are mixed
TEST_SHARE, DRAWN = 0.4, 0.75  # of all rows for the pool of test rows; of a pool for one split
DIVISION = 20_000  # seed that divides a table into its pools
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


def pools(table: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and for testing: the same for every split, so no choice sees a test row."""
    order = np.random.default_rng(DIVISION).permutation(len(table))
    n_test = round(TEST_SHARE * len(table))
    return order[n_test:], order[:n_test]


def split(table: Rows, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows of one split, each drawn from its pool."""
    rng = np.random.default_rng(seed)
    train, test = (rng.permutation(pool)[: round(DRAWN * len(pool))] for pool in pools(table))
    return train[:most], test


def errors(
    table: Rows, seed: int, most: int, draws: int, private_only: bool = False
) -> tuple[dict[str, float], float]:
    """The mean squared error of every method on one split, and the variance of the test outputs."""
    train, test = split(table, seed, most)
    if len(train) < FEW_ROWS and draws >= DRAWS:
        draws = DRAWS_OF_FEW
    rows, queries = table.part(train), table.part(test)
    y, truth = (np.asarray(table.y[part], dtype=float) for part in (train, test))
    schema = Schema.infer(rows, table.label, task="regression").confirm(ground=GRANTED, by="experiments")
    sites = np.array_split(np.random.default_rng(seed).permutation(len(train)), N_SITES)

    def error(predicted: np.ndarray) -> float:
        return float(np.mean((predicted - truth) ** 2))

    found: dict[str, float] = {}
    for name, epsilon in zip(PRIVATE, EPSILONS, strict=True):
        drawn = [
            MomentRegressor(epsilon, schema=schema, random_state=draw).fit(rows) for draw in range(draws)
        ]
        found[name] = float(np.mean([error(model.predict(queries)) for model in drawn]))
    for name, epsilon in zip(AT_SITES, (1.0, 8.0), strict=True):
        summed = [_summed(schema, rows, sites, epsilon, None, draw) for draw in range(draws)]
        found[name] = float(np.mean([error(model.predict(queries)) for model in summed]))
    if private_only:
        return found, float(np.var(truth))
    found["mean"] = error(np.full(len(truth), y.mean()))
    encoded, encoded_queries = schema.transform(rows), schema.transform(queries)
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 5, 17))).fit(encoded, y)
    found["ridge"] = error(ridge.predict(encoded_queries))
    nominal = [known.is_category for known in schema.features]
    boosting = HistGradientBoostingRegressor(categorical_features=nominal, random_state=0)
    raw, raw_queries = raw_columns(schema, rows), raw_columns(schema, queries)
    found["boosting"] = error(boosting.fit(raw, y).predict(raw_queries))
    found["moments"] = error(MomentRegressor(None, schema=schema).fit(rows).predict(queries))
    linear = MomentRegressor(None, schema=schema, lift=None)
    found["moments, linear"] = error(linear.fit(rows).predict(queries))
    found["folding"] = error(FoldingRegressor().fit(encoded, y).predict(encoded_queries))
    found["10 sites: sums"] = error(_summed(schema, rows, sites, None, LIFT).predict(queries))
    answers = [FoldingRegressor().fit(encoded[mine], y[mine]).answers(encoded_queries) for mine in sites]
    distances, outputs = (np.column_stack(part) for part in zip(*answers, strict=True))
    found["10 sites: folding"] = error(mixed_outputs(distances, outputs[:, :, None], POWER, len(sites))[:, 0])
    return found, float(np.var(truth))


def _summed(
    schema: Schema,
    rows: dict[str, np.ndarray],
    sites: list,
    epsilon: float | None,
    lift: int | None,
    draw: int = 0,
) -> MomentRegressor:
    """The regression from sums of sites' moments; the noise of every site has a seed of its own."""
    federation = MomentFederation(schema, epsilon=epsilon, lift=lift)
    for number, mine in enumerate(sites):
        part = {name: values[mine] for name, values in rows.items()}
        if epsilon is None:
            federation.add(number, federation.release(part))
        else:
            own = MomentRegressor(epsilon, schema=schema, random_state=1000 * draw + number)
            federation.add(number, own.site_moments(part))
    return federation.fitted(MomentRegressor)


def experiment(args: argparse.Namespace) -> Outcome:
    names = BUNDLED if args.quick else tuple(args.tables or TABLES)
    splits, draws = (1, 1) if args.quick else (args.splits, DRAWS)
    most = 300 if args.quick else args.rows
    others = () if args.private else (*PEERS, *OWN)
    methods = (*others, *PRIVATE, *AT_SITES)
    values: dict[str, float] = {}
    shown: dict[str, list] = {"R2": [], "RMSE": []}
    used = {"training": 0, "test": 0}
    for name in names:
        table = TABLES[name](args.data_dir)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [errors(table, seed, most, draws, args.private) for seed in range(splits)]
        for part, rows in zip(used, split(table, 0, most), strict=True):
            used[part] = max(used[part], len(rows))
        measured = {
            "R2": {m: np.array([1.0 - each[m] / variance for each, variance in found]) for m in methods},
            "RMSE": {m: np.sqrt([each[m] for each, _ in found]) for m in methods},
        }
        for kind, of_methods in measured.items():
            values |= {f"{name}: {m}, {kind}": float(of_methods[m].mean()) for m in methods}
            shown[kind].append(of_methods)
        r2 = {method: measured["R2"][method].mean() for method in methods}
        harness.note(f"{name}: " + ", ".join(f"{method} {r2[method]:.3f}" for method in methods[:4]))
    title = f"on test rows, mean and deviation of {splits} splits, at most {most} training rows"
    tables = [
        Table(
            f"{kind} {title}",
            ["method", *names],
            [[m, *(_cell(each[m], kind) for each in columns)] for m in methods],
        )
        for kind, columns in shown.items()
    ]
    return Outcome(values, tables, seeds=range(splits), rows=used)


def _cell(found: np.ndarray, kind: str) -> str:
    """A mean and a deviation, with as many digits as a reader can use."""
    digits = 3 if kind == "R2" else 2 - math.floor(math.log10(found.mean()))
    return f"{found.mean():.{max(digits, 0)}f} ± {found.std():.{max(digits, 0)}f}"


def main(arguments: list[str] | None = None) -> int:
    options = harness.parser(__doc__)
    options.add_argument(
        "--rows", type=int, default=3000, help="largest number of training rows (default: 3000)"
    )
    options.add_argument("--splits", type=int, default=5, help="number of random splits (default: 5)")
    options.add_argument("--private", action="store_true", help="only the lines with an epsilon")
    options.add_argument("--tables", nargs="+", choices=TABLES, help="only these (default: all)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
