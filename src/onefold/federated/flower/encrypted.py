"""Encrypted queries: only the holder of the secret key learns the predictions.

Three roles share no secret. The *querier* makes a query key (:func:`make_query_key`) and decrypts what comes
back (:func:`decrypt`). The *server* hands the query key to the sites and computes on their encrypted answers
(:mod:`onefold.federated.flower.evaluation`). The *sites* answer under the query key
(:mod:`onefold.federated.flower.site`). The secret key stays in the querier's :class:`Keyring` and is used in
:func:`decrypted` only.

Two kinds of files go between the querier's machine and the server's; neither holds a secret. A *query key
file* holds what the sites encrypt with and what the server computes with. A file of *encrypted answers* holds
what the server computed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from onefold._base.files import file_lock, make_folder, write_whole
from onefold._base.records import Content, Record, record
from onefold.exceptions import DecryptionError, FederationError, InvalidInputError, MessageError
from onefold.federated.access.signatures import KeySignature, default_querier_folder
from onefold.federated.fhe import Querier
from onefold.federated.fhe import messages as fhe_messages
from onefold.federated.fhe.parameters import MOST_CLIENTS, Parameters
from onefold.federated.fhe.quantiser import in_every_look
from onefold.federated.flower.asking import (
    GRACE,
    Collected,
    QueryResult,
    Sign,
    advice_on,
    all_sites,
    finite_rows,
    hand_in,
    new_query_id,
    running_spool,
    unsigned,
)
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.rounding import chosen_map
from onefold.federated.flower.spool import Request
from onefold.federated.messages import (
    CARRIED,
    MOST_LOOKS,
    ClassNames,
    Digest,
    Failure,
    Query,
    QueryKey,
    SealedResult,
    plain_labels,
)

BITS = 8
KEY_SUFFIX = ".querykey"
ANSWERS_SUFFIX = ".encrypted"
SECRET_SUFFIX = ".key"
MEBIBYTE = 2**20
# Of one site's answers to one query; Flower sends about a megabyte in a second.
MOST_BYTES = 32 * MEBIBYTE
SECONDS_PER_MEBIBYTE = 2.0
# At 16 bits the server keeps the messages of all sites in memory.
MOST_BYTES_TOGETHER = 2**30
ROWS_AT_ONCE = 64  # fewer where one ciphertext holds fewer: 4 at 12 bits

PathLike = str | os.PathLike[str]


# --- the querier's secret keys on disk --------------------------------------------------------------------


def default_key_folder() -> Path:
    """Where secret keys are kept unless told otherwise: among the user's own data, never at a server."""
    return default_querier_folder().with_name("keys")


class Keyring:
    """The secret keys of one querier: one file for each number of sites, classes and bits.

    Parameters
    ----------
    folder : str or path-like, default=None
        Where the keys are; None takes the user's own folder.
    away_from : str or path-like, default=None
        A server's folder, in which secret keys must not be.
    """

    def __init__(self, folder: PathLike | None = None, away_from: PathLike | None = None) -> None:
        self.folder = default_key_folder() if folder is None else Path(folder)
        if away_from is not None and self.folder.resolve().is_relative_to(Path(away_from).resolve()):
            raise InvalidInputError(f"{self.folder}: secret keys must not be in the server's folder")

    def querier(self, n_sites: int, n_classes: int, bits: int) -> Querier:
        """The keys for a federation of that size: those that are there, or new ones."""
        n_clients = room_for(n_sites)
        path = self.folder / f"{n_clients}-{n_classes}-{bits}{SECRET_SUFFIX}"
        try:
            self._prepare()
            with file_lock(path):
                if path.exists():
                    return Querier.load(path)
                made = Querier(n_clients, n_classes, bits)
                made.save(path)
        except OSError as error:
            raise InvalidInputError(f"{path}: {error.strerror or 'I/O error'}") from None
        return made

    def find(self, key_id: str) -> Querier:
        """The keys of that id."""
        for path in sorted(self.folder.glob(f"*{SECRET_SUFFIX}")):
            querier = Querier.load(path)
            if querier.key_id == key_id:
                return querier
        raise FederationError(f"{self.folder}: the secret key of this query is not here")

    def _prepare(self) -> None:
        """Make the folder for the user's account only; one that is there is left as it is, or refused.

        Others may look into it: only the user's account can read the keys themselves. But whoever may
        write into it could put a key of their own in the place of one, and read what comes under it.
        """
        make_folder(self.folder)
        if os.name != "nt" and self.folder.stat().st_mode & 0o022:
            raise InvalidInputError(
                f"{self.folder}: others can write here: chmod go-w it, or use another folder (--keys)"
            )


def room_for(n_sites: int) -> int:
    """Room for more sites than there are, so that a site that joins does not make new keys necessary."""
    if n_sites > MOST_CLIENTS:
        raise InvalidInputError(f"at most {MOST_CLIENTS} sites can answer an encrypted query")
    return min(MOST_CLIENTS, max(2, 1 << (n_sites - 1).bit_length()))


# --- query keys -------------------------------------------------------------------------------------------


@record
class QueryKeyFile(Record, kind="query key file"):
    """The public part of a querier's key: what sites encrypt with and what the server computes with.

    Parameters
    ----------
    query_key : QueryKey
        What the sites get: the public key, the order of the classes, and the map from measures to whole
        numbers.
    evaluation_keys : bytes
        What the server computes with; they are large, and needed once per server.
    signature : KeySignature, default=None
        The querier's statement that answers under the key are for it; None without one.

    See Also
    --------
    make_query_key : Makes one and writes it to a file.

    Examples
    --------
    >>> from onefold.federated.flower import QueryKeyFile
    >>> key = QueryKeyFile.load("me.querykey")  # doctest: +SKIP
    >>> key.key_id, key.query_key.classes  # doctest: +SKIP
    """

    query_key: Annotated[QueryKey, CARRIED]
    evaluation_keys: Content = field(repr=False)
    signature: Annotated[KeySignature, CARRIED] | None = None

    def __post_init__(self) -> None:
        fhe_messages.public_key_of(self.query_key)
        evaluation = fhe_messages.EvaluationKeys.from_bytes(self.evaluation_keys)
        if evaluation.key_id != self.key_id:  # the server keeps them under that id for later
            raise InvalidInputError("the query key and its evaluation keys do not belong together")

    @property
    def key_id(self) -> str:
        """Id of the key, which the querier tells the sites by another way (``--trust-key``)."""
        return self.query_key.key_id

    @property
    def parameters(self) -> Parameters:
        """Ring and primes of the key."""
        return fhe_messages.public_key_of(self.query_key).parameters


def query_key_of(querier: Querier, classes: Sequence[Any], bits: int, map_: Mapping[str, Any]) -> QueryKey:
    """The public part of a querier's key, for classes in the order in which they are encrypted, and a map."""
    public = querier.public_key()
    return QueryKey(public.key_id, plain_labels(classes), bits, content=public.to_bytes(), **map_)


def map_of(lock: QueryKey) -> dict[str, Any]:
    """The id of a key and its map from measures to whole numbers, as plain values."""
    map_ = {"bits": lock.bits, "bound": lock.bound, "power": lock.power, "floor": lock.floor}
    return {"key": lock.key_id, **map_, "looks": lock.looks, "knots": list(lock.knots)}


def most_rows(parameters: Parameters, n_sites: int) -> int:
    """Rows of one query, so that neither a site's message nor all of them together become too large."""
    most = MOST_BYTES
    if parameters.digits > 1:
        most = min(most, MOST_BYTES_TOGETHER // n_sites)
    at_once = min(ROWS_AT_ONCE, parameters.degree // parameters.n_values)
    return int(max(1, most // parameters.message_size(at_once)) * at_once)


def make_query_key(
    path: PathLike,
    n_sites: int,
    classes: Iterable[Any],
    bound: float | None = None,
    *,
    bits: int = BITS,
    power: float | None = None,
    floor: float | None = None,
    looks: int | None = None,
    fit_on: Any = None,
    measure: str = "euclidean",
    scale: float | None = None,
    keys: PathLike | None = None,
    sign: Callable[[QueryKey], KeySignature] | None = None,
) -> QueryKeyFile:
    """Make a query key file for a querier whose server is elsewhere.

    The secret key stays in the querier's folder. The file holds no secret: it goes to the server's operator,
    who asks with :meth:`Federation.collect`, and the id of the key goes to the sites by another way, so that
    a site can refuse keys that the server made itself.

    Parameters
    ----------
    path : str or path-like
        File to write, ending in ``.querykey``.
    n_sites : int
        Largest number of sites that may answer.
    classes : iterable of int or str
        All classes of the sites.
    bound : float, default=None
        Measures above this are taken for ``bound``. Either this or ``fit_on`` must be given.
    bits : int, default=8
        Bits of the whole number that a measure becomes.
    power : float, default=None
        With ``bound``: exponent applied to the scaled measure before rounding; None takes 1.
    floor : float, default=None
        With ``bound``: measures below this are taken for ``floor``; None takes 0.
    looks : int, default=None
        How often every row is answered, each time with other boundaries between the numbers; bytes and time
        grow with it. None takes 4 with ``fit_on``, up to 16 if it has few rows or without it, and 1 for more
        than 8 bits.
    fit_on : array-like of shape (n, p), default=None
        Public rows like those to be asked about, at least two, as the sites have them. The map is fitted to
        them, and 65 numbers that follow from them are in the file.
    measure : str, default="euclidean"
        With ``fit_on``: the measure of the sites; "joined" where they send plain sums.
    scale : float, default=None
        With ``fit_on``: the scale of the sites, for every measure but the distance.
    keys : str or path-like, default=None
        Folder of the querier's secret keys; None takes ``~/.local/share/onefold/keys``.
    sign : callable, default=None
        Makes the querier's signature of the query key, for sites that approve queriers: see
        :meth:`onefold.federated.access.signatures.SigningKey.sign_key`.

    Returns
    -------
    QueryKeyFile
        What was written.

    See Also
    --------
    Federation.collect : Asks the sites under a query key.
    decrypt : Reads what the server computed.

    Examples
    --------
    >>> from onefold.federated.flower import make_query_key
    >>> key = make_query_key("me.querykey", 3, ["healthy", "ill"], bound=1.0)  # doctest: +SKIP
    """
    name = Path(path)
    if name.suffix != KEY_SUFFIX:
        raise InvalidInputError(f"{path}: the name must end in {KEY_SUFFIX}")
    labels = sorted(set(given := list(classes)))  # sorted, so that ties fall as they do in clear
    if len(labels) < len(given):
        raise InvalidInputError("classes must be distinct")
    public = None if fit_on is None else finite_rows(fit_on)
    map_ = chosen_map(measure, scale, bits, (bound, power, floor), looks, public)
    querier = Keyring(keys).querier(n_sites, len(labels), bits)
    lock = query_key_of(querier, labels, bits, map_)
    signature = None if sign is None else sign(lock)
    made = QueryKeyFile(lock, querier.evaluation_keys().to_bytes(), signature)
    made.save(name, public=True)
    return made


# --- asking and decrypting --------------------------------------------------------------------------------


@record
class EncryptedPart(Record):
    """What came back for one query.

    ``refused`` holds the codes of those who did not answer and said why, ``content`` the encrypted result of
    ``sites``: about every row as many times as there are ``looks``.
    """

    query_id: str
    n_rows: int
    expected: tuple[str, ...]
    refused: dict[str, str]
    sites: tuple[str, ...]
    content: Content = field(repr=False)
    looks: Annotated[int, Field(ge=1, le=MOST_LOOKS)] = 1

    @property
    def partial(self) -> bool:
        """Whether the answer of any site is missing."""
        return not set(self.expected) <= set(self.sites)


@record
class AnswersFile(Record, kind="file of encrypted answers"):
    """What goes back to the querier: the id of its key, the classes, and what came for each query."""

    key_id: Digest
    classes: ClassNames
    parts: Annotated[tuple[EncryptedPart, ...], Field(min_length=1)]


def ask_encrypted(
    folder: ServerFolder,
    rows: np.ndarray[Any, Any],
    lock: QueryKey,
    keys: Callable[[], bytes],
    n_sites: int,
    caller: str,
    timeout: float,
    batch_size: int,
    sign: Sign = unsigned,
) -> list[EncryptedPart]:
    """Have the sites asked and the answers added; nothing here needs the secret key.

    ``keys`` makes what the server computes with: it takes long, and is needed once per server.
    """
    key, looks = fhe_messages.public_key_of(lock), lock.looks
    if key.n_clients < n_sites:
        raise InvalidInputError("the query key is made for fewer sites than the federation has")
    batch = min(batch_size, max(1, most_rows(key.parameters, n_sites) // looks), len(rows))
    # Beyond the sites' own time, their answers take so long on their way.
    timeout += SECONDS_PER_MEBIBYTE * n_sites * key.parameters.message_size(batch * looks) / MEBIBYTE
    spool = running_spool(folder)
    if not spool.keys(key.key_id).exists():
        write_whole(spool.keys(key.key_id), keys())
    parts: list[EncryptedPart] = []
    for start in range(0, len(rows), batch):  # one after the other: encrypted answers are large
        query = Query(new_query_id(), rows[start : start + batch])
        try:
            request = Request(query, caller, timeout, lock, sign(query, lock))
            hand_in(spool, request, timeout if parts else 0.0)  # nothing that was computed is lost
            # Computing on encrypted answers takes seconds to minutes, however short the timeout is.
            reply = spool.wait(query.id, timeout + GRACE, spool.job(query.id).exists)
        finally:
            spool.withdraw([query.id])
        refused = {m.site: m.code.value for m in reply.messages if isinstance(m, Failure)}
        result = next((m for m in reply.messages if isinstance(m, SealedResult)), None)
        if result is None:
            raise FederationError(_why_nothing(reply.expected, refused))
        answered = (result.sites, result.content, looks)
        parts.append(EncryptedPart(query.id, len(query.features), reply.expected, refused, *answered))
    return parts


def collected(path: Path, key_id: str, parts: Sequence[EncryptedPart]) -> Collected:
    """What the server says about answers that it wrote to a file."""
    return Collected(path, key_id, sum(part.n_rows for part in parts), **_who(parts))


def _who(parts: Sequence[EncryptedPart]) -> dict[str, Any]:
    """Which sites had a part in a result and which did not."""
    return {
        "answered": all_sites(part.sites for part in parts),
        "missing": all_sites(set(part.expected) - set(part.sites) for part in parts),
        "partial": any(part.partial for part in parts),
    }


def decrypted(
    querier: Querier, classes: Sequence[Any], parts: Sequence[EncryptedPart], about: dict[str, Any]
) -> QueryResult:
    """Decrypt a result: of the classes that attain the minimum the first is taken, as in clear."""
    labels = np.asarray(list(classes))
    wins = [_decrypted_part(querier, len(labels), part) for part in parts]
    return QueryResult(
        predictions=np.concatenate([labels[np.argmax(each, axis=1)] for each in wins]),
        measures=None,
        classes=labels,
        refused={site: code for part in parts for site, code in part.refused.items()},
        **_who(parts),
        encryption=about | {"ties": sum(int(np.sum(each.sum(axis=1) > 1)) for each in wins)},
    )


def _decrypted_part(querier: Querier, n_classes: int, part: EncryptedPart) -> np.ndarray[Any, Any]:
    try:
        result = fhe_messages.EncryptedResult.from_bytes(part.content)
        if (result.query_id, result.n_rows, result.n_answered) != (
            part.query_id,
            part.n_rows * part.looks,
            len(part.sites),
        ):
            raise MessageError("the result belongs to another query")
        wins = in_every_look(querier.decrypt(result), part.looks)
    except (MessageError, DecryptionError) as error:
        raise FederationError(f"the result cannot be used: {error}") from None
    if wins.shape[1] != n_classes or not np.all(wins.any(axis=1)):
        raise FederationError("the result cannot be used: no class attains the minimum for some rows")
    return wins


def decrypt(path: PathLike, *, keys: PathLike | None = None) -> QueryResult:
    """Decrypt the file of encrypted answers that a server wrote under a query key.

    Parameters
    ----------
    path : str or path-like
        File that :meth:`Federation.collect` wrote, ending in ``.encrypted``.
    keys : str or path-like, default=None
        Folder of the querier's secret keys; None takes ``~/.local/share/onefold/keys``.

    Returns
    -------
    QueryResult
        The predictions and who had a part in them; ``measures`` is None.

    Raises
    ------
    FederationError
        If the secret key is not in the folder, or the result does not decrypt to one.

    See Also
    --------
    make_query_key : Makes the key that this uses.

    Examples
    --------
    >>> from onefold.federated.flower import decrypt
    >>> decrypt("answers.encrypted").predictions  # doctest: +SKIP
    """
    kept = AnswersFile.load(path)
    about = {"key": kept.key_id, "looks": kept.parts[0].looks}
    return decrypted(Keyring(keys).find(kept.key_id), list(kept.classes), kept.parts, about)


def _why_nothing(expected: Sequence[str], refused: Mapping[str, str]) -> str:
    without = [f"{site} {refused.get(site, 'answered or absent')}" for site in expected]
    if set(refused) >= set(expected):
        advice = advice_on(refused)
        return f"no answer can be used: {', '.join(without)}{advice}"
    return (
        "no site answered in time, or the server could not compute on what came (it needs the extra fhe; see "
        f"evaluation.log): {', '.join(without)}"
    )
