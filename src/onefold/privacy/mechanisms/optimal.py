"""The noise of smallest mean magnitude among those the documents admit: Laplace with an atom at zero."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold.privacy.mechanisms._data import Floats
from onefold.privacy.mechanisms._mechanism import ApproximateMechanism
from onefold.privacy.mechanisms.laplace import Laplace

__all__ = ["OptimalNoise"]


class OptimalNoise(ApproximateMechanism, Laplace):
    r"""Zero with probability delta, otherwise Laplace noise of scale :math:`d / \epsilon` (000 eq. 74).

    "Optimal" means the smallest expected magnitude under the sufficient condition of 003 Result 1, and
    nothing more: it is :math:`(1 - \delta)` times that of Laplace noise, and paid for by releasing a share
    delta of all entries as they are.

    Parameters
    ----------
    epsilon : privacy loss per unit
    delta : probability of failure per unit; with ``unit="entry"`` the mass of the atom
    sensitivity, unit, hardened : as for :class:`Laplace`
    n_features : entries of a record; needed for ``unit="record"`` unless the domain knows it

    Guarantees
    ----------
    * (epsilon, delta) for the unit. Per-entry noise on p features is :math:`(p \epsilon, 1 - (1-\delta)^p)`
      per record.
    * About :math:`\delta N p` entries of an N x p matrix are released untouched (``untouched_entries``).
    * Per record, the atom is made smaller, :math:`1 - (1-\delta)^{1/p}`, so that the whole row is (epsilon,
      delta).
    * The ordinary sampler has this guarantee in exact arithmetic only; the hardened one on a computer.
    * Labels, class sizes and the number of rows are not covered.

    Notes
    -----
    004 eq. 129 prints exp(-epsilon v / d) for negative v, which grows without bound; 000 eq. 75 has the
    right sign.

    Examples
    --------
    >>> noise = OptimalNoise(1.0, delta=0.01)
    >>> noise.expected_magnitude
    0.99
    >>> noise.guarantee(n_features=4, n_samples=100).untouched_entries
    4.0
    """

    def _check_scale(self) -> None:
        if self.unit == "record":
            self._known_features()
        super()._check_scale()

    @property
    def untouched_share(self) -> float:
        """Mass of the atom at zero noise."""
        if self.unit == "entry":
            return self.delta
        share = -math.expm1(math.log1p(-self.delta) / self._known_features())
        return share * (1 - 2.0**-50)  # rounded down, so that the row stays within delta

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        noise = rng.laplace(scale=self.scale, size=shape)
        return np.where(rng.random(shape) < self.untouched_share, 0.0, noise)

    def _loss(self, factor: float, n_entries: int) -> tuple[float, float]:
        if self.unit == "record" and n_entries > 1:
            return self.epsilon * factor, self.delta
        return self.epsilon * factor, self._any_atom(n_entries)

    def _any_atom(self, n_entries: int) -> float:
        """Probability that at least one of so many entries gets no noise."""
        if n_entries == 1:
            return self.untouched_share
        return -math.expm1(n_entries * math.log1p(-self.untouched_share))

    @property
    def expected_magnitude(self) -> float:
        """E|v| = (1 - delta) d / epsilon (003 eq. 2.85)."""
        return (1 - self.untouched_share) * self.scale

    @property
    def variance(self) -> float:
        """2 (1 - delta) (d / epsilon)^2."""
        return (1 - self.untouched_share) * 2 * self.scale * self.scale

    def density(self, v: ArrayLike) -> Floats:
        """000 eq. 74: infinite at zero, where the atom sits."""
        values = np.asarray(v, dtype=np.float64)
        return np.where(values == 0, np.inf, (1 - self.untouched_share) * super().density(values))

    def cdf(self, v: ArrayLike) -> Floats:
        """000 eq. 75, with the right sign for negative ``v``."""
        values = np.asarray(v, dtype=np.float64)
        continuous = (1 - self.untouched_share) * super().cdf(values)
        return np.where(values < 0, continuous, continuous + self.untouched_share)

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """As Laplace, with an atom on every coordinate."""
        parts = super().accounting(unit, n_features)
        return {**parts, "atom": self.untouched_share} if parts else {}
