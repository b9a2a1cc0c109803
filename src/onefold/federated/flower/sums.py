"""Sums that a site sends once: private moments with a guarantee, or plain sums with the site's consent.

What may be sent is in one file of the site's folder, which only a fit makes. Private moments are made by a
fit with noise for whole records or persons (``onefold federate site --method moments``): their guarantee is
all they need. **Plain sums are not private**, see :mod:`onefold.federated.joined`: the file is the site's
consent, and only a fit that was told so makes it (``--send-plain-sums``). Without the file nothing is sent,
whatever the server asks for. Moments of numbers to predict are one or the other.

The server keeps one file for each site. What it makes of them follows from the files of the sites that take
part now: whole numbers add up to the same sum in every order, so a site that has left leaves no trace. With
plain sums it publishes scores, which sites add to their answers. With private moments, and with all moments
of numbers to predict, it answers queries itself, and sites are not asked.
"""

from collections.abc import Mapping
from copy import copy
from pathlib import Path

import numpy as np

from onefold._base.files import remove_file, write_whole
from onefold.exceptions import FederationError, InvalidInputError, MessageError, OnefoldError
from onefold.federated.contract import message_classes
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.keeping import sums_of as sums_path
from onefold.federated.flower.registry import RegistryEntry
from onefold.federated.joined import Agreement, JoinedSums, Offset
from onefold.federated.joined_server import JoinedFederation, declared_agreement, publish
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import (
    MOMENTS,
    NUMBERS,
    Limits,
    PlainSums,
    PrivateSums,
    Profile,
    PublicScores,
    digest_of,
    from_bytes,
    plain_labels,
)
from onefold.federated.moments import MomentFederation, moments_in
from onefold.federated.number_sums import pairs_in
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND

SiteSums = PlainSums | PrivateSums
NUMBERS_RADIUS = 1.0  # of pairs: the schema says how they become so short

NEEDS_SCHEMA = "plain sums need a schema (--schema FILE): agreeing by messages leaves a trace of every site"
NEEDS_DISTANCES = "plain sums need distances with leave-one-out errors: leave out --model and --measure"
NEEDS_CONSENT = "to predict numbers, sums leave: give --epsilon, or --send-plain-sums, which is not private"
NO_NOISE = "plain sums do not go with noise (--epsilon): they carry none"


# --- at a site --------------------------------------------------------------------------------------------


def sums_of(site: str, model: LocalModel) -> PlainSums:
    """Make the message with the sums of a model's rows."""
    if model.guarantee_ is not None:
        raise InvalidInputError(NO_NOISE)
    if model.schema_.plain:
        raise InvalidInputError(NEEDS_SCHEMA)
    if model.measure != "euclidean" or not hasattr(model.estimator_, "leave_one_out_squares"):
        raise InvalidInputError(NEEDS_DISTANCES)
    agreed = declared_agreement(model.schema_)
    content = model.joined_sums(agreed).to_bytes()
    if len(content) > Limits().max_bytes:
        raise InvalidInputError("the sums of so many columns are larger than a message: use fewer columns")
    return PlainSums(site, model.schema_.digest, agreed.radius, agreed.n_directions, content)


def moments_profile(sums: SiteSums, measure: str = MOMENTS, columns: str | None = None) -> Profile:
    """What a site says about the moments that it sends; refused if they are not what it may send so."""
    plain = isinstance(sums, PlainSums)
    if measure == NUMBERS:
        moments = pairs_in(sums.content, plain=plain)
        n_features = moments.n_features_in_ - 1
        if isinstance(sums, PlainSums):
            n_features -= 2 * sums.n_directions
            if (sums.schema, sums.radius) != (moments.guarantee_.schema, NUMBERS_RADIUS):
                raise InvalidInputError("these are not the sums that the site speaks of")
        if n_features < 1:
            raise InvalidInputError("the sums have too few columns for such a lift")
    else:
        moments = moments_in(sums.content)
        n_features = moments.n_features_in_
    if len(sums.content) > Limits().max_bytes:
        raise InvalidInputError("the moments of so many columns are larger than a message: use fewer columns")
    promise, digest = moments.guarantee_, digest_of(sums.content)
    classes = plain_labels(np.sort(message_classes(moments.classes_)))
    return Profile(
        sums.site,
        classes,
        measure,
        None,
        n_features,
        None if plain else promise.to_dict(),
        digest,
        columns=columns,
        schema=promise.schema,
        schema_fields=moments.schema_fields_,
        sums=digest,
    )


def kept_sums(folder: SiteFolder, profile: Profile) -> SiteSums | None:
    """What a site sends of its rows; None unless the fit of this very model was told to send it."""
    return None if profile.sums is None else _checked_sums(sums_path(folder, profile), profile)


def joined_model(model: LocalModel, scores: PublicScores) -> LocalModel:
    """The same model, answering with the scores of the server; refused if they are of another contract."""
    try:
        offset = Offset.from_bytes(scores.content)
    except OnefoldError:
        raise MessageError("the scores cannot be read") from None
    if model.schema_.plain or not _alike(offset.agreement, declared_agreement(model.schema_)):
        raise MessageError("the scores are not those of a federation with this site's schema")
    return copy(model).join(offset)  # the model itself stays as it is, for other messages


# --- at the server ----------------------------------------------------------------------------------------


class KeptSums:
    """The sums of the sites that take part, one file each, and what the server publishes of them."""

    def __init__(self, folder: ServerFolder) -> None:
        self.folder = folder
        self._added: dict[str, str] = {}  # sites in the total, and the digest of what each sent
        self._total: JoinedSums | None = None
        self._agreement: Agreement | None = None
        self._published: PublicScores | None = None

    def holds(self, name: str, profile: Profile) -> bool:
        """Whether the sums that a site speaks of are here already."""
        try:
            _checked_sums(self.folder.sums_of(name), profile)
        except FederationError:
            return False
        return True

    def keep(self, name: str, sums: SiteSums, profile: Profile, members: Mapping[str, RegistryEntry]) -> None:
        """Check what a site sent, by itself and beside the others, and keep it; refused if it does not fit.

        What is left to a site that lies is to invent rows: of plain sums as many as the server lets one site
        have. Private moments have noise, so any number of rows is possible.
        """
        if digest_of(sums.content) != profile.sums or sums.site != name:
            raise InvalidInputError("these are not the sums that the site speaks of")
        others = {other: entry for other, entry in members.items() if other != name}
        if isinstance(sums, PrivateSums) or profile.measure == NUMBERS:
            self._check_moments(sums, profile, others)
        else:
            self._check_plain(sums, profile, others)
        write_whole(self.folder.sums_of(name), sums.to_bytes())

    def _check_moments(self, sums: SiteSums, profile: Profile, others: Mapping[str, RegistryEntry]) -> None:
        if moments_profile(sums, profile.measure, profile.columns).to_bytes() != profile.to_bytes():
            raise InvalidInputError("these are not the moments that the site speaks of")
        beside = self._summed(others, profile.measure) or MomentFederation()
        beside.most_rows = self.folder.settings.most_rows
        beside.add(sums.site, sums.content)

    def _check_plain(self, sums: PlainSums, profile: Profile, others: Mapping[str, RegistryEntry]) -> None:
        name = sums.site
        if profile.sends_only_sums or sums.schema != profile.schema:
            raise InvalidInputError("these are not the sums that the site speaks of")
        agreed, found = _opened(sums)
        JoinedFederation(agreed, most_rows=self.folder.settings.most_rows).add(name, found)
        if found.moments.sums_.shape[1] != profile.n_features + 2 * agreed.n_directions:
            raise InvalidInputError("the sums have another number of columns than the site's rows")
        if plain_labels(agreed.classes[found.moments.counts_ > 0]) != profile.classes:
            raise InvalidInputError("the sums are of other classes than the site's model")
        self._add_up(others)
        if self._agreement is not None and not _alike(agreed, self._agreement):
            raise InvalidInputError("the classes, the radius or the lift differ from those of other sites")

    def drop(self, name: str) -> None:
        """Delete what a site sent."""
        remove_file(self.folder.sums_of(name), missing_ok=True)

    def scores(self, members: Mapping[str, RegistryEntry]) -> PublicScores | None:
        """What the sites that take part are told with a query; None if they send no plain sums."""
        self._add_up(members)
        if self._total is None or self._agreement is None:
            return None
        if self._published is None:
            self._published = PublicScores(publish(self._agreement, self._total).to_bytes())
        return self._published

    def joined(self, members: Mapping[str, RegistryEntry]) -> JoinedFederation | None:
        """The plain sums of each site that takes part, beside each other; None if they send none."""
        made: JoinedFederation | None = None
        for name, profile in _senders(members, None).items():
            agreed, found = _opened(self._plain(name, profile))
            made = JoinedFederation(agreed) if made is None else made
            made.add(name, found)
        return made

    def moments(self, members: Mapping[str, RegistryEntry]) -> MomentFederation | None:
        """The private moments of the sites that take part, to answer from; None if they send none."""
        return self._summed(members, MOMENTS)

    def numbers(self, members: Mapping[str, RegistryEntry], schema: Schema) -> MomentFederation | None:
        """The moments of numbers to predict, under the schema of the sites; None if they send none."""
        return self._summed(members, NUMBERS, schema)

    def _summed(
        self, members: Mapping[str, RegistryEntry], measure: str, schema: Schema = AS_THEY_STAND
    ) -> MomentFederation | None:
        made: MomentFederation | None = None
        for name, profile in _senders(members, measure).items():
            sums = _checked_sums(self.folder.sums_of(name), profile)
            if made is None:
                lift = sums.n_directions if isinstance(sums, PlainSums) else 0
                made = MomentFederation(schema, lift=None if schema.plain else lift or None)
            made.add(name, sums.content)
        return made

    def _plain(self, name: str, profile: Profile) -> PlainSums:
        found = _checked_sums(self.folder.sums_of(name), profile)
        assert isinstance(found, PlainSums)  # by its digest, and kept by what the profile says
        return found

    def _add_up(self, members: Mapping[str, RegistryEntry]) -> None:
        """Bring the total up to date: newcomers are added, and after any change it is made anew."""
        senders = _senders(members, None)
        wanted = {name: str(profile.sums) for name, profile in senders.items()}
        if wanted == self._added:
            return
        self._published = None
        if not self._added.items() <= wanted.items():
            self._added, self._total, self._agreement = {}, None, None
        for name in sorted(set(wanted) - set(self._added)):
            agreed, found = _opened(self._plain(name, senders[name]))
            self._total = found if self._total is None else self._total.add(found)
            self._agreement = agreed
            self._added[name] = wanted[name]


def _opened(sums: PlainSums) -> tuple[Agreement, JoinedSums]:
    """The sums of one site, if rows can have them, and what it took to be agreed on."""
    try:
        found = JoinedSums.from_bytes(sums.content).check()
    except InvalidInputError:
        raise
    except Exception:  # a site sends what it likes: nothing of it may end the run
        raise InvalidInputError("the sums cannot be read") from None
    return Agreement(found.moments.classes_, sums.radius, sums.n_directions, of_table=True), found


def _senders(members: Mapping[str, RegistryEntry], measure: str | None) -> dict[str, Profile]:
    """Sites that send moments of this measure; None for those that send plain sums and answer queries."""
    found = {name: site.profile for name, site in members.items() if site.profile is not None}
    return {
        name: profile
        for name, profile in found.items()
        if profile.sums is not None and (profile.measure if profile.sends_only_sums else None) == measure
    }


def _checked_sums(path: Path, profile: Profile) -> SiteSums:
    """The sums in a file, if they are those that a profile speaks of."""
    try:
        found = from_bytes(path.read_bytes())
    except (OSError, MessageError):
        found = None
    kind = PrivateSums if profile.sends_private_sums else PlainSums
    if not isinstance(found, kind) or digest_of(found.content) != profile.sums:
        raise FederationError(f"{path}: the sums of {profile.site} are not here, or damaged")
    return found


def _alike(one: Agreement, other: Agreement) -> bool:
    numbers = [(each.radius, each.n_directions, each.random_state) for each in (one, other)]
    return numbers[0] == numbers[1] and np.array_equal(one.classes, other.classes)
