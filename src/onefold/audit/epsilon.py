"""What an audit of epsilon found, and the audit by a distinguishing game between two neighbouring datasets.

A mechanism that is (epsilon, delta) private obeys P(E | x) <= e^epsilon P(E | x') + delta for every event E.
The audit picks one event on some releases, counts it on others, and inverts the inequality with exact
confidence limits.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.validation import check_whole_number
from onefold.audit._neighbours import check_neighbours, dataset, release_of, unit_of
from onefold.audit._samples import Floats, check_delta, check_share, generator
from onefold.audit._statistics import Look, Rule, choose_rule, discriminant, projection, spread
from onefold.audit._trials import Trials
from onefold.audit.intervals import epsilon_from_rates, lower_limit, upper_limit
from onefold.exceptions import InvalidInputError

__all__ = ["EpsilonAudit", "audit_epsilon"]

MOST_LEARNT_NUMBERS = 400  # a discriminant is learnt for outputs up to this size


@dataclass(frozen=True)
class EpsilonAudit:
    """An empirical lower bound on epsilon.

    Attributes
    ----------
    epsilon_lower : float
        The bound: any smaller claim for this unit is false, except with probability ``1 - confidence``.
    delta : float
        The delta of the claim that was put to the test.
    confidence : float
    unit : str
        What the two neighbours differ in: "entry", "record" or "unchecked".
    method : str
        "two datasets" or "one run".
    detectable : float
        What a mechanism that hides nothing would have got: the audit cannot show more than this.
    counts : dict
        The counts the bound follows from.
    statistic : str
        What was looked at in the releases.
    """

    epsilon_lower: float
    delta: float
    confidence: float
    unit: str
    method: str
    detectable: float
    counts: dict[str, int]
    statistic: str

    def contradicts(self, epsilon: float) -> bool:
        """Whether a claim of this epsilon is refuted."""
        if not epsilon >= 0:
            raise InvalidInputError("epsilon must be a number of at least 0")
        return self.epsilon_lower > epsilon

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**asdict(self), "text": str(self)}

    def __str__(self) -> str:
        counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self.counts.items())
        unit = (
            "two datasets as given, not checked to be neighbours" if self.unit == "unchecked" else self.unit
        )
        found = (
            f"epsilon is at least {self.epsilon_lower:.3f} (delta {self.delta:g}, unit: {unit}), confidence "
            f"{self.confidence:g}; {self.method}, looking at the {self.statistic} ({counts})."
        )
        shows = (
            "any smaller claim for this unit is false"
            if self.epsilon_lower > 0
            else "nothing against any claim"
        )
        does_not = "It does not show that a larger one is true: other data or a sharper eye may reveal more."
        limit = f"Nothing above {self.detectable:.3f} could have been shown with so few trials."
        return f"{found} This shows: {shows}. {does_not} {limit}"


def audit_epsilon(
    mechanism: Any,
    x: ArrayLike,
    x_prime: ArrayLike,
    delta: float,
    n_trials: int = 2000,
    confidence: float = 0.95,
    *,
    statistic: Callable[[Any], float] | None = None,
    unit: str | None = None,
    stacked: bool = False,
    n_jobs: int | None = 1,
    random_state: int | np.random.Generator | None = None,
) -> EpsilonAudit:
    """Bound epsilon from below by trying to tell releases of two neighbouring datasets apart.

    Parameters
    ----------
    mechanism : object or function
        A noise (its ``randomise`` is audited), a fabricator (its ``fabricate``), or a function
        ``release(X, random_state)``: a whole pipeline, too.
    x, x_prime : array
        The neighbours; the most telling pair you can think of, differing by the full sensitivity.
    delta : float
        The delta of the claim.
    n_trials : int, default=2000
        Releases of each dataset. Half of them choose what to look at, the other half are counted.
    confidence : float, default=0.95
        Probability that the bound holds.
    statistic : function, optional
        Turns a release into a number. Default: of the projection of the release onto ``x_prime - x``, its
        spread, and a linear discriminant learnt on a quarter of the releases, what does best on another
        quarter.
    unit : {"entry", "record", "unchecked"}, optional
        How the neighbours may differ: in one entry or in one row; checked, also against the ``sensitivity``
        of the mechanism if it has one. Default: the mechanism's own unit, or "entry".
    stacked : bool, default=False
        Make all releases in one call, ``x`` repeated below itself: fast, and right only for a mechanism that
        treats each row by itself. (A defect that ties rows together stays unseen.)
    n_jobs : int or None, default=1
        Threads.
    random_state : int, Generator or None
        Seeds everything; a Generator drawn from it is handed to the mechanism.

    Returns
    -------
    EpsilonAudit

    Examples
    --------
    >>> def careless(X, random_state):
    ...     return X + random_state.laplace(scale=0.5, size=X.shape)  # claims epsilon 1 for changes by 1
    >>> audit = audit_epsilon(careless, [[0.0]], [[1.0]], delta=0.0, random_state=0)
    >>> audit.contradicts(1.0)
    True
    """
    check_whole_number("n_trials", n_trials, at_least=8)
    check_delta(delta)
    failure = (1 - check_share("confidence", confidence)) / 2  # two limits, each wrong with half of the rest
    first, second = dataset("x", x), dataset("x_prime", x_prime)
    used_unit = unit_of(mechanism, unit)
    check_neighbours(mechanism, first, second, used_unit)
    trials = Trials(release_of(mechanism), n_trials, statistic, n_jobs, generator(random_state))
    draw = trials.stacked if stacked else trials.one_by_one
    outputs = [draw(data) for data in (first, second)]
    if outputs[0].shape[1] != outputs[1].shape[1]:
        raise InvalidInputError("releases must all have the same shape")
    half = n_trials // 2
    rule = _choose(
        outputs[0][:half], outputs[1][:half], second - first, statistic is not None, delta, failure
    )
    seen = [rule.hits(part[half:]) for part in outputs]  # the releases that chose nothing
    likely, unlikely = (seen[0], seen[1]) if rule.likely_in_first else (seen[1], seen[0])
    n = n_trials - half

    def bound(hits: int, false_hits: int) -> float:
        limits = lower_limit(hits, n, failure), upper_limit(false_hits, n, failure)
        return float(epsilon_from_rates(*limits, delta))

    return EpsilonAudit(
        epsilon_lower=bound(likely, unlikely),
        delta=float(delta),
        confidence=float(confidence),
        unit=used_unit,
        method="two datasets",
        detectable=bound(n, 0),
        counts={"hits": likely, "false_hits": unlikely, "counted_trials_each": n},
        statistic=rule.name,
    )


def _choose(first: Floats, second: Floats, change: Floats, given: bool, delta: float, failure: float) -> Rule:
    """The event to count, from these releases only."""
    if given:
        return choose_rule(
            [("given statistic", lambda outputs: outputs[:, 0])], first, second, delta, failure
        )
    quarter = len(first) // 2
    looks: list[tuple[str, Look]] = [("spread of the release", spread)]
    if first.shape[1] == change.size and change.any():
        looks.append(("projection on the change", projection(change)))
    if first.shape[1] <= MOST_LEARNT_NUMBERS or len(looks) == 1:
        looks.append(("learnt linear discriminant", discriminant(first[:quarter], second[:quarter])))
    return choose_rule(looks, first[quarter:], second[quarter:], delta, failure)
