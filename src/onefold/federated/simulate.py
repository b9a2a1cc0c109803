"""A whole federation in one process: what would joining bring each owner?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from onefold import datasets
from onefold._base.progress import track
from onefold.exceptions import InvalidInputError
from onefold.federated.client import ClassModels, LocalModel, align
from onefold.federated.server import GlobalClassifier
from onefold.models import AutoencoderClassifier, maximum_of

__all__ = ["Simulation", "simulate"]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Accuracies on one test set, and who had which classes.

    Parameters
    ----------
    alone : accuracy of each owner's own model.
    pooled : accuracy of one model of all rows in one place.
    federated : accuracy of the global classifier, in one round.
    classes : labels, in the order of the columns of ``class_counts``.
    class_counts : number of rows of each class at each owner, (Q, C).
    n_test : number of test rows.
    """

    alone: tuple[float, ...]
    pooled: float
    federated: float
    classes: NDArray[Any]
    class_counts: NDArray[np.intp]
    n_test: int


def simulate(
    X: ArrayLike,
    y: ArrayLike,
    n_clients: int,
    partition: str | Sequence[ArrayLike] = "iid",
    *,
    estimator: ClassModels | None = None,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    rule: str = "min",
    random_state: int | None = None,
    show_progress: bool | None = None,
    **partition_options: Any,
) -> Simulation:
    """Spread rows over owners, let each fit alone, and combine them in one round.

    Parameters
    ----------
    X, y : rows to be spread. n_clients : number of owners. partition : a way of
    :func:`onefold.datasets.partition`, or one array of row numbers per owner. estimator : the classifier
    every owner uses; ``AutoencoderClassifier()`` when None. X_test, y_test : rows to be judged on; when
    None, a quarter of every class of ``X``, which nobody then owns.
        Row numbers in ``partition`` count the rows that are left.
    rule : see :class:`GlobalClassifier`.
    random_state : seed of the partition.
    show_progress : None shows a bar for long runs on a terminal, True always, False never.
    **partition_options : passed on: ``alpha``, ``classes_per_client``, ``imbalance``.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> data = load("blobs")
    >>> result = simulate(data.X_train, data.y_train, 3, "classes", X_test=data.X_test, y_test=data.y_test,
    ...                   classes_per_client=2, random_state=0)
    >>> result.federated > max(result.alone)
    True
    """
    X, y = np.asarray(X), np.asarray(y)
    if (X_test is None) != (y_test is None):
        raise InvalidInputError("X_test and y_test go together")
    if X_test is None or y_test is None:
        X, y, X_test, y_test = datasets.train_test_split(X, y)
    X_test, y_test = np.asarray(X_test), np.asarray(y_test)
    owners = _owners(y, n_clients, partition, random_state, partition_options)
    prototype = AutoencoderClassifier() if estimator is None else estimator
    server = GlobalClassifier(rule, classes=np.unique(y))
    alone, answers = [], []
    for number, rows in enumerate(track(owners, len(owners), "owners", show_progress)):
        model = LocalModel(prototype).fit(X[rows], y[rows])
        server.add(number, model)
        own = model.answers(X_test)
        alone.append(_accuracy(model.classes_[own.argmin(axis=1)], y_test))
        answers.append(align(own, model.classes_, server.classes_, maximum_of(model.measure)))
    held = np.unique(np.concatenate(owners))
    pooled = clone(prototype).fit(X[held], y[held]).predict(X_test)
    # What server.predict(X_test) gives, without asking every owner a second time.
    federated = server.predict_from_answers(np.stack(answers))
    counts = [[np.sum(y[rows] == label) for label in server.classes_] for rows in owners]
    return Simulation(
        tuple(alone),
        _accuracy(pooled, y_test),
        _accuracy(federated, y_test),
        server.classes_,
        np.array(counts, dtype=np.intp),
        len(y_test),
    )


def _accuracy(predicted: NDArray[Any], truth: NDArray[Any]) -> float:
    return float(np.mean(predicted == truth))


def _owners(
    y: NDArray[Any],
    n_clients: int,
    partition: str | Sequence[ArrayLike],
    random_state: int | None,
    options: dict[str, Any],
) -> list[NDArray[np.intp]]:
    if isinstance(partition, str):
        return datasets.partition(y, n_clients, partition, random_state=random_state, **options)
    owners = [np.asarray(rows) for rows in partition]
    if options:
        raise InvalidInputError("options of a partition make no sense with row numbers")
    if len(owners) != n_clients:
        raise InvalidInputError("there must be one array of row numbers per client")
    for rows in owners:
        if rows.ndim != 1 or rows.size == 0 or not np.issubdtype(rows.dtype, np.integer):
            raise InvalidInputError("every client needs a list of whole row numbers, not empty")
        if rows.min() < 0 or rows.max() >= len(y):
            raise InvalidInputError("a row number lies outside the data")
    return owners
