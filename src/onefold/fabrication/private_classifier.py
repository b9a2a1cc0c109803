"""Any classifier fitted to private rows (000 Def. 12 and 15)."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Labels
from onefold._base.validation import check_rows
from onefold.fabrication.fabricator import Fabricator
from onefold.models import AutoencoderClassifier
from onefold.privacy import Guarantee, Mechanism, OptimalNoise, RandomisedLabels

__all__ = ["PrivateClassifier"]


class PrivateClassifier(ClassifierMixin, BaseEstimator):
    """Classifier fitted to noisy or fabricated rows instead of raw ones.

    Parameters
    ----------
    classifier : classifier or None, default=None
        Any scikit-learn classifier, ours included; None stands for ``AutoencoderClassifier()``.
    mechanism : Mechanism or None, default=None
        The noise; None stands for ``OptimalNoise(epsilon=1.0)``, per entry and for entries that change by 1.
    fabricate : bool, default=True
        Smooth after the noise. False fits to the noisy rows themselves.
    stopping : {"honest", "documented"} or int, default="honest"
        How often to smooth; see :class:`Fabricator`.
    n_components : int, default=20
        Dimension of the encoding used in smoothing.
    branch_size : int, default=1000
        Larger classes are smoothed in branches of about this size.
    label_mechanism : RandomisedLabels or None, default=None
        Randomises the labels; None uses them as they are.
    random_state : int, Generator or None, default=None
        None draws the noise from the entropy of the system. A seed makes the noise known: for tests only.

    Attributes
    ----------
    guarantee_ : Guarantee
        What the fitted classifier promises about the rows it was fitted to.
    classifier_ : classifier
        The fitted classifier; it has seen private rows only.
    classes_ : ndarray
        Labels of the classes.

    See Also
    --------
    Fabricator : Make the private rows alone.
    MomentClassifier : A classifier with a guarantee for whole records.

    References
    ----------
    Document 000, Definition 12 (noise alone) and Definition 15 (fabricated rows).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from onefold.privacy import Laplace
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> X = rng.normal(size=(200, 3)) + 10.0 * y[:, None]
    >>> model = PrivateClassifier(GaussianNB(), Laplace(2.0), random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0, 0.0], [10.0, 10.0, 10.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        classifier: Any = None,
        mechanism: Mechanism | None = None,
        fabricate: bool = True,
        stopping: str | int = "honest",
        *,
        n_components: int = 20,
        branch_size: int = 1000,
        label_mechanism: RandomisedLabels | None = None,
        random_state: Any = None,
    ) -> None:
        self.classifier = classifier
        self.mechanism = mechanism
        self.fabricate = fabricate
        self.stopping = stopping
        self.n_components = n_components
        self.branch_size = branch_size
        self.label_mechanism = label_mechanism
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Make the rows private, then fit the classifier to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The raw rows.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        PrivateClassifier
            This object.
        """
        rows, labels = check_rows(self, X, y)
        rng = None if self.random_state is None else np.random.default_rng(self.random_state)
        maker = self.maker()
        private = maker.fabricate(rows, labels, rng) if self.fabricate else maker.randomise(rows, labels, rng)
        self.guarantee_: Guarantee = maker.guarantee_
        prototype = AutoencoderClassifier() if self.classifier is None else self.classifier
        self.classifier_ = clone(prototype).fit(private, maker.labels_)
        self.classes_ = self.classifier_.classes_
        return self

    def maker(self) -> Fabricator:
        """Return what makes the private rows.

        Returns
        -------
        Fabricator
            A new one with the parameters of this classifier.
        """
        return Fabricator(
            OptimalNoise(1.0) if self.mechanism is None else self.mechanism,
            self.n_components,
            self.stopping,
            self.branch_size,
            label_mechanism=self.label_mechanism,
        )

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        return np.asarray(self.classifier_.predict(self._queries(X)))

    def distances(self, X: ArrayLike) -> Array:
        """Measure the distance of each row to each class, for a classifier that has distances.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Distances; the smallest decides.
        """
        return np.asarray(self.classifier_.distances(self._queries(X)))

    def decision_function(self, X: ArrayLike) -> Array:
        """Evaluate the classifier's own decision function.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray
            As the classifier gives it.
        """
        return np.asarray(self.classifier_.decision_function(self._queries(X)))

    def _queries(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return np.asarray(check_rows(self, X, reset=False))
