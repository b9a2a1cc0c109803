"""A classifier on private moments, and synthetic records drawn from them to train anything else on."""

import copy
import math
import os
import warnings
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from onefold._base.archive import read_archive, save_archive
from onefold._base.arrays import Array, Arrays, Floats, Index, Labels
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold._base.validation import Whole, check_parameter, check_rows
from onefold.encoders import description, learns
from onefold.exceptions import FileFormatError, InvalidInputError, PrivacyLeakWarning
from onefold.privacy.contract import NO_LABELS, contract_rows, encoding_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.moments import PrivateMoments
from onefold.privacy.terms import NOTHING
from onefold.tables import Schema

__all__ = ["MomentClassifier", "MomentFabricator"]

CLASSIFIER = "moment classifier"  # kind of its files
LEARNED_ENCODER = "the encoder was fitted to the raw data"
# Values of embedded queries that are looked at together.
BLOCK_VALUES = 4_000_000


class _OnMoments(BaseEstimator):
    """An estimator that sees data only through :class:`onefold.privacy.PrivateMoments`."""

    classes_: Labels
    guarantee_: Guarantee
    moments_: PrivateMoments
    encoder_: Any
    n_features_in_: int

    def __init__(
        self,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        encoder: Any = None,
        *,
        classes: ArrayLike | None = None,
        centre: Literal["private"] | ArrayLike | None = "private",
        radius: float | None = None,
        shares: tuple[float, float, float, float] = (0.05, 0.02, 0.28, 0.70),
        neighbours: Literal["add-remove", "replace"] = "add-remove",
        shrinkage: Literal["auto"] | float = "auto",
        floor: float = 0.2,
        least: float = 0.25,
        sampler: str = "hardened",
        rows_per_person: int | None = None,
        hardened: bool | None = None,
        random_state: int | np.random.Generator | None = None,
        ledger: AnyLedger = None,
        schema: Schema | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.encoder = encoder
        self.classes = classes
        self.centre = centre
        self.radius = radius
        self.shares = shares
        self.neighbours = neighbours
        self.shrinkage = shrinkage
        self.floor = floor
        self.least = least
        self.sampler = sampler
        self.rows_per_person = rows_per_person
        self.hardened = hardened
        self.random_state = random_state
        self.ledger = ledger
        self.schema = schema

    def fit(self, X: Any, y: ArrayLike | None = None, person: Any = None) -> Self:
        """Encode the rows, release their moments once, and forget the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The raw rows; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels; with a schema None takes its label column.
        person : array-like of shape (n_samples,), False or None, default=None
            Who each row is about: the release is then private for persons, each of whom counts once whatever
            the number of rows. None takes the person column of a schema that declares ``rows_per_person``;
            False takes none.

        Returns
        -------
        object
            This object.
        """
        rows, labels, person = self._read(X, y, person)
        if learns(self.encoder):  # a ledger refuses it before there is a release
            void = Guarantee("record", NOTHING, NOTHING, rows.shape[1]).voided(LEARNED_ENCODER)
            charge(self.ledger, void, "private moments")
        self.encoder_ = None if self.encoder is None else clone(self.encoder).fit(rows)
        encoded = rows if self.encoder_ is None else self.encoder_.transform(rows)
        release = PrivateMoments(**self._release(person is not None))
        moments = release.fit(encoded, labels, person, schema=self.schema)
        moments.encoding_ = _encoding(self.schema, self.encoder)
        self._adopt(_voided_by(self.encoder, moments))
        return self

    @classmethod
    def from_moments(
        cls,
        moments: PrivateMoments,
        encoder: Any = None,
        *,
        shrinkage: Literal["auto"] | float = "auto",
        floor: float = 0.2,
        least: float = 0.25,
        schema: Schema | None = None,
    ) -> Self:
        """Build the estimator from a release alone, such as the sum of the moments of several sites.

        Parameters
        ----------
        moments : PrivateMoments
            The release, fitted.
        encoder : transformer or None, default=None
            The fitted encoder that the records went through; None if queries come encoded.
        shrinkage : "auto" or float in [0, 1], default="auto"
            How far each covariance is drawn towards the pooled one.
        floor : float, default=0.2
            Smallest eigenvalue of a covariance, in units of the noise's largest.
        least : float, default=0.25
            Smallest eigenvalue of a covariance as a share of the mean one.
        schema : Schema or None, default=None
            What the rows were encoded by; None if queries come encoded.

        Returns
        -------
        object
            A fitted estimator of this class.
        """
        check_is_fitted(moments)
        if encoder is not None:
            check_is_fitted(encoder)
        expected = _encoding(schema, encoder)
        if expected and moments.encoding_ not in ("", expected):
            raise InvalidInputError("the records of this release went through another encoder or schema")
        given = {**_of_the_release(moments), "random_state": None, "ledger": None}
        more: dict[str, Any] = {"shrinkage": shrinkage, "floor": floor, "least": least, "schema": schema}
        found = cls(**given, encoder=encoder, **more)
        found.encoder_ = encoder
        found.n_features_in_ = moments.n_features_in_ if encoder is None else encoder.n_features_in_
        if schema is not None:
            found._name_features(schema)
        found._adopt(_voided_by(encoder, moments))
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "moments_")

    def _adopt(self, moments: PrivateMoments) -> None:
        """Take over a release; a subclass prepares what it needs here."""
        self.moments_, self.guarantee_, self.classes_ = moments, moments.guarantee_, moments.classes_

    def _embed(self, X: ArrayLike) -> Floats:
        """Take rows to where the release lives: encoded, clipped, seen from the centre."""
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False) if self.schema is None else self.schema.transform(X)
        return self.moments_.embed(rows if self.encoder_ is None else self.encoder_.transform(rows))

    def _read(self, X: Any, y: Any, person: Any) -> tuple[Floats, Labels, Any]:
        """Return rows of numbers, their labels, and whom they are about."""
        if self.schema is None:
            rows, labels = check_rows(self, X, y)
            return rows, labels, None if person is False else person
        rows, found, person = contract_rows(self.schema, X, y, person, leave_out=True)
        if found is None:
            raise InvalidInputError(NO_LABELS)
        self._name_features(self.schema)
        return rows, found, person

    def _release(self, of_persons: bool) -> dict[str, Any]:
        """Return the parameters of the release; what is not given follows from the schema."""
        given, schema = _of_the_release(self), self.schema
        if schema is not None:
            if given["classes"] is None:
                given["classes"] = schema.classes
            if given["radius"] is None and self.encoder is None:
                given["radius"] = schema.row_norm
            if given["rows_per_person"] is None and of_persons:
                given["rows_per_person"] = schema.rows_per_person
        return given if given["radius"] is not None else given | {"radius": 1.0}

    def _name_features(self, schema: Schema) -> None:
        self.n_features_in_ = len(schema.features)
        self.feature_names_in_ = np.array([known.name for known in schema.features], dtype=object)


def _encoding(schema: Schema | None, encoder: Any) -> str:
    return description(encoder) if schema is None else encoding_of(schema, description(encoder))


def _voided_by(encoder: Any, moments: PrivateMoments) -> PrivateMoments:
    """Return the release, with a void guarantee if the records went through an encoder that learns."""
    if not learns(encoder):
        return moments
    warnings.warn(
        f"{LEARNED_ENCODER}: the guarantee is void; use one of onefold.encoders",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    found = copy.copy(moments)
    found.guarantee_ = moments.guarantee_.voided(LEARNED_ENCODER)
    return found


def _of_the_release(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that an estimator shares with :class:`onefold.privacy.PrivateMoments`."""
    return {name: getattr(estimator, name) for name in PrivateMoments().get_params(deep=False)}


class MomentClassifier(ClassifierMixin, _OnMoments):
    """Quadratic discriminant on private moments: record-level privacy in one release, without gradients.

    Each class is a Gaussian with the repaired mean and covariance of its noisy moments; a query goes to the
    class with the largest density times size.

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
    shares : tuple of four floats, default=(0.05, 0.02, 0.28, 0.70)
        How the budget is divided among centre, counts, sums and second moments.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        What the guarantee compares: one record more or less, or one record replaced.
    shrinkage : "auto" or float in [0, 1], default="auto"
        How far each covariance is drawn towards the pooled one; "auto" follows from the noise levels, and is
        1 with a schema.
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
    hardened : bool or None, default=None
        Old spelling of ``sampler``.
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
    MomentFabricator : Synthetic records from the same release.

    Notes
    -----
    *Guarantees.* ``guarantee_`` is that of the release, for a record with its label; the rest is
    post-processing. Probabilities come from Gaussian densities and tend to be too sure.

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
            Probabilities; they come from Gaussian densities and tend to be too sure.
        """
        scores = self._scores(X)
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the classifier to a file: the release, its guarantee and the schema, and nothing else.

        Parameters
        ----------
        path : path
            The file to write.
        """
        check_is_fitted(self)
        if self.encoder_ is not None:
            raise InvalidInputError(
                "a classifier with an encoder has no file: save its moments_, and use from_moments"
            )
        about = {name: getattr(self, name) for name in ("shrinkage", "floor", "least")}
        about["schema"] = None if self.schema is None else self.schema.to_dict()
        release = np.frombuffer(self.moments_.to_bytes(), dtype=np.uint8)
        save_archive(path, CLASSIFIER, about, {"moments": release})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "MomentClassifier":
        """Read a classifier from a file.

        Parameters
        ----------
        path : path
            A file that :meth:`save` wrote.

        Returns
        -------
        MomentClassifier
            The fitted classifier, which answers as the saved one did.
        """
        about, arrays = read_archive(path, CLASSIFIER)
        try:
            schema = None if about["schema"] is None else Schema.from_dict(about["schema"])
            moments = PrivateMoments.from_bytes(arrays["moments"].astype(np.uint8).tobytes())
            more: dict[str, Any] = {name: about[name] for name in ("shrinkage", "floor", "least")}
            return cls.from_moments(moments, schema=schema, **more)
        except (LookupError, TypeError, ValueError):
            raise FileFormatError(f"{os.fspath(path)}: the contents are not those of a classifier") from None

    @one_blas_thread()  # a loaded classifier has the bits of the fitted one
    def _adopt(self, moments: PrivateMoments) -> None:
        # One-hot columns are no Gaussians: on tables one covariance for all classes was better throughout.
        shrinkage = 1.0 if self.shrinkage == "auto" and self.schema is not None else self.shrinkage
        covariances = moments.covariances(shrinkage, self.floor, self.least)
        self._means = moments.means_
        # x^T Sigma^-1 x = |x^T W|^2 with W = U diag(1 / sqrt(w)) of the eigendecomposition
        values, vectors = np.linalg.eigh(covariances)
        self._whitening = vectors / np.sqrt(values)[:, None, :]
        self._offsets = np.log(np.maximum(moments.counts_, 1.0)) - 0.5 * np.log(values).sum(axis=1)
        super()._adopt(moments)

    def _scores(self, X: ArrayLike) -> Floats:
        queries = self._embed(X)
        scores = np.empty((len(queries), len(self.classes_)))
        step = max(1, BLOCK_VALUES // queries.shape[1])

        def score(start: int) -> None:
            block = slice(start, start + step)
            for code, (mean, whitening) in enumerate(zip(self._means, self._whitening, strict=True)):
                scores[block, code] = np.sum(((queries[block] - mean) @ whitening) ** 2, axis=1)

        run_parallel(score, range(0, len(queries), step))
        return np.asarray(self._offsets - 0.5 * scores)


class MomentFabricator(TransformerMixin, _OnMoments):
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
    shares : tuple of four floats, default=(0.05, 0.02, 0.28, 0.70)
        How the budget is divided among centre, counts, sums and second moments.
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
    hardened : bool or None, default=None
        Old spelling of ``sampler``.
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
        if self.schema is None:
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
        schema = self.schema
        if schema is None or self.encoder is not None or np.any(self.moments_.centre_):
            raise InvalidInputError("a table needs a schema, and moments seen from the origin")
        drawn, labels = self.sample(n_samples, balanced=balanced, random_state=random_state)
        found = schema.inverse_transform(drawn * float(self.moments_.radius))
        if schema.label is not None:
            found[schema.label.name] = np.asarray(labels)
        return {known.name: found[known.name] for known in schema.fields if known.name in found}

    def _on_sphere(self, drawn: Floats) -> Floats:
        """Scale records as the release does: to norm one if seen from a centre, else to at most one."""
        norms = np.linalg.norm(drawn, axis=1, keepdims=True)
        smallest = math.ulp(1.0) if np.any(self.moments_.centre_) else 1.0
        return np.asarray(drawn / np.maximum(norms, smallest))


def _whole_parts(shares: Floats, total: int) -> Index:
    """Return whole numbers in proportion to ``shares`` that add up to ``total`` (largest remainders)."""
    exact = shares * total
    parts = np.floor(exact).astype(np.intp)
    parts[np.argsort(parts - exact, kind="stable")[: total - parts.sum()]] += 1
    return parts
