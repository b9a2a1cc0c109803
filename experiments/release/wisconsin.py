"""002 Fig. 5 and Sec. 3.2.1: Wisconsin breast cancer, raw features, Pi the identity."""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer

from experiments import harness
from experiments.harness import Outcome, Table
from experiments.release import curves
from onefold.exceptions import PrivacyLeakWarning
from onefold.release import Curve, RobustSVM, release_utility_preserving, sweep

LAMS = tuple(10.0**k for k in range(-10, 3, 2))


def one_piece(repetitions: int, seed: int) -> Curve:
    X, y = load_breast_cancer(return_X_y=True)
    options = {"repetitions": repetitions, "random_state": seed, "scoring": "accuracy"}
    return sweep(X, y, LAMS, RobustSVM(), sensitivity=1.0, **options)


def correlated() -> tuple[dict[str, float], Table]:
    """The noise that keeps the classifier: 28.4127 m."""
    X, y = load_breast_cancer(return_X_y=True)
    svm = RobustSVM(rho=1e-2, theta=1.0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        released = release_utility_preserving(X, y, svm, 100.0, random_state=0)
    again = RobustSVM(rho=1e-2, theta=1.0).fit(released, y)
    moved = float(max(np.abs(again.coef_ - svm.coef_).max(), np.abs(again.intercept_ - svm.intercept_).max()))
    values = {
        "correlated bound over m": released.bound / 100.0,
        "identical to 1e-6": float(moved < 1e-6),
        "accuracy of the machine": float(svm.score(X, y)),
    }
    rows = [(released.bound / 100.0, f"{moved:.1e}", f"{svm.kkt_residual_:.1e}")]
    headers = ("bound / m", "refitted hyperplane moves by", "KKT residual")
    return values, Table("Correlated noise, m = 100 (document: 28.4 m)", headers, rows)


def experiment(args: argparse.Namespace) -> Outcome:
    curve = curves.in_pieces(args, "wisconsin", one_piece)
    found = curves.outcome("Wisconsin breast cancer, raw features", curve)
    values, table = correlated()
    return Outcome(found.values | values, [*found.tables, table], found.details)


def main(arguments: list[str] | None = None) -> int:
    return harness.main(__file__, curves.options(__doc__), experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
