"""MNIST with noise on every training entry: optimal noise beside Gaussian noise (003 Fig. 4.1).

For each epsilon, the first digits get noise of three kinds, and a fuzzy classifier is fitted to the noisy
digits (003 Alg. 3). (epsilon, delta) is that of one entry, a pixel that changes by at most 1; per record it
is far larger, and labels are not covered. 10000 digits give about 1000 of every class, one fuzzy set each: no
clusters of raw digits, which no noise would cover. With ``--resume FILE`` finished pieces are kept.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.harness import Outcome, Table, documented, main, parser
from experiments.journal import Journal, add_resume, positive
from experiments.kahm.mnist import load
from onefold import AutoencoderClassifier, WideFuzzyAutoencoder
from onefold.datasets import Dataset
from onefold.privacy import AnalyticGaussian, OptimalNoise
from onefold.privacy.calibration import classical_gaussian_sigma, gaussian_epsilon

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
N_DIGITS, QUICK_DIGITS = 10000, 1000
NOISES = ("optimal", "classical", "analytic")
HEADERS = (
    "epsilon per entry",
    "noise",
    "mean magnitude",
    "accuracy",
    "± std",
    "epsilon per record",
    "s",
    "peak MiB",
)


def noisy(kind: str, epsilon: float, X: np.ndarray, seed: int) -> tuple[np.ndarray, float, float]:
    """Rows with noise, its mean magnitude, and the epsilon of a whole row at the same delta.

    The textbook's size is drawn beyond epsilon = 1 too, as the document does; its proof ends there.
    """
    if kind == "classical":
        sigma = classical_gaussian_sigma(epsilon, DELTA, 1.0)
        rows = X + np.random.default_rng(seed).normal(scale=sigma, size=X.shape)
        record = gaussian_epsilon(DELTA, sigma, float(np.sqrt(X.shape[1])))
        return rows, float(sigma * np.sqrt(2 / np.pi)), record
    mechanism = (OptimalNoise if kind == "optimal" else AnalyticGaussian)(epsilon, delta=DELTA)
    promise = mechanism.guarantee(X.shape[1], len(X))
    return mechanism.randomise(X, random_state=seed), mechanism.expected_magnitude, promise.record[0]


def measure(kind: str, epsilon: float, data: Dataset, n_digits: int, seed: int) -> dict[str, Any]:
    """One noise, one classifier, all test digits."""
    X, y = data.X_train[:n_digits], data.y_train[:n_digits]
    rows, magnitude, record = noisy(kind, epsilon, X, seed) if kind != "none" else (X, 0.0, float("inf"))
    machine = WideFuzzyAutoencoder(20, max_rules=1000, branch_size=2 * n_digits // 10, random_state=seed)
    model = AutoencoderClassifier(machine, measure="fuzzy").fit(rows.astype(np.float32), y)
    return {
        "accuracy": float(np.mean(model.predict(data.X_test) == data.y_test)),
        "magnitude": magnitude,
        "record_epsilon": record,
        "layers": max(branch.n_layers_ for found in model.machines_ for branch in found.branches_),
    }


def experiment(args: argparse.Namespace) -> Outcome:
    """Every epsilon and noise, means over seeds."""
    data, journal = functools.cache(functools.partial(load, args)), Journal(args.resume)
    n_digits, n_seeds = (QUICK_DIGITS, 1) if args.quick else (args.digits, args.seeds)
    pairs = [("none", float("inf"))]
    pairs += [(kind, epsilon) for epsilon in args.epsilons or EPSILONS for kind in NOISES]
    rows: list[list[Any]] = []
    values: dict[str, float] = {}
    for kind, epsilon in pairs:
        found = [
            journal.run(
                f"{n_digits} digits, {kind}, epsilon {epsilon:g}, seed {seed}",
                functools.partial(_measured, kind, epsilon, data, n_digits, seed),
            )
            for seed in range(1 if kind == "none" else n_seeds)
        ]
        accuracy = np.array([entry["accuracy"] for entry in found])
        spread = float(accuracy.std(ddof=1)) if len(found) > 1 else None
        rows.append([f"{epsilon:g}", kind, found[0]["magnitude"], float(accuracy.mean()), spread])
        rows[-1] += [f"{found[0]['record_epsilon']:.4g}"]
        rows[-1] += [sum(entry["cpu_seconds"] for entry in found), max(entry["peak_mib"] for entry in found)]
        values[f"{n_digits} {kind} epsilon {epsilon:g}"] = float(accuracy.mean())
    title = f"MNIST, {n_digits} digits, delta {DELTA:g}, an entry changes by at most 1; labels not covered"
    return Outcome(values, [Table(title, HEADERS, rows)], {"document": documented(__file__, "figure_4_1")})


def _measured(
    kind: str, epsilon: float, data: Callable[[], Dataset], n_digits: int, seed: int
) -> dict[str, Any]:
    return measure(kind, epsilon, data(), n_digits, seed)


def options() -> argparse.ArgumentParser:
    """Common options, and what to sweep."""
    found = add_resume(parser(__doc__))
    found.add_argument("--epsilons", nargs="+", type=float, choices=EPSILONS, help="only these (all)")
    found.add_argument("--digits", type=positive, default=N_DIGITS, metavar="N", help=f"({N_DIGITS})")
    found.add_argument("--seeds", type=positive, default=3, metavar="N", help="seeds of each (3)")
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
