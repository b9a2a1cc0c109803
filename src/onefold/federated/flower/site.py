"""What a site does with a message: all from its own disk, and nothing but fixed words when it fails."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from onefold.exceptions import FederationError, QueryRefused
from onefold.federated.flower.folders import SiteFolder, SiteSettings, write_private
from onefold.federated.flower.sealing import opened_lock, sealed
from onefold.federated.guard import QueryGuard
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import (
    Answers,
    Failure,
    FailureCode,
    Lock,
    Message,
    ModelParcel,
    Profile,
    Query,
    columns_digest,
    from_parts,
    to_parts,
)

__all__ = ["NO_QUERY", "answer", "model_parcel", "read_profile", "store_model", "warm"]

LOG = logging.getLogger(__name__)
# What a failure names as its query when there was none.
NO_QUERY = "none"
EVERYBODY = "all-callers"


def store_model(folder: SiteFolder, model: LocalModel, columns: Sequence[str] | None = None) -> Profile:
    """Keep a fitted model, and what the site will say about it and about the columns it was fitted to."""
    folder.prepare()
    # Nothing is answered while the two files do not belong together.
    folder.profile.unlink(missing_ok=True)
    model.save(folder.model, with_rows=False)
    folder.model.chmod(0o600)
    profile = replace(model.profile(folder.settings.name), columns=columns_digest(columns))
    write_private(folder.profile, json.dumps(to_parts(profile)[0], indent=1, allow_nan=False).encode())
    return profile


def read_profile(folder: SiteFolder) -> Profile:
    """What the site says about its model."""
    try:
        profile = from_parts(json.loads(folder.profile.read_bytes()), {})
    except (OSError, ValueError):
        profile = None
    if not isinstance(profile, Profile):
        raise FederationError("this site has no model yet: fit one with --data and --label")
    return profile


def answer(folder: SiteFolder, query: Query, caller: str, lock: Lock | None = None) -> Message:
    """One number per row and class, if the guard lets the caller have them; encrypted if there is a lock."""
    settings = folder.settings
    code = FailureCode.NOT_READY
    try:
        profile = read_profile(folder)
        code = FailureCode.INTERNAL
        if query.features.shape[1] != profile.n_features:
            raise QueryRefused(FailureCode.WRONG_FEATURES)
        if lock is None and settings.sends == "sealed-answers":
            raise QueryRefused(FailureCode.SEALED_ONLY)
        client = None if lock is None else opened_lock(folder, lock, profile.classes, len(query.features))
        _admit(folder, settings, caller, len(query.features))
        answers = _answers(folder, profile, query)
        return answers if lock is None or client is None else sealed(client, answers, lock)
    except QueryRefused as refusal:
        code = FailureCode(refusal.code)
    except Exception as error:
        # The kind of error only: its text may quote rows.
        LOG.error("failed query=%s code=%s error=%s", query.id, code, type(error).__name__)
    return Failure(query.id, settings.name, code)


def model_parcel(folder: SiteFolder) -> Message:
    """The model itself, if the owner has allowed that and it is private, or allowed to go as it is."""
    settings, profile = folder.settings, read_profile(folder)
    if not may_send(settings, profile):
        LOG.warning("refused to send the model")
        return Failure(NO_QUERY, settings.name, FailureCode.NOT_PRIVATE)
    LOG.warning("sent the model digest=%s", profile.model_digest)
    return ModelParcel(settings.name, folder.model.read_bytes())


def may_send(settings: SiteSettings, profile: Profile) -> bool:
    """Whether the model may leave: with a standing guarantee, or because its owner insists."""
    stands = profile.guarantee is not None and bool(profile.guarantee["holds"])
    return settings.sends == "raw-model" or (settings.sends == "private-model" and stands)


def _admit(folder: SiteFolder, settings: SiteSettings, caller: str, n_rows: int) -> None:
    """Count rows for the caller the server names and for everybody together.

    The server is the only one a site recognises by itself, so the limit for everybody is the one that
    cannot be talked around; names only share it out.
    """
    own = QueryGuard(None, settings.caller_total, folder.guard.with_name("guard-callers.json"))
    left = own.remaining(caller)
    if left is not None and left < n_rows:
        LOG.warning("refused caller=%s rows=%d code=%s", caller, n_rows, FailureCode.BUDGET_SPENT)
        raise QueryRefused(FailureCode.BUDGET_SPENT)
    QueryGuard(settings.per_minute, settings.total, folder.guard).admit(EVERYBODY, n_rows)
    own.admit(caller, n_rows)


def _answers(folder: SiteFolder, profile: Profile, query: Query) -> Answers:
    return _model(folder.model, profile.model_digest).answer(query, profile.site)


def warm(folder: SiteFolder) -> None:
    """Load the model, if there is one, so that a process forked from this one need not."""
    with suppress(Exception):
        _model(folder.model, read_profile(folder).model_digest)


@lru_cache(maxsize=1)
def _model(path: Path, digest: str) -> LocalModel:
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise FederationError("the model is not the one the profile speaks of")
    return LocalModel.load(path)
