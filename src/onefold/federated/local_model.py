"""What a site does: fit a model where the data is, and answer queries with one number per row and class."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from onefold._base.arrays import AnyArray, Array, Arrays, Index, Labels
from onefold._base.confined import try_confined
from onefold._base.records import Record, record
from onefold._base.validation import check_rows
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.fabrication import PrivateClassifier
from onefold.federated._rows import (
    Forgotten,
    Recipe,
    SiteRows,
    identifiers,
    more_identifiers,
    positions_of,
    with_more_rows,
    with_rows,
    without_rows,
)
from onefold.federated.contract import schema_fields
from onefold.federated.joined import Agreement, JoinedSums, Offset, squared_with
from onefold.federated.messages import (
    Answers,
    ModelParcel,
    Profile,
    Query,
    check_guarantee,
    digest_of,
    plain_labels,
)
from onefold.federated.rules import align, check_answers
from onefold.io import from_bytes, load, load_extras, save, to_bytes
from onefold.models import JOINED, MAXIMA
from onefold.privacy import Guarantee, Mechanism, RandomisedLabels
from onefold.privacy.ledger import AnyLedger
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND

__all__ = ["Forgotten", "LocalModel"]

NOISE_UNKNOWN = "this model is private: load with like=LocalModel(...) to name its noise"
# Samples of one machine in a parcel: rebuilding it takes the square of this in memory, and the cube in time.
LARGEST_MACHINE = 10_000
BESIDE = "beside"  # array of a file that holds what is no part of the classifier


@record
class _Beside(Record, kind="what belongs to the model of a site"):
    schema: dict[str, Any] | None
    offset: Offset | None
    rows: SiteRows | None

    def __post_init__(self) -> None:
        if self.schema is not None:
            Schema.from_dict(self.schema)  # refuses what is none

    @classmethod
    def of(cls, extras: Arrays) -> Self:
        """Read what a file holds besides its classifier."""
        return cls.from_bytes(extras[BESIDE].tobytes()) if BESIDE in extras else cls(None, None, None)

    def schema_of(self, estimator: Any) -> Schema:
        """The schema by which the rows of a classifier are encoded."""
        if self.schema is None:
            return AS_THEY_STAND
        schema = Schema.from_dict(self.schema)
        if schema.width != estimator.n_features_in_:
            raise FileFormatError("the schema in this file is not that of its model")
        return schema


class LocalModel(BaseEstimator):
    """The model of one site: fitted on the site's rows, asked for one number per row and class.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A classifier with ``distances``, ``classes_`` and ``measure``; it is cloned, not changed. None stands
        for ``AutoencoderClassifier()``, with a schema for ``FoldingClassifier`` at a scale that follows from
        it. Batches are of 50 where the classifier leaves it open, and columns are as they are unless it names
        a public :class:`~onefold.models.Preparation`, the same at all sites. A
        :class:`~onefold.fabrication.PrivateClassifier` brings its own mechanism and settings.
    mechanism : Mechanism or None, default=None
        Noise of :mod:`onefold.privacy`. With it the model sees noisy rows only, drawn once, and carries
        ``guarantee_``. None: the model is of raw rows, and its answers are functions of them.
    fabricate : bool, default=True
        Smooth after the noise (000 Def. 15); otherwise the noisy rows are used (000 Def. 12).
    label_mechanism : RandomisedLabels or None, default=None
        Randomises the labels as well; without it labels and class sizes are not covered.
    random_state : int, Generator or None, default=None
        Seed of the noise, for tests only: a known seed makes noise known, so the guarantee is void. None is
        the entropy of the system.
    keep_rows : bool, default=True
        Keep what is needed for :meth:`forget`, :meth:`extend` and the like; takes the memory of the data once
        more (twice for fabricated rows).
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data, for a model with noise: every :meth:`fit` and
        :meth:`extend` is entered there before any noise is drawn, and refused beyond its limit. None counts
        nothing.
    schema : Schema, default=None
        The declared contract of the site's table, the same at all sites. Rows and queries are then tables: a
        frame, a dict of columns, or a table that was read, and are encoded by the contract. None takes rows
        of numbers.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray
        Labels this site has rows of, sorted.
    n_features_in_ : int
        Number of columns of the rows, as the classifier sees them.
    feature_names_in_ : ndarray of str
        Names of the columns, if they had names.
    measure : str
        The measure in which answers are given.
    guarantee_ : Guarantee or None
        What the fitted model promises about the rows it was fitted on.
    batches_ : ndarray of int
        Number of each row's machine within its class.
    row_numbers_ : ndarray of int
        Numbers of the rows that are left.
    fit_count_ : int
        How often the model was fitted or changed.
    offset_ : Offset or None
        The public offset of the federation that :meth:`join` was given; None before, and after every change
        of the rows.

    See Also
    --------
    GlobalClassifier : Combines the models or the answers of sites.

    Notes
    -----
    An answer reveals how close a query is to the rows of the model. Without a mechanism these are the site's
    raw rows, :meth:`save` writes them to the file, and nothing of it is private. Sites whose answers are to
    be compared must use the same features, the same measure and, for the space folding measures, the same
    ``scale``.

    *Guarantees.* Forgetting is exact on one machine, for any number of threads: the model after
    :meth:`forget` is, to the last bit, one fitted without the rows. Another processor may give other last
    digits.

    References
    ----------
    Document 000, Definitions 7, 12 and 15; document 004, Remark 10.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]])
    >>> site = LocalModel().fit(X, ["low", "low", "high", "high"])
    >>> int(site.answers(X[:1], classes=["high", "low", "other"]).argmin())
    1
    >>> float(site.answers(X[:1], classes=["high", "low", "other"])[0, 2])
    inf
    >>> site.forget([3]).exact
    True
    >>> from onefold.privacy import Box, OptimalNoise
    >>> private = LocalModel(mechanism=OptimalNoise(2.0, 1e-5, Box(0.0, 1.0))).fit(X, [0, 0, 1, 1])
    >>> private.guarantee_.entry  # (epsilon, delta) of one entry, not of a whole row
    (2.0, 1e-05)
    """

    fit_count_: int = 0
    offset_: Offset | None = None
    _digest: str | None = None
    _must_be_private = False  # loaded with a guarantee: no raw row may get in

    def __init__(
        self,
        estimator: Any = None,
        mechanism: Mechanism | None = None,
        *,
        fabricate: bool = True,
        label_mechanism: RandomisedLabels | None = None,
        random_state: Any = None,
        keep_rows: bool = True,
        ledger: AnyLedger = None,
        schema: Any = None,
    ) -> None:
        self.estimator = estimator
        self.mechanism = mechanism
        self.fabricate = fabricate
        self.label_mechanism = label_mechanism
        self.random_state = random_state
        self.keep_rows = keep_rows
        self.ledger = ledger
        self.schema = schema

    # --- fitting and changing -----------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        batches: ArrayLike | None = None,
        batches_are_public: bool = False,
        ids: Sequence[Any] | None = None,
        person: ArrayLike | None = None,
    ) -> Self:
        """Model every class the site has rows of.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Rows of the site; with a schema a table.
        y : array-like of shape (n,) or None, default=None
            Their labels; None takes the label column of the schema.
        batches : array-like of int of shape (n,) or None, default=None
            Rows of one class with one number share a machine. None divides the rows as the estimator does.
            ``batches_`` holds what was used. With a mechanism, given batches make the guarantee void.
        batches_are_public : bool, default=False
            Your word that ``batches`` were chosen without looking at the raw rows: the guarantee then holds
            under this condition, which it prints.
        ids : sequence or None, default=None
            Distinct identifiers of the rows, by which :meth:`forget` may name them. They stay in this object
            and are never written to a file. None names rows by their numbers.
        person : array-like of shape (n,) or None, default=None
            Who each row is about, for a mechanism with ``rows_per_person``: rows of a person above that
            number are dropped at random before anything else.

        Returns
        -------
        LocalModel
            This model, fitted. A fit that fails leaves the earlier model as it was.
        """
        recipe = Recipe.of(self)
        X, y, person, known = recipe.given(X, y, person)
        private, columns = recipe.maker is not None, BaseEstimator()
        samples, labels = check_rows(columns, X, y, declared_type=private)
        n_rows = len(samples)
        names = None if ids is None else identifiers(ids, n_rows)
        numbers = None if batches is None else np.asarray(batches)
        if numbers is not None and (numbers.shape != (n_rows,) or numbers.dtype.kind not in "iu"):
            raise InvalidInputError("batches must be one whole number per row")
        chosen = None if numbers is None else "public" if batches_are_public else "given"
        if self._must_be_private and not private:
            raise InvalidInputError(NOISE_UNKNOWN)
        rows, guarantee = recipe.prepare(samples, labels, person, known, chosen)
        if numbers is not None:
            rows = replace(rows, batches=numbers[rows.numbers].astype(np.intp), partition="given")
        self._install(*recipe.fit(rows, guarantee, recipe.unfitted(columns)))
        self._recipe, self._ids = recipe, names
        return self

    def promise(self, n_features: int) -> Guarantee | None:
        """State what :meth:`fit` will promise with the noise of this model, before any is drawn.

        Parameters
        ----------
        n_features : int
            Entries of a row.

        Returns
        -------
        Guarantee or None
            The promise; None for a model of raw rows.
        """
        return Recipe.of(self).promise(n_features)

    def forget(
        self,
        rows: ArrayLike,
        *,
        repartition: bool = False,
    ) -> Forgotten:
        """Let rows go, with everything they contributed; only the machines they were in are fitted anew.

        The result is, bit for bit, that of fitting the other rows in the same batches. Batches of consecutive
        rows depend on how many rows there were, not on what was in them, so forgetting is exact. **A
        division by k-means was itself chosen with the forgotten rows**: the machines are free of them, the
        borders are not, and the result says ``exact=False``. ``repartition=True`` divides the touched
        classes anew instead, which is exact and fits all machines of these classes.

        Fabricated rows are smoothed mixtures, so the touched classes are smoothed and divided anew from the
        noisy rows that are left: exact, and no noise is drawn again. What was given out before stays given
        out.

        Parameters
        ----------
        rows : array-like
            Numbers of rows as they came to :meth:`fit` and :meth:`extend`, or identifiers if it had them.
        repartition : bool, default=False
            Divide the touched classes anew.

        Returns
        -------
        Forgotten
            What was done.
        """
        kept = self._kept()
        if self._ids is None:
            positions = positions_of(rows, kept.numbers, "row numbers")
        else:
            positions = positions_of(rows, self._ids[kept.numbers], "identifiers")
        return self._drop(positions, "anew" if repartition else "same")

    def remove_batch(self, label: Any, batch: int) -> Forgotten:
        """Let one batch of a class go; see :meth:`forget`.

        Parameters
        ----------
        label : int or str
            The class.
        batch : int
            Number of the batch, as in ``batches_``.

        Returns
        -------
        Forgotten
            What was done.
        """
        kept = self._kept()
        positions = np.flatnonzero((kept.labels == label) & (kept.batches == batch))
        if not positions.size:
            raise InvalidInputError("there is no such batch")
        return self._drop(positions, "same")

    def remove_class(self, label: Any) -> Forgotten:
        """Let a class go; the other classes are not touched.

        Parameters
        ----------
        label : int or str
            The class.

        Returns
        -------
        Forgotten
            What was done.
        """
        positions = np.flatnonzero(self._kept().labels == label)
        if not positions.size:
            raise InvalidInputError("there is no such class")
        return self._drop(positions, "whole")

    def extend(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        ids: Sequence[Any] | None = None,
        person: ArrayLike | None = None,
    ) -> Self:
        """Add rows as batches of their own; machines of other rows are not touched, new classes just appear.

        With a mechanism noise is drawn for the new rows only: of every row there is one noisy version. **A
        row that was there before, forgotten or not, must not come again**: its two versions together give
        away what two releases do. Rows with identifiers are checked for that, others cannot be; a ledger
        counts the new rows as a release of its own. A person may have rows among the old and the new ones:
        what persons lose adds up, and the guarantee says so.
        Fabricated rows of a class that gains some are smoothed anew.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            New rows; with a schema a table.
        y : array-like of shape (n,) or None, default=None
            Their labels; None takes the label column of the schema.
        ids : sequence or None, default=None
            Their identifiers, if :meth:`fit` had identifiers.
        person : array-like of shape (n,) or None, default=None
            Who each new row is about, as for :meth:`fit`.

        Returns
        -------
        LocalModel
            This model.
        """
        kept, recipe = self._kept(), self._recipe
        private = recipe.maker is not None
        X, y, person, known = recipe.given(X, y, person)
        samples, labels = check_rows(self, X, y, reset=False, declared_type=private)
        if (labels.dtype.kind in "OUS") != (kept.labels.dtype.kind in "OUS"):
            raise InvalidInputError("labels must be all texts or all numbers")
        names = more_identifiers(self._ids, kept.numbers, ids, len(samples), self.guarantee_)
        if private and self.guarantee_ is None:
            raise InvalidInputError("this model holds raw rows: noise on further ones would promise nothing")
        if self._must_be_private and not private:
            raise InvalidInputError(NOISE_UNKNOWN)
        more, guarantee = recipe.prepare(samples, labels, person, known)
        if guarantee is not None and self.guarantee_ is not None:
            guarantee = with_more_rows(self.guarantee_, guarantee)
        self._install(*with_rows(recipe, self.estimator_, kept, more, guarantee))
        self._ids = names
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the rows, as the classifier sees them."""
        return int(self._fitted().n_features_in_)

    @property
    def feature_names_in_(self) -> AnyArray:
        """Names of the columns, if they had names."""
        return np.asarray(self._fitted().feature_names_in_)

    @property
    def batches_(self) -> Index:
        """Number of each row's machine within its class, for the rows that are left."""
        return self._kept().batches

    @property
    def row_numbers_(self) -> Index:
        """Numbers of the rows that are left, as they came to :meth:`fit` and :meth:`extend`."""
        return self._kept().numbers

    # --- folding joined with a ridge ----------------------------------------------------------------------

    def joined_sums(self, agreement: Agreement) -> JoinedSums:
        """Compute the sums that this site sends once, before any query, to a joined federation.

        They are sums of the rows that the model was fitted on: **raw ones without a mechanism, and then
        nothing of this is private**, see :mod:`onefold.federated.joined`.

        Parameters
        ----------
        agreement : Agreement
            What all sites know.

        Returns
        -------
        JoinedSums
            The message.
        """
        kept = self._kept()
        return JoinedSums.of(agreement, kept.values, kept.labels, self._fitted().leave_one_out_squares())

    def join(self, offset: Offset) -> Self:
        """Answer with squared distances plus a public offset from now on.

        Every change of the rows takes the offset away: it was computed with the rows as they were.

        Parameters
        ----------
        offset : Offset
            What the server published.

        Returns
        -------
        LocalModel
            This model.
        """
        if self._fitted().measure != "euclidean":
            raise InvalidInputError("a joined federation needs distances: fit with measure='euclidean'")
        self.offset_, self._digest = offset, None
        return self

    # --- answering ----------------------------------------------------------------------------------------

    @property
    def classes_(self) -> Labels:
        """Labels this site has rows of, sorted."""
        return np.asarray(self._fitted().classes_)

    @property
    def measure(self) -> str:
        """Name of the measure in which answers are given."""
        return str(self._fitted().measure) if self.offset_ is None else JOINED

    @property
    def scale(self) -> float | None:
        """Scale of a folding measure, or weight of the public offset; None for the distance and its units."""
        if self.offset_ is not None:
            return self.offset_.weight
        if self.measure == "euclidean":
            return None
        return float(getattr(self._fitted(), "scale_", 1.0))

    @property
    def guarantee_(self) -> Guarantee | None:
        """What the fitted model promises about the rows it was fitted on; None if they are raw."""
        found: Guarantee | None = getattr(self._fitted(), "guarantee_", None)
        return found

    @property
    def schema_(self) -> Schema:
        """The contract by which the fitted model encodes tables; plain for rows of numbers."""
        self._fitted()
        return self._recipe.schema

    @property
    def is_private(self) -> bool:
        """Whether a guarantee holds for everything this model gives away."""
        return self.guarantee_ is not None and self.guarantee_.holds

    def answers(self, X: Any, classes: ArrayLike | None = None) -> Array:
        """Measure each row by each class; for a class that the site lacks, answer the measure's maximum.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Queries; with a schema a table, in which a cell without a value in the contract counts as missing.
        classes : array-like of shape (C,) or None, default=None
            Labels of the columns, in any order, including all of the site's; None takes ``classes_``.

        Returns
        -------
        ndarray of shape (n, C)
            One number per row and class: the smaller, the closer.
        """
        return self._answers(self.schema_.transform(X), classes)

    def _answers(self, rows: ArrayLike, classes: ArrayLike | None = None) -> Array:
        largest = MAXIMA[self.measure]
        distances = self._fitted().distances(rows)
        if self.offset_ is not None:
            distances = squared_with(distances, self.classes_, self.offset_, rows)
        distances = check_answers(distances, 2, largest)
        if classes is None:
            return distances
        columns = np.asarray(classes)
        if columns.ndim != 1 or columns.size == 0 or len(np.unique(columns)) != columns.size:
            raise InvalidInputError("classes must be a list of distinct labels")
        return align(distances, self.classes_, columns, largest)

    def answer(self, query: Query, site: str) -> Answers:
        """Answer a query by a message.

        Parameters
        ----------
        query : Query
            What is asked; its rows are encoded where the sites have a schema.
        site : str
            Name of this site.

        Returns
        -------
        Answers
            The message.
        """
        values = self._answers(query.features)
        return Answers(query.id, site, plain_labels(self.classes_), self.measure, self.scale, values)

    def profile(self, site: str) -> Profile:
        """Return what the site says about itself when it joins.

        Parameters
        ----------
        site : str
            Name of this site.

        Returns
        -------
        Profile
            The message.
        """
        guarantee = None if self.guarantee_ is None else self.guarantee_.to_dict()
        declared: dict[str, Any] = {}
        if not self.schema_.plain:
            declared["schema"] = self.schema_.digest
            declared["schema_fields"] = schema_fields(self.schema_.field_digests)
        known = (plain_labels(self.classes_), self.measure, self.scale, self.n_features_in_)
        return Profile(site, *known, guarantee, self.digest(), **declared)

    def digest(self) -> str:
        """Compute the digest of the fitted model.

        Returns
        -------
        str
            SHA-256 sum of the bytes that :func:`onefold.io.to_bytes` gives, in hexadecimal digits.
        """
        if self._digest is None:
            self._digest = digest_of(self._content())
        return self._digest

    # --- travelling and files -----------------------------------------------------------------------------

    def to_parcel(self, site: str) -> ModelParcel:
        """Pack the model into a message; refused unless a guarantee holds for it.

        Parameters
        ----------
        site : str
            Name of this site.

        Returns
        -------
        ModelParcel
            The message.
        """
        if not self.is_private:
            raise InvalidInputError(
                "only a private model may travel: this one holds raw rows, or its guarantee is void"
            )
        return ModelParcel(site, self._content())

    @classmethod
    def from_parcel(cls, parcel: ModelParcel) -> Self:
        """Unpack the model of a message; one without a guarantee that holds is refused.

        Parameters
        ----------
        parcel : ModelParcel
            What :meth:`to_parcel` made.

        Returns
        -------
        LocalModel
            The model, without the rows that :meth:`forget` needs.

        Raises
        ------
        MessageError
            If the message holds no private classifier.
        """
        try:
            estimator = from_bytes(parcel.content, LARGEST_MACHINE)
            schema = _Beside.of(load_extras(parcel.content)).schema_of(estimator)
        except InvalidInputError:
            raise MessageError("the parcel holds no model") from None
        guarantee = getattr(estimator, "guarantee_", None)
        if guarantee is None or not guarantee.holds or not hasattr(estimator, "distances"):
            raise MessageError("the parcel holds no classifier with a guarantee that holds")
        check_guarantee(guarantee.to_dict())
        if hasattr(estimator, "n_jobs"):
            estimator.n_jobs = None  # how many threads answer is for this machine to say
        if getattr(estimator, "schema", None) is not None:
            raise MessageError("the parcel holds a classifier that encodes tables itself")
        return cls._of(estimator, schema)

    def save(self, path: str | os.PathLike[str], *, with_rows: bool = True) -> None:
        """Write the fitted model to a file, without pickle.

        The file holds the rows the model was fitted on: noisy or fabricated ones with a mechanism, **raw ones
        without**. Identifiers of rows are never in the file.

        Parameters
        ----------
        path : str or path
            The file.
        with_rows : bool, default=True
            Add what :meth:`forget` needs, in the same privacy, at twice the size.
        """
        rows = getattr(self, "_rows", None) if with_rows else None
        save(cast(Any, self._fitted()), path, self._extras(rows))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, like: Any = None, ids: Sequence[Any] | None = None
    ) -> Self:
        """Read the model that :meth:`save` wrote, with its guarantee.

        Parameters
        ----------
        path : str or path
            The file.
        like : LocalModel or None, default=None
            A LocalModel with the mechanism and settings of the saved one, for :meth:`extend`, for
            :meth:`forget` of fabricated rows, and for fitting anew: mechanisms are not in the file.
        ids : sequence or None, default=None
            Identifiers of all rows that ever came, if :meth:`forget` is to be called with them.

        Returns
        -------
        LocalModel
            The model.
        """
        estimator = load(path)
        if not hasattr(estimator, "distances"):
            raise InvalidInputError("the file holds no classifier")
        beside = _Beside.of(load_extras(path))
        model = cls._of(estimator, beside.schema_of(estimator), like)
        if beside.offset is not None:
            model.offset_ = beside.offset
        if beside.rows is not None:
            model._rows = beside.rows
            model._ids = None if ids is None else identifiers(ids, beside.rows.n_ever, beside.rows.numbers)
        return model

    @classmethod
    def load_untrusted(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that a site sent: first in a child process with limits of memory and time.

        The child opens the file and lets the model answer a row; see :func:`onefold.io.load_untrusted`.

        Parameters
        ----------
        path : str or path
            The file, which nobody else can change meanwhile.

        Returns
        -------
        LocalModel
            The model.

        Raises
        ------
        FileFormatError
            The file is no model, or opening it takes more than the limits.
        """
        try_confined("onefold.federated.local_model:try_model", path)
        return cls.load(path)

    # --- inside -------------------------------------------------------------------------------------------

    @classmethod
    def _of(cls, estimator: Any, schema: Schema, like: Any = None) -> Self:
        """A model with this fitted classifier, for tables of this schema."""
        if getattr(estimator, "schema", None) is not None:
            raise InvalidInputError("this classifier encodes tables itself: fit a LocalModel(schema=...)")
        model = cls(clone(estimator))
        if like is not None:
            model.set_params(**{**like.get_params(deep=False), "keep_rows": True})
            if not isinstance(like.estimator, PrivateClassifier):
                model.estimator = clone(estimator)
        model.schema = schema
        model.estimator_ = estimator
        model._must_be_private = model.guarantee_ is not None
        model._recipe, model._ids = Recipe.of(model), None
        return model

    def _drop(self, positions: Index, division: str) -> Forgotten:
        estimator, rows, done = without_rows(self._recipe, self._fitted(), self._kept(), positions, division)
        self._install(estimator, rows)
        return done

    def _install(self, estimator: Any, rows: SiteRows) -> None:
        self.estimator_, self._digest, self.fit_count_ = estimator, None, self.fit_count_ + 1
        self.offset_ = None
        if self.keep_rows:
            self._rows = rows

    def _content(self) -> bytes:
        """The file of the model without its rows."""
        return to_bytes(self._fitted(), self._extras())

    def _extras(self, rows: SiteRows | None = None) -> Arrays:
        schema = None if self.schema_.plain else self.schema_.to_dict()
        if (schema, self.offset_, rows) == (None, None, None):
            return {}
        return {BESIDE: np.frombuffer(_Beside(schema, self.offset_, rows).to_bytes(), dtype=np.uint8)}

    def _kept(self) -> SiteRows:
        self._fitted()
        if not hasattr(self, "_rows"):
            raise InvalidInputError("this model does not have its rows: fit it with keep_rows=True")
        return self._rows

    def _fitted(self) -> Any:
        if not hasattr(self, "estimator_"):
            raise NotFittedError("this LocalModel has not been fitted: call fit(X, y) first")
        return self.estimator_


def try_model(path: str | os.PathLike[str]) -> None:
    """Open the file of a model, describe the model and ask it about a row of zeros."""
    model = LocalModel.load(path)
    query = Query("trial", np.zeros((1, model.profile("trial").n_features)))
    model.answer(query, "trial")
