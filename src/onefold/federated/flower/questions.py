"""A question to the sites: what it must be before they are asked, who asks it, and the ways of asking."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from onefold._base.arrays import Array
from onefold._base.validation import Number, Whole, check_parameter
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.access.signatures import SigningKey, find_signing_key, user_name
from onefold.federated.contract import check_query_schema, class_labels
from onefold.federated.fhe import Querier
from onefold.federated.flower.asking import (
    Combining,
    Sign,
    ask_members,
    finite_rows,
    new_query_id,
    unsigned,
)
from onefold.federated.flower.encrypted import BITS, EncryptedPart, Keyring, QueryKeyFile, ask_encrypted
from onefold.federated.flower.folders import ServerFolder, ServerSettings
from onefold.federated.flower.loaded import Loaded
from onefold.federated.flower.registry import Registry, RegistryEntry
from onefold.federated.flower.rounding import PlainMap, chosen_map
from onefold.federated.flower.site_app import column_names
from onefold.federated.messages import NUMBERS, Profile, columns_digest
from onefold.federated.server import Result
from onefold.tables import Schema

ANSWERED_BY_SERVER = (
    "the sites have sent private moments, from which the server answers: no site's answer can be encrypted "
    "(leave out --encrypted or --query-key; the rows of the query stay at the server)"
)
NOBODY = "no site has joined the federation yet"
PREDICT_NUMBERS = (
    "the sites predict numbers, not classes: ask with predict_numbers, as onefold federate query --schema "
    "does by itself; no answer of a site can be encrypted or combined by a rule"
)


def checked_rows(
    folder: ServerFolder,
    X: Any,
    schema: Schema,
    columns: Sequence[str] | None,
    timeout: float,
    batch_size: int,
    mix: bool,
) -> tuple[Array, Mapping[str, RegistryEntry]]:
    """The rows, and those who will be asked: at least one, with the same schema or the same columns."""
    check_parameter("timeout", timeout, Number(above=0))
    check_parameter("batch_size", batch_size, Whole(1))
    rows, names = finite_rows(schema.transform(X)), None
    if schema.plain:
        names = column_names(X) if columns is None else tuple(columns)
    if names is not None and len(names) != rows.shape[1]:
        raise InvalidInputError(f"there are {len(names)} column names for {rows.shape[1]} feature(s)")
    members = Registry(folder).members
    if not members:
        raise FederationError(NOBODY)
    profiles: list[Profile] = [site.profile for site in members.values() if site.profile is not None]
    if any(profile.measure == NUMBERS for profile in profiles):
        raise InvalidInputError(PREDICT_NUMBERS)
    if not mix:
        _check_alike(profiles)
    check_query_schema(schema, profiles)
    widths = {profile.n_features for profile in profiles}
    if widths and rows.shape[1] not in widths:
        raise InvalidInputError(
            f"the rows have {rows.shape[1]} feature(s), those of the sites have {max(widths)}"
        )
    digest = columns_digest(names)
    if digest is not None and any(profile.columns not in (None, digest) for profile in profiles):
        raise InvalidInputError("the columns are not those of the sites, or in another order")
    return rows, members


def _check_alike(profiles: Sequence[Profile]) -> None:
    """Refuse to combine answers with noise and answers without: those without would decide alone."""
    noisy = sorted(profile.site for profile in profiles if profile.guarantee is not None)
    plain = sorted(profile.site for profile in profiles if profile.guarantee is None)
    if noisy and plain:
        raise InvalidInputError(
            f"{', '.join(noisy)} answer(s) with noise and {', '.join(plain)} without, so {', '.join(plain)} "
            "would decide alone: let all sites add noise or none, or say that you want this (--mix)"
        )


def check_encrypted(settings: ServerSettings, rule: str | None, n_liars: int | None, held_out: Any) -> None:
    """Refuse what an encrypted query cannot do."""
    if settings.mode == "model":
        raise InvalidInputError("encrypted queries are for query mode: in model mode no site is asked")
    if (settings.rule if rule is None else rule) != "min":
        raise InvalidInputError(
            "an encrypted query can only take the minimum, because nobody reads the answers of a single "
            "site: give the rule min (--rule min)"
        )
    if n_liars is not None:
        raise InvalidInputError("the rule min withstands no lying site: leave out n_liars (--liars)")
    if held_out is not None:
        raise InvalidInputError("held-out rows (--held-out) are for the weighted rule only")


def check_of_sum(encrypted: bool, rule: str | None, n_liars: int | None, held_out: Any) -> None:
    """Refuse what a query cannot do that the server answers from the sum of private moments."""
    if encrypted:
        raise InvalidInputError(ANSWERED_BY_SERVER)
    if rule not in (None, "min") or not (n_liars is None and held_out is None):
        raise InvalidInputError(
            "the sites have sent private moments, whose sum is one model: there are no answers of "
            "sites for a rule to combine (leave out --rule, --liars and --held-out)"
        )


def labelled(held_out: tuple[Any, Any] | None, schema: Schema) -> tuple[Array, Array] | None:
    """Held-out rows as sites are asked about them, and their classes."""
    if held_out is None:
        return None
    return finite_rows(schema.transform(held_out[0])), class_labels(schema, *held_out)


def asker_of(querier: str | SigningKey | None) -> tuple[str, SigningKey | None]:
    """The name of who asks, and the key that signs, if there is one."""
    if isinstance(querier, SigningKey):
        return querier.key.name, querier
    name = user_name() if querier is None else querier
    key = find_signing_key(name)
    return (name if key is None else key.key.name), key


@dataclass(frozen=True, eq=False)
class Question:
    """Rows, whom they are asked, and who asks: what every way of asking needs.

    Parameters
    ----------
    folder : the server's. rows, members : from :func:`checked_rows`. asker, key : from :func:`asker_of`.
    purpose : what the answers are for. timeout : seconds that sites have. batch_size : rows in one message.
    """

    folder: ServerFolder
    rows: Array
    members: Mapping[str, RegistryEntry]
    asker: str
    key: SigningKey | None
    purpose: str
    timeout: float
    batch_size: int

    def in_clear(self, combining: Combining, loaded: Loaded) -> list[Result]:
        """Ask, and combine what comes back, batch by batch."""
        starts = range(0, len(self.rows), self.batch_size)
        asked = [
            combining.query(self.rows[start : start + self.batch_size], new_query_id()) for start in starts
        ]
        queries = [each.mixed for each in asked]
        sign = self._sign(sum(len(query.features) for query in queries), combining.server.rule)
        # Closed here and not by the garbage collector: of a query that fails nothing stays in the spool.
        with closing(ask_members(self.folder, queries, self.asker, self.timeout, sign, loaded)) as gathered:
            return [combining.result(each, found) for each, found in zip(asked, gathered, strict=True)]

    def encrypted(self, query_key: QueryKeyFile) -> list[EncryptedPart]:
        """Ask under a query key."""
        asker, sign = self.asker, self._sign(len(self.rows), "min")
        if (stated := query_key.signature) is not None:  # its holder asks, whoever sends the rows
            asker, sign = stated.name, lambda query, key: stated
        how = (len(self.members), asker, self.timeout, self.batch_size, sign)
        return ask_encrypted(self.folder, self.rows, query_key, *how)

    def own_key(
        self, bits: int | None, plain: PlainMap, looks: int | None, public: Array | None, keys: Any
    ) -> tuple[Querier, QueryKeyFile]:
        """The secret key of who runs this, and its public part for the sites' classes and a map."""
        bits = BITS if bits is None else bits
        profiles = [site.profile for site in self.members.values() if site.profile is not None]
        classes = sorted({label for profile in profiles for label in profile.classes})
        measured = (profiles[0].measure, profiles[0].scale) if profiles[0].sums is None else ("joined", None)
        map_ = chosen_map(*measured, bits, plain, looks, public, self.rows)
        ring = Keyring(keys, away_from=self.folder.root)
        querier = ring.querier(len(self.members), len(classes), bits)
        return querier, QueryKeyFile.of(querier, classes, **map_)

    def _sign(self, amount: int, rule: str) -> Sign:
        """What signs the messages of this question."""
        if (key := self.key) is None:
            return unsigned
        id_, purpose = self.folder.federation_id, self.purpose
        return lambda query, query_key: key.sign(
            query, id_, purpose=purpose, amount=amount, rule=rule, query_key=query_key
        )
