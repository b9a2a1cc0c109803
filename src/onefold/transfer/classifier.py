"""A classifier for a target with few labels, helped by a private source."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Floats, Index, Labels
from onefold._base.foreign import MOST_WITHOUT_BYTES, NOT_READABLE, claimed
from onefold._base.parallel import one_blas_thread
from onefold._base.stored import NamedClass, Stored
from onefold._base.validation import Entry, Flag, Instance, OneOf, Whole, check_parameters, check_rows
from onefold.encoders import Encoder
from onefold.exceptions import InvalidInputError, OnefoldWarning
from onefold.models import (
    Autoencoder,
    AutoencoderClassifier,
    ClassModels,
    MembershipMapping,
    WideMembershipAutoencoder,
)
from onefold.models.probability import softmax
from onefold.privacy import Guarantee
from onefold.tables import Schema
from onefold.transfer.alignment import PROCRUSTES, Way, subspace_alignment, ways_to
from onefold.transfer.learners import adapted, check_present
from onefold.transfer.pool import Decision, Default, fit_default
from onefold.transfer.source import EncoderField, PrivateSource, described_encoder, fitted_encoder

__all__ = ["TransferClassifier"]

SOURCE_ONLY = "only records of the source are meant: rows of the target are in this model as they are"
ONE_SOURCE_ONLY = (
    "only records of this source are meant: other sources have promises of their own, and rows of the target "
    "are in this model as they are"
)
LARGEST = 1e60  # squares of sums of such numbers are still numbers
STRATEGIES = ("default", "documented", "nonparametric")


def _whole_numbers(value: Any) -> bool:
    """Tell whether a value is a sequence of one or more whole numbers of at least 1."""
    return np.ndim(value) == 1 and len(value) > 0 and all(Whole(1).accepts(count) for count in value)


def _several_sources(value: Any) -> bool:
    """Tell whether a value is a sequence of one or more sources."""
    if not isinstance(value, Sequence) or not len(value):
        return False
    return all(isinstance(each, PrivateSource) for each in value)


CONSTRAINTS: dict[str, Entry] = {
    "source": (Instance(PrivateSource, "a PrivateSource"), None),
    "sources": (Instance(_several_sources, "a sequence of PrivateSource"), None),
    "strategy": OneOf(STRATEGIES),
    "estimator": (Instance(Autoencoder, "one of onefold's autoencoders, such as WideKAHM()"), None),
    "components": Instance(_whole_numbers, "a sequence of whole numbers of at least 1"),
    "max_inducing": Whole(1),
    "allow_missing": Flag(),
    "random_state": (Whole(0), None),
    "schema": (Instance(Schema, "a Schema"), None),
}


# --- the strategy of the document --------------------------------------------------------------------------

# It works in the source space, on rows that were brought there by eq. 79 or a map. All distances are squared,
# as in (87).
THREE = ("target", "mapping", "source")  # the experts of (87)
LARGEST_INITIAL = 20  # 001 Sec. 5: n of the initial target classifier is at most this
# Images of queries held at once, per class.
IMAGE_VALUES = 8_000_000


@dataclass(frozen=True)
class Documented:
    """A fitted target classifier, a source-to-target mapping, and the source: the three experts of (87)."""

    matrix: Floats | None  # of (79), where rows have another width than the source's
    target: AutoencoderClassifier
    target_codes: Index  # class of each autoencoder of the target
    mapping: MembershipMapping | None
    n_classes: int

    def check(self, ways: tuple[Way, ...]) -> None:
        """Refuse what a file held if it does not fit together, or not with its source."""
        check_present(self.target_codes, self.n_classes)
        width, mapping = self.target.n_features_in_, self.mapping
        fitting = len(ways) == 1 and len(self.target_codes) == len(self.target.classes_)
        fitting = fitting and (mapping is None or mapping.n_features_in_ == width)
        if not fitting or (self.matrix is not None and ways[0].source is None):
            raise InvalidInputError("the parts of the classifier do not fit together")

    def decide(self, rows: Array, ways: tuple[Way, ...]) -> Decision:
        """Take the class that any of the three experts finds nearest (87)."""
        found = np.sqrt(self.expert_distances(rows, ways))
        nearest = found.min(axis=0)
        codes = nearest.argmin(axis=1)
        expert = found[:, np.arange(len(codes)), codes].argmin(axis=0)
        return Decision(nearest, THREE, expert, found[0].argmin(axis=1))

    def expert_distances(self, rows: Array, ways: tuple[Way, ...]) -> Floats:
        """Return squared distances to each class by each expert, (3, n, C); infinite where one has none."""
        way = replace(ways[0], matrix=self.matrix)
        rows = way(rows)
        found = np.full((len(THREE), len(rows), self.n_classes), np.inf)
        found[0][:, self.target_codes] = self.target.distances(rows).astype(np.float64) ** 2
        if way.source is None or self.mapping is None:
            return found
        step = max(1, IMAGE_VALUES // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            for code in range(self.n_classes):
                image = way.description.image(rows[block], code)
                found[1][block, code] = _squared(rows[block], self.mapping.predict(image))
                found[2][block, code] = _squared(rows[block], image)
        return found


def fit_documented(
    way: Way,
    rows: Array,
    codes: Index,
    n_classes: int,
    estimator: Autoencoder | None,
    components: Sequence[int],
    max_inducing: int,
) -> Documented:
    """Do everything after (79) on rows of the target; ``codes`` is -1 for rows without a label."""
    prototype = WideMembershipAutoencoder(random_state=0) if estimator is None else estimator
    placed, known = way(rows), np.unique(codes[codes >= 0])  # (80), (81)
    target, labelled = label_step_by_step(prototype, placed, codes, components)
    mapping = None
    if way.source is not None:
        images = np.empty_like(placed)
        for code in known:
            mine = labelled == code
            images[mine] = way.description.image(placed[mine], int(code))  # (84)
        mapping = MembershipMapping(0.5, max_inducing).fit(images, placed)  # (85), (86)
    return Documented(way.matrix, target, known, mapping, n_classes)


def label_step_by_step(
    prototype: Autoencoder, rows: Array, codes: Index, components: Sequence[int]
) -> tuple[AutoencoderClassifier, Index]:
    """Fit the target classifier and label every row, by (82) and (83) for each n of ``components``."""
    free, labelled = codes < 0, codes.copy()
    steps = [adapted(prototype, n_components=int(n)) for n in components]
    if not free.any():  # nothing to label: only the last classifier matters
        return AutoencoderClassifier(steps[-1]).fit(rows, codes), labelled
    smallest = int(np.unique(codes[~free], return_counts=True)[1].min())
    first = min(LARGEST_INITIAL, max(1, smallest - 1))
    classifier = AutoencoderClassifier(adapted(prototype, n_components=first, n_layers=1, inducing_ratio=1.0))
    classifier.fit(rows[~free], codes[~free])
    labelled[free] = classifier.predict(rows[free])
    for step in steps:
        classifier = AutoencoderClassifier(step).fit(rows, labelled)  # (82)
        labelled[free] = classifier.predict(rows[free])  # (83)
    return classifier, labelled


def _squared(rows: Array, images: Array) -> Floats:
    return np.asarray(np.sum((rows.astype(np.float64) - images) ** 2, axis=1))


# --- the classifier ----------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class TransferClassifier(Stored, ClassifierMixin, BaseEstimator):
    """Semi-supervised classifier of a target that a private source may help, or several of them.

    Parameters
    ----------
    source : PrivateSource or None, default=None
        What is known of the source. None learns from the target alone.
    strategy : {"default", "documented", "nonparametric"}, default="default"
        How to transfer; see the notes.
    sources : sequence of PrivateSource or None, default=None
        Several sources, in the place of ``source``; with "default" only. All must know the same classes, and
        rows of the target go the way of each.
    to_source : transformer, callable, "procrustes" or None, default=None
        Takes rows of the target to rows like the source's, or to encoded ones: images to the same size, say,
        or another size of the source's encoder. A transformer must be fitted, or be one of
        :mod:`onefold.encoders`. None takes rows of the same width as they are; by default other widths are
        refused. "procrustes" takes rows of any width and uses nothing of the source but the shape that its
        class means form: see the notes.
    estimator : autoencoder or None, default=None
        Autoencoder of a class of the target. None stands for the documents' ``WideMembershipAutoencoder``
        with the strategies of the documents; "default" then uses none.
    components : sequence of int, default=(5, 10, 15, 20)
        The growing n of the labelling steps of the documents (001 Sec. 5).
    max_inducing : int, default=1000
        Largest number of inducing points of the source-to-target mapping (001 eq. 86).
    allow_missing : bool, default=False
        Accept classes of the source without a labelled row in the target.
    random_state : int or None, default=0
        Divides the labelled rows for cross-validation.
    schema : Schema, default=None
        What is declared about the target's table, whose columns are then prepared one by one; it must agree
        with that of the source about the features. None takes the schema of the source, if it has one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, those of the source if there is one.
    transduction_ : ndarray of shape (n_samples,)
        Label of every row given to fit; rows that had one keep it.
    deciders_ : ndarray of shape (n_samples,)
        Expert that decided every row given to fit, by name: by default one of those in the notes, with the
        strategies of the documents "target", "mapping" or "source".
    weights_ : dict or None
        "default" only: weight of each expert in the pool, by name; with several sources "source 2" is the
        second one as it is.
    decisions_changed_ : int
        Rows without a label that would have another one without the source, or without all of them.
    source_gain_ : float or None
        "default" only: accuracy with the source minus accuracy of a model that is fitted without it, on
        labelled rows that were held out; below 0.0 where the source misleads, 0.0 without a source. Without a
        source the classifier is this very model.
    accuracy_ : float or None
        Share of labelled rows that are found right: of held-out ones by default, of all of them with the
        strategies of the documents; None where none could be held out.
    majority_ : float
        Share of the labelled rows that have the most frequent label.
    schema_ : Schema or None
        The schema by which rows are read; None for rows of numbers.
    guarantee_ : Guarantee, tuple of Guarantee or None
        What the source was promised, and that rows of the target are promised nothing; None without a source.
        With ``sources`` one promise for each, in their order: each is about the records of that source. A
        person or record that is in several has what :class:`onefold.privacy.Ledger` adds up, which nobody can
        see from here.

    See Also
    --------
    PrivateSource : The artefact of a source.

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
    the means of 001. Measured on photographs and on digits with 20 labels per class, it was never better than
    its machines of the target alone, and 2 points behind "default".

    **"default"** is what was found to transfer: six experts, whose scores, counted in typical leads, are
    added with weights.

    - "least squares": on the labelled rows, with the penalty that serves left-out rows best.
    - "target": Gaussians of the classes in at most 64 principal directions (or ``estimator``), begun with
      the beliefs of least squares and refined on the unlabelled rows.
    - "shrunk": class means between the source's and those of the labelled rows (empirical Bayes). The squared
      distance t of the two domains, in units of the variance inside a class, is estimated in closed form; a
      mean of n rows counts t/(t + 1/n), that of the source the rest. The source is first moved by the
      difference of the overall means, which needs no label, if that makes the labelled means more likely.
    - "refined": the same, with unlabelled rows counted as far as each class is believed.
    - "mapping": Gaussians as in "target", begun with the beliefs of "shrunk".
    - "source": the source as it is.

    The weights minimise the sum of the log losses of held-out labelled rows plus 5 times the squared distance
    from a **prior** (target .3, least squares .05, shrunk .15, refined .3, mapping .3, source .2). With few
    labels they stay near the prior, so that the source counts; with many the labels decide. There is no test
    that switches the source off: on generated data a useless source cost up to 11 points with one labelled
    row per class and at most 1 from three on. ``source_gain_`` compares with "target" and "least squares"
    alone, weighed in the same way without the source; weights are compared on folds that they were not
    fitted to. Labels are taken for a sample of all classes in equal parts: where classes have very
    different sizes, the source as it is, which knows sizes, can be several points better. If one column
    varies more than ten times as much as the median one, columns have units of their own and are divided
    by their spread.

    **Several sources** (``sources``): those that see rows in the same way (the same encoder or none; of
    moments also the same radius and ``centre``) have their class means and covariances averaged before they
    are shrunk. A source counts by 1/t, with its own squared distance t to the labelled rows as above, so that
    one that is far away, or wrong, counts little; how far the average is from the target is then measured
    again, since sources can err together. "source 1", "source 2" and so on share the prior of "source".
    Sources that see rows in different ways have "shrunk", "refined" and "mapping" of their own, named by
    their numbers ("source 2: shrunk"), with a part of the prior. What document 001 calls multi-task learning
    is (87), which asks the target's and one source's models together; it says nothing about a second source,
    and its strategies take one.

    Rows of **another width** are refused by default: on four pairs of features of photographs turned means
    gained nothing, and with one label per class they lost up to 3 points. With
    ``to_source="procrustes"`` the experts are "target", "least squares" and "source", which then is the
    source's class means turned, scaled and moved onto those of the labelled rows.

    *Privacy.* Nothing but the artefact is known of the source, so all of this is post-processing of it. The
    target's own rows are **not** protected: a saved model holds means and covariances of them, or rows.

    References
    ----------
    Document 001, Section 4.2, eq. 79-87; document 003, Section 3.

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

    kind: ClassVar[str] = "transfer classifier"
    _left_out = ("source", "sources", "to_source", "estimator")

    source: PrivateSource | None = None
    strategy: str = "default"
    _: KW_ONLY
    sources: Sequence[PrivateSource] | None = None
    to_source: Any = None
    estimator: Autoencoder | None = None
    components: Sequence[int] = (5, 10, 15, 20)
    max_inducing: int = 1000
    allow_missing: bool = False
    random_state: int | None = 0
    schema: Any = None

    @one_blas_thread()
    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn from rows of the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            Rows of the target; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels; -1 where a row has none. With a schema None takes its label column, in which a
            missing cell or -1 means that a row has none.

        Returns
        -------
        TransferClassifier
            This object.

        Warns
        -----
        OnefoldWarning
            If no more labelled rows are found right than the most frequent label alone gets right.
        """
        check_parameters(self, CONSTRAINTS)
        given = self._given()
        self.schema_ = self._agreed(given)
        given_labels = y if self.schema_.plain else few_labels(self.schema_, X, y)
        rows, labels = check_rows(self, self.schema_.transform(X), given_labels)
        if not float(np.abs(rows).max()) <= LARGEST:
            raise InvalidInputError(f"X holds numbers beyond {LARGEST:g}: rescale it")
        known = given[0].classes_ if given else None
        self.classes_, codes = check_target_labels(labels, known, self.allow_missing)
        self._strategy = self._fit(rows, codes, given)
        decision = self._strategy.decide(rows, self._ways)
        free = codes < 0
        found = np.where(free, decision.codes, codes)
        self.transduction_ = self.classes_[found]
        self.deciders_ = decision.deciders
        self.decisions_changed_ = int(np.sum(decision.codes[free] != decision.alone[free]))
        self._name_results(float(np.mean(decision.codes[~free] == codes[~free])))
        self.majority_ = float(np.bincount(codes[~free]).max() / np.count_nonzero(~free))
        if self.accuracy_ is not None and not self.accuracy_ > self.majority_ and len(self.classes_) > 1:
            warnings.warn(
                f"{100 * self.accuracy_:.1f} % of labelled rows are found right, and the most frequent label "
                f"alone gets {100 * self.majority_:.1f} %: label more rows, or check that columns have the "
                "units of the source",
                OnefoldWarning,
                stacklevel=3,  # past the guard of threads
            )
        return self

    def _name_results(self, accuracy: float | None) -> None:
        """Say what the strategy found out, and what is promised."""
        fitted = self._strategy
        pool = fitted if isinstance(fitted, Default) else None
        self.source_gain_ = None if pool is None else pool.gain
        self.weights_ = None if pool is None else pool.named_weights
        self.accuracy_ = accuracy if pool is None else pool.accuracy
        self.guarantee_ = promise_to(self.source, self.sources)

    def _given(self) -> tuple[PrivateSource, ...]:
        """Return all sources, which must know the same classes."""
        if self.source is not None and self.sources is not None:
            raise InvalidInputError("give source or sources, not both")
        given = tuple(self.sources or ()) if self.source is None else (self.source,)
        if len(given) > 1 and self.strategy != "default":
            raise InvalidInputError(
                f'several sources go with the strategy "default": "{self.strategy}" knows one source'
            )
        for number, each in enumerate(given[1:], 2):
            if not np.array_equal(each.classes_, given[0].classes_):
                theirs, first = (listed([str(label) for label in one.classes_]) for one in (each, given[0]))
                raise InvalidInputError(
                    f"source {number} knows other classes ({theirs}) than source 1 ({first})"
                )
        return given

    def _agreed(self, given: Sequence[PrivateSource]) -> Schema:
        """Return the schema of the target, which must mean the same features as those of the sources."""
        own = Schema.of(self.schema)
        for number, each in enumerate(given, 1):
            own = each.schema_ if own.plain else own
            if not each.schema_.plain and self.to_source is None:
                which = "the source" if len(given) == 1 else f"source {number}"
                _check_same_features(each.schema_, own, which)
        return own

    def distances(self, X: ArrayLike) -> Array:
        """Measure the distance of each row to each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Distances; the smallest decides. With the strategies of the documents it is the least of the
            experts' distances (87); by default minus the logarithm of the probability of each class.
        """
        return self._decide(X).distances

    @available_if(lambda model: model.strategy == "default")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class; only with ``strategy="default"``.

        The weights of the pool, and so how sure it is, follow from the log loss on labelled rows that were
        held out and from a prior: with two or three labelled rows per class mostly from the prior. Labelled
        rows count as a sample of all classes in equal parts: where classes are not equally frequent, weigh
        the probabilities by how frequent they are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        return softmax(-self.distances(X).astype(np.float64))

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        decision = self._decide(X)
        return np.asarray(self.classes_[decision.codes])

    def deciders(self, X: ArrayLike) -> Labels:
        """Name the expert that decides each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target.

        Returns
        -------
        ndarray of shape (n_samples,)
            Names of experts.
        """
        return self._decide(X).deciders

    def predict_target_alone(self, X: ArrayLike) -> Labels:
        """Predict the class of each row as it would be without the source.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        decision = self._decide(X)
        return np.asarray(self.classes_[decision.alone])

    def decision_function(self, X: ArrayLike) -> Array:
        """Return minus the distances.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            Minus the distances; for two classes the advantage of the second.
        """
        distances = self.distances(X)
        return distances[:, 0] - distances[:, 1] if len(self.classes_) == 2 else -distances

    def matching_score(self, X: ArrayLike) -> Array:
        """Compute the class-matching score of each row from the distances (000 eq. 63).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Scores in (1/e, 1].
        """
        return ClassModels.matching_score(cast(Any, self), X)

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: nothing of the rows given to fit, nor the ``estimator``."""
        return {
            **{name: kind for name, kind in super()._kept().items() if name != "guarantee_"},
            "classes_": Labels,
            "schema_": Annotated[Any, NamedClass("Schema")],
            "source": PrivateSource | None,
            "sources": list[PrivateSource] | None,
            "_to_source": Annotated[Any, EncoderField()],
            "_strategy": Default | Documented,
            "accuracy_": float | None,
            "majority_": float,
            "decisions_changed_": int,
        }

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        check_is_fitted(self, "_strategy")
        return super()._kept_values(compact) | {"_to_source": described_encoder(self._to_source)}

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become fitted; contents that do not fit together are refused."""
        super()._take_over(values)
        self.to_source, width = self._to_source, self.n_features_in_
        self.schema = None if self.schema_.plain else self.schema_  # which may be that of the source
        check_parameters(self, CONSTRAINTS)
        given = self._given()
        fitting = all(np.array_equal(self.classes_, source.classes_) for source in given)
        fitting = fitting and (self.schema_.plain or self.schema_.width == width)
        fitting = fitting and isinstance(self._strategy, Default) == (self.strategy == "default")
        if not fitting or not len(self.classes_) == self._strategy.n_classes >= 1:
            raise InvalidInputError("its classes or its columns are not those of its source")
        self._ways = ways_to(given, self._to_source)
        self._strategy.check(self._ways)
        self._name_results(values["accuracy_"])
        try:
            self._strategy.decide(np.zeros((1, claimed(width, MOST_WITHOUT_BYTES, least=1))), self._ways)
        except NOT_READABLE:  # what does not fit fails here and not in use
            raise InvalidInputError("the contents do not fit together") from None

    @one_blas_thread()  # a loaded classifier answers with the bits of the fitted one
    def _decide(self, X: ArrayLike) -> Decision:
        check_is_fitted(self, "_strategy")
        rows = check_rows(self, self.schema_.transform(X), reset=False)
        bound = min(LARGEST, float(np.finfo(rows.dtype).max))
        return self._strategy.decide(np.clip(rows, -bound, bound), self._ways)  # beyond, all is equally far

    def _fit(self, rows: Array, codes: Index, given: Sequence[PrivateSource]) -> Default | Documented:
        self._to_source = self.to_source
        if isinstance(self.to_source, Encoder):
            self._to_source = fitted_encoder(self.to_source, rows.shape[1])
        self._ways = ways = ways_to(given, self._to_source)
        n_classes, width = len(self.classes_), rows.shape[1]
        if ways[0].turns and self.strategy != "default":
            raise InvalidInputError(f'to_source="{PROCRUSTES}" goes with the strategy "default"')
        closed = [number for number, way in enumerate(ways, 1) if not way.is_open(width)]
        if self.strategy == "default":
            if closed:
                number = closed[0]
                which = "the source" if len(given) == 1 else f"source {number}"
                raise InvalidInputError(
                    f"the target has {width} features and {which} {given[number - 1].n_features_in_}: "
                    f'give to_source, a map to the features of the source, or to_source="{PROCRUSTES}" '
                    f"(--{PROCRUSTES})"
                )
            return fit_default(
                ways, rows, codes, n_classes, self.estimator, self.components, self.random_state
            )
        way = ways[0]
        if closed and way.source is not None:
            way = Way(way.source, None, subspace_alignment(way.source.subspace_, rows))
        steps: Sequence[int] = self.components
        if self.strategy == "nonparametric":
            rows, codes, steps = rows[codes >= 0], codes[codes >= 0], self.components[-1:]
        return fit_documented(way, rows, codes, n_classes, self.estimator, steps, self.max_inducing)


def promise_to(
    source: PrivateSource | None, sources: Sequence[PrivateSource] | None = None
) -> Guarantee | tuple[Guarantee, ...] | None:
    """Return what a classifier for a target promises: to the records of its sources, and to no others.

    Several sources protect different records, each with its own numbers: there is no number for all.
    """
    if sources is not None:
        return tuple(each.guarantee_.provided(ONE_SOURCE_ONLY) for each in sources)
    return None if source is None else source.guarantee_.provided(SOURCE_ONLY)


def _check_same_features(theirs: Schema, own: Schema, which: str) -> None:
    """Refuse a schema of the target whose features are not those of a source."""
    pairs = [tuple((each.name, each.contract()) for each in s.features) for s in (theirs, own)]
    for place, pair in enumerate(zip(*pairs, strict=False), 1):
        if pair[0] != pair[1]:
            names = f"{pair[1][0]!r}, differs from {pair[0][0]!r} of {which}"
            raise InvalidInputError(f"feature {place} of the schema, {names}")
    counts = [len(each) for each in pairs]
    if counts[0] != counts[1]:
        raise InvalidInputError(f"the schema has {counts[1]} features, that of {which} has {counts[0]}")


# --- labels: few, with -1 where a row has none -------------------------------------------------------------


def with_unlabelled(schema: Schema) -> Schema:
    """Return the schema of a table of which most labels are missing or -1."""
    label = schema.label
    if label is None or not label.is_category:
        raise InvalidInputError('the schema has no field of the role "label" with classes')
    tokens = tuple(schema.missing_values if label.missing_values is None else label.missing_values)
    levels = label.levels
    if label.type in ("integer", "number") and -1 not in levels:
        levels = (*levels, -1)
    few = replace(label, missing="indicator", missing_values=(*tokens, "-1"), levels=levels)
    found: Schema = clone(schema).set_params(
        fields=[few if each is label else each for each in schema.fields]
    )
    return found


def few_labels(schema: Schema, X: Any, y: Any = None) -> Labels:
    """Return the labels of a target's table, -1 where a row has none; an undeclared one is refused."""
    if y is not None:
        return np.asarray(y)
    few = with_unlabelled(schema)
    label = few.label
    assert label is not None
    codes = few.parse(X, roles=("label",))[label.name]
    shown = np.array([*label.levels, -1], dtype=str if label.type == "string" else None)
    return np.asarray(shown[codes])


def check_target_labels(labels: Labels, known: Labels | None, allow_missing: bool) -> tuple[Labels, Index]:
    """Return the classes, and the position of each row's label among them, -1 where there is none.

    ``known`` are the classes of the source; without one the classes are those that have a label.
    """
    if labels.dtype.kind == "O" and any(label is None for label in labels):
        raise InvalidInputError("y holds None: a row without a label has -1")
    _check_classes(labels)
    is_text = labels.dtype.kind in "OUS"
    free = labels.astype(str) == "-1" if is_text else labels == -1
    if free.all():
        raise InvalidInputError("no row has a label: all are -1")
    own = np.unique(labels[~free].astype(str) if is_text else labels[~free])
    classes = own if known is None else np.asarray(known)
    if is_text != (classes.dtype.kind in "OUS"):
        raise InvalidInputError("the labels are numbers and the source's are text, or the other way round")
    if not np.isin(own, classes).all():  # before the cast, which shortens text and wraps numbers
        raise InvalidInputError("y holds a class that the source does not know")
    given = labels[~free].astype(classes.dtype)
    if len(own) < len(classes) and not allow_missing:
        lacking = [str(label) for label in classes if label not in given]
        raise InvalidInputError(
            f"no row is labelled as {listed(lacking)}: label one, or allow it "
            "(allow_missing=True, --allow-missing)"
        )
    codes = np.full(len(labels), -1, dtype=np.intp)
    codes[~free] = np.searchsorted(classes, given)
    return classes, codes


def _check_classes(labels: Labels) -> None:
    """Refuse numbers that are measurements."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(labels.astype(str) if labels.dtype.kind == "O" else labels)
    except ValueError as error:
        raise InvalidInputError(str(error).splitlines()[0]) from None


def listed(names: Sequence[str], shown: int = 5) -> str:
    """List the first of some class names; classes are published by the source and no data."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
