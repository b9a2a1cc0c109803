"""What a site does with a message: Flower's envelope in, Flower's envelope out, all from the site's own disk.

Flower hands the text of an exception in a client application to the server, rows of data included. Nothing
gets past :func:`answer_message`: whatever happens, the reply is one of the messages of a federation, and a
failure is one of a few fixed words. Between the two envelopes :func:`answer` makes one number per row and
class, encrypted if a query key came with the query.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import Integers
from onefold._base.files import write_whole
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError, MessageError, MissingDependencyError, QueryRefused
from onefold.federated.access.guard import QueryGuard
from onefold.federated.access.log import SiteEvent
from onefold.federated.access.signatures import AnySignature, SentSignature, SumSignature
from onefold.federated.fhe import Client
from onefold.federated.fhe import messages as fhe_messages
from onefold.federated.fhe.quantiser import MeasureMap
from onefold.federated.flower.admission import are_covered, leaving, note_sent, recognised
from onefold.federated.flower.folders import SITE_VARIABLE, SiteFolder, SiteSettings, log_to
from onefold.federated.flower.keeping import (
    Changed,
    facts_of,
    find_profile,
    keep,
    model_of,
    read_profile,
    served_model,
    settle,
    write_profile,
)
from onefold.federated.flower.keeping import sums_of as sums_path
from onefold.federated.flower.summing import take_step
from onefold.federated.flower.sums import (
    NUMBERS_RADIUS,
    SiteSums,
    joined_model,
    kept_sums,
    moments_profile,
    sums_of,
)
from onefold.federated.joined_server import declared_agreement
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import (
    MOMENTS,
    NUMBERS,
    Answers,
    Bundle,
    ClassLabels,
    Failure,
    FailureCode,
    Limits,
    Message,
    ModelParcel,
    PlainSums,
    PrivateSums,
    Profile,
    PublicScores,
    Query,
    QueryKey,
    Refusal,
    SealedAnswers,
    SumParcel,
    check_name,
    columns_digest,
    digest_of,
    from_bytes,
)
from onefold.federated.number_sums import NumberRelease
from onefold.federated.rules import align

# Kinds of Flower message; Flower wants them to begin with a word of its own.
ANSWERS, PROFILE, MODEL, SEALED = "query.answers", "query.profile", "query.model", "query.sealed"
SUMS = "query.sums"
FACTS = "query.facts"
SUM_STEP = "query.sumstep"
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
        if folder.paused.exists() and kind in (MODEL, SUMS, SUM_STEP, ANSWERS, SEALED):
            return [Failure(NO_QUERY, name, FailureCode.PAUSED)]
        if kind in (ANSWERS, SEALED):
            return _answers(folder, message.content, kind == SEALED)
        if kind in (SUM_STEP, KEPT_OUT):
            return [(_summed if kind == SUM_STEP else _kept_out)(folder, message.content)]
        if kind in SENDERS:
            return [SENDERS[kind](folder)]
    except MessageError as error:
        LOG.warning("refused a message: %s", error)
        code = FailureCode.TOO_LARGE if "larger" in str(error) else FailureCode.MALFORMED
        return [Failure(NO_QUERY, name, code)]
    except QueryRefused as refusal:
        LOG.warning("refused a message code=%s", refusal.code)
        return [Failure(NO_QUERY, name, FailureCode(refusal.code))]
    except Exception as error:
        LOG.error("failed kind=%s error=%s", kind, type(error).__name__)
        code = FailureCode.NOT_READY if kind in (PROFILE, MODEL, SUMS) else FailureCode.INTERNAL
        return [Failure(NO_QUERY, name, code)]
    LOG.warning("refused a message of an unknown kind")
    return [Failure(NO_QUERY, name, FailureCode.MALFORMED)]


def _profile(folder: SiteFolder) -> Message:
    """What the site says about its model; that it has none, if it takes part in encrypted sums only."""
    settings = folder.settings
    if settings.takes_part_in_sums and find_profile(folder) is None:
        return Failure(NO_QUERY, settings.name, FailureCode.NO_MODEL)
    return read_profile(folder)


def _kept_out(folder: SiteFolder, content: Any) -> Message:
    """Note that the server keeps the site out, and why."""
    message = None
    with suppress(MessageError):
        message = from_records(content)[0]
    write_whole(folder.kept_out, message.reason.encode() if isinstance(message, Refusal) else b"")
    return read_profile(folder)


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
    signed: list[AnySignature | None] = []
    for query in queries:
        signature = signatures.get(query.id, signatures.get(EVERY))
        if isinstance(signature, SumSignature):
            raise MessageError("the signature is one of an encrypted sum")
        signed.append(signature)
    counted: list[str | None] = [None] * len(queries)
    if key is None and scores is None and len(queries) > 1:
        counted = _counted_together(folder, queries, caller, signed)
    each = zip(queries, signed, counted, strict=True)
    return [answer(folder, query, caller, key, scores, signature, of) for query, signature, of in each]


def _counted_together(
    folder: SiteFolder, queries: Sequence[Query], caller: str, signed: Sequence[AnySignature | None]
) -> list[str | None]:
    """Count the rows of all queries of a message in one step; the account of each.

    Only if all of them may be answered, since rows that are counted stay counted. Otherwise nothing is
    counted, and each is looked at alone.
    """
    settings = folder.settings
    try:
        profile = read_profile(folder)
        for query in queries:
            _check_query(settings, profile, query)
        pairs = zip(queries, signed, strict=True)
        accounts = [recognised(folder, settings, query, caller, signature) for query, signature in pairs]
        _served(folder, profile)
        if len(set(accounts)) == 1 and are_covered(folder, settings, queries, signed):
            _admit(folder, settings, accounts[0], sum(len(query.features) for query in queries))
            return list(accounts)
    except OSError:  # as on a full disk: the rows may be counted already, and are not counted again
        raise
    except Exception:  # whatever it is, the queries that it is about are told so
        LOG.info("queries of one message are counted one by one")
    return [None] * len(queries)


def _summed(folder: SiteFolder, content: Any) -> Message:
    """Take one step of an encrypted sum."""
    signatures, (parcel, *others) = signatures_of(content), from_records(content)
    if not isinstance(parcel, SumParcel) or others:
        raise MessageError("a step of an encrypted sum travels alone")
    signature = signatures.get(parcel.query_id)
    if not isinstance(signature, SumSignature | None):
        raise MessageError("the signature is none of an encrypted sum")
    return take_step(folder, parcel, signature)


# What a failure names as its query when there was none.
NO_QUERY = "none"
EVERYBODY = "all-callers"

PathLike = str | os.PathLike[str]
Notes = Mapping[str, Any]  # plain values for JSON


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
    recipe: Notes | None = None,
    check: Callable[[], None] = lambda: None,
) -> Profile:
    """Keep a fitted model, and what the site will say about it and about the columns it was fitted to.

    Sums of its rows are kept, and sent to the server that asks for them, only if ``send_plain_sums`` says so.
    What else is known about the fit stays here. All of it takes the place of the fit before, or nothing does.
    """
    sums = sums_of(folder.settings.name, model) if send_plain_sums else None
    digest = None if sums is None else digest_of(sums.content)
    profile = replace(model.profile(folder.settings.name), columns=columns_digest(columns), sums=digest)
    files: dict[Path, Any] = {model_of(folder, profile): partial(model.save, with_rows=False)}
    if sums is not None:
        files[sums_path(folder, profile)] = sums.to_bytes()
    return keep(folder, profile, files, recipe, check)


def store_moments(
    folder: SiteFolder,
    content: bytes,
    columns: Sequence[str] | None = None,
    recipe: Notes | None = None,
    check: Callable[[], None] = lambda: None,
) -> Profile:
    """Keep private moments, to be sent to the server; a model that was there before is deleted.

    The site has nothing else: it answers no query and has no model to send.
    """
    sums = PrivateSums(folder.settings.name, content)
    profile = moments_profile(sums, MOMENTS, columns_digest(columns))
    return keep(folder, profile, {sums_path(folder, profile): sums.to_bytes()}, recipe, check)


def store_numbers(
    folder: SiteFolder,
    content: bytes,
    agreed: NumberRelease,
    recipe: Notes | None = None,
    check: Callable[[], None] = lambda: None,
) -> Profile:
    """Keep moments of numbers to predict, as :func:`store_moments` does; plain sums if they have no noise."""
    name, schema = folder.settings.name, agreed.schema.digest
    sums: SiteSums = PrivateSums(name, content)
    if agreed.epsilon is None:
        sums = PlainSums(name, schema, NUMBERS_RADIUS, agreed.n_directions, content)
    profile = moments_profile(sums, NUMBERS)
    return keep(folder, profile, {sums_path(folder, profile): sums.to_bytes()}, recipe, check)


def withdraw_sums(folder: SiteFolder) -> None:
    """Delete plain sums that were to be sent, if there are any; what was sent stays sent."""
    profile = find_profile(folder)
    if profile is not None and profile.sums is not None:
        if profile.sends_only_sums:
            raise InvalidInputError(
                "this site predicts numbers, from sums alone: fit it again with --epsilon"
                if profile.measure == NUMBERS
                else "this site has private moments to send and no answers: fit it again with --method rows"
            )
        write_profile(folder, replace(profile, sums=None))
        settle(folder)


def warm(folder: SiteFolder) -> None:
    """Load the model, if there is one, so that a process forked from this one need not."""
    with suppress(Exception):
        profile = read_profile(folder)
        if profile.sends_only_sums:
            return
        model = _served(folder, profile)
        if profile.sums is not None and not model.schema_.plain:  # drawing the lift takes a while too
            declared_agreement(model.schema_).rows(np.zeros((1, profile.n_features)))


def _served(folder: SiteFolder, profile: Profile) -> LocalModel:
    """The model that a profile speaks of; it is read again only when there is another one."""
    return _model(folder.root, profile.model_digest)


@lru_cache(maxsize=1)
def _model(root: Path, digest: str) -> LocalModel:
    with served_model(SiteFolder(root), digest) as path:
        return LocalModel.load(path)


# --- what a site sends ------------------------------------------------------------------------------------


def answer(
    folder: SiteFolder,
    query: Query,
    caller: str,
    lock: QueryKey | None = None,
    scores: PublicScores | None = None,
    signature: AnySignature | None = None,
    account: str | None = None,
) -> Message:
    """One number per row and class, if the data owner and the guard allow it; encrypted if there is a key.

    With the scores of the server they are added to the squared distances before anything is encrypted. A site
    that sends no sums takes no scores. With an ``account`` the querier was recognised and the rows were
    counted already, together with other queries of the same message.
    """
    settings = folder.settings
    code = FailureCode.NOT_READY
    try:
        profile = read_profile(folder)
        code = FailureCode.INTERNAL
        _check_query(settings, profile, query, lock)
        if scores is not None and profile.sums is None:
            raise QueryRefused(FailureCode.MALFORMED)
        by = recognised(folder, settings, query, caller, signature, lock) if account is None else account
        client = None if lock is None else opened_lock(folder, lock, profile.classes, len(query.features))
        model = _served(folder, profile)
        if scores is not None:
            model = joined_model(model, scores)
        if account is None:
            _admit(folder, settings, by, len(query.features))
        answers = model.answer(query, profile.site)
        reply = answers if lock is None or client is None else sealed(client, answers, lock)
        leaving(folder, settings, query, caller, signature, lock is not None)
        return reply
    except Changed:  # the site was fitted anew between two looks at its files; nothing more is counted yet
        return answer(folder, query, caller, lock, scores, signature, account)
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


def _check_query(
    settings: SiteSettings, profile: Profile, query: Query, lock: QueryKey | None = None
) -> None:
    """Refuse a query that the model cannot answer, or whose answers may not leave in clear."""
    if profile.sends_only_sums:  # what it may give away is with the server
        raise QueryRefused(FailureCode.MALFORMED)
    if query.features.shape[1] != profile.n_features:
        raise QueryRefused(FailureCode.WRONG_FEATURES)
    if lock is None and settings.sends == "sealed-answers":
        raise QueryRefused(FailureCode.SEALED_ONLY)


def _admit(folder: SiteFolder, settings: SiteSettings, caller: str, n_rows: int) -> None:
    """Count rows for one querier and for everybody together.

    A querier that signs is counted by its key. Where the server only names queriers, the limit for everybody
    is the one that cannot be talked around; names only share it out.
    """
    with folder.store.transaction():
        QueryGuard(None, settings.caller_total, folder.store, name="callers").admit(caller, n_rows)
        QueryGuard(settings.per_minute, settings.total, folder.store).admit(EVERYBODY, n_rows)


def model_parcel(folder: SiteFolder) -> Message:
    """The model itself, if the site has allowed that and it is private, or allowed to go as it is."""
    settings, profile = folder.settings, read_profile(folder)
    if not may_send(settings, profile):
        LOG.warning("refused to send the model")
        return Failure(NO_QUERY, settings.name, FailureCode.NOT_PRIVATE)
    with served_model(folder, profile.model_digest) as path:
        content = path.read_bytes()
    note_sent(folder, SiteEvent.MODEL_SENT, model=profile.model_digest)
    LOG.warning("sent the model digest=%s", profile.model_digest)
    return ModelParcel(settings.name, content)


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
    if profile.sends_only_sums:  # there is no model but the moments
        return False
    stands = profile.guarantee is not None and bool(profile.guarantee["holds"])
    return settings.sends == "raw-model" or (settings.sends == "private-model" and stands)


# What a site sends by itself, whatever the question holds.
SENDERS = {PROFILE: _profile, MODEL: model_parcel, SUMS: _sums, FACTS: facts_of}


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
        if key.parameters.message_size(n_rows * lock.looks) > Limits().max_bytes:
            raise QueryRefused(FailureCode.TOO_LARGE)
        return Client(key, folder.settings.name)
    except MissingDependencyError:
        raise QueryRefused(FailureCode.NO_ENCRYPTION) from None
    except MessageError:
        raise QueryRefused(FailureCode.MALFORMED) from None


def quantised(answers: Answers, lock: QueryKey) -> Integers:
    """Whole numbers for the classes of a query key, look after look; -1 for a class the site lacks."""
    values = answers.values.astype(np.float64)
    aligned = align(values, np.array(answers.classes), np.array(lock.classes), np.nan)
    map_ = MeasureMap(lock.bits, lock.bound, lock.power, lock.floor, lock.looks, lock.knots)
    return map_.numbers(aligned)


def sealed(client: Client, answers: Answers, lock: QueryKey) -> SealedAnswers:
    """The encrypted answers of a site: only the server's sum and the querier's key make them readable."""
    encrypted = client.encrypt(quantised(answers, lock), answers.query_id)
    return SealedAnswers(answers.query_id, answers.site, encrypted.to_bytes())


# --- between our messages and Flower's records --------------------------------------------------------------


MOST_MESSAGES = 256
SPARE_BYTES = 2**20  # by which Flower's arrays are longer than what is in them
CALLER, MESSAGES = "caller", "messages"
SIGNATURES, LONGEST_SIGNATURE = "signatures", 2**16
EVERY = "*"  # what stands for a query where a signature is that of the query key


def to_records(
    messages: Sequence[Message], caller: str | None = None, signatures: Sequence[SentSignature | None] = ()
) -> Any:
    """Flower's ``RecordDict`` of some messages, in one array: Flower stores every array by itself."""
    app = require("flwr.app", "federated")
    bundle = Bundle(tuple(message.to_bytes() for message in messages)).to_bytes()
    array = app.Array(np.frombuffer(bundle, dtype=np.uint8))
    content: dict[str, Any] = {MESSAGES: app.ArrayRecord({"bundle": array})}
    if caller is not None:
        signed = [signature.to_bytes() for signature in signatures if signature is not None]
        content[CALLER] = app.ConfigRecord({"name": caller, **({SIGNATURES: signed} if signed else {})})
    return app.RecordDict(content)


def from_records(content: Any, limits: Limits | None = None) -> list[Message]:
    """The messages in Flower's ``RecordDict``; whatever else it may hold is refused."""
    limits = Limits() if limits is None else limits
    try:
        if set(content) - {CALLER} != {MESSAGES}:
            raise MessageError("the records are not those of a federation")
        (array,) = content[MESSAGES].values()
        if content[MESSAGES].count_bytes() > limits.max_bytes + SPARE_BYTES:
            raise MessageError("the message is larger than allowed")
        parts = Bundle.from_bytes(array.numpy().tobytes()).parts
        if not 0 < len(parts) <= MOST_MESSAGES:
            raise MessageError("there must be at least one message, and not too many")
        return [from_bytes(part, limits) for part in parts]
    except MessageError:
        raise
    except Exception:  # whatever Flower's records may raise, nothing of it is passed on
        raise MessageError("the records cannot be read") from None


def caller_of(content: Any) -> str:
    """Who asks, as the server says."""
    try:
        name = content[CALLER]["name"]
    except Exception:
        raise MessageError("the query does not say who asks") from None
    if not isinstance(name, str):
        raise MessageError("the query does not say who asks")
    return name


def signatures_of(content: Any) -> dict[str, SentSignature]:
    """The queriers' signatures, by the ids of their queries; they are not checked yet.

    Each query has one at most. The signature of a query key is under ``EVERY``.
    """
    limits, found = Limits(max_bytes=LONGEST_SIGNATURE), {}
    try:
        contents = content[CALLER].get(SIGNATURES, [])
        signatures = [from_bytes(each, limits) for each in contents[: MOST_MESSAGES + 1]]
    except Exception:
        raise MessageError("the signatures cannot be read") from None
    for signature in signatures:
        if not isinstance(signature, SentSignature) or len(signatures) > MOST_MESSAGES:
            raise MessageError("the signatures cannot be read")
        found[getattr(signature, "query", EVERY)] = signature
    if len(found) < len(signatures):
        raise MessageError("a query has two signatures")
    return found
