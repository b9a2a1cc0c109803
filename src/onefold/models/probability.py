"""Probabilities of classes from folding measures, calibrated on rows that their machines have not seen.

A class's probability falls with its measure m, by one of three laws: p proportional to m^-t, to exp(-t m/u)
or to exp(-t m^2/u^2), where u is the root mean square of the right class's measure. The law and the sharpness
t are those with the smallest log loss on rows left out; two classes always have the second law. Laws that
treat all classes alike keep the order of the measures: the most probable class is the predicted one.

Rows are left out machine by machine. A row's own machine is fitted without it and a tenth of its other rows;
no other machine has seen the row. That costs fitting some thousand rows once, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import Array, Floats, Index, Integers, sizes_of
from onefold._base.parallel import one_blas_thread
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.models.compose import Autoencoder
    from onefold.models.pool import Pool

__all__ = ["Beliefs", "LeftOut", "calibrated", "softmax"]

SEED = 20  # public: which rows are left out
FOLDS = 10
MOST_ROWS = 5000  # fitted again, over all folds
MOST_BYTES = 32 * 2**20  # of the rows that are kept for that
MOST_DENSE = 64  # classes whose counts are all kept in a file
POWERS = (0, 1, 2)  # of the measure in the exponent; 0 stands for its logarithm
STEPS = 2.0 ** np.arange(-6.0, 10.5, 0.5)  # sharpness
SMALLEST, LARGEST = 1e-9, 1e100  # of a measure in units of the usual one


def softmax(scores: Floats) -> Floats:
    """Probabilities in proportion to the exponentials of scores, row by row."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def with_doubt(found: Floats, n_rows: int) -> Floats:
    """Probabilities that are never sure, by Laplace's rule of succession.

    That none of so many rows was answered wrongly does not make the next one sure.
    """
    doubt = 1.0 / (n_rows + 2.0)
    return np.asarray((1.0 - doubt) * found + doubt / found.shape[1])


def log_loss(raised: Floats, codes: Index) -> float:
    """Mean logarithm of what the softmax of scores gives the right classes, negative; scores are not huge."""
    return float((np.log(np.exp(raised).sum(axis=1)) - raised[np.arange(len(codes)), codes]).mean())


def confusion_of(codes: Index, answers: Index, n_classes: int) -> Integers:
    """Counts of rows by class and by answer, (C, C)."""
    counts = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(counts, (codes, answers), 1)
    return counts


@dataclass(frozen=True, eq=False)
class Beliefs:
    """How measures become probabilities, and how rows that were left out were answered.

    Parameters
    ----------
    power : int
        Power of the measure in the exponent: 1, 2, or 0 for its logarithm.
    sharpness : float
        Factor t of the exponent.
    unit : float
        Root mean square of the right class's measure of rows left out.
    n_classes : int
        C, number of classes.
    counts : ndarray of int of shape (n, 3)
        Class, predicted class, and rows left out of both; of many classes only where there are some.

    See Also
    --------
    calibrated : Finds it.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models.probability import Beliefs
    >>> sure = Beliefs.of(1, 2.0, 1.0, np.array([[50, 0], [0, 50]]))
    >>> sure.probabilities(np.array([[0.5, 2.0], [1.0, 1.0]])).round(2).tolist()
    [[0.95, 0.05], [0.5, 0.5]]
    """

    power: int
    sharpness: float
    unit: float
    n_classes: int
    counts: Integers

    def __post_init__(self) -> None:
        """Refuse what no calibration gives, as in a foreign file."""
        sizes_of(self, counts="n3")
        most = max(self.counts[:, :2].max(initial=0) - self.n_classes + 1, self.counts.max(initial=0) - 2**40)
        positive = self.power in POWERS and min(self.sharpness, self.unit) > 0.0
        if self.counts.min(initial=0) < 0 or most > 0 or not positive:
            raise InvalidInputError("the counts of a calibration are not those of one")

    @classmethod
    def of(cls, power: int, sharpness: float, unit: float, confusion: Integers) -> Beliefs:
        """Make it of a matrix of counts.

        Parameters
        ----------
        power : int
            Power of the measure.
        sharpness : float
            Factor of the exponent.
        unit : float
            Unit of the measure.
        confusion : ndarray of int of shape (C, C)
            Rows left out by class and predicted class.

        Returns
        -------
        Beliefs
            What makes probabilities of measures.
        """
        # The size of a file must not tell which counts are zero; of many classes nearly all are.
        few = len(confusion) <= MOST_DENSE
        places = np.argwhere(np.ones_like(confusion) if few else confusion)
        counts = np.column_stack([places, confusion[tuple(places.T)]])
        return cls(power, sharpness, unit, len(confusion), counts)

    @property
    def confusion(self) -> Integers:
        """Rows left out by class and predicted class, (C, C)."""
        found = np.zeros((self.n_classes, self.n_classes), dtype=np.int64)
        found[self.counts[:, 0], self.counts[:, 1]] = self.counts[:, 2]
        return found

    def probabilities(self, measures: Array) -> Floats:
        """Return the probability of each class, larger for smaller measures; rows add up to one.

        Parameters
        ----------
        measures : ndarray of shape (n, C)
            Measures of queries.

        Returns
        -------
        ndarray of shape (n, C)
            The probabilities; none is 0 or 1.
        """
        found = softmax(self.sharpness * _scores(measures, self.power, self.unit))
        return with_doubt(found, self.counts[:, 2].sum())

    @property
    def performance(self) -> dict[str, Any]:
        """How rows left out were answered: see :class:`onefold.models.ClassModels`."""
        return performance(self.confusion)


def performance(confusion: Integers) -> dict[str, Any]:
    """Rows, accuracy, balanced accuracy and confusion counts of rows that were left out."""
    found, total = np.diag(confusion), confusion.sum(axis=1)
    there = total > 0
    return {
        "rows": int(total.sum()),
        "accuracy": float(found.sum() / total.sum()),
        "balanced_accuracy": float((found[there] / total[there]).mean()),
        "confusion": confusion.copy(),
    }


@one_blas_thread()
def calibrated(measures: Array, codes: Index) -> Beliefs:
    """Find the law and the sharpness with the smallest log loss.

    Parameters
    ----------
    measures : ndarray of shape (n, C)
        Measures of rows that no machine has seen; the smallest decides.
    codes : ndarray of int of shape (n,)
        Column of each row's class.

    Returns
    -------
    Beliefs
        What makes probabilities of measures.

    See Also
    --------
    LeftOut : Measures rows of a fit that way.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models.probability import calibrated
    >>> near, far = np.full(90, 0.2), np.full(90, 0.6)
    >>> measures = np.column_stack([near, far])
    >>> found = calibrated(measures, (np.arange(90) % 10 == 0).astype(int))  # the nearer one, but for 9
    >>> found.probabilities(measures[:1]).round(1).tolist()
    [[0.9, 0.1]]
    """
    n_rows, n_classes = measures.shape
    confusion = confusion_of(codes, measures.argmin(axis=1), n_classes)
    if not n_rows:  # nothing could be left out: a guess that is half doubt
        return Beliefs.of(0, 1.0, 1.0, confusion)
    unit = _root_mean_square(measures[np.arange(n_rows), codes].astype(np.float64))
    tried: dict[tuple[int, float], float] = {}
    # Of two classes the difference of the measures decides, and is what decision_function returns.
    for power in POWERS if n_classes != 2 else (1,):
        scores = _scores(measures, power, unit)
        scores -= scores.max(axis=1, keepdims=True)

        def loss(sharpness: float, power: int = power, scores: Floats = scores) -> float:
            tried[power, sharpness] = log_loss(sharpness * scores, codes)
            return tried[power, sharpness]

        best = min(STEPS, key=loss)
        for step in (0.25, 0.125):
            best = min((best * 2.0**-step, best, best * 2.0**step), key=loss)
    power, sharpness = min(tried, key=lambda pair: tried[pair])
    return Beliefs.of(power, float(sharpness), unit, confusion)


def _root_mean_square(values: Floats) -> float:
    """Of the finite values, without overflow; 1 where there is nothing to see."""
    finite = values[np.isfinite(values)]
    largest = float(finite.max(initial=0.0))
    return largest * float(np.sqrt(np.mean((finite / largest) ** 2))) if largest > 0.0 else 1.0


def _scores(measures: Array, power: int, unit: float) -> Floats:
    """Minus a power of the measures, or minus their logarithms."""
    known = np.clip(measures.astype(np.float64) / unit, SMALLEST, LARGEST)
    return np.asarray(-np.log(known) if power == 0 else -(known**power))


class LeftOut:
    """Rows of a fit from which probabilities are calibrated when they are first asked for.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Rows of some machines, as the machines saw them.
    codes : ndarray of int of shape (n,)
        Class of each.
    places : ndarray of int of shape (n,)
        Number of its machine within its class.
    """

    def __init__(self, rows: Array, codes: Index, places: Index) -> None:
        self.rows, self.codes, self.places = rows, codes, places
        self.known: dict[str, Beliefs] = {}

    @classmethod
    def known_as(cls, measure: str, beliefs: Beliefs, n_features: int) -> LeftOut:
        """What a file holds: no rows, and what was found from them."""
        none = np.empty(0, dtype=np.intp)
        found = cls(np.empty((0, n_features)), none, none)
        found.known[measure] = beliefs
        return found

    @classmethod
    def of(cls, samples: Array, codes: Index, batches: Index) -> LeftOut:
        """Keep the rows of some machines: in turn one of each class, as long as they are few enough."""
        most = max(1, min(MOST_ROWS, MOST_BYTES // max(samples[0].nbytes, 1)))
        _, machine, sizes = np.unique(
            np.stack([codes, batches]), axis=1, return_inverse=True, return_counts=True
        )
        machine = machine.ravel()
        several = np.flatnonzero(sizes > 1)
        owner = np.empty(len(sizes), dtype=np.intp)
        owner[machine] = codes
        generator = np.random.default_rng(SEED)
        drawn = generator.permutation(several)
        turn = np.empty(len(drawn), dtype=np.intp)  # the how manieth of its class a machine is
        for code in np.unique(owner[drawn]):
            mine = owner[drawn] == code
            turn[mine] = np.arange(mine.sum())
        drawn = drawn[np.argsort(turn, kind="stable")]
        within = np.cumsum(sizes[drawn]) <= most
        chosen = drawn[within] if within.any() else drawn[:1]
        kept = np.flatnonzero(np.isin(machine, chosen))
        return cls(samples[kept], codes[kept], batches[kept])

    def beliefs(
        self, family: Autoencoder, pool: Pool, measure: str, n_probe: int | None, n_jobs: int | None
    ) -> Beliefs:
        """What makes probabilities of this measure; computed when first asked for, and kept."""
        if measure not in self.known:
            found = self._measured(family, pool, measure, n_probe, n_jobs)
            self.known[measure] = calibrated(*found)
        return self.known[measure]

    @one_blas_thread()
    def _measured(
        self, family: Autoencoder, pool: Pool, measure: str, n_probe: int | None, n_jobs: int | None
    ) -> tuple[Array, Index]:
        """Measures of rows left out, and their classes."""
        names, machine = np.unique(np.stack([self.codes, self.places]), axis=1, return_inverse=True)
        machine = machine.ravel()
        pairs = zip(np.concatenate(pool.owners), np.concatenate(pool.positions), strict=True)
        number = {(int(group), int(place)): index for index, (group, place) in enumerate(pairs)}
        own = np.array([number[int(group), int(place)] for group, place in names.T], dtype=np.intp)
        generator = np.random.default_rng(SEED)
        order = np.lexsort((generator.random(len(machine)), machine))
        fold = np.empty(len(machine), dtype=np.intp)
        fold[order] = np.arange(len(machine)) % FOLDS  # of every machine about as many in every fold
        found: list[Array] = [np.empty((0, pool.n_groups), dtype=pool.dtype)]
        left: list[Index] = [np.empty(0, dtype=np.intp)]
        n_folds = min(FOLDS, max(1, MOST_ROWS // max(len(machine), 1)))
        for out in (np.flatnonzero(fold == part) for part in range(n_folds)):
            mine, asked = machine[out], np.unique(machine[out])
            if not out.size:
                continue
            kept = np.setdiff1d(np.arange(len(machine)), out)
            branches = [[kept[machine[kept] == index]] for index in asked]
            anew = family.fit_branches(self.rows, branches, pool.unit, pool.factor, n_jobs)
            values = pool.measures(self.rows[out], measure, n_probe, n_jobs, skip=own[mine])
            again = anew.measures(self.rows[out], measure, None, n_jobs)
            rows = np.arange(len(out))
            right = rows, self.codes[out]
            values[right] = np.minimum(values[right], again[rows, np.searchsorted(asked, mine)])
            found.append(values)
            left.append(out)
        return np.concatenate(found), self.codes[np.concatenate(left)]
