"""Numbers to predict at real sites: what a site sends once, and what the server answers from the sum.

A site sends the moments of its pairs of a row and its output (:class:`onefold.fabrication.MomentRegressor`):
with noise private for whole records or persons, or exact with the data owner's consent. They add up over
sites, so the model of the sum is that of all rows in one place, and a site that leaves takes its part with
it. No site is asked anything: whoever has the sum and the schema answers. Everything that sites must agree on
follows from the schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onefold._base.arrays import Floats
from onefold._base.validation import Number, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentRegressor
from onefold.federated.joined_server import N_DIRECTIONS, lift_width
from onefold.federated.moments import MomentFederation, moments_in
from onefold.privacy import Guarantee, PrivateMoments
from onefold.privacy.ledger import AnyLedger
from onefold.tables import Schema

__all__ = ["NumberRelease", "NumberResult", "Regressor", "answered_by", "pairs_in", "regressor_of"]

Regressor = MomentRegressor  # for rooms that see a federation and no estimators


@dataclass(frozen=True)
class NumberRelease:
    """What the sites of a federation for numbers agree on before any of them looks at its rows.

    Parameters
    ----------
    schema : Schema
        The declared contract of the sites' tables, whose label is a number with a range.
    epsilon : float or None, default=None
        Privacy loss for a whole record or person. None adds no noise: the sums are exact and **not private**.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.

    See Also
    --------
    onefold.federated.flower.Site.fit_numbers : Keeps a release in a site's folder, to be sent.
    onefold.federated.MomentFederation : The same sums in one process.

    Notes
    -----
    *Guarantees.* Those of :class:`onefold.fabrication.MomentRegressor`, for each site's own records.

    Examples
    --------
    >>> from onefold.tables import Field
    >>> schema = Schema([Field("age", low=0, high=100), Field("cost", role="label", low=0, high=900)])
    >>> agreed = NumberRelease(schema, epsilon=1.0)
    >>> agreed.promise().record, agreed.n_directions
    ((1.0, 1e-05), 0)
    >>> len(pairs_in(agreed.of({"age": [20, 70], "cost": [100, 500]}), plain=False).sums_)
    1
    """

    schema: Schema
    epsilon: float | None = None
    delta: float = 1e-5

    @property
    def n_directions(self) -> int:
        """Directions of the public lift: none with noise, which grows with every column."""
        return lift_width(self.schema.width, 2 * N_DIRECTIONS) if self.epsilon is None else 0

    def promise(self, *, of_persons: bool = False) -> Guarantee | None:
        """State what a release will promise, before any noise is drawn; None without noise.

        Parameters
        ----------
        of_persons : bool, default=False
            Whether records belong to persons whom the schema names.

        Returns
        -------
        Guarantee or None
            The promise.
        """
        if self.epsilon is None:
            return None
        return MomentRegressor(self.epsilon, self.delta, schema=self.schema).promise(of_persons=of_persons)

    def of(self, X: Any, y: Any = None, *, person: Any = None, ledger: AnyLedger = None) -> bytes:
        """Return the moments of a site's pairs, as they leave the site.

        Parameters
        ----------
        X : table
            The rows of the site. They are not kept.
        y : array-like of shape (n,) or None, default=None
            Their outputs; None takes the label column of the schema.
        person : array-like of shape (n,), False or None, default=None
            Who each row is about, with noise. None takes the person column of a schema that declares
            ``rows_per_person``; False takes none.
        ledger : Ledger, path or None, default=None
            The site's account, in which a release with noise is entered before any noise is drawn.

        Returns
        -------
        bytes
            What the site sends.
        """
        made = MomentFederation(
            self.schema, epsilon=self.epsilon, delta=self.delta, lift=self.n_directions or None
        )
        return made.release(X, y, person=person, ledger=ledger)


def pairs_in(packed: bytes, *, plain: bool) -> PrivateMoments:
    """Open the moments of pairs that a site sends; refused unless they are what they should be.

    Parameters
    ----------
    packed : bytes
        What :meth:`NumberRelease.of` returned at the site.
    plain : bool
        Whether they are sums without noise, to which the site has agreed. Others must have a guarantee that
        holds.

    Returns
    -------
    PrivateMoments
        The moments.

    Examples
    --------
    >>> pairs_in(b"no moments", plain=True)
    Traceback (most recent call last):
    ...
    onefold.exceptions.FileFormatError: not a file of onefold, or damaged
    """
    found = moments_in(packed, plain=plain)
    if not found.is_pooled or found.classes_.tolist() != [0] or found.n_features_in_ < 2:
        raise InvalidInputError("these are no moments of rows with one number to predict")
    if found.guarantee_.schema is None or not found.schema_fields_:
        raise InvalidInputError("moments of numbers to predict need the schema of their rows")
    return found


@dataclass(frozen=True, eq=False)
class NumberResult:
    """What a federation for numbers answered to one query.

    Parameters
    ----------
    predictions : ndarray of shape (n,)
        Predicted number of each row, in the unit of the label.
    low : ndarray of shape (n,)
        Lower end of each interval.
    high : ndarray of shape (n,)
        Upper end of each interval.
    level : float
        Share of the numbers that the intervals are meant to hold, at least; no promise, see
        :meth:`onefold.fabrication.MomentRegressor.predict_interval`.
    sites : tuple of str
        Sites whose sums made the model.
    guarantee : Guarantee
        What each site's records are promised; void for sums without noise.
    kept_out : dict of str to str, default={}
        Sites that are connected but do not take part, with the reason.

    See Also
    --------
    onefold.federated.flower.Federation.predict_numbers : Returns this.

    Examples
    --------
    >>> import numpy as np
    >>> ends = np.zeros(2), np.ones(2)
    >>> promised = Guarantee("record", (1.0, 1e-5), (2.0, 1e-5), 1)
    >>> NumberResult(np.array([0.2, 0.4]), *ends, 0.9, ("north",), promised).n_rows
    2
    """

    predictions: Floats
    low: Floats
    high: Floats
    level: float
    sites: tuple[str, ...]
    guarantee: Guarantee
    kept_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows that were asked about."""
        return len(self.predictions)


def regressor_of(federation: MomentFederation) -> MomentRegressor:
    """Return the regression that the sums of all sites make.

    Parameters
    ----------
    federation : MomentFederation
        The sums, under the schema of the sites.

    Returns
    -------
    MomentRegressor
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> made = MomentFederation(x_range=(0, 1), y_range=(0, 1))
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> _ = made.add("north", made.release(X, X[:, 0]))
    >>> regressor_of(made).predict([[0.5]]).round(2).tolist()
    [0.5]
    """
    return federation.fitted(MomentRegressor)


def answered_by(
    model: MomentRegressor, X: Any, level: float, sites: tuple[str, ...], kept_out: Mapping[str, str]
) -> NumberResult:
    """Predict the rows of a table with the model of the sum.

    Parameters
    ----------
    model : MomentRegressor
        What :func:`regressor_of` returned.
    X : table
        Rows, by the schema of the sites.
    level : float
        Share of the numbers that the intervals are meant to hold.
    sites : tuple of str
        Sites whose sums made the model.
    kept_out : mapping of str to str
        Sites that do not take part, with the reason.

    Returns
    -------
    NumberResult
        Predictions with their intervals.
    """
    check_parameter("level", level, Number(above=0, below=1))
    low, high = model.predict_interval(X, float(level)).T
    return NumberResult(model.predict(X), low, high, float(level), sites, model.guarantee_, dict(kept_out))
