"""An audit of epsilon from a single run (Steinke, Nasr and Jagielski 2023).

Many canaries at once: for each, a coin decides which of two values goes into the data. One release, one guess
per coin, abstentions allowed. If the mechanism is private, right guesses cannot be much more frequent than
wrong ones, and because the coins are independent the guesses of one run count like as many trials.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Index
from onefold._base.validation import check_whole_number
from onefold.audit._neighbours import canary_numbers, dataset, release_of, unit_of
from onefold.audit._samples import Floats, check_delta, check_share, generator
from onefold.audit.epsilon import EpsilonAudit
from onefold.audit.intervals import epsilon_from_guesses
from onefold.exceptions import InvalidInputError

__all__ = ["audit_epsilon_one_run"]

DEFAULT_SHARE = 0.25  # of the canaries that are guessed when nothing is said


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
    x, x_prime : array of shape (n, p)
        The two values of every entry. With the unit "entry" each entry in which they differ is a canary, with
        "record" each row; a fair coin decides for each canary whether its value comes from ``x_prime``.
    delta : float
        The delta of the claim.
    confidence : float, default=0.95
        Probability that the bound holds.
    n_guesses : int, optional
        How many canaries are guessed, the clearest ones; the others are abstained from. Default a quarter.
        It must not be tuned on the run it is used for.
    scores : function, optional
        Turns the release into one number for each canary (in row order), positive for ``x_prime``. Default:
        the release at the canary minus the midpoint of its values, along their difference.
    unit : {"entry", "record"}, optional
        Default: the mechanism's own unit, or "entry".
    random_state : int, Generator or None
        Seeds the coins and the mechanism.

    Returns
    -------
    EpsilonAudit

    Notes
    -----
    One run is cheap, and pays for it: even a tight mechanism gets a bound well below its epsilon unless the
    canaries are many. With m canaries and r guesses nothing at all can be shown at a failure probability
    below about 4 m delta / r. The coins must not be visible to the mechanism other than in the data.
    """
    check_delta(delta)
    check_share("confidence", confidence)
    first, second = dataset("x", x), dataset("x_prime", x_prime)
    used_unit = unit_of(mechanism, unit)
    numbers, m = canary_numbers(mechanism, first, second, used_unit)
    r = max(1, round(DEFAULT_SHARE * m)) if n_guesses is None else n_guesses
    check_whole_number("n_guesses", r)
    if r > m:
        raise InvalidInputError(f"n_guesses must be at most the number of canaries, {m}")
    coins_rng, mechanism_rng = generator(random_state).spawn(2)
    coins = coins_rng.integers(2, size=m).astype(bool)
    data = np.where((numbers >= 0) & coins[numbers], second, first)
    output = release_of(mechanism)(data, mechanism_rng)
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
