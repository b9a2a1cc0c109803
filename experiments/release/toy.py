"""002 Sec. 3.1: two clouds of fifty points; the bounds 200, 20, 2, and a classifier that does not move."""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np

from experiments import harness
from experiments.harness import Outcome, Table, parser
from onefold.exceptions import PrivacyLeakWarning
from onefold.release import RobustSVM, release_iid, release_utility_preserving

LAMS = (1e-4, 1e-2, 1.0)
M = 100.0


def clouds(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Fifty points around (0, 0) and fifty around (0, 5)."""
    X = np.vstack([rng.normal(size=(50, 2)), rng.normal((0, 5), size=(50, 2))])
    return X, np.repeat([1, -1], 50)


def apart(one: RobustSVM, other: RobustSVM) -> float:
    """Largest difference of the two hyperplanes."""
    return float(max(np.abs(one.coef_ - other.coef_).max(), np.abs(one.intercept_ - other.intercept_).max()))


def experiment(args: argparse.Namespace) -> Outcome:
    rng = np.random.default_rng(args.seed)
    X, y = clouds(rng)
    svm = RobustSVM(rho=1e-2, theta=1.0).fit(X, y)
    rows: list[tuple[object, ...]] = []
    values = {}
    for lam in LAMS:
        released = release_iid(X, lam, random_state=rng, sensitivity=1.0)
        moved = apart(svm, RobustSVM().fit(released, y))
        rows.append(
            (f"independent, lam {lam:g}", released.bound, moved, f"{released.guarantee.record[0]:.3g}")
        )
        values[f"bound at lam {lam:g}"] = released.bound
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        released = release_utility_preserving(X, y, svm, M, random_state=rng)
    moved = apart(svm, RobustSVM().fit(released, y))
    rows.append((f"correlated, m {M:g}", released.bound, f"{moved:.1e}", "none"))
    values |= {"correlated bound": released.bound, "identical to 1e-9": float(moved < 1e-9)}
    headers = ("noise", "bound on the squared error", "hyperplane moves by", "epsilon per record")
    return Outcome(values, [Table("Two clouds (002 Sec. 3.1)", headers, rows)], {"moved": moved})


def main(arguments: list[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--seed", type=int, default=0, help="seed of the clouds and the noise (default: 0)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
