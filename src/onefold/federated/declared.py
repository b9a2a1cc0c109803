"""What sites agree on before they release private moments: all of it follows from declared numbers.

Releases add up only if their classes, length of a row, centre and kind of second moments are the same. None
of these may depend on a site's data, or agreeing on them would be a message about it.
"""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats
from onefold._base.validation import Number, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy import PrivateMoments
from onefold.privacy.calibration import mu_of
from onefold.privacy.forecast import Forecast, forecast_moments
from onefold.privacy.moments import noise_drowns_classes
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND

__all__ = ["Forecast", "declared_moments", "forecast_moments", "public_centre"]

# In fewer columns the direction from the centre says too little about a row.
FEWEST_CENTRED = 4
# A centre of zeros would leave rows as short as they are in their ball, and the noise as large as it is.
NEXT_TO_NOTHING = 2.0**-40


def public_centre(schema: Schema) -> Floats:
    """Return a typical encoded row, from the declaration alone.

    Numbers are at their declared ``fill``, or in the middle of their range; all categories are equally
    likely, and nothing is missing. A ``fill`` near what is usual makes private moments better.

    Parameters
    ----------
    schema : Schema
        The declared contract.

    Returns
    -------
    ndarray of shape (width,)
        The row.

    Examples
    --------
    >>> from onefold.tables import Field
    >>> public_centre(Schema([Field("age", low=0, high=100, fill=30)])).tolist()
    [0.3]
    """
    parts: list[Floats] = []
    for known in schema.features:
        if known.is_category:
            part = np.zeros(known.width)
            part[: len(known.levels)] = known.encode(np.arange(len(known.levels))).mean(axis=0)[
                : len(known.levels)
            ]
        elif known.encoder is not None:
            part = np.full(known.width, NEXT_TO_NOTHING)  # no direction of a vector is typical
        else:
            part = known.encode(np.array([np.nan]))[0]
            part[1:] = 0.0
        parts.append(part)
    return np.concatenate(parts)


def declared_moments(
    epsilon: float,
    delta: float = 1e-5,
    *,
    schema: Schema = AS_THEY_STAND,
    classes: ArrayLike | None = None,
    n_features: int | None = None,
    limits: tuple[float, float] | None = None,
    radius: float | None = None,
    rows_about: int | None = None,
    rows_per_person: int | None = None,
    sampler: str = "hardened",
) -> PrivateMoments:
    """Return the release that all sites with the same declaration agree on, to be fitted at each of them.

    Parameters
    ----------
    epsilon : float
        Privacy loss for a record, or for a person.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.
    schema : Schema, default=AS_THEY_STAND
        The declared contract of the tables: classes, length and centre of rows follow from it.
    classes : array-like or None, default=None
        Without a schema: all labels there can be.
    n_features : int or None, default=None
        Without a schema: number of columns.
    limits : (float, float) or None, default=None
        Without a schema: smallest and largest value of a column. Rows are seen from their middle.
    radius : float or None, default=None
        Without a schema, instead of ``limits``: declared length of a row; longer ones are shortened.
    rows_about : int or None, default=None
        Without a schema: declared number of rows of a site, about, the same at all sites. With enough of
        them each class has a second moment of its own.
    rows_per_person : int or None, default=None
        Most records of a person that count, for a release that protects persons.
    sampler : {"hardened", "float"}, default="hardened"
        How noise is drawn; the guarantee of "float" is void.

    Returns
    -------
    PrivateMoments
        The release, not fitted.

    See Also
    --------
    onefold.federated.release_moments : Fits it to a site's rows.

    Notes
    -----
    Rows of four columns or more are seen from a public centre, see :func:`public_centre`, and brought to
    length one: every row then uses the whole budget (``experiments/privacy/forecast.py`` compares).

    Examples
    --------
    >>> agreed = declared_moments(1.0, classes=["no", "yes"], n_features=25, limits=(0.0, 1.0))
    >>> agreed.radius, float(agreed.centre[0]), agreed.second_moments
    (5.0, 0.1, 'pooled')
    """
    schema = Schema.of(schema)
    centre: Floats | None = None
    kind: Literal["class", "pooled"] = "pooled"
    if not schema.plain:
        if schema.classes is None:
            raise InvalidInputError("the schema declares no classes: name the label column and its levels")
        classes, width, length = schema.classes, schema.width, float(schema.row_norm)
        if width >= FEWEST_CENTRED:
            centre = public_centre(schema) / length
    else:
        width, length, centre = _numbers(classes, n_features, limits, radius)
        known = np.unique(np.asarray(classes))
        if rows_about is not None:
            check_parameter("rows_about", rows_about, Whole(1))
            each = np.full(len(known), rows_about / len(known))
            kind = "pooled" if noise_drowns_classes(each, mu_of(epsilon, delta), width) else "class"
    return PrivateMoments(
        epsilon,
        delta,
        classes=classes,
        centre=centre,
        radius=length,
        sampler=sampler,
        rows_per_person=rows_per_person,
        second_moments=kind,
    )


def _numbers(
    classes: Any, n_features: int | None, limits: tuple[float, float] | None, radius: float | None
) -> tuple[int, float, Floats | None]:
    """Columns, length and centre of rows of plain numbers."""
    if classes is None or n_features is None or (limits is None) == (radius is None):
        raise InvalidInputError(
            "without a schema private moments need the classes, the number of columns, and either the range "
            "of the values or the length of a row"
        )
    check_parameter("n_features", n_features, Whole(1))
    if radius is not None:
        check_parameter("radius", radius, Number(above=0))
        return n_features, float(radius), None
    assert limits is not None
    low, high = map(float, limits)
    if not -math.inf < low < high < math.inf:
        raise InvalidInputError("the range of the values needs two finite numbers, the smaller one first")
    length = math.sqrt(n_features) * max(abs(low), abs(high))
    if n_features < FEWEST_CENTRED:
        return n_features, length, None
    middle = (low + high) / 2.0 / length
    return n_features, length, np.full(n_features, middle if middle != 0.0 else NEXT_TO_NOTHING)
