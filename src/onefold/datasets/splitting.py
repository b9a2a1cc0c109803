"""Ways to divide rows: into a training and a test part, and over sites, as lists of row numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Index, Labels
from onefold._base.validation import Entry, Number, OneOf, Whole, check_parameter
from onefold.exceptions import InvalidInputError

__all__ = ["long_tail", "partition", "train_test_split"]

CONSTRAINTS: dict[str, Entry] = {
    "how": OneOf(("classes", "dirichlet", "groups", "iid", "long_tailed")),
    "n_clients": Whole(1),
    "alpha": (Number(above=0), None),
    "classes_per_client": Whole(1),
}


def _test_rows(y: Labels, test_size: float, rng: np.random.Generator) -> Index:
    """Choose the rows of the test part: the same share of every class, at least one row of each left over."""
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        n_test = min(int(test_size * len(rows) + 0.5), len(rows) - 1)
        chosen.append(rng.permutation(rows)[:n_test])
    return np.sort(np.concatenate(chosen))


def _test_groups(groups: AnyArray, test_size: float, rng: np.random.Generator) -> Index:
    """Choose the rows of whole groups: as many random groups as come nearest to the share, never all."""
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(counts) < 2:
        raise InvalidInputError("groups must name at least two groups, one for each part")
    order = rng.permutation(len(counts))
    taken = np.cumsum(counts[order])[:-1]
    n_groups = int(np.argmin(np.abs(taken - test_size * len(codes)))) + 1
    return np.flatnonzero(np.isin(codes, order[:n_groups]))


def train_test_split(
    X: ArrayLike,
    y: ArrayLike,
    test_size: float = 0.25,
    random_state: int | None = 0,
    *,
    groups: ArrayLike | None = None,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Divide rows into a training and a test part, with the same share of every class in the test part.

    Rows keep their order. A class with a single row stays in the training part. With ``groups`` a person or
    device is in one part only, and the shares of the classes are what they then happen to be.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,)
        Labels.
    test_size : float, default=0.25
        Share of the test part, strictly between 0 and 1.
    random_state : int or None, default=0
        Seed of the choice, so that it is the same every time; None draws a fresh one.
    groups : array-like of shape (n_samples,) or None, default=None
        The person or device of every row; None takes rows one by one.

    Returns
    -------
    X_train : ndarray
        Features of the training part.
    y_train : ndarray
        Labels of the training part.
    X_test : ndarray
        Features of the test part.
    y_test : ndarray
        Labels of the test part.

    See Also
    --------
    partition : Spreads rows over sites.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.datasets import train_test_split
    >>> X_train, y_train, X_test, y_test = train_test_split(np.arange(8)[:, None], [0] * 4 + [1] * 4)
    >>> y_train.tolist(), y_test.tolist()
    ([0, 0, 0, 1, 1, 1], [0, 1])
    """
    features, labels = np.asarray(X), np.asarray(y)
    if labels.ndim != 1 or len(features) != len(labels):
        raise InvalidInputError("X and y must have the same number of rows, and y one dimension")
    check_parameter("test_size", test_size, Number(above=0, below=1))
    in_test = np.zeros(len(labels), dtype=bool)
    rng = np.random.default_rng(random_state)
    if groups is not None:
        in_test[_test_groups(_groups(groups, labels), test_size, rng)] = True
    elif len(labels):
        in_test[_test_rows(labels, test_size, rng)] = True
    if not in_test.any():
        raise InvalidInputError("too few rows: the test part would be empty")
    return features[~in_test], labels[~in_test], features[in_test], labels[in_test]


def _labels(y: ArrayLike) -> Labels:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise InvalidInputError("y must be one-dimensional and not empty")
    return labels


def _groups(groups: ArrayLike | None, labels: Labels) -> AnyArray:
    found = np.asarray(groups)
    if found.ndim != 1 or len(found) != len(labels) or found.dtype.kind == "O" or _has_gaps(found):
        raise InvalidInputError(
            "groups must name one person or device for every row: numbers or texts, none missing"
        )
    return found


def _has_gaps(groups: AnyArray) -> bool:
    return groups.dtype.kind == "f" and bool(np.isnan(groups).any())


def _rows_by_class(labels: Labels) -> list[Index]:
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
    groups: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> list[Index]:
    """Spread rows over sites.

    Every row goes to exactly one site, except for ``how="long_tailed"``, which first drops rows.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    n_clients : int
        Number of sites, at most the number of rows.
    how : {"iid", "dirichlet", "classes", "groups", "long_tailed"}, default="iid"
        How rows are spread:

        * "iid": evenly at random;
        * "dirichlet": each site has its own share of every class, drawn from a symmetric Dirichlet
          distribution (small ``alpha``: few classes per site);
        * "classes": each site has rows of at most ``classes_per_client`` classes, no class is left out;
        * "groups": all rows of a person or device (see ``groups``) are at one site; sites get nearly equally
          many rows, and with as many sites as groups each group is a site;
        * "long_tailed": classes are thinned with :func:`long_tail`, then what is left is spread by
          "dirichlet" when ``alpha`` is given, by "iid" when not.
    alpha : float or None, default=None
        Concentration of the Dirichlet distribution; None stands for 0.5.
    classes_per_client : int, default=2
        Number of classes of a site, for "classes".
    imbalance : float, default=100.0
        Size of the largest class over size of the smallest, for "long_tailed".
    groups : array-like of shape (n_samples,) or None, default=None
        The person or device of every row, for "groups": numbers or texts.
    random_state : int, Generator or None, default=None
        Seed or generator; None draws a fresh seed.

    Returns
    -------
    list of ndarray
        For each site the sorted numbers of its rows; none is empty.

    See Also
    --------
    long_tail : Thins the classes.
    onefold.federated.simulate : Runs a federation of such sites in one process.

    References
    ----------
    Document 004, Section 4.

    Examples
    --------
    >>> from onefold.datasets import partition
    >>> y = [0, 0, 0, 1, 1, 1]
    >>> sites = partition(y, n_clients=2, how="classes", classes_per_client=1, random_state=0)
    >>> sorted(rows.tolist() for rows in sites)
    [[0, 1, 2], [3, 4, 5]]
    """
    labels = _labels(y)
    check_parameter("how", how, CONSTRAINTS["how"])
    check_parameter("n_clients", n_clients, CONSTRAINTS["n_clients"])
    check_parameter("alpha", alpha, CONSTRAINTS["alpha"])
    rng = np.random.default_rng(random_state)
    rows = long_tail(labels, imbalance, rng) if how == "long_tailed" else np.arange(len(labels))
    if len(rows) < n_clients:
        raise InvalidInputError("there are fewer rows than sites (n_clients)")
    if how == "groups":
        owners = _by_groups(_groups(groups, labels), n_clients, rng)
    elif how == "classes":
        owners = _by_classes(labels, n_clients, classes_per_client, rng)
    elif how == "dirichlet" or (how == "long_tailed" and alpha is not None):
        owners = _by_dirichlet(labels[rows], n_clients, 0.5 if alpha is None else alpha, rng)
    else:
        owners = list(np.array_split(rng.permutation(len(rows)), n_clients))
    return [np.sort(rows[owned]) for owned in owners]


def _by_dirichlet(labels: Labels, n_clients: int, alpha: float, rng: np.random.Generator) -> list[Index]:
    owner = np.empty(len(labels), dtype=np.intp)
    for rows in _rows_by_class(labels):
        shares = rng.dirichlet(np.full(n_clients, alpha))
        if not np.all(np.isfinite(shares)):  # a tiny alpha underflows: its limit gives all to one site
            shares = np.eye(n_clients)[rng.integers(n_clients)]
        # Rounding also lets shares that cumulate to 1 - 1e-16 end at the last row.
        ends = np.rint(np.cumsum(shares) * len(rows)).astype(np.intp)
        owner[rng.permutation(rows)] = np.searchsorted(ends, np.arange(len(rows)), side="right")
    _fill_empty(owner, n_clients, rng)
    return [np.flatnonzero(owner == client) for client in range(n_clients)]


def _fill_empty(owner: Index, n_clients: int, rng: np.random.Generator) -> None:
    """Give every site without rows one row of the site that has most (in place)."""
    for client in range(n_clients):
        counts = np.bincount(owner, minlength=n_clients)
        if counts[client] == 0:
            owner[rng.choice(np.flatnonzero(owner == np.argmax(counts)))] = client


def _by_groups(groups: AnyArray, n_clients: int, rng: np.random.Generator) -> list[Index]:
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(counts) < n_clients:
        raise InvalidInputError("there are fewer groups than sites (n_clients)")
    site_of, sizes = np.empty(len(counts), dtype=np.intp), np.zeros(n_clients)
    shuffled = rng.permutation(len(counts))
    # The largest first, each to the site that has least; equal ones in random order.
    for group in shuffled[np.argsort(-counts[shuffled], kind="stable")]:
        site_of[group] = np.argmin(sizes)
        sizes[site_of[group]] += counts[group]
    return [np.flatnonzero(site_of[codes] == site) for site in range(n_clients)]


def _by_classes(labels: Labels, n_clients: int, per_client: int, rng: np.random.Generator) -> list[Index]:
    by_class = _rows_by_class(labels)
    n_classes = len(by_class)
    check_parameter("classes_per_client", per_client, CONSTRAINTS["classes_per_client"])
    if n_clients * per_client < n_classes:
        raise InvalidInputError("n_clients * classes_per_client must reach the number of classes")
    order = rng.permutation(n_classes)
    # Dealing the shuffled classes like cards gives neighbours different ones and leaves no class out.
    hands = [
        {int(order[(client * per_client + j) % n_classes]) for j in range(per_client)}
        for client in range(n_clients)
    ]
    owners: list[list[Index]] = [[] for _ in range(n_clients)]
    for c, rows in enumerate(by_class):
        holders = [client for client, hand in enumerate(hands) if c in hand]
        # A class with fewer rows than holders goes first to those who have nothing yet.
        holders.sort(key=lambda client: sum(map(len, owners[client])))
        for client, part in zip(holders, np.array_split(rng.permutation(rows), len(holders)), strict=True):
            owners[client].append(part)
    result = [np.concatenate(parts) for parts in owners]
    if min(map(len, result)) == 0:
        raise InvalidInputError("too few rows per class for that many sites: a site would have none")
    return result


def long_tail(
    y: ArrayLike, imbalance: float = 100.0, random_state: int | np.random.Generator | None = None
) -> Index:
    """Thin the classes so that their sizes fall geometrically.

    The c-th of C classes, in the order of their labels, keeps ``largest * imbalance ** (-c / (C - 1))``
    rows, where ``largest`` is the size of the largest class; at least one row, and never more than it has.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    imbalance : float, default=100.0
        Size of the first class over size of the last one, at least 1.
    random_state : int, Generator or None, default=None
        Seed or generator; None draws a fresh seed.

    Returns
    -------
    ndarray
        Sorted numbers of the rows that are kept.

    See Also
    --------
    partition : Spreads rows over sites.

    References
    ----------
    Document 004, Section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.datasets import long_tail
    >>> kept = long_tail([0] * 100 + [1] * 100 + [2] * 100, imbalance=100, random_state=0)
    >>> [int(np.sum((kept >= 100 * c) & (kept < 100 * c + 100))) for c in range(3)]
    [100, 10, 1]
    """
    check_parameter("imbalance", imbalance, Number(at_least=1))
    rng = np.random.default_rng(random_state)
    by_class = _rows_by_class(_labels(y))
    largest = max(map(len, by_class))
    kept = []
    for c, rows in enumerate(by_class):
        wanted = largest * imbalance ** (-c / max(len(by_class) - 1, 1))
        kept.append(rng.permutation(rows)[: max(1, round(wanted))])
    return np.sort(np.concatenate(kept))
