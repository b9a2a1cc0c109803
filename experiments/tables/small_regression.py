"""Private numbers from few rows: when a private regression is better than the private mean, and than others.

Generated pairs of three kinds (correlated columns, even ones, and skewed ones in a range that is too wide),
of which the columns explain 50, 20 and 80 per cent. Noise has the levels of a release of
:class:`onefold.MomentRegressor`, and is drawn here, so that many draws take little time; ten sites add ten
such noises. Three ways start from the same noisy sums: the mean alone, the regressor, and ridge regression
with a ridge as large as what noise does to an eigenvalue. AdaSSP (Wang 2018) makes a release of its own, and
chooses its ridge by a private smallest eigenvalue. R2 is on fresh rows, mean of all kinds and draws.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from experiments import harness
from experiments.harness import Outcome, Table
from onefold import MomentRegressor
from onefold.fabrication.maps import OUTPUT_SHARE, pair_sums
from onefold.models.ridge import PairSums, ridge_of

KINDS = {"normal": 0.5, "even": 0.2, "skewed": 0.8}  # share of the variance that the columns explain
WIDTHS = (5, 10, 30)
SIZES = (100, 200, 400, 1000, 5000, 20_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
SITES = (1, 10)
DELTA = 1e-5
N_TEST = 4000
METHODS = ("private mean", "onefold", "one ridge", "AdaSSP", "without noise")
SHOWN = 10  # columns of the table that the documents print
RANGES = {"x_range": (-1.0, 1.0), "y_range": (-1.0, 1.0)}


def generated_pairs(
    kind: str, width: int, explained: float, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and outputs between -1 and 1; a linear function of the rows explains a share of the outputs."""
    if kind == "normal":
        mixed = rng.normal(size=(size, width)) @ (
            np.eye(width) + rng.normal(size=(width, width)) / (2.0 * math.sqrt(width))
        )
        X = np.clip(mixed / mixed.std(axis=0) / 3.5, -1.0, 1.0)
    elif kind == "even":
        X = rng.uniform(-1.0, 1.0, size=(size, width))
    else:
        X = np.clip(rng.gamma(2.0, 0.3, size=(size, width)) - 1.0, -1.0, 1.0)
    weights = rng.normal(size=width) * (rng.random(width) < 0.6)
    weights[0] += 1.0
    linear = X @ weights
    y = math.sqrt(explained) * (linear - linear.mean()) / linear.std()
    y += math.sqrt(1.0 - explained) * rng.normal(size=size)
    low, high = np.quantile(y, [0.001, 0.999])
    if kind == "skewed":
        high += (high - low) / 2.0
    return X, np.clip(2.0 * (y - low) / (high - low) - 1.0, -1.0, 1.0)


class Pool(NamedTuple):
    """Pairs as a release maps them: of length at most one together."""

    inputs: np.ndarray
    outputs: np.ndarray


@cache
def levels(epsilon: float) -> tuple[float, float, float]:
    """Standard deviations of the noise that a release adds to the count, to sums, and to squares."""
    model = MomentRegressor(epsilon, DELTA, **RANGES).fit(np.zeros((2, 1)), np.zeros(2))
    found = pair_sums(model.moments_)
    return found.count_noise, found.sum_noise, found.product_noise


def pool_of(kind: str, width: int, explained: float, size: int, rng: np.random.Generator) -> Pool:
    """Generated pairs as a release maps them."""
    X, y = generated_pairs(kind, width, explained, size, rng)
    pair_map = MomentRegressor(**RANGES).declared_map(width)
    return Pool(pair_map.inputs(X), pair_map.scaled(y))


def noisy(sums: PairSums, epsilon: float, sites: int, rng: np.random.Generator) -> PairSums:
    """The sums with the noise of a release at every site."""
    count, of_sums, of_products = (math.sqrt(sites) * level for level in levels(epsilon))
    square = rng.normal(size=sums.products.shape) * of_products
    return replace(
        sums,
        count=sums.count + count * rng.normal(),
        sums=sums.sums + of_sums * rng.normal(size=len(sums.sums)),
        products=sums.products + (square + square.T) / 2.0,
        count_noise=count,
        sum_noise=of_sums,
        product_noise=of_products,
    )


def one_ridge(pairs: PairSums) -> tuple[np.ndarray, float]:
    """Ridge regression on the noisy sums, with the radius of the noise of their eigenvalues as ridge."""
    width = len(pairs.sums) - 1
    size = max(pairs.count, 1.0)
    mean = pairs.sums / size
    covariance = pairs.products / size - np.outer(mean, mean)
    ridge = pairs.product_noise * math.sqrt(2.0 * width) / size
    values, vectors = np.linalg.eigh(covariance[:-1, :-1])
    inverse = (vectors / (np.maximum(values, 0.0) + ridge)) @ vectors.T
    weights = inverse @ covariance[:-1, -1]
    return weights, float(mean[-1] - mean[:-1] @ weights)


def adassp(X: np.ndarray, y: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Weights of (row, 1) by Algorithm 2 of Wang 2018, for rows of length at most one and |y| at most one."""
    rows = np.column_stack([X, np.ones(len(X))]) / math.sqrt(2.0)
    width = rows.shape[1]
    level = math.sqrt(math.log(6.0 / DELTA)) / (epsilon / 3.0)
    products = rows.T @ rows
    smallest = np.linalg.eigvalsh(products)[0] + level * rng.normal()
    smallest = max(smallest - math.log(6.0 / DELTA) / (epsilon / 3.0), 0.0)
    ridge = max(math.sqrt(width * math.log(2.0 * width**2 / 0.05)) * level - smallest, 0.0)
    above = np.triu(rng.normal(size=(width, width)) * level)
    noise = above + np.triu(above, 1).T
    right = rows.T @ y + level * rng.normal(size=width)
    return np.linalg.solve(products + noise + ridge * np.eye(width), right) / math.sqrt(2.0)


def scores(pool: Pool, size: int, epsilon: float, sites: int, rng: np.random.Generator) -> dict[str, float]:
    """R2 of every method after one draw of the rows and of the noise; AdaSSP at one site only."""
    order = rng.permutation(len(pool.outputs))
    train, test = order[:size], order[size : size + N_TEST]
    sums = PairSums.of(pool.inputs[train], pool.outputs[train])
    exact = replace(sums, row_square=1.0 - OUTPUT_SHARE, output_square=OUTPUT_SHARE)
    given = noisy(exact, epsilon, sites, rng)
    queries, truth = pool.inputs[test], pool.outputs[test]
    weights, offset = one_ridge(given)
    predicted = {
        "private mean": np.full(N_TEST, given.sums[-1] / max(given.count, 1.0)),
        "onefold": ridge_of(given).of(queries),
        "one ridge": queries @ weights + offset,
        "without noise": ridge_of(exact).of(queries),
    }
    largest = math.sqrt(OUTPUT_SHARE)
    if sites == 1:
        short = pool.inputs / math.sqrt(1.0 - OUTPUT_SHARE)
        linear = adassp(short[train], pool.outputs[train] / largest, epsilon, rng)
        predicted["AdaSSP"] = (short[test] @ linear[:-1] + linear[-1]) * largest
    variance = np.var(truth)
    return {
        name: 1.0 - float(np.mean((truth - np.clip(each, -largest, largest)) ** 2) / variance)
        for name, each in predicted.items()
    }


def experiment(args: argparse.Namespace) -> Outcome:
    draws, sizes, widths = (1, SIZES[:2], WIDTHS[:1]) if args.quick else (args.draws, SIZES, WIDTHS)
    means: dict[str, float] = {}
    lines = []
    behind_mean, behind_one = [], []
    for width in widths:
        pools = [
            pool_of(kind, width, share, max(sizes) + N_TEST, np.random.default_rng([width, place]))
            for place, (kind, share) in enumerate(KINDS.items())
        ]
        for size in sizes:
            for epsilon in EPSILONS:
                for sites in SITES:
                    found = [
                        scores(pool, size, epsilon, sites, np.random.default_rng([draw, width, size, sites]))
                        for pool in pools
                        for draw in range(draws)
                    ]
                    mean = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
                    where = f"{width} columns, {size} rows, epsilon {epsilon:g}, {sites} sites"
                    means |= {f"{where}: {name}": value for name, value in mean.items()}
                    cells = [f"{mean[name]:.3f}" if name in mean else "" for name in METHODS]
                    lines.append([str(width), str(size), f"{epsilon:g}", str(sites), *cells])
                    behind_mean.append(mean["private mean"] - mean["onefold"])
                    behind_one.append(mean["one ridge"] - mean["onefold"])
            harness.note(f"{width} columns, {size} rows")
    values = {
        "most behind the private mean": max(behind_mean),
        "most behind one ridge": max(behind_one),
        "least ahead of AdaSSP": min(
            means[name.replace("AdaSSP", "onefold")] - means[name]
            for name in means
            if name.endswith("AdaSSP")
        ),
        "settings": float(len(lines)),
    }
    title = f"R2 on fresh rows, mean of {len(KINDS) * draws} draws"
    headers = ["columns", "rows", "epsilon", "sites", *METHODS]
    tables = [Table(title, headers, lines, 4), _shown(means, sizes)] if SHOWN in widths else []
    return Outcome(values, tables, seeds=range(draws), rows={"test": N_TEST})


def _shown(means: dict[str, float], sizes: tuple[int, ...]) -> Table:
    """The part that the documents print: epsilon 1, ten columns."""
    at_sites = [name for name in METHODS if name not in ("AdaSSP", "without noise")]
    lines = []
    for size in sizes:
        where = f"{SHOWN} columns, {size} rows, epsilon 1"
        cells = [means[f"{where}, 1 sites: {name}"] for name in METHODS]
        cells += [means[f"{where}, 10 sites: {name}"] for name in at_sites]
        lines.append([str(size), *(f"{cell:.3f}" for cell in cells)])
    headers = ["rows", *METHODS, *(f"10 sites: {name}" for name in at_sites)]
    return Table(f"R2 with epsilon 1 and {SHOWN} columns", headers, lines, 1)


def main(arguments: list[str] | None = None) -> int:
    options = harness.parser(__doc__)
    options.add_argument("--draws", type=int, default=20, help="draws of every kind (default: 20)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
