"""Noise on single entries: Laplace, with an atom at zero or without, and Gaussian."""

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from onefold._base.arrays import Floats, Integers
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import classical_gaussian_sigma, loss_of, unit_sigma
from onefold.privacy.domains import Domain
from onefold.privacy.mechanisms.mechanism import Mechanism
from onefold.privacy.samplers import (
    ByteStream,
    LaplaceTable,
    discrete_laplace,
    laplace_table,
    rounded_gaussian,
)
from onefold.privacy.terms import DELTA, Pair, multiplied

__all__ = ["AnalyticGaussian", "Gaussian", "Laplace", "OptimalNoise"]


class OptimalNoise(Mechanism):
    r"""Laplace noise that is zero with probability delta.

    Where it is not zero its scale is :math:`d / \epsilon` for a sensitivity d. "Optimal" means the smallest
    expected magnitude under the sufficient condition of document 003, Result 1, and nothing more: it is
    :math:`(1 - \delta)` times that of Laplace noise, and the price is a share delta of all entries that are
    released as they are.

    Parameters
    ----------
    epsilon : float
        Privacy loss per unit.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded, per unit; 0 gives Laplace noise. With
        ``unit="entry"`` it is the probability that an entry gets no noise.
    sensitivity : float, Box, Ball or None, default=None
        Required: a declared domain to which the data are clipped; or, as the caller's word that nothing
        checks, the largest change of one entry (``unit="entry"``) or the largest sum of absolute changes of a
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
    Laplace : The same noise without the atom at zero, and without delta.

    Notes
    -----
    *Guarantees.*

    * (epsilon, delta) for the unit. Per-entry noise on p features is :math:`(p \epsilon, 1 - (1-\delta)^p)`
      per record.
    * About :math:`\delta N p` entries of an N x p matrix are released untouched (``untouched_entries``).
    * Per record, the atom is made smaller, :math:`1 - (1-\delta)^{1/p}`, so that the whole row is (epsilon,
      delta).
    * The float sampler has none: in exact arithmetic it would, on a computer it has not.
    * Labels, class sizes and the number of rows are not covered.

    References
    ----------
    Document 000, eq. 74 and 75; document 003, Result 1 and eq. 2.85. Document 004, eq. 129 prints
    exp(-epsilon v / d) for negative v, which grows without bound; document 000, eq. 75 has the right sign.

    Examples
    --------
    >>> from onefold.privacy import OptimalNoise
    >>> noise = OptimalNoise(1.0, delta=0.01, sensitivity=1.0)
    >>> round(noise.expected_magnitude, 4)
    0.99
    >>> noise.guarantee(n_features=4, n_samples=100).untouched_entries
    4.0
    """

    norm = 1
    _moments = (1.0, 2.0)  # 003 eq. 2.81 and, with the atom, 2.85

    @property
    def untouched_share(self) -> float:
        """Probability that an entry gets no noise at all, by design."""
        if self.delta == 0 or (self.unit == "entry" and self._cell_entries == 1):
            return self.delta
        share = -math.expm1(math.log1p(-self.delta) / self._unit_entries())
        return share * (1 - 2.0**-50)  # rounded down, so that the row stays within delta

    @property
    def _ratio(self) -> float:
        return 1 / self.epsilon

    def _draw(self, size: int, stream: ByteStream) -> Floats:
        if self.delta == 0:
            return self.scale * stream.laplace(size)
        return np.where(stream.uniform(size) < self.untouched_share, 0.0, self.scale * stream.laplace(size))

    @property
    def _table(self) -> LaplaceTable:
        """Exactly epsilon over the number of steps between rounded neighbours, as a fraction."""
        return laplace_table(Fraction(self.epsilon) / self._lattice.steps, Fraction(self.untouched_share))

    def _draw_steps(self, size: int, stream: ByteStream) -> Integers:
        return discrete_laplace(stream, self._table, size)

    def _loss(self, factor: float, n_entries: int) -> Pair:
        told = self.delta if n_entries == self._unit_entries() else self._any_atom(n_entries)
        return multiplied(self.epsilon, factor), told

    def _any_atom(self, n_entries: int) -> float:
        """Probability that at least one of so many entries gets no noise, rounded up."""
        if n_entries == 1:
            return self.untouched_share
        return min(1.0, -math.expm1(n_entries * math.log1p(-self.untouched_share)) * (1 + 2.0**-50))

    def _density(self, z: Floats) -> Floats:
        return np.exp(-np.abs(z)) / 2

    def _cdf(self, z: Floats) -> Floats:
        tail = np.exp(-np.abs(z)) / 2
        return np.where(z < 0, tail, 1 - tail)

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Return what an :class:`Event` can say: a Laplace variable, and an atom, per entry that may change.

        Parameters
        ----------
        unit : {"entry", "record", "person"}
            What changes between neighbouring datasets.
        n_features : int
            Entries of a row.

        Returns
        -------
        dict
            Family, noise multiplier, coordinates and atom; nothing where no single multiplier describes
            the change.
        """
        if self.unit != "entry" or unit == "person" or self._cell_entries > 1:
            return {}  # how a change spreads over entries is not known
        coordinates = 1 if unit == "entry" else math.ceil(self._record_factor(n_features))
        if unit == "record" and coordinates != n_features:
            return {}  # features of unequal width: no single multiplier describes them
        return {
            "family": "laplace",
            "noise_multiplier": 1 / self.epsilon,
            "coordinates": coordinates,
            "atom": self.untouched_share,
        }


class Laplace(OptimalNoise):
    r"""Laplace noise, whose guarantee has no delta.

    Its density is :math:`\frac{1}{2s} e^{-|v|/s}` with :math:`s = d / \epsilon` for a sensitivity d.

    Parameters
    ----------
    epsilon : float
        Privacy loss per unit.
    delta : float, default=0.0
        Always 0; accepted so that one mechanism can take the place of another.
    sensitivity : float, Box, Ball or None, default=None
        Required: a declared domain to which the data are clipped; or, as the caller's word that nothing
        checks, the largest change of one entry (``unit="entry"``) or the largest sum of absolute changes of a
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
    OptimalNoise : Smaller on average, with a delta.
    AnalyticGaussian : Better for records of many entries.

    Notes
    -----
    *Guarantees.*

    * (epsilon, 0) for the unit. Per-entry noise on p features is (p epsilon, 0) per record.
    * The float sampler has none: in exact arithmetic it would, on a computer it has not.
    * Labels, class sizes and the number of rows are not covered.

    References
    ----------
    Document 003, Result 3 and eq. 2.81.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> noise = Laplace(0.5, sensitivity=1.0)
    >>> round(noise.scale, 4), noise.guarantee(n_features=10).record
    (2.0, (5.0, 0.0))
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        sensitivity: float | Domain | None = None,
        *,
        unit: str = "entry",
        sampler: str = "hardened",
        n_features: int | None = None,
        rows_per_person: int | None = None,
    ) -> None:
        if delta != 0:
            raise InvalidInputError("Laplace noise has delta 0: write sensitivity=..., or use OptimalNoise")
        super().__init__(
            epsilon,
            0.0,
            sensitivity,
            unit=unit,
            sampler=sampler,
            n_features=n_features,
            rows_per_person=rows_per_person,
        )


class AnalyticGaussian(Mechanism):
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
    _deltas = DELTA
    _moments = (math.sqrt(2 / math.pi), 1.0)  # 003 eq. 2.100

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

    def _density(self, z: Floats) -> Floats:
        return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

    def _cdf(self, z: Floats) -> Floats:
        return np.asarray(ndtr(z))

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
