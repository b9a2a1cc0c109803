"""Training and test parts of datasets that have no official ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError


def _test_rows(y: NDArray[Any], test_size: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Row numbers of the test part: the same share of every class, at least one row of each left to train."""
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        n_test = min(int(test_size * len(rows) + 0.5), len(rows) - 1)
        chosen.append(rng.permutation(rows)[:n_test])
    return np.sort(np.concatenate(chosen))


def train_test_split(
    X: ArrayLike, y: ArrayLike, test_size: float = 0.25, random_state: int | None = 0
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Divide rows so that every class has the same share in the test part, the same way every time.

    Rows keep their order. A class with a single row stays in the training part.

    Parameters
    ----------
    X, y : features (n, p) and labels (n,).
    test_size : share of the test part, strictly between 0 and 1.
    random_state : seed of the choice; None draws a fresh one.

    Returns
    -------
    X_train, y_train, X_test, y_test

    Examples
    --------
    >>> import numpy as np
    >>> X_train, y_train, X_test, y_test = train_test_split(np.arange(8)[:, None], [0] * 4 + [1] * 4)
    >>> y_train.tolist(), y_test.tolist()
    ([0, 0, 0, 1, 1, 1], [0, 1])
    """
    features, labels = np.asarray(X), np.asarray(y)
    if labels.ndim != 1 or len(features) != len(labels):
        raise InvalidInputError("X and y must have the same number of rows, and y one dimension")
    if not 0 < test_size < 1:
        raise InvalidInputError("test_size must lie strictly between 0 and 1")
    in_test = np.zeros(len(labels), dtype=bool)
    if len(labels):
        in_test[_test_rows(labels, test_size, np.random.default_rng(random_state))] = True
    if not in_test.any():
        raise InvalidInputError("too few rows: the test part would be empty")
    return features[~in_test], labels[~in_test], features[in_test], labels[in_test]
