"""MNIST without noise, 60000 digits for training and 10000 for testing (beside 000 Table 5).

One line per variant: the document's setting first, then one setting changed at a time.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from experiments.harness import Outcome, Table, main, note, parser, printed_in, timed
from onefold import AutoencoderClassifier, WideKAHM, datasets
from onefold.datasets import Dataset


@dataclass(frozen=True)
class Variant:
    """A wide machine per class, and how many of its branches a query asks (None: all)."""

    n_components: int = 20
    n_layers: int = 5
    partition: str = "kmeans"
    probes: tuple[int | None, ...] = (None,)

    def classifier(self, seed: int) -> AutoencoderClassifier:
        machine = WideKAHM(
            self.n_components,
            self.n_layers,
            partition=self.partition,
            random_state=seed,
            regularisation="documented",
        )
        return AutoencoderClassifier(machine)


VARIANTS = {
    "document": Variant(probes=(None, 3, 2, 1)),
    "layers-1": Variant(n_layers=1),
    "components-5": Variant(n_components=5),
    "components-10": Variant(n_components=10),
    "components-15": Variant(n_components=15),
    "components-25": Variant(n_components=25),
    "contiguous": Variant(partition="contiguous"),
}
HEADERS = (
    "variant",
    "n",
    "L",
    "partition",
    "n_probe",
    "branches",
    "accuracy",
    "fit s",
    "predict s",
    "document, weakest noise",
)


def load(args: argparse.Namespace) -> Dataset:
    """The digits as float32 rows in [0, 1], fewer of them with ``--quick``."""
    data = datasets.load("mnist", args.data_dir, dtype=np.float32)
    train, test = (2500, 300) if args.quick else (len(data.X_train), len(data.X_test))
    return Dataset(
        data.X_train[:train],
        data.y_train[:train],
        data.X_test[:test],
        data.y_test[:test],
        data.name,
        data.feature_names,
        data.description,
    )


def measure(name: str, data: Dataset, seed: int) -> list[list[object]]:
    """Fit one variant and predict with each number of probed branches."""
    variant = VARIANTS[name]
    model = variant.classifier(seed)
    _, fit_seconds = timed(lambda: model.fit(data.X_train, data.y_train))
    branches = sum(len(machine.branches_) for machine in model.machines_)
    reported = printed_in("000", "Table 5").get(f"epsilon 32, n {variant.n_components}, Def. 12, accuracy")
    rows: list[list[object]] = []
    for probe in variant.probes:
        model.set_params(estimator__n_probe=probe)
        predicted, seconds = timed(lambda: model.predict(data.X_test))
        accuracy = float(np.mean(predicted == data.y_test))
        note(f"{name}, n_probe {probe}: accuracy {accuracy:.4f}, fit {fit_seconds:.1f} s, {seconds:.1f} s")
        rows.append(
            [
                name,
                variant.n_components,
                variant.n_layers,
                variant.partition,
                probe or "all",
                branches,
                accuracy,
                round(fit_seconds, 2),
                round(seconds, 2),
                reported,
            ]
        )
    return rows


def experiment(args: argparse.Namespace) -> Outcome:
    """All chosen variants, one after the other."""
    data = load(args)
    note(f"{len(data.X_train)} digits for training, {len(data.X_test)} for testing")
    rows = [row for name in args.variants or VARIANTS for row in measure(name, data, args.seed)]
    values = {_key(row): float(row[6]) for row in rows}  # type: ignore[arg-type]
    return Outcome(values, [Table("MNIST without noise", HEADERS, rows)])


def _key(row: list[object]) -> str:
    return f"accuracy {row[0]}" + ("" if row[4] == "all" else f" n_probe={row[4]}")


def options() -> argparse.ArgumentParser:
    """Common options, and which variants to run."""
    found = parser(__doc__)
    found.add_argument("--variants", nargs="+", choices=list(VARIANTS), help="variants to run (default: all)")
    found.add_argument("--seed", type=int, default=0, help="seed of k-means (default: 0)")
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
