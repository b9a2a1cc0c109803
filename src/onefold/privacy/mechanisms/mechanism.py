"""What noises on single entries share: containers of data, units, domains, hardened noise, the guarantee."""

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Floats, Integers
from onefold._base.validation import Entry, Number, OneOf, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.privacy.domains import INFERRED, Ball, Domain, Frozen
from onefold.privacy.guarantee import FLOAT_SAMPLER, Guarantee
from onefold.privacy.samplers import (
    SAMPLERS,
    ByteStream,
    Lattice,
    RandomState,
    byte_stream,
    lattice_for,
)
from onefold.privacy.terms import (
    DELTA_OR_ZERO,
    EPSILON,
    UNITS,
    Pair,
    multiplied,
    number,
    positive,
    root,
    round_up,
    shown_limit,
)

__all__ = ["AddedNoise", "Mechanism", "checked_values", "draw_shape"]

SMALLEST_SCALE = 1e-290
# Beyond this many noise scales, adding float64 noise would leave fewer than 12 of its binary digits.
LARGEST_VALUE_IN_SCALES = 2.0**40
Restore = Callable[[Floats], Any]
EXACT_INTEGER = 2**53


def checked_values(X: Any, name: str = "X") -> tuple[Floats, Restore]:
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
    # The type that unequal columns of a frame have in common can depend on a single record.
    equal = not hasattr(X, "columns") or all(kind == dtype for kind in X.dtypes)
    kept = dtype if equal and dtype in (np.float32, np.float16) else np.dtype(np.float64)

    def cast(result: Floats) -> Any:
        with np.errstate(over="ignore"):
            array = result.astype(kept, copy=False)
        if hasattr(X, "to_numpy") and hasattr(X, "index"):
            heading = {"columns": X.columns} if hasattr(X, "columns") else {"name": X.name}
            return type(X)(array, **heading)  # an index may name the people: none is passed on
        return array

    return cast


def draw_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape as a tuple of whole numbers, zero allowed."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not all(map(Whole(0).accepts, sizes)):
        raise InvalidInputError("shape must be made of whole numbers of at least 0")
    return tuple(int(size) for size in sizes)


CONSTRAINTS: dict[str, Entry] = {
    "epsilon": EPSILON,
    "unit": OneOf(UNITS),
    "n_features": (Whole(1), None),
    "rows_per_person": (Whole(1), None),
}
NO_DOMAIN = (
    "declare what may change: sensitivity=Box(low, high) clips to the ranges of the columns, a number is "
    "your word for the largest change"
)


class AddedNoise(Frozen):
    """Base class of all noise on numbers: what may change, how it is drawn, and what it is added to."""

    rows_per_person: int | None = None

    def _declare(self, sensitivity: float | Domain | None, sampler: str) -> None:
        """Take a domain, or the caller's word for the largest change."""
        if sensitivity is None:
            raise InvalidInputError(NO_DOMAIN)
        check_parameter("sampler", sampler, OneOf(SAMPLERS))
        self.sampler = sampler
        self.domain = sensitivity if isinstance(sensitivity, Domain) else None
        self._word = 0.0 if isinstance(sensitivity, Domain) else positive("sensitivity", sensitivity)

    @property
    def hardened(self) -> bool:
        """Whether the noise is exact on a computer, as its guarantee needs."""
        return self.sampler == "hardened"

    @property
    def _voided_by(self) -> tuple[str, ...]:
        """Reasons why the noise promises nothing."""
        inferred = self.domain is not None and self.domain.inferred
        return (INFERRED,) * inferred + (FLOAT_SAMPLER,) * (not self.hardened)

    def randomise(self, X: Any, random_state: RandomState = None) -> Any:
        """Clip data to the declared domain, if there is one, and add independent noise to every entry.

        Parameters
        ----------
        X : array-like or data frame
            Finite numbers. Where the unit is no entry, a table whose rows are the records.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the noise predictable: use it in tests
            only.

        Returns
        -------
        ndarray or data frame
            The private data. Data frames keep their columns, not their index, which may name people. float32
            stays float32 (rounded after the noise); whole numbers become float64.
        """
        values, restore = checked_values(X)
        return restore(self._randomised(values, random_state))

    @abstractmethod
    def _randomised(self, values: Floats, random_state: RandomState) -> Floats:
        """Values of the domain with noise."""

    def guarantee(
        self, n_features: int, n_samples: int | None = None, rows_per_person: int | None = None
    ) -> Guarantee:
        """State what a release with noise from the operating system promises.

        Parameters
        ----------
        n_features : int
            Entries of a row.
        n_samples : int or None, default=None
            Number of rows, for the expected number of entries released without noise.
        rows_per_person : int or None, default=None
            Largest number of records of a person; None takes what the noise was made for, if anything.

        Returns
        -------
        Guarantee
            The promise.
        """
        check_parameter("n_features", n_features, Whole(1))
        check_parameter("n_samples", n_samples, (Whole(0), None))
        check_parameter("rows_per_person", rows_per_person, (Whole(1), None))
        return self._promise(n_features, n_samples, rows_per_person or self.rows_per_person)

    @abstractmethod
    def _promise(self, n_features: int, n_samples: int | None, n_rows: int | None) -> Guarantee:
        """The promise, of parameters that were checked."""

    def accounting(self, unit: str, n_features: int) -> dict[str, Any]:
        """Return what an :class:`Event` can say beyond (epsilon, delta).

        Parameters
        ----------
        unit : {"entry", "record", "person"}
            What changes between neighbouring datasets.
        n_features : int
            Entries of a row.

        Returns
        -------
        dict
            Fields of the event: the family of the noise and its size, or nothing.
        """
        return {}


class Mechanism(AddedNoise):
    """Base class of independent noise added to every entry of a matrix.

    A subclass defines how much noise a sensitivity of one needs (``_ratio``), how the noise is drawn, and
    what is lost when the data change by some multiple of the sensitivity (``_loss``).

    Nobody can change a mechanism after it was made.

    Parameters
    ----------
    epsilon : float
        Privacy loss per unit.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded, per unit.
    sensitivity : float, Box, Ball or None, default=None
        Required: a declared domain to which the data are clipped, or the largest change of an entry
        (``unit="entry"``) or of a record as the caller's word, which nothing checks.
    unit : {"entry", "record", "person"}, default="entry"
        What changes between neighbouring datasets.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on a dyadic grid. "float" is open to attacks on floating-point
        numbers: its guarantee is void.
    n_features : int or None, default=None
        Entries of a record; None takes it from the domain, or from the data when they come.
    rows_per_person : int or None, default=None
        Largest number of records of a person, for ``unit="person"`` or for a line about persons.

    See Also
    --------
    Laplace : Noise without delta.
    OptimalNoise : Laplace noise that is zero with probability delta.
    AnalyticGaussian : Gaussian noise, no larger than (epsilon, delta) requires.

    Examples
    --------
    >>> from onefold.privacy import Laplace, Mechanism
    >>> isinstance(Laplace(1.0, sensitivity=1.0), Mechanism)
    True
    """

    norm: ClassVar[int]  # the sensitivity of a record is measured in this norm
    _moments: Pair  # mean absolute and mean squared noise of scale one, where it is not zero by design
    _deltas: ClassVar[Number] = DELTA_OR_ZERO

    def __init__(
        self,
        epsilon: float,
        delta: float = 1e-5,
        sensitivity: float | Domain | None = None,
        *,
        unit: str = "entry",
        sampler: str = "hardened",
        n_features: int | None = None,
        rows_per_person: int | None = None,
    ) -> None:
        self.epsilon, self.unit, self.rows_per_person = epsilon, unit, rows_per_person
        self.n_features = n_features
        check_parameters(self, CONSTRAINTS)
        self.epsilon, self.delta = float(epsilon), number("delta", delta, self._deltas)
        self._declare(sensitivity, sampler)
        if unit == "person" and rows_per_person is None:
            raise InvalidInputError("unit='person' needs rows_per_person: the most records a person has")
        if unit == "entry" and isinstance(self.domain, Ball):
            raise InvalidInputError("a Ball shortens whole rows: use unit='record', or a Box")
        if self.domain is not None:
            self.domain = self.domain if n_features is None else self.domain.for_features(n_features)
            self.n_features = self.domain.n_features
        self._check_scale()

    @cached_property
    def sensitivity(self) -> float:
        """Largest change of an entry (``unit="entry"``) or of a record, in the norm of the noise."""
        if self.domain is None:
            return self._word
        if self.unit == "entry":
            return self.domain.entry_in(self.norm)
        return self.domain.l1 if self.norm == 1 else self.domain.l2

    @cached_property
    def _change(self) -> float:
        """Largest change of the unit, rounded up."""
        return multiplied(self.sensitivity, self._spread(self._unit_rows()))

    def _spread(self, n_rows: int) -> float:
        """Size of a change of so many rows, in units of the change of one."""
        return float(n_rows) if self.norm == 1 else root(n_rows)

    def _unit_rows(self) -> int:
        """Rows that change together in the unit."""
        return self.rows_per_person or 1 if self.unit == "person" else 1

    def _check_scale(self) -> None:
        if self.unit != "entry" and self.n_features is None:
            return  # the data will say how many entries a record has
        if not SMALLEST_SCALE < self._change * self._ratio < math.inf:
            raise InvalidInputError("the noise would be too small or too large for float64: rescale the data")
        if self.hardened:
            self._lattice  # noqa: B018  # refuses what it cannot do now rather than when data arrive

    def _unit_entries(self) -> int:
        """Entries that change together in the unit."""
        if self.unit == "entry":
            return self._cell_entries
        if self.n_features is None:
            raise InvalidInputError(f"unit='{self.unit}' needs n_features here (or a domain that knows it)")
        return self.n_features * self._unit_rows()

    @property
    def _cell_entries(self) -> int:
        """Entries that one cell of a table moves."""
        return 1 if self.domain is None else self.domain.cell_entries

    def for_features(self, n_features: int) -> Self:
        """Return the same noise for records of so many entries.

        Parameters
        ----------
        n_features : int
            Entries of a record.

        Returns
        -------
        Mechanism
            This noise if it knows their number, or does not need it.
        """
        check_parameter("n_features", n_features, Whole(1))
        if self.unit == "entry" or self.n_features == n_features:
            return self
        if self.n_features is not None:
            raise InvalidInputError(
                f"the noise was calibrated for {self.n_features} features, the data have {n_features}"
            )
        return type(self)(
            self.epsilon,
            delta=self.delta,
            sensitivity=self.domain or self._word,
            unit=self.unit,
            sampler=self.sampler,
            n_features=n_features,
            rows_per_person=self.rows_per_person,
        )

    def __repr__(self) -> str:
        source = f"{self._word:g}" if self.domain is None else repr(self.domain)
        return (
            f"{type(self).__name__}(epsilon={self.epsilon:g} per {self.unit}, delta={self.delta:g}, "
            f"sensitivity={source}, sampler={self.sampler!r})"
        )

    # --- the noise ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _ratio(self) -> float:
        """Scale of the noise for a sensitivity of one."""

    @abstractmethod
    def _draw(self, size: int, stream: ByteStream) -> Floats:
        """Float noise."""

    @abstractmethod
    def _draw_steps(self, size: int, stream: ByteStream) -> Integers:
        """Exact noise in steps of the lattice."""

    @abstractmethod
    def _loss(self, factor: float, n_entries: int) -> Pair:
        """(epsilon, delta) when ``n_entries`` change by ``factor`` times the sensitivity together."""

    @abstractmethod
    def _density(self, z: Floats) -> Floats:
        """Density of noise of scale one, where it is not zero by design."""

    @abstractmethod
    def _cdf(self, z: Floats) -> Floats:
        """Distribution function of noise of scale one, where it is not zero by design."""

    @property
    def expected_magnitude(self) -> float:
        """Mean absolute noise of an entry."""
        return (1 - self.untouched_share) * self._moments[0] * self.scale

    @property
    def variance(self) -> float:
        """Mean squared noise of an entry."""
        return (1 - self.untouched_share) * self._moments[1] * self.scale * self.scale

    def density(self, v: ArrayLike) -> Floats:
        """Density of the noise (000 eq. 74), infinite at zero where entries are left untouched by design.

        Parameters
        ----------
        v : array-like
            Values of the noise.

        Returns
        -------
        ndarray
            Density at each value; for hardened noise, before it is rounded to the grid.
        """
        values, share = np.asarray(v, dtype=np.float64), self.untouched_share
        continuous = (1 - share) * self._density(values / self.scale) / self.scale
        return np.where((values == 0) & (share > 0), np.inf, continuous)

    def cdf(self, v: ArrayLike) -> Floats:
        """Distribution function of the noise (000 eq. 75).

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
        values, share = np.asarray(v, dtype=np.float64), self.untouched_share
        continuous = (1 - share) * self._cdf(values / self.scale)
        return np.where(values < 0, continuous, continuous + share)

    @property
    def scale(self) -> float:
        """Scale of the noise; hardened noise is larger by a millionth, per record at most by 1/4000."""
        if not self.hardened or (self.unit != "entry" and self.n_features is None):
            return self._change * self._ratio
        return float(self._lattice.steps) * self._lattice.step * self._ratio

    @property
    def untouched_share(self) -> float:
        """Probability that an entry gets no noise at all, by design."""
        return 0.0

    @cached_property
    def _lattice(self) -> Lattice:
        return lattice_for(self._change, self._ratio, self._unit_entries(), self.norm)

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
        unknown = self.n_features is None and len(sizes) == 2 and sizes[1] > 0
        known = self.for_features(sizes[1]) if unknown else self
        stream, size = byte_stream(random_state), math.prod(sizes)
        if self.hardened:
            return known._lattice.value(known._draw_steps(size, stream)).reshape(sizes)
        return known._draw(size, stream).reshape(sizes)

    # --- the data -----------------------------------------------------------------------------------------

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
        left, restore_left = checked_values(X, "X")
        right, restore_right = checked_values(Y, "Y")
        if left.ndim != 2 or right.ndim not in (1, 2) or len(left) != len(right):
            raise InvalidInputError("X must be a 2D table, and Y must have as many rows")
        both = np.hstack([left, right if right.ndim == 2 else right[:, np.newaxis]])
        noisy = self._randomised(both, random_state)
        width = left.shape[1]
        return restore_left(noisy[:, :width]), restore_right(noisy[:, width:].reshape(right.shape))

    def _randomised(self, values: Floats, random_state: RandomState) -> Floats:
        if self.unit == "entry":
            return self._noisy(values, random_state)
        if values.ndim != 2 or not values.shape[1]:
            raise InvalidInputError(f"unit='{self.unit}' needs a 2D table of rows. Reshape your data")
        return self.for_features(values.shape[1])._noisy(values, random_state)

    def _noisy(self, values: Floats, random_state: RandomState) -> Floats:
        if self.domain is not None:
            values = self.domain.clip(values)
        stream = byte_stream(random_state)
        if self.hardened:
            steps = self._lattice.round(values)
            return self._lattice.value(steps + self._draw_steps(values.size, stream).reshape(values.shape))
        if values.size and np.abs(values).max() > LARGEST_VALUE_IN_SCALES * self.scale:
            # Float addition would round the noise away, and release the values as they are.
            raise InvalidInputError("values are too large for this sensitivity: centre or rescale the data")
        return values + self._draw(values.size, stream).reshape(values.shape)

    # --- the promise --------------------------------------------------------------------------------------

    def _promise(self, n_features: int, n_samples: int | None, n_rows: int | None) -> Guarantee:
        noise = self.for_features(n_features)
        if noise is not self:
            return noise._promise(n_features, n_samples, n_rows)
        widest = factor = self._record_factor(n_features)
        person = None
        if n_rows is not None:
            widest = self._person_factor(n_features, n_rows)
            person = self._loss(widest, n_features * n_rows)
        record = self._loss(factor, n_features)
        shortened = isinstance(self.domain, Ball)  # one changed entry changes the length of the whole row
        share = self.untouched_share
        untouched = 0.0 if share == 0 else None
        if untouched is None and n_samples is not None and n_rows is None:
            # Not for persons: they may have fewer rows or more, so the number of rows is not to be told.
            untouched = share * n_samples * n_features
        return Guarantee(
            unit=self.unit,  # type: ignore[arg-type]
            entry=record if shortened else self._loss(self._entry_factor(n_features), self._cell_entries),
            record=record,
            n_features=n_features,
            untouched_entries=untouched,
            voided_by=self._voided_by,
            mechanism=self._description(),
            sensitivity=self.sensitivity if self.domain is not None or self.unit == "entry" else None,
            person=person,
            rows_per_person=n_rows,
            clipped=self.domain is not None,
            conditions=self._words_of_the_caller(),
            mu=self._gaussian_privacy(widest),
        )

    def _words_of_the_caller(self) -> tuple[str, ...]:
        """What must be true of a record's change without a domain; of an entry's, every line says it."""
        if self.domain is not None or self.unit == "entry":
            return ()
        size = "the sum of absolute changes" if self.norm == 1 else "the Euclidean size of the change"
        return (
            f"no record changes by more than {shown_limit(self.sensitivity)} ({size}), which nothing checks",
        )

    def _gaussian_privacy(self, factor: float) -> float | None:
        """mu of a change of ``factor`` times the unit's, for Gaussian noise."""
        return None

    def _description(self) -> str:
        return f"{type(self).__name__} of scale {self.scale:.4g}, {self.sampler} sampler"

    def _entry_factor(self, n_features: int) -> float:
        """Change of one entry, in units of the unit's change."""
        if self.unit == "entry":
            return 1.0
        # Without a domain one entry may hold all of a record's change. In a Ball one changed entry shortens
        # or lengthens all the others.
        if self.domain is None or isinstance(self.domain, Ball):
            return self._record_factor(n_features)
        return min(1.0, self._factor(self.domain.entry_in(self.norm), self._cell_entries))

    def _record_factor(self, n_features: int) -> float:
        """Change of a whole row, in units of the unit's change."""
        if self.unit == "record":
            return 1.0
        if self.unit == "person":
            return min(1.0, self._factor(self.sensitivity, n_features))
        all_equal = float(n_features) if self.norm == 1 else root(n_features)
        if self.domain is None or self.domain.n_features is None:
            return all_equal
        domain = self.domain.for_features(n_features)
        return min(all_equal, self._factor(domain.l1 if self.norm == 1 else domain.l2, n_features))

    def _person_factor(self, n_features: int, n_rows: int) -> float:
        """Change of all rows of a person, in units of the unit's change.

        Rounding to the grid is part of the factor of one row, and rows are rounded one by one.
        """
        if self.unit == "person" and n_rows == self._unit_rows():
            return 1.0
        several = multiplied(self._spread(n_rows), self._record_factor(n_features))
        return min(1.0, several) if self.unit == "person" and n_rows < self._unit_rows() else several

    def _factor(self, change: float, n_entries: int) -> float:
        """Size of a change of so many entries, with rounding to the grid, in units of the unit's change."""
        if not self.hardened:
            return round_up(Fraction(change) / Fraction(self._change))
        return round_up(self._lattice.apart(change, n_entries, self.norm) / self._lattice.steps)
