"""MNIST without privacy: accuracy on clean and on noisy test digits (003 Table 4.1).

60000 digits for training; k-means divides every class into branches of about 1000, each a fuzzy set, and the
largest membership decides. Test digits get zero-mean Gaussian noise. With ``--resume FILE`` finished pieces
are kept.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.harness import Outcome, Table, main, parser, printed_in
from experiments.journal import Journal, add_resume, positive
from experiments.kahm.mnist import load
from onefold import AutoencoderClassifier, WideFuzzyAutoencoder, WideKAHM
from onefold.datasets import Dataset
from onefold.models import Autoencoder

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
HEADERS = ("model", "seeds", *(f"noise {level:g}" for level in LEVELS), "s of computing", "peak MiB")


@dataclass(frozen=True)
class Variant:
    """What every class is modelled by, and how many seeds are worth their time."""

    title: str
    n_seeds: int
    width: float = 1.0
    n_layers: int = 5
    kernel: bool = False

    def machine(self, seed: int) -> Autoencoder:
        """n = 20 and half as many rules as samples (003 Sec. 4.1); branches may have up to 2000 samples."""
        if self.kernel:
            return WideKAHM(20, 1, random_state=seed, regularisation="documented")
        return WideFuzzyAutoencoder(20, self.n_layers, max_rules=1000, width=self.width, random_state=seed)


VARIANTS = {
    "document": Variant("fuzzy, as in the document", 3),
    "narrow": Variant("fuzzy, width 0.25", 1, width=0.25, n_layers=1),
    "kahm": Variant("kernel affine hull machine, L = 1", 1, kernel=True),
}


def measure(variant: Variant, data: Dataset, seed: int) -> dict[str, Any]:
    """Fit once, look at the test digits once for every level of noise."""
    model = AutoencoderClassifier(variant.machine(seed), measure="fuzzy")
    model.fit(data.X_train, data.y_train)
    rng = np.random.default_rng(seed)
    accuracies = {}
    for level in LEVELS:
        noise = rng.normal(scale=level, size=data.X_test.shape) if level else 0.0
        rows = (data.X_test + noise).astype(np.float32)
        accuracies[f"{level:g}"] = float(np.mean(model.predict(rows) == data.y_test))
    branches = [branch for machine in model.machines_ for branch in getattr(machine, "branches_", [])]
    return {
        "accuracies": accuracies,
        "accuracy": accuracies["0"],
        "branches": len(branches),
        "layers": [] if variant.kernel else _counts([branch.n_layers_ for branch in branches]),
    }


def _measured(variant: Variant, data: Callable[[], Dataset], seed: int) -> dict[str, Any]:
    return measure(variant, data(), seed)


def _counts(layers: list[int]) -> list[int]:
    """How many branches have one layer, two, and so on."""
    return np.bincount(layers)[1:].tolist()


def experiment(args: argparse.Namespace) -> Outcome:
    """All variants and seeds; means over seeds beside the document's numbers."""
    data, journal = functools.cache(functools.partial(load, args)), Journal(args.resume)
    rows: list[list[Any]] = []
    values: dict[str, float] = {}
    details: dict[str, Any] = {}
    for name in args.variants or VARIANTS:
        variant = VARIANTS[name]
        n_seeds = 1 if args.quick else args.seeds or variant.n_seeds
        found = [
            journal.run(
                f"{name}{' of a small part' * args.quick}, seed {seed}",
                functools.partial(_measured, variant, data, seed),
            )
            for seed in range(n_seeds)
        ]
        rows += _lines(variant, found)
        for level in LEVELS:
            accuracies = [entry["accuracies"][f"{level:g}"] for entry in found]
            values[f"{name} noise {level:g}"] = float(np.mean(accuracies))
        details[name] = found
    reported = printed_in("003", "Table 4.1")
    for title, row in (("fuzzy", "proposed"), ("convolutional network", "convolutional network")):
        numbers = [reported[f"noise {level:g}, {row}"] for level in LEVELS]
        rows.append([f"document: {title}", None, *numbers, None, None])
    return Outcome(values, [Table("MNIST: Gaussian noise on test digits", HEADERS, rows)], details)


def _lines(variant: Variant, found: list[dict[str, Any]]) -> list[list[Any]]:
    """A line of means, and one of standard deviations where there are several seeds."""
    table = np.array([[entry["accuracies"][f"{level:g}"] for level in LEVELS] for entry in found])
    cost = [float(np.mean([entry["cpu_seconds"] for entry in found])), max(e["peak_mib"] for e in found)]
    lines = [[variant.title, len(found), *table.mean(axis=0).tolist(), *cost]]
    if len(found) > 1:
        lines.append(["± standard deviation", None, *table.std(axis=0, ddof=1).tolist(), None, None])
    return lines


def options() -> argparse.ArgumentParser:
    """Common options, and which variants to run."""
    found = add_resume(parser(__doc__))
    found.add_argument("--variants", nargs="+", choices=list(VARIANTS), help="variants to run (default: all)")
    found.add_argument(
        "--seeds", type=positive, metavar="N", help="number of seeds per variant (default: as recorded)"
    )
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
