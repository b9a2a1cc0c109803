"""Classifiers that model each class by an autoencoder and ask which one folds a point least (000 Def. 7)."""

from dataclasses import replace
from typing import Any, ClassVar

from onefold._base.arrays import Array, Index, Labels
from onefold._base.validation import Entry, Instance, Whole
from onefold.exceptions import InvalidInputError
from onefold.models.class_models import TOO_MANY_COLUMNS, ClassModels
from onefold.models.compose import Autoencoder
from onefold.models.folding import ScaleOption
from onefold.models.kahm.estimator import WideKAHM
from onefold.models.preparation import Settings, tuned
from onefold.tables import Schema

__all__ = ["AutoencoderClassifier", "ClassModels", "FoldingClassifier"]

# What a classifier without an estimator uses with a schema; it is never fitted. Most entries of one-hot rows
# are zero, and the head decides: one layer is enough.
ENCODED = WideKAHM(n_layers=1, scale="auto")


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
    leave_one_out_ : tuple of float and int
        Sum of squared leave-one-out distances and the number of rows, see
        :class:`onefold.models.ClassModels`.

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

    constraints: ClassVar[dict[str, Entry]] = {
        "estimator": (None, Instance(Autoencoder, "one of onefold's autoencoders, such as WideKAHM()")),
        "tune": (None, "auto"),
    }

    def __init__(
        self,
        estimator: Autoencoder | None = None,
        measure: str = "euclidean",
        *,
        schema: Schema | None = None,
        head: str | None = "auto",
        preparation: Any = "auto",
        tune: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.measure = measure
        self.schema = schema
        self.head = head
        self.preparation = preparation
        self.tune = tune
        self.n_jobs = n_jobs

    @property
    def family(self) -> Autoencoder:
        """The autoencoder that ``estimator`` is or stands for; not to be changed or fitted."""
        if self.estimator is not None:
            return self.estimator
        if self.schema is not None:
            return ENCODED
        return WideKAHM(
            n_layers=1,
            branch_size=self._open.batch_size,
            partition="contiguous",
            regularisation=self._open.regularisation,
        )

    @property
    def _prepares(self) -> bool:
        return self.estimator is None and self.schema is None

    tuned_: dict[str, Any]

    def _settle(self, samples: Array, codes: Index) -> Settings:
        if self.tune is not None and (self.estimator is not None or self.schema is not None):
            raise InvalidInputError("tune goes without an estimator and without a schema")
        found = super()._settle(samples, codes)
        self.__dict__.pop("tuned_", None)
        if self.tune is None:
            return found
        prepared = samples if found.preparation is None else found.preparation.apply(samples)
        size, lam, accuracy = tuned(prepared, codes, self.n_jobs)
        self.tuned_ = {
            "standardised": found.preparation is not None,
            "batch_size": size,
            "regularisation": lam,
            "head": None,
            "accuracy": accuracy,
        }
        return replace(found, batch_size=size, regularisation=lam)

    def _finish(self, prepared: Array, labels: Labels, codes: Index, folds: Index | None) -> None:
        if self.tune is not None and self.head == "auto" and prepared.shape[1] < TOO_MANY_COLUMNS:
            self._fit_head(prepared, labels, folds)
            accuracy = self.head_.performance["accuracy"]
            if not accuracy < self.tuned_["accuracy"]:
                self.tuned_ |= {"head": "ridge", "accuracy": accuracy}
                return
            del self.head_
        super()._finish(prepared, labels, codes, folds)

    @property
    def _n_probe(self) -> int | None:  # type: ignore[override]
        return self.family.n_probe


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
    leave_one_out_ : tuple of float and int
        Sum of squared leave-one-out distances and the number of rows, see
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

    constraints: ClassVar[dict[str, Entry]] = {"batch_size": (Whole(1), "auto")}

    def __init__(
        self,
        n_components: int = 20,
        batch_size: int | str = "auto",
        measure: str = "rms",
        *,
        scale: ScaleOption = None,
        regularisation: str | float = "auto",
        schema: Schema | None = None,
        head: str | None = "auto",
        preparation: Any = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.batch_size = batch_size
        self.measure = measure
        self.scale = scale
        self.regularisation = regularisation
        self.schema = schema
        self.head = head
        self.preparation = preparation
        self.n_jobs = n_jobs

    @property
    def _prepares(self) -> bool:
        return self.schema is None and self.regularisation != "documented"

    @property
    def family(self) -> Autoencoder:
        """A wide machine of one layer on batches of consecutive rows."""
        return WideKAHM(
            n_components=self.n_components,
            n_layers=1,
            branch_size=self._open.batch_size if self.batch_size == "auto" else int(self.batch_size),
            partition="contiguous",
            scale="auto" if self.scale is None and self.schema is not None else self.scale,
            regularisation=self.regularisation,
        )
