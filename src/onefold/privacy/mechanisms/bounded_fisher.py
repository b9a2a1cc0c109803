"""The least informative noise that keeps within bounds (002 Thm 2.6, Cor. 2.7)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import check_delta, positive
from onefold.privacy._streams import RandomState, generator
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.mechanisms._data import Floats
from onefold.privacy.mechanisms._ground_state import GroundState, ground_state
from onefold.privacy.mechanisms._row_noise import RowNoise
from onefold.privacy.mechanisms._shift import shift_epsilon
from onefold.privacy.mechanisms._weights import Weights
from onefold.privacy.sensitivity import Domain

__all__ = ["BoundedFisherNoise"]

Pair = tuple[float, float]


class BoundedFisherNoise(RowNoise):
    r"""Noise between bounds, so that an age stays positive (002 Cor. 2.7).

    Among all noises on the box of the bounds it has the smallest :math:`\mathrm{Tr}(\Pi^{-1} I) + \lambda
    \mathrm{Tr}(V)`. Its columns are independent; the density of each is the square of the ground state of a
    Schrödinger operator. The document states it in coordinates scaled by :math:`\Pi^{1/2}`.

    Parameters
    ----------
    lam : weight of utility against privacy
    bounds : (low, high) of the noise itself, for all columns or one pair per column; infinite ones are
        allowed. ``onefold.release.noise_bounds`` derives them from the range of a column
    Pi : None for the identity, or one positive number per column
    delta, sensitivity : as for :class:`~onefold.privacy.FisherGaussian`; the domain must be a Box

    Guarantees
    ----------
    * The noise never leaves its bounds.
    * No unbiased estimate of an entry of column j has a standard error below ``standard_errors(p)[j]``
      (Cramér and Rao).
    * **Whoever sees a value knows the original to within the bounds.** An (epsilon, delta) exists only if
      the noise reaches the edge of what a changed value could not have produced with probability of at most
      delta: bounds much wider than the change. Otherwise ``guarantee`` says that there is none.
    * Where one exists it is exact for one entry. For a record it is the sum over the columns, which share
      delta; columns whose bounds never matter count as one Gaussian.
    * Unequal bounds give the noise a mean other than zero: ``mean(p)`` is public and may be subtracted.
    * There is no sampler hardened against floating-point attacks for this noise.
    * Labels, class sizes and the number of rows are not covered.

    Examples
    --------
    >>> noise = BoundedFisherNoise(1.0, (-0.5, 0.5))
    >>> bool(np.abs(noise.sample((1000, 3), random_state=0)).max() <= 0.5), round(noise.variance, 4)
    (True, 0.0327)
    """

    def __init__(
        self,
        lam: float,
        bounds: ArrayLike,
        Pi: ArrayLike | None = None,
        *,
        delta: float = 1e-5,
        sensitivity: float | Domain = 1.0,
    ) -> None:
        self.lam, self.Pi, self.delta = positive("lam", lam), Pi, check_delta(delta)
        self.weights, self.bounds = Weights(Pi), _checked_bounds(bounds)
        if not self.weights.independent:
            raise InvalidInputError("bounded noise needs independent columns: a diagonal Pi")
        given = [
            n for n in (self.weights.n_features, None if self.bounds.ndim == 1 else len(self.bounds)) if n
        ]
        if len(set(given)) > 1:
            raise InvalidInputError("bounds and Pi must have one entry per column")
        super().__init__(sensitivity, given[0] if given else None)
        self._check_scales(self._free_scales(self.n_features or 1))
        self._states(self.n_features or 1)  # refuses now what it could not draw later

    def __repr__(self) -> str:
        return f"BoundedFisherNoise(lam={self.lam:g}, delta={self.delta:g})"

    def _free_scales(self, n_features: int) -> Floats:
        """Standard deviations of the noise without bounds (Thm 2.4)."""
        return np.sqrt(self.weights.powers(-0.5, n_features)) * math.pow(self.lam, -0.25)

    def _states(self, n_features: int) -> list[tuple[GroundState, float]]:
        """The noise of each column in its own units, and that unit."""
        scales = self._free_scales(n_features)
        bounds = np.broadcast_to(self.bounds, (n_features, 2)) / scales[:, np.newaxis]
        pairs = zip(bounds.tolist(), scales.tolist(), strict=True)
        return [(ground_state(low, high), scale) for (low, high), scale in pairs]

    def _per_column(self, what: Callable[[GroundState, float], float], n_features: int) -> Floats:
        return np.array([what(state, scale) for state, scale in self._states(self._width(n_features))])

    # --- the noise ----------------------------------------------------------------------------------------

    def standard_errors(self, n_features: int) -> Floats:
        """Least root mean square error of an unbiased estimate, per column and in its units."""
        return self._per_column(lambda state, s: s / math.sqrt(state.fisher_information), n_features)

    def fisher_information(self, n_features: int) -> Floats:
        """What the release tells about a row (002 eq. 5)."""
        return np.diag(self._per_column(lambda state, s: state.fisher_information / s**2, n_features))

    def mean(self, n_features: int) -> Floats:
        """Mean of the noise, which bounds of unequal size shift away from zero."""
        return self._per_column(lambda state, s: s * state.mean, n_features)

    def second_moments(self, n_features: int) -> Floats:
        """Mean square of the noise of each column."""
        return self._per_column(lambda state, s: s**2 * state.second_moment, n_features)

    @property
    def variance(self) -> float:
        """Mean squared noise, averaged over the columns."""
        return float(np.mean(self.second_moments(self.n_features or 1)))

    @property
    def expected_magnitude(self) -> float:
        """Mean absolute noise, averaged over the columns."""
        return float(
            np.mean(self._per_column(lambda state, s: s * state.mean_magnitude, self.n_features or 1))
        )

    def density(self, v: ArrayLike, column: int = 0) -> Floats:
        """Density of the noise of one column."""
        state, scale = self._states(self.n_features or column + 1)[column]
        return state.density(np.asarray(v, dtype=np.float64) / scale) / scale

    def cdf(self, v: ArrayLike, column: int = 0) -> Floats:
        """Probability of noise up to ``v`` in one column."""
        state, scale = self._states(self.n_features or column + 1)[column]
        return state.cdf(np.asarray(v, dtype=np.float64) / scale)

    def _draw(self, shape: tuple[int, ...], random_state: RandomState) -> Floats:
        rng, noise = generator(random_state), np.empty(shape)
        columns = noise.reshape(-1, shape[-1])
        bounds = np.broadcast_to(self.bounds, (shape[-1], 2))
        for j, (state, scale) in enumerate(self._states(shape[-1])):
            drawn = scale * state.sample(len(columns), rng)
            columns[:, j] = np.clip(drawn, *bounds[j])  # the product may have rounded outwards
        return noise

    # --- the promise --------------------------------------------------------------------------------------

    def _losses(self, n_features: int) -> tuple[Pair, Pair]:
        changes = self._changes(n_features).tolist()
        columns = [
            (state, change / scale)
            for (state, scale), change in zip(self._states(n_features), changes, strict=True)
        ]
        entry = max(shift_epsilon(state, change, self.delta) for state, change in columns)
        # Columns whose bounds never matter are one Gaussian together: squares of their changes add up.
        free = math.hypot(*(change for state, change in columns if state.free))
        parts = [(state, change) for state, change in columns if not state.free]
        share = self.delta / (len(parts) + bool(free))
        record = sum(shift_epsilon(state, change, share) for state, change in parts)
        if free:
            record += epsilon_of(free, share)
        return (entry, self.delta), (record, self.delta)

    def _description(self) -> str:
        return f"BoundedFisherNoise of lam {self.lam:.4g}"

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Nothing beyond (epsilon, delta): no accountant knows this noise."""
        return {}


def _checked_bounds(bounds: ArrayLike) -> Floats:
    try:
        values = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("bounds must be a pair of numbers, or one pair per column") from None
    if values.ndim not in (1, 2) or values.shape[-1] != 2 or values.size == 0:
        raise InvalidInputError("bounds must be a pair (low, high), or one pair per column")
    if not np.all(values[..., 0] < values[..., 1]):
        raise InvalidInputError("every lower bound of the noise must lie below the upper one")
    return values
