"""How far the forecast of private moments is from what is measured, and what the public centre is worth.

A forecast uses declared numbers only: rows of a site, columns, classes, epsilon, delta and the number of
sites. It says which share of the gain over guessing is left; to compare, the accuracy without noise and that
of guessing are measured. Constants of the forecast were fitted to these sets together; the last table leaves
out one set after another, fits anew, and forecasts the one left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from experiments import harness
from experiments.data import named
from experiments.harness import Outcome, Table, note
from experiments.tables.data import TABLES, Rows, declared
from onefold.encoders import Encoder, GradientHistograms
from onefold.fabrication import MomentClassifier
from onefold.federated.declared import declared_moments
from onefold.privacy import PrivateMoments
from onefold.privacy.forecast import HALF_LEFT, STEEPNESS, forecast_moments

EPSILONS = (0.5, 1.0, 4.0)
SITES = (1, 3)
DELTA = 1e-5
N_TEST = 5000
PIXELS = {"digits": (0.0, 1.0), "usps": (-1.0, 1.0)}
HEADERS = ("data", "rows", "columns", "classes", "sites", "epsilon", "guessing", "no noise", "measured")


@dataclass(frozen=True)
class Task:
    """Encoded rows of both parts, and the release that sites agree on."""

    rows: NDArray[np.float64]
    y: NDArray[np.object_]
    queries: NDArray[np.float64]
    truth: NDArray[np.object_]
    agreed: PrivateMoments

    def accuracy(
        self, epsilon: float | None, n_sites: int, seed: int, agreed: PrivateMoments | None = None
    ) -> float:
        """Accuracy of the sum of the releases of some sites."""
        parts = np.array_split(np.random.default_rng(seed).permutation(len(self.rows)), n_sites)
        found = []
        for number, part in enumerate(parts):
            release: PrivateMoments = clone(self.agreed if agreed is None else agreed)
            release.set_params(epsilon=epsilon, random_state=1000 * seed + number)
            found.append(release.fit(self.rows[part], self.y[part]))
        total = found[0] if n_sites == 1 else PrivateMoments.total(found)
        return float(MomentClassifier.from_moments(total).score(self.queries, self.truth))

    @property
    def guessing(self) -> float:
        """Accuracy of the most frequent class."""
        labels, counts = np.unique(self.y, return_counts=True)
        return float(np.mean(self.truth == labels[counts.argmax()]))


def of_table(table: Rows, seed: int) -> Task:
    """A table by a declared schema, whose classes, length and centre the sites agree on."""
    schema = declared(table)
    train, test = train_test_split(np.arange(len(table)), test_size=0.3, random_state=seed, stratify=table.y)
    labels = np.asarray(schema.labels(table.columns)[0])
    encoded = schema.transform(table.columns)
    agreed = declared_moments(1.0, DELTA, schema=schema)
    return Task(encoded[train], labels[train], encoded[test], labels[test], agreed)


def of_features(name: str, folder: str | None, seed: int, encoder: Encoder | None, most: int | None) -> Task:
    """Features of length one, as embeddings have it; without an encoder pixels in the declared range."""
    data = named.load(name, folder)
    some = np.random.default_rng(seed).permutation(len(data.X_train))[:most]
    rows, queries = data.X_train[some], data.X_test[:N_TEST]
    if encoder is not None:
        fitted = clone(encoder).fit(rows)
        rows, queries = fitted.transform(rows), fitted.transform(queries)
    in_range = {"limits": PIXELS[name]} if name in PIXELS and encoder is None else {"radius": 1.0}
    classes = np.unique(data.y_train)
    agreed = declared_moments(1.0, DELTA, classes=classes, n_features=rows.shape[1], **in_range)
    return Task(rows, data.y_train[some], queries, data.y_test[:N_TEST], agreed)


def tasks(folder: str | None, quick: bool) -> dict[str, Callable[[int], Task]]:
    """All sets by name; what they are made of is read when it is needed."""
    names = ("cancer",) if quick else ("Adult", "Lending 07-10", "Lending openintro", "WESAD", "cancer")
    found: dict[str, Callable[[int], Task]] = {
        name: lambda seed, name=name: of_table(TABLES[name](folder), seed) for name in names
    }
    if quick:
        return found
    features: dict[str, tuple[str, Encoder | None, int | None]] = {
        "digits": ("digits", None, None),
        "USPS pixels": ("usps", None, None),
        "USPS histograms": ("usps", GradientHistograms((16, 16)), None),
        "MNIST histograms, 6000": ("mnist", GradientHistograms((28, 28), margin=4), 6000),
        "20 Newsgroups": ("20newsgroups_use_multilingual", None, None),
    }
    for title, (name, encoder, most) in features.items():
        found[title] = lambda seed, given=(name, encoder, most): of_features(
            given[0], folder, seed, given[1], given[2]
        )
    return found


def left_out(
    noise: NDArray[np.float64], gains: NDArray[np.float64], plain: NDArray[np.float64]
) -> tuple[float, float]:
    """Fit the two constants of the forecast to measured gains over guessing, in points of accuracy."""

    def loss(constants: NDArray[np.float64]) -> float:
        left = 1.0 / (1.0 + (noise / np.exp(constants[0])) ** constants[1])
        return float(np.sum((left * plain - gains) ** 2))

    half, steep = minimize(loss, [np.log(HALF_LEFT), STEEPNESS], method="Nelder-Mead").x
    return float(np.exp(half)), float(steep)


def experiment(args: argparse.Namespace) -> Outcome:
    """Measure, forecast, compare."""
    lines, values, measured, centres = [], {}, [], []
    for name, make in tasks(args.data_dir, args.quick).items():
        made = [make(seed) for seed in range(args.splits)]
        first = made[0]
        shape = (len(first.rows), first.rows.shape[1], len(np.unique(first.y)))
        guessing = float(np.mean([task.guessing for task in made]))
        plain = float(np.mean([task.accuracy(None, 1, 0) for task in made]))
        for n_sites in SITES:
            for epsilon in EPSILONS:
                draws = [task.accuracy(epsilon, n_sites, seed) for task in made for seed in range(args.draws)]
                found = float(np.mean(draws))
                expected = forecast_moments(
                    shape[0] / n_sites, shape[1], shape[2], epsilon, DELTA, n_sites=n_sites
                )
                guess = expected.accuracy(max(plain, guessing), guessing)
                lines.append(
                    (name, *shape, n_sites, epsilon, guessing, plain, found, float(np.std(draws)), guess)
                )
                measured.append((name, expected.noise, found - guessing, plain - guessing))
                values[f"{name} {n_sites} {epsilon}"] = found - guess
                if epsilon == 1.0 and n_sites == 3 and first.agreed.centre is not None:
                    origin = clone(first.agreed).set_params(centre=None)
                    none = [t.accuracy(1.0, 3, seed, origin) for t in made for seed in range(args.draws)]
                    centres.append((name, guessing, plain, found, float(np.mean(none))))
        note(name)
    rows = [(*line[:9], f"± {line[9]:.3f}", line[10], 100 * (line[10] - line[8])) for line in lines]
    tables = [
        _summary(lines),
        Table("Forecast and measurement", (*HEADERS, "spread", "forecast", "points off"), rows),
        Table(
            "Public centre, three sites, epsilon 1 per record",
            ("data", "guessing", "no noise", "seen from the public centre", "from the origin"),
            centres,
        ),
    ]
    return Outcome(values, [*tables, *([] if args.quick else [_left_out(measured)])])


def _summary(lines: list[tuple[Any, ...]]) -> Table:
    """One row for each set: measured / forecast accuracy at every number of sites and epsilon."""
    rows = []
    for name in dict.fromkeys(line[0] for line in lines):
        own = [line for line in lines if line[0] == name]
        _, n_rows, columns, classes, _, _, guessing, plain = own[0][:8]
        pairs = [f"{line[8]:.3f} / {line[10]:.3f}" for line in own]
        off = max(100 * abs(line[10] - line[8]) for line in own)
        about = f"{name.split(',')[0]}, {n_rows} x {columns}, {classes} classes"
        rows.append((about, f"{guessing:.3f}", f"{plain:.3f}", *pairs, f"{off:.1f}"))
    settings = [f"{_sites(n_sites)}, epsilon {epsilon:g}" for n_sites in SITES for epsilon in EPSILONS]
    headers = ("data", "guessing", "no noise", *settings, "largest error in points")
    return Table("Measured / forecast accuracy", headers, rows)


def _sites(count: int) -> str:
    return "one site" if count == 1 else f"{count} sites"


def _left_out(measured: list[tuple[str, float, float, float]]) -> Table:
    names = np.array([line[0] for line in measured])
    noise, gains, plain = (np.array([line[place] for line in measured]) for place in (1, 2, 3))
    half, steep = left_out(noise, gains, plain)
    found = [("all", half, steep, "")]
    for name in dict.fromkeys(names.tolist()):
        others = names != name
        half, steep = left_out(noise[others], gains[others], plain[others])
        error = plain[~others] / (1.0 + (noise[~others] / half) ** steep) - gains[~others]
        found.append((name, half, steep, f"{100 * np.abs(error).max():.1f}"))
    return Table(
        "Constants without one set, and the largest error on it", ("left out", "t0", "k", "points"), found
    )


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    options = harness.parser(__doc__)
    options.add_argument("--splits", type=int, default=3, help="divisions of each set (default: 3)")
    options.add_argument("--draws", type=int, default=4, help="releases of each division (default: 4)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
