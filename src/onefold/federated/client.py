"""What an owner of data does: fit a model at home, and answer queries with one number per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from onefold._base.validation import check_rows
from onefold.exceptions import InvalidInputError
from onefold.federated._answering import ClassModels, align
from onefold.federated._filing import Filed
from onefold.federated._fitting import fitted_to, weaker
from onefold.federated._identifiers import identifiers, more_identifiers, positions_of
from onefold.federated._rows import Forgotten, Index, Rows
from onefold.federated._settings import RowChecks, Settings
from onefold.federated.log import MembershipLog
from onefold.models import StackMemory
from onefold.privacy import Mechanism, RandomisedLabels

__all__ = ["ClassModels", "Forgotten", "LocalModel", "align"]


class LocalModel(Filed, BaseEstimator):
    """The model of one owner: fitted on the owner's rows, asked for one number per row and class.

    Parameters
    ----------
    estimator : a classifier with ``distances``, ``classes_`` and ``measure``; it is cloned, not changed.
        None stands for ``AutoencoderClassifier()``. A :class:`~onefold.fabrication.PrivateClassifier` brings
        its own mechanism and settings.
    mechanism : noise of :mod:`onefold.privacy`. With it the model sees noisy rows only, drawn once, and
        carries ``guarantee_``. None: the model is of raw rows, and its answers are functions of them.
    fabricate : smooth after the noise (000 Def. 15); otherwise the noisy rows are used (000 Def. 12).
    label_mechanism : randomises the labels as well; without it labels and class sizes are not covered.
    random_state : seed of the noise, for tests only: a known seed makes noise known. None is the entropy of
        the system.
    keep_rows : keep what is needed for :meth:`forget`, :meth:`extend` and the like; takes the memory of the
        data once more (twice for fabricated rows).

    Attributes
    ----------
    estimator_ : the fitted classifier.
    classes_ : labels this owner has rows of, sorted.
    measure : the measure in which answers are given.
    guarantee_ : what the fitted model promises about the rows it was fitted on, or None.
    batches_ : number of each row's machine within its class.

    Notes
    -----
    An answer reveals how close a query is to the rows of the model. Without a mechanism these are the
    owner's raw rows, :meth:`save` writes them to the file, and nothing of it is private. Owners whose
    answers are to be compared must use the same features, the same measure and, for the space folding
    measures, the same ``scale``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]])
    >>> owner = LocalModel().fit(X, ["low", "low", "high", "high"])
    >>> owner.answers(X[:1], classes=["high", "low", "other"]).argmin()
    np.int64(1)
    >>> owner.answers(X[:1], classes=["high", "low", "other"])[0, 2]
    np.float64(inf)
    >>> owner.forget([3]).exact
    True
    >>> from onefold.privacy import OptimalNoise
    >>> private = LocalModel(mechanism=OptimalNoise(2.0, delta=1e-5)).fit(X, [0, 0, 1, 1])
    >>> private.guarantee_.entry  # (epsilon, delta) of one entry, not of a whole row
    (2.0, 1e-05)
    """

    def __init__(
        self,
        estimator: Any = None,
        mechanism: Mechanism | None = None,
        *,
        fabricate: bool = True,
        label_mechanism: RandomisedLabels | None = None,
        random_state: Any = None,
        keep_rows: bool = True,
    ) -> None:
        self.estimator = estimator
        self.mechanism = mechanism
        self.fabricate = fabricate
        self.label_mechanism = label_mechanism
        self.random_state = random_state
        self.keep_rows = keep_rows

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        batches: ArrayLike | None = None,
        ids: Sequence[Any] | None = None,
    ) -> Self:
        """Model every class the owner has rows of.

        Parameters
        ----------
        batches : whole numbers (n,); rows of one class with one number share a machine. None divides the rows
            as the estimator does. ``batches_`` holds what was used.
        ids : distinct identifiers of the rows, by which :meth:`forget` may name them. They stay in this
            object and are never written to a file. None names rows by their numbers.
        """
        settings = Settings.of(self)
        settings.prototype()  # refuses what cannot answer, before anything else
        checks = RowChecks()
        samples, labels = check_rows(checks, X, y)
        names = identifiers(ids, len(samples))
        rows, guarantee = settings.prepare(samples, labels)
        if batches is not None:
            numbers = np.asarray(batches)
            if numbers.shape != (len(samples),) or numbers.dtype.kind not in "iu":
                raise InvalidInputError("batches must be one whole number per row")
            rows = settings.divided(rows, numbers.astype(np.intp))
        else:
            rows = settings.divided(rows)
        memory = StackMemory()
        self._install(*fitted_to(rows, guarantee, settings, checks, memory if self.keep_rows else None))
        # Only now: a fit that fails leaves the earlier model as it was, with its own guarantee.
        self._settings, self._checked, self._memory, self._ids = settings, checks, memory, names
        self._partition_given = batches is not None
        return self

    def forget(
        self,
        rows: ArrayLike,
        *,
        repartition: bool = False,
        log: MembershipLog | None = None,
        site: str = "local",
    ) -> Forgotten:
        """Let rows go, with everything they contributed; only the machines they were in are fitted anew.

        The result is, bit for bit, that of fitting the other rows in the same batches. Batches of consecutive
        rows depend on how many rows there were, not on what was in them, so forgetting is exact. **A
        division by k-means was itself chosen with the forgotten rows**: the machines are free of them, the
        borders are not, and the answer says ``exact=False``. ``repartition=True`` divides the touched
        classes anew instead, which is exact and fits all machines of these classes.

        Fabricated rows are smoothed mixtures, so the touched classes are smoothed and divided anew from the
        noisy rows that are left: exact, and no noise is drawn again. What was given out before stays given
        out.

        Parameters
        ----------
        rows : numbers of rows as they came to :meth:`fit` and :meth:`extend`, or identifiers if it had them.
        log, site : where to write down that it happened, how many rows, and whether it was exact. Neither row
            numbers nor identifiers are written.
        """
        kept = self._kept()
        if self._ids is None:
            positions = positions_of(rows, kept.numbers, "row numbers")
        else:
            positions = positions_of(rows, self._ids[kept.numbers], "identifiers")
        return self._drop(positions, repartition, log, "forget", site)

    def remove_batch(
        self, label: Any, batch: int, *, log: MembershipLog | None = None, site: str = "local"
    ) -> Forgotten:
        """Let one batch of a class go; see :meth:`forget`."""
        kept = self._kept()
        positions = np.flatnonzero((kept.labels == label) & (kept.batches == batch))
        if not positions.size:
            raise InvalidInputError("there is no such batch")
        return self._drop(positions, False, log, "batch-removed", site)

    def remove_class(self, label: Any, *, log: MembershipLog | None = None, site: str = "local") -> Forgotten:
        """Let a class go; the other classes are not touched."""
        positions = np.flatnonzero(self._kept().labels == label)
        if not positions.size:
            raise InvalidInputError("there is no such class")
        return self._drop(positions, False, log, "class-removed", site)

    def extend(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ids: Sequence[Any] | None = None,
        log: MembershipLog | None = None,
        site: str = "local",
    ) -> Self:
        """Add rows as batches of their own; machines of other rows are not touched, new classes just appear.

        With a mechanism noise is drawn for the new rows only: of every row there is one noisy version. **A
        row that was there before, forgotten or not, must not come again**: its two versions together give
        away what two releases do. Rows with identifiers are checked for that, others cannot be.
        Fabricated rows of a class that gains some are smoothed anew.
        """
        kept, settings = self._kept(), self._settings
        samples, labels = check_rows(self._checked, X, y, reset=False)
        if (ids is None) != (self._ids is None):
            raise InvalidInputError("rows are named by identifiers either always or never")
        if (labels.dtype.kind in "OUS") != (kept.labels.dtype.kind in "OUS"):
            raise InvalidInputError("labels must be all texts or all numbers")
        names = None
        if ids is not None and self._ids is not None:
            names = more_identifiers(self._ids, kept.numbers, ids, len(samples), self.guarantee_)
        more, guarantee = settings.prepare(samples, labels)
        if guarantee is not None and self.guarantee_ is not None and guarantee != self.guarantee_:
            guarantee = weaker(self.guarantee_, guarantee)
        known = set(kept.labels.tolist())
        joined = kept.with_more(settings.divided(more))
        if joined.noisy is not None:
            touched = np.unique(more.labels)
            joined = settings.divided_again(joined.smoothed_again(touched, settings.maker()), touched)
        self._install(*fitted_to(joined, guarantee, settings, self._checked, self._memory))
        self._ids = names
        if log is not None:
            new = [label for label in np.unique(more.labels).tolist() if label not in known]
            log.append("class-added" if new else "batch-added", site, rows=len(samples), new_classes=len(new))
        return self

    @property
    def batches_(self) -> Index:
        """Number of each row's machine within its class, for the rows that are left."""
        return self._kept().batches

    @property
    def row_numbers_(self) -> Index:
        """Numbers of the rows that are left, as they came to :meth:`fit` and :meth:`extend`."""
        return self._kept().numbers

    def _drop(
        self, positions: Index, repartition: bool, log: MembershipLog | None, event: str, site: str
    ) -> Forgotten:
        kept, settings = self._kept(), self._settings
        touched = np.unique(kept.labels[positions])
        rest = kept.without(positions)
        if not len(rest.values):
            raise InvalidInputError("no row would be left: remove the client instead")
        exact = True
        if rest.noisy is not None:
            rest = settings.divided_again(rest.smoothed_again(touched, settings.maker()), touched)
        elif repartition:
            rest = settings.divided_again(rest, touched)
        elif event != "class-removed":
            exact = not set(touched.tolist()) & set(kept.clustered)
        gone = tuple(label for label in touched.tolist() if not np.any(rest.labels == label))
        self._install(*fitted_to(rest, self.guarantee_, settings, self._checked, self._memory))
        result = Forgotten(
            len(positions),
            self._memory.n_fitted,
            self._memory.n_kept,
            gone,
            exact,
            "given" if self._partition_given else settings.partition(),
        )
        if log is not None:
            log.append(event, site, rows=result.n_rows, exact=exact, partition=result.partition)
        return result

    def _install(self, estimator: Any, rows: Rows) -> None:
        self.estimator_, self._digest, self._version = estimator, None, self._version + 1
        if self.keep_rows:
            self._rows = rows

    def _kept(self) -> Rows:
        self._fitted()
        if not hasattr(self, "_rows"):
            raise InvalidInputError("this model does not have its rows: fit it with keep_rows=True")
        return self._rows

    def _fitted(self) -> Any:
        if not hasattr(self, "estimator_"):
            raise NotFittedError("this LocalModel has not been fitted: call fit(X, y) first")
        return self.estimator_
