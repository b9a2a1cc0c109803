"""Image encoders at record level: which public features lose least in the noise of private moments.

MNIST and Fashion-MNIST, accuracy on the test rows, for a whole image with its label at delta 1e-5. Encoders
and settings were chosen on a division of Fashion-MNIST's training rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import harness
from experiments.data import named
from experiments.harness import Outcome, Table, note, parser, timed
from onefold import datasets
from onefold.encoders import ContrastHistograms, Encoder, GradientHistograms, WhitenedHistograms
from onefold.exceptions import InvalidInputError
from onefold.fabrication.moments import MomentClassifier

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
CLASSES = range(10)
# Digits are known to have an empty border of four pixels.
MARGINS = {"mnist": 4, "fashion_mnist": 0}
LINEAR_SHARES = (0.04, 0.01, 0.55, 0.40)
# Two releases: of the budget the first gets the last share, for the matrix that whitens the second.
TWICE_LINEAR_SHARES = (0.04, 0.01, 0.43, 0.31, 0.21)
# A quadratic head for whitened rows: shares of the budget, how far classes are shrunk, least variances.
TWICE_QUADRATIC_SHARES, SHRINKAGE, FLOOR = (0.015, 0.01, 0.12, 0.765, 0.09), 0.85, 0.3
FIRST = "9 x 9, whitened by a first release"
HEADERS = ("data", "features", "head", "record epsilon", "accuracy", "spread", "seconds")

Images = NDArray[np.float32]
Parts = tuple[Images, NDArray[np.intp], Images]  # encoded training rows, their labels, encoded test rows
Method = Callable[[Parts, float, int], NDArray[np.intp]]


def quadratic(parts: Parts, epsilon: float, seed: int) -> NDArray[np.intp]:
    """One release, second moments of each class."""
    model = MomentClassifier(epsilon, DELTA, classes=CLASSES, head="qda", random_state=seed)
    return np.asarray(model.fit(parts[0], parts[1]).predict(parts[2]))


def linear(parts: Parts, epsilon: float, seed: int) -> NDArray[np.intp]:
    """One release, one second moment."""
    model = MomentClassifier(
        epsilon, DELTA, classes=CLASSES, head="lda", shares=LINEAR_SHARES, random_state=seed
    )
    return np.asarray(model.fit(parts[0], parts[1]).predict(parts[2]))


def twice_linear(parts: Parts, epsilon: float, seed: int) -> NDArray[np.intp]:
    """Two releases under one promise: one second moment whitens the rows of the other."""
    model = MomentClassifier(
        epsilon,
        DELTA,
        classes=CLASSES,
        head="lda",
        whitening="private",
        shares=TWICE_LINEAR_SHARES,
        random_state=seed,
    )
    return np.asarray(model.fit(parts[0], parts[1]).predict(parts[2]))


def twice_quadratic(parts: Parts, epsilon: float, seed: int) -> NDArray[np.intp]:
    """Two releases; second moments of each class are drawn far towards their mean by a public share."""
    model = MomentClassifier(
        epsilon,
        DELTA,
        classes=CLASSES,
        head="qda",
        whitening="private",
        shares=TWICE_QUADRATIC_SHARES,
        shrinkage=SHRINKAGE,
        floor=FLOOR,
        random_state=seed,
    )
    return np.asarray(model.fit(parts[0], parts[1]).predict(parts[2]))


def methods(margin: int) -> list[tuple[str, str, Encoder, Method]]:
    """Features, head, encoder and what is done with them."""
    shape = (28, 28)
    fine = GradientHistograms(shape, n_cells=9, margin=margin)
    contrast = ContrastHistograms(shape, margin=margin)
    return [
        ("histograms 4 x 4", "qda", GradientHistograms(shape, margin=margin), quadratic),
        ("whitened histograms 6 x 6", "qda", WhitenedHistograms(shape, margin=margin), quadratic),
        ("whitened histograms 9 x 9", "lda", WhitenedHistograms(shape, n_cells=9, margin=margin), linear),
        (f"histograms {FIRST}", "lda", fine, twice_linear),
        (f"contrast histograms {FIRST}", "qda", contrast, twice_quadratic),
    ]


def load(name: str, data_dir: str | None) -> datasets.Dataset:
    """A dataset; for Fashion-MNIST with a hint where to get it."""
    try:
        return named.load(name, data_dir, dtype=np.float32)
    except InvalidInputError as error:
        if name != "fashion_mnist":
            raise
        raise InvalidInputError(
            f"{error} (python -m experiments.privacy.fashion FOLDER makes the file in FOLDER)"
        ) from None


def experiment(args: argparse.Namespace) -> Outcome:
    """One table for both datasets."""
    rows: list[list[object]] = []
    for name in args.datasets or MARGINS:
        data = load(name, args.data_dir)
        train, test = (3000, 500) if args.quick else (len(data.X_train), len(data.X_test))
        y_test = data.y_test[:test]
        for features, head, encoder, method in methods(MARGINS[name]):
            if args.features is not None and features not in args.features:
                continue
            encoder.fit(data.X_train[:1])
            X, seconds = timed(partial(encoder.transform, data.X_train[:train]))
            note(f"{name}, {features}: {len(X)} images of {X.shape[1]} values encoded in {seconds:.0f} s")
            parts = (X, data.y_train[:train].astype(np.intp), encoder.transform(data.X_test[:test]))
            for epsilon in args.epsilons:
                found = []
                for seed in range(args.seeds):
                    predicted, seconds = timed(partial(method, parts, epsilon, seed))
                    found.append((float(np.mean(predicted == y_test)), seconds))
                scores, times = np.array(found).T
                spread = float(scores.std(ddof=1)) if len(scores) > 1 else None
                note(f"{name}, {features}, {head}, epsilon {epsilon:g}: {scores.mean():.4f}")
                rows.append(
                    [name, features, head, epsilon, float(scores.mean()), spread, float(times.mean())]
                )
    values = {f"{row[0]} {row[1]} {row[2]} {row[3]}": float(str(row[4])) for row in rows}
    title = f"Private moments of images, delta {DELTA:g}, {args.seeds} seeds (spread: standard deviation)"
    return Outcome(values, [Table(title, HEADERS, rows)])


def options() -> argparse.ArgumentParser:
    """Common options, and which parts to run."""
    found = parser(__doc__)
    found.add_argument("--datasets", nargs="+", choices=list(MARGINS), help="data to run (default: both)")
    names = [features for features, *_ in methods(0)]
    found.add_argument("--features", nargs="+", choices=names, help="features to run (default: all)")
    found.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS, help="privacy losses to run")
    found.add_argument("--seeds", type=int, default=3, help="number of releases per row (default: 3)")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the table and compare it with the stored one; exit codes as for all experiments."""
    return harness.main(str(Path(__file__)), options(), experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
