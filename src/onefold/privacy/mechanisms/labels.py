"""Randomised response: labels that may be wrong, with known probability."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import check_epsilon
from onefold.privacy._exact import Probability, keep
from onefold.privacy._hardened import bernoulli
from onefold.privacy._streams import ByteStream, RandomState, byte_stream
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.mechanisms._data import Floats

__all__ = ["RandomisedLabels"]

# The digits of exp(-epsilon) are computed one by one, and their number grows with epsilon.
LARGEST_EPSILON = 1000.0


class RandomisedLabels:
    r"""Labels kept with probability :math:`e^\epsilon / (e^\epsilon + k - 1)`, else replaced by another.

    Parameters
    ----------
    epsilon : privacy loss per label
    classes : number of classes k (labels 0 ... k-1), or the list of labels. Declare it: a list taken from the
        data tells which classes occur

    Guarantees
    ----------
    * (epsilon, 0) for each label, for any two labels of ``classes``. Coins are exact at every epsilon (no
      rounded logarithm or random float is involved).
    * Class sizes are covered as far as they follow from the labels: use ``debias`` on counts of the
      randomised ones.
    * Features and the number of rows are not covered.

    Examples
    --------
    >>> labels = RandomisedLabels(np.log(3.0), classes=2)
    >>> round(labels.keep_probability, 12)
    0.75
    """

    def __init__(self, epsilon: float, classes: int | ArrayLike) -> None:
        self.epsilon = check_epsilon(epsilon)
        if np.ndim(classes) == 0:
            check_whole_number("classes", classes, at_least=2)
            self.classes = np.arange(classes)  # type: ignore[arg-type]
        else:
            self.classes = np.asarray(classes)
            if self.classes.ndim != 1 or len(self.classes) < 2 or not _distinct(self.classes):
                raise InvalidInputError("classes must be a list of at least two different labels")

    def __repr__(self) -> str:
        return f"RandomisedLabels(epsilon={self.epsilon:g} per label, classes={len(self.classes)})"

    @property
    def _keep(self) -> Probability:
        # Beyond LARGEST_EPSILON labels are kept a little less often than allowed: more private, not less.
        return keep(Fraction(min(self.epsilon, LARGEST_EPSILON)), len(self.classes))

    @property
    def keep_probability(self) -> float:
        """Probability that a label stays what it is."""
        return float(self._keep)

    @property
    def switch_probability(self) -> float:
        """Probability of each particular wrong label."""
        return (1 - self.keep_probability) / (len(self.classes) - 1)

    def randomise(self, y: Any, random_state: RandomState = None) -> Any:
        """Labels of ``y``, each kept or replaced independently; a Series stays one."""
        places = self._places(y)
        stream = byte_stream(random_state)
        switched = np.flatnonzero(~bernoulli(stream, self._keep, len(places)))
        others = _uniform(stream, len(self.classes) - 1, switched.size)
        places[switched] = others + (others >= places[switched])
        labels = self.classes[places]
        if hasattr(y, "to_numpy") and hasattr(y, "name"):
            return type(y)(labels, index=y.index, name=y.name)
        return labels

    def _places(self, y: Any) -> NDArray[np.intp]:
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
        """Unbiased estimates of the true class sizes from those of the randomised labels.

        E[count_c] = n_c keep + (n - n_c) switch, solved for n_c. They sum to n and may be negative.
        """
        observed = np.asarray(counts, dtype=np.float64)
        if observed.shape != self.classes.shape or not (np.isfinite(observed) & (observed >= 0)).all():
            raise InvalidInputError(f"counts must be {len(self.classes)} numbers of at least 0")
        return np.asarray(
            (observed - observed.sum() * self.switch_probability)
            / (self.keep_probability - self.switch_probability)
        )

    def guarantee(self, n_features: int = 1) -> Guarantee:
        """Labels only; see :meth:`onefold.privacy.Guarantee.with_labels` to add them to noisy features."""
        nothing = (float("inf"), 0.0)
        return Guarantee(
            "label", nothing, nothing, n_features, labels=(self.epsilon, 0.0), mechanism="randomised response"
        )


def _distinct(labels: NDArray[Any]) -> bool:
    try:
        return len(np.unique(labels)) == len(labels)
    except TypeError:  # labels that cannot be compared
        return False


def _uniform(stream: ByteStream, below: int, size: int) -> NDArray[np.int64]:
    """Exactly uniform whole numbers below a bound: words beyond its largest multiple are drawn again."""
    limit = np.uint64((2**64 // below) * below - 1)
    words = np.empty(size, dtype=np.uint64)
    pending = np.arange(size)
    while pending.size:
        words[pending] = stream.words(pending.size)
        pending = pending[words[pending] > limit]
    return (words % np.uint64(below)).astype(np.int64)
