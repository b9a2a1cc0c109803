"""What a question must be before sites are asked, and who asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Number, Whole, check_parameter
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.contract import check_query_schema, class_labels
from onefold.federated.flower.asking import Sign, finite_rows, unsigned
from onefold.federated.flower.folders import ServerFolder, ServerSettings
from onefold.federated.flower.registry import Registry, RegistryEntry
from onefold.federated.flower.site_app import column_names
from onefold.federated.messages import NUMBERS, Profile, columns_digest
from onefold.federated.queriers import SigningKey, find_signing_key, user_name
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
    schema: Schema | None,
    columns: Sequence[str] | None,
    timeout: float,
    batch_size: int,
    mix: bool,
) -> tuple[Array, Mapping[str, RegistryEntry]]:
    """The rows, and those who will be asked: at least one, with the same schema or the same columns."""
    check_parameter("timeout", timeout, Number(above=0))
    check_parameter("batch_size", batch_size, Whole(1))
    if schema is None:
        rows, names = finite_rows(X), column_names(X) if columns is None else tuple(columns)
    else:
        rows, names = finite_rows(schema.transform(X)), None
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


def labelled(held_out: tuple[Any, Any] | None, schema: Schema | None) -> tuple[Array, Array] | None:
    """Held-out rows as sites are asked about them, and their classes."""
    if held_out is None:
        return None
    if schema is None:
        return finite_rows(held_out[0]), np.asarray(held_out[1])
    return finite_rows(schema.transform(held_out[0])), class_labels(schema, *held_out)


def asker_of(querier: str | SigningKey | None) -> tuple[str, SigningKey | None]:
    """The name of who asks, and the key that signs, if there is one."""
    if isinstance(querier, SigningKey):
        return querier.key.name, querier
    name = user_name() if querier is None else querier
    key = find_signing_key(name)
    return (name if key is None else key.key.name), key


def signed_by(key: SigningKey | None, federation: str, purpose: str, amount: int, rule: str) -> Sign:
    """What signs the messages of one question."""
    if key is None:
        return unsigned
    return lambda query, query_key: key.sign(
        query, federation, purpose=purpose, amount=amount, rule=rule, query_key=query_key
    )
