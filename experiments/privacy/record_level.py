"""Record-level privacy in one release: private moments of public features, beside what else there is.

Accuracy, mean and standard deviation over the seeds, for a whole record at delta 1e-5. Encoders, budget
shares and regularisation were chosen on a split of the training data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import harness, stored
from experiments.data import named
from experiments.harness import Outcome, Table, note, parser, timed
from experiments.kahm import private
from experiments.other_environment import python_of
from experiments.privacy import peer
from experiments.privacy.gradient_descent import PrivateGradientDescent
from onefold import AutoencoderClassifier, WideKAHM
from onefold.encoders import Encoder, GradientHistograms, RandomFeatures
from onefold.fabrication.moments import MomentClassifier, MomentFabricator
from onefold.privacy import Box, OptimalNoise, PrivateMoments

DELTA = 1e-5
EPSILONS = (1.0, 4.0, 8.0)
N_OWNERS = 10
HEADERS = ("data", "method", "record epsilon", "accuracy", "spread", "seconds")


@dataclass(frozen=True)
class Task:
    """A dataset, its public encoder (None: it comes encoded), and what was chosen for it."""

    encoder: Encoder | None
    shares: tuple[float, float, float, float]
    descent: dict[float | None, tuple[int, float, float]]  # epsilon -> steps, rate, clip
    centre: float | None = None  # length of a public centre, the same in every direction


TASKS = {
    "mnist": Task(
        GradientHistograms((28, 28), margin=4),
        (0.05, 0.02, 0.28, 0.70),
        {None: (300, 60.0, 1.0), 1.0: (150, 60.0, 0.2), 4.0: (250, 60.0, 0.5), 8.0: (300, 60.0, 1.0)},
        centre=0.7,
    ),
    "20newsgroups_use_multilingual": Task(
        None,
        (0.05, 0.02, 0.63, 0.30),
        {None: (150, 60.0, 1.0), 1.0: (20, 40.0, 0.2), 4.0: (40, 50.0, 0.2), 8.0: (50, 60.0, 0.2)},
    ),
    "cifar10_effnetlite0": Task(
        RandomFeatures(512, "projection"),
        (0.05, 0.02, 0.28, 0.70),
        {None: (300, 60.0, 1.0), 1.0: (50, 40.0, 0.2), 4.0: (100, 60.0, 0.2), 8.0: (150, 60.0, 0.2)},
    ),
}


@dataclass(frozen=True)
class Encoded:
    """Unit-norm features of both parts, labels as numbers from 0."""

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.intp]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.intp]
    seconds: float

    @property
    def classes(self) -> range:
        """What a label can be."""
        return range(int(self.y.max()) + 1)


def load(name: str, args: argparse.Namespace) -> Encoded:
    """The dataset after its encoder, fewer records with ``--quick``."""
    data = named.load(name, args.data_dir, dtype=np.float32)
    train, test = (3000, 500) if args.quick else (len(data.X_train), len(data.X_test))
    labels, codes = np.unique(data.y_train, return_inverse=True)
    encoder = TASKS[name].encoder

    def encode(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows if encoder is None else encoder.fit(rows[:1]).transform(rows)

    X, seconds = timed(lambda: encode(data.X_train[:train]))
    note(f"{name}: {len(X)} records of {X.shape[1]} values, encoded in {seconds:.1f} s")
    y_test = np.searchsorted(labels, data.y_test[:test])
    return Encoded(name, X, codes[:train], encode(data.X_test[:test]), y_test, seconds)


Run = Callable[[int], tuple[float, float]]  # from a seed to accuracy and seconds


def accuracy(data: Encoded, predicted: NDArray[Any]) -> float:
    return float(np.mean(predicted == data.y_test))


def moments_run(data: Encoded, epsilon: float | None) -> Run:
    """One release, quadratic discriminant."""

    def run(seed: int) -> tuple[float, float]:
        shares = TASKS[data.name].shares
        options = {"classes": data.classes, "shares": shares, "second_moments": "class"}
        model = MomentClassifier(epsilon, DELTA, **options, random_state=seed)
        _, seconds = timed(lambda: model.fit(data.X, data.y))
        return accuracy(data, model.predict(data.X_test)), seconds

    return run


def owners_run(data: Encoded, epsilon: float) -> Run:
    """Records divided among sites: each releases once about a public centre, the releases are added up."""

    def run(seed: int) -> tuple[float, float]:
        def together() -> MomentClassifier:
            order = np.random.default_rng(seed).permutation(len(data.X))
            owners = []
            for number, rows in enumerate(np.array_split(order, N_OWNERS)):
                moments = PrivateMoments(
                    epsilon,
                    DELTA,
                    classes=data.classes,
                    centre=public_centre(data),
                    shares=TASKS[data.name].shares,
                    random_state=1000 * seed + number,
                )
                owners.append(moments.fit(data.X[rows], data.y[rows]))
            total = owners[0]
            for owner in owners[1:]:
                total = total.add(owner)
            return MomentClassifier.from_moments(total)

        model, seconds = timed(together)
        return accuracy(data, model.predict(data.X_test)), seconds

    return run


def public_centre(data: Encoded) -> NDArray[np.float64] | None:
    """For features that are never negative: the same in every direction. Nothing is looked at."""
    length, size = TASKS[data.name].centre, data.X.shape[1]
    return None if length is None else np.full(size, length / np.sqrt(size))


def fabricated_run(data: Encoded, epsilon: float, n_samples: int) -> Run:
    """Synthetic records from the release train a kernel affine hull machine per class."""

    def run(seed: int) -> tuple[float, float]:
        def train() -> tuple[MomentFabricator, AutoencoderClassifier]:
            shares = TASKS[data.name].shares
            source = MomentFabricator(epsilon, DELTA, classes=data.classes, shares=shares, random_state=seed)
            synthetic, labels = source.fit(data.X, data.y).sample(n_samples, balanced=True, random_state=seed)
            machine = WideKAHM(20, 1, random_state=0, scale="auto")
            return source, AutoencoderClassifier(machine).fit(synthetic, labels)

        (source, model), seconds = timed(train)
        return accuracy(data, model.predict(source.transform(data.X_test))), seconds

    return run


def descent_run(data: Encoded, epsilon: float | None) -> Run:
    """Full-batch gradient descent with noise in every step."""

    def run(seed: int) -> tuple[float, float]:
        steps, rate, clip = TASKS[data.name].descent[epsilon]
        model = PrivateGradientDescent(epsilon, DELTA, steps, rate, clip, seed=seed)
        # Seen from the same public centre as the sites' records: without it descent is much slower.
        view = PrivateMoments(None, centre=public_centre(data)).fit(data.X[:1], data.y[:1])
        rows = view.embed(data.X)
        _, seconds = timed(lambda: model.fit(rows, data.y, len(data.classes)))
        return accuracy(data, model.predict(view.embed(data.X_test))), seconds

    return run


def row(data: Encoded, method: str, epsilon: object, found: list[tuple[float, float]]) -> list[object]:
    scores, seconds = np.array(found).T
    spread = float(scores.std(ddof=1)) if len(scores) > 1 else None
    note(f"{data.name}, {method}, record epsilon {epsilon}: {scores.mean():.4f}, {seconds.mean():.1f} s")
    return [data.name, method, epsilon, float(scores.mean()), spread, round(float(seconds.mean()), 2)]


def methods(data: Encoded, args: argparse.Namespace) -> Iterator[tuple[str, object, Run]]:
    """Everything that is measured here, in the order of the table."""
    n_samples = len(data.classes) * (100 if args.quick else 1000 if len(data.classes) == 10 else 500)
    yield "moments", None, moments_run(data, None)
    yield "gradient descent", None, descent_run(data, None)
    for epsilon in EPSILONS:
        yield "moments", epsilon, moments_run(data, epsilon)
        yield f"moments of {N_OWNERS} sites, one round", epsilon, owners_run(data, epsilon)
        yield "fabricated from moments, KAHM", epsilon, fabricated_run(data, epsilon, n_samples)
        yield "gradient descent", epsilon, descent_run(data, epsilon)


def measure(data: Encoded, args: argparse.Namespace) -> list[list[object]]:
    """All rows of one dataset."""
    rows = []
    for method, epsilon, run in methods(data, args):
        # Without noise there is nothing to repeat.
        seeds = range(1 if epsilon is None else args.seeds)
        rows.append(row(data, method, epsilon or "none", [run(seed) for seed in seeds]))
    return rows + peer_rows(data, args) + entry_rows(data, args)


def peer_rows(data: Encoded, args: argparse.Namespace) -> list[list[object]]:
    """Logistic regression of diffprivlib, if its environment is there."""
    python = python_of(args.peer)
    if python is None:
        note("diffprivlib left out: make its environment with python -m experiments.privacy.peer FOLDER")
        return []
    arrays = {"X": data.X, "y": data.y, "X_test": data.X_test, "y_test": data.y_test}
    name = "logistic regression (diffprivlib, delta 0)"
    return [
        row(data, name, epsilon, peer.logistic_regression(python, arrays, epsilon, list(range(args.seeds))))
        for epsilon in EPSILONS
    ]


def entry_rows(data: Encoded, args: argparse.Namespace) -> list[list[object]]:
    """The documents' noise on every pixel, with what it means for a whole image."""
    if data.name != "mnist":
        return []
    rows: list[list[object]] = []
    pixels = named.load("mnist", args.data_dir, dtype=np.float32)
    images = pixels.X_train[: len(data.X)]
    encoder = GradientHistograms((28, 28), margin=4).fit(images[:1])
    for epsilon in EPSILONS:
        record = OptimalNoise(epsilon, DELTA, sensitivity=1.0).guarantee(images.shape[1]).record[0]
        recorded = reported_entry_accuracy(epsilon)
        rows.append(
            [data.name, f"KAHM, noise of entry epsilon {epsilon:g}", round(record, 1), recorded, None, None]
        )
    for epsilon in EPSILONS:
        # The same noise calibrated for the record: a whole image may change.
        mechanism = OptimalNoise(epsilon, DELTA, Box(0.0, 1.0, images.shape[1]), unit="record")

        def run(seed: int, mechanism: OptimalNoise = mechanism) -> tuple[float, float]:
            def train() -> MomentClassifier:
                noisy = encoder.transform(mechanism.randomise(images, random_state=seed))
                return MomentClassifier(None, classes=data.classes, second_moments="class").fit(noisy, data.y)

            model, seconds = timed(train)
            return accuracy(data, model.predict(data.X_test)), seconds

        rows.append(row(data, "noise on pixels, calibrated for the image", epsilon, [run(0)]))
    return rows


def reported_entry_accuracy(epsilon: float) -> float | None:
    """Accuracy of the entry-level method, as its own experiment stored it."""
    kept = stored.read(stored.path_of(Path(private.__file__)))
    return None if kept is None else kept["values"].get(f"digits ({epsilon:g}, 20) noisy accuracy")


def experiment(args: argparse.Namespace) -> Outcome:
    """One table for all chosen datasets."""
    rows = [found for name in args.datasets or TASKS for found in measure(load(name, args), args)]
    values = {_key(found): float(str(found[3])) for found in rows if found[3] is not None}
    title = f"Privacy of whole records, delta {DELTA:g}, {args.seeds} seeds (spread: standard deviation)"
    return Outcome(values, [Table(title, HEADERS, rows)])


def _key(found: list[object]) -> str:
    """The name under which a row's accuracy is recorded."""
    return f"{found[0]} {found[1]} {found[2]}"


def options() -> argparse.ArgumentParser:
    """Common options, and which parts to run."""
    found = parser(__doc__)
    found.add_argument("--datasets", nargs="+", choices=list(TASKS), help="data to run (default: all)")
    found.add_argument(
        "--seeds", type=int, default=5, help="number of releases per row of the table (default: 5)"
    )
    found.add_argument(
        "--peer", metavar="FOLDER", help="environment with diffprivlib, made by experiments.privacy.peer"
    )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the table and compare it with the stored one; exit codes as for all experiments."""
    return harness.main(__file__, options(), experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
