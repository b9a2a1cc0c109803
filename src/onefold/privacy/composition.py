"""Releases from the same data as events, and what several of them spend together.

A release that is (epsilon, delta) private is no worse than this one: with probability delta it discloses
everything, otherwise it is a coin that is epsilon private (Kairouz, Oh and Viswanath 2017). The first parts
of all releases are joined exactly, and only what is left of the total delta is spent on composing the second
parts. Gaussian noise is no coin: the squares of its mu add up (Dong, Roth and Su 2022).
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from onefold._base.optional import require
from onefold._base.records import record
from onefold._base.validation import OneOf, check_parameter
from onefold.exceptions import InvalidInputError, MissingDependencyError, printable
from onefold.privacy.calibration import loss_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.terms import (
    DELTA,
    UNITS,
    AtLeastOne,
    Losses,
    Pair,
    Relation,
    Sentences,
    Unit,
    Value,
    number,
    shown,
)
from onefold.privacy.wording import assumptions

if TYPE_CHECKING:
    from onefold.privacy.mechanisms.mechanism import AddedNoise

__all__ = ["COMPOSITIONS", "Event", "compose"]

COMPOSITIONS = ("tightest", "basic")
EXTRA = "accounting"
PLD_INTERVAL = 1e-4
FINEST_PLD = 2**20  # most intervals of a privacy-loss distribution
# What distributions cut off at both ends: with less delta than this they promise nothing.
PLD_TAIL = 1e-14
# Shares of delta that Gaussian noise may take beside coins; each of them is sound.
SHARES = (1.0, 0.9, 0.5, 0.1)
# Errors of float64 in sums of squares and exponentials are far below this.
ROUNDING = 1 + 1e-12
LARGEST = 1e100  # of an event: squares and sums of them are numbers still
Chance = Annotated[float, Field(ge=0, lt=1)]


# --- events -----------------------------------------------------------------------------------------------


@record
class Event(Value):
    """One or several releases of the same kind from the same data, as a ledger counts them.

    Parameters
    ----------
    name : str
        What was released, for the reader of the ledger.
    unit : {"entry", "record", "person"}
        What changes between neighbouring datasets.
    epsilon : float
        Privacy loss of one release.
    delta : float, default=0.0
        Probability with which one release may exceed ``epsilon``.
    mechanism : str, default=""
        The noise, for the reader of the ledger.
    count : int, default=1
        Number of releases.
    family : {"laplace", "gaussian"} or None, default=None
        The noise itself where it is known: totals of several releases are then smaller.
    noise_multiplier : float or None, default=None
        Scale (Laplace) or standard deviation (Gaussian) divided by the change of one coordinate. Required
        with ``family``, and only then.
    coordinates : int, default=1
        Number of coordinates with independent noise that change together.
    atom : float, default=0.0
        Probability that a coordinate gets no noise.
    beside : tuple of two float, default=(0.0, 0.0)
        (epsilon, delta) of what was released with it by noise of another kind, such as randomised labels;
        part of ``epsilon`` and ``delta``. Only with ``family``.
    neighbours : {"replace", "add-remove"}, default="replace"
        How neighbouring datasets differ in a record: see :class:`Guarantee`.
    labels : {"counted", "not covered", "not stated"}, default="not stated"
        Whether ``epsilon`` and ``delta`` count the labels that were released with the rows.
    conditions : tuple of str, default=()
        What must be true for the numbers to hold, and what onefold cannot see.

    See Also
    --------
    Ledger : Adds up events and enforces a limit.
    Guarantee : What a single release promises.

    Examples
    --------
    >>> from onefold.privacy import Event, Laplace
    >>> event = Event.of(Laplace(0.5, sensitivity=1.0), n_features=3, name="survey")
    >>> event.epsilon, event.family, event.coordinates
    (1.5, 'laplace', 3)
    """

    name: str
    unit: Unit
    epsilon: Annotated[float, Field(ge=0, le=LARGEST)]
    delta: Chance = 0.0
    mechanism: str = ""
    count: AtLeastOne = 1
    family: Literal["laplace", "gaussian"] | None = None
    noise_multiplier: Annotated[float, Field(ge=1 / LARGEST, le=LARGEST)] | None = None
    coordinates: AtLeastOne = 1
    atom: Chance = 0.0
    beside: Losses = (0.0, 0.0)
    neighbours: Relation = "replace"
    labels: Literal["counted", "not covered", "not stated"] = "not stated"
    conditions: Sentences = ()

    def __post_init__(self) -> None:
        refuse_added_entries(self.unit, self.neighbours)
        if (self.family is None) != (self.noise_multiplier is None):
            raise InvalidInputError("family and noise_multiplier must be given together, or neither of them")
        if self.family is None and self.beside != (0.0, 0.0):
            raise InvalidInputError("beside needs family: without it epsilon and delta say everything")
        if self.beside[0] > self.epsilon or self.beside[1] > self.delta:
            raise InvalidInputError("beside is a part of epsilon and delta and cannot be larger")

    @classmethod
    def of(
        cls,
        mechanism: "AddedNoise",
        n_features: int,
        name: str = "release",
        unit: Unit = "record",
        count: int = 1,
    ) -> "Event":
        """Describe releases of rows by a mechanism.

        Parameters
        ----------
        mechanism : Mechanism, FisherGaussian or BoundedFisherNoise
            The noise.
        n_features : int
            Entries of a row.
        name : str, default="release"
            What is released.
        unit : {"record", "entry", "person"}, default="record"
            What changes between neighbouring datasets. "person" needs a noise that knows
            ``rows_per_person``.
        count : int, default=1
            Number of releases.

        Returns
        -------
        Event
            The event, with the family of the noise where an accountant knows it.
        """
        guarantee = mechanism.guarantee(n_features)
        refuse_void(guarantee)
        check_parameter("unit", unit, OneOf(UNITS))
        pair: Pair | None = getattr(guarantee, unit)
        if pair is None:
            raise InvalidInputError("unit='person' needs a noise with rows_per_person")
        epsilon, delta = pair
        return cls(
            name,
            unit,
            epsilon,
            delta,
            guarantee.mechanism,
            count,
            neighbours=guarantee.neighbours,
            labels="not covered",
            conditions=assumptions(guarantee),
            **mechanism.accounting(unit, n_features),
        )

    def __str__(self) -> str:
        return printable(
            f"{self.count} x {self.name}{f' ({self.mechanism})' if self.mechanism else ''}: "
            f"epsilon {shown(self.epsilon)} per {self.unit}, delta {shown(self.delta, 3)}, "
            f"labels {self.labels}" + "".join(f", provided that {condition}" for condition in self.conditions)
        )


def refuse_added_entries(unit: str, neighbours: str) -> None:
    """Refuse a relation that the unit does not allow: a record can be added or removed, an entry cannot."""
    if unit == "entry" and neighbours != "replace":
        raise InvalidInputError("entries are changed, not added: neighbours='add-remove' is for records")


def refuse_void(guarantee: Guarantee) -> None:
    """Refuse a guarantee that does not hold: there is no number to count."""
    if not guarantee.holds:
        reasons = "; ".join(guarantee.voided_by)
        raise InvalidInputError(f"a void guarantee cannot be entered in a ledger: {reasons}")


# --- composition: from events to an epsilon ---------------------------------------------------------------

Coin = tuple[float, float, int]  # epsilon, delta and how many


def all_gaussian(events: Sequence[Event]) -> bool:
    """Say whether all noise is Gaussian: budgets may then be chosen in view of earlier releases."""
    return all(event.family == "gaussian" and not event.beside[0] for event in events)


def _gaussian(events: Sequence[Event]) -> float:
    """Return mu of all Gaussian noise together: the squares add up."""
    multipliers = [
        (event.count * event.coordinates, event.noise_multiplier)
        for event in events
        if event.family == "gaussian"
    ]
    return math.sqrt(math.fsum(times / size**2 for times, size in multipliers if size)) * ROUNDING


def _coins(events: Sequence[Event], families: Sequence[str]) -> list[Coin]:
    """List what is composed as coins: all but the noise of these families."""
    coins = [
        (*(event.beside if event.family in families else (event.epsilon, event.delta)), event.count)
        for event in events
    ]
    atoms = [(0.0, event.atom, event.count * event.coordinates) for event in events]
    known = [atom for atom, event in zip(atoms, events, strict=True) if event.family in families]
    return [coin for coin in (*coins, *known) if coin[:2] != (0.0, 0.0)]


def _left(delta: float, coins: Sequence[Coin]) -> float:
    """Return what remains of the total ``delta``: 1 - (1 - delta) / product of (1 - delta_i)."""
    log_kept = math.fsum(count * math.log1p(-mass) for _, mass, count in coins)
    return -math.expm1(min(math.log1p(-delta) - log_kept, 700.0))  # far below 0 is below 0


def _advanced(coins: Sequence[Coin], delta: float) -> float:
    """Bound coins by Kairouz, Oh and Viswanath 2017, Theorem 3.5, for coins of different size."""
    added = math.fsum(count * epsilon for epsilon, _, count in coins)
    if not delta > 0:
        return added
    drift = math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, _, count in coins)
    squares = math.fsum(count * epsilon**2 for epsilon, _, count in coins)
    return min(added, (drift + math.sqrt(2 * math.log(1 / delta) * squares)) * ROUNDING)


def _closed(events: Sequence[Event], delta: float) -> float:
    """Give Gaussian noise a share of ``delta`` and the coins the rest, and add up their epsilons."""
    mu, coins = _gaussian(events), _coins(events, ("gaussian",))
    left = _left(delta, coins)
    if left < 0 or (mu and not left > 0):
        return math.inf
    if not mu:
        return _advanced(coins, left)
    return min(loss_of(mu, share * left) + _advanced(coins, (1 - share) * left) for share in SHARES)


def _distributions(events: Sequence[Event], delta: float) -> float:
    """Compose privacy-loss distributions of dp-accounting, rounded to the pessimistic side.

    Infinite where they say nothing: without the package, or for losses too large for them.
    """
    mu, coins = _gaussian(events), _coins(events, ("gaussian", "laplace"))
    left = _left(delta, coins)
    laplace = [event for event in events if event.family == "laplace"]
    coins = [coin for coin in coins if coin[0]]
    # One loss of each kind, and how many there are.
    losses = [(epsilon, count) for epsilon, _, count in coins] + [(mu * (mu / 2 + 12), 1)] * bool(mu)
    losses += [(1 / (event.noise_multiplier or 1.0), event.count * event.coordinates) for event in laplace]
    largest = max((loss for loss, _ in losses), default=math.inf)
    total = math.fsum(loss * count for loss, count in losses)
    interval = max(PLD_INTERVAL, largest * 1e-5, total / FINEST_PLD)  # coarser for large losses
    many = any(count > FINEST_PLD for _, count in losses)
    if not left > PLD_TAIL or largest > 500.0 or many:
        return math.inf
    try:
        library: Any = require("dp_accounting.pld.privacy_loss_distribution", EXTRA)
        common: Any = require("dp_accounting.pld.common", EXTRA)
    except MissingDependencyError:
        return math.inf
    options = {"value_discretization_interval": interval}
    parts = [(library.from_gaussian_mechanism(1 / mu, **options), 1)] if mu else []
    for event in laplace:
        one = library.from_laplace_mechanism(event.noise_multiplier, **options)
        parts.append((one, event.count * event.coordinates))
    for epsilon, _, count in coins:
        coin = common.DifferentialPrivacyParameters(epsilon, 0.0)
        parts.append((library.from_privacy_parameters(coin, **options), count))
    several = [one.self_compose(count) if count > 1 else one for one, count in parts]
    return float(reduce(lambda one, other: one.compose(other), several).get_epsilon_for_delta(left))


def compose(
    events: Sequence[Event], how: str = "tightest", delta: float | None = None, enough: float = 0.0
) -> Pair:
    """Compute what several releases from the same data spend together.

    Parameters
    ----------
    events : sequence of Event
        The releases, all of one unit and one neighbouring relation.
    how : {"tightest", "basic"}, default="tightest"
        "tightest" is the smallest of all sound totals: of adding up, of closed forms, and of privacy-loss
        distributions where the extra ``accounting`` is installed. "basic" adds up.
    delta : float or None, default=None
        Total delta at which epsilon is stated; None takes the sum of the deltas, at which no total is above
        "basic". Not for "basic".
    enough : float, default=0.0
        Total epsilon at which no smaller one is looked for: distributions take long.

    Returns
    -------
    epsilon : float
        Total privacy loss; infinite if the releases have spent more than ``delta`` already.
    delta : float
        Probability with which it may be exceeded.

    See Also
    --------
    Ledger.total : The same for the events of a ledger.

    Examples
    --------
    >>> from onefold.privacy.composition import Event, compose
    >>> compose([Event("survey", "record", 0.5, count=2), Event("table", "record", 1.0, 1e-5)])
    (2.0, 1e-05)
    >>> small = Event("table", "record", 0.1, 1e-9, count=500)
    >>> compose([small], "basic")[0] > 2 * compose([small], delta=1e-5)[0]
    True
    """
    check_parameter("how", how, OneOf(COMPOSITIONS))
    if how == "basic" and delta is not None:
        raise InvalidInputError("basic composition adds up delta: leave it out")
    added = math.fsum(event.epsilon * event.count for event in events)
    spent = min(1.0, math.fsum(event.delta * event.count for event in events))
    stated = spent if delta is None else number("delta", delta, DELTA)
    if how == "basic" or not events or not 0 < stated < 1:
        return added, spent
    totals = [added if spent <= stated else math.inf, _closed(events, stated)]
    if min(totals) > enough and not all_gaussian(events):  # mu is exact
        totals.append(_distributions(events, stated))
    return min(totals), stated
