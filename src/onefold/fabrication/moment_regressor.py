"""A regression on moments of pairs: with noise private for whole records, without it exact anywhere."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NotRequired, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Floats, Index
from onefold._base.validation import Entry, Number, Whole, check_parameter, check_parameters, check_rows
from onefold.encoders import learns
from onefold.exceptions import InvalidInputError
from onefold.fabrication.exact import folds_of, plain_moments
from onefold.fabrication.maps import (
    PairMap,
    RowMap,
    checked_range,
    declared_map,
    declared_pairs,
    directions_of,
    pair_sums,
)
from onefold.fabrication.on_moments import OnMoments
from onefold.models.preparation import Preparation
from onefold.models.ridge import LinearMap, PairSpectrum, ridge_of
from onefold.privacy.contract import LEARNED_ENCODER
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.moments import PrivateMoments
from onefold.tables.schema import AS_THEY_STAND

__all__ = ["MomentRegressor"]

CONSTRAINTS: dict[str, Entry] = {"lift": ("auto", Whole(1), None)}
NOISE_STEPS = 2.0  # deviations of its noise by which the estimated error may be too small, for intervals
MOST_LEFT_OUT = 1000  # rows that are left out, one by one, for the width of intervals
ONE_CLASS = (0,)  # the label of every pair
SHARES = (0.05, 0.02, 0.28, 0.70)  # of a centre, which is not released, of counts, sums and products
NO_RANGES = (
    "with noise, and for several sites, the ranges of X and y must be declared: give a schema whose label is "
    "a number, or x_range=(lowest, highest) and y_range=(lowest, highest)"
)
DECLARED_RANGES = "the ranges of X and y were declared without looking at the rows"
NO_NUMBER = "the label of the schema is no number with a range: declare minimum and maximum, no classes"


@dataclass(eq=False, repr=False, kw_only=True)
class MomentRegressor(RegressorMixin, OnMoments):
    """Ridge regression in closed form on moments of pairs: one release, without gradients or the rows.

    Of every row and its output one vector (x, y) of length at most one is made, by declared ranges. Their
    number, their sum and the sum of their outer products are all that is kept. With noise (``epsilon``) they
    are one release of :class:`~onefold.privacy.PrivateMoments`. Without noise (``epsilon=None``) they are
    whole numbers, the same however the rows are spread over sites.

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
        What is declared about the table; its label is a number with a range. Rows without a number there are
        left out. None takes rows of numbers.
    x_range : pair or None, default=None
        Lowest and highest value of the columns of X, each a number or one number per column, known without
        looking at the data; entries outside are clipped. None takes the ranges of the schema, none behind an
        encoder, and without noise those of the rows.
    y_range : pair of floats or None, default=None
        Lowest and highest output, known without looking at the data; others are clipped, and so are
        predictions. None takes the range of the schema's label, and without noise that of ``y``.
    lift : "auto", int or None, default="auto"
        Number of random directions whose cosines and sines stand beside the row
        (:class:`onefold.encoders.FourierLift`): the regression is then no longer linear in the row. "auto"
        takes 512, fewer for few rows, where the estimated error on other rows is smaller with them, and none
        with noise, where a number is refused: give :class:`~onefold.encoders.FourierLift` as encoder.

    Attributes
    ----------
    moments_ : PrivateMoments
        The release; nothing else is kept of the data, but for ``residuals_``.
    guarantee_ : Guarantee
        What the release promises.
    encoder_ : transformer or None
        The fitted encoder.
    pair_map_ : PairMap
        How rows and outputs are scaled.
    ridge_ : float
        The ridge, in units of the mean eigenvalue. With noise, where several are mixed, the one that leaves
        as many degrees of freedom if all eigenvalues are equal; infinite where only the mean is left.
    held_out_error_ : float
        Estimated mean squared error on other rows, from the moments alone. With noise it is never smaller
        than the deviation of the estimate itself, and never larger than the square of half the range.
    error_noise_ : float
        Standard deviation of what noise in the sums adds to this estimate; 0 without noise.
    residuals_ : ndarray or None
        Absolute errors, sorted, of at most 1000 fitted rows, each predicted from the others; None with noise
        and where only moments are known.

    See Also
    --------
    MomentClassifier : The same for classes.
    onefold.federated.MomentFederation : Adds up the moments of several sites.
    onefold.models.ridge : The mathematics.

    Notes
    -----
    *Setting.* Data are pairs of an input and a real output (003, Definitions 1 and 2): a record is a pair,
    and what is private is the whole pair.

    *Guarantees.* ``guarantee_`` is that of the release, for a record with its output; the rest is
    post-processing (``docs/proofs/moment-regressor.md``). Without noise nothing is promised: sums of few
    records show the records, and ``residuals_`` are functions of raw rows.

    *Exactness.* Without noise and with declared ranges the moments are the same to the last bit however rows
    are spread over sites and whoever has left, on every processor. What is computed from them has the same
    bits on one machine.

    *Settings.* Nothing needs to be tuned: the ridge is the one with the smallest error on other rows that the
    moments allow to estimate, by generalised cross-validation. With noise ridges of all strengths are mixed
    by how likely each is, and where noise drowns the rest little but the mean is left.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, size=(5000, 3))
    >>> y = X @ [3.0, -2.0, 1.0] + rng.normal(size=5000) / 10
    >>> model = MomentRegressor(1.0, x_range=(-1, 1), y_range=(-7, 7), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.guarantee_.record
    (1.0, 1e-05)
    """

    kind: ClassVar[str] = "moment regressor"

    x_range: Any = None
    y_range: Any = None
    lift: Literal["auto"] | int | None = "auto"

    def fit(self, X: Any, y: ArrayLike | None = None, person: Any = None, *, groups: Any = None) -> Self:
        """Take the moments of rows with their outputs once, and forget the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The raw rows; with a schema a frame, a dict of columns or a table that was read.
        y : array-like of shape (n_samples,) or None, default=None
            Their outputs; with a schema None takes its label column.
        person : array-like of shape (n_samples,), False or None, default=None
            Who each row is about: the release is then private for persons, each of whom counts once whatever
            the number of rows. None takes the person column of a schema that declares ``rows_per_person``;
            False takes none. Without noise rows count, not persons.
        groups : array-like of shape (n_samples,) or None, default=None
            Which rows belong together, such as those of a person, without noise: the lift is then chosen, and
            errors and intervals are estimated, by rows of groups that were left out. Every row needs an
            output then.

        Returns
        -------
        MomentRegressor
            This object.
        """
        self.check_settings()
        if groups is not None and self.epsilon is not None:
            raise InvalidInputError("groups are for moments without noise: give person")
        rows, outputs, person = self._outputs_of(X, y, person)
        self._fit_encoder(rows)
        encoded = self._encoded(rows)
        if self.epsilon is not None:
            pair_map = self.declared_map(rows.shape[1])
            moments = self._noisy(encoded, outputs, person, pair_map)  # which a ledger may refuse
            self.pair_map_, self.residuals_ = pair_map, None
            self._adopt(moments)
            return self
        maps = self._candidate_maps(encoded, outputs)
        some = np.linspace(0, len(rows) - 1, min(len(rows), MOST_LEFT_OUT)).astype(np.intp)
        if groups is not None and len(np.unique(folds := folds_of(groups, len(rows)))) > 1:
            errors = [self._errors_of_folds(encoded, outputs, each, folds) for each in maps]
            best = int(np.argmin([np.mean(each**2) for each in errors]))
            moments, spectrum, ridge, _ = self._exact(encoded, outputs, maps[best])
            left_out, error = errors[best][some], float(np.mean(errors[best] ** 2))
        else:
            found = [self._exact(encoded, outputs, each) for each in maps]
            best = int(np.argmin([error for *_, error in found]))
            moments, spectrum, ridge, error = found[best]
            left_out = spectrum.left_out(
                ridge, maps[best].inputs(encoded[some]), maps[best].scaled(outputs[some])
            )
        self.pair_map_ = maps[best]
        self.residuals_ = np.sort(np.abs(left_out)) * self.pair_map_.unit
        self._take(self._behind_encoder(moments), spectrum.at(ridge, error))
        return self

    def site_moments(self, X: Any, y: Any = None, person: Any = None) -> PrivateMoments:
        """Return the moments of one site for a sum over sites: mapped by declared ranges only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The rows of the site.
        y : array-like of shape (n_samples,) or None, default=None
            Their outputs; with a schema None takes its label column.
        person : array-like of shape (n_samples,), False or None, default=None
            Who each row is about; see :meth:`fit`.

        Returns
        -------
        PrivateMoments
            What the site sends.
        """
        self.check_settings(at_sites=True)
        rows, outputs, person = self._outputs_of(X, y, person)
        self._fit_encoder(rows)
        lift = 0 if self.lift in (None, "auto") else int(self.lift)
        self.pair_map_ = self.declared_map(rows.shape[1], lift)
        if self.epsilon is None:
            return self._plain(self._encoded(rows), outputs, self.pair_map_)
        return self._noisy(self._encoded(rows), outputs, person, self.pair_map_)

    def promise(self, n_features: int | None = None, *, of_persons: bool = False) -> Guarantee:
        """State what :meth:`fit` will promise, before any noise is drawn.

        Parameters
        ----------
        n_features : int or None, default=None
            Number of columns behind the encoder; None takes the width of the schema.
        of_persons : bool, default=False
            Whether :meth:`fit` will be told whose records they are.

        Returns
        -------
        Guarantee
            The promise.
        """
        self.check_settings()
        if n_features is None:
            if self._schema.plain or self.encoder is not None:
                raise InvalidInputError("n_features is missing: only a schema says how wide rows are")
            n_features = self._schema.width
        release = PrivateMoments(**self._release(of_persons))
        found = release.promise(
            n_features + 1, of_persons=of_persons, schema=self._schema, conditions=self._conditions
        )
        return found.voided(LEARNED_ENCODER) if learns(self.encoder) else found

    def predict(self, X: Any) -> Floats:
        """Predict the output of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Outputs, inside the declared range if there is one.
        """
        found = self.unclipped(X)
        return np.clip(found, self.pair_map_.low, self.pair_map_.high) if self._is_declared else found

    def unclipped(self, X: Any) -> Floats:
        """Compute the linear form of each row, which may lie outside the declared range of outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            What :meth:`predict` clips.
        """
        queries = self._embed(X)
        return self.pair_map_.outputs(self._linear.of(queries))

    @property
    def is_additive(self) -> bool:
        """Whether the linear form is a sum of one function per column.

        So it is without a lift and an encoder, where ranges of columns are declared: other rows are shortened
        as a whole if they are very long.
        """
        check_is_fitted(self)
        declared = not self._schema.plain or self.x_range is not None
        return declared and self.encoder_ is None and self.pair_map_.n_directions == 0

    def predict_interval(self, X: Any, level: float = 0.9) -> Floats:
        """Predict for each row an interval that holds the output of the share ``level`` of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            Rows.
        level : float, default=0.9
            The share, between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lowest and highest output. The width is the same for all rows: a quantile of the errors of rows
            that were left out, which holds about this share. Where only moments are known, a bound for errors
            of any law with one peak and the estimated error, raised by two deviations of its noise: it holds
            at least this share. Neither is a promise.

        References
        ----------
        D. F. Vysochanskij and Y. I. Petunin, "Justification of the 3-sigma rule for unimodal distributions",
        Theory of Probability and Mathematical Statistics 21, 1980.
        """
        check_parameter("level", level, Number(above=0, below=1))
        middle = self.predict(X)
        width = self._half_width(float(level))
        found = np.column_stack([middle - width, middle + width])
        return np.clip(found, self.pair_map_.low, self.pair_map_.high) if self._is_declared else found

    def _half_width(self, level: float) -> float:
        if self.residuals_ is None:
            error = min(self.held_out_error_ + NOISE_STEPS * self.error_noise_, self.pair_map_.half**2)
            return _reach(1.0 - level) * math.sqrt(error)
        place = math.ceil(level * (len(self.residuals_) + 1)) - 1
        return float(self.residuals_[min(place, len(self.residuals_) - 1)])

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: the release, the ranges, and errors of rows that were left out."""
        return {
            **super()._kept(),
            "pair_map_": PairMap,
            "x_range": Floats | None,
            "y_declared": NotRequired[bool],
            "residuals_": Floats | None,
            "feature_names_in_": NotRequired[tuple[str, ...]],
        }

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        return super()._kept_values(compact) | {
            "x_range": None if self.x_range is None else self._box,
            "y_declared": self._is_declared,
        }

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become the regressor of this release."""
        moments, pair_map, names = values["moments_"], values["pair_map_"], values.get("feature_names_in_")
        residuals, box, plain = values["residuals_"], values["x_range"], self._schema.plain
        low, high = checked_range("outputs", (pair_map.low, pair_map.high), empty=True)
        self.__dict__.update(self._settings_of(moments), x_range=None if box is None else box.tolist())
        if values.get("y_declared") and plain:  # a schema has its own
            self.y_range = (float(low), float(high))
        self._follow_pairs(moments, pair_map)
        if names and plain:
            if len(names) != self.n_features_in_:
                raise InvalidInputError("its columns do not have one name each")
            self.feature_names_in_ = np.array(names, dtype=object)
        if residuals is not None:
            if moments.epsilon is not None:
                raise InvalidInputError("errors of rows do not go with noise")
            self.residuals_ = _checked_residuals(residuals)

    @classmethod
    def from_moments(
        cls, moments: PrivateMoments, encoder: Any = None, *, schema: Any = None, **settings: Any
    ) -> Self:
        """Build the regressor from a release alone, such as the sum of the moments of several sites.

        Parameters
        ----------
        moments : PrivateMoments
            The release, fitted.
        encoder : transformer or None, default=None
            The fitted encoder that the records went through; None if queries come encoded.
        schema : Schema, default=None
            What the rows were encoded by; None if queries come encoded.
        **settings : dict
            What was declared in its place, as all sites used it: ``x_range`` and ``y_range``; and ``lift``,
            the number of directions by which the sites lifted their rows, None, the default here, if they did
            not.

        Returns
        -------
        MomentRegressor
            A fitted regressor.
        """
        settings = {"lift": None, "schema": schema} | settings
        found = cls(encoder=encoder, **settings, **cls._settings_of(moments))
        found.check_settings(at_sites=True)
        lift = int(found.lift or 0)
        found._follow_pairs(moments, found.declared_map(moments.n_features_in_ - 1 - 2 * lift, lift))
        return found

    # --- what was declared ------------------------------------------------------------------------------

    def check_settings(self, at_sites: bool = False) -> None:
        """Refuse settings that make no sense, alone or together.

        Parameters
        ----------
        at_sites : bool, default=False
            Whether moments of several sites are to be added up: ranges must then be declared, without noise
            too, and the encoder must not learn.
        """
        check_parameters(self, CONSTRAINTS)
        self.check_ledger()
        by_schema = not self._schema.plain
        if by_schema and not self._schema.predicts_number:
            raise InvalidInputError(NO_NUMBER)
        if self.x_range is not None and (by_schema or self.encoder is not None):
            raise InvalidInputError("x_range is for rows of numbers without a schema and without an encoder")
        if self.y_range is not None:
            if by_schema:
                raise InvalidInputError("y_range is declared by the schema already: leave it out")
            checked_range("y_range", self.y_range)
        if self.epsilon is not None and self.lift not in ("auto", None):
            raise InvalidInputError("lift is for moments without noise: give encoder=FourierLift(...)")
        if at_sites and learns(self.encoder):
            raise InvalidInputError("sites need the same public encoder: one of onefold.encoders, or None")
        if at_sites and self.lift == "auto" and self.epsilon is None:
            raise InvalidInputError("lift must be a number or None: no site sees all rows to choose one")
        declared = by_schema or (
            self.y_range is not None and (self.x_range is not None or self.encoder is not None)
        )
        if not declared and (at_sites or self.epsilon is not None):
            raise InvalidInputError(NO_RANGES)

    @property
    def _is_declared(self) -> bool:
        """Whether the range of outputs was declared, and not taken from the rows."""
        return not self._schema.plain or self.y_range is not None

    @property
    def _box(self) -> Floats:
        return checked_range("x_range", self.x_range, self.n_features_in_)

    def declared_map(self, width: int, n_directions: int = 0) -> PairMap:
        """Return the map of pairs by what was declared alone.

        Parameters
        ----------
        width : int
            Number of columns of the encoded rows.
        n_directions : int, default=0
            Directions of a lift.

        Returns
        -------
        PairMap
            How rows and outputs are scaled.
        """
        return PairMap(self._declared_rows(width, n_directions), *self._ends())

    def _declared_rows(self, width: int, n_directions: int) -> RowMap:
        box = None if self.x_range is None else checked_range("x_range", self.x_range, width)
        return declared_map(self._schema if self.encoder is None else AS_THEY_STAND, box, n_directions)

    def _candidate_maps(self, rows: Array, outputs: Array) -> list[PairMap]:
        """Return the maps that are compared without noise; what was not declared is taken from the rows."""
        directions = directions_of(self.lift, len(rows))
        declared = not self._schema.plain or self.x_range is not None or self.encoder is not None
        if declared and not learns(self.encoder):
            row_maps = [self._declared_rows(rows.shape[1], number) for number in directions]
        else:
            columns = Preparation.of(rows)
            row_maps = [RowMap(number, None, columns) for number in directions]
        return [PairMap(row_map, *self._ends(outputs)) for row_map in row_maps]

    def _ends(self, outputs: Array | None = None) -> tuple[float, float]:
        """Return the range of outputs: declared, or that of the outputs themselves."""
        given, label = self.y_range, self._schema.label
        if label is not None:
            given = (label.low, label.high)
        if given is None and outputs is not None:
            low, high = checked_range("the range of y", (outputs.min(), outputs.max()), empty=True)
        else:
            low, high = checked_range("y_range", given)
        return float(low), float(high)

    # --- the moments ------------------------------------------------------------------------------------

    def _exact(
        self, rows: Array, outputs: Array, pair_map: PairMap
    ) -> tuple[PrivateMoments, PairSpectrum, float, float]:
        moments = self._plain(rows, outputs, pair_map)
        return (moments, *PairSpectrum.chosen(pair_sums(moments)))

    def _errors_of_folds(self, rows: Array, outputs: Array, pair_map: PairMap, folds: Index) -> Floats:
        """Errors of rows that are predicted from the other folds, in units of the map."""
        inputs, scaled = pair_map.inputs(rows), pair_map.scaled(outputs)
        found = np.empty(len(rows))
        for number in np.unique(folds):
            out = folds == number
            _, spectrum, ridge, error = self._exact(rows[~out], outputs[~out], pair_map)
            found[out] = spectrum.at(ridge, error).of(inputs[out]) - scaled[out]
        return found

    def _plain(self, rows: Array, outputs: Array, pair_map: PairMap) -> PrivateMoments:
        """Moments without noise, block by block."""
        pairs = np.column_stack([rows, outputs])
        one_class = np.zeros(len(pairs), dtype=np.int64)
        return plain_moments(pairs, one_class, pair_map, ONE_CLASS, self._encoding(pair_map))

    def _noisy(self, rows: Array, outputs: Array, person: Any, pair_map: PairMap) -> PrivateMoments:
        pairs = pair_map.apply(np.column_stack([rows, outputs]))
        return self._released(pairs, np.zeros(len(pairs), dtype=np.int64), person, pair_map)

    @property
    def _conditions(self) -> tuple[str, ...]:
        ranges = (DECLARED_RANGES,) if self._schema.plain else ()
        return (*ranges, *super()._conditions)

    def _release(self, of_persons: bool) -> dict[str, Any]:
        given = super()._release(of_persons)
        pooled = {"second_moments": "pooled", "shares": SHARES, "centre": None}
        return given | pooled | {"classes": ONE_CLASS, "radius": 1.0}

    def _outputs_of(self, X: Any, y: Any, person: Any) -> tuple[Floats, Floats, Any]:
        """Return rows of numbers, their outputs, and whom they are about."""
        if self._schema.plain:
            rows, outputs = check_rows(self, self._schema.transform(X), y, numeric_outputs=True)
            try:
                single = np.asarray(column_or_1d(outputs, warn=True), dtype=np.float64)
            except ValueError:
                raise InvalidInputError("y must hold one number for each row") from None
            return rows, single, None if person is False else person
        self._name_features()
        return declared_pairs(self._schema, X, y, person, noisy=self.epsilon is not None)

    def _encoded(self, rows: Array) -> Floats:
        return super()._encoded(rows if self.x_range is None else np.clip(rows, *self._box))

    # --- what follows from them -------------------------------------------------------------------------

    def _follow_pairs(self, moments: PrivateMoments, pair_map: PairMap) -> None:
        """Take over a release of pairs that were mapped in this way."""
        width = moments.n_features_in_ - 1 - 2 * pair_map.n_directions
        prepared = pair_map.rows.preparation
        if width < 1 or (prepared is not None and len(prepared.scale) != width):
            raise InvalidInputError("the moments are not those of such rows and outputs")
        self.pair_map_, self.residuals_ = pair_map, None
        self._follow(moments, pair_map, n_outputs=1)

    def _adopt(self, moments: PrivateMoments) -> None:
        self._take(moments, ridge_of(pair_sums(moments)))

    def _take(self, moments: PrivateMoments, linear: LinearMap) -> None:
        self.moments_, self.guarantee_, self._linear = moments, moments.guarantee_, linear
        self.ridge_ = linear.ridge
        # An error below what noise does to its estimate is not known, and would be said to be none at all.
        # None is larger on average than that of the middle of the range.
        found = max(linear.error, linear.error_noise, 0.0) * self.pair_map_.unit**2
        self.held_out_error_ = min(found, self.pair_map_.half**2)
        self.error_noise_ = linear.error_noise * self.pair_map_.unit**2

    def _embed(self, X: Any) -> Floats:
        encoded = self._encoded(self._rows(X))
        return self.pair_map_.inputs(encoded)


def _reach(outside: float) -> float:
    """How far all but this share of errors go, in roots of their mean square, if their law has one peak."""
    return math.sqrt(4.0 / (9.0 * outside) if outside <= 1.0 / 6.0 else 4.0 / (3.0 * outside + 1.0))


def _checked_residuals(found: Any) -> Floats:
    """Residuals that a file holds; a ValueError for anything else."""
    fitting = found.ndim == 1 and found.dtype == np.float64 and 1 <= len(found) <= MOST_LEFT_OUT
    if not (fitting and np.isfinite(found).all() and found[0] >= 0.0 and (np.diff(found) >= 0.0).all()):
        raise ValueError("the residuals are not what they should be")
    return np.asarray(found)
