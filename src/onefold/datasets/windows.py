"""Rows made of a series of heartbeats: windows of consecutive R-R intervals that hold no artefacts.

Neighbouring windows share all intervals but one. Where windows of one person are divided at random, nearly
the same row is in the training and in the test part; divide by person or device instead (``groups`` of
:func:`onefold.datasets.partition` and :func:`onefold.datasets.train_test_split`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import median_filter

from onefold._base.arrays import AnyArray, Index
from onefold._base.validation import Entry, Number, Whole, check_parameter
from onefold.exceptions import InvalidInputError

__all__ = ["artefacts", "rr_windows"]

HISTORY = 216  # three minutes at 72 beats a minute (000 Sec. 6.2.3)
THRESHOLD = 4.0
# Of Gaussian numbers: standard deviation over the median, and over the mean, of the absolute deviations.
OF_MEDIAN, OF_MEAN = 1.4826, 1.2533

CONSTRAINTS: dict[str, Entry] = {
    "threshold": Number(above=0),
    "around": (Whole(1), None),
    "history": Whole(0),
    "step": Whole(1),
}


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
    check_parameter("threshold", threshold, CONSTRAINTS["threshold"])
    check_parameter("around", around, CONSTRAINTS["around"])
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
    for name, value in (("history", history), ("step", step)):
        check_parameter(name, value, CONSTRAINTS[name])
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
