"""Data for the benchmarks: MNIST where it can be found, a stand-in of the same shape elsewhere."""

from dataclasses import dataclass

import numpy as np

from onefold import datasets
from onefold.exceptions import InvalidInputError


@dataclass(frozen=True)
class Sizes:
    """How large the benchmarks are."""

    machine: int = 1000  # samples of a single machine
    wide: int = 20000  # samples of the wide machine
    queries: int = 2000
    small_rows: int = 10000  # rows for the many small machines
    peers: tuple[int, ...] = (10000, 60000)
    loading: int = 40000  # rows of the model that is saved and loaded


QUICK = Sizes(machine=300, wide=2000, queries=300, small_rows=2000, peers=(1000,), loading=4000)
FULL = Sizes(loading=200_000)


def digits(n_samples: int) -> tuple[np.ndarray, str]:
    """Images of digits as float64 rows in [0, 1], and what they are."""
    try:
        X = datasets.load("mnist").X_train[:n_samples]
        return np.asarray(X, dtype=np.float64), "MNIST digits"
    except InvalidInputError:
        # Sparse, non-negative, clustered and of full size, so that the work is the same.
        rng = np.random.default_rng(0)
        centres = rng.random((60, 784)) * (rng.random((60, 784)) < 0.2)
        X = centres[rng.integers(60, size=n_samples)] + 0.2 * rng.normal(size=(n_samples, 784))
        return np.clip(X, 0.0, 1.0), "generated rows (no MNIST found: set ONEFOLD_DATA)"
