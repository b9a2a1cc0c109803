"""Datasets that need no file: scikit-learn's small ones and two generated ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = tuple[NDArray[Any], NDArray[Any], tuple[str, ...], str]


def _from_scikit_learn(loader: str, divisor: float, description: str) -> Rows:
    from sklearn import datasets  # imported late: it pulls in much that `import onefold` does not need

    bunch = getattr(datasets, loader)()
    return bunch.data / divisor, bunch.target, tuple(map(str, bunch.feature_names)), description


def _digits() -> Rows:
    text = "1797 handwritten digits of 8 x 8 pixels, divided by 16 so that they lie in [0, 1]."
    return _from_scikit_learn("load_digits", 16.0, text)


def _iris() -> Rows:
    return _from_scikit_learn(
        "load_iris", 1.0, "150 iris flowers of three species, four lengths in centimetres."
    )


def _wine() -> Rows:
    text = "178 wines of three growers, 13 measurements in their own units: standardise before use."
    return _from_scikit_learn("load_wine", 1.0, text)


def _breast_cancer() -> Rows:
    text = "569 tumours (0 malignant, 1 benign), 30 measurements in their own units: standardise before use."
    return _from_scikit_learn("load_breast_cancer", 1.0, text)


def _blobs() -> Rows:
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(4, 10))
    y = np.repeat(np.arange(4), 200)
    X = centres[y] + rng.normal(size=(len(y), 10))
    return X, y, tuple(f"x{j}" for j in range(10)), "800 points in four Gaussian clouds in ten dimensions."


def _moons() -> Rows:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, np.pi, size=600)
    y = np.repeat([0, 1], 300)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    lower = np.column_stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)])
    X = np.where(y[:, None] == 0, upper, lower) + 0.1 * rng.normal(size=(600, 2))
    return X, y, ("x0", "x1"), "600 points on two interleaved half circles in the plane, with noise 0.1."


BUNDLED: dict[str, Callable[[], Rows]] = {
    "blobs": _blobs,
    "breast_cancer": _breast_cancer,
    "digits": _digits,
    "iris": _iris,
    "moons": _moons,
    "wine": _wine,
}
