"""Small labelled data sets for the tests of private moments."""

import numpy as np


def cloud(n: int = 400, p: int = 3, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around the first unit vectors, one for each class; some are longer than one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, p)) / 4 + np.eye(max(p, n_classes))[y, :p] / 2
    return X, y
