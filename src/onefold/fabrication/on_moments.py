"""What the estimators on moments share: rows are read, encoded, released once, and forgotten."""

import copy
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Floats, Labels
from onefold._base.stored import Stored
from onefold._base.validation import check_rows
from onefold.encoders import condition, description
from onefold.exceptions import InvalidInputError
from onefold.fabrication.maps import PairMap, RowMap
from onefold.privacy.contract import (
    NO_LABELS,
    behind_encoder,
    contract_rows,
    declared_settings,
    encoding_of,
    refuse_learned,
)
from onefold.privacy.ledger import AnyLedger
from onefold.privacy.moments import PrivateMoments
from onefold.tables import Schema

NOTHING_TO_COUNT = (
    "a ledger needs epsilon: moments without noise promise nothing, so there is nothing that it could count"
)


@dataclass(eq=False, repr=False)
class OnMoments(Stored, BaseEstimator):
    """An estimator that sees data only through :class:`onefold.privacy.PrivateMoments`."""

    _of_the_file: ClassVar[tuple[str, ...]] = ("schema",)  # parameters that are kept
    epsilon: float | None = 1.0
    delta: float = 1e-5
    encoder: Any = None
    _: KW_ONLY
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    sampler: str = "hardened"
    rows_per_person: int | None = None
    random_state: int | np.random.Generator | None = None
    ledger: AnyLedger = None
    schema: Any = None

    @classmethod
    def from_moments(
        cls, moments: PrivateMoments, encoder: Any = None, *, schema: Any = None, **settings: Any
    ) -> Self:
        """Build the estimator from a release alone, such as the sum of the moments of several sites.

        Parameters
        ----------
        moments : PrivateMoments
            The release, fitted.
        encoder : transformer or None, default=None
            The fitted encoder that the records went through; None if queries come encoded.
        schema : Schema, default=None
            What the rows were encoded by; None if queries come encoded.
        **settings : dict
            Other parameters of the estimator about which the release says nothing.

        Returns
        -------
        object
            A fitted estimator of this class.
        """
        found = cls(encoder=encoder, schema=schema, **settings, **cls._settings_of(moments))
        found._follow(moments)
        return found

    @classmethod
    def _settings_of(cls, moments: PrivateMoments) -> dict[str, Any]:
        """Parameters that a release knows; the source of its noise and a ledger are none of them."""
        check_is_fitted(moments)
        given = moments.get_params(deep=False) | {"random_state": None, "ledger": None}
        return {name: given[name] for name in given.keys() & {known.name for known in fields(cls)}}

    @property
    def _schema(self) -> Schema:
        """What is declared about the rows; of numbers as they stand where nothing is."""
        return Schema.of(self.schema)

    # --- the release ------------------------------------------------------------------------------------

    def _release(self, of_persons: bool) -> dict[str, Any]:
        """Return the parameters of the release; what is not given follows from the schema."""
        usual = PrivateMoments().get_params(deep=False)
        given = {name: getattr(self, name, value) for name, value in usual.items()}
        return given | declared_settings(self._schema, given, self.encoder, of_persons)

    @property
    def _conditions(self) -> tuple[str, ...]:
        """What the guarantee takes for granted beside the schema, whose condition it names itself."""
        trained = condition(self.encoder)
        return () if trained is None else (trained,)

    def _released(
        self, records: Floats, labels: Labels, person: Any, row_map: PairMap | None = None
    ) -> PrivateMoments:
        """Release the moments of encoded records, unless a ledger refuses them."""
        release = PrivateMoments(**self._release(person is not None))
        moments = release.fit(records, labels, person, schema=self._schema, conditions=self._conditions)
        moments.encoding_ = self._encoding(row_map)
        return self._behind_encoder(moments)

    def _behind_encoder(self, moments: PrivateMoments) -> PrivateMoments:
        """Return the release with the guarantee of records that went through the encoder."""
        found = copy.copy(moments)
        found.guarantee_ = behind_encoder(moments.guarantee_, self.encoder, stacklevel=5)
        return found

    def _encoding(self, row_map: RowMap | PairMap | None = None) -> str:
        """Words for what rows go through, equal at all sites."""
        before = encoding_of(self._schema, description(self.encoder))
        return before if row_map is None else f"{before} {row_map.description}".strip()

    def _follow(
        self, moments: PrivateMoments, row_map: RowMap | PairMap | None = None, n_outputs: int = 0
    ) -> None:
        """Take over a release whose records went through schema, encoder and map."""
        if self.encoder is not None:
            check_is_fitted(self.encoder)
        expected = self._encoding(row_map)
        if expected and moments.encoding_ not in ("", expected):
            raise InvalidInputError("the records of this release went through another encoder or schema")
        width = moments.n_features_in_ - n_outputs - 2 * (0 if row_map is None else row_map.n_directions)
        self.encoder_ = self.encoder
        self.n_features_in_ = width if self.encoder is None else self.encoder.n_features_in_
        self._name_features()
        self._adopt(self._behind_encoder(moments))

    def _adopt(self, moments: PrivateMoments) -> None:
        """Take over a release; a subclass prepares what it needs here."""
        self.moments_, self.guarantee_ = moments, moments.guarantee_

    def check_ledger(self) -> None:
        """Refuse a ledger without noise, which would stand beside a model of raw rows and count nothing."""
        if self.epsilon is None and self.ledger is not None:
            raise InvalidInputError(NOTHING_TO_COUNT)

    # --- rows -------------------------------------------------------------------------------------------

    def _fit_encoder(self, rows: Floats) -> None:
        """Fit the encoder: a public one looks at the shape of the rows, any other one voids the guarantee."""
        refuse_learned(self.encoder, self.ledger, rows.shape[1], "private moments")
        self.encoder_ = None if self.encoder is None else clone(self.encoder).fit(_shape_of(rows))

    def _encoded(self, rows: Array) -> Floats:
        """Encode rows, of which there may be none: a refusal would tell that nobody is in the table."""
        if self.encoder_ is None:
            return np.asarray(rows)
        return np.asarray(self.encoder_.transform(_shape_of(rows))[: len(rows)])

    def _rows(self, X: Any) -> Array:
        """Rows of a query as numbers, before any encoder."""
        check_is_fitted(self)
        rows = self._schema.transform(X)
        return check_rows(self, rows, reset=False) if self._schema.plain else rows

    def _name_features(self) -> None:
        if not self._schema.plain:
            self.n_features_in_ = len(self._schema.features)
            names = [known.name for known in self._schema.features]
            self.feature_names_in_ = np.array(names, dtype=object)

    # --- files ------------------------------------------------------------------------------------------

    @property
    def _left_out(self) -> tuple[str, ...]:  # type: ignore[override]
        """Parameters that are not kept: nothing but the release may say what the noise was."""
        return tuple(self.get_params(deep=False).keys() - set(self._of_the_file))

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: the release with its guarantee."""
        return {"moments_": PrivateMoments}

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        check_is_fitted(self)
        if self.encoder_ is not None:
            raise InvalidInputError(
                f"a {self.kind} with an encoder has no file: save its moments_, and use from_moments"
            )
        return super()._kept_values(compact)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "moments_")


@dataclass(eq=False, repr=False, kw_only=True)
class ClassesOnMoments(OnMoments):
    """What the estimators of classes share: their parameters, and how labelled rows are read."""

    classes: ArrayLike | None = None
    centre: Literal["private"] | ArrayLike | None = "private"
    radius: float | None = None
    shares: tuple[float, ...] | None = None
    shrinkage: Literal["auto"] | float = "auto"
    floor: float = 0.2
    least: float = 0.25

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
        rows, labels, person = self._labelled_rows(X, y, person)
        self._fit_encoder(rows)
        self._adopt(self._released(self._encoded(rows), labels, person))
        return self

    def _adopt(self, moments: PrivateMoments) -> None:
        super()._adopt(moments)
        self.classes_ = moments.classes_

    def _embed(self, X: ArrayLike) -> Floats:
        """Take rows to where the release lives: encoded, clipped, seen from the centre."""
        return self.moments_.embed(self._encoded(self._rows(X)))

    def _labelled_rows(self, X: Any, y: Any, person: Any) -> tuple[Floats, Labels, Any]:
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


def _shape_of(rows: Array) -> Array:
    """The rows, or one of zeros where there are none: a public encoder learns nothing but its length."""
    return rows if len(rows) else np.zeros((1, rows.shape[1]))
