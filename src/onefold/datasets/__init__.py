"""Datasets that come with the package or lie in a local folder, ways to spread rows over sites, and windows.

By name there are datasets that need no file, and .npz files of a local folder, read without pickle. A file
holds ``X_train, y_train, X_test, y_test``, or ``X, y`` (then divided by :func:`train_test_split`).
``name:part`` takes the arrays ``X_part, y_part`` of a file that holds several.

Rows made of a series of heartbeats are windows of consecutive R-R intervals that hold no artefacts.
Neighbouring windows share all intervals but one. Where windows of one person are divided at random, nearly
the same row is in the training and in the test part; divide by person or device instead (``groups`` of
:func:`partition` and :func:`train_test_split`).
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.ndimage import median_filter

from onefold._base.arrays import AnyArray, Index, Labels
from onefold._base.foreign import NOT_READABLE
from onefold._base.validation import Number, OneOf, Whole, check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError

__all__ = [
    "Dataset",
    "artefacts",
    "load",
    "long_tail",
    "names",
    "partition",
    "rr_windows",
    "train_test_split",
]

VARIABLE = "ONEFOLD_DATA"
Bundle = tuple[AnyArray, AnyArray, tuple[str, ...], str]  # features, labels, names of features, description

# A name is a file's stem, never a path.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(:[A-Za-z0-9_.\-]+)?")
WAYS = OneOf(("classes", "dirichlet", "groups", "iid", "long_tailed"))

HISTORY = 216  # three minutes at 72 beats a minute (000 Sec. 6.2.3)
THRESHOLD = 4.0
# Of Gaussian numbers: standard deviation over the median, and over the mean, of the absolute deviations.
OF_MEDIAN, OF_MEAN = 1.4826, 1.2533


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels of a classification problem, divided into a training and a test part.

    Parameters
    ----------
    X_train : ndarray of shape (n_train, n_features)
        Features of the training part, of a floating-point type.
    y_train : ndarray of shape (n_train,)
        Labels of the training part.
    X_test : ndarray of shape (n_test, n_features)
        Features of the test part, of the same type.
    y_test : ndarray of shape (n_test,)
        Labels of the test part.
    name : str
        The name it was loaded by.
    feature_names : tuple of str
        One name per column.
    description : str
        One or two sentences: what it is, how it was scaled and divided.

    See Also
    --------
    load : Loads a dataset by name.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> load("iris").feature_names[0]
    'sepal length (cm)'
    """

    X_train: AnyArray
    y_train: AnyArray
    X_test: AnyArray
    y_test: AnyArray
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


# --- bundled ----------------------------------------------------------------------------------------------


OWN_UNITS = "measurements in their own units: standardise before use."
# Of scikit-learn, by name: what features are divided by, and a description.
FROM_SCIKIT_LEARN = {
    "breast_cancer": (1.0, f"569 tumours (0 malignant, 1 benign), 30 {OWN_UNITS}"),
    "digits": (16.0, "1797 handwritten digits of 8 x 8 pixels, divided by 16 so that they lie in [0, 1]."),
    "iris": (1.0, "150 iris flowers of three species, four lengths in centimetres."),
    "wine": (1.0, f"178 wines of three growers, 13 {OWN_UNITS}"),
}


def _from_scikit_learn(name: str) -> Bundle:
    from sklearn import datasets  # imported late: it pulls in much that `import onefold` does not need

    divisor, description = FROM_SCIKIT_LEARN[name]
    bunch = getattr(datasets, f"load_{name}")()
    return bunch.data / divisor, bunch.target, tuple(map(str, bunch.feature_names)), description


def _blobs() -> Bundle:
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(4, 10))
    y = np.repeat(np.arange(4), 200)
    X = centres[y] + rng.normal(size=(len(y), 10))
    return X, y, tuple(f"x{j}" for j in range(10)), "800 points in four Gaussian clouds in ten dimensions."


def _moons() -> Bundle:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, np.pi, size=600)
    y = np.repeat([0, 1], 300)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    lower = np.column_stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)])
    X = np.where(y[:, None] == 0, upper, lower) + 0.1 * rng.normal(size=(600, 2))
    return X, y, ("x0", "x1"), "600 points on two interleaved half circles in the plane, with noise 0.1."


GENERATED: dict[str, Callable[[], Bundle]] = {"blobs": _blobs, "moons": _moons}


# --- by name ----------------------------------------------------------------------------------------------


def _folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    chosen = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    return None if chosen is None else Path(chosen)


def names(data_dir: str | os.PathLike[str] | None = None) -> list[str]:
    """List the names that :func:`load` knows: the bundled ones and the .npz files of the local folder.

    Parameters
    ----------
    data_dir : str, os.PathLike or None, default=None
        The local folder; None takes the one named by the environment variable ``ONEFOLD_DATA``.

    Returns
    -------
    list of str
        The names, sorted.

    See Also
    --------
    load : Loads a dataset by name.

    Examples
    --------
    >>> from onefold.datasets import names
    >>> "digits" in names()
    True
    """
    folder = _folder(data_dir)
    local = () if folder is None else (path.stem for path in folder.glob("*.npz"))
    return sorted({*GENERATED, *FROM_SCIKIT_LEARN, *local})


def load(name: str, data_dir: str | os.PathLike[str] | None = None, dtype: DTypeLike = np.float64) -> Dataset:
    """Load a dataset by name, ready to fit.

    Bundled are ``blobs``, ``breast_cancer``, ``digits``, ``iris``, ``moons`` and ``wine``. Every other name
    stands for ``<name>.npz`` in ``data_dir``, or in the folder named by the environment variable
    ``ONEFOLD_DATA``; ``name:part`` selects one of several parts of a file. Nothing is downloaded and
    nothing is unpickled.

    Parameters
    ----------
    name : str
        Name of the dataset.
    data_dir : str, os.PathLike or None, default=None
        The local folder; None takes the one named by the environment variable.
    dtype : dtype, default=float64
        Floating-point type of the features.

    Returns
    -------
    Dataset
        Training and test part.

    See Also
    --------
    names : Lists the names.
    partition : Spreads rows over sites.

    Examples
    --------
    >>> from onefold.datasets import load
    >>> data = load("digits")
    >>> data.X_train.shape, data.X_test.shape, float(data.X_train.max())
    ((1346, 64), (451, 64), 1.0)
    """
    if not _NAME.fullmatch(str(name)):
        raise InvalidInputError("a dataset name consists of letters, digits and _ . - (and :part)")
    if not np.issubdtype(np.dtype(dtype), np.floating):
        raise InvalidInputError("dtype must be a floating-point type")
    if name not in GENERATED and name not in FROM_SCIKIT_LEARN:
        return _local(name, _folder(data_dir), np.dtype(dtype))
    X, y, feature_names, description = GENERATED[name]() if name in GENERATED else _from_scikit_learn(name)
    parts = train_test_split(X.astype(dtype), y)
    return Dataset(*parts, name, feature_names, description + " A quarter of every class is for testing.")


# --- files of a local folder ------------------------------------------------------------------------------

_OFFICIAL = "Official training and test part."
_DIVIDED = "Divided here: a quarter of every class for testing."


def _local(name: str, folder: Path | None, dtype: Any) -> Dataset:
    """A dataset of the local folder, divided into parts if the file does not do that."""
    stem, _, part = name.partition(":")
    if folder is None:
        raise InvalidInputError(
            f"dataset {name!r} is not bundled: set {VARIABLE} (or data_dir) to the folder with {stem}.npz"
        )
    path = folder / f"{stem}.npz"
    if not path.is_file():
        raise InvalidInputError(
            f"dataset {name!r} not found: no {stem}.npz in the folder given by {VARIABLE} or data_dir"
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            ends = [f"_{part}"] if part else ["_train", "_test"] if "X_train" in arrays else [""]
            parts = [array for end in ends for array in _pair(arrays, end, dtype)]
    except FileFormatError as problem:
        raise FileFormatError(f"{path.name}: {problem}") from None
    except NOT_READABLE:
        raise FileFormatError(f"{path.name} is not a readable .npz file of plain arrays") from None
    X_train, y_train, X_test, y_test = parts if len(ends) == 2 else train_test_split(parts[0], parts[1])
    names = tuple(f"x{j}" for j in range(X_train.shape[1]))
    about = _OFFICIAL if len(ends) == 2 else _DIVIDED
    return Dataset(X_train, y_train, X_test, y_test, name, names, about)


def _pair(arrays: Mapping[str, AnyArray], end: str, dtype: Any) -> tuple[AnyArray, AnyArray]:
    """Rows and their labels: images flattened, bytes scaled by the file's factor or else to [0, 1]."""
    for key in (f"X{end}", f"y{end}"):
        if key not in arrays:
            raise FileFormatError(f"the file holds no array {key!r}")
    X, y = arrays[f"X{end}"], arrays[f"y{end}"]
    rows = X.reshape(len(X), -1).astype(dtype)
    if X.dtype == np.uint8:
        rows = (
            rows * np.asarray(arrays["scale"], dtype=dtype) if "scale" in arrays else rows / dtype.type(255)
        )
    # Labels are stored as bytes, which wrap around when somebody subtracts them.
    return rows, y.astype(np.int64) if np.issubdtype(y.dtype, np.integer) else y


# --- dividing rows into parts, and over sites --------------------------------------------------------------


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
    gaps = found.dtype.kind == "O" or (found.dtype.kind == "f" and np.isnan(found).any())
    if found.ndim != 1 or len(found) != len(labels) or gaps:
        raise InvalidInputError(
            "groups must name one person or device for every row: numbers or texts, none missing"
        )
    return found


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
    check_parameter("how", how, WAYS)
    check_parameter("n_clients", n_clients, Whole(1))
    check_parameter("alpha", alpha, (Number(above=0), None))
    rng = np.random.default_rng(random_state)
    rows = long_tail(labels, imbalance, rng) if how == "long_tailed" else np.arange(len(labels))
    if len(rows) < n_clients:
        raise InvalidInputError("there are fewer rows than sites (n_clients)")
    if how == "groups":
        owner = _by_groups(_groups(groups, labels), n_clients, rng)
    elif how == "classes":
        owner = _by_classes(labels, n_clients, classes_per_client, rng)
    elif how == "dirichlet" or (how == "long_tailed" and alpha is not None):
        owner = _by_dirichlet(labels[rows], n_clients, 0.5 if alpha is None else alpha, rng)
    else:
        owner = np.empty(len(rows), dtype=np.intp)
        owner[rng.permutation(len(rows))] = np.sort(np.arange(len(rows)) % n_clients)
    return [rows[owner == client] for client in range(n_clients)]


def _by_dirichlet(labels: Labels, n_clients: int, alpha: float, rng: np.random.Generator) -> Index:
    owner = np.empty(len(labels), dtype=np.intp)
    for rows in _rows_by_class(labels):
        shares = rng.dirichlet(np.full(n_clients, alpha))
        if not np.all(np.isfinite(shares)):  # a tiny alpha underflows: its limit gives all to one site
            shares = np.eye(n_clients)[rng.integers(n_clients)]
        # Rounding also lets shares that cumulate to 1 - 1e-16 end at the last row.
        ends = np.rint(np.cumsum(shares) * len(rows)).astype(np.intp)
        owner[rng.permutation(rows)] = np.searchsorted(ends, np.arange(len(rows)), side="right")
    for client in range(n_clients):  # a site without rows gets one of the site that has most
        counts = np.bincount(owner, minlength=n_clients)
        if counts[client] == 0:
            owner[rng.choice(np.flatnonzero(owner == np.argmax(counts)))] = client
    return owner


def _by_groups(groups: AnyArray, n_clients: int, rng: np.random.Generator) -> Index:
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(counts) < n_clients:
        raise InvalidInputError("there are fewer groups than sites (n_clients)")
    site_of, sizes = np.empty(len(counts), dtype=np.intp), np.zeros(n_clients)
    shuffled = rng.permutation(len(counts))
    # The largest first, each to the site that has least; equal ones in random order.
    for group in shuffled[np.argsort(-counts[shuffled], kind="stable")]:
        site_of[group] = np.argmin(sizes)
        sizes[site_of[group]] += counts[group]
    return site_of[codes]


def _by_classes(labels: Labels, n_clients: int, per_client: int, rng: np.random.Generator) -> Index:
    by_class = _rows_by_class(labels)
    n_classes = len(by_class)
    check_parameter("classes_per_client", per_client, Whole(1))
    if n_clients * per_client < n_classes:
        raise InvalidInputError("n_clients * classes_per_client must reach the number of classes")
    order = rng.permutation(n_classes)
    # Dealing the shuffled classes like cards gives neighbours different ones and leaves no class out.
    hands = [
        {int(order[(client * per_client + j) % n_classes]) for j in range(per_client)}
        for client in range(n_clients)
    ]
    owner, sizes = np.empty(len(labels), dtype=np.intp), np.zeros(n_clients)
    for c, rows in enumerate(by_class):
        holders = [client for client, hand in enumerate(hands) if c in hand]
        # A class with fewer rows than holders goes first to those who have nothing yet.
        holders.sort(key=lambda client: sizes[client])
        for client, part in zip(holders, np.array_split(rng.permutation(rows), len(holders)), strict=True):
            owner[part] = client
            sizes[client] += len(part)
    if not sizes.all():
        raise InvalidInputError("too few rows per class for that many sites: a site would have none")
    return owner


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


# --- windows of heartbeats ---------------------------------------------------------------------------------


def artefacts(intervals: ArrayLike, *, threshold: float = THRESHOLD, around: int | None = None) -> AnyArray:
    """Mark the impulses of a series: values too far from the median, in units of a robust spread.

    Value i is marked when ``|x_i - m_i|`` exceeds ``threshold`` times the spread, where m is the median of
    the series and the spread 1.4826 times the median of ``|x - m|``: for Gaussian numbers that is their
    standard deviation, whatever a few impulses do. Where more than half of the values equal the median, the
    mean of ``|x - m|`` takes the place of its median. What is not a positive finite number is always marked.

    Parameters
    ----------
    intervals : array-like of shape (n_intervals,)
        The series in the order of time, for example R-R intervals in seconds.
    threshold : float, default=4.0
        Largest deviation that is not an impulse, in units of the spread.
    around : int or None, default=None
        Number of values on each side whose median is m_i, so that a slow drift is not marked; None takes the
        median of the whole series.

    Returns
    -------
    ndarray of bool of shape (n_intervals,)
        True where a value is an impulse.

    See Also
    --------
    rr_windows : Windows without such values.

    Notes
    -----
    Document 000 names an impulse rejection filter and prints neither its equation nor its threshold. This is
    the usual one; the threshold is a choice made here.

    References
    ----------
    Document 000, Section 6.2.3.

    Examples
    --------
    >>> from onefold.datasets import artefacts
    >>> artefacts([0.80, 0.82, 0.79, 1.62, 0.81, 0.80, 0.78]).nonzero()[0].tolist()
    [3]
    """
    series = _series(intervals)
    check_parameter("threshold", threshold, Number(above=0))
    check_parameter("around", around, (Whole(1), None))
    marked = ~(np.isfinite(series) & (series > 0))
    if marked.all():
        return marked
    valid = series[~marked]
    # Reflected at both ends, so that a median is never taken of values that do not exist.
    middle = np.median(valid) if around is None else median_filter(valid, size=2 * around + 1, mode="reflect")
    deviation = np.abs(valid - middle)
    spread = OF_MEDIAN * float(np.median(deviation)) or OF_MEAN * float(np.mean(deviation))
    marked[~marked] = deviation > threshold * spread
    return marked


def rr_windows(
    intervals: ArrayLike,
    history: int = HISTORY,
    *,
    threshold: float = THRESHOLD,
    around: int | None = None,
    step: int = 1,
) -> tuple[AnyArray, Index]:
    """Make rows of a series of R-R intervals: every interval with those before it, without artefacts.

    Row i is ``[RR_i, RR_(i-1), ..., RR_(i-history)]``. Rows in which :func:`artefacts` marks a value are left
    out. Call it once for each recording, so that no row spans two of them.

    Parameters
    ----------
    intervals : array-like of shape (n_intervals,)
        R-R intervals in the order of time.
    history : int, default=216
        Number of intervals before the current one. The default is that of the document: with the current one,
        about three minutes.
    threshold : float, default=4.0
        Largest deviation that is not an artefact, see :func:`artefacts`.
    around : int or None, default=None
        Width of the running median, see :func:`artefacts`.
    step : int, default=1
        Number of intervals from one row to the next. ``history + 1`` makes rows that share nothing.

    Returns
    -------
    X : ndarray of shape (n_windows, history + 1)
        The rows, newest interval first; none if every window holds an artefact or the series is too short.
    last : ndarray of int of shape (n_windows,)
        Number of the newest interval of every row, which finds its label and its time.

    See Also
    --------
    artefacts : Marks the values that rule a window out.
    partition : Spreads rows over sites, also by person or device.

    Notes
    -----
    With ``step=1`` one interval is an entry of up to ``history + 1`` rows: noise that promises epsilon for an
    entry promises ``(history + 1) * epsilon`` for an interval. Which windows are left out depends on the raw
    series, and no noise on the rows covers that.

    References
    ----------
    Document 000, Section 6.2.3.

    Examples
    --------
    >>> from onefold.datasets import rr_windows
    >>> X, last = rr_windows([0.80, 0.82, 0.79, 0.81, 0.83, 2.10, 0.80, 0.81], history=2)
    >>> X.tolist(), last.tolist()
    ([[0.79, 0.82, 0.8], [0.81, 0.79, 0.82], [0.83, 0.81, 0.79]], [2, 3, 4])
    """
    series = _series(intervals)
    check_parameter("history", history, Whole(0))
    check_parameter("step", step, Whole(1))
    marked = artefacts(series, threshold=threshold, around=around)
    if len(series) <= history:
        return np.empty((0, history + 1)), np.empty(0, dtype=np.intp)
    # The artefacts of a window are those up to its last interval, less those before its first.
    counted = np.concatenate([[0], np.cumsum(marked)])
    last = np.arange(history, len(series), step)
    last = last[counted[last + 1] == counted[last - history]]
    return series[last[:, None] - np.arange(history + 1)], last


def _series(intervals: ArrayLike) -> AnyArray:
    try:
        series = np.asarray(intervals, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("intervals must be numbers") from None
    if series.ndim != 1:
        raise InvalidInputError("intervals must have one dimension: call this once for each recording")
    return series
