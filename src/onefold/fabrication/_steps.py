"""How often noisy data is smoothed: a number fixed in advance, and the documents' rules.

Every rule drives the same recursion (000 eq. 80-82): smooth, judge, go on or stop. What differs is what it
judges by. The documents' rules compare with raw data, and so void the guarantee of the noise; the one that
looks only at what may be looked at is in ``_stein``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from onefold._base.arrays import Array
from onefold.models.kahm import Smoothing, smooth

__all__ = [
    "MAXIMUM_STEPS",
    "Fabrication",
    "Step",
    "documented_images",
    "documented_smoothing",
    "fixed",
    "repeated",
    "stepper",
]

MAXIMUM_STEPS = 100


@dataclass(frozen=True)
class Fabrication:
    """Smoothed rows, their images, and how many times they were smoothed."""

    smoothed: Array
    images: Array
    n_steps: int


Step = Callable[..., Smoothing]


def stepper(n_components: int, factor: float) -> Step:
    """The smoother with its settings fixed."""
    return partial(smooth, n_components=n_components, factor=factor)


def repeated(rows: Array, step: Step, n_steps: int) -> Array:
    """Rows smoothed ``n_steps`` times."""
    for _ in range(n_steps):
        rows = step(rows).smoothed
    return rows


def fixed(noisy: Array, step: Step, n_steps: int) -> Fabrication:
    """A number of steps chosen in advance."""
    rows = repeated(noisy, step, n_steps)
    return Fabrication(rows, step(rows).images, n_steps)


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
