"""Synthetic records drawn from private moments, to train anything on."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Arrays, Floats, Index, Labels
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication.on_moments import ClassesOnMoments

__all__ = ["MomentFabricator"]


class MomentFabricator(TransformerMixin, ClassesOnMoments):
    """Synthetic encoded records drawn from private moments, as many as wanted, to train anything on.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss for a whole record. None adds no noise, and the guarantee says so.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.
    encoder : transformer or None, default=None
        Applied to the rows first: one of :mod:`onefold.encoders`. Any other transformer is fitted to the raw
        rows, which voids the guarantee.
    classes : array-like or None, default=None
        All labels there can be, known without looking at the data. None finds them privately.
    centre : "private", None or array of shape (n_features,), default="private"
        Where records are seen from: their noisy mean, the origin, or a public point.
    radius : float or None, default=None
        Rows are declared to be no longer than this; longer ones are shortened. None stands for the longest
        row of the schema, or for 1.
    shares : tuple of four floats or None, default=None
        How the budget is divided among centre, counts, sums and second moments. None takes
        (0.05, 0.02, 0.28, 0.70).
    neighbours : {"add-remove", "replace"}, default="add-remove"
        What the guarantee compares: one record more or less, or one record replaced.
    shrinkage : "auto" or float in [0, 1], default="auto"
        How far each covariance is drawn towards the pooled one; "auto" follows from the noise levels.
    floor : float, default=0.2
        Smallest eigenvalue of a covariance, in units of the largest eigenvalue that the noise alone would
        have.
    least : float, default=0.25
        Smallest eigenvalue of a covariance as a share of the mean one.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact noise on dyadic grids. "float" is open to attacks on floating-point numbers:
        its guarantee is void.
    rows_per_person : int or None, default=None
        For records that belong to persons: the most records of a person that count; others are dropped at
        random before anything else. None keeps all.
    random_state : int, Generator or None, default=None
        None takes the noise from the entropy of the system. A seed makes the noise known, which voids the
        guarantee: for tests only.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.
    schema : Schema or None, default=None
        What is declared about the table: classes, radius and, if it declares ``rows_per_person``, persons
        follow from it. Rows whose class is not declared are left out. None takes rows of numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    moments_ : PrivateMoments
        The release; nothing else is kept of the data.
    guarantee_ : Guarantee
        What the release promises.
    encoder_ : transformer or None
        The fitted encoder.

    See Also
    --------
    onefold.privacy.PrivateMoments : The release, with all its parameters.
    MomentClassifier : A classifier on the same release.

    Notes
    -----
    *Guarantees.* ``guarantee_`` is that of the release; drawing is post-processing, however often it is done.

    Synthetic records live where the release does: encoded, and seen from its centre. Queries to a model
    trained on them must be taken there by :meth:`transform`. With a schema the centre is the origin, since
    records seen from another one lose their length, and :meth:`sample_table` makes a table of them;
    :class:`TableSynthesizer` makes better ones.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 5000)
    >>> X = rng.normal(size=(5000, 2)) / 10 + y[:, None] / 2
    >>> fabricator = MomentFabricator(1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> synthetic, labels = fabricator.sample(300, random_state=0)
    >>> synthetic.shape, labels.shape
    ((300, 2), (300,))
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []  # moments are float64
        return tags

    def _release(self, of_persons: bool) -> dict[str, Any]:
        given = super()._release(of_persons)
        if self._schema.plain:
            return given
        if not (self.centre is None or isinstance(self.centre, str)):
            raise InvalidInputError("with a schema records are seen from the origin: leave out centre")
        return given | {"centre": None}

    def transform(self, X: ArrayLike) -> Array:
        """Take real rows to where the synthetic ones live.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Real rows.

        Returns
        -------
        ndarray of shape (n_samples, n_encoded)
            Encoded rows, seen from the centre of the release.
        """
        return self._embed(X)

    def sample(
        self,
        n_samples: int = 1000,
        *,
        balanced: bool = False,
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[Floats, Labels]:
        """Draw synthetic records and labels, class by class.

        Parameters
        ----------
        n_samples : int, default=1000
            How many records.
        balanced : bool, default=False
            Draw equally many of each class instead of in proportion to the noisy class sizes.
        random_state : int, Generator or None, default=None
            Seed of the draw; it is post-processing, so a known seed costs no privacy.

        Returns
        -------
        records : ndarray of shape (n_samples, n_encoded)
            The synthetic records.
        labels : ndarray of shape (n_samples,)
            Their labels.
        """
        check_is_fitted(self)
        check_parameter("n_samples", n_samples, Whole(1))
        rng = np.random.default_rng(random_state)
        sizes = np.ones(len(self.classes_)) if balanced else np.maximum(self.moments_.counts_, 1.0)
        shares = _whole_parts(sizes / sizes.sum(), int(n_samples))
        means = self.moments_.means_
        values, vectors = np.linalg.eigh(self.moments_.covariances(self.shrinkage, self.floor, self.least))
        parts = []
        for code, count in enumerate(shares):
            normal = rng.standard_normal((count, means.shape[1])) * np.sqrt(values[code])
            parts.append(means[code] + normal @ vectors[code].T)
        return self._on_sphere(np.vstack(parts)), np.repeat(self.classes_, shares)

    def sample_table(
        self,
        n_samples: int = 1000,
        *,
        balanced: bool = False,
        random_state: int | np.random.Generator | None = None,
    ) -> Arrays:
        """Draw a synthetic table with the columns of the schema.

        Parameters
        ----------
        n_samples : int, default=1000
            How many rows.
        balanced : bool, default=False
            Draw equally many of each class instead of in proportion to the noisy class sizes.
        random_state : int, Generator or None, default=None
            Seed of the draw; it is post-processing, so a known seed costs no privacy.

        Returns
        -------
        dict of str to ndarray
            Features and label in the order and of the types that the schema declares.
        """
        schema = self._schema
        if schema.plain or self.encoder is not None or self.moments_.has_unit_rows:
            raise InvalidInputError("a table needs a schema, and moments seen from the origin")
        drawn, labels = self.sample(n_samples, balanced=balanced, random_state=random_state)
        found = schema.inverse_transform(drawn * float(self.moments_.radius))
        if schema.label is not None:
            found[schema.label.name] = np.asarray(labels)
        return {known.name: found[known.name] for known in schema.fields if known.name in found}

    def _on_sphere(self, drawn: Floats) -> Floats:
        """Scale records as the release does: to norm one, or to at most one."""
        norms = np.linalg.norm(drawn, axis=1, keepdims=True)
        smallest = math.ulp(1.0) if self.moments_.has_unit_rows else 1.0
        return np.asarray(drawn / np.maximum(norms, smallest))


def _whole_parts(shares: Floats, total: int) -> Index:
    """Return whole numbers in proportion to ``shares`` that add up to ``total`` (largest remainders)."""
    exact = shares * total
    parts = np.floor(exact).astype(np.intp)
    parts[np.argsort(parts - exact, kind="stable")[: total - parts.sum()]] += 1
    return parts
