"""A classifier for a target with few labels, helped by a private source."""

import os
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Index
from onefold._base.files import read_saved, write_whole
from onefold._base.validation import check_rows, check_whole_number
from onefold.encoders import Encoder
from onefold.exceptions import InvalidInputError
from onefold.models import Autoencoder, ClassModels
from onefold.transfer._archive import is_archive
from onefold.transfer._classifier_files import KIND, pack_classifier, unpack_classifier
from onefold.transfer._decision import EXPERTS, Decision, Strategy
from onefold.transfer._default import Default, fit_default
from onefold.transfer._documented import fit_documented
from onefold.transfer._encoding import fitted_encoder
from onefold.transfer._spaces import Way
from onefold.transfer._target_labels import check_target_labels
from onefold.transfer.alignment import subspace_alignment
from onefold.transfer.source import PrivateSource

__all__ = ["TransferClassifier"]

LARGEST = 1e60  # squares of sums of such numbers are still numbers
STRATEGIES = ("default", "documented", "nonparametric")


class TransferClassifier(ClassifierMixin, BaseEstimator):
    """Semi-supervised classifier of a target that a private source may help.

    Parameters
    ----------
    source : PrivateSource or None, default=None
        What is known of the source. None learns from the target alone.
    strategy : {"default", "documented", "nonparametric"}, default="default"
        See the notes.
    to_source : transformer, function or None, default=None
        Takes rows of the target to rows like the source's, or to encoded ones: images to the same size, say,
        or another size of the source's encoder. A transformer must be fitted, or be one of
        :mod:`onefold.encoders`. None takes rows of the same width as they are.
    estimator : autoencoder or None, default=None
        Autoencoder of a class of the target. None stands for the documents' ``WideMembershipAutoencoder``
        with the strategies of the documents; "default" then uses none.
    components : sequence of int, default=(5, 10, 15, 20)
        The growing n of the labelling steps of the documents (001 Sec. 5).
    max_inducing : int, default=1000
        Inducing points of the source-to-target mapping, at most (001 eq. 86).
    allow_missing : bool, default=False
        Accept classes of the source without a labelled row in the target.
    random_state : int or None, default=0
        Divides the labelled rows for cross-validation.

    Attributes
    ----------
    classes_ : labels of the classes, those of the source if there is one
    transduction_ : label of every row given to fit; rows that had one keep it
    deciders_ : for every row given to fit, who decided: "target", "mapping" or "source"
    weights_ : dict or None
        "default" only: weight of "target", "mapping" and "source" in the pool
    decisions_changed_ : how many rows without a label would have another one without the source
    source_gain_ : float or None
        "default" only: accuracy with the source minus accuracy of the target alone, on labelled rows that
        were held out; 0.0 where the source is not used
    guarantee_ : what the source's owner was promised; None without a source

    Notes
    -----
    **"documented"** is 001 Sec. 4.2: rows of another width are brought to the source by subspace
    alignment (79), unlabelled rows are labelled again and again with growing n (82, 83), a membership-mapping
    takes the source's images to the target (84-86), and the class that the target's autoencoders, the mapping
    or the source's autoencoders find nearest is taken (87). Measured: at small epsilon the source changes
    hardly any decision, (79) aligns nothing, and (87) compares distances of different scales.

    **"nonparametric"** covers 003 Sec. 3, a shift of any kind between domains (of inputs, classes, or of one
    given the other) where labels are *not* scarce: the same mapping from source to target, induced by
    Student-t mappings in closed form, learned from the labelled rows alone. There is no labelling step, and
    rows without a label are only predicted. The document prints no formulas for it; this is its idea with
    the means of 001.

    **"default"** is what was found to transfer. Least squares on the labelled rows gives first beliefs about
    every row, and a model of the target (a Gaussian per class in at most 64 principal directions, or
    ``estimator``) refines them on the unlabelled rows: the target alone. The source is asked in several ways
    (as it is, with means or correlations aligned, by its class means alone, which survive noise on entries,
    and for rows of another width with its means turned onto those of the labelled rows), and the way that
    explains labelled rows best is kept. Beliefs of both sides start a second model of the target, the
    "mapping". Scores of target, mapping and source are counted in typical leads and pooled with weights that
    explain held-out labelled rows best. **Safety net**: where the pool does not explain them better than the
    target alone by more than two weights could by chance, or gets more of them wrong, the source is not used.
    With one labelled row per class there is no target to compare with, and the source must do better than
    guessing could: a net with wide meshes, and none for a source where two classes have one row each.
    Whether the target's own rows or those that the source sees serve its models is decided on labelled rows
    too. Labels are taken for a sample of all classes in equal parts.

    *Privacy.* Nothing but the artefact is known of the source, so all of this is post-processing of it. The
    target's own rows are **not** protected: a saved model holds means and covariances of them, or rows.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import PrivateMoments
    >>> from onefold.transfer import PrivateSource, TransferClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 5000)
    >>> X = rng.normal(size=(5000, 2)) / 5 + y[:, None] / 2
    >>> source = PrivateSource.fit(X, y, PrivateMoments(1.0, classes=[0, 1], random_state=0))
    >>> z = rng.integers(0, 2, 300)
    >>> Z = rng.normal(size=(300, 2)) / 5 + z[:, None] / 2
    >>> seen = np.where(np.arange(300) < 6, z, -1)
    >>> model = TransferClassifier(source).fit(Z, seen)
    >>> bool(np.mean(model.transduction_ == z) > 0.9)
    True
    """

    classes_: NDArray[Any]
    source_gain_: float | None
    weights_: dict[str, float] | None
    n_features_in_: int

    def __init__(
        self,
        source: PrivateSource | None = None,
        strategy: str = "default",
        *,
        to_source: Any = None,
        estimator: Autoencoder | None = None,
        components: Sequence[int] = (5, 10, 15, 20),
        max_inducing: int = 1000,
        allow_missing: bool = False,
        random_state: int | None = 0,
    ) -> None:
        self.source = source
        self.strategy = strategy
        self.to_source = to_source
        self.estimator = estimator
        self.components = components
        self.max_inducing = max_inducing
        self.allow_missing = allow_missing
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows of the target with labels ``y``, -1 where a row has none."""
        self._check_parameters()
        rows, labels = check_rows(self, X, y)
        if not float(np.abs(rows).max()) <= LARGEST:
            raise InvalidInputError(f"X holds numbers beyond {LARGEST:g}: rescale it")
        known = None if self.source is None else self.source.classes_
        self.classes_, codes = check_target_labels(labels, known, self.allow_missing)
        self._strategy = self._fit(rows, codes)
        decision = self._strategy.decide(rows)
        free = codes < 0
        found = np.where(free, decision.codes, codes)
        self.transduction_ = self.classes_[found]
        self.deciders_ = np.array(EXPERTS)[decision.expert]
        self.decisions_changed_ = int(np.sum(decision.codes[free] != decision.alone[free]))
        fitted = self._strategy
        self.source_gain_, self.weights_ = None, None
        if isinstance(fitted, Default):
            self.source_gain_ = fitted.gain
            self.weights_ = dict(zip(EXPERTS, fitted.weights.tolist(), strict=True))
        self.guarantee_ = None if self.source is None else self.source.guarantee_
        return self

    def distances(self, X: ArrayLike) -> Array:
        """Distance of each row to each class, (n, C); the smallest decides.

        With the strategies of the documents it is the least of the experts' distances (87); by default minus
        the logarithm of the probability of each class.
        """
        return self._decide(X).distances

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of each row."""
        decision = self._decide(X)
        return np.asarray(self.classes_[decision.codes])

    def deciders(self, X: ArrayLike) -> NDArray[np.str_]:
        """Who decides each row: "target", "mapping" or "source"."""
        return np.asarray(np.array(EXPERTS)[self._decide(X).expert])

    def predict_target_alone(self, X: ArrayLike) -> NDArray[Any]:
        """Class of each row as it would be without the source."""
        decision = self._decide(X)
        return np.asarray(self.classes_[decision.alone])

    def decision_function(self, X: ArrayLike) -> Array:
        """Minus the distances, (n, C); for two classes the advantage of the second, (n,)."""
        distances = self.distances(X)
        if len(self.classes_) == 2:
            return np.asarray(distances[:, 0] - distances[:, 1])
        return -distances

    def matching_score(self, X: ArrayLike) -> Array:
        """Class-matching score of each row, (n, C), in (1/e, 1] (000 eq. 63), from the distances."""
        return ClassModels.matching_score(cast(Any, self), X)

    def to_bytes(self) -> bytes:
        """The fitted classifier as the bytes of a file, with its source; ``to_source`` must be an encoder.

        What belongs to the rows given to fit (``transduction_``, ``deciders_``) and ``estimator`` are left
        out.
        """
        check_is_fitted(self, "_strategy")
        return pack_classifier(self)

    @classmethod
    def from_bytes(cls, packed: bytes) -> "TransferClassifier":
        """The classifier that :meth:`to_bytes` wrote; nothing is executed, what does not fit is refused."""
        parameters, fitted = unpack_classifier(packed)
        model = cls(**parameters)
        for name, value in fitted.items():
            setattr(model, name, value)
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to a file, whole or not at all."""
        write_whole(path, self.to_bytes())

    @staticmethod
    def is_saved_at(path: str | os.PathLike[str]) -> bool:
        """Does this file hold a transfer classifier?"""
        return is_archive(KIND, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TransferClassifier":
        """The classifier saved at ``path``; a damaged, foreign or newer file is refused."""
        return read_saved(path, "there is no transfer classifier", cls.from_bytes)

    def _decide(self, X: ArrayLike) -> Decision:
        check_is_fitted(self, "_strategy")
        rows = check_rows(self, X, reset=False)
        bound = min(LARGEST, float(np.finfo(rows.dtype).max))
        return self._strategy.decide(np.clip(rows, -bound, bound))  # beyond, all is equally far

    def _fit(self, rows: Array, codes: Index) -> Strategy:
        self._to_source = self.to_source
        if isinstance(self.to_source, Encoder):
            self._to_source = fitted_encoder(self.to_source, rows.shape[1])
        way = Way(self.source, self._to_source)
        n_classes = len(self.classes_)
        if self.strategy == "default":
            return fit_default(
                way, rows, codes, n_classes, self.estimator, self.components, self.random_state
            )
        if not way.is_open(rows.shape[1]) and self.source is not None:
            way = Way(self.source, None, subspace_alignment(self.source.subspace_, rows))
        steps: Sequence[int] = self.components
        if self.strategy == "nonparametric":
            rows, codes, steps = rows[codes >= 0], codes[codes >= 0], self.components[-1:]
        return fit_documented(way, rows, codes, len(self.classes_), self.estimator, steps, self.max_inducing)

    def _check_parameters(self) -> None:
        if not (self.source is None or isinstance(self.source, PrivateSource)):
            raise InvalidInputError("source must be a PrivateSource, or None")
        if self.strategy not in STRATEGIES:
            raise InvalidInputError(f"strategy must be one of {', '.join(STRATEGIES)}")
        if not (self.estimator is None or isinstance(self.estimator, Autoencoder)):
            raise InvalidInputError("estimator must be one of onefold's autoencoders, such as WideKAHM()")
        if np.ndim(self.components) != 1 or len(self.components) == 0:
            raise InvalidInputError("components needs a number of components or more")
        for count in self.components:
            check_whole_number("components", count)
        check_whole_number("max_inducing", self.max_inducing)
        check_whole_number("random_state", self.random_state, at_least=0, or_none=True)
