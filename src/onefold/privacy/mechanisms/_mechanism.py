"""What all additive noises share: units, domains, containers, the hardened path, the guarantee."""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import check_delta, check_epsilon, check_unit, positive
from onefold.privacy._streams import ByteStream, RandomState, byte_stream, generator
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.mechanisms._data import Floats, draw_shape, unpack
from onefold.privacy.mechanisms._lattice import Lattice, lattice_for
from onefold.privacy.sensitivity import INFERRED, Ball, Domain

__all__ = ["ApproximateMechanism", "Mechanism"]

SMALLEST_SCALE = 1e-290
# Beyond this many noise scales, adding float64 noise would leave fewer than 12 of its binary digits.
LARGEST_VALUE_IN_SCALES = 2.0**40


class Mechanism(ABC):
    """Independent noise added to every entry of a matrix.

    Subclasses say how much noise a unit of sensitivity needs (``_ratio``), how it is drawn, and what is lost
    when the data change by some multiple of the sensitivity (``_loss``).
    """

    norm: ClassVar[int]  # the sensitivity of a record is measured in this norm

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float | Domain,
        unit: str,
        hardened: bool,
        n_features: int | None,
    ) -> None:
        self.epsilon, self.delta, self.unit, self.hardened = epsilon, delta, check_unit(unit), bool(hardened)
        self.domain = sensitivity if isinstance(sensitivity, Domain) else None
        check_whole_number("n_features", n_features, or_none=True)
        declared = None if self.domain is None else self.domain.n_features
        if None not in (declared, n_features) and declared != n_features:
            raise InvalidInputError(f"n_features is {n_features}, but the domain has {declared}")
        self.n_features = n_features if declared is None else declared
        self.sensitivity = self._declared_change(sensitivity)
        self._check_scale()

    def _declared_change(self, sensitivity: float | Domain) -> float:
        if not isinstance(sensitivity, Domain):
            return positive("sensitivity", sensitivity)
        if self.unit == "entry":
            if isinstance(sensitivity, Ball):
                raise InvalidInputError("a Ball shortens whole rows: use unit='record', or a Box")
            return sensitivity.entry
        return sensitivity.l1 if self.norm == 1 else sensitivity.l2

    def _check_scale(self) -> None:
        if self.unit == "record" and self.hardened:
            self._known_features()
        if not SMALLEST_SCALE < self.sensitivity * self._ratio < math.inf:
            raise InvalidInputError("the noise would be too small or too large for float64: rescale the data")
        if self.hardened:
            self._lattice  # noqa: B018  # refuses what it cannot do now rather than when data arrive

    def _known_features(self) -> int:
        if self.n_features is None:
            raise InvalidInputError("unit='record' needs n_features here (or a domain that knows it)")
        return self.n_features

    def __repr__(self) -> str:
        source = f"{self.sensitivity:g}" if self.domain is None else repr(self.domain)
        return (
            f"{type(self).__name__}(epsilon={self.epsilon:g} per {self.unit}, delta={self.delta:g}, "
            f"sensitivity={source}, hardened={self.hardened})"
        )

    # --- the noise ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _ratio(self) -> float:
        """Scale of the noise for a sensitivity of one."""

    @abstractmethod
    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Ordinary noise."""

    @abstractmethod
    def _draw_steps(self, size: int, stream: ByteStream) -> NDArray[np.int64]:
        """Exact noise in steps of the lattice."""

    @abstractmethod
    def _loss(self, factor: float, n_entries: int) -> tuple[float, float]:
        """(epsilon, delta) when ``n_entries`` change by ``factor`` times the sensitivity together."""

    @property
    @abstractmethod
    def expected_magnitude(self) -> float:
        """Mean absolute noise of an entry."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Mean squared noise of an entry."""

    @abstractmethod
    def density(self, v: ArrayLike) -> Floats:
        """Density of the noise at ``v`` (hardened: of the noise before it is rounded to the grid)."""

    @abstractmethod
    def cdf(self, v: ArrayLike) -> Floats:
        """Probability of noise up to and including ``v`` (hardened: before it is rounded to the grid)."""

    @property
    def scale(self) -> float:
        """Scale of the noise; hardened noise is larger by about one part in a million."""
        return self._effective_sensitivity * self._ratio

    @property
    def untouched_share(self) -> float:
        """Probability that an entry gets no noise at all, by design."""
        return 0.0

    @property
    def _effective_sensitivity(self) -> float:
        return float(self._lattice.steps) * self._lattice.step if self.hardened else self.sensitivity

    @cached_property
    def _lattice(self) -> Lattice:
        n_entries = 1 if self.unit == "entry" else self._known_features()
        return lattice_for(self.sensitivity, self._ratio, n_entries, self.norm)

    def sample(self, shape: int | tuple[int, ...], random_state: RandomState = None) -> Floats:
        """Noise of the given shape. Without ``random_state`` it comes from the entropy of the system.

        A seed makes the noise predictable, so it is for tests only.
        """
        sizes = draw_shape(shape)
        if not self.hardened:
            return self._draw(sizes, generator(random_state))
        noise = self._draw_steps(math.prod(sizes), byte_stream(random_state))
        return self._lattice.value(noise).reshape(sizes)

    # --- the data -----------------------------------------------------------------------------------------

    def randomise(self, X: Any, random_state: RandomState = None) -> Any:
        """``X`` with independent noise on every entry, after clipping to the declared domain if there is one.

        Data frames keep their columns and index. float32 stays float32 (rounded after the noise); whole
        numbers become float64.
        """
        values, restore = unpack(X)
        return restore(self._randomised(values, random_state))

    def randomise_pair(self, X: Any, Y: Any, random_state: RandomState = None) -> tuple[Any, Any]:
        """Both members of a dataset (X, Y) with noise (003 Def. 1): neighbours differ in one entry of either.

        A record is a row of X together with its row of Y: for ``guarantee`` count the columns of both, and
        for ``unit="record"`` declare the domain over both.
        """
        left, restore_left = unpack(X, "X")
        right, restore_right = unpack(Y, "Y")
        if left.ndim != 2 or right.ndim not in (1, 2) or len(left) != len(right):
            raise InvalidInputError("X must be a 2D table, and Y must have as many rows")
        both = np.hstack([left, right if right.ndim == 2 else right[:, np.newaxis]])
        noisy = self._randomised(both, random_state)
        width = left.shape[1]
        return restore_left(noisy[:, :width]), restore_right(noisy[:, width:].reshape(right.shape))

    def _randomised(self, values: Floats, random_state: RandomState) -> Floats:
        if self.unit == "record" and values.ndim != 2:
            raise InvalidInputError("unit='record' needs a 2D table of rows. Reshape your data")
        if self.unit == "record" and self.n_features not in (None, values.shape[1]):
            raise InvalidInputError(f"expected {self.n_features} features, the data have {values.shape[1]}")
        if self.domain is not None:
            values = np.asarray(self.domain.clip(values), dtype=np.float64)
        if self.hardened:
            steps = self._lattice.round(values)
            noise = self._draw_steps(values.size, byte_stream(random_state))
            return self._lattice.value(steps + noise.reshape(values.shape))
        if values.size and np.abs(values).max() > LARGEST_VALUE_IN_SCALES * self.scale:
            # Float addition would round the noise away, and release the values as they are.
            raise InvalidInputError(
                "values are too large for this sensitivity: centre or rescale the data first"
            )
        return values + self._draw(values.shape, generator(random_state))

    # --- the promise --------------------------------------------------------------------------------------

    def guarantee(self, n_features: int, n_samples: int | None = None) -> Guarantee:
        """What a release of rows of ``n_features`` entries promises, per entry and per record."""
        check_whole_number("n_features", n_features)
        check_whole_number("n_samples", n_samples, at_least=0, or_none=True)
        if self.unit == "record" and self.n_features not in (None, n_features):
            raise InvalidInputError(f"the noise was calibrated for {self.n_features} features")
        entry, record = self._entry_factor(), self._record_factor(n_features)
        share = self.untouched_share
        untouched = 0.0 if share == 0 else None if n_samples is None else share * n_samples * n_features
        return Guarantee(
            unit=self.unit,
            entry=self._loss(entry, 1),
            record=self._loss(record, n_features),
            n_features=n_features,
            untouched_entries=untouched,
            voided_by=(INFERRED,) if self.domain is not None and self.domain.inferred else (),
            mechanism=self._description(),
            sensitivity=self.sensitivity,
        )

    def _description(self) -> str:
        return f"{type(self).__name__} of scale {self.scale:.4g}{', hardened' * self.hardened}"

    def _entry_factor(self) -> float:
        """Change of one entry, in units of the sensitivity."""
        if self.unit == "entry" or self.domain is None:
            return 1.0  # of a record nothing but its size is known: one entry may hold all of it
        return min(1.0, self._factor(self.domain.entry, 1))

    def _record_factor(self, n_features: int) -> float:
        """Change of a whole row, in units of the sensitivity."""
        if self.unit == "record":
            return 1.0
        all_equal = float(n_features) if self.norm == 1 else math.sqrt(n_features)
        if self.domain is None or self.domain.n_features is None:
            return all_equal
        if n_features != self.domain.n_features:
            raise InvalidInputError(f"the domain has {self.domain.n_features} features")
        size = self.domain.l1 if self.norm == 1 else self.domain.l2
        return min(all_equal, self._factor(size, n_features))

    def _factor(self, change: float, n_entries: int) -> float:
        if not self.hardened:
            return change / self.sensitivity
        return float(self._lattice.apart(change, n_entries, self.norm) / self._lattice.steps)

    @abstractmethod
    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """What an :class:`~onefold.privacy.Event` can say beyond (epsilon, delta)."""


class ApproximateMechanism(Mechanism):
    """A noise whose guarantee has a delta above zero."""

    def __init__(
        self,
        epsilon: float,
        delta: float = 1e-5,
        sensitivity: float | Domain = 1.0,
        *,
        unit: str = "entry",
        hardened: bool = False,
        n_features: int | None = None,
    ) -> None:
        # By name, since the next class in line may be one without delta (OptimalNoise is also Laplace).
        Mechanism.__init__(
            self, check_epsilon(epsilon), check_delta(delta), sensitivity, unit, hardened, n_features
        )
