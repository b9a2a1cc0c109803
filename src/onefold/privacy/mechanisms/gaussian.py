"""Gaussian noise, with the textbook calibration and with the exact one."""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from onefold._base.arrays import Floats, Integers
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import classical_gaussian_sigma, loss_of, unit_sigma
from onefold.privacy.mechanisms.mechanism import ApproximateMechanism
from onefold.privacy.samplers import ByteStream, rounded_gaussian
from onefold.privacy.terms import Pair

__all__ = ["AnalyticGaussian", "Gaussian"]


class AnalyticGaussian(ApproximateMechanism):
    r"""Gaussian noise, no larger than (epsilon, delta) requires.

    Parameters
    ----------
    epsilon : float
        Privacy loss per unit.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded, per unit.
    sensitivity : float, Box, Ball or None, default=None
        Required: a declared domain to which the data are clipped; or, as the caller's word that nothing
        checks, the largest change of one entry (``unit="entry"``) or the largest Euclidean change of a
        record.
    unit : {"entry", "record", "person"}, default="entry"
        What changes between neighbouring datasets.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on a dyadic grid. "float" is open to attacks on floating-point
        numbers: its guarantee is void.
    n_features : int or None, default=None
        Entries of a record; None takes it from the domain, or from the data when they come.
    rows_per_person : int or None, default=None
        Largest number of records of a person, which ``unit="person"`` needs.

    See Also
    --------
    Gaussian : The larger noise of the textbooks.
    FisherGaussian : Gaussian noise with a scale of its own for every column.
    onefold.privacy.calibration : The formulas.

    Notes
    -----
    *Guarantees.*

    * (epsilon, delta) for the unit, and no smaller sigma has it. Per-entry noise on p features is, per
      record, as private as the same sigma is at Euclidean sensitivity :math:`d \sqrt p`, stated at the same
      delta.
    * The hardened noise is a Gaussian rounded exactly to the grid: a function of the continuous noise. The
      float sampler has no guarantee: in exact arithmetic it would, on a computer it has not.
    * Labels, class sizes and the number of rows are not covered.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", 2018, Theorem 8; document
    003, eq. 2.100 for the mean magnitude.

    Examples
    --------
    >>> from onefold.privacy import AnalyticGaussian
    >>> noise = AnalyticGaussian(1.0, delta=1e-5, sensitivity=1.0)
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
        return unit_sigma(epsilon, delta)

    @property
    def _ratio(self) -> float:
        return self._sigma

    def _draw(self, size: int, stream: ByteStream) -> Floats:
        return self.scale * stream.normal(size)

    def _draw_steps(self, size: int, stream: ByteStream) -> Integers:
        # Two roundings upwards cover those of the two factors.
        sigma = float(self._lattice.steps) * self._sigma * (1 + 2.0**-50)
        return rounded_gaussian(stream, sigma, size)

    def _loss(self, factor: float, n_entries: int) -> Pair:
        if factor == 1:
            return self.epsilon, self.delta
        loss = loss_of(factor / self._sigma, self.delta)
        # The textbook's sigma is larger than needed: a larger change is not stated with a smaller loss.
        return (max(loss, self.epsilon) if factor > 1 else loss), self.delta

    def _gaussian_privacy(self, factor: float) -> float | None:
        return factor / self._sigma

    @property
    def expected_magnitude(self) -> float:
        """Mean absolute noise of an entry, sigma sqrt(2 / pi) (003 eq. 2.100)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> float:
        """Mean squared noise of an entry, sigma^2."""
        return self.scale * self.scale

    def density(self, v: ArrayLike) -> Floats:
        """Density of the noise.

        Parameters
        ----------
        v : array-like
            Values of the noise.

        Returns
        -------
        ndarray
            Density at each value; for hardened noise, before it is rounded to the grid.
        """
        z = np.asarray(v, dtype=np.float64) / self.scale
        return np.asarray(np.exp(-(z**2) / 2) / (self.scale * math.sqrt(2 * math.pi)))

    def cdf(self, v: ArrayLike) -> Floats:
        """Distribution function of the noise.

        Parameters
        ----------
        v : array-like
            Values of the noise.

        Returns
        -------
        ndarray
            Probability of noise up to each value; for hardened noise, before it is rounded to the grid.
        """
        return np.asarray(ndtr(np.asarray(v, dtype=np.float64) / self.scale))

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Return what an :class:`Event` can say: one Gaussian variable along the change.

        Only the Euclidean size of the change matters.

        Parameters
        ----------
        unit : {"entry", "record", "person"}
            What changes between neighbouring datasets.
        n_features : int
            Entries of a row.

        Returns
        -------
        dict
            Family, noise multiplier and coordinates.
        """
        known = self.for_features(n_features)
        if unit == "person":
            if self.rows_per_person is None:
                return {}  # without a number of rows nothing is promised to a person
            factor = known._person_factor(n_features, self.rows_per_person)
        else:
            factor = known._entry_factor(n_features) if unit == "entry" else known._record_factor(n_features)
        return {"family": "gaussian", "noise_multiplier": self._sigma / factor, "coordinates": 1}


class Gaussian(AnalyticGaussian):
    r"""Gaussian noise of the textbook size :math:`d \sqrt{2 \log(1.25/\delta)} / \epsilon`.

    Kept for comparison with the documents: :class:`AnalyticGaussian` promises the same with less noise.

    Parameters
    ----------
    epsilon : float
        Privacy loss per unit, below 1: the proof holds for these only, so a larger one is refused.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded, per unit.
    sensitivity : float, Box, Ball or None, default=None
        Required: a declared domain to which the data are clipped; or, as the caller's word that nothing
        checks, the largest change of one entry (``unit="entry"``) or the largest Euclidean change of a
        record.
    unit : {"entry", "record", "person"}, default="entry"
        What changes between neighbouring datasets.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on a dyadic grid. "float" is open to attacks on floating-point
        numbers: its guarantee is void.
    n_features : int or None, default=None
        Entries of a record; None takes it from the domain, or from the data when they come.
    rows_per_person : int or None, default=None
        Largest number of records of a person, which ``unit="person"`` needs.

    See Also
    --------
    AnalyticGaussian : The smallest Gaussian noise with this guarantee.

    Notes
    -----
    *Guarantees.*

    * (epsilon, delta) for the unit. Per record from per-entry noise: the exact value for this sigma at
      Euclidean sensitivity :math:`d \sqrt p`.
    * Otherwise as :class:`AnalyticGaussian`.

    References
    ----------
    Document 003, Result 6.

    Examples
    --------
    >>> from onefold.privacy import Gaussian
    >>> round(Gaussian(0.5, delta=1e-5, sensitivity=1.0).scale, 4)
    9.6896
    """

    @staticmethod
    def _calibrate(epsilon: float, delta: float) -> float:
        if not epsilon < 1:
            raise InvalidInputError(
                "the classical Gaussian mechanism is proved for epsilon below 1 only: use AnalyticGaussian"
            )
        return classical_gaussian_sigma(epsilon, delta, 1.0)
