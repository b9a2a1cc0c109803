"""Ways to spread the rows of a dataset over owners, as lists of row numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError

Rows = NDArray[np.intp]
WAYS = ("classes", "dirichlet", "iid", "long_tailed")


def _labels(y: ArrayLike) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise InvalidInputError("y must be one-dimensional and not empty")
    return labels


def _rows_by_class(labels: NDArray[Any]) -> list[Rows]:
    _, codes = np.unique(labels, return_inverse=True)
    return [np.flatnonzero(codes == c) for c in range(codes.max() + 1)]


def partition(
    y: ArrayLike,
    n_clients: int,
    how: str = "iid",
    *,
    alpha: float | None = None,
    classes_per_client: int = 2,
    imbalance: float = 100.0,
    random_state: int | np.random.Generator | None = None,
) -> list[Rows]:
    """Spread rows over clients: one sorted array of row numbers per client, none of them empty.

    Every row goes to exactly one client, except for ``how="long_tailed"``, which first drops rows.

    Parameters
    ----------
    y : labels (n,).
    n_clients : number of clients, at most the number of rows.
    how : one of

        * "iid": evenly at random;
        * "dirichlet": each client has its own share of every class, drawn from a symmetric Dirichlet
          distribution (small ``alpha``: few classes per client);
        * "classes": each client has rows of at most ``classes_per_client`` classes, no class is left out;
        * "long_tailed": classes are thinned with :func:`long_tail`, then what is left is spread by
          Dirichlet when ``alpha`` is given, evenly when not.
    alpha : concentration of the Dirichlet distribution, 0.5 when None.
    classes_per_client : number of classes for "classes".
    imbalance : largest class over smallest class for "long_tailed".
    random_state : seed or generator.

    Examples
    --------
    >>> y = [0, 0, 0, 1, 1, 1]
    >>> owners = partition(y, n_clients=2, how="classes", classes_per_client=1, random_state=0)
    >>> sorted(rows.tolist() for rows in owners)
    [[0, 1, 2], [3, 4, 5]]
    """
    labels = _labels(y)
    if how not in WAYS:
        raise InvalidInputError(f"how must be one of {', '.join(WAYS)}")
    check_whole_number("n_clients", n_clients)
    if alpha is not None and not 0 < alpha < np.inf:
        raise InvalidInputError("alpha must be positive and finite")
    rng = np.random.default_rng(random_state)
    rows = long_tail(labels, imbalance, rng) if how == "long_tailed" else np.arange(len(labels))
    if len(rows) < n_clients:
        raise InvalidInputError("there are fewer rows than clients")
    if how == "classes":
        owners = _by_classes(labels, n_clients, classes_per_client, rng)
    elif how == "dirichlet" or (how == "long_tailed" and alpha is not None):
        owners = _by_dirichlet(labels[rows], n_clients, 0.5 if alpha is None else alpha, rng)
    else:
        owners = list(np.array_split(rng.permutation(len(rows)), n_clients))
    return [np.sort(rows[owned]) for owned in owners]


def _by_dirichlet(labels: NDArray[Any], n_clients: int, alpha: float, rng: np.random.Generator) -> list[Rows]:
    owner = np.empty(len(labels), dtype=np.intp)
    for rows in _rows_by_class(labels):
        shares = rng.dirichlet(np.full(n_clients, alpha))
        if not np.all(np.isfinite(shares)):  # a tiny alpha underflows: its limit gives all to one client
            shares = np.eye(n_clients)[rng.integers(n_clients)]
        # Rounding also lets shares that cumulate to 1 - 1e-16 end at the last row.
        ends = np.rint(np.cumsum(shares) * len(rows)).astype(np.intp)
        owner[rng.permutation(rows)] = np.searchsorted(ends, np.arange(len(rows)), side="right")
    _fill_empty(owner, n_clients, rng)
    return [np.flatnonzero(owner == client) for client in range(n_clients)]


def _fill_empty(owner: Rows, n_clients: int, rng: np.random.Generator) -> None:
    """Give every client without rows one row of the client that has most (in place)."""
    for client in range(n_clients):
        counts = np.bincount(owner, minlength=n_clients)
        if counts[client] == 0:
            owner[rng.choice(np.flatnonzero(owner == np.argmax(counts)))] = client


def _by_classes(
    labels: NDArray[Any], n_clients: int, per_client: int, rng: np.random.Generator
) -> list[Rows]:
    by_class = _rows_by_class(labels)
    n_classes = len(by_class)
    check_whole_number("classes_per_client", per_client)
    if n_clients * per_client < n_classes:
        raise InvalidInputError("n_clients * classes_per_client must reach the number of classes")
    order = rng.permutation(n_classes)
    # Dealing the shuffled classes like cards gives neighbours different ones and leaves no class out.
    hands = [
        {int(order[(client * per_client + j) % n_classes]) for j in range(per_client)}
        for client in range(n_clients)
    ]
    owners: list[list[Rows]] = [[] for _ in range(n_clients)]
    for c, rows in enumerate(by_class):
        holders = [client for client, hand in enumerate(hands) if c in hand]
        # A class with fewer rows than holders goes first to those who have nothing yet.
        holders.sort(key=lambda client: sum(map(len, owners[client])))
        for client, part in zip(holders, np.array_split(rng.permutation(rows), len(holders)), strict=True):
            owners[client].append(part)
    result = [np.concatenate(parts) for parts in owners]
    if min(map(len, result)) == 0:
        raise InvalidInputError("too few rows per class for that many clients: a client would have none")
    return result


def long_tail(
    y: ArrayLike, imbalance: float = 100.0, random_state: int | np.random.Generator | None = None
) -> Rows:
    """Thin the classes so that their sizes fall geometrically; sorted numbers of the rows kept.

    The c-th of C classes, in the order of their labels, keeps ``largest * imbalance ** (-c / (C - 1))``
    rows, where ``largest`` is the size of the largest class; at least one row, and never more than it has.

    Parameters
    ----------
    imbalance : size of the first class over size of the last one, at least 1.

    Examples
    --------
    >>> kept = long_tail([0] * 100 + [1] * 100 + [2] * 100, imbalance=100, random_state=0)
    >>> [int(np.sum((kept >= 100 * c) & (kept < 100 * c + 100))) for c in range(3)]
    [100, 10, 1]
    """
    if not 1 <= imbalance < np.inf:
        raise InvalidInputError("imbalance must be finite and at least 1")
    rng = np.random.default_rng(random_state)
    by_class = _rows_by_class(_labels(y))
    largest = max(map(len, by_class))
    kept = []
    for c, rows in enumerate(by_class):
        wanted = largest * imbalance ** (-c / max(len(by_class) - 1, 1))
        kept.append(rng.permutation(rows)[: max(1, round(wanted))])
    return np.sort(np.concatenate(kept))
