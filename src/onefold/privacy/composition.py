"""Releases from the same data as events, and what several of them spend together.

A release that is (epsilon, delta) private is no worse than this one: with probability delta it discloses
everything, otherwise it is a coin that is epsilon private (Kairouz, Oh and Viswanath 2017). The first parts
of all releases are joined exactly, and only what is left of the total delta is spent on composing the second
parts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from onefold._base.optional import require
from onefold._base.validation import Entry, Instance, Number, OneOf, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError, printable
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.terms import DELTA, DELTA_OR_ZERO, POSITIVE, RELATIONS, UNITS, Pair, number, shown
from onefold.privacy.wording import assumptions

__all__ = ["COMPOSITIONS", "Event", "compose"]

EXTRA = "accounting"
PLD_INTERVAL = 1e-4
# What the numbers of an event say about the labels that were released with the rows.
LABELS = ("counted", "not covered", "not stated")


# --- events -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
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
        The noise itself where it is known: "rdp" and "pld" composition then give smaller totals.
    noise_multiplier : float or None, default=None
        Scale (Laplace) or standard deviation (Gaussian) divided by the change of one coordinate. Required
        with ``family``, and only then.
    coordinates : int, default=1
        Number of coordinates with independent noise that change together.
    atom : float, default=0.0
        Probability that a coordinate gets no noise.
    neighbours : {"replace", "add-remove"}, default="replace"
        How neighbouring datasets differ in a record: see :class:`Guarantee`.
    labels : {"counted", "not covered", "not stated"}, default="not stated"
        Whether ``epsilon`` and ``delta`` count the labels that were released with the rows. Events of
        version 0.1 do not say.
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
    unit: str
    epsilon: float
    delta: float = 0.0
    mechanism: str = ""
    count: int = 1
    family: str | None = None
    noise_multiplier: float | None = None
    coordinates: int = 1
    atom: float = 0.0
    neighbours: str = "replace"
    labels: str = "not stated"
    conditions: tuple[str, ...] = ()
    constraints: ClassVar[dict[str, Entry]] = {
        "name": Instance(str, "a text"),
        "mechanism": Instance(str, "a text"),
        "unit": OneOf(UNITS),
        "neighbours": OneOf(RELATIONS),
        "labels": OneOf(LABELS),
        "epsilon": Number(at_least=0),
        "delta": DELTA_OR_ZERO,
        "atom": DELTA_OR_ZERO,
        "count": Whole(1),
        "coordinates": Whole(1),
        "family": (OneOf(("laplace", "gaussian")), None),
        "noise_multiplier": (POSITIVE, None),
    }

    def __post_init__(self) -> None:
        check_parameters(self)
        if isinstance(self.conditions, str) or not all(isinstance(words, str) for words in self.conditions):
            raise InvalidInputError("conditions must be a tuple of sentences")
        object.__setattr__(self, "conditions", tuple(self.conditions))
        refuse_added_entries(self.unit, self.neighbours)
        if (self.family is None) != (self.noise_multiplier is None):
            raise InvalidInputError("family and noise_multiplier must be given together, or neither of them")

    @classmethod
    def of(
        cls,
        mechanism: "Accountable",
        n_features: int,
        name: str = "release",
        unit: str = "record",
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
        check_parameter("unit", unit, cls.constraints["unit"])
        pair: Pair | None = getattr(guarantee, unit)
        if pair is None:
            raise InvalidInputError("unit='person' needs a noise with rows_per_person")
        epsilon, delta = pair
        parts = mechanism.accounting(unit, n_features)
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
            **parts,
        )

    def __str__(self) -> str:
        return printable(
            f"{self.count} x {self.name}{f' ({self.mechanism})' if self.mechanism else ''}: "
            f"epsilon {shown(self.epsilon)} per {self.unit}, delta {shown(self.delta, 3)}, "
            f"labels {self.labels}" + "".join(f", provided that {condition}" for condition in self.conditions)
        )


class Accountable(Protocol):
    """What an event asks of a noise."""

    def guarantee(self, n_features: int) -> Guarantee:
        """State what a release promises."""

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Return what an event can say beyond (epsilon, delta)."""


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


def _basic(events: Sequence[Event], delta: float | None = None) -> float:
    """Add up the epsilons of all releases; their deltas add up as well."""
    return math.fsum(event.epsilon * event.count for event in events)


def _left(delta: float, disclosed: Sequence[tuple[float, int]]) -> float:
    """Return what remains of the total ``delta``: 1 - (1 - delta) / product of (1 - delta_i)."""
    log_kept = math.fsum(count * math.log1p(-mass) for mass, count in disclosed)
    left = -math.expm1(math.log1p(-delta) - log_kept)
    if not left > 0:
        raise InvalidInputError("delta must be larger than what the releases have spent of it already")
    return left


def _advanced(events: Sequence[Event], delta: float) -> float:
    """Bound the total by Kairouz, Oh and Viswanath 2017, Theorem 3.5, for releases of different size."""
    left = _left(delta, [(event.delta, event.count) for event in events])
    drift = math.fsum(e.count * e.epsilon * math.tanh(e.epsilon / 2) for e in events)
    squares = math.fsum(e.count * e.epsilon**2 for e in events)
    return min(_basic(events), drift + math.sqrt(2 * math.log(1 / left) * squares))


def _disclosing(events: Sequence[Event]) -> list[tuple[float, int]]:
    """List the probabilities of full disclosure: atoms of known noise, delta of unknown mechanisms."""
    return [
        (event.delta, event.count) if event.family is None else (event.atom, event.count * event.coordinates)
        for event in events
    ]


def _rdp(events: Sequence[Event], delta: float) -> float:
    """Compose by Rényi differential privacy, with the accountant of dp-accounting."""
    left = _left(delta, _disclosing(events))
    library: Any = require("dp_accounting", EXTRA)
    accountant = require("dp_accounting.rdp", EXTRA).RdpAccountant(
        neighboring_relation=library.NeighboringRelation.REPLACE_ONE
    )
    for event in events:
        times = event.count * event.coordinates if event.family else event.count
        if event.family == "gaussian":
            accountant.compose(library.GaussianDpEvent(event.noise_multiplier), times)
        elif event.family == "laplace":
            accountant.compose(library.LaplaceDpEvent(event.noise_multiplier), times)
        elif event.epsilon > 0:  # the coin: a truthful answer is exp(epsilon) times as likely as the other
            noise = 2 / (1 + math.exp(min(event.epsilon, 700.0)))
            accountant.compose(library.RandomizedResponseDpEvent(noise, 2), times)
    return float(accountant.get_epsilon(left))


def _pld(events: Sequence[Event], delta: float) -> float:
    """Compose privacy-loss distributions of dp-accounting, rounded to the pessimistic side."""
    left = _left(delta, _disclosing(events))
    library: Any = require("dp_accounting.pld.privacy_loss_distribution", EXTRA)
    common: Any = require("dp_accounting.pld.common", EXTRA)
    # Coarser for large losses: the number of intervals stays bounded.
    largest = max(event.epsilon / (event.coordinates if event.family else 1) for event in events)
    interval = max(PLD_INTERVAL, largest * 1e-5)
    options = {"value_discretization_interval": interval}
    total = None
    for event in events:
        times = event.count * event.coordinates if event.family else event.count
        if event.family == "gaussian":
            one = library.from_gaussian_mechanism(event.noise_multiplier, **options)
        elif event.family == "laplace":
            one = library.from_laplace_mechanism(event.noise_multiplier, **options)
        else:
            parameters = common.DifferentialPrivacyParameters(event.epsilon, 0.0)
            one = library.from_privacy_parameters(parameters, **options)
        several = one.self_compose(times) if times > 1 else one
        total = several if total is None else total.compose(several)
    assert total is not None  # callers pass at least one event
    return float(total.get_epsilon_for_delta(left))


COMPOSITIONS: dict[str, Callable[..., float]] = {
    "basic": _basic,
    "advanced": _advanced,
    "rdp": _rdp,
    "pld": _pld,
}


def compose(events: Sequence[Event], how: str = "basic", delta: float | None = None) -> Pair:
    """Compute what several releases from the same data spend together.

    Parameters
    ----------
    events : sequence of Event
        The releases, all of one unit and one neighbouring relation.
    how : {"basic", "advanced", "rdp", "pld"}, default="basic"
        Composition to use.
    delta : float or None, default=None
        Total delta at which epsilon is stated; required by every composition but "basic", which adds up
        the deltas of the events.

    Returns
    -------
    epsilon : float
        Total privacy loss.
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
    """
    check_parameter("how", how, OneOf(COMPOSITIONS))
    if how == "basic" and delta is not None and events:
        raise InvalidInputError("basic composition adds up delta: leave it out")
    if delta is not None:
        delta = number("delta", delta, DELTA)
    if not events:
        return 0.0, delta or 0.0
    spent = _basic(events), min(1.0, math.fsum(event.delta * event.count for event in events))
    if how == "basic":
        return spent
    if delta is None:
        raise InvalidInputError(f"{how} composition needs delta")
    composed = COMPOSITIONS[how](events, delta)
    # Never worse than simply adding up, where that stays within the same delta.
    return min(composed, spent[0]) if spent[1] <= delta else composed, delta
