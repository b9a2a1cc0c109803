"""The Gaussian noise that tells least about a row for its size (002 Thm 2.4)."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import check_delta, check_unit, positive
from onefold.privacy._hardened import rounded_gaussian
from onefold.privacy._streams import RandomState, byte_stream, generator
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.mechanisms._data import Floats
from onefold.privacy.mechanisms._lattice import Lattice, lattice_for
from onefold.privacy.mechanisms._row_noise import RowNoise
from onefold.privacy.mechanisms._weights import Weights
from onefold.privacy.sensitivity import Domain

__all__ = ["FisherGaussian"]

Pair = tuple[float, float]


class FisherGaussian(RowNoise):
    r"""Gaussian noise of covariance :math:`\Pi^{-1/2} / \sqrt\lambda` on every row (002 Thm 2.4).

    Among all noises it has the smallest :math:`\mathrm{Tr}(\Pi^{-1} I) + \lambda \mathrm{Tr}(V)`, I being the
    Fisher information about the row and V the second moments of the noise.

    Parameters
    ----------
    lam : weight of utility against privacy; the noise shrinks as :math:`\lambda^{-1/4}`
    Pi : None for the identity, one positive number per column, or a positive definite matrix. Columns in
        other units need other weights: noise in proportion to a column's width takes width to the power -4
    delta : failure probability at which epsilon is stated
    sensitivity : the largest change of any entry of a record (a number), or a declared domain, to which rows
        are clipped before the noise; with ``Pi`` the domain must be a Box. 002 Thm 2.5 takes 1 without
        saying so
    hardened : noise safe against attacks on floating point; for a diagonal ``Pi``

    Guarantees
    ----------
    * (epsilon, delta) local differential privacy of a whole record, by the exact formula for Gaussian noise
      at :math:`\mu = \lambda^{1/4} \max \|\Pi^{1/4} d\|_2` over the changes d that the sensitivity allows.
      ``documented_epsilon`` is what 002 Thm 2.5 says; it is **too small** once mu exceeds about 3.4 (at
      delta 1e-5), and nothing here counts it.
    * No unbiased estimate of an entry of column j from the release has a standard error below
      ``standard_errors(p)[j]`` (Cramér and Rao). Somebody who guesses from other knowledge may do better.
    * :math:`E\|\Pi^{1/2}(x - \hat x)\|^2 \ge \mathrm{Tr}(\Pi^{1/2}) / \sqrt\lambda`. 002 eq. 4 prints Pi in
      place of its root, and a second, weaker bound.
    * The ordinary sampler has these guarantees in exact arithmetic only; the hardened one on a computer.
    * Labels, class sizes and the number of rows are not covered.

    Examples
    --------
    >>> noise = FisherGaussian(1e-2)
    >>> round(noise.estimation_bound(2), 6), noise.standard_errors(2).round(4).tolist()
    (20.0, [3.1623, 3.1623])
    """

    def __init__(
        self,
        lam: float,
        Pi: ArrayLike | None = None,
        *,
        delta: float = 1e-5,
        sensitivity: float | Domain = 1.0,
        hardened: bool = False,
    ) -> None:
        self.lam, self.Pi, self.delta = positive("lam", lam), Pi, check_delta(delta)
        self.weights, self.hardened = Weights(Pi), bool(hardened)
        super().__init__(sensitivity, self.weights.n_features)
        if hardened and not self.weights.independent:
            raise InvalidInputError("hardened noise needs independent columns: a diagonal Pi")
        self._check_scales(self._scales(self.n_features or 1))

    @classmethod
    def from_epsilon(
        cls,
        epsilon: float,
        n_features: int,
        Pi: ArrayLike | None = None,
        *,
        delta: float = 1e-5,
        **options: Any,
    ) -> Self:
        """The noise whose record of ``n_features`` entries is (epsilon, delta) private."""
        unit = cls(1.0, Pi, delta=delta, **options)
        mu = mu_of(epsilon, delta)
        noise = cls((mu / unit.mu(n_features)) ** 4, Pi, delta=delta, **options)
        while noise.mu(n_features) > mu:  # the root may have rounded up; hardened noise pays for its grid
            noise = cls(
                noise.lam * (mu / noise.mu(n_features)) ** 4 * (1 - 2.0**-50), Pi, delta=delta, **options
            )
        return noise

    @classmethod
    def from_error(
        cls, error: float, column: int, n_features: int, Pi: ArrayLike | None = None, **options: Any
    ) -> Self:
        """The noise that keeps estimates of one column at least ``error`` away (root mean square)."""
        unit = cls(1.0, Pi, **options).standard_errors(n_features)
        if not 0 <= column < len(unit):
            raise InvalidInputError("column must be the position of a column")
        return cls((float(unit[column]) / positive("error", error)) ** 4, Pi, **options)

    def __repr__(self) -> str:
        return f"FisherGaussian(lam={self.lam:g}, delta={self.delta:g}, hardened={self.hardened})"

    # --- the noise ----------------------------------------------------------------------------------------

    def covariance(self, n_features: int) -> Floats:
        """Covariance of the noise on a row (002 eq. 9)."""
        return self.weights.matrix(-0.5, self._width(n_features)) / math.sqrt(self.lam)

    def fisher_information(self, n_features: int) -> Floats:
        """What the release tells about a row (002 eq. 5): the inverse of the covariance."""
        return self.weights.matrix(0.5, self._width(n_features)) * math.sqrt(self.lam)

    def standard_errors(self, n_features: int) -> Floats:
        """Least root mean square error of an unbiased estimate, per column and in its units."""
        return self._scales(self._width(n_features))

    def estimation_bound(self, n_features: int) -> float:
        """Tr(Pi^(1/2)) / sqrt(lam), the least sum of squared errors in the weights of Pi."""
        return float(self.weights.powers(0.5, self._width(n_features)).sum()) / math.sqrt(self.lam)

    @property
    def variance(self) -> float:
        """Mean squared noise, averaged over the columns."""
        return float(np.mean(self._scales(self.n_features or 1) ** 2))

    @property
    def expected_magnitude(self) -> float:
        """Mean absolute noise, averaged over the columns."""
        return float(np.mean(self._scales(self.n_features or 1))) * math.sqrt(2 / math.pi)

    def _scales(self, n_features: int) -> Floats:
        return self.weights.noise_scales(self.lam, n_features)

    def _draw(self, shape: tuple[int, ...], random_state: RandomState) -> Floats:
        if self.hardened:
            return self._in_steps(np.zeros(shape), random_state)
        standard = generator(random_state).normal(size=shape)
        return self.weights.times(standard, -0.25) * math.pow(self.lam, -0.25)

    def _added(self, values: Floats, random_state: RandomState) -> Floats:
        if self.hardened:
            return self._in_steps(values, random_state)
        return values + self._draw(values.shape, random_state)

    # --- the hardened noise: every column on a dyadic grid of its own --------------------------------------

    def _grids(self, n_features: int) -> list[tuple[Lattice, float]]:
        """Grid and standard deviation of each column."""
        changes, scales = self._changes(n_features), self._scales(n_features)
        known: dict[Pair, Lattice] = {}
        for pair in zip(changes.tolist(), scales.tolist(), strict=True):
            if pair not in known:
                known[pair] = lattice_for(pair[0], pair[1] / pair[0], 1, 2)
        return [(known[pair], pair[1]) for pair in zip(changes.tolist(), scales.tolist(), strict=True)]

    def _in_steps(self, values: Floats, random_state: RandomState) -> Floats:
        stream, result = byte_stream(random_state), np.empty(values.shape)
        columns = values.reshape(-1, values.shape[-1])
        for j, (grid, scale) in enumerate(self._grids(values.shape[-1])):
            sigma = scale / grid.step * (1 + 2.0**-50)  # the division may have rounded down
            noise = rounded_gaussian(stream, sigma, len(columns))
            result.reshape(columns.shape)[:, j] = grid.value(grid.round(columns[:, j]) + noise)
        return result

    # --- the promise --------------------------------------------------------------------------------------

    def mu(self, n_features: int) -> float:
        """How far apart two records lie, in standard deviations of the noise (Gaussian privacy)."""
        return self._far(self._reach(self._width(n_features)), n_features)

    def _far(self, reach: float, n_features: int) -> float:
        distance = math.pow(self.lam, 0.25) * reach
        if self.hardened:  # rounding moves the difference of two values by a step at most
            distance += math.hypot(*(grid.step / scale for grid, scale in self._grids(n_features)))
        return distance

    def _reach(self, n_features: int) -> float:
        """Largest length of Pi^(1/4) d over the differences d of two records."""
        if self.domain is not None and self.weights.n_features is None:
            return self.domain.l2
        return self.weights.reach(np.broadcast_to(self._changes(n_features), n_features))

    def documented_epsilon(self, n_features: int) -> float:
        """What 002 Thm 2.5 states, for comparison only: too small once ``mu`` exceeds about 3.4."""
        return self.mu(n_features) * (1.0 + math.sqrt(2.0 * math.log(1.0 / self.delta)))

    def _entry_mu(self, n_features: int) -> float:
        if self.domain is not None and self.weights.n_features is None:
            reach = self.domain.entry
        else:
            reach = float(np.max(self._changes(n_features) * np.sqrt(self.weights.powers(0.5, n_features))))
        return min(self.mu(n_features), self._far(reach, n_features))

    def _losses(self, n_features: int) -> tuple[Pair, Pair]:
        entry, record = self._entry_mu(n_features), self.mu(n_features)
        return (epsilon_of(entry, self.delta), self.delta), (epsilon_of(record, self.delta), self.delta)

    def _description(self) -> str:
        return f"FisherGaussian of lam {self.lam:.4g}{', hardened' * self.hardened}"

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """One Gaussian variable: only the length of the change matters."""
        width = self._width(n_features)
        mu = self._entry_mu(width) if check_unit(unit) == "entry" else self.mu(width)
        return {"family": "gaussian", "noise_multiplier": 1.0 / mu, "coordinates": 1}
