"""What a site of a measure might answer about some rows, before any site is asked."""

from __future__ import annotations

import warnings

import numpy as np

from onefold._base.arrays import Array, Floats
from onefold.exceptions import InvalidInputError
from onefold.federated.local_model import LocalModel
from onefold.models import JOINED, FoldingClassifier, maximum_of

__all__ = ["rehearsed"]

FEWEST_ROWS = 2  # one for the site, one that it measures
MOST_ROWS = 1000  # more do not change where measures lie


def rehearsed(rows: Array, measure: str, scale: float | None) -> tuple[Floats, float]:
    """Return measures of half of the rows by a site that has the other half, and the largest possible one.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Rows without classes, at least two, as the sites have them.
    measure : str
        The measure of the sites; "joined" where they send plain sums.
    scale : float or None
        Factor at which a folding measure sees the data; None for distances.

    Returns
    -------
    measures : ndarray of shape (m,)
        Where the smallest measures of real sites lie, about: they have other rows and more of them.
    most : float
        Largest value of the measure.

    Raises
    ------
    InvalidInputError
        If there are too few rows.
    """
    if len(rows) < FEWEST_ROWS:
        raise InvalidInputError(
            f"the map is fitted to at least {FEWEST_ROWS} rows: give more of them (--fit-on), or a bound "
            "(--bound B)"
        )
    most, distances = maximum_of(measure), measure in ("euclidean", JOINED)
    chosen = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.intp)]
    there, asked = chosen[0::2], chosen[1::2]
    site = FoldingClassifier(
        measure="euclidean" if distances else measure, scale="auto" if distances or scale is None else scale
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about rows that nothing is predicted from
        model = LocalModel(site, keep_rows=False).fit(there, np.zeros(len(there), dtype=np.intp))
        found = model.answers(asked)[:, 0].astype(np.float64)
    return (found**2 if measure == JOINED else found), most
