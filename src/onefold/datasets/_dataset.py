"""The one shape every dataset is delivered in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels of a classification problem, already divided into training and test part.

    Parameters
    ----------
    X_train, X_test : arrays (n_samples, n_features) of one floating-point type.
    y_train, y_test : arrays (n_samples,) of labels.
    name : the name it was loaded by.
    feature_names : one name per column.
    description : one or two sentences: what it is, how it was scaled and divided.
    """

    X_train: NDArray[Any]
    y_train: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    name: str
    feature_names: tuple[str, ...]
    description: str

    def __post_init__(self) -> None:
        for part, X, y in (("training", self.X_train, self.y_train), ("test", self.X_test, self.y_test)):
            if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
                raise InvalidInputError(
                    f"dataset {self.name!r}: the {part} part needs features (n, p) and as many labels (n,)"
                )
        if not self.X_train.shape[1] == self.X_test.shape[1] == len(self.feature_names):
            raise InvalidInputError(
                f"dataset {self.name!r}: training part, test part and names differ in the number of features"
            )
