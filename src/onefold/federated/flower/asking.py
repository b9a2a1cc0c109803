"""Ask the sites of a federation and combine what they say: rows in, one result out.

In query mode the run carries the rows to the sites. In model mode the models are at the server and no row
leaves it. Encrypted queries are a third way: the rows go to the sites, and one encrypted result returns.
"""

from __future__ import annotations

import io
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Array
from onefold.exceptions import FederationError, FileFormatError, InvalidInputError, OnefoldError
from onefold.federated.flower.folders import ServerFolder, write_private
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.spool import NOT_RUNNING, Request, Spool
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import Answers, Failure, FailureCode, Lock, Profile, Query, SealedResult
from onefold.federated.server import GlobalClassifier, Result
from onefold.federated.trust import HiddenProbes, hide

__all__ = [
    "Asking",
    "AskingModels",
    "AskingSealed",
    "AskingSites",
    "Combining",
    "Gathered",
    "QueryResult",
    "keep_held_out",
    "new_query_id",
    "way_of_asking",
]

# The server's run has this long beyond the sites' time to hand over what came.
GRACE = 60.0
NO_HELD_OUT = "the weighted rule needs held-out rows with known classes: give held_out (--held-out FILE)"

LabelledRows = tuple[AnyArray, AnyArray]


# --- results ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class QueryResult:
    """What a federation answered to one query, and which sites had a part in it.

    Parameters
    ----------
    predictions : ndarray of shape (n,)
        Predicted class of each row.
    measures : ndarray of shape (n, C) or None
        Combined measure of each row by each class. None for an encrypted query, which tells the closest class
        and nothing else, and where sites with classes of their own came or went between two batches.
    classes : ndarray of shape (C,)
        Labels of the columns of ``measures``.
    answered : tuple of str
        Sites whose answers were used.
    missing : tuple of str
        Members that sent no answer.
    refused : dict of str to str
        Sites whose answers were not used, with the reason in one fixed word.
    partial : bool
        Whether the answers of any member are missing or were refused.
    outliers : dict of str to str, default={}
        Sites whose answers were used but look odd, with the reason.
    unprotected : tuple, default=()
        Classes that the rule could not protect against the announced number of lying sites.
    kept_out : dict of str to str, default={}
        Sites that are connected but were not asked, because they do not fit the members, with the reason.
    encryption : dict of str to Any, default={}
        For an encrypted query the id of the key, bits, bound, power and floor of the map to whole numbers,
        and the number of ties.

    See Also
    --------
    Federation.query : Returns this.
    onefold.federated.Result : What combining the answers to one batch gives.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated.flower import QueryResult
    >>> labels = np.array(["a", "b"])
    >>> found = QueryResult(labels, None, labels, ("north",), ("south",), {}, True)
    >>> found.n_rows, found.partial, found.missing
    (2, True, ('south',))
    """

    predictions: AnyArray
    measures: Array | None
    classes: AnyArray
    answered: tuple[str, ...]
    missing: tuple[str, ...]
    refused: dict[str, str]
    partial: bool
    outliers: dict[str, str] = field(default_factory=dict)
    unprotected: tuple[Any, ...] = ()
    kept_out: dict[str, str] = field(default_factory=dict)
    encryption: dict[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows that were asked about."""
        return len(self.predictions)

    @classmethod
    def of(cls, results: Sequence[Result], kept_out: Mapping[str, str]) -> QueryResult:
        """Join the results of all batches of a query."""
        classes = results[0].classes
        alike = all(np.array_equal(each.classes, classes) for each in results)
        return cls(
            predictions=np.concatenate([each.labels for each in results]),
            measures=np.concatenate([each.measures for each in results]) if alike else None,
            classes=classes if alike else np.unique(np.concatenate([each.classes for each in results])),
            answered=_sites(each.answered for each in results),
            missing=_sites(each.missing for each in results),
            refused={site: code for each in results for site, code in each.refused.items()},
            partial=any(each.partial for each in results),
            outliers={site: code for each in results for site, code in each.outliers.items()},
            unprotected=tuple(dict.fromkeys(label for each in results for label in each.unprotected)),
            kept_out=dict(kept_out),
        )


def _sites(groups: Iterator[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({site for group in groups for site in group}))


# --- ways of asking ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Gathered:
    """What came back for one query: whom it was expected of, and the message of each site that spoke."""

    query: Query
    expected: tuple[str, ...]
    messages: dict[str, Answers | Failure]
    profiles: dict[str, Profile]
    sealed: SealedResult | None = None


class Asking(ABC):
    """A way of having the sites' models answer queries."""

    def __init__(self, folder: ServerFolder) -> None:
        self.registry = Registry(folder)
        self.folder = folder

    @abstractmethod
    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """What came back for each query, in their order."""

    def _profiles(self) -> dict[str, Profile]:
        members = self.registry.members.items()
        return {name: site.profile for name, site in members if site.profile is not None}


class AskingSites(Asking):
    """Query mode: rows go to the sites, one number per row and class returns."""

    def __init__(self, folder: ServerFolder, caller: str, timeout: float) -> None:
        super().__init__(folder)
        self.caller, self.timeout = caller, timeout

    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """All queries are handed in at once, so that they travel together."""
        spool = _running(self.folder)
        try:
            for query in queries:
                spool.submit(Request(query, self.caller, self.timeout))
            for query in queries:
                reply = spool.wait(query.id, self.timeout + GRACE)
                spoken = {m.site: m for m in reply.messages if isinstance(m, Answers | Failure)}
                yield Gathered(query, reply.expected, spoken, self._profiles())
        finally:  # nobody waits for the rest any more
            spool.withdraw(query.id for query in queries)


class AskingSealed(Asking):
    """Query mode with encrypted answers: this side sees one result of all sites, and no site's numbers.

    Parameters
    ----------
    lock : what the sites answer under. evaluation_keys : makes what the server computes with, if it does not
        have them from an earlier query.
    """

    def __init__(
        self,
        folder: ServerFolder,
        caller: str,
        timeout: float,
        lock: Lock,
        evaluation_keys: Callable[[], bytes],
    ) -> None:
        super().__init__(folder)
        self.caller, self.timeout, self.lock = caller, timeout, lock
        self._evaluation_keys = evaluation_keys

    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """One after the other: sealed answers are large."""
        spool = _running(self.folder)
        if not spool.keys(self.lock.key_id).exists():
            write_private(spool.keys(self.lock.key_id), self._evaluation_keys())
        for query in queries:
            try:
                spool.submit(Request(query, self.caller, self.timeout, self.lock))
                # Computing on encrypted answers takes seconds to minutes, however short the timeout is.
                reply = spool.wait(query.id, self.timeout + GRACE, spool.job(query.id).exists)
            finally:
                spool.withdraw([query.id])
            failures: dict[str, Answers | Failure] = {
                m.site: m for m in reply.messages if isinstance(m, Failure)
            }
            sealed = next((m for m in reply.messages if isinstance(m, SealedResult)), None)
            yield Gathered(query, reply.expected, failures, self._profiles(), sealed)


class AskingModels(Asking):
    """Model mode: the sites' models are here, and nobody else is asked."""

    def ask(self, queries: Sequence[Query]) -> Iterator[Gathered]:
        """Each model is loaded once."""
        profiles = self._profiles()
        models = {name: self._load(name) for name in profiles}
        for query in queries:
            spoken = {name: _answer(model, query, name) for name, model in models.items()}
            yield Gathered(query, tuple(profiles), spoken, profiles)

    def _load(self, name: str) -> LocalModel | None:
        try:
            return LocalModel.load(self.folder.models / f"{name}.onefold")
        except OnefoldError:
            return None


def _answer(model: LocalModel | None, query: Query, name: str) -> Answers | Failure:
    if model is None:
        return Failure(query.id, name, FailureCode.NOT_READY)
    try:
        return model.answer(query, name)
    except (OnefoldError, ValueError):
        return Failure(query.id, name, FailureCode.WRONG_FEATURES)


def way_of_asking(folder: ServerFolder, caller: str, timeout: float) -> Asking:
    """The way a server was set up for."""
    if folder.settings.mode == "model":
        return AskingModels(folder)
    return AskingSites(folder, caller, timeout)


def new_query_id() -> str:
    """An id nobody can guess."""
    return secrets.token_hex(16)


def _running(folder: ServerFolder) -> Spool:
    spool = Spool(folder.spool)
    if spool.status() is None:
        raise FederationError(NOT_RUNNING)
    return spool


# --- combining --------------------------------------------------------------------------------------------


class Combining:
    """From rows to queries, and from what came back to a result, by one rule.

    Parameters
    ----------
    folder : the server's. rule, n_liars : None takes the server's. held_out : rows and classes for the
        weighted rule; None takes those kept in the server's folder.
    """

    def __init__(
        self, folder: ServerFolder, rule: str | None, n_liars: int | None, held_out: LabelledRows | None
    ) -> None:
        settings = folder.settings
        rule = settings.rule if rule is None else rule
        self.server = GlobalClassifier(rule, n_liars=settings.n_liars if n_liars is None else n_liars)
        if rule != "weighted" and held_out is not None:
            raise InvalidInputError("held-out rows (--held-out) are for the weighted rule only")
        if rule == "weighted" and held_out is None:
            held_out = kept_held_out(folder.held_out)
        self.held_out = held_out

    def query(self, rows: Array, query_id: str) -> HiddenProbes:
        """What to ask: the rows, with the held-out ones hidden among them."""
        hidden = None if self.held_out is None else np.asarray(self.held_out[0]).astype(rows.dtype)
        return hide(rows, hidden, query_id)

    def result(self, hidden: HiddenProbes, gathered: Gathered) -> Result:
        """One result from what came back; a :class:`FederationError` if none is possible."""
        alone, labelled = hidden.parted(gathered.messages)
        try:
            if self.held_out is not None:
                self.server.learn_trust(None, self.held_out[1], labelled)
            return self.server.combine(
                alone, gathered.expected, query=hidden.asked, profiles=gathered.profiles
            )
        except InvalidInputError as error:
            raise FederationError(f"no answer can be used: {error}; {_codes(gathered)}") from None


def keep_held_out(folder: ServerFolder, rows: LabelledRows) -> None:
    """Write held-out rows into the server's folder, for its owner only."""
    content = io.BytesIO()
    np.savez(content, X=rows[0], y=rows[1])
    write_private(folder.held_out, content.getvalue())


def kept_held_out(path: Path) -> LabelledRows:
    """Read what :func:`keep_held_out` wrote."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return found["X"], found["y"]
    except FileNotFoundError:
        raise InvalidInputError(NO_HELD_OUT) from None
    except (OSError, ValueError, KeyError):
        raise FileFormatError(f"{path}: the held-out rows cannot be read") from None


def _codes(gathered: Gathered) -> str:
    codes = []
    for site in gathered.expected:
        message = gathered.messages.get(site)
        said = "answered" if message is not None else "absent"
        codes.append(f"{site} {message.code if isinstance(message, Failure) else said}")
    return ", ".join(codes) or "there is no member"
