"""How long distances take: against bare matrix products, one row at a time, and with ever more samples."""

import time

import numpy as np

from benchmarks.data import Sizes, digits
from benchmarks.timing import Row, best, peak_above
from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM

SINGLE_ROWS = 30
# Rows and columns of tables that are asked row by row; smaller with --quick.
SINGLE_SHAPES = ((5000, 784), (10000, 512), (20000, 20))
GROWTH = (25_000, 100_000, 400_000)
QUICK_GROWTH = (2_000, 8_000)


def table(n_rows: int, n_features: int, n_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Rows of classes that differ in their directions."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_rows)
    X = 0.05 * rng.normal(size=(n_rows, n_features))
    for label in range(n_classes):
        own, rank = y == label, min(30, n_features)
        X[own] += rng.normal(size=(own.sum(), rank)) @ rng.normal(size=(rank, n_features)) / rank**0.5
    return X, y


def single_rows(sizes: Sizes) -> list[Row]:
    """Processor time of a row that comes alone, over that of a row of a block."""
    found = []
    quick = sizes.queries < Sizes().queries
    for n_rows, n_features in SINGLE_SHAPES:
        n_rows = n_rows // 5 if quick else n_rows
        X, y = table(n_rows + 500, n_features)
        for model in (AutoencoderClassifier(), FoldingClassifier()):
            queries = X[n_rows:]
            model.fit(X[:n_rows], y[:n_rows]).predict(queries[:1])
            block = best(lambda: model.predict(queries), clock=time.process_time) / len(queries)  # noqa: B023
            alone = best(
                lambda: [model.predict(row[None]) for row in queries[:SINGLE_ROWS]],  # noqa: B023
                5,
                time.process_time,
            )
            alone /= SINGLE_ROWS
            found.append(
                Row(
                    f"{type(model).__name__}(), {n_rows} x {n_features}: a single row / its share of a block",
                    alone / block,
                    "<= 10",
                    {"single_ms": 1e3 * alone, "share_ms": 1e3 * block},
                )
            )
    return found


def growth(sizes: Sizes) -> list[Row]:
    """Exponents of fitting and of 1000 queries against the number of samples, and the memory of a fit."""
    found = []
    numbers = QUICK_GROWTH if sizes.queries < Sizes().queries else GROWTH
    for kind in (AutoencoderClassifier, FoldingClassifier):
        fits, asks, peaks = [], [], []
        for n_rows in numbers:
            X, y = table(n_rows + 1000, 20, 5)
            start = time.process_time()
            model, _, peak = peak_above(lambda: kind().fit(X[:-1000], y[:-1000]))  # noqa: B023
            fits.append(time.process_time() - start)
            asks.append(best(lambda: model.predict(X[-1000:]), 1, time.process_time))  # noqa: B023
            peaks.append(peak / X.nbytes)
        for what, times in (("fitting", fits), ("1000 queries", asks)):
            exponent = np.log(times[-1] / times[0]) / np.log(numbers[-1] / numbers[0])
            found.append(
                Row(
                    f"{kind.__name__}(), {numbers[0]} to {numbers[-1]} x 20: exponent of {what}",
                    float(exponent),
                    "<= 1.1",
                    {
                        "first_seconds": times[0],
                        "last_seconds": times[-1],
                        "fit_peak_over_data": peaks[-1],
                    },
                )
            )
    return found


def against_products(sizes: Sizes, dtype: type) -> Row:
    """Per layer and branch: one product with the samples (M x p x N) and two with an N x N matrix."""
    X, _ = digits(4 * sizes.machine + sizes.queries)
    X = X.astype(dtype)
    samples, queries = X[: 4 * sizes.machine], X[4 * sizes.machine :]
    model = WideKAHM(n_layers=5, branch_size=sizes.machine, random_state=0).fit(samples)
    ours = best(lambda: model.distance(queries))
    branches = [
        (branch.pool_.stacks[0].hull.centred.shape[1], len(branch.lambdas_)) for branch in model.branches_
    ]

    def products() -> None:
        for size, n_layers in branches:
            block, square = samples[:size], np.ones((size, size), dtype=dtype)
            for _ in range(n_layers):
                kernel = queries @ block.T
                kernel @ square @ square

    bare = best(products)
    return Row(
        f"WideKAHM.distance, {len(branches)} branches, L=5, {np.dtype(dtype)}: time / bare products",
        ours / bare,
        "<= 1.7",
        {"products_seconds": bare, "seconds": ours, "queries": len(queries)},
    )


def rows(sizes: Sizes) -> list[Row]:
    """Blocks in both precisions, single rows, and growing numbers of samples."""
    blocks = [against_products(sizes, kind) for kind in (np.float64, np.float32)]
    return [*blocks, *single_rows(sizes), *growth(sizes)]
