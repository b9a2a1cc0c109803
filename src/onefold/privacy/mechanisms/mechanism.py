"""What noises on single entries share: containers of data, units, domains, hardened noise, the guarantee."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Floats, Integers
from onefold._base.validation import Entry, Flag, OneOf, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.samplers import ByteStream, Lattice, RandomState, byte_stream, generator, lattice_for
from onefold.privacy.sensitivity import INFERRED, Ball, Domain
from onefold.privacy.terms import DELTA, EPSILON, UNITS, Pair, positive

__all__ = ["ApproximateMechanism", "Mechanism", "draw_shape", "unpack"]

SMALLEST_SCALE = 1e-290
# Beyond this many noise scales, adding float64 noise would leave fewer than 12 of its binary digits.
LARGEST_VALUE_IN_SCALES = 2.0**40
Restore = Callable[[Floats], Any]
EXACT_INTEGER = 2**53


def unpack(X: Any, name: str = "X") -> tuple[Floats, Restore]:
    """Return the checked numbers of ``X`` as float64, and a function that gives results the form of ``X``.

    Noise is drawn and added in float64. A float32 result is rounded at the very end: that is a function of
    the private float64 values alone, whereas noise rounded first would leave fewer values to hide among.
    """
    if hasattr(X, "tocsr"):
        raise InvalidInputError(f"{name} is sparse: noise touches every entry, so pass a dense array")
    if isinstance(X, np.ma.MaskedArray):
        raise InvalidInputError(f"{name} is masked: fill or drop the masked entries first")
    values = _numbers(X, name)
    if np.issubdtype(values.dtype, np.integer) and values.size:
        largest = max(int(values.max()), -int(values.min()))
        if largest > EXACT_INTEGER:
            raise InvalidInputError(f"{name} holds whole numbers beyond 2**53: rescale them first")
    floats = values.astype(np.float64)
    if not np.isfinite(floats).all():
        raise InvalidInputError(f"{name} holds NaN or infinite values: fill or drop them first")
    return floats, _restorer(X, values.dtype)


def _numbers(X: Any, name: str) -> AnyArray:
    try:
        values = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        if values.dtype == object:  # extension types of pandas arrive as objects; text fails here
            values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must hold numbers only, in rows of equal length") from None
    if not (np.issubdtype(values.dtype, np.floating) or values.dtype.kind in "iub"):
        raise InvalidInputError(f"{name} must hold real numbers only")
    return values


def _restorer(X: Any, dtype: np.dtype[Any]) -> Restore:
    kept = dtype if dtype in (np.float32, np.float16) else np.dtype(np.float64)

    def cast(result: Floats) -> Any:
        with np.errstate(over="ignore"):
            array = result.astype(kept, copy=False)
        if hasattr(X, "to_numpy") and hasattr(X, "index"):
            heading = {"columns": X.columns} if hasattr(X, "columns") else {"name": X.name}
            return type(X)(array, index=X.index, **heading)
        return array

    return cast


def draw_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape as a tuple of whole numbers, zero allowed."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        if isinstance(size, (bool, np.bool_)) or not isinstance(size, (int, np.integer)) or size < 0:
            raise InvalidInputError("shape must be made of whole numbers of at least 0")
    return tuple(int(size) for size in sizes)


CONSTRAINTS: dict[str, Entry] = {
    "epsilon": EPSILON,
    "unit": OneOf(UNITS),
    "hardened": Flag(),
    "n_features": (Whole(1), None),
}


class Mechanism(ABC):
    """Base class of independent noise added to every entry of a matrix.

    A subclass defines how much noise a sensitivity of one needs (``_ratio``), how the noise is drawn, and
    what is lost when the data change by some multiple of the sensitivity (``_loss``).

    Parameters
    ----------
    epsilon : float
        Privacy loss per unit.
    delta : float
        Probability with which the loss may be exceeded, per unit.
    sensitivity : float, Box or Ball
        Largest change of the unit, or a declared domain to which the data are clipped.
    unit : {"entry", "record"}
        What changes between neighbouring datasets.
    hardened : bool
        Draw exact integers on a dyadic grid, which is safe against attacks on floating-point numbers.
    n_features : int or None
        Entries of a record.

    See Also
    --------
    Laplace : Noise without delta.
    OptimalNoise : Laplace noise that is zero with probability delta.
    AnalyticGaussian : Gaussian noise, no larger than (epsilon, delta) requires.

    Examples
    --------
    >>> from onefold.privacy import Laplace, Mechanism
    >>> isinstance(Laplace(1.0), Mechanism)
    True
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
        self.epsilon, self.unit, self.hardened, self.n_features = epsilon, unit, hardened, n_features
        check_parameters(self, CONSTRAINTS)
        self.epsilon, self.delta, self.hardened = float(epsilon), float(delta), bool(hardened)
        self.domain = sensitivity if isinstance(sensitivity, Domain) else None
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
    def _draw_steps(self, size: int, stream: ByteStream) -> Integers:
        """Exact noise in steps of the lattice."""

    @abstractmethod
    def _loss(self, factor: float, n_entries: int) -> Pair:
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

    @abstractmethod
    def cdf(self, v: ArrayLike) -> Floats:
        """Distribution function of the noise.

        Parameters
        ----------
        v : array-like
            Values of the noise.

        Returns
        -------
        ndarray
            Probability of noise up to and including each value; for hardened noise, before it is rounded to
            the grid.
        """

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
        """Draw noise.

        Parameters
        ----------
        shape : int or tuple of int
            Shape of the result.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the noise predictable: use it in tests
            only.

        Returns
        -------
        ndarray
            Independent noise.
        """
        sizes = draw_shape(shape)
        if not self.hardened:
            return self._draw(sizes, generator(random_state))
        noise = self._draw_steps(math.prod(sizes), byte_stream(random_state))
        return self._lattice.value(noise).reshape(sizes)

    # --- the data -----------------------------------------------------------------------------------------

    def randomise(self, X: Any, random_state: RandomState = None) -> Any:
        """Clip data to the declared domain, if there is one, and add independent noise to every entry.

        Parameters
        ----------
        X : array-like or data frame
            Finite numbers. For ``unit="record"`` a table whose rows are the records.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the noise predictable: use it in tests
            only.

        Returns
        -------
        ndarray or data frame
            The private data. Data frames keep their columns and index. float32 stays float32 (rounded after
            the noise); whole numbers become float64.
        """
        values, restore = unpack(X)
        return restore(self._randomised(values, random_state))

    def randomise_pair(self, X: Any, Y: Any, random_state: RandomState = None) -> tuple[Any, Any]:
        """Add noise to both members of a dataset (X, Y), where neighbours differ in one entry of either.

        A record is a row of X together with its row of Y: count the columns of both for ``guarantee``, and
        declare the domain over both for ``unit="record"``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Features.
        Y : array-like or data frame of shape (n_samples,) or (n_samples, n_outputs)
            Outputs.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the noise predictable: use it in tests
            only.

        Returns
        -------
        X : ndarray or data frame
            Private features.
        Y : ndarray or data frame
            Private outputs.

        References
        ----------
        Document 003, Definition 1.
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
            raise InvalidInputError("values are too large for this sensitivity: centre or rescale the data")
        return values + self._draw(values.shape, generator(random_state))

    # --- the promise --------------------------------------------------------------------------------------

    def guarantee(self, n_features: int, n_samples: int | None = None) -> Guarantee:
        """State what a release promises, per entry and per record.

        Parameters
        ----------
        n_features : int
            Entries of a row.
        n_samples : int or None, default=None
            Number of rows, for the expected number of entries released without noise.

        Returns
        -------
        Guarantee
            The promise.
        """
        check_parameter("n_features", n_features, Whole(1))
        check_parameter("n_samples", n_samples, (Whole(0), None))
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
        """Return what an :class:`Event` can say beyond (epsilon, delta).

        Parameters
        ----------
        unit : {"entry", "record"}
            What changes between neighbouring datasets.
        n_features : int
            Entries of a row.

        Returns
        -------
        dict
            Fields of the event: the family of the noise and its size, or nothing.
        """


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
        check_parameter("delta", delta, DELTA)
        # By name, since the next class in line may be one without delta (OptimalNoise is also Laplace).
        Mechanism.__init__(self, epsilon, delta, sensitivity, unit, hardened, n_features)
