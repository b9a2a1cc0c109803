"""How long distances take, against the bare matrix products a straightforward evaluation needs."""

import numpy as np

from benchmarks.data import Sizes, digits
from benchmarks.timing import Row, best
from onefold import WideKAHM


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
    """In both precisions."""
    return [against_products(sizes, np.float64), against_products(sizes, np.float32)]
