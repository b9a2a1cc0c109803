"""Ask the sites of a federation and combine what they say: rows in, one result out.

In query mode the run carries the rows to the sites. In model mode the models are at the server and no row
leaves it. Encrypted queries, a third way, are in :mod:`onefold.federated.flower.encrypted`.
"""

import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Array, Floats, Labels
from onefold._base.records import NumberArray, Record, record
from onefold.exceptions import (
    FederationError,
    FileFormatError,
    InvalidInputError,
    OnefoldError,
    ServerBusyError,
)
from onefold.federated.access.signatures import AnySignature
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.registry import Registry, RegistryEntry
from onefold.federated.flower.spool import NOT_RUNNING, Request, Spool
from onefold.federated.flower.sums import KeptSums
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import (
    MOMENTS,
    NUMBERS,
    Answers,
    Failure,
    FailureCode,
    Profile,
    Query,
    QueryKey,
    digest_of,
)
from onefold.federated.number_sums import Regressor, regressor_of
from onefold.federated.server import GlobalClassifier, Result
from onefold.federated.trust import HiddenProbes, hide
from onefold.tables import Schema

# The server's run has this long beyond the sites' time to hand over what came.
GRACE = 60.0
# Queries of one call that wait at the server at the same time: as many as travel together, twice.
TOGETHER = 128
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
        Sites that take part and sent no answer.
    refused : dict of str to str
        Sites whose answers were not used, with the reason in one fixed word.
    partial : bool
        Whether the answers of any site are missing or were refused.
    outliers : dict of str to str, default={}
        Sites whose answers were used but look odd, with the reason.
    unprotected : tuple, default=()
        Classes that the rule could not protect against the announced number of lying sites.
    kept_out : dict of str to str, default={}
        Sites that are connected but were not asked, because they do not fit the others, with the reason.
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


@dataclass(frozen=True)
class Collected:
    """Encrypted answers that the server wrote to a file for a querier elsewhere.

    Parameters
    ----------
    path : Path
        The file, which only the querier can decrypt.
    key_id : str
        Id of the key under which the sites answered.
    n_rows : int
        Number of rows that were asked about.
    answered : tuple of str
        Sites whose answers are in the result.
    missing : tuple of str
        Sites that take part and sent no answer.
    partial : bool
        Whether the answer of any site is missing.

    See Also
    --------
    Federation.collect : Returns this.

    Examples
    --------
    >>> from pathlib import Path
    >>> from onefold.federated.flower import Collected
    >>> Collected(Path("x.encrypted"), "0" * 64, 5, ("north",), (), False).partial
    False
    """

    path: Path
    key_id: str
    n_rows: int
    answered: tuple[str, ...]
    missing: tuple[str, ...]
    partial: bool


def joined(results: Sequence[Result], kept_out: Mapping[str, str]) -> QueryResult:
    """Join the results of all batches of a query."""
    classes = results[0].classes
    alike = all(np.array_equal(each.classes, classes) for each in results)
    return QueryResult(
        predictions=np.concatenate([each.labels for each in results]),
        measures=np.concatenate([each.measures for each in results]) if alike else None,
        classes=classes if alike else np.unique(np.concatenate([each.classes for each in results])),
        answered=all_sites(each.answered for each in results),
        missing=all_sites(each.missing for each in results),
        refused={site: code for each in results for site, code in each.refused.items()},
        partial=any(each.partial for each in results),
        outliers={site: code for each in results for site, code in each.outliers.items()},
        unprotected=tuple(dict.fromkeys(label for each in results for label in each.unprotected)),
        kept_out=dict(kept_out),
    )


def of_sum(
    rows: Array, answering: "Answering", sites: tuple[str, ...], kept_out: Mapping[str, str]
) -> QueryResult:
    """What the sum of the sites' private moments says."""
    classes, measures = answering(rows)
    labels = classes[measures.argmin(axis=1)]
    return QueryResult(labels, measures, classes, sites, (), {}, False, kept_out=dict(kept_out))


def all_sites(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The names in some groups, each once and sorted."""
    return tuple(sorted({site for group in groups for site in group}))


# --- ways of asking ---------------------------------------------------------------------------------------


# Makes the querier's signature of a query, and of the query key under which it is asked.
Sign = Callable[[Query, QueryKey | None], AnySignature | None]


def unsigned(query: Query, key: QueryKey | None) -> None:
    """No signature: the server's word says who asks."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """What came back for one query: whom it was expected of, and the message of each site that spoke."""

    query: Query
    expected: tuple[str, ...]
    messages: dict[str, Answers | Failure]
    profiles: dict[str, Profile]


def ask_members(
    folder: ServerFolder,
    queries: Sequence[Query],
    caller: str,
    timeout: float,
    sign: Sign = unsigned,
    loaded: "Loaded | None" = None,
) -> Generator[Gathered, None, None]:
    """What came back for each query, in their order, in the way that the server was set up for."""
    if folder.settings.mode == "model":
        return _ask_models(folder, queries, Loaded(folder) if loaded is None else loaded)
    return _ask_sites(folder, queries, caller, timeout, sign)


def _ask_sites(
    folder: ServerFolder, queries: Sequence[Query], caller: str, timeout: float, sign: Sign
) -> Generator[Gathered, None, None]:
    """Query mode: queries are handed in together, so that they travel together, as many as may wait.

    A server that is busy at the first one refuses the whole; later ones wait for their turn.
    """
    spool = running_spool(folder)
    handed = 0
    try:
        for number, query in enumerate(queries):
            while handed < min(len(queries), number + TOGETHER):
                request = Request(queries[handed], caller, timeout, signature=sign(queries[handed], None))
                try:
                    hand_in(spool, request, timeout if 0 < number == handed else 0.0)
                    handed += 1
                except ServerBusyError:
                    if handed == number:
                        raise
                    break  # the reply to one of ours comes first
            reply = spool.wait(query.id, timeout + GRACE)
            spoken = {m.site: m for m in reply.messages if isinstance(m, Answers | Failure)}
            yield Gathered(query, reply.expected, spoken, _profiles(folder))
    finally:  # nobody waits for the rest any more
        spool.withdraw(query.id for query in queries[:handed])


def _ask_models(
    folder: ServerFolder, queries: Sequence[Query], loaded: "Loaded"
) -> Generator[Gathered, None, None]:
    """Model mode: the sites' models are here, each is loaded once, and nobody else is asked."""
    profiles = _profiles(folder)
    models = loaded.models(profiles)
    for query in queries:
        spoken = {name: _answer(model, query, name) for name, model in models.items()}
        yield Gathered(query, tuple(profiles), spoken, profiles)


def _profiles(folder: ServerFolder) -> dict[str, Profile]:
    members = Registry(folder).members.items()
    return {name: site.profile for name, site in members if site.profile is not None}


def _answer(model: LocalModel | None, query: Query, name: str) -> Answers | Failure:
    if model is None:
        return Failure(query.id, name, FailureCode.NOT_READY)
    try:
        return model.answer(query, name)
    except (OnefoldError, ValueError):
        return Failure(query.id, name, FailureCode.WRONG_FEATURES)


def finite_rows(X: ArrayLike) -> Array:
    """Rows as a table of finite numbers; float32 stays, everything else becomes float64."""
    try:
        values: AnyArray = np.asarray(X)
        rows = values if values.dtype == np.float32 else values.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("the rows must be numbers") from None
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidInputError("the rows must be a table (n, p) with at least one row and one column")
    if not np.all(np.isfinite(rows)):
        raise InvalidInputError("the rows must be finite numbers")
    return rows


def new_query_id() -> str:
    """An id nobody can guess."""
    return secrets.token_hex(16)


def hand_in(spool: Spool, request: Request, seconds: float) -> None:
    """Hand a request in; while the server is busy, try again for at most so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            spool.submit(request, request.timeout + GRACE)
            return
        except ServerBusyError as error:
            if time.monotonic() + error.seconds > deadline:
                raise
            time.sleep(error.seconds)


def running_spool(folder: ServerFolder) -> Spool:
    """Where to hand in queries; a :class:`FederationError` if no server is running to fetch them."""
    spool = Spool(folder.spool)
    if spool.status() is None:
        raise FederationError(NOT_RUNNING)
    return spool


# --- what stays in memory between queries -----------------------------------------------------------------


# Digest of what a site speaks of, then inode, size and time of change of its file.
Stamp = tuple[str, int, int, int]
# Takes rows, returns classes and one measure per row and class.
Answering = Callable[[ArrayLike], tuple[Labels, Floats]]


class Loaded:
    """Models of the sites that take part, and those that their sums make; threads may share it.

    Reading a model takes longer than asking it. What was read stays while the site that it belongs to takes
    part, speaks of the same digest, and its file is the same; anything else is read again or forgotten.

    Parameters
    ----------
    folder : the server's.
    """

    def __init__(self, folder: ServerFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Any, Any]] = {}

    def models(self, profiles: Mapping[str, Profile]) -> dict[str, LocalModel | None]:
        """The model of each site that sent one; None where the file is gone, damaged or another."""
        found: dict[str, tuple[Stamp, LocalModel | None]] = {}
        with self._lock:
            _, before = self._kept.get("models", (None, {}))
            for name, profile in profiles.items():
                path = self._folder.models / f"{name}.onefold"
                stamp = _stamp(profile.model_digest, path)
                same = name in before and before[name][0] == stamp
                found[name] = before[name] if same else (stamp, _checked_model(path, profile))
            self._kept["models"] = None, found  # nothing stays of a site that has left
        return {name: model for name, (_, model) in found.items()}

    def moments(self, members: Mapping[str, RegistryEntry]) -> Answering | None:
        """What answers from the sum of private moments; None if the sites send none."""

        def make() -> Answering | None:
            made = KeptSums(self._folder).moments(members)
            return None if made is None else made.answering()

        return cast("Answering | None", self._once(MOMENTS, self._stamps(members, MOMENTS), make))

    def numbers(self, members: Mapping[str, RegistryEntry], schema: Schema) -> Regressor | None:
        """The regression from the sum of moments of numbers to predict; None if the sites send none."""

        def make() -> Regressor | None:
            made = KeptSums(self._folder).numbers(members, schema)
            return None if made is None else regressor_of(made)

        stamps = schema.digest, self._stamps(members, NUMBERS)
        return cast("Regressor | None", self._once(NUMBERS, stamps, make))

    def _once(self, name: str, stamps: Any, make: Callable[[], Any]) -> Any:
        """What was made of the same files before, or is made now; nothing is not kept."""
        with self._lock:
            if name not in self._kept or self._kept[name][0] != stamps:
                self._kept.pop(name, None)
                made = make()
                if made is None:
                    return None
                self._kept[name] = stamps, made
            return self._kept[name][1]

    def _stamps(self, members: Mapping[str, RegistryEntry], measure: str) -> dict[str, Stamp]:
        return {
            name: _stamp(str(site.profile.sums), self._folder.sums_of(name))
            for name, site in members.items()
            if site.profile is not None and site.profile.measure == measure
        }

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()


def _stamp(digest: str, path: Path) -> Stamp:
    try:
        about = path.stat()
    except OSError:
        return digest, 0, 0, 0
    return digest, about.st_ino, about.st_size, about.st_mtime_ns


def _checked_model(path: Path, profile: Profile) -> LocalModel | None:
    """The model of a site with this profile; None if the file is damaged or holds another model."""
    try:
        if digest_of(path.read_bytes()) != profile.model_digest:
            return None
        return LocalModel.load(path)
    except (OSError, OnefoldError):
        return None


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
            raise FederationError(
                f"no answer can be used: {error}; {_codes(gathered)}{advice_on(_refusals(gathered))}"
            ) from None


@record
class KnownRows(Record, kind="held-out rows"):
    """Rows with known classes, by which a server weighs sites."""

    X: NumberArray
    y: Labels


def keep_held_out(folder: ServerFolder, rows: LabelledRows) -> None:
    """Write held-out rows into the server's folder, for the server's account only."""
    classes = rows[1] if rows[1].dtype != object else np.array(rows[1].tolist())
    KnownRows(rows[0], classes).save(folder.held_out)


def kept_held_out(path: Path) -> LabelledRows:
    """Read what :func:`keep_held_out` wrote."""
    if not path.is_file():
        raise InvalidInputError(NO_HELD_OUT)
    try:
        found = KnownRows.load(path)
        return found.X, found.y
    except FileFormatError:
        raise FileFormatError(f"{path}: the held-out rows cannot be read") from None


def _codes(gathered: Gathered) -> str:
    codes = []
    for site in gathered.expected:
        message = gathered.messages.get(site)
        said = "answered" if message is not None else "absent"
        codes.append(f"{site} {message.code if isinstance(message, Failure) else said}")
    return ", ".join(codes) or "no site takes part"


def _refusals(gathered: Gathered) -> dict[str, str]:
    said = gathered.messages.items()
    return {site: message.code.value for site, message in said if isinstance(message, Failure)}


ADVICE = {
    FailureCode.WAITING: "waiting for approval at {sites}: the data owner decides there, with onefold "
    "federate approvals approve NAME --folder SITE; then ask again",
    FailureCode.UNSIGNED: "{sites} answers signed queries only: make a key with onefold federate querier new "
    "NAME and ask with --querier NAME",
    FailureCode.STALE: "{sites} takes signatures of the last minutes only: compare the clocks",
}


def advice_on(refused: Mapping[str, str]) -> str:
    """What to do about sites that answer only approved queriers; empty if there is none among those named."""
    words = []
    for code, text in ADVICE.items():
        sites = sorted(site for site, word in refused.items() if word == code)
        words += [text.format(sites=", ".join(sites))] if sites else []
    return "".join(f"; {word}" for word in words)
