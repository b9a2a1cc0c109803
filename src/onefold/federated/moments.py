"""One round of private moments: sites release once, the server adds up those of the sites that take part.

A site's whole part is :func:`release_moments`, which returns the bytes that leave the site. They carry a
guarantee for whole records with their labels, so the server need not be trusted with anything. Counts, sums
and second moments add up over sites, and so do the variances of their noise; what the server makes of the
sum is post-processing.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from onefold._base.arrays import Floats, Labels
from onefold._base.records import kind_of
from onefold._base.validation import Whole, check_parameters
from onefold.encoders import Encoder, condition, description, learns
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier, MomentRegressor
from onefold.fabrication.exact import MomentFolds, check_possible
from onefold.fabrication.on_moments import NOTHING_TO_COUNT
from onefold.federated.contract import message_classes, schema_fields
from onefold.privacy import Guarantee, PrivateMoments
from onefold.privacy.calibration import mu_of
from onefold.privacy.contract import contract_rows, declared_settings, encoding_of, under_contract
from onefold.privacy.ledger import AnyLedger
from onefold.privacy.moments import noise_drowns_classes
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND, differing

__all__ = ["MomentFederation", "moments_in", "release_moments"]


SMALLEST_CHANCE = 1e-300  # of a class: its logarithm stays finite
SUMMED_TOGETHER = 8  # releases that are unpacked at a time
OTHER_KIND = (
    "sums for numbers to predict make a MomentRegressor, and sums for classes the other models: a schema "
    "whose label is a number, or x_range and y_range, decide which sums these are"
)
RANGES = {"x_range", "y_range"}
SETTINGS = {"classes", "second_moments", "head", "lift", "groups", "objective"}
NO_CLASSES = "second_moments, head, groups, objective and classes are for classes, not for numbers to predict"


class FromMoments(Protocol):
    """An estimator that can be fitted on moments alone."""

    @classmethod
    def from_moments(cls, moments: PrivateMoments, encoder: Any = None) -> Self:
        """Fitted on a release."""


Model = TypeVar("Model", bound=FromMoments)


def release_moments(
    X: Any,
    y: ArrayLike | None,
    moments: PrivateMoments,
    encoder: Encoder | None = None,
    person: Any = None,
    *,
    schema: Schema = AS_THEY_STAND,
) -> bytes:
    """Release the private moments of a site's encoded records, once, as bytes without pickle.

    Parameters
    ----------
    X : array-like of shape (n, p), or table
        The site's records, with a schema as a table. They are encoded, released, and forgotten.
    y : array-like of shape (n,) or None
        Their labels; None takes the label column of the schema.
    moments : PrivateMoments
        The agreed release, which is cloned and not changed. Its centre is None or a public vector and its
        whitening None or a public matrix: what sites found for themselves cannot be added up. Without
        ``classes`` those of the schema are taken; without a schema small classes are left out.
    encoder : Encoder or None, default=None
        One of :mod:`onefold.encoders`, with the parameters all sites agreed on.
    person : array-like of shape (n,), False or None, default=None
        Who each record is about: the release is then private for persons, see
        :meth:`onefold.privacy.PrivateMoments.fit`. None takes the person column of a schema that declares
        ``rows_per_person``; False takes none.
    schema : Schema, default=AS_THEY_STAND
        The declared contract of the table, the same at all sites, of which the release tells the names of
        the fields. Cells outside it are mapped by its rules, records without a declared class are left out,
        and its longest row takes the place of ``radius`` unless there is an encoder.

    Returns
    -------
    bytes
        What the site sends.

    See Also
    --------
    MomentFederation : Adds the releases up.
    onefold.privacy.PrivateMoments : The release.

    Notes
    -----
    *Guarantees.* Those of :class:`onefold.privacy.PrivateMoments`. A second release of the same records costs
    its budget again: enter each in a :class:`onefold.privacy.Ledger`.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.eye(2)[[0, 1] * 50], [0, 1] * 50
    >>> sent = release_moments(X, y, PrivateMoments(1.0, classes=[0, 1], centre=None))
    >>> PrivateMoments.from_bytes(sent).guarantee_.record
    (1.0, 1e-05)
    """
    schema = Schema.of(schema)
    if isinstance(moments.centre, str):
        raise InvalidInputError(
            "releases around centres of their own cannot be added up: give a public centre or None"
        )
    if isinstance(moments.whitening, str):
        raise InvalidInputError(
            "releases of records that each site whitened by itself cannot be added up: give a public matrix"
        )
    if learns(encoder):
        raise InvalidInputError("sites need the same public encoder: one of onefold.encoders, or None")
    agreed: PrivateMoments = clone(moments)
    if not schema.plain:
        X, y, person = contract_rows(schema, X, y, person, leave_out=True)
        given = agreed.get_params(deep=False) | ({"radius": None} if encoder is None else {})
        agreed.set_params(**declared_settings(schema, given, encoder, person is not None))
    if y is None:
        raise InvalidInputError("y is missing: give the labels, or a schema that names their column")
    rows = X if encoder is None else clone(encoder).fit_transform(X)
    told = condition(encoder)
    released = agreed.fit(
        rows,
        y,
        person=None if person is False else person,
        schema=schema,
        conditions=() if told is None else (told,),
    )
    released.encoding_ = encoding_of(schema, description(encoder))
    if not schema.plain:
        released.schema_fields_ = schema_fields(schema.field_digests)
    return released.to_bytes()


def moments_in(packed: bytes, *, plain: bool = False) -> PrivateMoments:
    """Open the moments that a site sends; refused unless they are what they should be.

    Parameters
    ----------
    packed : bytes
        What :func:`release_moments` or :meth:`MomentFederation.release` returned at the site.
    plain : bool, default=False
        Whether they are without noise, and then such that some rows have them. Others must have a guarantee
        that holds.

    Returns
    -------
    PrivateMoments
        The release.

    Examples
    --------
    >>> import numpy as np
    >>> agreed = PrivateMoments(1.0, classes=[0, 1], centre=None)
    >>> moments_in(release_moments(np.eye(2)[[0, 1] * 9], [0, 1] * 9, agreed)).classes_.tolist()
    [0, 1]
    """
    found = PrivateMoments.from_bytes(packed)
    if plain:
        if found.epsilon is not None:
            raise InvalidInputError("the moments have noise, and were to have none")
        check_possible(found)
    elif found.epsilon is None or not found.guarantee_.holds:
        raise InvalidInputError("the moments have no guarantee that holds")
    return found


@dataclass(frozen=True)
class _Member:
    """What one site sent, packed: of matrices half is kept, and one site is unpacked at a time."""

    packed: bytes
    digest: bytes
    about: PrivateMoments  # the release without its matrices

    @classmethod
    def of(cls, packed: bytes) -> _Member:
        """Return what bytes hold, once they are checked."""
        found = _parts_of(packed)
        for part in found:
            if part.epsilon is None:
                check_possible(part)
        about = copy.copy(_together(found))
        about.second_moments_ = about.second_moments_[:, :0, :0]
        return cls(packed, hashlib.sha256(packed).digest(), about)

    @property
    def moments(self) -> PrivateMoments:
        """The release."""
        return _together(_parts_of(self.packed))


def _together(parts: list[PrivateMoments]) -> PrivateMoments:
    return parts[0] if len(parts) == 1 else PrivateMoments.total(parts)


def _parts_of(packed: bytes) -> list[PrivateMoments]:
    """The release, or those of all folds that have rows."""
    if kind_of(packed) == MomentFolds.kind:
        return MomentFolds.from_bytes(packed).present
    return [PrivateMoments.from_bytes(packed)]


class MomentFederation:
    """The server's part: the releases of the sites, added up anew whenever the sum is asked for.

    Leaving is exact: after :meth:`remove` everything is, bit for bit, what it would be had the site never
    taken part, in whatever order the others joined.

    Parameters
    ----------
    schema : Schema, default=AS_THEY_STAND
        The declared contract of the sites' tables: releases by another one are refused with the first
        difference, and a fitted model is asked about tables.
    epsilon : float or None, default=None
        Privacy loss for a whole record in what :meth:`release` returns. None adds no noise: sums are exact,
        and nothing is promised.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded.
    encoder : Encoder or None, default=None
        One of :mod:`onefold.encoders` that all sites use.
    most_rows : int or None, default=None
        Most rows that one site may contribute without noise; None takes any number. A site counts as much as
        the rows it says it has.
    whitening : array-like of shape (n_encoded, n_encoded) or None, default=None
        Public matrix by which all sites whiten their records, with noise: from public rows, or the
        ``whitening_`` that one site or an earlier round released and paid for.
    **settings : dict
        Of :class:`onefold.fabrication.MomentClassifier`: ``classes``, ``second_moments``, ``head``, ``lift``
        (a number of directions; none if left out), ``groups`` and ``objective``; without ``classes`` those
        that sites have are taken. ``second_moments="auto"`` means pooled without noise; with noise pooled
        where the number of records that the schema declares (``rows_about``) is too small for the others.
        With ``groups`` a site sends four sums, and the ridge is chosen by groups that are left out. Or of
        :class:`onefold.fabrication.MomentRegressor`: ``lift``, ``x_range`` and ``y_range``, which make this a
        federation for a regression, as does a schema whose label is a number.

    See Also
    --------
    release_moments : A site's part.
    onefold.fabrication.MomentClassifier : A classifier from moments alone.
    onefold.fabrication.MomentRegressor : A regression from moments alone.

    Notes
    -----
    *Guarantees.* ``guarantee`` is what each site's records were promised by their own release, joined so that
    no number in it is smaller and no condition is lost; it takes for granted that no record is with two
    sites. A person known to several sites loses more, and the guarantee says how much; see
    :meth:`onefold.privacy.Guarantee.at_sites`. It does not cover which sites take part.

    Without noise the sum is one of whole numbers: the same to the last bit however the rows are spread over
    sites and in whatever order they join, after any site has left (an encoder computes in floating point
    before that, and can differ in a last digit between processors). It is **not private**: the sum of a class
    with one row is this row, and whoever sees the sum before and after a site leaves holds what the site
    sent. Neither a minimum number of rows nor encryption changes that; only noise does.

    The server sees every release and need not be trusted. The noise of every site adds to the sum, so its
    variance is that of one release times the number of sites. A site that lies can spoil the sum. Without
    noise :meth:`add` refuses sums that no rows can have, so a liar has to invent rows: as many as it says it
    has, and ``most_rows`` bounds that. With noise everything is possible, and sites are trusted to send what
    they have.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.fabrication import MomentClassifier, MomentRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 6000)
    >>> X = rng.normal(size=(6000, 2)) / 10 + y[:, None] / 2
    >>> federation = MomentFederation(epsilon=1.0, classes=[0, 1])
    >>> for name, part in (("north", slice(0, 3000)), ("south", slice(3000, 6000))):
    ...     _ = federation.add(name, federation.release(X[part], y[part]))
    >>> federation.fitted(MomentClassifier).score(X, y) > 0.9
    True
    >>> federation.guarantee.record, federation.guarantee.n_owners
    ((1.0, 1e-05), 2)
    """

    def __init__(
        self,
        schema: Schema = AS_THEY_STAND,
        *,
        epsilon: float | None = None,
        delta: float = 1e-5,
        encoder: Encoder | None = None,
        most_rows: int | None = None,
        whitening: ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        schema = Schema.of(schema)
        self.schema, self.most_rows, self.whitening = schema, most_rows, whitening
        check_parameters(self, {"most_rows": (Whole(1), None)})
        self.epsilon, self.delta, self.encoder = epsilon, delta, encoder
        if isinstance(whitening, str):
            raise InvalidInputError("whitening must be a public matrix, the same at all sites, or None")
        given = {"lift": None} | {name: value for name, value in settings.items() if value is not None}
        if unknown := sorted(given.keys() - RANGES - SETTINGS):  # which a release would pass over
            raise InvalidInputError(f"{unknown[0]} is no setting of a federation")
        if isinstance(given["lift"], str):  # which an estimator takes
            raise InvalidInputError("lift must be a number, such as 512: no site sees all rows to choose one")
        # The settings are those of the estimators: these refuse what makes no sense.
        about = (epsilon, delta, encoder)
        self._regressor: MomentRegressor | None = None
        if RANGES & given.keys() or (schema.predicts_number and "classes" not in given):
            if given.keys() - RANGES - {"lift"} or whitening is not None:
                raise InvalidInputError(NO_CLASSES)
            self._regressor = MomentRegressor(*about, schema=schema, **given)
            self._regressor.check_settings(at_sites=True)
        else:
            self._classifier = MomentClassifier(*about, schema=schema, **given)
            self._classifier.check_settings()
        self._members: dict[Hashable, _Member] = {}

    def release(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        person: Any = None,
        groups: Any = None,
        ledger: AnyLedger = None,
    ) -> bytes:
        """Return a site's part: what leaves the site, by the settings of this federation.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            The site's rows, with a schema as a table. They are not kept.
        y : array-like of shape (n,) or None, default=None
            Their labels, or numbers to predict; None takes the label column of the schema.
        person : array-like of shape (n,), False or None, default=None
            Who each record is about; see :func:`release_moments`. Without noise persons are groups, and
            nothing in a regression.
        groups : array-like of shape (n,) or None, default=None
            Which rows belong together, without noise.
        ledger : Ledger, path or None, default=None
            The site's account, in which a release with noise is entered before any noise is drawn.

        Returns
        -------
        bytes
            What :meth:`add` takes.
        """
        if self.epsilon is None and ledger is not None:
            raise InvalidInputError(NOTHING_TO_COUNT)
        if self._regressor is not None:
            if groups is not None:
                raise InvalidInputError(NO_CLASSES)
            agreed: MomentRegressor = clone(self._regressor).set_params(ledger=ledger)
            moments = agreed.site_moments(X, y, person)
            self._under_schema(moments)
            return moments.to_bytes()
        if self.epsilon is None and self._kind == "pooled":
            if self.whitening is not None:
                raise InvalidInputError("whitening is for moments with noise: leave it out")
            if groups is None and person is not None and person is not False:
                groups = person  # records of a person belong together
            plain = self._classifier.site_moments(X, y, groups)
            for part in plain.present if isinstance(plain, MomentFolds) else [plain]:
                self._under_schema(part)
            return plain.to_bytes()
        if self._classifier.lift is not None or groups is not None:
            raise InvalidInputError("lift and groups are for sums without noise and one second moment")
        agreed = PrivateMoments(
            self.epsilon,
            self.delta,
            classes=self._classifier.classes,
            centre=None,
            second_moments=cast(Any, self._kind),
            whitening=self.whitening,
            ledger=ledger,
        )
        return release_moments(X, y, agreed, self.encoder, person, schema=self.schema)

    def _under_schema(self, moments: PrivateMoments) -> None:
        """Let a release say which schema it rests on, and by which fields others differ."""
        if not self.schema.plain:
            if moments.guarantee_.schema is None:  # moments without noise
                moments.guarantee_ = under_contract(moments.guarantee_, self.schema)
            moments.schema_fields_ = schema_fields(self.schema.field_digests)

    @property
    def _kind(self) -> str:
        """Which second moments are sent; all sites must decide alike, so from public numbers only."""
        agreed = self._classifier
        if agreed.head == "qda" or agreed.second_moments == "class":
            return "class"
        if agreed.second_moments == "pooled" or agreed.head != "auto" or self.epsilon is None:
            return "pooled"
        about = self.schema.rows_about
        classes = self.schema.classes if agreed.classes is None else agreed.classes
        if about is None or classes is None:
            return "class"
        encoded = self.schema.width if self.encoder is None else 0
        each = np.full(len(np.asarray(classes)), about / len(np.asarray(classes)))
        drowned = encoded and noise_drowns_classes(each, mu_of(self.epsilon, self.delta), encoded)
        return "pooled" if drowned else "class"

    @property
    def owners(self) -> tuple[Hashable, ...]:
        """Ids of the sites that take part, in the order in which they joined."""
        return tuple(self._members)

    def add(self, owner_id: Hashable, release: bytes | PrivateMoments) -> Self:
        """Let a site join with its release, which must be comparable with the others.

        Parameters
        ----------
        owner_id : hashable
            Name of the site.
        release : bytes or PrivateMoments
            What :func:`release_moments` returned at the site.

        Returns
        -------
        MomentFederation
            This federation.
        """
        if owner_id in self._members:
            raise InvalidInputError("a site of this id takes part already: remove it first")
        member = _Member.of(release.to_bytes() if isinstance(release, PrivateMoments) else bytes(release))
        self._check_schema(member.about)
        if (
            self.most_rows is not None
            and member.about.epsilon is None
            and member.about.counts_.sum() > self.most_rows
        ):
            raise InvalidInputError("the site has more rows than a site may contribute")
        for other in self._members.values():
            # Without noise sites with equal rows send equal sums.
            if other.digest == member.digest and member.about.epsilon is not None:
                raise InvalidInputError("this very release was added already, under another id")
            other.about.check_comparable(member.about)
        self._members[owner_id] = member
        return self

    def _check_schema(self, moments: PrivateMoments) -> None:
        if self.schema.plain or moments.guarantee_.schema == self.schema.digest:
            return
        if not moments.schema_fields_:
            raise InvalidInputError("the release does not rest on the schema of this federation")
        where = differing(schema_fields(self.schema.field_digests), moments.schema_fields_)
        raise InvalidInputError(f"the schema of the release differs: {where or 'the digest'}")

    def remove(self, owner_id: Hashable) -> Self:
        """Let a site leave, with everything it contributed.

        Parameters
        ----------
        owner_id : hashable
            Name of the site.

        Returns
        -------
        MomentFederation
            This federation.
        """
        if owner_id not in self._members:
            raise InvalidInputError("no site of this id takes part")
        del self._members[owner_id]
        return self

    @property
    def guarantee(self) -> Guarantee:
        """What each site's records are promised."""
        return reduce(Guarantee.among_owners, (member.about.guarantee_ for member in self._ordered()))

    def moments(self) -> PrivateMoments:
        """Return the moments of all sites' records together.

        Returns
        -------
        PrivateMoments
            The sum; a class that a site lacks counts as no records.
        """
        members = self._ordered()
        found = members[0].moments
        for start in range(1, len(members), SUMMED_TOGETHER):
            some = (member.moments for member in members[start : start + SUMMED_TOGETHER])
            found = PrivateMoments.total([found, *some])
        return found

    def fitted(self, kind: type[Model], encoder: Encoder | None = None, **options: Any) -> Model:
        """Fit a model to the sum of the sites' releases.

        Parameters
        ----------
        kind : type
            ``MomentClassifier``, ``MomentRegressor`` or ``MomentFabricator`` of :mod:`onefold.fabrication`.
        encoder : Encoder or None, default=None
            The encoder that the sites used, fitted, so that queries may come as they are; None if they come
            encoded, or as tables of the schema.
        **options : dict
            Passed on: ``shrinkage``, ``floor``, ``least``.

        Returns
        -------
        MomentClassifier, MomentRegressor or MomentFabricator
            The fitted model.
        """
        if encoder is not None and not hasattr(encoder, "n_features_in_"):
            raise InvalidInputError("the encoder must be fitted: encoder.fit(X) looks at the shape of X only")
        if issubclass(kind, MomentRegressor) != (self._regressor is not None):
            raise InvalidInputError(OTHER_KIND)
        make: Any = kind.from_moments
        options.setdefault("schema", self.schema)
        if self._regressor is not None:
            options = {name: getattr(self._regressor, name) for name in ("lift", *RANGES)} | options
        if issubclass(kind, MomentClassifier):
            settings = {name: getattr(self._classifier, name) for name in ("head", "lift", "objective")}
            options = settings | {"folds": self._folds()} | options
        model: Model = make(self.moments(), encoder, **options)
        return model

    def answers(self, X: ArrayLike) -> tuple[Labels, Floats]:
        """Measure encoded rows by each class, with the classifier that the sum makes.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows as the sites encoded theirs.

        Returns
        -------
        classes : ndarray of shape (C,)
            Labels of the columns, sorted, in types that messages can carry.
        measures : ndarray of shape (n, C)
            Minus the logarithm of the probability of each class: the smallest decides.
        """
        return self.answering()(X)

    def answering(self) -> Callable[[ArrayLike], tuple[Labels, Floats]]:
        """Fit the classifier that the sum makes once, to ask it many times.

        Returns
        -------
        callable
            Takes rows and returns classes and measures, as :meth:`answers` does; sites that join or leave
            later do not change it.
        """
        model = self.fitted(MomentClassifier)
        labels = message_classes(model.classes_)
        order = np.argsort(labels)

        def measured(X: ArrayLike) -> tuple[Labels, Floats]:
            chances = np.maximum(model.predict_proba(X)[:, order], SMALLEST_CHANCE)
            return labels[order], np.maximum(-np.log(chances), 0.0)

        return measured

    def _folds(self) -> list[PrivateMoments]:
        """The sum of each fold over all sites; nothing unless every site sent folds."""
        packed = [member.packed for member in self._ordered()]
        if any(kind_of(part) != MomentFolds.kind for part in packed):
            return []
        return MomentFolds.total([MomentFolds.from_bytes(part) for part in packed]).present

    def _ordered(self) -> list[_Member]:
        """In an order that does not depend on which site joined when: levels of noise are floats."""
        if not self._members:
            raise InvalidInputError("no site takes part: add a site first")
        return sorted(self._members.values(), key=lambda member: member.digest)
