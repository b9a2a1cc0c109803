"""Randomised response: labels that may be wrong, with known probability."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Index, Integers, Labels
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.domains import Frozen
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.samplers import (
    ByteStream,
    Probability,
    RandomState,
    bernoulli,
    byte_stream,
    keep_probability,
)
from onefold.privacy.terms import EPSILON, number

__all__ = ["RandomisedLabels"]

# The digits of exp(-epsilon) are computed one by one, and their number grows with epsilon.
LARGEST_EPSILON = 1000.0


class RandomisedLabels(Frozen):
    r"""Randomised response: keep each label with a known probability, else replace it by another.

    A label is kept with probability :math:`e^\epsilon / (e^\epsilon + k - 1)`, where k is the number of
    classes; every other label is equally likely to take its place.

    Parameters
    ----------
    epsilon : float
        Privacy loss per label.
    classes : int or array-like
        Number of classes k (labels 0 ... k-1), or the list of labels. Declare it: a list taken from the data
        discloses which classes occur.

    See Also
    --------
    Guarantee.with_labels : Adds private labels to the guarantee of private features.

    Notes
    -----
    *Guarantees.*

    * (epsilon, 0) for each label, for any two labels of ``classes``. Coins are exact at every epsilon (no
      rounded logarithm or random float is involved).
    * Class sizes are covered as far as they follow from the labels: use ``debias`` on counts of the
      randomised ones.
    * Features and the number of rows are not covered.

    References
    ----------
    S. L. Warner, "Randomized response", Journal of the American Statistical Association 60, 1965.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import RandomisedLabels
    >>> labels = RandomisedLabels(np.log(3.0), classes=2)
    >>> round(labels.keep_probability, 12)
    0.75
    """

    def __init__(self, epsilon: float, classes: int | ArrayLike) -> None:
        self.epsilon = number("epsilon", epsilon, EPSILON)
        if np.ndim(classes) == 0:
            check_parameter("classes", classes, Whole(2))
            self.classes = np.arange(classes)  # type: ignore[arg-type]
        else:
            self.classes = np.array(classes)
            if self.classes.ndim != 1 or len(self.classes) < 2 or not _distinct(self.classes):
                raise InvalidInputError("classes must be a list of at least two different labels")

    def __repr__(self) -> str:
        return f"RandomisedLabels(epsilon={self.epsilon:g} per label, classes={len(self.classes)})"

    @property
    def _keep(self) -> Probability:
        # Beyond LARGEST_EPSILON labels are kept a little less often than allowed: more private, not less.
        return keep_probability(Fraction(min(self.epsilon, LARGEST_EPSILON)), len(self.classes))

    @property
    def keep_probability(self) -> float:
        """Probability that a label stays what it is."""
        return float(self._keep)

    @property
    def switch_probability(self) -> float:
        """Probability of each particular wrong label."""
        return (1 - self.keep_probability) / (len(self.classes) - 1)

    def randomise(self, y: Any, random_state: RandomState = None) -> Any:
        """Keep or replace each label independently.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels, all of them among ``classes``.
        random_state : int, Generator or None, default=None
            None takes entropy from the operating system. A seed makes the result predictable: use it in tests
            only.

        Returns
        -------
        ndarray or Series
            Private labels; a Series stays a Series, without its index.
        """
        places = self._places(y)
        stream = byte_stream(random_state)
        switched = np.flatnonzero(~bernoulli(stream, self._keep, len(places)))
        others = _uniform(stream, len(self.classes) - 1, switched.size)
        places[switched] = others + (others >= places[switched])
        labels, is_series = self.classes[places], hasattr(y, "to_numpy") and hasattr(y, "name")
        # An index may name the people: none is passed on.
        return type(y)(labels, name=y.name) if is_series else labels

    def _places(self, y: Any) -> Index:
        labels = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
        if labels.ndim != 1:
            raise InvalidInputError("y must be a list of labels")
        order = np.argsort(self.classes)
        try:
            found = np.searchsorted(self.classes[order], labels)
        except TypeError:
            raise InvalidInputError("y and classes must be labels of the same kind") from None
        places = order[np.minimum(found, len(order) - 1)]
        if not np.array_equal(self.classes[places], labels):
            raise InvalidInputError("y holds a label that is not among the declared classes")
        return places

    def debias(self, counts: ArrayLike) -> Floats:
        """Estimate the true class sizes from those of the randomised labels, without bias.

        Parameters
        ----------
        counts : array-like of shape (n_classes,)
            How often each class occurs among the randomised labels.

        Returns
        -------
        ndarray of shape (n_classes,)
            The estimates. They sum to the number of labels and may be negative.
        """
        # E[count_c] = n_c keep + (n - n_c) switch, solved for n_c.
        observed = np.asarray(counts, dtype=np.float64)
        if observed.shape != self.classes.shape or not (np.isfinite(observed) & (observed >= 0)).all():
            raise InvalidInputError(f"counts must be {len(self.classes)} numbers of at least 0")
        return np.asarray(
            (observed - observed.sum() * self.switch_probability)
            / (self.keep_probability - self.switch_probability)
        )

    def guarantee(self, n_features: int = 1) -> Guarantee:
        """State what a release of randomised labels promises: it covers the labels only.

        Parameters
        ----------
        n_features : int, default=1
            Entries of a row.

        Returns
        -------
        Guarantee
            The promise.
        """
        nothing = (float("inf"), 0.0)
        return Guarantee(
            "label",
            nothing,
            nothing,
            n_features,
            labels=(self.epsilon, 0.0),
            mechanism="randomised response",
            clipped=True,  # labels that are not declared are refused
        )


def _distinct(labels: Labels) -> bool:
    try:
        return len(np.unique(labels)) == len(labels)
    except TypeError:  # labels that cannot be compared
        return False


def _uniform(stream: ByteStream, below: int, size: int) -> Integers:
    """Draw exactly uniform whole numbers below a bound; words beyond its largest multiple are drawn again."""
    limit = np.uint64((2**64 // below) * below - 1)
    words = np.empty(size, dtype=np.uint64)
    pending = np.arange(size)
    while pending.size:
        words[pending] = stream.words(pending.size)
        pending = pending[words[pending] > limit]
    return (words % np.uint64(below)).astype(np.int64)
