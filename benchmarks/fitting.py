"""Fitting: one machine against the literal version and a matrix product, a wide one per branch and layer."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy.linalg

from benchmarks import literal
from benchmarks.data import Sizes, digits
from benchmarks.timing import Row, best
from onefold import KAHM, WideKAHM


def entrywise_version() -> ModuleType:
    """The literal version of the documents that the tests hold the fast one against."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    return import_module("reference.kahm")


def against_literal(sizes: Sizes) -> list[Row]:
    """One machine, p = 2 N."""
    N, p = sizes.machine, 2 * sizes.machine
    Y = np.random.default_rng(0).normal(size=(N, p))
    entrywise = best(lambda: entrywise_version().fit(Y, 20), 1)
    whole = best(lambda: literal.fit(Y, 20), 1)
    fast = best(lambda: KAHM(20, regularisation="documented").fit(Y))
    what = f"KAHM.fit, N={N}, p={p}"
    return [
        Row(
            f"{what}: time of the literal version in tests/reference / ours",
            entrywise / fast,
            ">= 20",
            {"literal_seconds": entrywise, "seconds": fast},
        ),
        Row(
            f"{what}: time of the same with numpy doing each step as one matrix operation / ours",
            whole / fast,
            None,  # printed for fairness: both sides solve an eigenproblem and factor a few matrices
            {"literal_seconds": whole, "seconds": fast},
        ),
    ]


def against_product(sizes: Sizes) -> Row:
    """One machine, p = 20 N: nothing but the Gram matrix may depend on p."""
    N, p = sizes.machine, 20 * sizes.machine
    Y = np.random.default_rng(0).normal(size=(N, p))
    product = best(lambda: Y @ Y.T)
    ours = best(lambda: KAHM(20, regularisation="documented").fit(Y))
    return Row(
        f"KAHM.fit, N={N}, p={p}: time / one Y @ Y.T",
        ours / product,
        "<= 4",
        {"product_seconds": product, "seconds": ours},
    )


def per_branch_layer(sizes: Sizes) -> Row:
    """A wide machine on digits, in units of one eigendecomposition per branch and layer."""
    X, name = digits(sizes.wide)
    matrix = np.random.default_rng(0).normal(size=(1000, 1000))
    matrix = matrix @ matrix.T
    eigh = best(lambda: scipy.linalg.eigh(matrix))
    model = WideKAHM(n_layers=5, random_state=0, regularisation="documented")
    ours = best(lambda: model.fit(X), 2)
    layers = sum(len(branch.lambdas_) for branch in model.branches_)
    return Row(
        f"WideKAHM.fit, {len(X)} {name}, L=5: time / ({layers} branch-layers x one 1000 x 1000 eigh)",
        ours / (layers * eigh),
        "<= 0.7",
        {"eigh_seconds": eigh, "seconds": ours, "branch_layers": layers},
    )


def rows(sizes: Sizes) -> list[Row]:
    """All fitting benchmarks."""
    return [*against_literal(sizes), against_product(sizes), per_branch_layer(sizes)]
