"""How often noisy data is smoothed: rules that look only at what may be looked at, and the documents' rules.

Every rule drives the same recursion (000 eq. 80-82): smooth, judge, go on or stop. What differs is what it
judges by. Rules that compare with raw data are the documents'; they void the guarantee of the noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array
from onefold.models.kahm import Smoothing, smooth

__all__ = ["MAXIMUM_STEPS", "Fabrication", "documented_images", "documented_smoothing", "fixed", "honest"]

MAXIMUM_STEPS = 100
# Size of the disturbance that measures the divergence, in standard deviations of the noise.
DISTURBANCE = 0.01


@dataclass(frozen=True)
class Fabrication:
    """Smoothed rows, their images, and how many times they were smoothed."""

    smoothed: Array
    images: Array
    n_steps: int


Step = Callable[[Array], Smoothing]


def stepper(n_components: int, factor: float) -> Step:
    """The smoother with its settings fixed."""
    return lambda rows: smooth(rows, n_components, factor)


def fixed(noisy: Array, step: Step, n_steps: int) -> Fabrication:
    """A number of steps chosen in advance."""
    rows = noisy
    for _ in range(n_steps):
        rows = step(rows).smoothed
    return Fabrication(rows, step(rows).images, n_steps)


def honest(noisy: Array, step: Step, variance: float) -> Fabrication:
    """Stop where Stein's unbiased estimate of the squared error stops falling.

    For a result F(Y) from rows with noise of known variance v on each of the N p entries, the expected
    squared error is estimated by |Y - F|^2 - N p v + 2 v div F. The divergence is measured by smoothing a
    second, slightly disturbed copy along: the smoothers depend on the rows themselves, and taking them as
    given would underestimate it and stop too early. Only noisy rows and public numbers enter: this is
    post-processing.
    """
    rng = np.random.default_rng(20230)  # the disturbance has nothing to do with the data and may be known
    signs = (rng.integers(0, 2, size=noisy.shape) * 2 - 1).astype(noisy.dtype)
    size = DISTURBANCE * math.sqrt(variance)
    rows, disturbed, lowest = noisy, noisy + size * signs, noisy.size * variance
    for n_steps in range(MAXIMUM_STEPS + 1):
        result = step(rows)
        beside = step(disturbed).smoothed
        divergence = float(np.sum(signs * (beside - result.smoothed), dtype=np.float64)) / size
        misfit = float(np.sum((noisy - result.smoothed) ** 2, dtype=np.float64))
        risk = misfit - noisy.size * variance + 2.0 * variance * divergence
        if not risk < lowest or n_steps == MAXIMUM_STEPS:
            break
        rows, disturbed, lowest = result.smoothed, beside, risk
    return Fabrication(rows, result.images, n_steps)


def documented_images(noisy: Array, step: Step, raw: Array) -> Fabrication:
    """000 eq. 92: stop when the noisy data is modelled no worse than the raw data is. Looks at raw data."""
    allowed = _modelling_error(raw, step(raw).images)  # eq. 88
    rows = noisy
    for n_steps in range(MAXIMUM_STEPS + 1):
        result = step(rows)
        if n_steps == MAXIMUM_STEPS or _modelling_error(rows, result.images) <= allowed:
            break
        rows = result.smoothed
    return Fabrication(rows, result.images, n_steps)


def documented_smoothing(noisy: Array, step: Step, raw: Array) -> Fabrication:
    """004 eq. 145: smooth as long as that brings the data closer to the raw data. Looks at raw data.

    Frobenius norms throughout; the document prints a spectral norm in the last place.
    """
    rows = step(noisy).smoothed
    nearest = float(np.linalg.norm(rows - raw))
    for n_steps in range(1, MAXIMUM_STEPS + 1):
        result = step(rows)
        distance = float(np.linalg.norm(result.smoothed - raw))
        if n_steps == MAXIMUM_STEPS or distance >= nearest:
            break
        rows, nearest = result.smoothed, distance
    return Fabrication(rows, result.images, n_steps)


def _modelling_error(rows: Array, images: Array) -> float:
    return float(np.linalg.norm(rows - images, axis=1).sum(dtype=np.float64))
