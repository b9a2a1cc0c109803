"""Laplace noise: pure epsilon, no delta."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import check_epsilon
from onefold.privacy._hardened import LaplaceTable, discrete_laplace, laplace_table
from onefold.privacy._streams import ByteStream
from onefold.privacy.mechanisms._data import Floats
from onefold.privacy.mechanisms._mechanism import Mechanism
from onefold.privacy.sensitivity import Domain

__all__ = ["Laplace"]


class Laplace(Mechanism):
    r"""Noise of density :math:`\frac{1}{2s} e^{-|v|/s}` with :math:`s = d / \epsilon` (003 Result 3).

    Parameters
    ----------
    epsilon : privacy loss per unit delta : 0, accepted so that mechanisms can be exchanged for one another
        sensitivity : change of one entry (``unit="entry"``), sum of absolute changes of a row
        (``unit="record"``), or a declared :class:`~onefold.privacy.sensitivity.Box` or Ball, to which the
        data are then clipped unit : "entry" or "record" hardened : draw exact integers on a dyadic grid,
        safe against attacks on floating point n_features : entries of a record; needed for hardened noise
        per record unless the domain knows it

    Guarantees
    ----------
    * (epsilon, 0) for the unit. Per-entry noise on p features is (p epsilon, 0) per record.
    * The ordinary sampler has this guarantee in exact arithmetic only; the hardened one on a computer.
    * Labels, class sizes and the number of rows are not covered.

    Examples
    --------
    >>> noise = Laplace(0.5)
    >>> noise.scale, noise.guarantee(n_features=10).record
    (2.0, (5.0, 0.0))
    """

    norm = 1

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        sensitivity: float | Domain = 1.0,
        *,
        unit: str = "entry",
        hardened: bool = False,
        n_features: int | None = None,
    ) -> None:
        if delta != 0:
            raise InvalidInputError("Laplace noise has delta 0: write sensitivity=..., or use OptimalNoise")
        super().__init__(check_epsilon(epsilon), 0.0, sensitivity, unit, hardened, n_features)

    @property
    def _ratio(self) -> float:
        return 1 / self.epsilon

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.laplace(scale=self.scale, size=shape)

    @property
    def _table(self) -> LaplaceTable:
        """Exactly epsilon over the number of steps between rounded neighbours, as a fraction."""
        return laplace_table(Fraction(self.epsilon) / self._lattice.steps, Fraction(self.untouched_share))

    def _draw_steps(self, size: int, stream: ByteStream) -> NDArray[np.int64]:
        return discrete_laplace(stream, self._table, size)

    def _loss(self, factor: float, n_entries: int) -> tuple[float, float]:
        return self.epsilon * factor, 0.0

    @property
    def expected_magnitude(self) -> float:
        """E|v| = s (003 eq. 2.81)."""
        return self.scale

    @property
    def variance(self) -> float:
        """2 s^2."""
        return 2 * self.scale * self.scale

    def density(self, v: ArrayLike) -> Floats:
        """Density of the noise at ``v``."""
        magnitude = np.abs(np.asarray(v, dtype=np.float64))
        return np.asarray(np.exp(-magnitude / self.scale) / (2 * self.scale))

    def cdf(self, v: ArrayLike) -> Floats:
        """Probability of noise up to ``v``."""
        z = np.asarray(v, dtype=np.float64) / self.scale
        tail = np.exp(-np.abs(z)) / 2
        return np.where(z < 0, tail, 1 - tail)

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """One Laplace variable per entry that may change by the whole sensitivity."""
        if self.unit == "record":  # how a row's change spreads over its entries is not known
            return {}
        coordinates = 1 if unit == "entry" else math.ceil(self._record_factor(n_features))
        if unit == "record" and coordinates != n_features:
            return {}  # features of unequal width: no single multiplier describes them
        return {"family": "laplace", "noise_multiplier": 1 / self.epsilon, "coordinates": coordinates}
