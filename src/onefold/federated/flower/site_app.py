"""What a site does with a message: Flower's envelope in, Flower's envelope out, all from the site's own disk.

Flower hands the text of an exception in a client application to the server, rows of data included. Nothing
gets past :func:`answer_message`: whatever happens, the reply is one of the messages of a federation, and a
failure is one of a few fixed words. Between the two envelopes :func:`answer` makes one number per row and
class, encrypted if a query key came with the query.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Integers
from onefold._base.optional import require
from onefold.exceptions import (
    FederationError,
    InvalidInputError,
    MessageError,
    MissingDependencyError,
    QueryRefused,
)
from onefold.federated.fhe import Client, Quantiser
from onefold.federated.fhe import messages as fhe_messages
from onefold.federated.flower.admission import EVERY, leaving, note_sent, packed, recognised, unpacked
from onefold.federated.flower.folders import SITE_VARIABLE, SiteFolder, SiteSettings, log_to, write_private
from onefold.federated.flower.sightings import facts_of
from onefold.federated.flower.sums import joined_model, kept_sums, moments_profile, sums_of, write_sums
from onefold.federated.guard import QueryGuard
from onefold.federated.joined_server import declared_agreement
from onefold.federated.local_model import LocalModel
from onefold.federated.log import SiteEvent
from onefold.federated.messages import (
    MOMENTS,
    Answers,
    ClassLabels,
    Failure,
    FailureCode,
    Limits,
    Message,
    ModelParcel,
    PrivateSums,
    Profile,
    PublicScores,
    Query,
    QueryKey,
    Refusal,
    SealedAnswers,
    check_name,
    columns_digest,
    from_parts,
    to_parts,
)
from onefold.federated.queriers import AnySignature
from onefold.federated.rules import align

__all__ = [
    "ANSWERS",
    "FACTS",
    "KEPT_OUT",
    "MODEL",
    "MOST_MESSAGES",
    "NO_QUERY",
    "PROFILE",
    "SEALED",
    "SUMS",
    "answer",
    "answer_message",
    "caller_of",
    "from_records",
    "may_send",
    "model_parcel",
    "opened_lock",
    "quantised",
    "read_profile",
    "sealed",
    "store_model",
    "store_moments",
    "to_records",
    "warm",
    "withdraw_sums",
]

# Kinds of Flower message; Flower wants them to begin with a word of its own.
ANSWERS, PROFILE, MODEL, SEALED = "query.answers", "query.profile", "query.model", "query.sealed"
SUMS = "query.sums"
FACTS = "query.facts"
KEPT_OUT = "query.outside"  # no question: the site is told that it is not taken
# For when not even our own reply can be made. Flower has no code for it.
EDGE_FAILED = 1000

LOG = logging.getLogger(__name__)


def answer_message(message: Any, context: Any) -> Any:
    """The reply to one message of Flower, whatever it holds."""
    app = require("flwr.app", "federated")
    try:
        return app.Message(to_records(_replies(message)), reply_to=message)
    except BaseException as error:  # SystemExit and the like must not speak either
        LOG.error("failed error=%s", type(error).__name__)
        return app.Message(app.Error(EDGE_FAILED, "the site failed"), reply_to=message)


def _replies(message: Any) -> list[Message]:
    folder = SiteFolder(Path(os.environ[SITE_VARIABLE]))
    log_to(folder.log)
    name = folder.settings.name
    kind = str(message.metadata.message_type)
    try:
        if kind == PROFILE:
            return [read_profile(folder)]
        if kind == MODEL:
            return [model_parcel(folder)]
        if kind == SUMS:
            return [_sums(folder)]
        if kind == FACTS:
            return [facts_of(folder)]
        if kind == KEPT_OUT:
            write_private(folder.kept_out, _reason(message.content).encode())
            return [read_profile(folder)]
        if kind in (ANSWERS, SEALED):
            return _answers(folder, message.content, kind == SEALED)
    except MessageError as error:
        LOG.warning("refused a message: %s", error)
        code = FailureCode.TOO_LARGE if "larger" in str(error) else FailureCode.MALFORMED
        return [Failure(NO_QUERY, name, code)]
    except Exception as error:
        LOG.error("failed kind=%s error=%s", kind, type(error).__name__)
        code = FailureCode.NOT_READY if kind in (PROFILE, MODEL, SUMS) else FailureCode.INTERNAL
        return [Failure(NO_QUERY, name, code)]
    LOG.warning("refused a message of an unknown kind")
    return [Failure(NO_QUERY, name, FailureCode.MALFORMED)]


def _reason(content: Any) -> str:
    """Why the server keeps the site out; empty if it does not say: older ones do not."""
    try:
        message = from_records(content)[0]
    except MessageError:
        return ""
    return message.reason if isinstance(message, Refusal) else ""


def _answers(folder: SiteFolder, content: Any, encrypted: bool) -> list[Message]:
    """Encrypted: the first message is the query key under which the queries behind it are answered.

    In a joined federation the scores of the server come before the queries.
    """
    caller, signatures = check_name("a querier's name", caller_of(content)), signatures_of(content)
    messages = from_records(content)
    key = messages.pop(0) if encrypted else None
    scores = messages.pop(0) if messages and isinstance(messages[0], PublicScores) else None
    queries = [message for message in messages if isinstance(message, Query)]
    if not isinstance(key, QueryKey | None) or len(queries) < len(messages):
        raise MessageError("only queries are answered, encrypted ones behind a query key")
    assert isinstance(scores, PublicScores | None)
    signed = [signatures.get(query.id, signatures.get(EVERY)) for query in queries]
    pairs = zip(queries, signed, strict=True)
    return [answer(folder, query, caller, key, scores, signature) for query, signature in pairs]


# What a failure names as its query when there was none.
NO_QUERY = "none"
EVERYBODY = "all-callers"

PathLike = str | os.PathLike[str]


# --- the model on disk ------------------------------------------------------------------------------------


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame, if all are texts."""
    names = list(getattr(X, "columns", ()))
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def store_model(
    folder: SiteFolder,
    model: LocalModel,
    columns: Sequence[str] | None = None,
    *,
    send_plain_sums: bool = False,
) -> Profile:
    """Keep a fitted model, and what the site will say about it and about the columns it was fitted to.

    Sums of its rows are kept, and sent to the server that asks for them, only if ``send_plain_sums`` says so.
    """
    folder.prepare()
    sums = sums_of(folder.settings.name, model) if send_plain_sums else None
    # Nothing is answered while the files do not belong together.
    folder.profile.unlink(missing_ok=True)
    folder.sums.unlink(missing_ok=True)
    model.save(folder.model, with_rows=False)
    folder.model.chmod(0o600)
    digest = None if sums is None else write_sums(folder, sums)
    profile = replace(model.profile(folder.settings.name), columns=columns_digest(columns), sums=digest)
    _write_profile(folder, profile)
    return profile


def store_moments(folder: SiteFolder, content: bytes, columns: Sequence[str] | None = None) -> Profile:
    """Keep private moments, to be sent to the server; a model that was there before is deleted.

    The site has nothing else: it answers no query and has no model to send.
    """
    folder.prepare()
    sums = PrivateSums(folder.settings.name, content)
    profile = moments_profile(sums, columns_digest(columns))
    for path in (folder.profile, folder.sums, folder.model):
        path.unlink(missing_ok=True)
    write_sums(folder, sums)
    _write_profile(folder, profile)
    return profile


def withdraw_sums(folder: SiteFolder) -> None:
    """Delete plain sums that were to be sent, if there are any; what was sent stays sent."""
    if folder.sums.exists():
        profile = read_profile(folder)
        if profile.measure == MOMENTS:
            raise InvalidInputError(
                "this site has private moments to send and no answers: fit it again with --method rows"
            )
        folder.sums.unlink()
        _write_profile(folder, replace(profile, sums=None))


def _write_profile(folder: SiteFolder, profile: Profile) -> None:
    write_private(folder.profile, json.dumps(to_parts(profile)[0], indent=1, allow_nan=False).encode())


def read_profile(folder: SiteFolder) -> Profile:
    """What the site says about its model."""
    try:
        profile = from_parts(json.loads(folder.profile.read_bytes()), {})
    except (OSError, ValueError):
        profile = None
    if not isinstance(profile, Profile):
        raise FederationError("this site has no model yet: fit one, with DATA and --label or --schema")
    return profile


def warm(folder: SiteFolder) -> None:
    """Load the model, if there is one, so that a process forked from this one need not."""
    with suppress(Exception):
        profile = read_profile(folder)
        if profile.measure == MOMENTS:
            return
        model = _model(folder.model, profile.model_digest)
        if profile.sums is not None and model.schema_ is not None:  # drawing the lift takes a while too
            declared_agreement(model.schema_).rows(np.zeros((1, profile.n_features)))


@lru_cache(maxsize=1)
def _model(path: Path, digest: str) -> LocalModel:
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise FederationError("the model is not the one the profile speaks of")
    return LocalModel.load(path)


# --- what a site sends ------------------------------------------------------------------------------------


def answer(
    folder: SiteFolder,
    query: Query,
    caller: str,
    lock: QueryKey | None = None,
    scores: PublicScores | None = None,
    signature: AnySignature | None = None,
) -> Message:
    """One number per row and class, if the data owner and the guard allow it; encrypted if there is a key.

    With the scores of the server they are added to the squared distances before anything is encrypted. A site
    that sends no sums takes no scores.
    """
    settings = folder.settings
    code = FailureCode.NOT_READY
    try:
        profile = read_profile(folder)
        code = FailureCode.INTERNAL
        if profile.measure == MOMENTS:  # what it may give away is with the server
            raise QueryRefused(FailureCode.MALFORMED)
        if query.features.shape[1] != profile.n_features:
            raise QueryRefused(FailureCode.WRONG_FEATURES)
        if lock is None and settings.sends == "sealed-answers":
            raise QueryRefused(FailureCode.SEALED_ONLY)
        if scores is not None and profile.sums is None:
            raise QueryRefused(FailureCode.MALFORMED)
        account = recognised(folder, settings, query, caller, signature, lock)
        client = None if lock is None else opened_lock(folder, lock, profile.classes, len(query.features))
        model = _model(folder.model, profile.model_digest)
        if scores is not None:
            model = joined_model(model, scores)
        _admit(folder, settings, account, len(query.features))
        answers = model.answer(query, profile.site)
        reply = answers if lock is None or client is None else sealed(client, answers, lock)
        leaving(folder, settings, query, caller, signature, lock is not None)
        return reply
    except QueryRefused as refusal:
        code = FailureCode(refusal.code)
        LOG.warning("refused query=%s code=%s", query.id, code)
    except MessageError as error:
        LOG.warning("refused query=%s: %s", query.id, error)
        code = FailureCode.MALFORMED
    except Exception as error:
        # The kind of error only: its text may quote rows.
        LOG.error("failed query=%s code=%s error=%s", query.id, code, type(error).__name__)
    return Failure(query.id, settings.name, code)


def _admit(folder: SiteFolder, settings: SiteSettings, caller: str, n_rows: int) -> None:
    """Count rows for one querier and for everybody together.

    A querier that signs is counted by its key. Where the server only names queriers, the limit for everybody
    is the one that cannot be talked around; names only share it out.
    """
    own = QueryGuard(None, settings.caller_total, folder.guard.with_name("guard-callers.json"))
    left = own.remaining(caller)
    if left is not None and left < n_rows:
        LOG.warning("refused caller=%s rows=%d code=%s", caller, n_rows, FailureCode.BUDGET_SPENT)
        raise QueryRefused(FailureCode.BUDGET_SPENT)
    QueryGuard(settings.per_minute, settings.total, folder.guard).admit(EVERYBODY, n_rows)
    own.admit(caller, n_rows)


def model_parcel(folder: SiteFolder) -> Message:
    """The model itself, if the site has allowed that and it is private, or allowed to go as it is."""
    settings, profile = folder.settings, read_profile(folder)
    if not may_send(settings, profile):
        LOG.warning("refused to send the model")
        return Failure(NO_QUERY, settings.name, FailureCode.NOT_PRIVATE)
    note_sent(folder, SiteEvent.MODEL_SENT, model=profile.model_digest)
    LOG.warning("sent the model digest=%s", profile.model_digest)
    return ModelParcel(settings.name, folder.model.read_bytes())


def _sums(folder: SiteFolder) -> Message:
    """Private moments of the site's rows, or plain sums if the fit of the model was told to send them."""
    sums = kept_sums(folder, read_profile(folder))
    if sums is None:
        LOG.warning("refused to send sums")
        return Failure(NO_QUERY, folder.settings.name, FailureCode.NOT_PRIVATE)
    kind = "private moments" if isinstance(sums, PrivateSums) else "plain sums"
    note_sent(folder, SiteEvent.SUMS_SENT, bytes=len(sums.content))
    LOG.warning("sent %s bytes=%d", kind, len(sums.content))
    return sums


def may_send(settings: SiteSettings, profile: Profile) -> bool:
    """Whether the model may leave: with a standing guarantee, or because the site insists."""
    if profile.measure == MOMENTS:  # there is no model but the moments
        return False
    stands = profile.guarantee is not None and bool(profile.guarantee["holds"])
    return settings.sends == "raw-model" or (settings.sends == "private-model" and stands)


# --- encrypted answers ------------------------------------------------------------------------------------
# The site sees the public key only. It can decrypt nothing, not even its own message.


def opened_lock(folder: SiteFolder, lock: QueryKey, own: ClassLabels, n_rows: int) -> Client:
    """What encrypts under a query key, if the site allows this key and the site can answer under it.

    Whoever made the key can read what is encrypted with it, and the key comes by way of the server: a site
    who does not trust the server says which keys are a querier's.
    """
    trusted = folder.trusted_key_ids
    if trusted is not None and lock.key_id not in trusted:
        raise QueryRefused(FailureCode.UNTRUSTED_KEY)
    if not set(own) <= set(lock.classes):
        raise QueryRefused(FailureCode.OTHER_CLASSES)
    try:
        key = fhe_messages.public_key_of(lock)
        if key.parameters.message_size(n_rows) > Limits().max_bytes:
            raise QueryRefused(FailureCode.TOO_LARGE)
        return Client(key, folder.settings.name)
    except MissingDependencyError:
        raise QueryRefused(FailureCode.NO_ENCRYPTION) from None
    except MessageError:
        raise QueryRefused(FailureCode.MALFORMED) from None


def quantised(answers: Answers, lock: QueryKey) -> Integers:
    """Whole numbers for the classes of a query key: the same map at every site; -1 for a class it lacks."""
    values = answers.values.astype(np.float64)
    aligned = align(values, np.array(answers.classes), np.array(lock.classes), np.nan)
    quantiser = Quantiser(lock.bits, 1.0, lock.power, min(lock.floor / lock.bound, np.nextafter(1.0, 0.0)))
    with np.errstate(over="ignore"):  # a tiny bound: beyond it all is one
        return quantiser.quantise(np.minimum(aligned / lock.bound, 1.0))


def sealed(client: Client, answers: Answers, lock: QueryKey) -> SealedAnswers:
    """The encrypted answers of a site: only the server's sum and the querier's key make them readable."""
    encrypted = client.encrypt(quantised(answers, lock), answers.query_id)
    return SealedAnswers(answers.query_id, answers.site, fhe_messages.to_bytes(encrypted))


# --- between our messages and Flower's records --------------------------------------------------------------


MOST_MESSAGES = 256
LONGEST_HEADERS = 16 * 2**20
CALLER, HEADERS, ARRAYS = "caller", "headers", "arrays"
SIGNATURES = "signatures"  # beside the name of the querier, where sites of version 0.1 do not look


def to_records(
    messages: Sequence[Message], caller: str | None = None, signatures: Sequence[AnySignature | None] = ()
) -> Any:
    """Flower's ``RecordDict`` of some messages."""
    app = require("flwr.app", "federated")
    stacks: dict[str, list[NDArray[Any]]] = {}
    ends: dict[str, int] = {}
    entries = []
    for message in messages:
        header, arrays = to_parts(message)
        places = {}
        for name, array in arrays.items():
            stack = "-".join([name, array.dtype.name, *map(str, array.shape[1:])])
            stacks.setdefault(stack, []).append(array)
            start = ends.get(stack, 0)
            ends[stack] = start + len(array)
            places[name] = [stack, start, ends[stack]]
        entries.append([header, places])
    content: dict[str, Any] = {HEADERS: app.ConfigRecord({"json": json.dumps(entries, allow_nan=False)})}
    content[ARRAYS] = app.ArrayRecord({name: app.Array(np.concatenate(p)) for name, p in stacks.items()})
    if caller is not None:
        signed = {SIGNATURES: packed(signatures)} if any(signatures) else {}
        content[CALLER] = app.ConfigRecord({"name": caller, **signed})
    return app.RecordDict(content)


def from_records(content: Any, limits: Limits | None = None) -> list[Message]:
    """The messages in Flower's ``RecordDict``; whatever else it may hold is refused."""
    limits = Limits() if limits is None else limits
    try:
        if set(content) - {CALLER} != {HEADERS, ARRAYS} or set(content[HEADERS]) != {"json"}:
            raise MessageError("the records are not those of a federation")
        text, arrays = content[HEADERS]["json"], content[ARRAYS]
        if not isinstance(text, str):
            raise MessageError("the headers are not JSON")
        # Flower's arrays are a little longer than what is in them.
        if len(text) > LONGEST_HEADERS or arrays.count_bytes() > limits.max_bytes + LONGEST_HEADERS:
            raise MessageError("the message is larger than allowed")
        entries = json.loads(text)
        if not entries or len(entries) > MOST_MESSAGES:
            raise MessageError("there must be at least one message, and not too many")
        stacks = {name: array.numpy() for name, array in arrays.items()}
        ends = dict.fromkeys(stacks, 0)
        return [from_parts(header, _placed(places, stacks, ends), limits) for header, places in entries]
    except MessageError:
        raise
    except Exception:  # whatever Flower's records may raise, nothing of it is passed on
        raise MessageError("the records cannot be read") from None


def _placed(
    places: dict[str, Any], stacks: dict[str, NDArray[Any]], ends: dict[str, int]
) -> dict[str, NDArray[Any]]:
    """The arrays of one message; each begins where the one before it ended, so that no row is read twice."""
    found = {}
    for name, (stack, start, stop) in places.items():
        if type(stop) is not int or start != ends[stack] or not start < stop <= len(stacks[stack]):
            raise MessageError("the arrays of a message do not fit")
        found[name] = stacks[stack][start:stop]
        ends[stack] = stop
    return found


def caller_of(content: Any) -> str:
    """Who asks, as the server says."""
    try:
        name = content[CALLER]["name"]
    except Exception:
        raise MessageError("the query does not say who asks") from None
    if not isinstance(name, str):
        raise MessageError("the query does not say who asks")
    return name


def signatures_of(content: Any) -> dict[str, AnySignature]:
    """The queriers' signatures, by the ids of their queries; they are not checked yet."""
    try:
        text = content[CALLER].get(SIGNATURES)
    except Exception:
        raise MessageError("the signatures cannot be read") from None
    return {} if text is None else unpacked(text)
