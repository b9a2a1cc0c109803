"""Audits of a claimed epsilon: lower bounds from releases, with exact confidence limits.

A mechanism that is (epsilon, delta) private obeys P(E | x) <= e^epsilon P(E | x') + delta for every event E.

*Two datasets*: release two neighbouring datasets again and again, pick one event on some of the releases,
count it on the others, and invert the inequality.

*One run* (Steinke, Nasr and Jagielski 2023): many canaries at once. For each, a coin decides which of two
values goes into the data. One release, one guess per coin, abstentions allowed. If the mechanism is private,
right guesses cannot be much more frequent than wrong ones, and because the coins are independent the guesses
of one run count like as many trials.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Index
from onefold._base.parallel import run_parallel
from onefold._base.validation import Whole, check_parameter
from onefold.audit.intervals import (
    CONFIDENCE,
    DELTA,
    epsilon_from_counts,
    epsilon_from_guesses,
    epsilon_from_rates,
    lower_limit,
    upper_limit,
)
from onefold.exceptions import InvalidInputError
from onefold.privacy.samplers import generator
from onefold.privacy.terms import number_array

__all__ = ["EpsilonAudit", "audit_epsilon", "audit_epsilon_one_run"]

NEIGHBOUR_UNITS = ("entry", "record", "unchecked")
MOST_LEARNT_NUMBERS = 400  # a discriminant is learnt for outputs up to this size
DEFAULT_SHARE = 0.25  # of the canaries are guessed when n_guesses is not given
BLOCKS = 16  # pieces of work with a generator each: the number of threads changes nothing


@dataclass(frozen=True)
class EpsilonAudit:
    """An empirical lower bound on epsilon; made by the audits.

    Parameters
    ----------
    epsilon_lower : float
        The bound: any smaller claim for this unit is false, except with probability ``1 - confidence``.
    delta : float
        The delta of the claim that was put to the test.
    confidence : float
        Probability that the bound holds.
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

    See Also
    --------
    audit_epsilon : Audit with two neighbouring datasets.
    audit_epsilon_one_run : Audit with canaries in one run.

    Examples
    --------
    >>> def careless(X, random_state):
    ...     return X + random_state.laplace(scale=0.5, size=X.shape)
    >>> audit = audit_epsilon(careless, [[0.0]], [[1.0]], delta=0.0, random_state=0)
    >>> audit.contradicts(1.0), audit.contradicts(10.0)
    (True, False)
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
        """Tell whether the audit refutes a claim.

        Parameters
        ----------
        epsilon : float
            The claim.

        Returns
        -------
        bool
            True if the bound is above the claim.
        """
        if not epsilon >= 0:
            raise InvalidInputError("epsilon must be a number of at least 0")
        return self.epsilon_lower > epsilon

    def __str__(self) -> str:
        counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self.counts.items())
        given = "two datasets as given, not checked to be neighbours"
        unit = given if self.unit == "unchecked" else self.unit
        least = math.floor(1e3 * self.epsilon_lower) / 1e3  # no more than was shown
        found = (
            f"epsilon is at least {least:.3f} (delta {self.delta:g}, unit: {unit}), confidence "
            f"{self.confidence:g}; {self.method}, looking at the {self.statistic} ({counts})."
        )
        smaller = "any smaller claim for this unit is false"
        shows = smaller if self.epsilon_lower > 0 else "nothing against any claim"
        does_not = "It does not show that a larger one is true: other data or a sharper eye may reveal more."
        limit = f"Nothing above {self.detectable:.3f} could have been shown with so few trials."
        return f"{found} This shows: {shows}. {does_not} {limit}"


# --- two datasets -----------------------------------------------------------------------------------------


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
    x : array-like
        One dataset.
    x_prime : array-like
        A neighbour of it: the most telling pair you can think of, differing by the full sensitivity.
    delta : float
        The delta of the claim.
    n_trials : int, default=2000
        Releases of each dataset. Half of them choose what to look at, the other half are counted.
    confidence : float, default=0.95
        Probability that the bound holds.
    statistic : callable, default=None
        Turns a release into a number. None takes of three statistics the one that does best on a quarter of
        the releases: the projection onto ``x_prime - x``, the spread, and a linear discriminant learnt on
        another quarter.
    unit : {"entry", "record", "unchecked"}, default=None
        How the neighbours may differ: in one entry or in one row; checked, also against the ``sensitivity``
        of the mechanism if it has one. None takes the mechanism's own unit, or "entry".
    stacked : bool, default=False
        Make all releases in one call, ``x`` repeated below itself: fast, and right only for a mechanism that
        treats each row by itself. A defect that ties rows together stays unseen.
    n_jobs : int or None, default=1
        Threads.
    random_state : int, Generator or None, default=None
        None releases as a user does: a mechanism takes its noise from the entropy of the system (a function
        gets a fresh Generator). A seed makes the audit repeatable; then a Generator drawn from it is handed
        to the mechanism, and what the mechanism does without one is not audited.

    Returns
    -------
    EpsilonAudit
        The bound, and what it does not show.

    See Also
    --------
    audit_epsilon_one_run : A cheaper and weaker audit from a single release.

    Examples
    --------
    >>> def careless(X, random_state):
    ...     return X + random_state.laplace(scale=0.5, size=X.shape)  # claims epsilon 1 for changes by 1
    >>> audit = audit_epsilon(careless, [[0.0]], [[1.0]], delta=0.0, random_state=0)
    >>> audit.contradicts(1.0)
    True
    """
    check_parameter("n_trials", n_trials, Whole(8))
    check_parameter("delta", delta, DELTA)
    check_parameter("confidence", confidence, CONFIDENCE)
    failure = (1 - confidence) / 2  # two limits, each wrong with half of the rest
    first, second = dataset("x", x), dataset("x_prime", x_prime)
    used_unit = unit_of(mechanism, unit)
    check_neighbours(mechanism, first, second, used_unit)
    rng, release = generator(random_state), release_of(mechanism, as_users_do=random_state is None)
    if stacked:
        outputs = [_stacked(release, data, n_trials, statistic, rng) for data in (first, second)]
    else:
        outputs = [_one_by_one(release, data, n_trials, statistic, rng, n_jobs) for data in (first, second)]
    if outputs[0].shape[1] != outputs[1].shape[1]:
        raise InvalidInputError("releases must all have the same shape")
    half = n_trials // 2
    event = _choose(
        outputs[0][:half], outputs[1][:half], second - first, statistic is not None, delta, failure
    )
    likely, unlikely = event.counted(*(part[half:] for part in outputs))  # the releases that chose nothing
    n = n_trials - half
    return EpsilonAudit(
        epsilon_lower=float(epsilon_from_counts(likely, unlikely, n, delta, failure)),
        delta=float(delta),
        confidence=float(confidence),
        unit=used_unit,
        method="two datasets",
        detectable=float(epsilon_from_counts(n, 0, n, delta, failure)),
        counts={"hits": likely, "false_hits": unlikely, "counted_trials_each": n},
        statistic=event.name,
    )


# --- events that tell releases of two datasets apart --------------------------------------------------------


# What is read off each release.
Look = Callable[[Floats], Floats]
MOST_CUTS = 600
RIDGE = 1e-6  # relative; small, because noise that cancels in one direction is what we hope to find


@dataclass(frozen=True)
class ReleaseEvent:
    """A number read off a release lies at or above a threshold, or below it, and where that is likelier."""

    name: str
    look: Look
    threshold: float
    above: bool
    likely_in_first: bool

    def counted(self, first: Floats, second: Floats) -> tuple[int, int]:
        """Count the releases in which the event happens: where it is likelier, and of the other dataset.

        They must not be those that chose the event.
        """
        beyond = [int(np.count_nonzero(self.look(part) >= self.threshold)) for part in (first, second)]
        seen = beyond if self.above else [len(first) - beyond[0], len(second) - beyond[1]]
        return (seen[0], seen[1]) if self.likely_in_first else (seen[1], seen[0])


def projection(change: Floats) -> Look:
    """Read the releases along the difference of the two datasets."""
    direction = change.ravel() / np.abs(change).max()
    direction /= np.linalg.norm(direction)
    return lambda outputs: np.asarray(outputs @ direction)


def discriminant(first: Floats, second: Floats) -> Look:
    """Learn Fisher's linear discriminant of two sets of releases."""
    both = np.concatenate([first, second])
    centre, scale = both.mean(axis=0), both.std(axis=0)
    scale[scale == 0] = 1.0

    def standardised(outputs: Floats) -> Floats:
        return np.asarray((outputs - centre) / scale)

    a, b = standardised(first), standardised(second)
    shift = b.mean(axis=0) - a.mean(axis=0)
    residual = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
    # (R^T R / n + ridge)^-1 shift, in whichever of the two shapes is smaller.
    n, d = residual.shape
    if d <= n:
        weights = np.linalg.solve(residual.T @ residual / n + RIDGE * np.eye(d), shift)
    else:
        inner = np.linalg.solve(residual @ residual.T / n + RIDGE * np.eye(n), residual @ shift / n)
        weights = (shift - residual.T @ inner) / RIDGE
    return lambda outputs: np.asarray(standardised(outputs) @ weights)


def spread(outputs: Floats) -> Floats:
    """Take the logarithm of the summed squares of each release about its mean.

    Too much or too little smoothing changes it, which no linear statistic sees.
    """
    centred = outputs - outputs.mean(axis=1, keepdims=True)
    return np.asarray(np.log(np.maximum((centred**2).sum(axis=1), np.finfo(np.float64).tiny)))


def choose_event(
    looks: Sequence[tuple[str, Look]],
    first: Floats,
    second: Floats,
    delta: float,
    failure: float,
    n_trials: int | None = None,
) -> ReleaseEvent:
    """Choose the statistic, threshold and direction that promise the largest bound.

    The promise is for as many trials as there are releases here, or for ``n_trials``.
    """
    n = len(first) if n_trials is None else n_trials
    found = (pair for look in looks for pair in _best_cuts(*look, first, second, delta, failure, n))
    return max(found, key=itemgetter(0))[1]


def _best_cuts(
    name: str, look: Look, first: Floats, second: Floats, delta: float, failure: float, n: int
) -> Iterator[tuple[float, ReleaseEvent]]:
    """Yield the best threshold of each direction, and what it is worth."""
    a, b = np.sort(look(first)), np.sort(look(second))
    cuts = _cuts(np.unique(np.concatenate([a, b])))
    above = [n * (1 - np.searchsorted(values, cuts, side="left") / len(values)) for values in (a, b)]
    for up in (True, False):
        counts = above if up else [n - count for count in above]
        for in_first in (True, False):
            hits, false_hits = counts if in_first else counts[::-1]
            likely, unlikely = lower_limit(hits, n, failure), upper_limit(false_hits, n, failure)
            bounds = epsilon_from_rates(likely, unlikely, delta)
            # Where no cut shows anything, the one that separates best is still the one to try.
            worth = bounds + 1e-6 * (likely - unlikely)
            k = int(np.argmax(worth))
            yield float(worth[k]), ReleaseEvent(name, look, float(cuts[k]), up, in_first)


def _cuts(values: Floats) -> Floats:
    """Return thresholds between neighbouring values; of very many a choice that is dense at both ends."""
    if len(values) == 1:
        return values
    cuts = values[:-1] + (values[1:] - values[:-1]) / 2
    if len(cuts) <= MOST_CUTS:
        return cuts
    tail = np.geomspace(1, len(cuts) // 2, MOST_CUTS // 4).astype(np.intp) - 1
    even = np.linspace(0, len(cuts) - 1, MOST_CUTS // 2).astype(np.intp)
    return np.asarray(cuts[np.unique(np.concatenate([tail, len(cuts) - 1 - tail, even]))])


def _choose(
    first: Floats, second: Floats, change: Floats, given: bool, delta: float, failure: float
) -> ReleaseEvent:
    """Choose the event to count, from these releases only."""
    looks: list[tuple[str, Look]] = [("given statistic", lambda outputs: outputs[:, 0])]
    if given:
        return choose_event(looks, first, second, delta, failure)
    quarter, looks = len(first) // 2, [("spread of the release", spread)]
    if first.shape[1] == change.size and change.any():
        looks.append(("projection on the change", projection(change)))
    if first.shape[1] <= MOST_LEARNT_NUMBERS or len(looks) == 1:
        looks.append(("learnt linear discriminant", discriminant(first[:quarter], second[:quarter])))
    return choose_event(looks, first[quarter:], second[quarter:], delta, failure)


# --- one run ----------------------------------------------------------------------------------------------


def audit_epsilon_one_run(
    mechanism: Any,
    x: ArrayLike,
    x_prime: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    *,
    n_guesses: int | None = None,
    scores: Callable[[Any], ArrayLike] | None = None,
    unit: str | None = None,
    random_state: int | np.random.Generator | None = None,
) -> EpsilonAudit:
    """Bound epsilon from below by guessing many independent coins from one release.

    Parameters
    ----------
    mechanism : object or function
        A noise, a fabricator, or a function ``release(X, random_state)``, as in :func:`audit_epsilon`.
    x : array-like of shape (n_samples, n_features)
        The first value of every entry.
    x_prime : array-like of shape (n_samples, n_features)
        The second value of every entry. With the unit "entry" each entry in which the two differ is a canary,
        with "record" each row; a fair coin decides for each canary whether its value comes from ``x_prime``.
    delta : float
        The delta of the claim.
    confidence : float, default=0.95
        Probability that the bound holds.
    n_guesses : int, default=None
        How many canaries are guessed, the clearest ones; None guesses a quarter. It must not be tuned on the
        run it is used for.
    scores : callable, default=None
        Turns the release into one number for each canary (in row order), positive for ``x_prime``. None takes
        the release at the canary minus the midpoint of its values, along their difference.
    unit : {"entry", "record"}, default=None
        What a canary is. None takes the mechanism's own unit, or "entry".
    random_state : int, Generator or None, default=None
        Seeds the coins and the mechanism. None lets a mechanism take its noise from the entropy of the
        system, as a user does.

    Returns
    -------
    EpsilonAudit
        The bound, and what it does not show.

    See Also
    --------
    audit_epsilon : A sharper audit from many releases of two datasets.

    Notes
    -----
    One run is cheap and weak: even a tight mechanism gets a bound well below its epsilon unless the canaries
    are many. With m canaries and r guesses nothing at all can be shown at a failure probability below about
    4 m delta / r. The coins must not be visible to the mechanism other than in the data.

    References
    ----------
    T. Steinke, M. Nasr and M. Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> def careless(X, random_state):
    ...     return X + random_state.laplace(scale=0.1, size=X.shape)  # claims epsilon 1 for changes by 1
    >>> low, high = np.zeros((100, 5)), np.ones((100, 5))
    >>> audit_epsilon_one_run(careless, low, high, delta=0.0, random_state=0).contradicts(1.0)
    True
    """
    check_parameter("delta", delta, DELTA)
    check_parameter("confidence", confidence, CONFIDENCE)
    first, second = dataset("x", x), dataset("x_prime", x_prime)
    used_unit = unit_of(mechanism, unit)
    numbers, m = canary_numbers(mechanism, first, second, used_unit)
    r = max(1, round(DEFAULT_SHARE * m)) if n_guesses is None else n_guesses
    check_parameter("n_guesses", r, Whole(1, at_most=m))  # m canaries
    coins_rng, mechanism_rng = generator(random_state).spawn(2)
    coins = coins_rng.integers(2, size=m).astype(bool)
    data = np.where((numbers >= 0) & coins[numbers], second, first)
    output = release_of(mechanism, as_users_do=random_state is None)(data, mechanism_rng)
    values = _own_scores(output, first, second, numbers) if scores is None else scores(output)
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (m,) or np.isnan(values).any():
        raise InvalidInputError(f"scores must be one number for each of the {m} canaries")
    clearest = np.argsort(-np.abs(values), kind="stable")[:r]
    correct = int(np.count_nonzero((values[clearest] > 0) == coins[clearest]))
    return EpsilonAudit(
        epsilon_lower=epsilon_from_guesses(m, r, correct, delta, confidence),
        delta=float(delta),
        confidence=float(confidence),
        unit=used_unit,
        method="one run",
        detectable=epsilon_from_guesses(m, r, r, delta, confidence),
        counts={"canaries": m, "guesses": r, "right_guesses": correct},
        statistic="release at each canary" if scores is None else "given scores",
    )


def _own_scores(output: Any, first: Floats, second: Floats, numbers: Index) -> Floats:
    released = np.asarray(output, dtype=np.float64)
    if released.shape != first.shape:
        raise InvalidInputError("the release has another shape than the data: give scores")
    along = (released - (first + second) / 2) * (second - first)
    inside = numbers >= 0
    return np.bincount(numbers[inside], along[inside]).astype(np.float64)


# --- datasets that an audit compares ----------------------------------------------------------------------


def dataset(name: str, values: ArrayLike) -> Floats:
    """Copy finite numbers of any shape."""
    return number_array(
        values, f"{name} must hold finite numbers", lambda data: data.size and np.isfinite(data)
    )


def release_of(mechanism: Any, *, as_users_do: bool = False) -> Callable[[Any, Any], Any]:
    """Return the function ``release(X, random_state)`` to be audited.

    A mechanism is handed no generator ``as_users_do``: the entropy of the system is audited too.
    """
    # A fabricator can do both: what it publishes is the first.
    method = getattr(mechanism, "fabricate", None) or getattr(mechanism, "randomise", None)
    if callable(method):
        return lambda data, rng: method(data, random_state=None if as_users_do else rng)
    if not callable(mechanism):
        raise InvalidInputError(
            "mechanism must have fabricate or randomise, or be a function release(X, random_state)"
        )
    function: Callable[[Any, Any], Any] = mechanism
    return function


def unit_of(mechanism: Any, unit: str | None) -> str:
    """Return the unit asked for, else the mechanism's own, else one entry."""
    chosen = unit or getattr(_noise_of(mechanism), "unit", None) or "entry"
    if chosen not in NEIGHBOUR_UNITS:
        raise InvalidInputError(f"unit must be one of {', '.join(NEIGHBOUR_UNITS)}")
    return str(chosen)


def _noise_of(mechanism: Any) -> Any:
    """Return what declares unit and sensitivity: the mechanism, or the one inside a fabricator."""
    return getattr(mechanism, "mechanism", mechanism)


def check_neighbours(mechanism: Any, first: Floats, second: Floats, unit: str) -> None:
    """Refuse two datasets that the claim says nothing about."""
    if first.shape != second.shape:
        raise InvalidInputError("x and x_prime must have the same shape")
    if unit == "unchecked":
        return
    change = second - first
    rows = change.reshape(len(change) if change.ndim else 1, -1)
    if np.count_nonzero(rows.any(axis=1)) != 1:
        raise InvalidInputError("x and x_prime must differ in exactly one row; unit='unchecked' lifts this")
    if unit == "entry" and np.count_nonzero(change) != 1:
        raise InvalidInputError("x and x_prime must differ in exactly one entry; unit='record' allows a row")
    _check_size(mechanism, change, unit)


def canary_numbers(mechanism: Any, first: Floats, second: Floats, unit: str) -> tuple[Index, int]:
    """Number the canary of each entry (-1: none), and count the canaries."""
    if first.shape != second.shape or first.ndim != 2:
        raise InvalidInputError("x and x_prime must be 2-D and of the same shape")
    if unit == "unchecked":
        raise InvalidInputError("unit must be entry or record here")
    change = second - first
    if not change.any():
        raise InvalidInputError("x and x_prime are equal: there is no canary")
    _check_size(mechanism, change, unit)
    changed = change != 0
    if unit == "record":
        changed = np.broadcast_to(changed.any(axis=1, keepdims=True), change.shape)
        numbers = np.cumsum(changed[:, 0])[:, None] - 1
    else:
        numbers = np.cumsum(changed).reshape(change.shape) - 1
    return np.where(changed, numbers, -1), int(numbers.max()) + 1


def _check_size(mechanism: Any, change: Floats, unit: str) -> None:
    # How a record's sensitivity is measured (L1 or L2) is the mechanism's affair: only entries are compared.
    allowed: Any = getattr(_noise_of(mechanism), "sensitivity", None)
    known = unit == "entry" and isinstance(allowed, (int, float))
    if known and np.abs(change).max() > allowed * (1 + 1e-9):
        raise InvalidInputError("x and x_prime differ by more than the sensitivity of the mechanism")


# --- releases ---------------------------------------------------------------------------------------------


Release = Callable[[Any, Any], Any]
Statistic = Callable[[Any], float] | None


def _one_by_one(
    release: Release,
    data: Floats,
    n_trials: int,
    statistic: Statistic,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Floats:
    """Make one call per release: each a row of numbers, or one number if there is a ``statistic``."""

    def block(job: tuple[Index, np.random.Generator]) -> list[Floats]:
        # A copy each time: a mechanism that writes into its input must not spoil the next trial.
        return [_numbers(release(data.copy(), job[1]), statistic) for _ in job[0]]

    jobs = list(zip(np.array_split(np.arange(n_trials), BLOCKS), rng.spawn(BLOCKS), strict=True))
    rows = [row for part in run_parallel(block, jobs, n_jobs, "auditing", None) for row in part]
    if len({row.size for row in rows}) != 1:
        raise InvalidInputError("releases must all have the same shape; give a statistic otherwise")
    return np.stack(rows)


def _stacked(
    release: Release, data: Floats, n_trials: int, statistic: Statistic, rng: np.random.Generator
) -> Floats:
    """Make one call for all releases, the data repeated below themselves."""
    if data.ndim == 0:
        raise InvalidInputError("a stacked audit needs rows")
    released = np.asarray(release(np.concatenate([data] * n_trials), rng.spawn(1)[0]), dtype=np.float64)
    if len(released) != n_trials * len(data):
        raise InvalidInputError("a stacked audit needs a mechanism that returns one row for each row")
    if statistic is None:
        return _numbers(released, None).reshape(n_trials, -1)
    return np.stack([_numbers(part, statistic) for part in np.split(released, n_trials)])


def _numbers(output: Any, statistic: Statistic) -> Floats:
    try:
        row = np.asarray(output if statistic is None else statistic(output), dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidInputError("a release must be an array of numbers; give a statistic otherwise") from None
    if statistic is not None and row.size != 1:
        raise InvalidInputError("statistic must return one number")
    if not np.isfinite(row).all():
        raise InvalidInputError("a release or its statistic is not finite")
    return row
