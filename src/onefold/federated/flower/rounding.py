"""How measures of an encrypted query become whole numbers unless told otherwise: which map, how many looks.

The map is public. By default it is fitted to the rows of the query, or to public rows, and to nothing else:
half of them are taken for the rows of a site, and the other half are measured as that site would. Where these
measures lie is about where the smallest measures of real sites lie, and there the numbers are put. Nothing of
a site goes into it beyond the measure and the scale in its profile; server and sites see the rows of a query
anyway.
"""

import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from onefold._base.arrays import Array, Floats
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe.parameters import Parameters
from onefold.federated.fhe.quantiser import knots_of
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import MOST_LOOKS
from onefold.models import JOINED, FoldingClassifier, maximum_of

PlainMap = tuple[float | None, float | None, float | None]  # bound, power and floor

FEW_LOOKS, MANY_LOOKS = 4, 16
ENOUGH_ROWS = 128  # to fit a map to that needs no more looks
FEWEST_ROWS = 2  # to rehearse with: one for the site, one that it measures
MOST_ROWS = 1000  # more do not change where measures lie
FULL = 64  # rows that share a ciphertext at 8 bits


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


def fitted_knots(rows: Array, measure: str, scale: float | None) -> tuple[float, ...]:
    """The map fitted to rows without classes, for sites of a measure and a scale."""
    return knots_of(*rehearsed(rows, measure, scale))


def default_looks(n_rows: int | None, bits: int, fitted: bool) -> int:
    """How many looks cost no accuracy that can be measured, as ``docs/encrypted.md`` shows.

    A map fitted to 128 rows or more needs four. Fewer rows show less well where measures lie: they get as
    many looks as 128 rows do together, up to sixteen, and the plain map gets sixteen. More than 8 bits need
    one.

    Parameters
    ----------
    n_rows : int or None
        Number of rows that the map was fitted to; None if it is not known.
    bits : int
        Bits of the numbers that one look compares.
    fitted : bool
        Whether the map is fitted.

    Returns
    -------
    int
        Number of looks at every row.
    """
    if bits > 8:
        return 1
    if not fitted:
        return MANY_LOOKS
    return FEW_LOOKS if n_rows is None else min(MANY_LOOKS, max(FEW_LOOKS, FEW_LOOKS * ENOUGH_ROWS // n_rows))


def default_bound(measure: str, rows: np.ndarray[Any, Any]) -> float:
    """1 for the folding measures; for distances how far the rows spread, which the sites see anyway.

    A row is closer to the rows of its own class than to the middle of all, so few smallest distances are cut
    off; those that are can only tie with each other. Joined answers are squared distances, to which nothing
    is added for the class of the largest score: the square bounds their minimum as well.
    """
    if measure == "joined":
        return default_bound("euclidean", rows) ** 2
    if measure != "euclidean":
        return 1.0
    values = rows.astype(np.float64)
    spread = float(np.sqrt(np.mean(np.sum((values - values.mean(axis=0)) ** 2, axis=1))))
    if not spread > 0:
        raise InvalidInputError("these rows do not show how large distances are: give a bound (--bound B)")
    return spread


def chosen_map(
    measure: str,
    scale: float | None,
    bits: int,
    plain: PlainMap,
    looks: int | None,
    public: Array | None,
    rows: Array | None = None,
) -> dict[str, Any]:
    """What a query key says about its map: the plain one if any of its numbers is given, else a fitted one.

    Parameters
    ----------
    measure, scale : str, float or None
        Those of the sites, as for :func:`fitted_knots`.
    bits : int
        Bits of the numbers that one look compares.
    plain : tuple of float or None
        Bound, power and floor of the plain map.
    looks : int or None
        Number of looks at every row; None takes :func:`default_looks`.
    public : ndarray of shape (n, p) or None
        Public rows to fit the map to.
    rows : ndarray of shape (n, p) or None, default=None
        Rows of the query, to fit the map to without public ones; None if they are not known yet.

    Returns
    -------
    dict of str to Any
        Bound, power, floor, looks and knots.

    Raises
    ------
    InvalidInputError
        If the options do not go together, or nothing shows how large measures are.
    """
    bound, power, floor = plain
    given = any(value is not None for value in plain)
    if public is not None and given:
        raise InvalidInputError(
            "the map is fitted to public rows (--fit-on) or plain (--bound, --power, --floor), not both"
        )
    if public is not None and rows is not None and public.shape[1] != rows.shape[1]:
        raise InvalidInputError(
            f"the public rows have {public.shape[1]} feature(s), those of the query have {rows.shape[1]}"
        )
    shown, knots = rows if public is None else public, None
    if public is not None:
        knots = fitted_knots(public, measure, scale)
    elif rows is not None and not given:
        with suppress(InvalidInputError):  # too few rows, or all the same
            knots = fitted_knots(rows, measure, scale)
    if looks is None:
        looks = default_looks(None if shown is None else len(shown), bits, knots is not None)
    check_parameter("looks", looks, Whole(1, MOST_LOOKS))
    if knots is not None:
        return {"bound": knots[-1], "power": 1.0, "floor": knots[0], "looks": looks, "knots": knots}
    if bound is None:
        if rows is None:
            raise InvalidInputError("the map needs a bound (--bound B) or public rows (--fit-on FILE)")
        bound = default_bound(measure, rows)
    return {
        "bound": bound,
        "power": 1.0 if power is None else power,
        "floor": 0.0 if floor is None else floor,
        "looks": looks,
        "knots": (),
    }


def cost(parameters: Parameters, n_rows: Iterable[int], looks: int) -> dict[str, int]:
    """Bytes that one site sends about some rows, part by part: in so many looks, and in one."""
    parts = list(n_rows)
    return {
        "bytes_per_site": sum(parameters.message_size(looks * n) for n in parts),
        "bytes_in_one_look": sum(parameters.message_size(n) for n in parts),
    }
