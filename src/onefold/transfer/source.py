"""The artefact that a source ships: a private classifier, a private subspace, no raw data."""

import math
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, cast, get_type_hints

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from onefold import encoders
from onefold._base.arrays import Array, Floats, Labels, sizes_of
from onefold._base.foreign import MOST_WITHOUT_BYTES, claimed
from onefold._base.stored import NamedClass, Stored
from onefold._base.validation import (
    Instance,
    Number,
    check_parameter,
    check_parameters,
    check_rows,
)
from onefold.encoders import Encoder, description, learns
from onefold.exceptions import InvalidInputError
from onefold.models import Autoencoder, AutoencoderClassifier, WideKAHM
from onefold.privacy import Guarantee, Mechanism, PrivateMoments, RandomisedLabels, charge
from onefold.privacy.contract import (
    LEARNED_ENCODER,
    NO_LABELS,
    behind_encoder,
    check_domain,
    contract_rows,
    declared_settings,
    encoding_of,
    refuse_learned,
    under_contract,
)
from onefold.privacy.domains import Ball
from onefold.privacy.ledger import AnyLedger, all_of
from onefold.privacy.persons import SAME_PERSON, kept_rows
from onefold.privacy.terms import NOTHING
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND
from onefold.transfer._description import (
    Description,
    MomentDescription,
    RowDescription,
    covariance_of,
    leading_directions,
    spread_within,
)
from onefold.transfer.alignment import PROCRUSTES

__all__ = ["PrivateSource"]

NO_NOISE = "no noise was added: the artefact holds the rows it was given"
BEHIND_ENCODER = (
    "noise on rows is made for rows of the schema, and an encoder changes them: use PrivateMoments "
    "(--method moments), or no encoder"
)
NAME = "private source"  # in a ledger
GIVEN_ROWS = "the given rows are those that this guarantee was made for"


# --- encoders: their name and parameters, never their state -----------------------------------------------

ENCODERS: dict[str, type[Encoder]] = {
    kind.__name__: kind
    for kind in (encoders.GradientHistograms, encoders.LowFrequencyDCT, encoders.RandomFeatures)
}
# Parameters of encoders that say how much memory they take, and how many numbers that may be.
SIZES = ("n_outputs", "n_coefficients", "n_cells", "n_orientations")
LARGEST_MATRIX = 2**27


def described_encoder(encoder: Any) -> dict[str, Any] | str | None:
    """Return name, parameters and width of a fitted encoder; None for none, a word for a turned source."""
    if encoder is None or (isinstance(encoder, str) and encoder == PROCRUSTES):
        return encoder
    if ENCODERS.get(type(encoder).__name__) is not type(encoder):
        known = ", ".join(sorted(ENCODERS))
        raise InvalidInputError(f"only an encoder that is fixed can be saved: one of {known}")
    parameters = encoder.get_params(deep=False)
    return {"name": type(encoder).__name__, "given": parameters, "n_features": int(encoder.n_features_in_)}


class EncoderField:
    """An encoder that a file describes, ready for use."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self._made)

    def _made(self, description: Any) -> Any:
        if description is None or description == PROCRUSTES:
            return description
        kind, given = ENCODERS[description["name"]], description["given"]
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        width = claimed(description["n_features"], MOST_WITHOUT_BYTES, least=1)
        sizes = [value for name, value in plain.items() if name in SIZES and type(value) is int]
        claimed(width * max(sizes, default=1), LARGEST_MATRIX)
        return fitted_encoder(kind(**plain), width)


def fitted_encoder(encoder: Any, n_features: int) -> Encoder:
    """Prepare a fixed encoder for rows of this length; it looks at no values."""
    return cast(Encoder, clone(encoder).fit(np.zeros((1, n_features))))


# --- the source -------------------------------------------------------------------------------------------


class _Rows(BaseEstimator):
    """Checks the rows of a source, and counts their features."""


@dataclass(frozen=True, eq=False)
class PrivateSource(Stored):
    """What a data owner hands out in place of raw rows: models of private rows, or private moments.

    Made by :meth:`fit`, :meth:`from_rows` or :meth:`from_moments`, not by its constructor. Without a
    mechanism it is made of raw rows, and ``guarantee_`` is void. It can be saved and shipped; files hold
    arrays and JSON, no pickle.

    Parameters
    ----------
    description_ : Description
        The private classifier: autoencoders fitted to private rows (001 Alg. 6), or Gaussians with private
        moments.
    subspace_ : ndarray of shape (n_directions, n_encoded)
        Principal directions of the *private* rows, the leading half of them (V+ in 001 Sec. 4.2).
    guarantee_ : Guarantee
        What is promised about the source's records, and what is not.
    encoder_ : transformer or None
        The public encoder that the rows went through.
    n_features_in_ : int
        Features of the source's rows, before the encoder; of a table, encoded by its schema.
    schema_ : Schema or None, default=None
        Schema of the source's table; None for rows of numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    n_encoded_ : int
        Features of a row in the source space, after the encoder.

    See Also
    --------
    TransferClassifier : Learns a target with the help of a source.

    Notes
    -----
    *Guarantees.* Everything in the artefact is computed from the noisy rows or the released moments, so it is
    as private as they are: ``guarantee_`` is theirs. With noise on rows it is about **entries** unless the
    mechanism was calibrated for records, and labels and class sizes are not covered without
    ``label_mechanism``; with :class:`onefold.privacy.PrivateMoments` it is about a whole record with its
    label. Whatever a target does with the artefact is post-processing.

    References
    ----------
    Document 001, Section 4.2, first two steps, and Algorithm 6.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import PrivateMoments
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 5000)
    >>> X = rng.normal(size=(5000, 2)) / 10 + y[:, None] / 2
    >>> source = PrivateSource.fit(X, y, PrivateMoments(1.0, classes=[0, 1]))
    >>> source.guarantee_.record
    (1.0, 1e-05)
    """

    kind: ClassVar[str] = "private source"
    description_: Description
    subspace_: Floats
    guarantee_: Annotated[Guarantee, NamedClass("Guarantee")]
    encoder_: Annotated[Any, EncoderField()]
    n_features_in_: int
    schema_: Annotated[Schema, NamedClass("Schema")] = AS_THEY_STAND

    @classmethod
    def fit(
        cls,
        X: Any,
        y: ArrayLike | None = None,
        mechanism: Any = None,
        *,
        estimator: Autoencoder | None = None,
        encoder: Any = None,
        label_mechanism: RandomisedLabels | None = None,
        random_state: Any = None,
        person: Any = None,
        ledger: AnyLedger = None,
        schema: Schema = AS_THEY_STAND,
    ) -> "PrivateSource":
        """Make the artefact of raw rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            Raw rows; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels; with a schema None takes its label column.
        mechanism : Mechanism, Fabricator, PrivateMoments or None, default=None
            What makes it private: a noise of :mod:`onefold.privacy` (the documents' way: noise on every
            entry), a :class:`onefold.fabrication.Fabricator` (noise, then smoothing), an unfitted
            :class:`onefold.privacy.PrivateMoments` (record-level moments), or None for **no privacy**: for
            comparison only, and the guarantee says so.
        estimator : autoencoder or None, default=None
            Autoencoder of each class, for noise on rows; None stands for ``WideKAHM(scale="auto")``. The
            documents use :class:`onefold.WideMembershipAutoencoder`.
        encoder : transformer or None, default=None
            One of :mod:`onefold.encoders`, applied first. Any other transformer is fitted to the raw rows,
            which voids the guarantee.
        label_mechanism : RandomisedLabels or None, default=None
            Randomises the labels; for noise on rows (a Fabricator has its own).
        random_state : int, Generator or None, default=None
            None takes the noise from the entropy of the system. A seed makes the noise known and the
            guarantee void: for tests only.
        person : array-like of shape (n_samples,), False or None, default=None
            Who each row is about, for noise or moments with ``rows_per_person``: rows of a person above that
            number are dropped at random before anything else. Moments take persons without a limit too. With
            a schema None takes its person column; False takes none.
        ledger : Ledger, path or None, default=None
            Account of what was spent on the same data: the source is entered there before any noise is drawn,
            and refused beyond its limit. It counts besides the ledger that a Fabricator or PrivateMoments
            may have.
        schema : Schema, default=AS_THEY_STAND
            What is declared about the table. Noise on rows needs ``sensitivity=domain_of(schema)``, and takes
            no encoder beside it; of PrivateMoments what is left at its default follows from the schema: the
            classes, the radius, and persons if it declares ``rows_per_person``. The default takes rows of
            numbers.

        Returns
        -------
        PrivateSource
            The artefact.
        """
        schema = Schema.of(schema)
        noise = _noise_on_rows(mechanism)
        rows, labels, person = _labelled_rows(schema, X, y, mechanism, encoder, person)
        width = int(rows.shape[1])
        if not isinstance(mechanism, PrivateMoments):
            most = None if noise is None else noise.rows_per_person
            kept = kept_rows(person, most, len(rows), random_state)
            if kept is not None:
                rows, labels = rows[kept], labels[kept]
        fitted = None if encoder is None else clone(encoder).fit(rows)
        encoded = rows if fitted is None else np.asarray(fitted.transform(rows))
        learned = learns(encoder)
        if isinstance(mechanism, PrivateMoments):
            if label_mechanism is not None:
                raise InvalidInputError("PrivateMoments covers labels too: it takes no label_mechanism")
            moments = clone(mechanism)
            if not schema.plain:
                given = moments.get_params(deep=False)
                usual = encoder is None and given["radius"] == 1.0  # encoders make rows of length one
                given |= {"radius": None} if usual else {}
                moments.set_params(**declared_settings(schema, given, encoder, person is not None))
            moments.set_params(ledger=all_of(mechanism.ledger, ledger))
            if random_state is not None:
                moments.set_params(random_state=random_state)
            refuse_learned(encoder, moments.ledger, width, NAME)
            moments.fit(encoded, labels, person=person, schema=schema)
            moments.encoding_ = "" if learned else encoding_of(schema, description(encoder))
            found = cls._of_moments(moments, fitted, width, schema)
        else:
            _check_span(noise, encoder, encoded.shape[1])
            promise = _promise(mechanism, label_mechanism, encoded).seeded(random_state)
            if fitted is not None:
                # One raw entry may change all encoded ones: per entry no more is promised than per record.
                promise = replace(promise, entry=promise.record)
            if not schema.plain:
                promise = replace(promise, n_features=len(schema.features))
            promise = under_contract(promise, schema)
            if learned:
                promise = promise.voided(LEARNED_ENCODER)
            promise = charge(all_of(getattr(mechanism, "ledger", None), ledger), promise, NAME)
            private, kept = _private_rows(mechanism, encoded, labels, label_mechanism, random_state)
            variance = 0.0 if noise is None else float(noise.for_features(encoded.shape[1]).variance)
            found = cls._of_rows(private, kept, promise, variance, estimator, fitted, width, schema)
        return found._behind_encoder(encoder)

    @classmethod
    def from_rows(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        guarantee: Guarantee,
        *,
        estimator: Autoencoder | None = None,
        noise_variance: float = 0.0,
    ) -> "PrivateSource":
        """Make the artefact of rows that are private already, such as a fabricated table.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Private rows.
        y : array-like of shape (n_samples,)
            Their labels.
        guarantee : Guarantee
            What is promised about these rows. That they are the ones it was made for is your word, which the
            artefact's guarantee prints.
        estimator : autoencoder or None, default=None
            Autoencoder of each class; None stands for ``WideKAHM(scale="auto")``.
        noise_variance : float, default=0.0
            Variance of the noise on an entry, if it is known: it tells how far the classes' means can be
            trusted.

        Returns
        -------
        PrivateSource
            The artefact.
        """
        check_parameter("guarantee", guarantee, Instance(Guarantee, "a Guarantee: what these rows promise"))
        check_parameter("noise_variance", noise_variance, Number(at_least=0))
        rows, labels = check_rows(_Rows(), X, y)
        promise = guarantee.provided(GIVEN_ROWS)
        return cls._of_rows(rows, labels, promise, noise_variance, estimator, None, rows.shape[1])

    @classmethod
    def from_moments(
        cls, moments: PrivateMoments, encoder: Any = None, *, schema: Schema = AS_THEY_STAND
    ) -> "PrivateSource":
        """Make the artefact of moments that were released already, such as the sum of several sites'.

        Parameters
        ----------
        moments : PrivateMoments
            The release, fitted.
        encoder : transformer or None, default=None
            The fitted encoder that the records went through; None if they came as they are. One that is not
            of :mod:`onefold.encoders` voids the guarantee.
        schema : Schema, default=AS_THEY_STAND
            What the records were encoded by first; the default if they came as numbers.

        Returns
        -------
        PrivateSource
            The artefact.
        """
        schema = Schema.of(schema)
        if not hasattr(moments, "guarantee_"):
            raise InvalidInputError("moments must be a fitted PrivateMoments")
        if moments.encoding_ not in ("", encoding_of(schema, description(encoder))):
            raise InvalidInputError("the records of this release went through another encoder or schema")
        width = moments.n_features_in_ if encoder is None else int(encoder.n_features_in_)
        found = cls._of_moments(moments, encoder, width, schema)
        return found._behind_encoder(encoder)

    @property
    def classes_(self) -> Labels:
        """Labels of the classes."""
        return self.description_.classes

    @property
    def n_encoded_(self) -> int:
        """Features of a row in the source space, after the encoder."""
        return int(self.subspace_.shape[1])

    def encode(self, X: ArrayLike) -> Array:
        """Take rows like the source's to where the description sees its records.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in)
            Rows of numbers like the source's own; of a table, encoded by its schema.

        Returns
        -------
        ndarray of shape (n_samples, n_encoded)
            Encoded and placed rows.
        """
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise InvalidInputError(f"expected rows of {self.n_features_in_} features, as the source has")
        if rows.dtype.kind not in "fiub" or not np.isfinite(rows).all():
            raise InvalidInputError("rows must be finite numbers, without NaN")
        encoded = rows if self.encoder_ is None else self.encoder_.transform(rows)
        return self.description_.place(encoded)

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the classes of rows like the source's, by the source alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in), or table
            Rows like the source's own.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        rows = self.schema_.transform(X)
        return np.asarray(self.classes_[self.description_.scores(self.encode(rows)).argmax(axis=1)])

    def small_classes(self) -> list[Any]:
        """List classes that have too few records for the source to say much about them.

        Returns
        -------
        list
            Labels of classes with fewer than ten records, or fewer than the noise on their number can hide.
        """
        described, least = self.description_, 10.0
        counts = described.counts
        if isinstance(described, MomentDescription):
            counts, least = described.moments.counts_, 10.0 + 2.0 * described.moments.count_noise_.max()
        return [self.classes_.tolist()[code] for code in np.flatnonzero(counts < least)]

    def __deepcopy__(self, memo: dict[int, Any]) -> "PrivateSource":
        return self  # it never changes: estimators that are copied share it

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: its fields."""
        hints = get_type_hints(type(self), include_extras=True)
        return {known.name: hints[known.name] for known in fields(self)}

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        return super()._kept_values(compact) | {"encoder_": described_encoder(self.encoder_)}

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become the source that a file held; contents that do not fit together are refused."""
        vars(self).update(values)
        width, described, guarantee = self.n_features_in_, self.description_, self.guarantee_
        row = np.zeros((1, claimed(width, MOST_WITHOUT_BYTES, least=1)))
        encoded = row if self.encoder_ is None else self.encoder_.transform(row)
        fitting = sizes_of(self, subspace_="dq")["q"] == encoded.shape[1] == described.means.shape[1]
        fitting = fitting and len(self.subspace_) >= 1
        if not self.schema_.plain:
            fitting = fitting and (self.schema_.width, self.schema_.digest) == (width, guarantee.schema)
        if isinstance(described, MomentDescription):
            # The moments carry their own guarantee, which was checked against their noise: no other is told.
            own = described.moments.guarantee_
            told = replace(own, voided_by=guarantee.voided_by, conditions=guarantee.conditions)
            fitting = fitting and guarantee == told
            vars(self)["guarantee_"] = own.join(guarantee) if fitting else guarantee
        if not fitting:
            raise InvalidInputError("the contents do not fit together")

    def _behind_encoder(self, encoder: Any) -> "PrivateSource":
        """The same with the guarantee of records that went through an encoder."""
        promise, described = behind_encoder(self.guarantee_, encoder, stacklevel=4), self.description_
        if isinstance(described, MomentDescription):  # whoever takes the moments out must see it too
            described = MomentDescription(copy(described.moments))
            described.moments.guarantee_ = promise
        return replace(self, guarantee_=promise, description_=described)

    @classmethod
    def _of_moments(
        cls, moments: PrivateMoments, encoder: Any, width: int, schema: Schema
    ) -> "PrivateSource":
        sizes = np.maximum(moments.counts_, 1.0)
        mean = moments.sums_.sum(axis=0) / sizes.sum()
        covariance = moments.second_moments_.sum(axis=0) / sizes.sum() - np.outer(mean, mean)
        subspace = leading_directions(covariance, _half(len(mean)))
        return cls(MomentDescription(moments), subspace, moments.guarantee_, encoder, width, schema)

    @classmethod
    def _of_rows(
        cls,
        rows: Array,
        labels: Labels,
        guarantee: Guarantee,
        variance: float,
        estimator: Autoencoder | None,
        encoder: Any,
        width: int,
        schema: Schema = AS_THEY_STAND,
    ) -> "PrivateSource":
        prototype = WideKAHM(scale="auto", random_state=0) if estimator is None else estimator
        classifier = AutoencoderClassifier(prototype).fit(rows, labels)
        codes = np.searchsorted(classifier.classes_, labels)
        counts = np.bincount(codes, minlength=len(classifier.classes_)).astype(np.float64)
        means = np.stack([rows[codes == code].mean(axis=0, dtype=np.float64) for code in range(len(counts))])
        inside = spread_within(covariance_of(rows - means[codes]), variance)
        described = RowDescription(classifier, means, counts, *inside)
        # 001 Sec. 4.2 computes V+ on "source samples"; only the noisy ones keep it private.
        subspace = leading_directions(covariance_of(rows), _half(rows.shape[1]))
        return cls(described, subspace, guarantee, encoder, width, schema)


def _labelled_rows(
    schema: Schema, X: Any, y: Any, mechanism: Any, encoder: Any, person: Any
) -> tuple[Array, Labels, Any]:
    """Return rows of numbers, their labels, and whom they are about."""
    if schema.plain:
        rows, labels = check_rows(_Rows(), schema.transform(X), y, declared_type=True)
        return rows, labels, None if person is False else person
    of_moments, noise = isinstance(mechanism, PrivateMoments), _noise_on_rows(mechanism)
    if not of_moments and person is None and (noise is None or noise.rows_per_person is None):
        person = False
    if noise is not None:
        if encoder is not None:
            raise InvalidInputError(BEHIND_ENCODER)
        check_domain(noise.domain, schema)
    rows, found, person = contract_rows(schema, X, y, person, leave_out=of_moments)
    if found is None:
        raise InvalidInputError(NO_LABELS)
    return rows, found, person


def _half(n_features: int) -> int:
    """Return how many directions a target may need (n_st): half of the source's features, rounded up."""
    return math.ceil(n_features / 2)


def _check_span(noise: Mechanism | None, encoder: Any, width: int) -> None:
    """Refuse noise for smaller changes than encoded values can make: it would not keep its promise."""
    if noise is None or not isinstance(encoder, Encoder) or noise.domain is not None:
        return
    least, what = encoder.entry_span, "values"
    if noise.unit != "entry":  # encoded rows are no longer than one
        ball = Ball(1.0, n_features=width)
        least, what = ball.l1 if noise.norm == 1 else ball.l2, "rows"
    if noise.sensitivity < least:
        raise InvalidInputError(
            f"encoded {what} can change by {least:g}: give the noise at least that sensitivity"
        )


def _noise_on_rows(mechanism: Any) -> Mechanism | None:
    """Return the noise, or that of a Fabricator; None where rows get none."""
    noise = getattr(mechanism, "mechanism", mechanism)
    return noise if isinstance(noise, Mechanism) else None


def _promise(mechanism: Any, label_mechanism: Any, rows: Array) -> Guarantee:
    """Return what the noise on rows and labels promises, before it is drawn."""
    n_rows, width = rows.shape
    if mechanism is None:
        nothing = Guarantee("record", NOTHING, NOTHING, width, untouched_entries=float(rows.size))
        return nothing.voided(NO_NOISE)
    if isinstance(mechanism, Mechanism):
        promise = mechanism.guarantee(width, n_rows)
        if mechanism.rows_per_person is not None:
            promise = promise.provided(SAME_PERSON)
        return promise if label_mechanism is None else promise.with_labels(label_mechanism.epsilon)
    if not hasattr(mechanism, "fabricate"):
        raise InvalidInputError(
            "mechanism must be a noise of onefold.privacy, a Fabricator, an unfitted PrivateMoments, or None"
        )
    if label_mechanism is not None:
        raise InvalidInputError("a Fabricator has its own label_mechanism: give it there")
    made: Guarantee = mechanism.promise(width, n_rows)
    return made


def _private_rows(
    mechanism: Any, rows: Array, labels: Labels, label_mechanism: Any, random_state: Any
) -> tuple[Array, Labels]:
    """Make rows and labels private."""
    rng = None if random_state is None else np.random.default_rng(random_state)
    if mechanism is None:
        return rows, labels
    if isinstance(mechanism, Mechanism):
        kept = labels if label_mechanism is None else np.asarray(label_mechanism.randomise(labels, rng))
        return np.asarray(mechanism.randomise(rows, rng), dtype=rows.dtype), kept
    maker = clone(mechanism).set_params(ledger=None)  # the source is entered as a whole
    check_parameters(maker)
    made = maker.fabricate_checked(rows, labels, rng)[1]
    return made, np.asarray(maker.labels_)
