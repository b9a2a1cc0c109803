"""What the estimators on moments share: rows are read, encoded, released once, and forgotten."""

import copy
import warnings
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Floats, Labels
from onefold._base.stored import Packed, Stored
from onefold._base.validation import check_rows
from onefold.encoders import condition, description, learns
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy.contract import NO_LABELS, contract_rows, encoding_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.moments import PrivateMoments
from onefold.privacy.terms import NOTHING
from onefold.tables import Schema

LEARNED_ENCODER = "the encoder was fitted to the raw data"
NOTHING_TO_COUNT = (
    "a ledger needs epsilon: moments without noise promise nothing, so there is nothing that it could count"
)


class OnMoments(Stored, BaseEstimator):
    """An estimator that sees data only through :class:`onefold.privacy.PrivateMoments`."""

    _of_the_file: ClassVar[tuple[str, ...]] = ("schema",)  # parameters that are kept
    guarantee_: Guarantee
    moments_: PrivateMoments
    encoder_: Any
    n_features_in_: int
    encoder: Any
    epsilon: float | None
    ledger: AnyLedger
    schema: Any

    @property
    def _schema(self) -> Schema:
        """What is declared about the rows; of numbers as they stand where nothing is."""
        return Schema.of(self.schema)

    def _from(self, moments: PrivateMoments, encoder: Any, expected: str) -> None:
        """Take over a release whose records went through this encoder and the schema."""
        check_is_fitted(moments)
        if encoder is not None:
            check_is_fitted(encoder)
        if expected and moments.encoding_ not in ("", expected):
            raise InvalidInputError("the records of this release went through another encoder or schema")
        self.encoder_ = encoder
        self.n_features_in_ = moments.n_features_in_ if encoder is None else encoder.n_features_in_
        self._name_features()
        self._adopt(voided_by(encoder, moments))

    def _adopt(self, moments: PrivateMoments) -> None:
        """Take over a release; a subclass prepares what it needs here."""
        self.moments_, self.guarantee_ = moments, moments.guarantee_

    def _fitted_encoder(self, rows: Floats) -> Any:
        if learns(self.encoder):  # a ledger refuses it before there is a release
            void = Guarantee("record", NOTHING, NOTHING, rows.shape[1]).voided(LEARNED_ENCODER)
            charge(self.ledger, void, "private moments")
            return clone(self.encoder).fit(rows)
        return clone(self.encoder).fit(_shape_of(rows))

    def _release(self, of_persons: bool) -> dict[str, Any]:
        """Return the parameters of the release; what is not given follows from the schema."""
        given, schema = of_the_release(self), self._schema
        if given["classes"] is None:
            given["classes"] = schema.classes
        if given["radius"] is None:
            given["radius"] = declared_radius(schema, self.encoder)
        if given["rows_per_person"] is None and of_persons:
            given["rows_per_person"] = schema.rows_per_person
        return given if given["radius"] is not None else given | {"radius": 1.0}

    @property
    def _left_out(self) -> tuple[str, ...]:  # type: ignore[override]
        """Parameters that are not kept: nothing but the release may say what the noise was."""
        return tuple(self.get_params(deep=False).keys() - set(self._of_the_file))

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: the release with its guarantee."""
        return {"moments_": Annotated[Any, Packed(PrivateMoments)]}

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        check_is_fitted(self)
        if self.encoder_ is not None:
            raise InvalidInputError(
                f"a {self.kind} with an encoder has no file: save its moments_, and use from_moments"
            )
        return {"moments_": self.moments_}

    def check_ledger(self) -> None:
        """Refuse a ledger without noise, which would stand beside a model of raw rows and count nothing."""
        if self.epsilon is None and self.ledger is not None:
            raise InvalidInputError(NOTHING_TO_COUNT)

    def _name_features(self) -> None:
        if not self._schema.plain:
            self.n_features_in_ = len(self._schema.features)
            names = [known.name for known in self._schema.features]
            self.feature_names_in_ = np.array(names, dtype=object)

    def _rows(self, X: Any) -> Array:
        """Rows of a query as numbers, before any encoder."""
        check_is_fitted(self)
        rows = self._schema.transform(X)
        return check_rows(self, rows, reset=False) if self._schema.plain else rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "moments_")


class ClassesOnMoments(OnMoments):
    """What the estimators of classes share: their parameters, and how labelled rows are read."""

    classes_: Labels

    def __init__(
        self,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        encoder: Any = None,
        *,
        classes: ArrayLike | None = None,
        centre: Literal["private"] | ArrayLike | None = "private",
        radius: float | None = None,
        shares: tuple[float, ...] | None = None,
        neighbours: Literal["add-remove", "replace"] = "add-remove",
        shrinkage: Literal["auto"] | float = "auto",
        floor: float = 0.2,
        least: float = 0.25,
        sampler: str = "hardened",
        rows_per_person: int | None = None,
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
        self.encoder_ = None if self.encoder is None else self._fitted_encoder(rows)
        encoded = rows if self.encoder_ is None else behind(self.encoder_, rows)
        release = PrivateMoments(**self._release(person is not None))
        granted = taken_for_granted(self.encoder)
        moments = release.fit(encoded, labels, person, schema=self.schema, conditions=granted)
        moments.encoding_ = encoding_of(self._schema, description(self.encoder))
        self._adopt(voided_by(self.encoder, moments))
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
        given = {**of_the_release(moments), "random_state": None, "ledger": None}
        for name in ("second_moments", "whitening"):  # of a classifier only
            given.pop(name)
        more: dict[str, Any] = {"shrinkage": shrinkage, "floor": floor, "least": least, "schema": schema}
        found = cls(**given, encoder=encoder, **more)
        found._from(moments, encoder, encoding_of(found._schema, description(encoder)))
        return found

    def _adopt(self, moments: PrivateMoments) -> None:
        super()._adopt(moments)
        self.classes_ = moments.classes_

    def _embed(self, X: ArrayLike) -> Floats:
        """Take rows to where the release lives: encoded, clipped, seen from the centre."""
        rows = self._rows(X)
        return self.moments_.embed(rows if self.encoder_ is None else self.encoder_.transform(rows))

    def _read(self, X: Any, y: Any, person: Any) -> tuple[Floats, Labels, Any]:
        """Return rows of numbers, their labels, and whom they are about."""
        if self._schema.plain:
            rows, labels = check_rows(self, self._schema.transform(X), y)
            return rows, labels, None if person is False else person
        rows, found, person = contract_rows(self._schema, X, y, person, leave_out=True)
        if found is None:
            raise InvalidInputError(NO_LABELS)
        self._name_features()
        return rows, found, person


def declared_radius(schema: Schema, encoder: Any) -> float | None:
    """Return the longest row of the schema; None where none is declared, or an encoder makes other rows."""
    return None if schema.plain or encoder is not None else schema.row_norm


def behind(encoder: Any, rows: Array) -> Floats:
    """Encode rows, of which there may be none: a refusal would tell that nobody is in the table."""
    return np.asarray(encoder.transform(_shape_of(rows))[: len(rows)])


def _shape_of(rows: Array) -> Array:
    """The rows, or one of zeros where there are none: a public encoder learns nothing but its length."""
    return rows if len(rows) else np.zeros((1, rows.shape[1]))


def taken_for_granted(encoder: Any) -> tuple[str, ...]:
    """Return the conditions of a guarantee about records behind an encoder."""
    told = condition(encoder)
    return () if told is None else (told,)


def voided_by(encoder: Any, moments: PrivateMoments) -> PrivateMoments:
    """Return the release, with a void guarantee if the records went through an encoder that learns.

    An encoder that was trained elsewhere is a condition of the guarantee.
    """
    if not learns(encoder):
        found = copy.copy(moments)
        for told in taken_for_granted(encoder):
            found.guarantee_ = found.guarantee_.provided(told)
        return found
    warnings.warn(
        f"{LEARNED_ENCODER}: the guarantee is void; use one of onefold.encoders",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    found = copy.copy(moments)
    found.guarantee_ = moments.guarantee_.voided(LEARNED_ENCODER)
    return found


def of_the_release(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that an estimator shares with :class:`onefold.privacy.PrivateMoments`."""
    usual = PrivateMoments().get_params(deep=False)
    return {name: getattr(estimator, name, value) for name, value in usual.items()}
