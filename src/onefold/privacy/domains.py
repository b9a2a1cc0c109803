"""Declared domains of a record: how far apart neighbouring datasets are, and clipping; objects that stay.

Two relations are known. *Entry*: one entry of the matrix changes by at most d (000 Def. 10, 003 Def. 2).
*Record*: a whole row is replaced by any other row of a declared domain. A domain is public: it comes from
what the columns mean (pixels lie between 0 and 1), never from the rows to be protected. Rows outside are
clipped before the noise; clipping depends on one row at a time and lands in the domain, so the sensitivity is
that of the domain.
"""

import copyreg
import inspect
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Floats, Index
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.samplers import RandomState, byte_stream, discrete_laplace, laplace_table
from onefold.privacy.terms import EPSILON, multiplied, number, number_array, positive, root, round_up

__all__ = ["Ball", "Box", "Changes", "Domain", "Frozen", "from_data"]

LARGEST_LOSS = 50.0  # of a private count
LARGEST = float(np.finfo(np.float64).max)
SMALLEST_RADIUS = 1e-290  # below, float64 numbers are too coarse to shorten a row by little
INFERRED = "the bounds of the data were inferred from the data"
FINITE = "expected a 2D table of finite numbers"


# --- objects that nobody changes once they are made, so that what they promised stays what they do --------


def constant(array: AnyArray) -> AnyArray:
    """Return a copy of an array that cannot be written to, whatever its flags are set to."""
    if array.dtype.hasobject or array.size == 0:  # objects have no bytes of their own
        array = array.copy()
        array.flags.writeable = False
        return array
    return np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape)


class _Sealing(ABCMeta):
    """Seals an object when its constructor, and those of all its classes, are done."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made._seal()
        return made

    @property
    def __signature__(cls) -> inspect.Signature:  # or help() would show the one above
        if cls.__init__ is object.__init__:  # type: ignore[misc]
            return inspect.Signature()
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Frozen(metaclass=_Sealing):
    """Base class of noises and domains: a parameter changed after use would make a guarantee false.

    Copies are the object itself. Arrays are read-only, also for those who set their flag again: their memory
    is a constant. Python keeps nobody from reaching into ``__dict__``; this is a guard against mistakes.

    See Also
    --------
    onefold.privacy.Mechanism : A noise, which is frozen.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> Laplace(1.0, sensitivity=1.0).epsilon = 0.01
    Traceback (most recent call last):
    AttributeError: Laplace cannot be changed: make a new one with another epsilon
    """

    def _seal(self) -> None:
        for name, value in list(self.__dict__.items()):
            if isinstance(value, np.ndarray):
                self.__dict__[name] = constant(value)
        self.__dict__["_sealed"] = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__} cannot be changed: make a new one with another {name}"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make a new one")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), dict(self.__dict__)  # type: ignore[attr-defined]

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(f"{type(self).__name__} cannot be changed: make a new one")
        self.__dict__.update(state)
        self._seal()


# --- domains ----------------------------------------------------------------------------------------------


class Changes(NamedTuple):
    """The largest changes of a row by one cell of the table; each smaller one lies within one of them.

    Parameters
    ----------
    columns : ndarray of shape (n_changes, n_together)
        Entries of the row that move together.
    sizes : ndarray of shape (n_changes, n_together)
        How far each of them moves at most; 0 for one that stays.
    cells : ndarray of shape (n_changes,)
        Number of the cell whose change it is, without gaps.

    See Also
    --------
    Domain.changes : Those of a domain.

    Examples
    --------
    >>> from onefold.privacy import Box
    >>> Box(0, [1, 3]).changes().sizes.tolist()
    [[1.0], [3.0]]
    """

    columns: Index
    sizes: Floats
    cells: Index


class Domain(Frozen):
    """Base class of the sets in which every record lies by declaration; nobody can change one.

    Attributes
    ----------
    n_features : int or None
        Entries of a record, if they are known.
    inferred : bool
        Whether the domain was taken from the data, which voids every guarantee.
    cell_entries : int
        Entries of a row that one cell of the table can move: more than one where cells are encoded.

    See Also
    --------
    Box : Bounds of each feature.
    Ball : A bound on the length of a row.

    Examples
    --------
    >>> from onefold.privacy.domains import Box, Domain
    >>> isinstance(Box(0, 1), Domain)
    True
    """

    n_features: int | None
    inferred = False
    cell_entries = 1

    @property
    @abstractmethod
    def entry(self) -> float:
        """Largest change of one entry."""

    def entry_in(self, norm: int) -> float:
        """Return the largest change by one cell of the table, in a norm.

        Parameters
        ----------
        norm : {1, 2}
            Sum of absolute changes, or Euclidean; the same unless a cell is encoded by several entries.

        Returns
        -------
        float
            The change.
        """
        return self.entry

    @property
    @abstractmethod
    def l1(self) -> float:
        """Largest sum of absolute changes of a record."""

    @property
    @abstractmethod
    def l2(self) -> float:
        """Largest Euclidean change of a record."""

    @property
    @abstractmethod
    def widths(self) -> Floats:
        """Largest change of each entry."""

    @abstractmethod
    def changes(self, kinds: Index | None = None) -> Changes:
        """Return every largest change of a row by one cell of the table.

        Parameters
        ----------
        kinds : ndarray of shape (n_features,) or None, default=None
            Kind of each entry: of changes that move entries of the same kinds equally far, one may stand for
            all. None lists every change.

        Returns
        -------
        Changes
            The entries that move together, and how far.
        """

    def clip(self, X: ArrayLike) -> Floats:
        """Move rows into the domain, each by itself to the last bit.

        Parameters
        ----------
        X : array-like of shape (..., n_features)
            Rows of numbers, in any order of memory; NaN is refused.

        Returns
        -------
        ndarray of the same shape
            Rows of the domain.
        """
        rows = np.asarray(X, dtype=np.float64, order="C")
        if np.isnan(rows).any():
            raise InvalidInputError("rows hold NaN: fill or drop it before they are clipped")
        if rows.ndim == 0 and self.n_features is not None:
            raise InvalidInputError(f"the domain has {self.n_features} features, the data are one number")
        if rows.ndim:
            self._known(rows.shape[-1])
        # Adding zero makes one zero of two: which of them a comparison returns can depend on the other rows.
        return (self._inside(np.atleast_1d(rows)) + 0.0).reshape(rows.shape)

    @abstractmethod
    def _inside(self, rows: Floats) -> Floats:
        """Rows of the domain instead of any rows without NaN, in the order of C."""

    def for_features(self, n_features: int) -> Self:
        """Return the same domain for records of so many entries.

        Parameters
        ----------
        n_features : int
            Entries of a record.

        Returns
        -------
        Domain
            This domain if it knows their number already.
        """
        return self if self._known(n_features) else self._sized(n_features)

    @abstractmethod
    def _sized(self, n_features: int) -> Self:
        """The same domain for a number of entries that it did not know."""

    def count_outside(
        self, X: ArrayLike, epsilon: float, random_state: RandomState = None, ledger: AnyLedger = None
    ) -> tuple[int, Guarantee]:
        """Count privately how many records clipping would change: a hint whether the domain is too narrow.

        The true number is data. This one has discrete Laplace noise and costs ``epsilon`` on top of what the
        release costs: give it the same ledger.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, in finite numbers.
        epsilon : float
            Privacy loss of a record.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the noise predictable and the guarantee
            void: use it in tests only.
        ledger : Ledger, path or None, default=None
            Account of what was spent on the same data: the count is entered there before any noise is drawn,
            and refused beyond its limit. None counts nothing.

        Returns
        -------
        count : int
            Noisy number of records outside, between 0 and the number of records.
        guarantee : Guarantee
            What this number promises.
        """
        share = number("epsilon", epsilon, EPSILON)
        rows = number_array(X, FINITE, lambda table: table.ndim == 2 and np.isfinite(table))
        outside = int(np.count_nonzero(np.any(self.clip(rows) != rows, axis=1)))
        guarantee = Guarantee(
            unit="record",
            entry=(share, 0.0),
            record=(share, 0.0),
            n_features=rows.shape[1],
            untouched_entries=0.0,
            labels=(0.0, 0.0),  # they are not looked at
            voided_by=(INFERRED,) * self.inferred,
            mechanism="discrete Laplace on the number of records outside the domain",
            clipped=True,
        ).seeded(random_state)
        guarantee = charge(ledger, guarantee, "number of records outside the domain")
        # A larger epsilon would hardly change the noise, and digits of exp(-epsilon) are computed one by one.
        table = laplace_table(Fraction(min(share, LARGEST_LOSS)))
        noise = discrete_laplace(byte_stream(random_state), table, 1)[0]
        return min(max(outside + int(noise), 0), len(rows)), guarantee

    def _known(self, n_features: int) -> bool:
        if self.n_features not in (None, n_features):
            raise InvalidInputError(f"the domain has {self.n_features} features, the data {n_features}")
        return self.n_features is not None

    def _features(self) -> int:
        if self.n_features is None:
            raise InvalidInputError("give n_features to the domain: the size of a record depends on it")
        return self.n_features


class Box(Domain):
    """The set of records whose every feature lies between bounds.

    Parameters
    ----------
    low : array-like of shape () or (n_features,)
        Smallest value, for all features or one per feature.
    high : array-like of shape () or (n_features,)
        Largest value, for all features or one per feature.
    n_features : int or None, default=None
        Entries of a record. The size of a record needs it when both bounds are plain numbers.

    Attributes
    ----------
    inferred : bool
        Whether the bounds were taken from the data, which voids every guarantee.

    See Also
    --------
    Ball : A bound on the length of a row.
    onefold.privacy.domains.from_data : A box around given data, which is not private.

    Examples
    --------
    >>> from onefold.privacy import Box
    >>> pixels = Box(0, 1, n_features=784)
    >>> pixels.entry, pixels.l1, pixels.l2
    (1.0, 784.0, 28.0)
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, n_features: int | None = None) -> None:
        check_parameter("n_features", n_features, (Whole(1), None))
        try:
            low, high = np.broadcast_arrays(np.asarray(low, dtype=float), np.asarray(high, dtype=float))
        except (TypeError, ValueError):
            raise InvalidInputError("bounds must be numbers, or equally many numbers") from None
        if low.ndim > 1 or low.size == 0:
            raise InvalidInputError("bounds must be numbers, or one number per feature")
        if not np.all((low < high) & np.isfinite(high - low)):
            raise InvalidInputError("bounds must be finite, and low below high")
        if low.ndim == 1:
            if n_features not in (None, len(low)):
                raise InvalidInputError(f"n_features is {n_features}, but there are {len(low)} bounds")
            n_features = len(low)
        self.low, self.high, self.n_features = low.copy(), high.copy(), n_features

    def __repr__(self) -> str:
        bounds = f"{float(self.low):g}, {float(self.high):g}" if self.low.ndim == 0 else "..."
        return f"Box({bounds}, n_features={self.n_features})"

    def _sized(self, n_features: int) -> Self:
        return type(self)(self.low, self.high, n_features)

    @property
    def widths(self) -> Floats:
        """Largest change of each feature, rounded up where high - low is not a float64."""
        width = self.high - self.low
        virtual = width - self.high  # the error of a float subtraction is itself a float (Knuth)
        error = (self.high - (width - virtual)) - (self.low + virtual)
        return np.broadcast_to(np.where(error > 0, np.nextafter(width, np.inf), width), self.n_features or ())

    @property
    def entry(self) -> float:
        """The widest feature."""
        return float(np.max(self.widths))

    @property
    def l1(self) -> float:
        """Sum of the widths."""
        self._features()
        return round_up(sum(map(Fraction, self.widths.tolist()), Fraction(0)))

    @property
    def l2(self) -> float:
        """Diagonal of the box."""
        self._features()
        return root(sum((Fraction(width) ** 2 for width in self.widths.tolist()), Fraction(0)))

    def changes(self, kinds: Index | None = None) -> Changes:
        """Return the width of every column: an entry moves by itself.

        Parameters
        ----------
        kinds : ndarray of shape (n_features,) or None, default=None
            Ignored.

        Returns
        -------
        Changes
            One change for each entry.
        """
        entries = np.arange(self._features())
        return Changes(entries[:, np.newaxis], self.widths[:, np.newaxis], entries)

    def _inside(self, rows: Floats) -> Floats:
        return np.clip(rows, self.low, self.high)


class InferredBox(Box):
    """A box around given data: clipping to it is no secret, and voids every guarantee."""

    inferred = True


class Ball(Domain):
    """The set of records of limited length.

    Clipping shortens a row as a whole, so that one changed entry moves all entries. Mechanisms therefore take
    a ball for ``unit="record"`` only.

    Parameters
    ----------
    radius : float
        Largest length of a row.
    norm : {2, 1}, default=2
        Euclidean length (2) or sum of absolute values (1).
    n_features : int or None, default=None
        Entries of a record.

    Attributes
    ----------
    inferred : bool
        Always False.

    See Also
    --------
    Box : Bounds of each feature.

    Examples
    --------
    >>> from onefold.privacy import Ball
    >>> Ball(1.0).l2
    2.0
    """

    def __init__(self, radius: float, norm: int = 2, n_features: int | None = None) -> None:
        check_parameter("n_features", n_features, (Whole(1), None))
        if norm not in (1, 2):
            raise InvalidInputError("norm must be 1 or 2")
        self.radius, self.norm, self.n_features = positive("radius", radius), int(norm), n_features
        positive("twice the radius", 2 * self.radius)
        if self.radius < SMALLEST_RADIUS:
            raise InvalidInputError("the radius is too small for float64: rescale the data")

    def __repr__(self) -> str:
        return f"Ball({self.radius:g}, norm={self.norm}, n_features={self.n_features})"

    def _sized(self, n_features: int) -> Self:
        return type(self)(self.radius, self.norm, n_features)

    @property
    def entry(self) -> float:
        """The diameter, along one axis."""
        return 2 * self.radius

    @property
    def l1(self) -> float:
        """The diameter for norm 1; sqrt(p) times the diameter for norm 2."""
        return multiplied(2.0, self.radius, 1.0 if self.norm == 1 else root(self._features()))

    @property
    def l2(self) -> float:
        """The diameter: no two rows of either ball are farther apart."""
        return 2 * self.radius

    @property
    def widths(self) -> Floats:
        """The diameter, for each entry."""
        return np.full(self._features(), self.entry)

    def changes(self, kinds: Index | None = None) -> Changes:
        """Return one change of all entries: one cell can lengthen or shorten the whole row.

        Parameters
        ----------
        kinds : ndarray of shape (n_features,) or None, default=None
            Ignored.

        Returns
        -------
        Changes
            Every entry moves by the diameter.
        """
        entries = np.arange(self._features())[np.newaxis]
        return Changes(entries, self.widths[np.newaxis], np.zeros(1, dtype=np.intp))

    def _inside(self, rows: Floats) -> Floats:
        """Shorten rows that are too long, to below the radius by more than rounding can move them."""
        rows = np.clip(rows, -LARGEST, LARGEST)
        # Scaled before squaring: no overflow. The rounding of a sum of p squares is below p 2^-52.
        largest = np.max(np.abs(rows), axis=-1, keepdims=True, initial=0.0)
        safe = np.where(largest > 0, largest, 1.0)
        relative = np.linalg.norm(rows / safe, ord=self.norm, axis=-1, keepdims=True)  # >= 1, or a zero row
        margin = (rows.shape[-1] + 8) * 2.0**-52  # twice for rows that are shortened: they stay as they are
        with np.errstate(over="ignore"):  # an infinite quotient says that the row is short
            long = relative > self.radius * (1 - margin) / safe
        shorter = self.radius * (1 - 2 * margin) / np.maximum(relative, 1.0)
        return np.where(long, rows / safe * shorter, rows)


def from_data(X: Any) -> Box:
    """Return the smallest box around the data, which is **not private**.

    The largest value of a column belongs to a person. A warning says so, and every guarantee of a mechanism
    that uses this box is void.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Finite numbers.

    Returns
    -------
    Box
        The box, marked as inferred.

    Warns
    -----
    PrivacyLeakWarning
        Always.

    See Also
    --------
    Box : Bounds declared from what the columns mean.

    Examples
    --------
    >>> import warnings
    >>> from onefold.privacy import Laplace, domains
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     box = domains.from_data([[1.0, 5.0], [3.0, 2.0]])
    >>> Laplace(1.0, sensitivity=box).guarantee(n_features=2).holds
    False
    """
    warnings.warn(
        "bounds inferred from the data are not private: declare them from what the columns mean",
        PrivacyLeakWarning,
        stacklevel=2,
    )
    values = number_array(X, FINITE, lambda table: table.ndim == 2 and len(table) and np.isfinite(table))
    low, high = values.min(axis=0), values.max(axis=0)
    return InferredBox(low, np.where(high > low, high, np.nextafter(low, np.inf)))
