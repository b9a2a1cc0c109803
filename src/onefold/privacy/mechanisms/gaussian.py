"""Gaussian noise, with the textbook calibration and with the exact one."""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from onefold.exceptions import InvalidInputError
from onefold.privacy._hardened import rounded_gaussian
from onefold.privacy._streams import ByteStream
from onefold.privacy.calibration import classical_gaussian_sigma, gaussian_epsilon, gaussian_sigma
from onefold.privacy.mechanisms._data import Floats
from onefold.privacy.mechanisms._mechanism import ApproximateMechanism

__all__ = ["AnalyticGaussian", "Gaussian"]


class AnalyticGaussian(ApproximateMechanism):
    r"""Gaussian noise, no larger than (epsilon, delta) requires (Balle and Wang 2018).

    Parameters
    ----------
    epsilon, delta : privacy loss and probability of failure per unit
    sensitivity : change of one entry (``unit="entry"``), Euclidean change of a row (``unit="record"``),
        or a declared :class:`~onefold.privacy.sensitivity.Box` or Ball, to which the data are then clipped
    unit, hardened, n_features : as for :class:`~onefold.privacy.Laplace`

    Guarantees
    ----------
    * (epsilon, delta) for the unit, and no smaller sigma has it. Per-entry noise on p features is, per
      record, as private as the same sigma is at Euclidean sensitivity :math:`d \sqrt p`, stated at the same
      delta.
    * The ordinary sampler has this guarantee in exact arithmetic only; the hardened one (a Gaussian rounded
      exactly to the grid: a function of the continuous noise) on a computer.
    * Labels, class sizes and the number of rows are not covered.

    Examples
    --------
    >>> noise = AnalyticGaussian(1.0, delta=1e-5)
    >>> round(noise.scale, 4), [round(noise.guarantee(n).record[0], 2) for n in (1, 100)]
    (3.7306, [1.0, 14.43])
    """

    norm = 2

    @cached_property
    def _sigma(self) -> float:
        return self._calibrate(self.epsilon, self.delta)

    @staticmethod
    def _calibrate(epsilon: float, delta: float) -> float:
        """Standard deviation for a sensitivity of one."""
        return gaussian_sigma(epsilon, delta, 1.0)

    @property
    def _ratio(self) -> float:
        return self._sigma

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.normal(scale=self.scale, size=shape)

    def _draw_steps(self, size: int, stream: ByteStream) -> NDArray[np.int64]:
        # Two roundings upwards cover those of the two factors.
        sigma = float(self._lattice.steps) * self._sigma * (1 + 2.0**-50)
        return rounded_gaussian(stream, sigma, size)

    def _loss(self, factor: float, n_entries: int) -> tuple[float, float]:
        if factor == 1:
            return self.epsilon, self.delta
        return gaussian_epsilon(self.delta, self._sigma, factor), self.delta

    @property
    def expected_magnitude(self) -> float:
        """E|v| = sigma sqrt(2 / pi) (003 eq. 2.100)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> float:
        """sigma^2."""
        return self.scale * self.scale

    def density(self, v: ArrayLike) -> Floats:
        """Density of the noise at ``v``."""
        z = np.asarray(v, dtype=np.float64) / self.scale
        return np.asarray(np.exp(-(z**2) / 2) / (self.scale * math.sqrt(2 * math.pi)))

    def cdf(self, v: ArrayLike) -> Floats:
        """Probability of noise up to ``v``."""
        return np.asarray(ndtr(np.asarray(v, dtype=np.float64) / self.scale))

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """One Gaussian variable: only the Euclidean size of the change matters."""
        factor = self._entry_factor() if unit == "entry" else self._record_factor(n_features)
        return {"family": "gaussian", "noise_multiplier": self._sigma / factor, "coordinates": 1}


class Gaussian(AnalyticGaussian):
    r"""Gaussian noise of the textbook size :math:`d \sqrt{2 \log(1.25/\delta)} / \epsilon` (003 Result 6).

    Kept for comparison with the documents: :class:`AnalyticGaussian` promises the same with less noise. The
    proof holds for epsilon below 1 only, so a larger one is refused.

    Guarantees
    ----------
    * (epsilon, delta) for the unit. Per record from per-entry noise: the exact value for this sigma at
      Euclidean sensitivity :math:`d \sqrt p`.
    * Otherwise as :class:`AnalyticGaussian`.
    """

    @staticmethod
    def _calibrate(epsilon: float, delta: float) -> float:
        if not epsilon < 1:
            raise InvalidInputError(
                "the classical Gaussian mechanism is proved for epsilon below 1 only: use AnalyticGaussian"
            )
        return classical_gaussian_sigma(epsilon, delta, 1.0)
