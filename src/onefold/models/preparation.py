"""What is settled before machines are fitted: columns of one unit, sizes of batches, the regularisation.

Columns are brought to one unit by constants that all sites can share: a place and a spread for each column.
Folding measures Euclidean distances, in which a column of large numbers outweighs the others. Whether that is
wanted depends on the data: pixels and embeddings have one unit, and columns that hardly vary say little; a
table of lengths, prices and rates has none. Ranges of columns do not tell the two apart, the classes do.
Kernel ridge regression of the classes, on rows as they are and on standardised ones, has leave-one-out
residuals in closed form: rows are standardised where that makes the residuals clearly smaller.

Sizes of batches and the regularisation can be chosen by rows that are held out; all lambdas share one fit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Floats, Index, Mask
from onefold._base.parallel import one_blas_thread
from onefold.exceptions import InvalidInputError
from onefold.models.folding import unit_of
from onefold.models.kahm.estimator import WideKAHM
from onefold.models.probability import calibrated

__all__ = [
    "PUBLIC",
    "ColumnSpread",
    "Preparation",
    "Settings",
    "batches_of_about",
    "find_preparation",
    "tuned",
]

# Binary digits of a spread, and of a place in units of it. What is cut is far more than the last digits of
# sums, so constants do not depend on how rows were added up, except where a digit is about to change.
KEPT_DIGITS = 6
# A spread below this share of the largest entry is the rounding of equal entries.
ROUNDING = 1e-12
SMALLEST_BATCH = 20
COMPARED = 400  # rows on which preparations are compared
FEWEST = 20  # with fewer, nothing is known about units
PENALTIES = (0.03, 0.3, 3.0)  # of kernel ridge regression, in mean eigenvalues
CLEARLY = 2.0  # standard errors
# What is tried on held-out rows: a fifth of at most 10 000 rows, but 1000 at most, and further parts in turn
# until 500 rows were held out.
BATCHES = (20, 50, 100, 300)
LAMBDAS = (0.05, 0.1, 0.2, 0.4, 0.8)
PARTS = 5
MOST_HELD_OUT, ENOUGH_HELD_OUT = 1000, 500
MOST_TUNED = 10_000
SEED = 20  # public: which rows are held out


@dataclass(frozen=True)
class ColumnSpread:
    """Number, mean and squared deviations of the entries of each column; those of several sites add up.

    Parameters
    ----------
    count : float
        Number of rows.
    mean : ndarray of shape (p,)
        Means.
    deviations : ndarray of shape (p,)
        Sums of squared deviations from the mean.

    See Also
    --------
    Preparation : Made of it.

    Notes
    -----
    Nothing here is private: a site of one row sends this row as its mean.

    Examples
    --------
    >>> ColumnSpread.of(np.array([[1.0], [3.0]])).deviations.tolist()
    [2.0]
    """

    count: float
    mean: Floats
    deviations: Floats

    @classmethod
    def of(cls, rows: Any) -> "ColumnSpread":
        """Return the spread of rows.

        Parameters
        ----------
        rows : array-like of shape (n, p)
            Finite rows.

        Returns
        -------
        ColumnSpread
            Their spread.
        """
        given = np.asarray(rows, dtype=np.float64)
        mean = given.mean(axis=0)
        return cls(float(len(given)), mean, ((given - mean) ** 2).sum(axis=0))

    @classmethod
    def total(cls, parts: "Iterable[ColumnSpread]") -> "ColumnSpread":
        """Add up the spreads of disjoint sets of rows.

        Parameters
        ----------
        parts : iterable of ColumnSpread
            Spreads of the sets.

        Returns
        -------
        ColumnSpread
            The spread of all rows.
        """
        given = list(parts)
        counts = np.array([part.count for part in given])
        means = np.array([part.mean for part in given])
        mean = np.asarray(counts @ means / counts.sum())
        between = counts @ (means - mean) ** 2
        return cls(float(counts.sum()), mean, np.sum([part.deviations for part in given], axis=0) + between)


@dataclass(frozen=True)
class Preparation:
    """What is taken from each column, and by what it is then divided.

    Parameters
    ----------
    location : ndarray of shape (p,)
        Taken from the columns.
    scale : ndarray of shape (p,)
        What they are divided by, positive.

    See Also
    --------
    ColumnSpread : Where the constants come from.

    Examples
    --------
    >>> rows = np.array([[0.0, 1024.0], [2.0, 3072.0]])
    >>> Preparation.standardising(ColumnSpread.of(rows)).apply(rows).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    location: Floats
    scale: Floats

    def __post_init__(self) -> None:
        if self.location.ndim != 1 or self.location.shape != self.scale.shape:
            raise InvalidInputError("location and scale need one number for each column")
        if not (
            np.isfinite(self.location).all() and np.isfinite(self.scale).all() and (self.scale > 0).all()
        ):
            raise InvalidInputError("location must be finite, scale positive and finite")

    @classmethod
    def of(cls, rows: Array) -> "Preparation":
        """Return what standardises these rows, however large their entries.

        Parameters
        ----------
        rows : ndarray of shape (n, p)
            Finite rows.

        Returns
        -------
        Preparation
            After it every column has mean zero and deviation one, about.
        """
        unit = unit_of(rows)
        found = cls.standardising(ColumnSpread.of(rows / unit))
        return found if unit == 1.0 else cls(found.location * unit, found.scale * unit)

    @classmethod
    def standardising(cls, spread: ColumnSpread) -> "Preparation":
        """Return the preparation after which every column has mean zero and deviation one, about.

        Columns with equal entries get zeros.

        Parameters
        ----------
        spread : ColumnSpread
            Spread of the rows, of one site or of several.

        Returns
        -------
        Preparation
            What brings the columns there.
        """
        deviation = np.sqrt(spread.deviations / spread.count)
        constant = deviation <= ROUNDING * np.abs(spread.mean)
        # The mean of large equal entries is rounded: in units of them that is nothing.
        unit = np.maximum(np.abs(spread.mean), 1.0)
        parts, exponents = np.frexp(np.where(constant, unit, deviation))
        scale = np.ldexp(np.rint(np.ldexp(parts, KEPT_DIGITS)), exponents - KEPT_DIGITS)
        steps = np.rint(np.ldexp(spread.mean / scale, KEPT_DIGITS))
        location = np.where(constant, spread.mean, np.ldexp(steps, -KEPT_DIGITS) * scale)
        return cls(location, scale)

    def apply(self, rows: Array) -> Array:
        """Return prepared rows, of the type of the given ones; what is beyond its range is its largest.

        Parameters
        ----------
        rows : ndarray of shape (n, p)
            Finite rows.

        Returns
        -------
        ndarray of shape (n, p)
            The rows in the new units.
        """
        if rows.shape[1] != len(self.scale):
            raise InvalidInputError(f"the preparation is for {len(self.scale)} columns, not {rows.shape[1]}")
        kind = rows.dtype.type if rows.dtype.kind == "f" else np.float64
        with np.errstate(over="ignore"):
            prepared = (rows - self.location) / self.scale
        largest = np.finfo(kind).max
        return np.clip(prepared, -largest, largest).astype(kind, copy=False)


# --- what a fit settles ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What a classifier uses where its parameters leave it open.

    Parameters
    ----------
    preparation : Preparation or None, default=None
        Units of the columns; None takes rows as they are.
    batch_size : int, default=50
        Rows of a class in a machine.
    regularisation : "auto" or float, default="auto"
        Lambda of the machines, see :class:`onefold.KAHM`.

    See Also
    --------
    ClassModels : Has them as ``settings_``.

    Examples
    --------
    >>> from onefold.models.preparation import Settings
    >>> Settings().batch_size
    50
    """

    preparation: Preparation | None = None
    batch_size: int = 50
    regularisation: str | float = "auto"


PUBLIC = Settings()  # without a look at any row: the same at all sites of a federation


def batches_of_about(codes: Index) -> int:
    """Rows in a batch: 50, or as many as the smallest class has but at least 20.

    Larger machines have larger hulls, and the larger of two hulls is nearer to any row: all classes get
    machines of about one size.
    """
    smallest = int(np.bincount(codes).min())
    return min(PUBLIC.batch_size, max(SMALLEST_BATCH, smallest))


# --- which preparation ----------------------------------------------------------------------------------


@one_blas_thread()
def find_preparation(X: Array, codes: Index) -> Preparation | None:
    """Standardise rows if that makes classes clearly easier to tell, else leave them as they are.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Finite rows.
    codes : ndarray of int of shape (n_rows,)
        Number of the class of each row.

    Returns
    -------
    Preparation or None
        That of :meth:`Preparation.of`, where the leave-one-out residuals of kernel ridge regression on
        standardised rows are smaller by two standard errors, on 400 rows at most; else None.

    See Also
    --------
    Preparation : What is found.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models import find_preparation
    >>> rng, y = np.random.default_rng(0), np.arange(100) % 2
    >>> rows = rng.normal(size=(100, 5)) + y[:, None]
    >>> find_preparation(rows, y) is None
    True
    >>> find_preparation(rows * [1.0, 1.0, 1.0, 1.0, 1000.0], y) is None
    False
    """
    n_classes = int(codes.max(initial=0)) + 1
    if len(X) < FEWEST or n_classes < 2 or X.shape[1] < 2:
        return None
    found = Preparation.of(X)
    chosen = some_of_each(codes, COMPARED)
    rows = X[chosen].astype(np.float64)
    unit = unit_of(rows)
    targets = np.eye(n_classes)[codes[chosen]]
    targets -= targets.mean(axis=0)
    as_they_are = _residuals(rows / unit, targets)
    standardised = _residuals(np.asarray(found.apply(rows), dtype=np.float64), targets)
    gain = as_they_are - standardised
    clearly = gain.mean() > CLEARLY * gain.std() / np.sqrt(len(gain))
    return found if clearly and gain.mean() > 0.0 else None


def some_of_each(codes: Index, at_most: int) -> Index:
    """Numbers of so many rows, spread evenly over the rows of each class."""
    order = np.argsort(codes, kind="stable")
    if len(order) <= at_most:
        return order
    return np.asarray(order[np.linspace(0, len(order) - 1, at_most).astype(np.intp)])


def _residuals(rows: Floats, targets: Floats) -> Floats:
    """Squared leave-one-out residual of each row by kernel ridge regression, at the best of few penalties."""
    rows = rows - rows.mean(axis=0)
    products = rows @ rows.T
    lengths = np.diagonal(products)
    distances = np.maximum(lengths[:, None] + lengths[None, :] - 2.0 * products, 0.0)
    typical = distances.mean()
    if not typical > 0.0:
        return np.asarray(np.einsum("ij,ij->i", targets, targets))
    values, vectors = np.linalg.eigh(np.exp(-distances / typical))
    turned, best = vectors.T @ targets, np.full(len(rows), np.inf)
    for penalty in PENALTIES:
        inverse = 1.0 / (np.maximum(values, 0.0) + penalty)
        residuals = (vectors @ (turned * inverse[:, None])) / ((vectors**2) @ inverse)[:, None]
        squares = np.einsum("ij,ij->i", residuals, residuals)
        best = squares if squares.mean() < best.mean() else best
    return np.asarray(best)


# --- which batches and regularisation -------------------------------------------------------------------


@one_blas_thread()
def tuned(X: Array, codes: Index, n_jobs: int | None = None) -> tuple[int, float, float]:
    """Size of batches and lambda with the smallest log loss on held-out rows, and the accuracy there.

    Rows are prepared, and classes are numbered without gaps. The first row of a class is never held out.
    """
    rng = np.random.default_rng(SEED)
    kept = np.sort(some_of_each(codes, MOST_TUNED))
    X, codes = X[kept], codes[kept]
    turn = _turns(codes, max(PARTS, -(-len(X) // MOST_HELD_OUT)), rng)
    folds, n_held = [], 0
    for fold in range(PARTS):
        if n_held < ENOUGH_HELD_OUT and (turn == fold).any():
            folds.append(fold)
            n_held += int(np.sum(turn == fold))
    sizes = [size for size in BATCHES if size < np.bincount(codes).max()] or [PUBLIC.batch_size]
    truth = np.concatenate([codes[turn == fold] for fold in folds]) if folds else codes[:0]
    best = PUBLIC.batch_size, LAMBDAS[len(LAMBDAS) // 2], float("nan")
    lowest = np.inf
    for size in sizes if folds else []:
        parts = [_held_out_distances(X, codes, turn == fold, size, n_jobs) for fold in folds]
        for lam, distances in zip(LAMBDAS, np.concatenate(parts, axis=1), strict=True):
            likely = calibrated(distances, truth).probabilities(distances)[np.arange(len(truth)), truth]
            loss = float(-np.log(np.maximum(likely, 1e-12)).mean())
            if loss < lowest:
                lowest, best = loss, (size, lam, float(np.mean(distances.argmin(axis=1) == truth)))
    return best


def _turns(codes: Index, n_parts: int, rng: np.random.Generator) -> Index:
    """In which part each row is held out, the same share of each class in each; -1 for one row of a class."""
    shuffled = rng.permutation(len(codes))
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))
    turn = np.empty(len(codes), dtype=np.intp)
    turn[order] = np.arange(len(codes)) % n_parts
    turn[order[first]] = -1
    return turn


def _held_out_distances(X: Array, codes: Index, held: Mask, size: int, n_jobs: int | None) -> Array:
    """Distances (L, M, C) of held-out rows by machines of the others, at all lambdas."""
    family = WideKAHM(n_layers=1, branch_size=size, partition="contiguous", n_jobs=n_jobs)
    rest = np.flatnonzero(~held)
    groups = [rest[codes[rest] == code] for code in range(int(codes.max()) + 1)]
    unit = unit_of(X)
    return family.distances_at(family.fit_groups(X, groups, unit, unit, n_jobs), X[held], LAMBDAS)
