"""Targets of the battery that are made of rows with noise: mechanisms, and artefacts made of noisy rows.

The datasets are small and as far apart as the unit allows **outside** the declared domain: only clipping
brings them into it. What the numbers are without noise and how much noise the claim needs is computed here
from the claim and the declared bounds, by the formulas of the proofs and by none of the code under attack.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from onefold._base.arrays import Floats
from onefold.audit import AttackTarget
from onefold.privacy import (
    AnalyticGaussian,
    BoundedFisherNoise,
    Box,
    FisherGaussian,
    Gaussian,
    Laplace,
    OptimalNoise,
)

DELTA = 1e-5
LOW, HIGH = np.array([0.0, -1.0, 10.0]), np.array([1.0, 1.0, 14.0])
WIDTHS = HIGH - LOW
FAR = 1000.0  # how far outside the domain the datasets lie
ROWS_PER_PERSON = 2
CLOSE = (100 / 255, 101 / 255)
NORMS = {"Laplace": 1, "OptimalNoise": 1, "Gaussian": 2, "AnalyticGaussian": 2}


# --- rows with noise ---------------------------------------------------------------------------------------


def rows_of(unit: str, side: int) -> Floats:
    """Return the rows of one unit before the noise, outside the domain where the two sides differ."""
    rows = np.tile((LOW + HIGH) / 2, (ROWS_PER_PERSON if unit == "person" else 1, 1))
    changed = slice(2, 3) if unit == "entry" else slice(None)  # the widest column
    rows[:, changed] = (HIGH[changed] + FAR) if side else (LOW[changed] - FAR)
    return rows


def mechanism_for(name: str, unit: str, epsilon: float, delta: float = DELTA, **options: Any) -> Any:
    """Make the noise of a name, calibrated for a unit, with the declared domain of the datasets."""
    options = {"sensitivity": Box(LOW, HIGH), **options}
    if unit == "person":
        options["rows_per_person"] = ROWS_PER_PERSON
    if name == "FisherGaussian":
        return _fisher(unit, epsilon, delta, options)
    if name == "BoundedFisherNoise":
        return _bounded(unit, epsilon, delta, options)
    if name == "Laplace":
        return Laplace(epsilon, unit=unit, **options)
    kinds: dict[str, Any] = {
        "OptimalNoise": OptimalNoise,
        "Gaussian": Gaussian,
        "AnalyticGaussian": AnalyticGaussian,
    }
    # The proof of the classical calibration ends below 1.
    return kinds[name](min(epsilon, 0.999) if name == "Gaussian" else epsilon, delta, unit=unit, **options)


def needed_mu(epsilon: float, delta: float) -> float:
    """Solve Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) = delta (Balle and Wang 2018)."""

    def excess(mu: float) -> float:
        return float(
            ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)) - delta
        )

    return float(brentq(excess, 1e-3 * epsilon, 60.0, xtol=1e-12, rtol=1e-12))


def needed_levels(name: str, unit: str, epsilon: float, delta: float) -> Floats:
    """Compute the standard deviation that each column of a row needs, from the claim and the widths."""
    per_row = 1 if unit != "person" else ROWS_PER_PERSON
    if name == "FisherGaussian":
        return _fisher_levels(unit, epsilon, delta)
    changed = WIDTHS[2:] if unit == "entry" else WIDTHS
    if NORMS[name] == 1:
        scale = per_row * math.fsum(changed) / epsilon
        level = math.sqrt(2) * scale
        if name == "OptimalNoise":
            level *= math.sqrt(1 - delta) if unit == "entry" else 1.0
        return np.full(3, level)
    size = math.sqrt(per_row * math.fsum(changed**2))
    textbook = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return np.full(3, size * (textbook if name == "Gaussian" else 1 / needed_mu(epsilon, delta)))


def row_target(
    name: str,
    unit: str,
    claim: tuple[float, float],
    release: Callable[[Floats], Floats],
    levels: Floats | None,
    family: str,
    **looks: Any,
) -> AttackTarget:
    """Describe rows that get noise one by one: the rows of one big table are independent releases."""

    def draw(side: int, n: int) -> Floats:
        return np.asarray(release(np.tile(rows_of(unit, side), (n, 1)))).reshape(n, -1)

    def means(releases: Floats, side: int) -> Floats:
        return np.clip(rows_of(unit, side), LOW, HIGH).ravel()

    def close(side: int, n: int) -> Floats:
        rows = np.tile((LOW + HIGH) / 2, (n, 1))
        rows[:, 0] = CLOSE[side]
        return np.asarray(release(rows))[:, 0]

    n_rows = len(rows_of(unit, 0))
    return AttackTarget(
        name,
        unit,
        claim[0],
        claim[1],
        draw,
        means if levels is not None else None,
        None if levels is None else np.tile(levels, n_rows),
        family,
        **{"close": close, "schema": partial(_row_schema, release, unit), **looks},
    )


def _row_schema(release: Callable[[Any], Any], unit: str, side: int) -> dict[str, Any]:
    """One record more with a fraction must not turn whole numbers into other types."""
    rows = rows_of(unit, side)
    made = np.asarray(release(rows if side else rows.astype(np.int64)))
    return {"type": made.dtype, "shape": made.shape, "bytes": made.nbytes}


def mechanism_target(
    name: str, unit: str, epsilon: float, delta: float = DELTA, **options: Any
) -> AttackTarget:
    """Describe a mechanism on the rows of a table; the options are its parameters."""
    noise = mechanism_for(name, unit, epsilon, delta, **options)
    promise = noise.guarantee(3, rows_per_person=ROWS_PER_PERSON)
    claim = getattr(promise, unit)
    family = "laplace" if NORMS.get(name) == 1 else "gaussian"
    shown = name if delta == DELTA else f"{name}, delta {delta:g}"
    if name == "BoundedFisherNoise":
        return bounded_target(name, unit, noise, claim, noise.randomise)
    looks: dict[str, Any] = {}
    factors = fisher_factors(noise) if name == "FisherGaussian" else (noise.scale,)
    looks["reachable"] = lambda numbers, side: reachable(numbers, CLOSE[side], factors, family)
    levels = needed_levels(name, unit, claim[0], delta)
    return row_target(shown, unit, claim, noise.randomise, levels, family, **looks)


def reachable(numbers: Floats, value: float, factors: Sequence[float], family: str) -> Floats:
    """Tell which numbers are ``value`` plus noise that was made of a uniform float of 53 binary digits.

    Of all floats near a released number such noise reaches only a part, and another part from another value:
    that is how a float sampler gives values away.
    """
    noise = (np.asarray(numbers) - value) / math.prod(factors)
    shares = np.exp(-np.abs(noise)) if family == "laplace" else ndtr(noise)
    nearest = np.rint(shares * 2.0**53 - 0.5)
    found = np.zeros(noise.shape, dtype=bool)
    for step in range(-8, 9):
        uniform = (np.clip(nearest + step, 0, 2.0**53 - 1) + 0.5) * 2.0**-53
        made = ndtri(uniform) if family == "gaussian" else np.copysign(np.log(uniform), noise)
        for factor in factors:  # one after the other, as the sampler multiplies
            made = made * factor
        found |= value + made == numbers
    return found.astype(np.float64)


# --- artefacts made of noisy rows ---------------------------------------------------------------------------

CONTEXT = np.array([[0.2, -0.5, 11.0], [0.8, 0.5, 13.0], [0.3, -0.2, 12.0], [0.6, 0.1, 11.5]])
CONTEXT_LABELS = (0, 1, 0, 1)
Path = Callable[[Any, Floats, Any, Any], dict[str, Any]]


def composed_target(name: str, kind: str, unit: str, epsilon: float, path: Path) -> AttackTarget:
    """Describe an artefact that is made of noisy rows, by whatever comes after the noise.

    The path runs as it is, with a mechanism that hands the real one as many copies of the rows as there are
    to be releases. That the artefact depends on nothing but the noisy rows is shown exactly: with the same
    noisy rows and other raw ones it must be the same, byte for byte.
    """
    noise = mechanism_for(kind, unit, epsilon)
    # A person has a row more than may count: one of them, all equal, has to be dropped.
    n_rows = len(rows_of(unit, 0))
    n_given = n_rows + (unit == "person")
    labels = np.array([*CONTEXT_LABELS, *([0] * n_given)])
    person = np.array([*range(len(CONTEXT)), *([len(CONTEXT)] * n_given)]) if unit == "person" else None

    def table(side: int, n: int = n_given) -> Floats:
        return np.vstack([CONTEXT, np.tile(rows_of(unit, side)[:1], (n, 1))])

    def draw(side: int, n: int) -> Floats:
        seen: list[Floats] = []

        def many(_: Any, X: Any, random_state: Any = None) -> Floats:
            drawn = np.asarray(noise.randomise(np.tile(X, (n, 1)), random_state)).reshape(n, *np.shape(X))
            seen.append(drawn.reshape(n, -1))
            return np.asarray(drawn[0])

        path(_twin(noise, many), table(side), labels, person)
        return np.hstack(seen)

    def means(releases: Floats, side: int) -> Floats:
        return np.clip(table(side, n_rows), LOW, HIGH).ravel()

    def schema(side: int) -> dict[str, Any]:
        made = path(noise, table(side), labels, person)
        return {key: value for key, value in made.items() if key != "content"}

    def replay() -> list[Any]:
        noisy = np.asarray(noise.randomise(table(0, n_rows)))
        twin = _twin(noise, lambda _, X, random_state=None: noisy.copy())
        equal = np.tile(CONTEXT[0], (len(noisy), 1))  # rows that any model of them fits without an error
        raws = table(0, n_rows), table(1, n_rows), equal
        # No row too many here: a file names the rows it kept, and which are dropped is left to chance.
        y, who = labels[: len(noisy)], None if person is None else person[: len(noisy)]
        return [path(twin, raw, y, who)["content"] for raw in raws]

    claim = getattr(noise.guarantee(3, rows_per_person=ROWS_PER_PERSON), unit)
    levels = np.tile(needed_levels(kind, unit, claim[0], DELTA), len(CONTEXT) + n_rows)
    family = "laplace" if NORMS[kind] == 1 else "gaussian"
    return AttackTarget(
        name, unit, claim[0], claim[1], draw, means, levels, family, schema=schema, replay=replay
    )


def _twin(mechanism: Any, randomise: Callable[..., Any]) -> Any:
    """Return a mechanism of the same class and parameters with another ``randomise``."""
    kind: Any = type(mechanism)
    meta: Any = type(kind)
    twin = object.__new__(meta(kind.__name__, (kind,), {"randomise": randomise}))
    twin.__dict__.update(mechanism.__dict__)
    return twin


# --- noise of the documents' Fisher information -------------------------------------------------------------

WEIGHTS = np.array([3.0, 1.0, 0.01])  # Pi


def _fisher(unit: str, epsilon: float, delta: float, options: dict[str, Any]) -> FisherGaussian:
    options = {key: value for key, value in options.items() if key != "rows_per_person"}
    if unit == "record":
        return FisherGaussian.from_epsilon(epsilon, 3, WEIGHTS, delta=delta, **options)
    level = float(_fisher_levels(unit, epsilon, delta)[1])  # of the column whose weight is one
    return FisherGaussian(level**-4, WEIGHTS, delta=delta, **options)


def fisher_factors(noise: FisherGaussian) -> tuple[float, float]:
    """Return what a float sampler would multiply a standard variable with, in the first column."""
    return float(WEIGHTS[0] ** -0.25), math.pow(noise.lam, -0.25)


def _fisher_levels(unit: str, epsilon: float, delta: float) -> Floats:
    """Columns are in proportion to Pi^(-1/4) (002 eq. 9), and as large as the claim needs."""
    relative = WEIGHTS**-0.25
    steps = WIDTHS / relative
    rows = ROWS_PER_PERSON if unit == "person" else 1
    size = float(steps.max()) if unit == "entry" else math.sqrt(rows) * math.hypot(*steps)
    return relative * size / needed_mu(epsilon, delta)


BOUNDS_IN_SCALES = 6.0
# How much larger than for one entry without bounds: the losses of columns and rows add up.
BOUNDED_SCALES = {"entry": 1.01, "record": 3.0, "person": 5.7}


def _bounded(unit: str, epsilon: float, delta: float, options: dict[str, Any]) -> BoundedFisherNoise:
    """Make noise with about this epsilon; its columns are in proportion to their widths."""
    options = {key: value for key, value in options.items() if key != "rows_per_person"}

    scale = BOUNDED_SCALES[unit] / needed_mu(epsilon, delta)
    bounds = np.outer(WIDTHS * scale * BOUNDS_IN_SCALES, (-1.0, 1.0))
    return BoundedFisherNoise(scale**-4, bounds, WIDTHS**-4.0, delta=delta, **options)


def bounded_target(
    name: str,
    unit: str,
    noise: BoundedFisherNoise,
    claim: tuple[float, float],
    release: Callable[[Floats], Floats],
) -> AttackTarget:
    """Describe rows with noise between bounds, whose size is taken as the mechanism states it."""
    mean = noise.mean(3)
    levels = np.sqrt(noise.second_moments(3) - mean**2)
    made = row_target(name, unit, claim, release, levels, "gaussian")

    def means(releases: Floats, side: int) -> Floats:
        return np.ravel(np.clip(rows_of(unit, side), LOW, HIGH) + mean)

    return replace(made, means=means)
