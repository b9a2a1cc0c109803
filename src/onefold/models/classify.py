"""Classifiers that model each class by an autoencoder and ask which one folds a point least (000 Def. 7)."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NotRequired, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import AnyArray, Array, Floats, Index, Labels
from onefold._base.parallel import one_blas_thread
from onefold._base.stored import Stored
from onefold._base.validation import Entry, Instance, OneOf, Whole, check_parameters, check_rows
from onefold.exceptions import InvalidInputError
from onefold.models.compose import Autoencoder
from onefold.models.folding import MEASURES, ScaleOption, unit_and_factor
from onefold.models.head import EncodedColumns, TableHead
from onefold.models.kahm.estimator import WideKAHM
from onefold.models.pool import Pool, StackMemory
from onefold.models.preparation import (
    PUBLIC,
    Preparation,
    Settings,
    batches_of_about,
    find_preparation,
    tuned,
)
from onefold.models.probability import Beliefs, LeftOut
from onefold.models.reasons import ClassReasons, explain
from onefold.tables import Schema

__all__ = ["AutoencoderClassifier", "ClassModels", "FoldingClassifier"]

# Tables of so many columns, or of more encoded ones, have no head unless one is asked for.
TOO_MANY_COLUMNS = 200
MOST_ENCODED = 1000
FOLDS = 3  # distances that the head learns from are those of machines that have not seen the row
GROUP_FOLDS = 5  # of groups of rows that belong together, where there are some
SMALLEST_DISTANCE = 1e-9  # the logarithm of a distance of zero
MOST_FOLDED = 3000  # rows; beyond that the folds take longer than they are worth


def _has_probabilities(model: "ClassModels") -> bool:
    """Whether probabilities can be calibrated: not where only machines were fitted, as at a site."""
    return hasattr(model, "head_") or hasattr(model, "left_out_") or not hasattr(model, "pool_")


class ClassModels(Stored, ClassifierMixin, BaseEstimator, ABC):
    """Base class: one autoencoder per class, all fitted and asked together.

    Subclasses say which autoencoder.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    machines_ : list of Autoencoder
        The fitted autoencoder of each class.
    batches_ : ndarray of int of shape (n_rows,)
        Number of each row's machine within its class.
    pool_ : Pool
        The machines of all classes.
    scale_ : float
        Factor by which machines multiply the data, the same for all classes.
    n_features_in_ : int
        Number of features; with a schema, of encoded columns.
    head_ : TableHead
        What decides between the classes of a table; only where there is a head.
    cross_validated_ : dict
        How well rows are answered that were left out: "rows", "accuracy", "balanced_accuracy" and the counts
        "confusion", true classes by predicted ones. With a head from leave-one-out scores of all rows, or of
        2000 of a larger table, and where rows belong together from models of four fifths of the groups;
        without one from about 500 rows, each measured by a machine of its own batch
        fitted without it, see :mod:`onefold.models.probability`.
    beliefs_ : Beliefs
        How distances become probabilities; only without a head.
    left_out_ : LeftOut
        Rows that probabilities are calibrated on, at most 5000; only without a head. A file holds
        ``beliefs_`` instead.
    settings_ : Settings
        What followed from the rows: preparation of the columns, size of batches, regularisation.

    See Also
    --------
    AutoencoderClassifier : Any autoencoder.
    FoldingClassifier : Small machines of one layer.

    References
    ----------
    Document 000, Definition 7.

    Examples
    --------
    >>> from onefold import FoldingClassifier
    >>> from onefold.models import ClassModels
    >>> isinstance(FoldingClassifier(), ClassModels)
    True
    """

    measure: str
    head: str | None
    schema: Any
    n_jobs: int | None
    preparation: Any
    settings_: Settings
    _n_probe: int | None = None  # how many machines of a class are asked, those with the nearest centres
    pool_: Pool
    constraints: ClassVar[dict[str, Entry]] = {
        "measure": OneOf(MEASURES),
        "head": ("auto", "ridge", None),
        "schema": (None, Instance(Schema, "a Schema")),
        "preparation": ("auto", None, Instance(Preparation, "a Preparation")),
    }

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> Self:
        """Model the rows of each class by an autoencoder of its own, and fit the head if there is one.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or table
            Rows; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_rows,) or None, default=None
            Class labels; None takes the label column that the schema names.
        groups : array-like of shape (n_rows,) or None, default=None
            Which rows belong together, such as those of a person: what the head chooses and estimates comes
            from rows whose whole group was left out. None takes the person column that the schema names, if
            the table has it. Without a head it changes nothing.

        Returns
        -------
        ClassModels
            The fitted classifier itself.
        """
        check_parameters(self)
        schema = self._schema
        if schema.plain:
            X = schema.transform(X)
        else:
            groups = _persons(schema, X) if groups is None else groups
            X, y = schema.encode(schema.parse(X)), schema.labels(X)[0] if y is None else y
        samples, labels = check_rows(self, X, y)
        _check_labels(labels)
        codes = np.unique(labels, return_inverse=True)[1]
        self.fit_checked(samples, labels, settings=self._settle(samples, codes))
        self._decide(self._prepared(samples), codes, None if groups is None else _folds(groups, codes))
        return self

    @property
    def _schema(self) -> Schema:
        """What is declared about the rows; of numbers as they stand where nothing is."""
        return Schema.of(self.schema)

    def _settle(self, samples: Array, codes: Index) -> Settings:
        """What follows from all rows and is left open by the parameters."""
        finds = self.preparation == "auto" and self._prepares
        return Settings(find_preparation(samples, codes) if finds else self._given, batches_of_about(codes))

    @property
    def _given(self) -> Preparation | None:
        """The preparation that the parameter names, if it names one."""
        return self.preparation if isinstance(self.preparation, Preparation) else None

    def _decide(self, prepared: Array, codes: Index, folds: Index | None) -> None:
        """Learn what decides, or what probabilities are calibrated on."""
        if self.wants_head:
            self._fit_head(prepared, codes, folds)
        else:
            self.left_out_ = LeftOut.of(prepared, codes, self.batches_)

    def fit_checked(
        self,
        samples: Array,
        labels: Labels,
        batches: Index | None = None,
        memory: StackMemory | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Fit the machines alone, to rows and labels that the caller has checked.

        Without ``settings`` nothing but the machines depends on the rows: batches are of 50 and columns have
        the preparation that the parameter names or none. Answers of several sites can then be compared.

        Parameters
        ----------
        samples : ndarray of shape (n_rows, n_features)
            Finite rows of float32 or float64.
        labels : ndarray of shape (n_rows,)
            Class labels.
        batches : ndarray of int of shape (n_rows,) or None, default=None
            Rows of one class with the same number share a machine, and machines are ordered by it; None
            divides as :meth:`fit` does.
        memory : StackMemory or None, default=None
            Machines of an earlier fit, taken over where a fit would give the same.
        settings : Settings or None, default=None
            What is to be used where the parameters say "auto".

        Returns
        -------
        ClassModels
            The fitted classifier itself, without a head and without probabilities.
        """
        for name in ("guarantee_", "head_", "left_out_"):  # they were about the rows of an earlier fit
            self.__dict__.pop(name, None)
        check_parameters(self)
        _check_labels(labels)
        self.settings_ = replace(PUBLIC, preparation=self._given) if settings is None else settings
        family = self.family
        check_parameters(family)
        samples = self._prepared(samples)
        self.n_features_in_ = samples.shape[1]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        with one_blas_thread():
            unit, factor = unit_and_factor(samples, family.scale, family.scale_matters)
            if batches is None:
                branches = family.split_groups(samples, groups, unit)
            else:
                branches = [_given(rows, batches) for rows in groups]
            self.batches_ = _batch_of_each(branches, len(samples))
            self.pool_ = family.fit_branches(samples, branches, unit, factor, self.n_jobs, memory)
        self.scale_ = factor / unit
        return self

    @property
    def wants_head(self) -> bool:
        """Whether fitting gives a head: asked for, or for a table of fewer than 200 columns."""
        schema = self._schema
        if self.head != "auto" or schema.plain:
            return self.head == "ridge"
        return len(schema.features) < TOO_MANY_COLUMNS and schema.width <= MOST_ENCODED

    @one_blas_thread()
    def _fit_head(self, samples: Array, codes: Index, folds: Index | None) -> None:
        """Fit the head; its distances come from machines that have not seen the row (cross-fitting)."""
        n_rows, n_classes = len(samples), len(self.classes_)
        extra = None
        if FOLDS * n_classes <= n_rows <= MOST_FOLDED and n_classes > 1:
            extra = np.zeros((n_rows, n_classes))
            turn = in_turns(codes, FOLDS) if folds is None else folds  # every class in every fold
            for number in np.unique(turn):
                without = cast(Self, clone(self).set_params(head=None, preparation=None))
                settings = replace(self.settings_, preparation=None)  # these rows are prepared
                rest = turn != number
                without.fit_checked(samples[rest], codes[rest], settings=settings)
                extra[np.ix_(~rest, without.classes_)] = without._log_distances(samples[~rest])
        self.head_ = TableHead(EncodedColumns.of(self._schema, self.n_features_in_)).fit(
            samples, codes, n_classes, extra, folds
        )

    def _log_distances(self, rows: Array) -> Floats:
        """Logarithms of the distances less their mean over the classes: how much nearer a class is."""
        found = self.pool_.measures(rows, self.measure, self._n_probe, self.n_jobs).astype(np.float64)
        logs = np.log(np.maximum(found, SMALLEST_DISTANCE))
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))

    def _checked(self, X: ArrayLike) -> Array:
        """Rows of a query, encoded if there is a schema: cells outside the contract count as missing."""
        if "pool_" not in self.__dict__:  # looking for anything fitted takes longer
            check_is_fitted(self)
        return self._prepared(check_rows(self, self._schema.transform(X), reset=False))

    def _prepared(self, rows: Array) -> Array:
        """Rows as the machines and the head see them."""
        found = self._open.preparation
        return rows if found is None else found.apply(rows)

    def _scores(self, X: ArrayLike) -> Array:
        """Scores of the classes by the head, or minus the distances."""
        if not hasattr(self, "head_"):
            return -self.distances(X)
        rows = self._checked(X)
        return self.head_.scores(rows, self._log_distances(rows) if self.head_.takes_extra else None)

    @one_blas_thread()
    def divide(self, X: Array, y: NDArray[Any], rows: Index) -> Index:
        """Divide rows into the batches that :meth:`fit` would make, class by class.

        The classifier is fitted, and its settings are kept.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Checked rows.
        y : ndarray of shape (n_rows,)
            Class labels.
        rows : ndarray of int
            Numbers of the rows to divide.

        Returns
        -------
        ndarray of int
            Batch of each of these rows within its class.
        """
        X = self._prepared(X)
        unit, _ = unit_and_factor(X, "auto")  # the unit does not depend on the scale
        groups = [rows[y[rows] == label] for label in np.unique(y[rows])]
        return _batch_of_each(self.family.split_groups(X, groups, unit), len(X))[rows]

    def distances(self, X: ArrayLike) -> Array:
        """Measure each row against each class; without a head the smallest value decides.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or table
            Rows; a table where there is a schema.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Folding measure of each row by the autoencoder of each class.
        """
        queries = self._checked(X)
        return self.pool_.measures(queries, self.measure, self._n_probe, self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class whose autoencoder folds each row least (000 eq. 62, 004 eq. 118).

        Where there is a head, it is the class of the largest score.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or table
            Rows; a table where there is a schema.

        Returns
        -------
        ndarray of shape (n_rows,)
            Class labels.
        """
        best = self._scores(X).argmax(axis=1)  # refuses what is not fitted
        return np.asarray(self.classes_[best])

    def decision_function(self, X: ArrayLike) -> Array:
        """Return scores, or for two classes the advantage of the second.

        Scores are those of the head, and without one minus the distances.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or table
            Rows; a table where there is a schema.

        Returns
        -------
        ndarray of shape (n_rows, n_classes) or (n_rows,)
            Decision values.
        """
        scores = self._scores(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if len(self.classes_) == 2 else scores

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return probabilities of the classes, calibrated on fitted rows that were left out.

        They are those of the head, where there is one; else the first call calibrates, which takes about as
        long as fitting 5000 rows: see :mod:`onefold.models.probability`. The most probable class is the one
        that :meth:`predict` returns. Probabilities are right on average over rows like the fitted ones; they
        promise nothing about a single row, nor about rows unlike them.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or table
            Rows; a table where there is a schema.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        if hasattr(self, "head_"):
            return self.head_.probabilities(np.asarray(self._scores(X), dtype=np.float64))
        distances = self.distances(X)  # refuses what is not fitted
        return self.beliefs_.probabilities(distances)

    @property
    def beliefs_(self) -> Beliefs:
        """How distances become probabilities, computed when first asked for; only without a head."""
        return self.left_out_.beliefs(self.family, self.pool_, self.measure, self._n_probe, self.n_jobs)

    def explain(
        self, X: Any, background: Any = None, *, n_reasons: int = 3, n_orders: int = 20
    ) -> list[ClassReasons]:
        """Say for each row which columns made its class the predicted one.

        Weights are Shapley values of the lead over the runner-up: what a column adds when the row is built
        from a row to compare with, column by column, on average over orders and rows compared with. They
        say what this model does, not what causes what: of columns that go together, any may get the credit.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or table
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

    def matching_score(self, X: ArrayLike) -> Array:
        """Compute the class-matching score of each row (000 eq. 63).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or table
            Rows; a table where there is a schema.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Scores in (1/e, 1]; the largest is that of the class with the smallest distance.
        """
        distances = self.distances(X).astype(np.float64)
        largest = distances.max(axis=1, keepdims=True)
        squares = np.divide(distances, largest, out=np.ones_like(distances), where=largest > 0.0) ** 2
        return np.asarray(np.exp(-squares / squares.sum(axis=1, keepdims=True)))

    @property
    def cross_validated_(self) -> dict[str, Any]:
        """How well rows are answered that were left out; computed when first asked for."""
        return self.head_.performance if hasattr(self, "head_") else self.beliefs_.performance

    def leave_one_out_squares(self) -> Floats:
        """Compute squared Euclidean distances of fitted rows from their images under machines of the others.

        Closed form, from the first layer with its encoding and regularisation kept. Their mean is a unit for
        distances; it is near the mean square of the distances of new rows of a class, but no estimate of it.

        Returns
        -------
        ndarray of shape (n_rows,)
            Squares in the units of the data, of the rows of machines of at least five, in no promised order.

        Raises
        ------
        AttributeError
            If the machines are not kernel affine hull machines.
        """
        check_is_fitted(self)
        return self.family.leave_one_out(self.pool_)

    @property
    def machines_(self) -> list[Autoencoder]:
        """The autoencoder of each class, in the order of ``classes_``."""
        check_is_fitted(self)
        owned = [self.pool_.group(index) for index in range(len(self.classes_))]
        return [clone(self.family).from_pool(pool, self.n_features_in_) for pool in owned]

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: machines, and what decides or what probabilities follow from."""
        return {
            **super()._kept(),
            "classes_": Labels,
            "settings_": Settings,
            **self.family._pool_kept(),
            "head_": NotRequired[TableHead],
            "beliefs_": NotRequired[Beliefs],
        }

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        """What is kept of a fitted classifier."""
        values = super()._kept_values(compact)
        values |= self.family._pool_values(values.pop("pool_"), compact)
        if "left_out_" in vars(self) and "head_" not in values:
            values["beliefs_"] = self.beliefs_
        return values

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become fitted; what does not fit together is refused."""
        n_features, classes, beliefs = values["n_features_in_"], values["classes_"], values.get("beliefs_")
        left = ("pool_", "samples_", "beliefs_")
        super()._take_over({name: value for name, value in values.items() if name not in left})
        found, head = self.settings_.preparation, values.get("head_")
        if self.preparation is None:  # one that was given, which parameters do not hold
            self.preparation = found
        fitting = found is None or len(found.scale) == n_features
        if not fitting or (not self._schema.plain and self._schema.width != n_features):
            raise InvalidInputError("its schema or its preparation does not fit its columns")
        self.pool_ = self.family._pool_from(values, n_features, self.n_jobs)
        self.scale_ = self.pool_.factor / self.pool_.unit
        fitting = self.pool_.n_groups == len(classes) == len(np.unique(classes))
        if head is not None:
            fitting = (
                fitting
                and len(head.offset_) == len(classes)
                and head.columns._same_as(EncodedColumns.of(self._schema, n_features))
            )
        if beliefs is not None:
            fitting = fitting and beliefs.n_classes == len(classes)
            self.left_out_ = LeftOut.known_as(self.measure, beliefs, n_features)
        if not fitting:
            raise InvalidInputError("its machines, its head or its calibration do not fit its classes")

    @property
    @abstractmethod
    def family(self) -> Autoencoder:
        """The autoencoder whose parameters the model of each class has; not to be changed or fitted."""

    @property
    def _prepares(self) -> bool:
        """Whether columns may be prepared where the parameter leaves it open."""
        return self._schema.plain  # with a schema, columns are encoded by their declared ranges

    @property
    def _open(self) -> Settings:
        """What is used where parameters are left open: settled by a fit, and before it the public one."""
        return self.settings_ if "settings_" in self.__dict__ else PUBLIC

    @property
    def partition(self) -> str:
        """How the rows of a class are divided: "contiguous", "kmeans", or "single" for not at all."""
        return str(getattr(self.family, "partition", "single"))


# What a classifier without an estimator uses with a schema; it is never fitted. Most entries of one-hot rows
# are zero, and the head decides: one layer is enough.
ENCODED = WideKAHM(n_layers=1, scale="auto")


@dataclass(eq=False, repr=False)
class AutoencoderClassifier(ClassModels):
    """Classifier with one autoencoder per class: the class whose autoencoder moves a row least is predicted.

    There are no gradients. A fitted classifier holds the rows it was fitted to, and so does its file.

    Parameters
    ----------
    estimator : Autoencoder or None, default=None
        Unfitted autoencoder that models every class. None stands for machines of one layer on batches of 50
        consecutive rows, of max(20, size of the smallest class) where a class has fewer than 50; and with a
        schema for ``WideKAHM(n_layers=1, scale="auto")``. In few columns, where rows of one class surround
        those of another, small machines cannot tell them apart: use ``tune="auto"``, or ``WideKAHM()``.
    measure : {"euclidean", "rms", "product", "min", "max", "fuzzy"}, default="euclidean"
        How folding is measured: the distance between a point and its image, a combination of the Euclidean
        and angular parts of 004 eq. 102 (options 1 to 4), or one minus the membership of 003 eq. 2.162.
    schema : Schema or None, default=None
        Contract of a table. Rows are then tables: frames, dicts of columns or tables that were read, with
        text, missing cells and dates as declared. Cells of a query that are not in the contract count as
        missing.
    head : {"auto", "ridge"} or None, default="auto"
        What decides between the classes. "ridge" is :class:`onefold.models.head.TableHead`, fitted to the
        rows and to their distances; None takes the class with the smallest distance, as the documents do.
        "auto" is "ridge" for a table with a schema of fewer than 200 columns, encoded as at most 1000, and
        else None.
    preparation : "auto", None or Preparation, default="auto"
        Units of the columns. "auto" standardises rows where that makes the classes clearly easier to tell:
        where the leave-one-out residuals of kernel ridge regression on 400 rows are smaller by two standard
        errors. Tables in raw units get it, pixels and embeddings do not. What was found is stored with the
        model and in its file, and distances are in the new units. None leaves rows as they are; so
        does "auto" with a schema or with an ``estimator``.
        A site of a federation does not look for one: all sites need the same, see
        :class:`onefold.models.Preparation`.
    tune : None or "auto", default=None
        "auto" chooses among a few settings: batches of 20, 50, 100 or 300 rows and a regularisation of 0.05
        to 0.8, by log loss on held-out rows (a fifth and at most 1000 of at most 10 000 rows, in up to five
        folds where they are few); then, for fewer than 200 columns, between the smallest distance and
        ``head="ridge"``, by accuracy on rows that were left out. All rows are fitted with the choice, which
        ``tuned_`` tells. It takes several times as long as a fit, and goes without an ``estimator`` and
        without a schema.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Replaces the autoencoder's own setting.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    machines_ : list of Autoencoder
        The fitted autoencoder of each class.
    batches_ : ndarray of int of shape (n_rows,)
        Number of each row's machine within its class.
    scale_ : float
        Factor by which machines multiply the data, the same for all classes.
    n_features_in_ : int
        Number of features; with a schema, of encoded columns.
    head_ : TableHead
        What decides between the classes; only where there is a head.
    cross_validated_ : dict
        Accuracy, balanced accuracy and confusion counts on rows that were left out, see
        :class:`onefold.models.ClassModels`.
    tuned_ : dict
        What ``tune`` chose: "standardised", "batch_size", "regularisation", "head", and the "accuracy" on
        rows held out or left out for the choice, which is a little optimistic; only with ``tune``.

    See Also
    --------
    FoldingClassifier : Small machines of one layer.

    References
    ----------
    Document 000, Definitions 7 and 8.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import AutoencoderClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AutoencoderClassifier().fit(X, y).score(X, y) > 0.95
    True
    """

    estimator: Autoencoder | None = None
    measure: str = "euclidean"
    _: KW_ONLY
    schema: Any = None
    head: str | None = "auto"
    preparation: Any = "auto"
    tune: str | None = None
    n_jobs: int | None = None

    constraints: ClassVar[dict[str, Entry]] = {
        "estimator": (None, Instance(Autoencoder, "one of onefold's autoencoders, such as WideKAHM()")),
        "tune": (None, "auto"),
    }

    @property
    def family(self) -> Autoencoder:
        """The autoencoder that ``estimator`` is or stands for; not to be changed or fitted."""
        if self.estimator is not None:
            return self.estimator
        if not self._schema.plain:
            return ENCODED
        return WideKAHM(
            n_layers=1,
            branch_size=self._open.batch_size,
            partition="contiguous",
            regularisation=self._open.regularisation,
        )

    @property
    def _prepares(self) -> bool:
        return self.estimator is None and self._schema.plain

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept."""
        return super()._kept() | {"tuned_": NotRequired[dict[str, bool | int | float | str | None]]}

    def _settle(self, samples: Array, codes: Index) -> Settings:
        if self.tune is not None and (self.estimator is not None or not self._schema.plain):
            raise InvalidInputError("tune goes without an estimator and without a schema")
        found = super()._settle(samples, codes)
        self.__dict__.pop("tuned_", None)
        if self.tune is None:
            return found
        prepared = samples if found.preparation is None else found.preparation.apply(samples)
        size, lam, accuracy = tuned(prepared, codes, self.n_jobs)
        self.tuned_: dict[str, Any] = {
            "standardised": found.preparation is not None,
            "batch_size": size,
            "regularisation": lam,
            "head": None,
            "accuracy": accuracy,
        }
        return replace(found, batch_size=size, regularisation=lam)

    def _decide(self, prepared: Array, codes: Index, folds: Index | None) -> None:
        if self.tune is not None and self.head == "auto" and prepared.shape[1] < TOO_MANY_COLUMNS:
            self._fit_head(prepared, codes, folds)
            accuracy = self.head_.performance["accuracy"]
            if not accuracy < self.tuned_["accuracy"]:
                self.tuned_ |= {"head": "ridge", "accuracy": accuracy}
                return
            del self.head_
        super()._decide(prepared, codes, folds)

    @property
    def _n_probe(self) -> int | None:  # type: ignore[override]
        return self.family.n_probe


@dataclass(eq=False, repr=False)
class FoldingClassifier(ClassModels):
    """Space-folding classifier: one-layer machines on small batches of consecutive rows.

    The class whose nearest machine folds a row least is predicted. A fitted classifier holds the rows it was
    fitted to, and so does its file.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding of each machine.
    batch_size : int or "auto", default="auto"
        Number of rows of a class that one machine should model. "auto" is 50, and max(20, size of the
        smallest class) where a class has fewer than 50; always 50 at a site of a federation.
    measure : {"rms", "product", "min", "max", "euclidean", "fuzzy"}, default="rms"
        Space folding measure, 004 eq. 102; the documents use "rms".
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data; images and distances stay in the units of ``X``.
        "auto" brings the mean square of the entries to 0.1, where the regularisation neither vanishes nor
        dominates. With a schema None stands for "auto".
    regularisation : {"auto", "documented"} or float, default="auto"
        Lambda of the machines, see :class:`KAHM`: "documented" is the fixed point of 000 eq. 40; "auto" is
        0.2 where ``scale`` is None and there is no schema, and else "documented".
    schema : Schema or None, default=None
        Contract of a table. Rows are then tables: frames, dicts of columns or tables that were read, with
        text, missing cells and dates as declared. Cells of a query that are not in the contract count as
        missing.
    head : {"auto", "ridge"} or None, default="auto"
        What decides between the classes. "ridge" is :class:`onefold.models.head.TableHead`, fitted to the
        rows and to their distances; None takes the class with the smallest distance, as the documents do.
        "auto" is "ridge" for a table with a schema of fewer than 200 columns, encoded as at most 1000, and
        else None.
    preparation : "auto", None or Preparation, default="auto"
        Units of the columns. "auto" standardises rows where that makes the classes clearly easier to tell:
        where the leave-one-out residuals of kernel ridge regression on 400 rows are smaller by two standard
        errors. Tables in raw units get it, pixels and embeddings do not. What was found is stored with the
        model and in its file, and distances are in the new units. None leaves rows as they are; so
        does "auto" with a schema and with a documented regularisation.
        A site of a federation does not look for one: all sites need the same, see
        :class:`onefold.models.Preparation`.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    machines_ : list of WideKAHM
        The fitted machines of each class.
    batches_ : ndarray of int of shape (n_rows,)
        Number of each row's machine within its class.
    scale_ : float
        Factor by which machines multiply the data, the same for all classes.
    n_features_in_ : int
        Number of features; with a schema, of encoded columns.
    head_ : TableHead
        What decides between the classes; only where there is a head.
    cross_validated_ : dict
        Accuracy, balanced accuracy and confusion counts on rows that were left out, see
        :class:`onefold.models.ClassModels`.

    See Also
    --------
    AutoencoderClassifier : Any autoencoder.

    References
    ----------
    Document 004, Remark 10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import FoldingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> FoldingClassifier().fit(X, y).score(X, y) > 0.95
    True
    """

    n_components: int = 20
    batch_size: int | str = "auto"
    measure: str = "rms"
    _: KW_ONLY
    scale: ScaleOption = None
    regularisation: str | float = "auto"
    schema: Any = None
    head: str | None = "auto"
    preparation: Any = "auto"
    n_jobs: int | None = None

    constraints: ClassVar[dict[str, Entry]] = {"batch_size": (Whole(1), "auto")}

    @property
    def _prepares(self) -> bool:
        return self._schema.plain and self.regularisation != "documented"

    @property
    def family(self) -> Autoencoder:
        """A wide machine of one layer on batches of consecutive rows."""
        return WideKAHM(
            n_components=self.n_components,
            n_layers=1,
            branch_size=self._open.batch_size if self.batch_size == "auto" else int(self.batch_size),
            partition="contiguous",
            scale="auto" if self.scale is None and not self._schema.plain else self.scale,
            regularisation=self.regularisation,
        )


def _check_labels(labels: Labels) -> None:
    """Refuse what are no classes."""
    with warnings.catch_warnings():
        # A site with few rows and many classes is nothing unusual here.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(labels)


def _persons(schema: Schema, X: Any) -> AnyArray | None:
    """Whom each row is about, if the schema names the column and the table has it."""
    names = getattr(X, "columns", X if isinstance(X, Mapping) else ())
    is_there = schema.person is not None and schema.person.name in [str(name) for name in names]
    return schema.persons(X) if is_there else None


def _folds(groups: ArrayLike, codes: Index) -> Index | None:
    """Divide rows into folds, no group in two of them and the classes alike; None for a single group."""
    names = np.asarray(groups)
    if names.shape != codes.shape:
        raise InvalidInputError("groups must be one name or number for each row")
    number = np.unique(names.astype(str), return_inverse=True)[1]
    n_groups = int(number.max()) + 1
    if n_groups < 2:
        return None
    mean_class = np.bincount(number, codes) / np.bincount(number)
    return np.asarray(in_turns(mean_class, GROUP_FOLDS)[number])


def in_turns(places: AnyArray, n_folds: int) -> Index:
    """The fold of each row, dealt out in the order of ``places``."""
    turn = np.empty(len(places), dtype=np.intp)
    turn[np.argsort(places, kind="stable")] = np.arange(len(places)) % n_folds
    return turn


def _batch_of_each(branches: list[list[Index]], n_rows: int) -> Index:
    found = np.zeros(n_rows, dtype=np.intp)
    for number, rows in (numbered for own in branches for numbered in enumerate(own)):
        found[rows] = number
    return found


def _given(rows: Index, numbers: Index) -> list[Index]:
    """The rows of one class by their numbers, each batch in the order of its rows."""
    order = np.argsort(numbers[rows], kind="stable")
    sizes = np.unique(numbers[rows], return_counts=True)[1]
    return np.split(rows[order], np.cumsum(sizes)[:-1])
