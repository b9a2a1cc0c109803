"""One round of private moments: sites release once, the server adds up those of the sites that take part.

A site's whole part is :func:`release_moments`, which returns the bytes that leave the site. They carry a
guarantee for whole records with their labels, so the server need not be trusted with anything. Counts, sums
and second moments add up over sites, and so do the variances of their noise; what the server makes of the
sum is post-processing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

from numpy.typing import ArrayLike
from sklearn.base import clone

from onefold.encoders import Encoder, description, learns
from onefold.exceptions import InvalidInputError
from onefold.federated.contract import schema_fields
from onefold.privacy import Guarantee, PrivateMoments
from onefold.privacy.contract import contract_rows, encoding_of
from onefold.tables import Schema
from onefold.tables.schema import differing

__all__ = ["MomentFederation", "release_moments"]


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
    schema: Schema | None = None,
) -> bytes:
    """Release the private moments of a site's encoded records, once, as bytes without pickle.

    Parameters
    ----------
    X : array-like of shape (n, p), or table
        The site's records, with a schema as a table. They are encoded, released, and forgotten.
    y : array-like of shape (n,) or None
        Their labels; None takes the label column of the schema.
    moments : PrivateMoments
        The agreed release, which is cloned and not changed. Its centre is None or a public vector: releases
        around centres that sites found for themselves cannot be added up. Without ``classes`` those of the
        schema are taken; without a schema small classes are left out.
    encoder : Encoder or None, default=None
        One of :mod:`onefold.encoders`, with the parameters all sites agreed on.
    person : array-like of shape (n,), False or None, default=None
        Who each record is about: the release is then private for persons, see
        :meth:`onefold.privacy.PrivateMoments.fit`. None takes the person column of a schema that declares
        ``rows_per_person``; False takes none.
    schema : Schema or None, default=None
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
    if isinstance(moments.centre, str):
        raise InvalidInputError(
            "releases around centres of their own cannot be added up: give a public centre or None"
        )
    if learns(encoder):
        raise InvalidInputError("sites need the same public encoder: one of onefold.encoders, or None")
    agreed: PrivateMoments = clone(moments)
    if schema is not None:
        X, y, person = contract_rows(schema, X, y, person, leave_out=True)
        agreed.set_params(**_declared(agreed, schema, encoder, person))
    if y is None:
        raise InvalidInputError("y is missing: give the labels, or a schema that names their column")
    rows = X if encoder is None else clone(encoder).fit_transform(X)
    released = agreed.fit(rows, y, person=None if person is False else person, schema=schema)
    if schema is None:
        released.encoding_ = description(encoder)
    else:
        released.encoding_ = encoding_of(schema, description(encoder))
        released.schema_fields_ = schema_fields(schema.field_digests)
    return released.to_bytes()


def _declared(moments: PrivateMoments, schema: Schema, encoder: Any, person: Any) -> dict[str, Any]:
    """Parameters of a release that follow from a schema."""
    found: dict[str, Any] = {}
    if moments.classes is None and schema.classes is not None:
        found["classes"] = schema.classes
    if encoder is None:
        found["radius"] = schema.row_norm
    if moments.rows_per_person is None and person is not None:
        found["rows_per_person"] = schema.rows_per_person
    return found


class MomentFederation:
    """The server's part: the releases of the sites, added up anew whenever the sum is asked for.

    Leaving is exact: after :meth:`remove` everything is, bit for bit, what it would be had the site never
    taken part, in whatever order the others joined.

    Parameters
    ----------
    schema : Schema or None, default=None
        The declared contract of the sites' tables: releases by another one are refused with the first
        difference, and a fitted model is asked about tables.

    See Also
    --------
    release_moments : A site's part.
    onefold.fabrication.MomentClassifier : A classifier from moments alone.

    Notes
    -----
    *Guarantees.* ``guarantee`` is what each site's records were promised by their own release, joined so that
    no number in it is smaller and no condition is lost; it takes for granted that no record is with two
    sites. A person known to several sites loses more, and the guarantee says how much; see
    :meth:`onefold.privacy.Guarantee.at_sites`. It does not cover which sites take part.

    The server sees every release and need not be trusted. The noise of every site adds to the sum, so its
    variance is that of one release times the number of sites. A site that lies can spoil the sum: sites are
    trusted to send what they have.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.fabrication import MomentClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 6000)
    >>> X = rng.normal(size=(6000, 2)) / 10 + y[:, None] / 2
    >>> agreed = PrivateMoments(1.0, classes=[0, 1], centre=None)
    >>> federation = MomentFederation()
    >>> for name, part in (("north", slice(0, 3000)), ("south", slice(3000, 6000))):
    ...     _ = federation.add(name, release_moments(X[part], y[part], agreed))
    >>> federation.fitted(MomentClassifier).score(X, y) > 0.9
    True
    >>> federation.guarantee.record, federation.guarantee.n_owners
    ((1.0, 1e-05), 2)
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema
        self._members: dict[Hashable, tuple[bytes, PrivateMoments]] = {}

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
        packed = release.to_bytes() if isinstance(release, PrivateMoments) else bytes(release)
        moments = PrivateMoments.from_bytes(packed)  # a copy of its own, checked
        self._check_schema(moments)
        digest = hashlib.sha256(packed).digest()
        for known, member in self._members.values():
            if known == digest:
                raise InvalidInputError("this very release was added already, under another id")
            member.check_comparable(moments)
        self._members[owner_id] = digest, moments
        return self

    def _check_schema(self, moments: PrivateMoments) -> None:
        if self.schema is None or moments.guarantee_.schema == self.schema.digest:
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
        return reduce(Guarantee.among_owners, (moments.guarantee_ for moments in self._releases()))

    def moments(self) -> PrivateMoments:
        """Return the moments of all sites' records together.

        Returns
        -------
        PrivateMoments
            The sum; a class that a site lacks counts as no records.
        """
        return PrivateMoments.total(self._releases())

    def fitted(self, kind: type[Model], encoder: Encoder | None = None, **options: Any) -> Model:
        """Fit a model to the sum of the sites' releases.

        Parameters
        ----------
        kind : type
            ``MomentClassifier`` or ``MomentFabricator`` of :mod:`onefold.fabrication`.
        encoder : Encoder or None, default=None
            The encoder that the sites used, fitted, so that queries may come as they are; None if they come
            encoded, or as tables of the schema.
        **options : dict
            Passed on: ``shrinkage``, ``floor``, ``least``.

        Returns
        -------
        MomentClassifier or MomentFabricator
            The fitted model.
        """
        if encoder is not None and not hasattr(encoder, "n_features_in_"):
            raise InvalidInputError("the encoder must be fitted: encoder.fit(X) looks at the shape of X only")
        make: Any = kind.from_moments
        if self.schema is not None:
            options["schema"] = self.schema
        model: Model = make(self.moments(), encoder, **options)
        return model

    def _releases(self) -> list[PrivateMoments]:
        """In an order that does not depend on which site joined when: float addition does."""
        if not self._members:
            raise InvalidInputError("no site takes part: add a site first")
        ordered = sorted(self._members.values(), key=lambda member: member[0])
        return [moments for _, moments in ordered]
