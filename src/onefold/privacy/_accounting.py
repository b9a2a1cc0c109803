"""Composition of releases: pure functions from events to an epsilon.

A release that is (epsilon, delta) private is no worse than: with probability delta everything is told,
otherwise a coin that is epsilon private (Kairouz, Oh and Viswanath 2017). The first parts of all releases
are joined exactly, and only what is left of the total delta is spent on composing the second parts.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from onefold._base.optional import require
from onefold.exceptions import InvalidInputError

__all__ = ["COMPOSITIONS", "advanced", "basic", "pld", "rdp"]

EXTRA = "accounting"
PLD_INTERVAL = 1e-4


class Spent(Protocol):
    """What composition needs to know of an event."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def count(self) -> int: ...
    @property
    def family(self) -> str | None: ...
    @property
    def noise_multiplier(self) -> float | None: ...
    @property
    def coordinates(self) -> int: ...
    @property
    def atom(self) -> float: ...


def basic(events: Sequence[Spent], delta: float | None = None) -> float:
    """Sum of all epsilons; the deltas add up as well."""
    return math.fsum(event.epsilon * event.count for event in events)


def _left(delta: float, told: Sequence[tuple[float, int]]) -> float:
    """What remains of the total ``delta``: 1 - (1 - delta) / product of (1 - delta_i)."""
    log_untold = math.fsum(count * math.log1p(-mass) for mass, count in told)
    left = -math.expm1(math.log1p(-delta) - log_untold)
    if not left > 0:
        raise InvalidInputError("delta must be larger than what the releases have spent of it already")
    return left


def advanced(events: Sequence[Spent], delta: float) -> float:
    """Kairouz, Oh and Viswanath 2017, Theorem 3.5, for releases of different size."""
    left = _left(delta, [(event.delta, event.count) for event in events])
    drift = math.fsum(e.count * e.epsilon * math.tanh(e.epsilon / 2) for e in events)
    squares = math.fsum(e.count * e.epsilon**2 for e in events)
    return min(basic(events), drift + math.sqrt(2 * math.log(1 / left) * squares))


def _told(events: Sequence[Spent]) -> list[tuple[float, int]]:
    """Probabilities of telling everything: the atoms of known noise, the delta of unknown mechanisms."""
    return [
        (event.delta, event.count) if event.family is None else (event.atom, event.count * event.coordinates)
        for event in events
    ]


def rdp(events: Sequence[Spent], delta: float) -> float:
    """Renyi differential privacy, by the accountant of dp-accounting."""
    left = _left(delta, _told(events))
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


def pld(events: Sequence[Spent], delta: float) -> float:
    """Privacy-loss distributions of dp-accounting, rounded to the pessimistic side."""
    left = _left(delta, _told(events))
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
    "basic": basic,
    "advanced": advanced,
    "rdp": rdp,
    "pld": pld,
}
