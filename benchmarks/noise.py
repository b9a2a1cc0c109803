"""Noise that resists attacks on floating point, against numpy's noise of the same family."""

from collections.abc import Callable

import numpy as np

from benchmarks.data import Sizes
from benchmarks.timing import Row, best
from onefold.privacy import AnalyticGaussian, FisherGaussian, Laplace, OptimalNoise

ENTRIES = 1000  # per sample of the small-machine benchmark: ten million entries in full size
COLUMNS = 10  # of the table that FisherGaussian draws for


def rows(sizes: Sizes) -> list[Row]:
    """Every hardened sampler, from the system's cryptographic generator."""
    entries = ENTRIES * sizes.small_rows
    numpy = np.random.default_rng()
    theirs = {
        "Laplace": best(lambda: numpy.laplace(size=entries)),
        "Gaussian": best(lambda: numpy.normal(size=entries)),
    }
    table = (entries // COLUMNS, COLUMNS)
    ours: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
        "Laplace": ("Laplace", lambda: Laplace(1.0, sensitivity=1.0).sample(entries)),
        "OptimalNoise": ("Laplace", lambda: OptimalNoise(1.0, sensitivity=1.0).sample(entries)),
        "AnalyticGaussian": ("Gaussian", lambda: AnalyticGaussian(1.0, sensitivity=1.0).sample(entries)),
        "FisherGaussian": ("Gaussian", lambda: FisherGaussian(1.0, sensitivity=1.0).sample(table)),
    }
    return [against_numpy(name, draw, family, theirs[family]) for name, (family, draw) in ours.items()]


def against_numpy(name: str, draw: Callable[[], np.ndarray], family: str, numpy_seconds: float) -> Row:
    """Return how many times as long the exact noise takes."""
    seconds = best(draw)
    return Row(
        f"{name} hardened: time / numpy's {family}",
        seconds / numpy_seconds,
        "<= 5",
        {"numpy_seconds": numpy_seconds, "seconds": seconds},
    )
