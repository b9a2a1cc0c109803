"""Small data sets on which the fast machines are compared with the literal ones: (samples, n_components)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits

Array = np.ndarray
Generator = np.random.Generator


def tall(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(60, 5)), 4


def more_features_than_samples(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(25, 90)), 7


def twenty_components(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(70, 30)), 20


def all_components(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(40, 6)), 20


def as_many_components_as_samples(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(12, 40)), 20


def one_feature(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(30, 1)) + 0.5, 20


def two_samples(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(2, 4)), 20


def three_samples(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(3, 7)), 20


def scaled_up(rng: Generator) -> tuple[Array, int]:
    return 20.0 * rng.normal(size=(40, 8)), 5


def scaled_down(rng: Generator) -> tuple[Array, int]:
    return 0.2 * rng.normal(size=(40, 8)), 5


def shifted(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(40, 8)) + 30.0, 5


def unequal_columns(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(50, 6)) * [10.0, 3.0, 1.0, 0.3, 0.1, 0.03], 6


def sparse_pixels(rng: Generator) -> tuple[Array, int]:
    """Non-negative, mostly zero, with columns that never change: the look of handwritten digits."""
    strokes = rng.random((6, 400)) * (rng.random((6, 400)) < 0.25)
    Y = np.clip(rng.random((45, 6)) @ strokes + 0.3 * (rng.random((45, 400)) - 0.8), 0.0, 1.0)
    Y[:, :60] = 0.0
    return Y, 10


def digits(rng: Generator) -> tuple[Array, int]:
    data = load_digits()
    return data.data[data.target == 3][:60] / 16.0, 12


def duplicates(rng: Generator) -> tuple[Array, int]:
    return np.repeat(rng.normal(size=(12, 5)), 3, axis=0), 4


def constant_columns(rng: Generator) -> tuple[Array, int]:
    Y = rng.normal(size=(30, 6))
    Y[:, [1, 4]] = 2.5
    return Y, 6


def rank_deficient(rng: Generator) -> tuple[Array, int]:
    return rng.normal(size=(40, 3)) @ rng.normal(size=(3, 15)), 20


def tiny_ranges(rng: Generator) -> tuple[Array, int]:
    """The last two components have ranges below 1e-3 and must be dropped (004 Alg. 1)."""
    return rng.normal(size=(30, 5)) * [1.0, 0.5, 0.2, 1e-5, 1e-6], 5


def many_samples(rng: Generator) -> tuple[Array, int]:
    """More than about a hundred samples: a fast version may solve these by another route."""
    return rng.normal(size=(150, 9)) + 0.5, 6


def many_samples_more_features(rng: Generator) -> tuple[Array, int]:
    return 0.6 * rng.normal(size=(140, 160)), 20


def many_small_samples(rng: Generator) -> tuple[Array, int]:
    """Hardly regularised, but well above the smallest range."""
    return 0.05 * rng.normal(size=(150, 9)), 6


def many_duplicates(rng: Generator) -> tuple[Array, int]:
    return np.repeat(rng.normal(size=(35, 7)) + 0.2, 4, axis=0), 5


SAMPLES: dict[str, Callable[[Generator], tuple[Array, int]]] = {
    function.__name__: function
    for function in (
        tall,
        more_features_than_samples,
        twenty_components,
        all_components,
        as_many_components_as_samples,
        one_feature,
        two_samples,
        three_samples,
        scaled_up,
        scaled_down,
        shifted,
        unequal_columns,
        sparse_pixels,
        digits,
        duplicates,
        constant_columns,
        rank_deficient,
        tiny_ranges,
        many_samples,
        many_samples_more_features,
        many_small_samples,
        many_duplicates,
    )
}


# Where the literal versions take long; one large sample is left for every run.
SLOW = ("many_duplicates", "many_samples_more_features", "many_small_samples", "sparse_pixels")


def queries(Y: Array, rng: Generator, count: int = 12) -> Array:
    """Samples, points between and beside samples, and the mean: where the ratio of eq. 33 is tame."""
    N = len(Y)
    spread = Y.std(axis=0) + 1e-3 * np.abs(Y).max()
    chosen = Y[rng.integers(N, size=count)]
    between = 0.5 * (Y[rng.integers(N, size=count)] + Y[rng.integers(N, size=count)])
    beside = Y[rng.integers(N, size=count)] + 0.7 * spread * rng.normal(size=(count, Y.shape[1]))
    return np.vstack([chosen, between, beside, Y.mean(axis=0, keepdims=True)])


# Those that literal versions with a cube of the number of samples need no more than a few seconds for.
QUICK = (
    "constant_columns",
    "duplicates",
    "more_features_than_samples",
    "one_feature",
    "rank_deficient",
    "scaled_down",
    "scaled_up",
    "shifted",
    "three_samples",
    "tiny_ranges",
    "two_samples",
)


def size(Y: Array) -> float:
    """Norm of the longest sample: what absolute errors are measured by."""
    return float(np.linalg.norm(Y, axis=1).max())
