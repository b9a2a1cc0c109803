"""Local mechanisms of diffprivlib and OpenDP beside the optimal noise, at equal (epsilon, delta) per record.

Wisconsin breast cancer with columns scaled to [0, 1]; the machine is fitted on what each mechanism releases.
Both packages are optional: rows of a package that cannot be imported are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from experiments import harness
from experiments.harness import Outcome, Table, note, parser
from experiments.journal import Journal, add_resume
from onefold.privacy import FisherGaussian
from onefold.release import RobustSVM

EPSILONS = (10.0, 50.0, 200.0)
DELTA = 1e-5
Rows = np.ndarray
Release = Callable[[Rows, np.random.Generator], Rows]


def ours(epsilon: float, p: int) -> Release:
    noise = FisherGaussian.from_epsilon(epsilon, p, delta=DELTA, sensitivity=1.0)
    return lambda X, rng: noise.randomise(X, rng)


def scalar(mechanism: Any) -> Release:
    """A mechanism of diffprivlib, which takes one number at a time."""
    return lambda X, rng: np.vectorize(mechanism.randomise)(X)


def diffprivlib_mechanisms(epsilon: float, p: int) -> dict[str, Release]:
    """Per record: Gaussian noise for a change of length sqrt(p), Laplace noise with epsilon / p per entry."""
    library = import_module("diffprivlib.mechanisms")
    shared = {"epsilon": epsilon / p, "sensitivity": 1.0}
    return {
        "diffprivlib GaussianAnalytic": scalar(
            library.GaussianAnalytic(epsilon=epsilon, delta=DELTA, sensitivity=float(np.sqrt(p)))
        ),
        "diffprivlib Laplace": scalar(library.Laplace(**shared)),
        "diffprivlib LaplaceBoundedDomain": scalar(
            library.LaplaceBoundedDomain(**shared, lower=0.0, upper=1.0)
        ),
    }


def opendp_mechanisms(epsilon: float, p: int) -> dict[str, Release]:
    """Gaussian noise whose scale OpenDP itself finds for (epsilon, delta), on a grid."""
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def make(scale: float) -> Any:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), DELTA)

    scale = dp.binary_search_param(make, d_in=float(np.sqrt(p)), d_out=(epsilon, DELTA), T=float)
    measurement = dp.m.make_gaussian(*space, scale)
    # Noise is independent from entry to entry, so all rows can go through one call.
    return {"OpenDP Gaussian": lambda X, rng: np.reshape(measurement(X.ravel().tolist()), X.shape)}


def mechanisms(epsilon: float, p: int) -> dict[str, Release]:
    found = {"optimal noise": ours(epsilon, p)}
    for package, make in (("diffprivlib", diffprivlib_mechanisms), ("OpenDP", opendp_mechanisms)):
        try:
            found |= make(epsilon, p)
        except ImportError:  # not installed, or made for another scikit-learn
            note(f"{package} cannot be imported: its rows are left out")
    return found


def measure(release: Release, repetitions: int) -> dict[str, list[float]]:
    """Accuracy of the machine on raw rows and size of the noise, release by release."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    rng = np.random.default_rng(0)
    scores, spreads = [], []
    for _ in range(repetitions):
        released = release(X, rng)
        scores.append(float(RobustSVM().fit(released, y).score(X, y)))
        spreads.append(float(np.sqrt(np.mean((released - X) ** 2))))
    return {"scores": scores, "spreads": spreads}


def experiment(args: argparse.Namespace) -> Outcome:
    journal, repetitions = Journal(args.resume), 2 if args.quick else args.repetitions
    values: dict[str, float] = {}
    rows: list[tuple[object, ...]] = []
    for epsilon in EPSILONS:
        for name, release in mechanisms(epsilon, 30).items():
            found = journal.run(
                f"{name}, epsilon {epsilon:g}, {repetitions} releases",
                lambda release=release: measure(release, repetitions),
            )
            mean, spread = float(np.mean(found["scores"])), float(np.mean(found["spreads"]))
            error = float(np.std(found["scores"], ddof=1) / np.sqrt(repetitions))
            rows.append((f"{epsilon:g}", name, spread, mean, error))
            values[f"{name}, epsilon {epsilon:g}"] = mean
    title = f"Equal epsilon per record at delta {DELTA:g} (Laplace: delta 0); labels are not covered"
    headers = ("epsilon per record", "mechanism", "noise (root mean square)", "accuracy", "± se")
    return Outcome(values, [Table(title, headers, rows)])


def main(arguments: list[str] | None = None) -> int:
    options = add_resume(parser(__doc__))
    options.add_argument(
        "--repetitions", type=int, default=100, help="number of releases per mechanism (default: 100)"
    )
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
