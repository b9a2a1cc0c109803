"""A battery of attacks: many releases of two neighbouring datasets, looked at in every way we know.

An :class:`AttackTarget` says what is released, for which claim, and, computed apart from the code under
attack, what the released numbers would be without noise and how much noise the claim needs. :func:`attack`
then makes the releases as a user would (no seed, no generator: the entropy of the system) and looks at

* **likelihood ratio**: the exact one of the noise, learnt linear and quadratic ones, and the spread. The
  statistic and its threshold are chosen on one half of the releases, the bound on epsilon is counted on the
  other (Clopper and Pearson).
* **noise**: every released number has the mean and the spread that the claim needs, no less and no more.
* **independence**: no noise is used twice, by releases, rows, columns, classes, calls or forked processes.
* **low bits**: two values that lie close together are not told apart by the last digits of a release.
* **schema**: names, types, widths and lengths are the same for both neighbours.
* **raw rows**: with the same noisy numbers, other raw rows give the same artefact.
"""

import hashlib
import math
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from onefold._base.arrays import Floats
from onefold._base.validation import Whole, check_parameter
from onefold.audit.epsilon import (
    MOST_LEARNT_NUMBERS,
    Look,
    ReleaseEvent,
    choose_event,
    discriminant,
    spread,
)
from onefold.audit.intervals import CONFIDENCE, epsilon_from_counts
from onefold.exceptions import OnefoldError
from onefold.privacy.terms import shown

__all__ = ["AttackFinding", "AttackTarget", "attack", "lower_bound"]

SURPRISING = 6.0  # standard errors: a deviation that an honest release shows once in half a billion looks
ROUNDING = 1e-4  # relative: grids make the noise larger by parts in a million
CLOSE_SHARE = 0.01  # of the claim that values 1/255 of the domain apart may show
EXACT = "exact ratio of the noise"
REHEARSALS = 4  # simulated releases for each real one
LAGS = (1, 2, 3)
FEW = 64  # releases of a call that is repeated
CHILD_SECONDS = 60.0


@dataclass(frozen=True)
class AttackTarget:
    """What is attacked: two neighbouring datasets, how they are released, and what is claimed.

    Parameters
    ----------
    name : str
        What makes the release.
    unit : str
        What the two datasets differ in: "entry", "record", "person" or "label".
    epsilon : float
        The claim.
    delta : float
        Its delta.
    draw : callable
        ``draw(side, n)`` makes n independent releases of dataset 0 or 1, of shape (n, d).
    means : callable or None, default=None
        ``means(releases, side)`` returns what the numbers would be without noise, from plain arithmetic.
    levels : ndarray of shape (d,) or None, default=None
        Standard deviation of the noise that the claim needs on each number.
    family : {"gaussian", "laplace", ""}, default=""
        The noise, for the exact likelihood ratio; empty if it is another one.
    close : callable or None, default=None
        ``close(side, n)`` makes n releases of one number out of two that lie close together.
    reachable : callable or None, default=None
        ``reachable(numbers, side)`` tells which numbers a float sampler could have made of that value.
    schema : callable or None, default=None
        ``schema(side)`` makes one release and describes everything of it but its noisy numbers.
    replay : callable or None, default=None
        ``replay()`` makes artefacts of different raw rows and the same noisy ones, and returns all of them.

    See Also
    --------
    attack : Attacks it.

    Examples
    --------
    >>> import numpy as np
    >>> draw = lambda side, n: side + np.random.default_rng().laplace(size=(n, 1))
    >>> AttackTarget("a sum", "entry", 1.0, 0.0, draw).unit
    'entry'
    """

    name: str
    unit: str
    epsilon: float
    delta: float
    draw: Callable[[int, int], Floats]
    means: Callable[[Floats, int], Floats] | None = None
    levels: Floats | None = None
    family: str = ""
    close: Callable[[int, int], Floats] | None = None
    reachable: Callable[[Floats, int], Floats] | None = None
    schema: Callable[[int], Any] | None = None
    replay: Callable[[], Sequence[Any]] | None = None


@dataclass(frozen=True)
class AttackFinding:
    """What one look at a target found.

    Parameters
    ----------
    target : str
        What was attacked.
    unit : str
        What the two datasets differed in.
    check : str
        What was looked at.
    epsilon : float
        The claim.
    delta : float
        Its delta.
    bound : float or None
        Lower bound on epsilon that was found; None where the look is not about a bound.
    passed : bool
        Whether nothing contradicts the claim.
    words : str
        What was seen.

    See Also
    --------
    attack : Makes findings.

    Examples
    --------
    >>> AttackFinding("a sum", "entry", "schema", 1.0, 0.0, None, True, "the same for both").passed
    True
    """

    target: str
    unit: str
    check: str
    epsilon: float
    delta: float
    bound: float | None
    passed: bool
    words: str

    def __str__(self) -> str:
        bound = "" if self.bound is None else f"at least {self.bound:.3f}"
        verdict = "ok" if self.passed else "FAILED"
        return (
            f"{self.target:<26} {self.unit:<7} {self.check:<17} claimed {shown(self.epsilon):<7} {bound:<15} "
            f"{verdict:<7} {self.words}"
        ).rstrip()


def attack(
    target: AttackTarget, n_releases: int = 2000, confidence: float = 0.99, looks: Sequence[str] | None = None
) -> list[AttackFinding]:
    """Attack a target in every way that it allows.

    Parameters
    ----------
    target : AttackTarget
        What is attacked.
    n_releases : int, default=2000
        Releases of each of the two datasets.
    confidence : float, default=0.99
        Probability that a lower bound on epsilon holds.
    looks : sequence of str or None, default=None
        Names of the looks to take, such as "likelihood ratio"; None takes all.

    Returns
    -------
    list of AttackFinding
        One for each look.

    See Also
    --------
    audit_epsilon : Attack any function, with two datasets of your own.

    Notes
    -----
    Nothing here can be seeded: the releases come from the entropy of the system, as those of a user do.
    A lower bound convicts, it never acquits: another pair of datasets or a sharper eye may show more. No
    look sees choices made before the data came here (a scaler, bounds read off the data), other releases of
    the same records, how long a release takes, logs, memory, errors that depend on the data, or whether the
    entropy of the system is secret and this is the code that released.

    Examples
    --------
    >>> import numpy as np
    >>> draw = lambda side, n: side + np.random.default_rng().laplace(scale=0.2, size=(n, 1))
    >>> [finding.passed for finding in attack(AttackTarget("a sum", "entry", 1.0, 0.0, draw))]
    [False, True]
    """
    check_parameter("n_releases", n_releases, Whole(64))
    check_parameter("confidence", confidence, CONFIDENCE)
    releases = [np.asarray(target.draw(side, n_releases), dtype=np.float64) for side in (0, 1)]
    if releases[0].shape[1] != releases[1].shape[1]:
        return [_finding(target, "schema", False, "the neighbours have releases of different size")]
    taken = [look for name, look in LOOKS.items() if looks is None or name in looks]
    found = (look(target, releases, confidence) for look in taken)
    return [finding for finding in found if finding is not None]


def _finding(
    target: AttackTarget, check: str, passed: bool, words: str, bound: float | None = None
) -> AttackFinding:
    return AttackFinding(
        target.name, target.unit, check, target.epsilon, target.delta, bound, bool(passed), words
    )


# --- likelihood ratios -------------------------------------------------------------------------------------


def lower_bound(
    first: Floats,
    second: Floats,
    looks: Callable[[Floats, Floats], Sequence[tuple[str, Look]]],
    delta: float,
    confidence: float,
) -> tuple[float, str]:
    """Bound epsilon from below; each release serves learning, or choosing, or counting, and nothing else.

    Parameters
    ----------
    first : ndarray of shape (n, d)
        Releases of one dataset.
    second : ndarray of shape (n, d)
        Releases of the other.
    looks : callable
        ``looks(first, second)`` learns, from a quarter of the releases, what may be looked at.
    delta : float
        The delta of the claim.
    confidence : float
        Probability that the bound holds.

    Returns
    -------
    bound : float
        The bound, at least 0.
    name : str
        What was looked at.
    """
    quarter, half = len(first) // 4, len(first) // 2
    failure = (1 - confidence) / 2  # two limits, each wrong with half of the rest
    learnt = looks(first[:quarter], second[:quarter])
    event = choose_event(learnt, first[quarter:half], second[quarter:half], delta, failure)
    counts = event.counted(first[half:], second[half:])
    return float(epsilon_from_counts(*counts, len(first) - half, delta, failure)), event.name


def _likelihood(target: AttackTarget, releases: list[Floats], confidence: float) -> AttackFinding:
    first, second = releases
    ratio = _exact_ratio(target)
    rehearsed = None if ratio is None else _rehearsed(target, ratio, len(first), confidence)
    if rehearsed is not None:
        confidence = (1 + confidence) / 2  # two bounds, each wrong with half of the rest

    def looks(some: Floats, others: Floats) -> list[tuple[str, Look]]:
        found: list[tuple[str, Look]] = [("spread", spread)]
        if ratio is not None and rehearsed is None:
            found.append((EXACT, ratio))
        if some.shape[1] <= MOST_LEARNT_NUMBERS:
            found.append(("learnt linear ratio", discriminant(some, others)))
            squares = discriminant(_with_squares(some), _with_squares(others))
            found.append(("learnt quadratic ratio", lambda outputs: squares(_with_squares(outputs))))
        return found

    bound, name = lower_bound(first, second, looks, target.delta, confidence)
    if rehearsed is not None:
        counts = rehearsed.counted(first, second)
        exact = epsilon_from_counts(*counts, len(first), target.delta, (1 - confidence) / 2)
        bound, name = max((bound, name), (float(exact), EXACT), key=lambda pair: pair[0])
    return _finding(target, "likelihood ratio", bound <= target.epsilon, name if bound else "", bound)


def _rehearsed(target: AttackTarget, ratio: Look, n: int, confidence: float) -> ReleaseEvent | None:
    """Choose the threshold on simulated releases, so that all real ones can be counted."""
    assert target.means is not None
    assert target.levels is not None
    size = (REHEARSALS * n, len(target.levels))
    means = [target.means(np.empty((0, size[1])), side) for side in (0, 1)]
    if means[0].ndim != 1:  # they depend on what was released before
        return None
    rng = np.random.default_rng()
    draw = rng.normal if target.family == "gaussian" else partial(rng.laplace, scale=math.sqrt(0.5))
    first, second = (mean + target.levels * draw(size=size) for mean in means)
    return choose_event([(EXACT, ratio)], first, second, target.delta, (1 - confidence) / 4, n)


def _with_squares(outputs: Floats) -> Floats:
    return np.hstack([outputs, outputs**2])


def _exact_ratio(target: AttackTarget) -> Look | None:
    """Sum of the logarithms of p(number | dataset 1) / p(number | dataset 0), where the noise is known."""
    means, levels = target.means, target.levels
    if means is None or levels is None or not target.family:
        return None

    def minus_log(outputs: Floats, side: int) -> Floats:
        z = (outputs - means(outputs, side)) / levels
        sizes = z * z / 2 if target.family == "gaussian" else math.sqrt(2) * np.abs(z)
        return np.asarray(sizes.sum(axis=1))

    # The ratio of Laplace noise is constant on both tails: rounding errors must not cut a tail in two.
    return lambda outputs: np.round(minus_log(outputs, 0) - minus_log(outputs, 1), 9)


# --- the noise on every number -----------------------------------------------------------------------------


def _scaled_noise(target: AttackTarget, releases: list[Floats]) -> Floats | None:
    """The noise of all releases, in units of what the claim needs; None where it is not known."""
    if target.means is None or target.levels is None:
        return None
    pairs = ((part - target.means(part, side)) / target.levels for side, part in enumerate(releases))
    return np.concatenate(list(pairs))


def _noise(target: AttackTarget, releases: list[Floats], confidence: float) -> AttackFinding | None:
    noise = _scaled_noise(target, releases)
    if noise is None:
        return None
    n = len(noise)
    spreads, means = (noise**2).mean(axis=0), noise.mean(axis=0)
    # The spread of a square needs the fourth moment; that of the sample will do.
    errors = (noise**2).std(axis=0) / math.sqrt(n)
    wrong = np.abs(spreads - 1) > SURPRISING * errors + ROUNDING
    shifted = np.abs(means) > SURPRISING * noise.std(axis=0) / math.sqrt(n) + ROUNDING
    ratios = np.sqrt(spreads)
    if wrong.any():
        worst = int(np.argmax(np.where(wrong, np.abs(np.log(np.maximum(ratios, 1e-9))), -1)))
        words = f"number {worst + 1} of {len(ratios)} has {ratios[worst]:.3f} of the noise the claim needs"
    elif shifted.any():
        words = f"number {int(np.argmax(shifted)) + 1} is not what the declared domain allows"
    else:
        words = f"{ratios.min():.3f} to {ratios.max():.3f} of what the claim needs, on {len(ratios)} numbers"
    return _finding(target, "noise", not (wrong | shifted).any(), words)


# --- independence ------------------------------------------------------------------------------------------


def _independence(target: AttackTarget, releases: list[Floats], confidence: float) -> AttackFinding:
    words = "; ".join(_dependences(target, releases))
    return _finding(
        target, "independence", not words, words or "calls, processes, releases and numbers differ"
    )


def _dependences(target: AttackTarget, releases: list[Floats]) -> Iterator[str]:
    def release() -> bytes:
        return hashlib.sha256(np.ascontiguousarray(target.draw(0, FEW), dtype=np.float64).tobytes()).digest()

    if release() == release():
        yield "two calls drew the same noise"
    # Two copies of this process release: a generator that a fork copies draws the same in both.
    if hasattr(os, "fork") and _in_a_fork(release) == _in_a_fork(release):
        yield "two forked processes drew the same noise"
    noise = _scaled_noise(target, releases)
    known = noise is not None
    # The mean of each side is taken away: what is wrong with it is another look's business.
    parts = releases if noise is None else np.split(noise, 2)
    noise = np.concatenate([part - part.mean(axis=0) for part in parts])
    n = len(noise)
    if known and target.family and len(np.unique(noise, axis=0)) < 0.99 * n:
        yield "releases share their noise"
    spreads = noise.std(axis=0)
    standard = noise[:, spreads > 0] / spreads[spreads > 0]
    if not standard.size:
        return
    limit = SURPRISING / math.sqrt(n) + ROUNDING
    for lag in LAGS:
        if np.abs((standard[lag:] * standard[:-lag]).mean(axis=0)).max() > limit:
            yield "releases that follow each other have related noise"
            break
    if known and standard.shape[1] > 1:
        related = standard.T @ standard / n
        np.fill_diagonal(related, 0.0)
        if np.abs(related).max() > limit:
            i, j = np.unravel_index(int(np.abs(related).argmax()), related.shape)
            yield f"the noise of numbers {i + 1} and {j + 1} is related"


def _in_a_fork(work: Callable[[], bytes]) -> bytes:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send_bytes(work()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child only draws
        child.start()
    sender.close()
    try:
        if receiver.poll(CHILD_SECONDS):
            return receiver.recv_bytes()
    except EOFError:  # it ended without a word
        pass
    finally:
        child.kill()
        child.join()
    raise OnefoldError("a forked process could not make a release")


# --- low bits ----------------------------------------------------------------------------------------------


def _low_bits(target: AttackTarget, releases: list[Floats], confidence: float) -> AttackFinding | None:
    if target.close is None:
        return None
    numbers = [target.close(side, len(releases[0]))[:, np.newaxis] for side in (0, 1)]

    def looks(first: Floats, second: Floats) -> list[tuple[str, Look]]:
        finest = min(int(_lowest_bit(part).min()) for part in (first, second))
        counts = [np.bincount(_residues(part, finest), minlength=256) + 1.0 for part in (first, second)]
        ratios = np.log(counts[1] / counts[0])
        found: list[tuple[str, Look]] = [
            ("lowest binary digit", lambda outputs: _lowest_bit(outputs[:, 0]).astype(np.float64)),
            ("last eight binary digits", lambda outputs: ratios[_residues(outputs[:, 0], finest)]),
        ]
        if target.reachable is not None:
            found.append(("numbers a float sampler reaches", _reached(target.reachable)))
        return found

    bound, name = lower_bound(numbers[0], numbers[1], looks, target.delta, confidence)
    words = f"{name}; values 1/255 of the domain apart"
    return _finding(target, "low bits", bound <= CLOSE_SHARE * target.epsilon, words, bound)


def _reached(reachable: Callable[[Floats, int], Floats]) -> Look:
    return lambda outputs: reachable(outputs[:, 0], 1) - reachable(outputs[:, 0], 0)


def _lowest_bit(numbers: Floats) -> Any:
    """Exponent of the lowest binary digit that is one; that of the smallest number for zero."""
    mantissas, exponents = np.frexp(np.asarray(numbers, dtype=np.float64))
    whole = np.abs(np.ldexp(mantissas, 53)).astype(np.int64)
    lowest = whole & -whole
    digits = np.frexp(lowest.astype(np.float64))[1] - 1
    return np.where(whole == 0, 0, exponents - 53 + digits)


def _residues(numbers: Floats, finest: int) -> Any:
    return np.mod(np.ldexp(np.ravel(numbers), -finest), 256.0).astype(np.intp)


# --- everything but the numbers ----------------------------------------------------------------------------


def _schema(target: AttackTarget, releases: list[Floats], confidence: float) -> AttackFinding | None:
    if target.schema is None:
        return None
    sides = [{name: repr(value) for name, value in target.schema(side).items()} for side in (0, 1)]
    different = {str(name) for name, _ in sides[0].items() ^ sides[1].items()}
    words = f"the neighbours differ in {', '.join(sorted(different))}" if different else "the same for both"
    return _finding(target, "schema", not different, words)


def _raw_rows(target: AttackTarget, releases: list[Floats], confidence: float) -> AttackFinding | None:
    if target.replay is None:
        return None
    first, *others = target.replay()
    same = all(other == first for other in others)
    words = (
        "seen through the noise only" if same else "the artefact depends on raw rows beside the noisy ones"
    )
    return _finding(target, "raw rows", same, words)


LOOKS: dict[str, Callable[[AttackTarget, list[Floats], float], AttackFinding | None]] = {
    "likelihood ratio": _likelihood,
    "noise": _noise,
    "independence": _independence,
    "low bits": _low_bits,
    "schema": _schema,
    "raw rows": _raw_rows,
}
