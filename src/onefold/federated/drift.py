"""Whether rows that are asked about lie farther from a site's model than the site's own rows do.

At a fit some of the site's rows are held out, and their distances from a model of the others are the measure
of what is usual. Of the rows asked about since then only counts are kept: how many there were in a week, and
how many of them lay beyond the median, the farthest tenth and the farthest hundredth of the held-out rows.
Neither rows nor single distances are kept, and nothing of it leaves the site.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv
from sklearn.base import clone

from onefold._base.arrays import Index, column_array
from onefold._base.files import file_lock, write_whole
from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.federated.contract import class_labels
from onefold.federated.local_model import LocalModel
from onefold.privacy.persons import person_texts
from onefold.tables import Schema
from onefold.tables.columns import rows_of

__all__ = [
    "DRIFTED",
    "FALSE_ALARM",
    "FEWEST",
    "DriftWatch",
    "Week",
    "held_out_rows",
    "log_evidence",
    "trial_distances",
    "usual_distances",
]

DRIFTED = (
    "rows asked about lie farther from this site's model than its own rows did: they have changed, or are of "
    "a kind that other sites have. For independent rows like this site's own, the chance of this warning is "
    "at most 1 % in a week"
)
FALSE_ALARM = 0.01  # largest chance of a false warning in a week
FEWEST = 40  # held-out rows, one for each person; fewer say too little about what is usual
MOST = 1000
SHARE = 0.2  # of the rows that is held out
BEYOND = (0.5, 0.1, 0.01)  # shares of the held-out rows that lie beyond the limits
TESTED = 1  # which of them is tested
SECONDS_OF_WEEK = 604_800
MOST_WEEKS = 8
# Alternatives to the usual share, between it and one.
STEPS = tuple(2.0**-step for step in range(1, 7))


def held_out_rows(labels: ArrayLike, person: Any = None, *, random_state: int = 0) -> tuple[Index, Index]:
    """Choose the rows that are held out of a trial fit, and those of them that are measured.

    All rows of a held-out person go, and one of them is measured: rows of one person are alike. Every class
    keeps rows.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Classes of the rows.
    person : array-like of shape (n,) or None, default=None
        Who each row is about; None if every row stands for itself.
    random_state : int, default=0
        Seed of the choice.

    Returns
    -------
    left : ndarray of int
        Rows for the trial fit.
    measured : ndarray of int
        Held-out rows to measure; none if there are too few.

    Examples
    --------
    >>> left, measured = held_out_rows(["a", "b"] * 150)
    >>> len(left), len(measured)
    (240, 60)
    """
    classes = np.unique(np.asarray(labels), return_inverse=True)[1]
    n_rows = len(classes)
    whom = np.arange(n_rows) if person is None else np.unique(np.asarray(person), return_inverse=True)[1]
    rng = np.random.default_rng(random_state)
    order = rng.permutation(whom.max(initial=-1) + 1)
    chosen = order[: min(MOST, int(SHARE * len(order)))]
    held = np.isin(whom, chosen)
    for number in np.unique(classes):
        if held[classes == number].all():  # a class must not disappear
            held &= ~np.isin(whom, whom[classes == number])
    shuffled = rng.permutation(np.flatnonzero(held))
    measured = np.sort(shuffled[np.unique(whom[shuffled], return_index=True)[1]])
    if len(measured) < FEWEST:
        return np.arange(n_rows), np.empty(0, dtype=np.intp)
    return np.flatnonzero(~held), measured


def trial_distances(model: LocalModel, X: Any, y: Any = None) -> dict[str, Any] | None:
    """Fit a model like this one without some rows, and measure these.

    Parameters
    ----------
    model : LocalModel
        A fitted model of raw rows.
    X : array-like of shape (n, p), or table
        The rows it was fitted on.
    y : array-like of shape (n,) or None, default=None
        Their labels; None takes the label column of the schema.

    Returns
    -------
    dict or None
        As :func:`usual_distances`; None if the rows are too few, for this or for the estimator.
    """
    schema = model.schema
    labels = column_array(y) if schema is None else class_labels(schema, X, y)
    left, measured = held_out_rows(labels, _persons(schema, X))
    if not len(measured):
        return None
    estimator = None if model.estimator is None else clone(model.estimator)
    trial = LocalModel(estimator, schema=schema, keep_rows=False)
    try:
        trial.fit(rows_of(X, left), None if y is None else column_array(y)[left])
        return usual_distances(trial.answers(rows_of(X, measured)).min(axis=1))
    except OnefoldError:  # an estimator may need more rows than are left: the model itself is fitted
        return None


def _persons(schema: Schema | None, X: Any) -> list[str] | None:
    """Whom each row is about, if the table says it; a row that names nobody stands for itself."""
    if schema is None or schema.person is None:
        return None
    try:
        texts = person_texts(schema.persons(X))
    except InvalidInputError:  # a table without the column
        return None
    return [f"person {text}" if text else f"row {row}" for row, text in enumerate(texts)]


def usual_distances(distances: ArrayLike) -> dict[str, Any] | None:
    """Return what :class:`DriftWatch` needs to know about the distances of held-out rows.

    Parameters
    ----------
    distances : array-like of shape (m,)
        Distance of each held-out row from its nearest class.

    Returns
    -------
    dict or None
        Plain values for a file; None if the rows are too few.
    """
    found = np.sort(np.asarray(distances, dtype=np.float64))
    n_rows = len(found)
    if n_rows < FEWEST or not np.isfinite(found).all():
        return None
    above = [max(1, int(share * (n_rows + 1))) for share in BEYOND]
    return {"held_out": n_rows, "limits": [float(found[n_rows - each]) for each in above]}


def log_evidence(n_rows: int, n_beyond: int, share: float) -> float:
    """Compute how strongly counts speak against a share of at most ``share``, as a logarithm.

    It is the average of likelihood ratios of larger shares. For rows that are independent of each other the
    exponential of it is a non-negative supermartingale that begins at one, if at most ``share`` of the rows
    lie beyond the limit: with probability 1 - a it stays below 1 / a for ever, however often it is looked at.

    Parameters
    ----------
    n_rows : int
        Rows that were asked about.
    n_beyond : int
        How many of them lay beyond the limit.
    share : float
        Largest usual share.

    Returns
    -------
    float
        The logarithm of the evidence.
    """
    others = [share + (1.0 - share) * step for step in STEPS]
    logs = [
        n_beyond * math.log(other / share) + (n_rows - n_beyond) * math.log((1.0 - other) / (1.0 - share))
        for other in others
    ]
    largest = max(logs)
    return largest + math.log(sum(math.exp(each - largest) for each in logs) / len(logs))


@dataclass(frozen=True)
class Week:
    """What was counted in one week.

    Parameters
    ----------
    begins : float
        Seconds since 1970 at which the week begins.
    rows : int
        Rows that were asked about; rows of a query with the same distance count once.
    beyond : tuple of int
        How many lay beyond the median, the farthest tenth and the farthest hundredth of the held-out rows.
    drifted : bool
        Whether the evidence for more rows beyond the farthest tenth than usual was strong enough for a
        warning at some time of the week.
    """

    begins: float
    rows: int
    beyond: tuple[int, int, int]
    drifted: bool


class DriftWatch:
    """Counts distances of rows that are asked about, and warns when too many are unusually large.

    Parameters
    ----------
    path : str or path
        File of the counts, made by a fit; without it nothing is counted.
    model : str
        Digest of the model that the file must be about.
    clock : callable, default=time.time
        Returns seconds since 1970.

    Notes
    -----
    *Guarantees.* In any one week the probability of a warning is at most 0.01, if the rows asked about are
    independent, their distances come from the distribution of the held-out rows' distances, and that
    distribution is continuous. Half of it is for held-out rows that happen to lie close, half for the rows
    asked about. It holds however many rows are asked about and however often it is looked at. The model in
    use has more rows than the one by which the held-out rows were measured, which brings queries closer on
    average: warnings are rather too rare.
    """

    def __init__(
        self, path: str | os.PathLike[str], model: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self.model, self._clock = Path(path), model, clock

    @property
    def is_available(self) -> bool:
        """Whether there is something to compare with."""
        return self._read() is not None

    @property
    def held_out(self) -> int:
        """Number of held-out rows that say what is usual; 0 if there are none."""
        found = self._read()
        return 0 if found is None else int(found["held_out"])

    def count(self, distances: ArrayLike) -> bool:
        """Count rows of one query by their distances from the nearest class.

        Parameters
        ----------
        distances : array-like of shape (n,)
            The distances.

        Returns
        -------
        bool
            Whether this query is the first of its week after which a warning is due.
        """
        if not self.path.exists():
            return False
        found = np.unique(np.asarray(distances, dtype=np.float64))
        with file_lock(self.path):
            plain = self._read()
            if plain is None or not len(found):
                return False
            number = str(int(self._clock() // SECONDS_OF_WEEK))
            old = plain["weeks"].get(number, [0, 0, 0, 0, False])
            beyond = [int((found > limit).sum()) for limit in plain["limits"]]
            rows = old[0] + len(found)
            counts = [was + more for was, more in zip(old[1:4], beyond, strict=True)]
            share = _largest_usual(int(plain["held_out"]))
            evidence = log_evidence(rows, counts[TESTED], share)
            drifted = old[4] or evidence >= math.log(2.0 / FALSE_ALARM)
            plain["weeks"][number] = [rows, *counts, drifted]
            recent = sorted(plain["weeks"], key=int)[-MOST_WEEKS:]
            plain["weeks"] = {each: plain["weeks"][each] for each in recent}
            write_whole(self.path, json.dumps(plain, indent=1, allow_nan=False).encode())
        return bool(drifted and not old[4])

    def weeks(self) -> list[Week]:
        """Return what was counted in the last weeks.

        Returns
        -------
        list of Week
            The weeks in which something was asked, the latest one last.
        """
        found = self._read()
        weeks: Mapping[str, Any] = {} if found is None else found["weeks"]
        return [
            Week(int(number) * SECONDS_OF_WEEK, entry[0], (entry[1], entry[2], entry[3]), entry[4])
            for number, entry in sorted(weeks.items(), key=lambda pair: int(pair[0]))
        ]

    def this_week(self) -> Week | None:
        """Return what was counted in this week so far.

        Returns
        -------
        Week or None
            The counts; None if nothing was asked.
        """
        now = self._clock() // SECONDS_OF_WEEK * SECONDS_OF_WEEK
        return next((week for week in self.weeks() if week.begins == now), None)

    def _read(self) -> dict[str, Any] | None:
        """What the file says; None if it is about another model or damaged, since nothing depends on it."""
        try:
            plain = json.loads(self.path.read_bytes())
            if plain["model"] != self.model or len(plain["limits"]) != len(BEYOND):
                return None
            plain.setdefault("weeks", {})
            for entry in plain["weeks"].values():
                if [type(value) for value in entry] != [int] * 4 + [bool]:
                    return None
            return dict(plain) if int(plain["held_out"]) >= FEWEST else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None


def _largest_usual(n_rows: int) -> float:
    """Share of rows beyond the tested limit that is exceeded for few choices of held-out rows only.

    Beyond the k-th largest of m distances lies a share with the distribution Beta(k, m + 1 - k).
    """
    above = max(1, int(BEYOND[TESTED] * (n_rows + 1)))
    return float(betaincinv(above, n_rows + 1 - above, 1.0 - FALSE_ALARM / 2.0))
