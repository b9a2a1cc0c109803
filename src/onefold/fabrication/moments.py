"""A classifier on moments: with noise private for whole records, without it exact wherever the rows are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NotRequired, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Arrays, Floats, Index, Labels
from onefold._base.parallel import one_blas_thread
from onefold._base.validation import Entry, OneOf, Whole, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.fabrication.exact import MomentFolds, folds_of, plain_moments, statistic_of
from onefold.fabrication.maps import RowMap, candidate_maps
from onefold.fabrication.moment_heads import (
    density_temperature,
    noisy_head,
    plain_head,
    ridge_of_folds,
)
from onefold.fabrication.on_moments import ClassesOnMoments, declared_radius
from onefold.models.probability import softmax
from onefold.models.reasons import ClassReasons, explain
from onefold.models.ridge import LinearScores, PooledSpectrum, QuadraticScores
from onefold.privacy.moments import PrivateMoments
from onefold.tables.columns import column_of

__all__ = ["MomentClassifier", "MomentFabricator"]

HEADS = ("auto", "ridge", "lda", "qda")
RULES = ("average", "ridge", "lda", "balanced")  # of exact moments
CONSTRAINTS: dict[str, Entry] = {
    "head": OneOf(HEADS),
    "second_moments": OneOf(("class", "pooled", "auto")),
    "lift": ("auto", Whole(1), None),
    "objective": OneOf(("accuracy", "balanced")),
}
NO_RIDGE = "head='ridge' is for moments without noise: use 'lda' or 'auto'"


@dataclass(eq=False, repr=False, kw_only=True)
class MomentClassifier(ClassifierMixin, ClassesOnMoments):
    """Discriminants in closed form on moments: one release, without gradients, and without the rows.

    With noise (``epsilon``) a public rule (``second_moments``) takes either second moments of each class,
    which then is a Gaussian with repaired mean and covariance, or one of all records, for a linear
    discriminant that allows for the noise. Without noise (``epsilon=None``) counts, class sums and one pooled
    second moment, in whole numbers, give a ridge regression and a linear discriminant analysis, whose scores
    are added.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss for a whole record. None adds no noise, and the guarantee says so.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.
    encoder : transformer or None, default=None
        Applied to the rows first: one of :mod:`onefold.encoders`. Any other transformer is fitted to the raw
        rows, which voids the guarantee.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        What the guarantee compares: one record more or less, or one record replaced.
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
    schema : Schema, default=None
        What is declared about the table: classes, radius and, if it declares ``rows_per_person``, persons
        follow from it. Rows whose class is not declared are left out. None takes rows of numbers.
    classes : array-like or None, default=None
        All labels there can be, known without looking at the data. None finds them privately.
    centre : "private", None or array of shape (n_features,), default="private"
        Where records are seen from: their noisy mean, the origin, or a public point.
    radius : float or None, default=None
        Rows are declared to be no longer than this; longer ones are shortened. None stands for the longest
        row of the schema, or for 1.
    shares : tuple of four or five floats, or None, default=None
        How the budget is divided among centre, counts, sums, second moments and a private whitening. None
        takes (0.05, 0.02, 0.28, 0.70), and a tenth of all for the whitening; for a pooled second moment a
        public rule divides what sums and second moments have.
    shrinkage : "auto" or float in [0, 1], default="auto"
        How far each covariance is drawn towards the pooled one; "auto" follows from the noise levels, and is
        1 with a schema.
    floor : float, default=0.2
        Smallest eigenvalue of a covariance, in units of the largest eigenvalue that the noise alone would
        have.
    least : float, default=0.25
        Smallest eigenvalue of a covariance as a share of the mean one.
    second_moments : {"auto", "pooled", "class"}, default="auto"
        Second moments of each class, or one of all records: see :class:`onefold.privacy.PrivateMoments`.
        "auto" is "pooled" with a schema, and else follows from the head, the noise and the number of records.
    head : {"auto", "ridge", "lda", "qda"}, default="auto"
        What is made of the moments: ridge regression on one-hot labels, linear or quadratic discriminant
        analysis. "auto": without noise ridge and lda together; with noise qda where there is one moment per
        class, else lda. With noise there is no ridge regression: "ridge" is refused.
    lift : "auto", int or None, default="auto"
        Number of random directions whose cosines and sines stand beside the row
        (:class:`onefold.encoders.FourierLift`): the classifier is then no longer linear in the row. "auto"
        takes 512, fewer for few rows, where the estimated error on other rows is smaller with them, and none
        with noise, where a number is refused: give :class:`~onefold.encoders.FourierLift` as encoder.
    groups : str or None, default=None
        Name of a column of the table whose equal entries mark rows that belong together (a person, a
        document, a device): the ridge is then chosen by rows of groups that were left out, without noise
        only. :meth:`fit` takes them as an array, too; persons are groups.
    objective : {"accuracy", "balanced"}, default="accuracy"
        "balanced" takes all classes to be equally likely and corrects the scores of rare ones.
    whitening : "private", None or array of shape (n_encoded, n_encoded), default=None
        "private" makes two releases under one promise, with noise only: the first finds directions and
        lengths of the records, and the second is about records whitened by it
        (:class:`onefold.privacy.PrivateMoments`). An array is a public matrix.

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
    rule_ : str
        What decides: "ridge", "lda", "average" of both, "balanced" or "qda".
    ridge_ : float
        The ridge in units of the mean eigenvalue, for the heads that have one.
    held_out_error_ : float
        Estimated mean squared error of ridge regression on other rows; only after a fit without noise.
    temperature_ : float
        What scores are multiplied by before they become probabilities.

    See Also
    --------
    onefold.privacy.PrivateMoments : The release, with all its parameters.
    MomentFabricator : Synthetic records from the same release.

    Notes
    -----
    *Guarantees.* ``guarantee_`` is that of the release, for a record with its label; the rest is
    post-processing. Without noise nothing is promised: counts and sums of few records show the records.

    *Exactness.* Without noise the moments are whole numbers of steps: however rows are spread over sites,
    whoever joins first, and whoever has left, they are the same to the last bit, on every processor. What is
    computed from them has the same bits on one machine. Constants that the columns were standardised by, and
    with noise everything, remember who was there. An encoder other than a lift computes in floating point:
    its last digits, and rarely a step of the sums, can depend on the processor and on how many rows it gets.

    *Settings.* Without noise, schema, encoder and radius, rows of 200 columns or more are scaled to length
    one. For narrower ones this and standardised columns are both tried; the estimated error decides. The
    ridge comes from class-aware generalised cross-validation of the moments themselves.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 5000)
    >>> X = rng.normal(size=(5000, 2)) / 10 + y[:, None] / 2
    >>> model = MomentClassifier(1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    >>> model.guarantee_.record
    (1.0, 1e-05)
    """

    kind: ClassVar[str] = "moment classifier"
    _of_the_file = ("shrinkage", "floor", "least", "head", "objective", "schema")

    second_moments: Literal["auto", "pooled", "class"] = "auto"
    head: Literal["auto", "ridge", "lda", "qda"] = "auto"
    lift: Literal["auto"] | int | None = "auto"
    groups: str | None = None
    objective: Literal["accuracy", "balanced"] = "accuracy"
    whitening: Literal["private"] | ArrayLike | None = None

    def fit(self, X: Any, y: ArrayLike | None = None, person: Any = None, *, groups: Any = None) -> Self:
        """Encode the rows, take their moments once, and forget the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The raw rows; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels; with a schema None takes its label column.
        person : array-like of shape (n_samples,), False or None, default=None
            Who each row is about: the release is then private for persons, each of whom counts once whatever
            the number of rows. None takes the person column of a schema that declares ``rows_per_person``;
            False takes none. Without noise persons are groups.
        groups : array-like of shape (n_samples,) or None, default=None
            Which rows belong together, without noise: the ridge is chosen by groups that are left out.

        Returns
        -------
        MomentClassifier
            This object.
        """
        self.check_settings()
        self.row_map_: RowMap | None = None
        self._folds: tuple[PrivateMoments, ...] = ()
        for name in ("ridge_", "held_out_error_"):  # of an earlier fit, maybe without noise
            self.__dict__.pop(name, None)
        if self.epsilon is not None or self.head == "qda" or self.second_moments == "class":
            if groups is not None or self.groups is not None:
                raise InvalidInputError("groups are for moments without noise, and not for head='qda'")
            if self.lift not in ("auto", None):
                raise InvalidInputError(
                    "lift is for moments without noise, and not for head='qda': give encoder=FourierLift(...)"
                )
            return super().fit(X, y, person)
        if self.whitening is not None:
            raise InvalidInputError("whitening is for moments with noise: leave it out, or give an epsilon")
        return self._fit_plain(X, y, person, groups)

    def _release(self, of_persons: bool) -> dict[str, Any]:
        given = super()._release(of_persons)
        kind = self.second_moments
        if self.head != "auto":
            kind = "class" if self.head == "qda" else "pooled"
        elif kind == "auto" and not self._schema.plain and self.shrinkage == "auto":
            kind = "pooled"  # one covariance for all classes is used in any case
        return given | {"second_moments": kind}

    # --- without noise ----------------------------------------------------------------------------------

    def _fit_plain(self, X: Any, y: Any, person: Any, groups: Any) -> Self:
        """Fit to exact sums: choose how rows are scaled, whether they are lifted, and the ridge."""
        rows, labels, folds = self._plain_rows(X, y, self._groups(X, person, groups))
        radius = declared_radius(self._schema, self.encoder) if self.radius is None else float(self.radius)
        row_maps = candidate_maps(rows, radius, self.lift, of_one_kind=self.encoder is not None)
        found = plain_head(rows, labels, row_maps, self._rule, folds=folds, classes=self._declared_classes)
        found.moments.encoding_ = self._encoding(found.row_map)
        self.row_map_, self.rule_ = found.row_map, found.rule
        self.ridge_, self.held_out_error_ = found.ridge, found.error
        self._take(found.moments, found.scores, found.scores.temperature)
        return self

    def site_moments(self, X: Any, y: Any = None, groups: Any = None) -> PrivateMoments | MomentFolds:
        """Return moments without noise for a sum over sites, mapped by public constants only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The rows of one site.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels; with a schema None takes its label column.
        groups : array-like of shape (n_samples,) or None, default=None
            Which rows belong together; None takes the column that ``groups`` names, if it names one.

        Returns
        -------
        PrivateMoments or MomentFolds
            The moments of all rows; with groups those of four folds.
        """
        self.check_settings()
        if groups is None and self.groups is not None:
            groups = self._groups(X, False, None)
        rows, labels, folds = self._plain_rows(X, y, groups)
        lift = 0 if self.lift in (None, "auto") else int(cast(int, self.lift))
        row_map = RowMap(lift, declared_radius(self._schema, self.encoder))
        classes, encoding = self._declared_classes, self._encoding(row_map)
        if folds is None:
            return plain_moments(rows, labels, row_map, classes, encoding)
        return MomentFolds.of(rows, labels, folds, row_map, classes, encoding)

    def check_settings(self) -> None:
        """Refuse settings that make no sense, alone or together."""
        check_parameters(self, CONSTRAINTS)
        self.check_ledger()
        if self.head == "qda" and self.second_moments == "pooled":
            raise InvalidInputError("head='qda' needs the second moments of each class")
        if self.head == "ridge" and self.epsilon is not None:
            raise InvalidInputError(NO_RIDGE)

    def _plain_rows(self, X: Any, y: Any, groups: Any) -> tuple[Array, Labels, Index | None]:
        """Encoded rows, their labels, and the fold of each where rows belong together."""
        schema = self._schema
        if schema.source == "private":  # which only noise would forbid
            rows, labels = schema.encode(schema.parse(X)), np.asarray(schema.labels(X)[0] if y is None else y)
            self._name_features()
        else:
            rows, labels, groups = self._labelled_rows(X, y, False if groups is None else groups)
        check_classification_targets(labels)
        self._fit_encoder(rows)
        return self._encoded(rows), labels, None if groups is None else folds_of(groups, len(rows))

    @property
    def _declared_classes(self) -> Any:
        return self._schema.classes if self.classes is None else self.classes

    def _groups(self, X: Any, person: Any, groups: Any) -> Any:
        """What was given, or the column of this name, or the persons of the table."""
        if groups is not None:
            return groups
        if self.groups is not None:
            return np.asarray(column_of(X, self.groups, self._schema.fields))
        if person is not None:
            return None if person is False else person
        return None if self._schema.person is None else self._schema.persons(X)

    @property
    def _rule(self) -> str:
        if self.objective == "balanced":
            return "balanced"
        return "average" if self.head == "auto" else self.head

    def _take(
        self, moments: PrivateMoments, head: LinearScores | QuadraticScores, temperature: float
    ) -> None:
        self._head, self.temperature_ = head, temperature
        super()._adopt(moments)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Compute the logarithm of density times size of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            Scores; for two classes the advantage of the second.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def explain(
        self, X: Any, background: Any = None, *, n_reasons: int = 3, n_orders: int = 20
    ) -> list[ClassReasons]:
        """Say for each row which columns made its class the predicted one.

        Weights are Shapley values, see :func:`onefold.models.explain`. Nothing but the release and these rows
        is looked at, so the guarantee of the release is not touched. It does not cover the rows given here:
        sentences show cells of ``X``, and whether they are high or low among those of ``background``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            Rows; a table where there is a schema. At most 200 columns.
        background : array-like or table, default=None
            Rows to compare with, at least five; None takes ``X``.
        n_reasons : int, default=3
            Number of reasons that the sentence about a row names.
        n_orders : int, default=20
            Number of orders in which columns change; more give steadier weights and cost more.

        Returns
        -------
        list of ClassReasons
            One per row, which can be printed.
        """
        check_is_fitted(self)
        return explain(self, X, background, n_reasons=n_reasons, n_orders=n_orders)

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the most likely class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        scores = self._scores(X)
        return cast(Labels, self.classes_[scores.argmax(axis=1)])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Estimate the probability of each class for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities. Without noise they are calibrated on rows that were left out. With noise, and for
            ``head="qda"``, log densities are multiplied by a public number that follows from the number of
            columns alone, 0.4 for 12 or more: about right for most data, too unsure where rows are normal,
            and still too sure where noise or few rows leave little of the covariances.
        """
        return softmax(self._scores(X) * self.temperature_)

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: the release, and for exact moments the map of rows and the rule."""
        found = {"rule_": NotRequired[str], **dict.fromkeys(("ridge_", "temperature_"), NotRequired[float])}
        return {**super()._kept(), "row_map_": RowMap | None, **found}

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become the classifier of this release."""
        moments, row_map = values["moments_"], values["row_map_"]
        rule, ridge, temperature = (values.get(name, 0.0) for name in ("rule_", "ridge_", "temperature_"))
        if row_map is not None:
            width = moments.n_features_in_ - 2 * row_map.n_directions
            if rule not in RULES or not min(ridge, temperature) > 0.0 or width < 1:
                raise InvalidInputError("no rule, or one for other rows")
        self.__dict__.update(self._settings_of(moments), row_map_=row_map, _folds=())
        self._follow(moments, row_map)
        if row_map is None:
            return
        self.rule_, self.ridge_ = rule, float(ridge)
        scores = PooledSpectrum(*statistic_of(moments)).scores(self.rule_, self.ridge_)
        self._take(moments, scores, float(temperature))

    @classmethod
    def from_moments(
        cls,
        moments: PrivateMoments,
        encoder: Any = None,
        *,
        schema: Any = None,
        folds: Sequence[PrivateMoments] = (),
        **settings: Any,
    ) -> Self:
        """Build the classifier from a release alone, such as the sum of the moments of several sites.

        Parameters
        ----------
        moments : PrivateMoments
            The release, fitted.
        encoder : transformer or None, default=None
            The fitted encoder that the records went through; None if queries come encoded.
        schema : Schema, default=None
            What the rows were encoded by; None if queries come encoded.
        folds : sequence of PrivateMoments, default=()
            Moments of disjoint groups of records, without noise, that add up to ``moments``: the ridge is
            chosen by them.
        **settings : dict
            Other parameters of the classifier about which the release says nothing: ``head``, ``objective``,
            ``shrinkage``, ``floor``, ``least``, and ``lift``, the number of directions by which the sites
            lifted their rows
            (:meth:`onefold.federated.MomentFederation.release`); None, the default here, if they did not.

        Returns
        -------
        MomentClassifier
            A fitted classifier.
        """
        settings = {"lift": None, "schema": schema} | settings
        found = cls(encoder=encoder, **settings, **cls._settings_of(moments))
        check_parameters(found, CONSTRAINTS)
        found.row_map_, found._folds = found._row_map_of(moments), tuple(folds)
        found._follow(moments, found.row_map_)
        return found

    def _row_map_of(self, moments: PrivateMoments) -> RowMap | None:
        """How sites mapped their rows: as a federation without noise does, or as the release does itself."""
        if self.lift is None and not moments.encoding_.endswith(RowMap().description) and self._schema.plain:
            return None
        found = RowMap(int(self.lift or 0), declared_radius(self._schema, self.encoder))
        return found if moments.encoding_.endswith(found.description) else None

    @one_blas_thread()  # a loaded classifier has the bits of the fitted one
    def _adopt(self, moments: PrivateMoments) -> None:
        if not moments.is_pooled and self.head in ("auto", "qda"):
            # One-hot columns are no Gaussians: one covariance for all classes was better on all tables.
            shrinkage = 1.0 if self.shrinkage == "auto" and not self._schema.plain else self.shrinkage
            covariances = moments.covariances(shrinkage, self.floor, self.least)
            self.rule_ = "qda"
            sizes = np.log(np.maximum(moments.counts_, 1.0)) if self.objective == "accuracy" else 0.0
            head = QuadraticScores.of_gaussians(moments.means_, covariances, sizes)
            self._take(moments, head, density_temperature(moments))
            return
        if self.head == "qda":
            raise InvalidInputError("head='qda' needs the second moments of each class")
        self.rule_ = self._rule
        if moments.epsilon is not None:
            if self.head == "ridge":
                raise InvalidInputError(NO_RIDGE)
            self.rule_ = "balanced" if self.objective == "balanced" else "lda"
            self._take(moments, noisy_head(moments, self.objective), density_temperature(moments))
            return
        spectrum = PooledSpectrum(*statistic_of(moments))
        self.ridge_, self.held_out_error_ = ridge_of_folds(self._folds) if self._folds else spectrum.chosen
        scores = spectrum.scores(self.rule_, self.ridge_)
        self._take(moments, scores, scores.temperature)

    def _embed(self, X: ArrayLike) -> Floats:
        rows = self._encoded(self._rows(X))
        return self.moments_.embed(rows) if self.row_map_ is None else self.row_map_.apply(rows)

    def _scores(self, X: ArrayLike) -> Floats:
        queries = self._embed(X)
        if isinstance(self._head, QuadraticScores):
            return self._head.of(queries)
        with one_blas_thread():
            return self._head.of(queries)


# --- synthetic records --------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
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
    neighbours : {"add-remove", "replace"}, default="add-remove"
        What the guarantee compares: one record more or less, or one record replaced.
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
    schema : Schema, default=None
        What is declared about the table: classes, radius and, if it declares ``rows_per_person``, persons
        follow from it. Rows whose class is not declared are left out. None takes rows of numbers.
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
    shrinkage : "auto" or float in [0, 1], default="auto"
        How far each covariance is drawn towards the pooled one; "auto" follows from the noise levels.
    floor : float, default=0.2
        Smallest eigenvalue of a covariance, in units of the largest eigenvalue that the noise alone would
        have.
    least : float, default=0.25
        Smallest eigenvalue of a covariance as a share of the mean one.

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
        drawn = np.vstack(parts)
        # Records have norm one, or at most one, as those of the release.
        norms = np.linalg.norm(drawn, axis=1, keepdims=True)
        drawn /= np.maximum(norms, math.ulp(1.0) if self.moments_.has_unit_rows else 1.0)
        return drawn, np.repeat(self.classes_, shares)

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


def _whole_parts(shares: Floats, total: int) -> Index:
    """Return whole numbers in proportion to ``shares`` that add up to ``total`` (largest remainders)."""
    exact = shares * total
    parts = np.floor(exact).astype(np.intp)
    parts[np.argsort(parts - exact, kind="stable")[: total - parts.sum()]] += 1
    return parts
