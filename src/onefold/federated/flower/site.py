"""A site: fit a model where the data is, say what it promises, and answer queries from the site's own disk.

:class:`Site` is what the site's owner uses. The functions below it answer one message each, in a process of
their own, with numbers, encrypted numbers, or one of a few fixed words when something fails.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Integers
from onefold.exceptions import (
    FederationError,
    InvalidInputError,
    MessageError,
    MissingDependencyError,
    QueryRefused,
)
from onefold.federated.fhe import Client, Quantiser
from onefold.federated.fhe import messages as fhe_messages
from onefold.federated.flower.folders import SiteFolder, SiteSettings, write_private
from onefold.federated.flower.processes import Watch
from onefold.federated.flower.supernode import GIVE_UP_SECONDS, Node
from onefold.federated.guard import QueryGuard
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import (
    Answers,
    ClassLabels,
    Failure,
    FailureCode,
    Limits,
    Message,
    ModelParcel,
    Profile,
    Query,
    QueryKey,
    SealedAnswers,
    check_digest,
    columns_digest,
    from_parts,
    to_parts,
)
from onefold.federated.rules import align

__all__ = [
    "NO_QUERY",
    "Site",
    "answer",
    "may_send",
    "model_parcel",
    "opened_lock",
    "quantised",
    "read_profile",
    "sealed",
    "store_model",
    "warm",
]

LOG = logging.getLogger(__name__)
# What a failure names as its query when there was none.
NO_QUERY = "none"
EVERYBODY = "all-callers"

PathLike = str | os.PathLike[str]


class Site:
    """A site of a federation, on the machine with its data.

    Parameters
    ----------
    folder : str or path-like, default="."
        The site's folder, which the server's operator made and handed over.

    Attributes
    ----------
    folder : SiteFolder
        The folder and the paths in it.
    settings : SiteSettings
        Where the server is and what may leave this site, as the folder holds it now.
    profile : Profile
        What the site says about its model to the server.

    See Also
    --------
    Federation : The server's end.
    onefold.federated.LocalModel : The model that a site fits.

    Notes
    -----
    Only outgoing connections to the server are made. The model, the counters of rows answered and the log of
    queries are in the folder, readable by their owner only. Without a mechanism every answer is a function of
    raw rows: the limits bound how much is asked, not what is learned.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from onefold.federated.flower import Federation, Site
    >>> home = tempfile.TemporaryDirectory()
    >>> _ = Federation.create(home.name, ["north"], insecure=True)
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]])
    >>> site = Site(home.name + "/sites/north").fit(X, ["low", "low", "high", "high"])
    >>> site.profile.classes, site.profile.guarantee
    (('high', 'low'), None)
    >>> site.serve()  # doctest: +SKIP
    >>> home.cleanup()
    """

    def __init__(self, folder: PathLike = ".") -> None:
        self.folder = SiteFolder(Path(folder))
        if not self.folder.settings_file.is_file():
            raise InvalidInputError(
                f"{folder}: no site's folder; name the one that the server's operator made"
            )
        self._watch: Watch | None = None

    @property
    def settings(self) -> SiteSettings:
        """Where the server is and what may leave this site, as the folder holds it now."""
        return self.folder.settings

    @property
    def profile(self) -> Profile:
        """What the site says about its model to the server."""
        return read_profile(self.folder)

    @property
    def is_running(self) -> bool:
        """Whether :meth:`start` was called and nothing has failed since."""
        return self._watch is not None and self._watch.error is None

    @property
    def model_may_leave(self) -> bool:
        """Whether the model itself may go to the server: its guarantee holds, or its owner insists."""
        return may_send(self.settings, self.profile)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        estimator: Any = None,
        mechanism: Any = None,
        *,
        fabricate: bool = True,
        label_mechanism: Any = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Fit a model of the site's rows and keep it in the folder; its rows are not kept.

        Every fit with a mechanism draws new noise and spends its epsilon again: fit once.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows of this site.
        y : array-like of shape (n,)
            Class of each row, whole numbers or texts.
        estimator : estimator, default=None
            Classifier with ``distances``, as in :class:`onefold.federated.LocalModel`; the same at all sites.
        mechanism : Mechanism, default=None
            Noise for the rows, for example ``OptimalNoise(1.0)``; None models raw rows.
        fabricate : bool, default=True
            Smooth after the noise.
        label_mechanism : RandomisedLabels, default=None
            Noise for the labels; None leaves labels and class sizes uncovered.
        columns : sequence of str, default=None
            Names of the features, which the server compares; None takes those of a data frame.

        Returns
        -------
        Site
            This object.
        """
        model = LocalModel(
            estimator, mechanism, fabricate=fabricate, label_mechanism=label_mechanism, keep_rows=False
        )
        return self.store(model.fit(X, y), column_names(X) if columns is None else columns)

    def store(self, model: LocalModel, columns: Sequence[str] | None = None) -> Self:
        """Keep a fitted model in the folder, to answer with it.

        Parameters
        ----------
        model : LocalModel
            A fitted model.
        columns : sequence of str, default=None
            Names of the features, which the server compares.

        Returns
        -------
        Site
            This object.
        """
        store_model(self.folder, model, columns)
        return self

    def configure(
        self,
        *,
        per_minute: int | None = None,
        total: int | None = None,
        caller_total: int | None = None,
        sends: str | None = None,
        trust_keys: Iterable[str] = (),
    ) -> Self:
        """Change what may leave this site; kept for the next start.

        Parameters
        ----------
        per_minute : int, default=None
            Rows answered per minute to all callers together; None keeps what is set.
        total : int, default=None
            Rows answered for ever to all callers together; None keeps what is set.
        caller_total : int, default=None
            Rows answered for ever to each caller that the server names; None keeps what is set.
        sends : {"answers", "sealed-answers", "private-model", "raw-model"}, default=None
            What may leave: answers, encrypted answers only, also a model whose guarantee holds, or also a
            model of raw rows. None keeps what is set.
        trust_keys : iterable of str, default=()
            Ids of queriers' keys under which encrypted answers are given; after the first one no other key
            will do.

        Returns
        -------
        Site
            This object.
        """
        given = {"per_minute": per_minute, "total": total, "caller_total": caller_total, "sends": sends}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        settings = replace(self.settings, **changes)
        trusted = {check_digest(key) for key in trust_keys}
        if trusted:
            lines = sorted(trusted | (self.folder.trusted_key_ids or frozenset()))
            write_private(self.folder.trusted_keys, "".join(f"{line}\n" for line in lines).encode())
        if settings != self.settings:
            settings.save(self.folder.settings_file)
        return self

    def start(self, *, say: Callable[[str], None] = lambda _: None, give_up: float = GIVE_UP_SECONDS) -> Self:
        """Connect and answer queries in the background of this process.

        Parameters
        ----------
        say : callable, default=lambda _: None
            Called with what happens, one line at a time.
        give_up : float, default=300.0
            Seconds after which a site that the server refuses gives up.

        Returns
        -------
        Site
            This object; :meth:`stop`, leaving a ``with`` block or the end of the process stops it.

        Raises
        ------
        FederationError
            If there is no model yet, or this object runs already.
        """
        if self._watch is not None:
            raise FederationError("this object runs the site already")
        read_profile(self.folder)
        node = Node(self.folder, say, give_up)
        self._watch = Watch(node.check, node.stop)
        return self

    def stop(self) -> None:
        """Disconnect; does nothing if :meth:`start` was not called.

        Raises
        ------
        FederationError
            If the site had failed before, for example because the server refused it.
        """
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def serve(
        self,
        seconds: float | None = None,
        *,
        say: Callable[[str], None] = lambda _: None,
        give_up: float = GIVE_UP_SECONDS,
        keep_going: Callable[[], bool] = lambda: True,
    ) -> None:
        """Connect and answer queries until interrupted.

        Parameters
        ----------
        seconds : float, default=None
            Stop after this time.
        say : callable, default=lambda _: None
            Called with what happens, one line at a time.
        give_up : float, default=300.0
            Seconds after which a site that the server refuses gives up.
        keep_going : callable, default=lambda: True
            Called twice a second; when it returns False the site stops.

        Raises
        ------
        FederationError
            If there is no model yet, or the server keeps the site out.
        """
        read_profile(self.folder)
        with Node(self.folder, say, give_up) as node:
            Watch.until(node.check, seconds, keep_going)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Site({str(self.folder.root)!r})"


# --- the model on disk ------------------------------------------------------------------------------------


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame, if all are texts."""
    names = list(getattr(X, "columns", ()))
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


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
        raise FederationError("this site has no model yet: fit one with --data and --label, or Site.fit")
    return profile


def warm(folder: SiteFolder) -> None:
    """Load the model, if there is one, so that a process forked from this one need not."""
    with suppress(Exception):
        _model(folder.model, read_profile(folder).model_digest)


@lru_cache(maxsize=1)
def _model(path: Path, digest: str) -> LocalModel:
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise FederationError("the model is not the one the profile speaks of")
    return LocalModel.load(path)


# --- what a site sends ------------------------------------------------------------------------------------


def answer(folder: SiteFolder, query: Query, caller: str, lock: QueryKey | None = None) -> Message:
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
        answers = _model(folder.model, profile.model_digest).answer(query, profile.site)
        return answers if lock is None or client is None else sealed(client, answers, lock)
    except QueryRefused as refusal:
        code = FailureCode(refusal.code)
    except Exception as error:
        # The kind of error only: its text may quote rows.
        LOG.error("failed query=%s code=%s error=%s", query.id, code, type(error).__name__)
    return Failure(query.id, settings.name, code)


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


# --- encrypted answers ------------------------------------------------------------------------------------
# The site sees the public key only. It can decrypt nothing, not even its own message.


def opened_lock(folder: SiteFolder, lock: QueryKey, own: ClassLabels, n_rows: int) -> Client:
    """What encrypts under a query key, if the owner allows this key and the site can answer under it.

    Whoever made the key can read what is encrypted with it, and the key comes by way of the server: an owner
    who does not trust the server says which keys are a querier's.
    """
    trusted = folder.trusted_key_ids
    if trusted is not None and lock.key_id not in trusted:
        raise QueryRefused(FailureCode.UNTRUSTED_KEY)
    if not set(own) <= set(lock.classes):
        raise QueryRefused(FailureCode.OTHER_CLASSES)
    try:
        key = fhe_messages.from_bytes(fhe_messages.PublicKey, lock.content)
        if (key.key_id, key.n_classes, key.bits) != (lock.key_id, len(lock.classes), lock.bits):
            raise MessageError("the query key and its public key do not belong together")
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
