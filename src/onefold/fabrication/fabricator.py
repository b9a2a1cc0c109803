"""Private synthetic data: noise on every entry, then smoothing (000 Def. 14 and Remark 4, 004 Sec. 3.8).

:class:`PrivateClassifier` fits any classifier to such rows (000 Def. 12 and 15).
"""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from onefold._base.arrays import Array, Index, Labels
from onefold._base.parallel import run_parallel
from onefold._base.validation import Entry, Instance, OneOf, Whole, check_parameters, check_rows
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.fabrication.smoother import (
    Fabrication,
    documented_images,
    documented_smoothing,
    fixed,
    honest,
    stepper,
)
from onefold.models import AutoencoderClassifier, branch_count, consecutive, split
from onefold.privacy import Guarantee, Mechanism, RandomisedLabels, charge
from onefold.privacy.contract import NO_LABELS, check_domain, contract_rows, released, under_contract
from onefold.privacy.ledger import LEDGER, AnyLedger
from onefold.privacy.persons import SAME_PERSON, kept_rows
from onefold.tables import Schema

__all__ = ["Fabricator", "PrivateClassifier"]

NEEDED = "a noise of onefold.privacy with a declared domain, such as OptimalNoise(1.0, sensitivity=Box(0, 1))"
LOOKED = "the number of smoothing steps was chosen by looking at the raw data, and so was the partition"
# Clusters count as visible if the rows vary so many times as much as the noise where they vary most. For
# 60000 digits that is 4 to 6 at epsilon 1, where batches give the better classifier, and 11 to 18 at epsilon
# 2, where clusters do.
VISIBLE = 8.0


@dataclass(eq=False, repr=False)
class Fabricator(BaseEstimator):
    """Replaces every row by a private one: noise, smoothing, and the image under the smoothed data's machine.

    Parameters
    ----------
    mechanism : Mechanism
        The noise; its guarantee is the guarantee of the result. One with ``rows_per_person`` also states what
        a person is promised, and needs ``person`` with the rows.
    n_components : int, default=20
        Dimension of the encoding used in smoothing.
    stopping : {"honest", "documented"} or int, default="honest"
        How often to smooth. "honest" looks only at the noisy rows and the public variance of the noise.
        "documented" follows the documents, which compare with the raw rows: **that voids the guarantee**.
        A number fixes it.
    branch_size : int, default=1000
        Larger classes are split into branches of about this size, after the noise: into clusters of principal
        components freed of it or, where nearly everything is noise, into consecutive rows.
        "documented" follows 000 Remark 4 and splits raw rows by k-means.
    form : {"image", "smoothed"}, default="image"
        What is released: the images of the smoothed rows (000 Def. 14) or the smoothed rows (004 eq. 144).
        "documented" stopping follows 000 eq. 92 for the first and 004 eq. 145 for the second.
    label_mechanism : RandomisedLabels or None, default=None
        Randomises the labels; then smoothing uses the randomised ones. None releases labels as they are.
    clip : bool, default=False
        Move the result, too, into the mechanism's declared domain. This is post-processing; the raw rows
        are clipped to the domain in any case.
    n_jobs : int or None, default=None
        Worker threads.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.
    schema : Schema, default=None
        What is declared about the table; the mechanism then needs ``sensitivity=domain_of(schema)``, and
        what comes out is a dict of columns of the declared types. None takes rows of numbers.

    Attributes
    ----------
    guarantee_ : Guarantee
        What the last call promises; see ``voided_by``.
    n_steps_ : list of int
        How often each branch was smoothed.
    labels_ : ndarray or None
        The labels that belong to the fabricated rows.

    See Also
    --------
    PrivateClassifier : Fit a classifier to fabricated rows.
    MomentFabricator : Synthetic records with a guarantee for whole records.

    Notes
    -----
    *Guarantees.* With ``stopping="honest"`` or a number, everything after the noise is a function of the
    noisy rows, the labels and public numbers: the result is as private as the noise, per entry, per record
    and per person, and no more. A seed voids the guarantee. Labels, class sizes and the number of rows are
    released as they are unless ``label_mechanism`` is given. Of a data frame only the names of its columns
    are kept: its index, and the types of single columns, can depend on one record.

    References
    ----------
    Document 000, Definition 14 and Remark 4; document 004, Section 3.8.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import Box, Laplace
    >>> X = np.random.default_rng(0).random((60, 4))
    >>> maker = Fabricator(Laplace(epsilon=1.0, sensitivity=Box(0, 1)), n_components=2)
    >>> maker.fabricate(X).shape
    (60, 4)
    >>> maker.guarantee_.entry, maker.guarantee_.holds
    ((1.0, 0.0), True)
    """

    constraints: ClassVar[dict[str, Entry]] = {
        "mechanism": Instance(Mechanism, NEEDED),
        "n_components": Whole(1),
        "branch_size": Whole(1),
        "form": OneOf(("image", "smoothed")),
        "stopping": ("honest", "documented", Whole(0)),
        "ledger": LEDGER,
    }

    mechanism: Mechanism
    n_components: int = 20
    stopping: str | int = "honest"
    branch_size: int = 1000
    _: KW_ONLY
    form: str = "image"
    label_mechanism: RandomisedLabels | None = None
    clip: bool = False
    n_jobs: int | None = None
    ledger: AnyLedger = None
    schema: Any = None

    def fabricate(
        self, X: Any, y: ArrayLike | None = None, random_state: Any = None, person: Any = None
    ) -> Any:
        """Make private rows in the place of those of a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or table
            The raw rows; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_samples,), default=None
            Labels; each class is then fabricated by itself. With a schema None takes its label column.
        random_state : int, Generator or None, default=None
            None takes the noise from the entropy of the system. A seed makes the noise known, which voids
            the guarantee: for tests only.
        person : array-like of shape (n_samples,), default=None
            Who each row is about, for a mechanism with ``rows_per_person``: what a person has above is
            dropped first, at random. With a schema None takes its person column.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features), or dict of columns
            Row i stands for row i of ``X``, or of what is kept of it. A data frame keeps the names of its
            columns. The numbers are float32 if all of ``X`` is, otherwise float64. With a schema a dict of
            the declared columns, the label among them.
        """
        raw, labels = self._limited(X, y, person, random_state)
        return self._like(X, self.fabricate_checked(raw, labels, random_state)[1])

    def fabricate_checked(
        self, rows: Array, labels: Labels | None, random_state: Any = None
    ) -> tuple[Array, Array]:
        """Do what :meth:`fabricate` does, for parameters, rows and labels that the caller has checked.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_features)
            The raw rows: finite numbers in float32 or float64, no more of a person than the mechanism's
            ``rows_per_person``.
        labels : ndarray of shape (n_samples,) or None
            Their labels.
        random_state : int, Generator or None, default=None
            As in :meth:`fabricate`.

        Returns
        -------
        noisy : ndarray of shape (n_samples, n_features)
            The noisy rows.
        private : ndarray of shape (n_samples, n_features)
            The private rows that were made of them.
        """
        guarantee = self.promise(*rows.shape[::-1])
        if self.stopping == "documented":
            warnings.warn(
                f"{LOOKED}: the guarantee of the noise does not hold for the result; use stopping='honest'",
                PrivacyLeakWarning,
                stacklevel=3,
            )
        noisy = self._noisy(rows, labels, random_state, guarantee, "fabricated rows")
        return noisy, self._smooth(rows, noisy, self.labels_)

    def promise(self, n_features: int, n_samples: int | None = None, *, smoothed: bool = True) -> Guarantee:
        """State what :meth:`fabricate` promises, before any noise is drawn.

        Parameters
        ----------
        n_features : int
            Entries of a row.
        n_samples : int or None, default=None
            Number of rows.
        smoothed : bool, default=True
            False states what :meth:`randomise` promises.

        Returns
        -------
        Guarantee
            The promise without a seed; smoothing with ``stopping="documented"`` voids it.
        """
        guarantee = self.mechanism.guarantee(n_features, n_samples)
        if self.mechanism.rows_per_person is not None:
            guarantee = guarantee.provided(SAME_PERSON)
        if self.label_mechanism is not None:
            guarantee = guarantee.with_labels(self.label_mechanism.epsilon)
        schema = self._schema
        if not schema.plain:  # an entry is a cell of the table, however it is encoded
            guarantee = replace(guarantee, n_features=len(released(schema).features))
        guarantee = under_contract(guarantee, schema)
        return guarantee.voided(LOOKED) if smoothed and self.stopping == "documented" else guarantee

    def randomise(
        self, X: Any, y: ArrayLike | None = None, random_state: Any = None, person: Any = None
    ) -> Any:
        """Add the noise alone, without smoothing (000 Alg. 1).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The raw rows.
        y : array-like of shape (n_samples,), default=None
            Labels; randomised where there is a ``label_mechanism``.
        random_state : int, Generator or None, default=None
            None takes the noise from the entropy of the system. A seed makes the noise known, which voids
            the guarantee: for tests only.
        person : array-like of shape (n_samples,), default=None
            As in :meth:`fabricate`.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            The noisy rows, in the form that :meth:`fabricate` gives them.
        """
        raw, labels = self._limited(X, y, person, random_state)
        return self._like(X, self.randomise_checked(raw, labels, random_state))

    def randomise_checked(self, rows: Array, labels: Labels | None, random_state: Any = None) -> Array:
        """Do what :meth:`randomise` does, for parameters, rows and labels that the caller has checked.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_features)
            The raw rows: finite numbers in float32 or float64, no more of a person than the mechanism's
            ``rows_per_person``.
        labels : ndarray of shape (n_samples,) or None
            Their labels.
        random_state : int, Generator or None, default=None
            As in :meth:`randomise`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The noisy rows.
        """
        guarantee = self.promise(*rows.shape[::-1], smoothed=False)
        return self._noisy(rows, labels, random_state, guarantee, "noisy rows")

    def _noisy(
        self, rows: Array, labels: Labels | None, random_state: Any, guarantee: Guarantee, name: str
    ) -> Array:
        """Enter the release in the ledger, then draw the noise."""
        if self.label_mechanism is not None and labels is None:
            raise InvalidInputError("label_mechanism needs labels y")
        guarantee = guarantee.seeded(random_state)
        guarantee = charge(self.ledger, guarantee, name)
        # No seed stays no seed, so that a hardened mechanism takes its own cryptographic stream.
        rng = None if random_state is None else np.random.default_rng(random_state)
        if self.label_mechanism is not None:
            labels = np.asarray(self.label_mechanism.randomise(labels, rng))
        noisy = np.asarray(self.mechanism.randomise(rows, rng), dtype=rows.dtype)
        self.labels_, self.guarantee_ = labels, guarantee
        return noisy

    def smooth(self, noisy: ArrayLike, y: ArrayLike | None = None) -> Array:
        """Smooth rows that are noisy already: the second half of :meth:`fabricate`, post-processing only.

        Each class is smoothed by itself, so a class without changed rows need not be smoothed again.

        Parameters
        ----------
        noisy : array-like of shape (n_samples, n_features)
            Rows with the noise of ``mechanism``.
        y : array-like of shape (n_samples,), default=None
            Their labels.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The private rows.
        """
        return self.smooth_checked(*self._checked(noisy, y))

    def smooth_checked(self, noisy: Array, labels: Labels | None = None) -> Array:
        """Do what :meth:`smooth` does, for parameters, rows and labels that the caller has checked.

        Parameters
        ----------
        noisy : ndarray of shape (n_samples, n_features)
            Rows with the noise of ``mechanism``: finite numbers in float32 or float64.
        labels : ndarray of shape (n_samples,) or None, default=None
            Their labels.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The private rows.
        """
        if self.stopping == "documented":
            raise InvalidInputError('stopping="documented" looks at raw rows: use "honest" or a number')
        return self._smooth(noisy, noisy, labels)

    @property
    def _schema(self) -> Schema:
        return Schema.of(self.schema)

    def _checked(self, X: Any, y: ArrayLike | None) -> tuple[Array, Labels | None]:
        check_parameters(self)
        rows: Array = check_rows(self, X, declared_type=True)
        labels: Labels | None = None if y is None else column_or_1d(y)
        check_consistent_length(rows, labels)
        return rows, labels

    def _limited(self, X: Any, y: Any, person: Any, random_state: Any) -> tuple[Array, Labels | None]:
        """Check rows and labels, and drop rows of persons who have more than the mechanism is made for."""
        check_parameters(self)
        limit = self.mechanism.rows_per_person
        schema = self._schema
        if schema.plain:
            rows, labels = self._checked(schema.transform(X), y)
        else:
            check_domain(self.mechanism.domain, schema)
            whom = False if limit is None and person is None else person
            rows, labels, person = contract_rows(schema, X, y, whom)
        kept = kept_rows(person, limit, len(rows), random_state)
        if kept is None:
            return rows, labels
        return rows[kept], None if labels is None else labels[kept]

    def _like(self, X: Any, values: Array) -> Any:
        """Put values into a table of the schema, or a frame with the names of ``X``, if it is one.

        Types and index of a frame are not taken over.
        """
        schema = self._schema
        if schema.plain:
            frame = hasattr(X, "columns") and hasattr(X, "index")
            return type(X)(values, columns=X.columns) if frame else values
        found = released(schema).inverse_transform(values)
        if schema.label is not None and self.labels_ is not None:
            found[schema.label.name] = self.labels_
        return {known.name: found[known.name] for known in schema.fields if known.name in found}

    def _smooth(self, raw: Array, noisy: Array, labels: Labels | None) -> Array:
        mechanism = self.mechanism.for_features(noisy.shape[1])
        variance = mechanism.variance
        codes = (
            np.zeros(len(raw), dtype=np.intp) if labels is None else np.unique(labels, return_inverse=True)[1]
        )
        groups = [np.flatnonzero(codes == code) for code in range(codes.max(initial=0) + 1)]
        step = stepper(self.n_components)
        if self.stopping == "documented":
            branches = divide_raw(raw, groups, self.branch_size)
        else:
            branches = divide_noisy(noisy, groups, self.branch_size, variance)

        def fabricate(rows: Index) -> Fabrication:
            if self.stopping == "honest":
                return honest(noisy[rows], step, variance)
            if self.stopping == "documented":
                rule = documented_images if self.form == "image" else documented_smoothing
                return rule(noisy[rows], step, raw[rows])
            return fixed(noisy[rows], step, int(self.stopping))

        done = run_parallel(fabricate, branches, self.n_jobs, "fabricating", show_progress=None)
        result = np.empty_like(noisy)
        for rows, made in zip(branches, done, strict=True):
            result[rows] = made.images if self.form == "image" else made.smoothed
        self.n_steps_ = [made.n_steps for made in done]
        if self.clip and mechanism.domain is not None:
            result = np.asarray(mechanism.domain.clip(result), dtype=noisy.dtype)
        return result


# --- which rows are smoothed together ---------------------------------------------------------------------


def divide_raw(rows: Array, groups: Sequence[Index], branch_size: int) -> list[Index]:
    """Cluster each group on raw rows, as the documents do: what uses the clusters is not private."""
    return [part for group in groups for part in split(rows, group, 1.0, branch_size, "kmeans", 0)]


def divide_noisy(rows: Array, groups: Sequence[Index], branch_size: int, variance: float) -> list[Index]:
    """Divide each group, looking at rows with noise of known variance and at nothing else.

    Clusters help where they can be seen. Where nearly everything is noise, a row joins rows whose noise is
    like its own, which smoothing then takes for data; parts of consecutive rows are better. Each group is
    divided by itself, so that a change in one group changes nothing in the others.
    """
    parts: list[Index] = []
    for group in groups:
        n_parts = branch_count(len(group), branch_size)
        components = _without_noise(rows[group], variance) if n_parts > 1 else None
        if components is None:
            parts += consecutive(group, n_parts)
        else:
            found = split(components, np.arange(len(group)), 1.0, branch_size, "kmeans", 0)
            parts += [group[part] for part in found]
    return parts


def _without_noise(rows: Array, variance: float) -> Array | None:
    """Return principal components (N, r), each multiplied by the part of its variance that is not noise.

    On very noisy rows k-means finds handfuls of outliers and one heap of the rest. None if the noise hides
    everything.
    """
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    n_rows, n_features = centred.shape
    if n_features <= n_rows:
        values, vectors = np.linalg.eigh(centred.T @ centred)
        components = centred @ vectors
    else:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        components = vectors * np.sqrt(np.maximum(values, 0.0))
    variances = values / n_rows
    if not variances[-1] > VISIBLE * variance:
        return None
    useful = variances > variance
    kept = 1.0 - variance / variances[useful]
    return np.asarray(components[:, useful] * kept, dtype=rows.dtype)


# --- any classifier fitted to private rows --------------------------------------------------------------


def _has_probabilities(model: "PrivateClassifier") -> bool:
    """Whether the classifier, or before fitting its prototype, has probabilities; ours have."""
    found = getattr(model, "classifier_", model.classifier)
    return found is None or hasattr(found, "predict_proba")


@dataclass(eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, BaseEstimator):
    """Classifier fitted to noisy or fabricated rows instead of raw ones.

    Parameters
    ----------
    classifier : classifier or None, default=None
        Any scikit-learn classifier, ours included; None stands for ``AutoencoderClassifier()``.
    mechanism : Mechanism or None, default=None
        The noise, which is required: None is refused, since no domain can be assumed.
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
        None draws the noise from the entropy of the system. A seed makes the noise known, which voids the
        guarantee: for tests only.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.
    schema : Schema, default=None
        What is declared about the table; the mechanism then needs ``sensitivity=domain_of(schema)``, and rows
        and queries are tables. None takes rows of numbers.

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
    >>> from onefold.privacy import Box, Laplace
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> X = rng.random(size=(200, 3)) + y[:, None]
    >>> model = PrivateClassifier(GaussianNB(), Laplace(8.0, sensitivity=Box(0, 2))).fit(X, y)
    >>> model.predict([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]).tolist()
    [0, 1]
    >>> model.guarantee_.holds
    True
    """

    classifier: Any = None
    mechanism: Mechanism | None = None
    fabricate: bool = True
    stopping: str | int = "honest"
    _: KW_ONLY
    n_components: int = 20
    branch_size: int = 1000
    label_mechanism: RandomisedLabels | None = None
    random_state: Any = None
    ledger: AnyLedger = None
    schema: Any = None

    def fit(self, X: Any, y: ArrayLike | None = None, person: ArrayLike | None = None) -> Self:
        """Make the rows private, then fit the classifier to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The raw rows; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels; with a schema None takes its label column.
        person : array-like of shape (n_samples,) or None, default=None
            Who each row is about, for a mechanism with ``rows_per_person``.

        Returns
        -------
        PrivateClassifier
            This object.
        """
        maker = self.maker()
        rng = None if self.random_state is None else np.random.default_rng(self.random_state)
        if Schema.of(self.schema).plain:
            X, y = check_rows(self, X, y, declared_type=True)
        rows, labels = maker._limited(X, y, person, rng)
        if labels is None:
            raise InvalidInputError(NO_LABELS)
        if self.fabricate:
            private = maker.fabricate_checked(rows, labels, rng)[1]
        else:
            private = maker.randomise_checked(rows, labels, rng)
        prototype = AutoencoderClassifier() if self.classifier is None else self.classifier
        fitted = clone(prototype).fit(private, maker.labels_)
        # Both or neither: the promise of this noise must not stand beside an earlier classifier.
        self.classifier_, self.guarantee_ = fitted, maker.guarantee_
        self.classes_ = self.classifier_.classes_
        return self

    def maker(self) -> Fabricator:
        """Return what makes the private rows.

        Returns
        -------
        Fabricator
            A new one with the parameters of this classifier.
        """
        if self.mechanism is None:
            raise InvalidInputError(f"mechanism must be {NEEDED}")
        return Fabricator(
            self.mechanism,
            self.n_components,
            self.stopping,
            self.branch_size,
            label_mechanism=self.label_mechanism,
            ledger=self.ledger,
            schema=self.schema,
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

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Array:
        """Estimate the probability of each class, for a classifier that has probabilities.

        Those of onefold's classifiers are calibrated on the private rows they were fitted to. Rows without
        noise are easier to tell apart: probabilities for them tend to be less sure than they could be.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``; post-processing of the private rows.
        """
        return np.asarray(self.classifier_.predict_proba(self._queries(X)))

    def _queries(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows = Schema.of(self.schema).transform(X)
        return np.asarray(check_rows(self, X, reset=False)) if rows is X else rows
