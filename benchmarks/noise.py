"""Noise that resists attacks on floating point, against numpy's own Laplace noise."""

from collections.abc import Callable

import numpy as np

from benchmarks.data import Sizes
from benchmarks.timing import Row, best
from onefold.privacy import AnalyticGaussian, Laplace, Mechanism, OptimalNoise

ENTRIES = 1000  # per sample of the small-machine benchmark: ten million entries in full size


def against_numpy(mechanism: Mechanism, name: str, entries: int, numpy_seconds: float) -> Row:
    """Exact integer noise from the system's cryptographic generator."""
    ours = best(lambda: mechanism.sample(entries))
    return Row(
        f"{name} hardened, {entries} entries: time / numpy's Laplace",
        ours / numpy_seconds,
        "<= 5",
        {"numpy_seconds": numpy_seconds, "seconds": ours},
    )


def rows(sizes: Sizes) -> list[Row]:
    """Every hardened sampler."""
    entries = ENTRIES * sizes.small_rows
    draw: Callable[[], np.ndarray] = lambda: np.random.default_rng().laplace(size=entries)  # noqa: E731
    numpy_seconds = best(draw)
    samplers = {
        "Laplace": Laplace(1.0, sensitivity=1.0),
        "OptimalNoise": OptimalNoise(1.0, sensitivity=1.0),
        "AnalyticGaussian": AnalyticGaussian(1.0, sensitivity=1.0),
    }
    return [against_numpy(mechanism, name, entries, numpy_seconds) for name, mechanism in samplers.items()]
