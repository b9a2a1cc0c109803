"""``onefold federate query --encrypted``: nobody but the holder of the key learns the predictions.

Three roles: this command is the querier, or asks in its name with a lock file; the run at the server and the
process it starts are the server; the sites are the sites. The secret key is used in :func:`opened` only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli import arguments as kinds
from onefold.cli.federate import rules
from onefold.cli.federate.keyring import Keyring, default_folder
from onefold.exceptions import DecryptionError, FederationError, InvalidInputError, MessageError

if TYPE_CHECKING:
    from onefold.cli.federate.sealed_file import SealedPart
    from onefold.federated.fhe import Querier
    from onefold.federated.flower.folders import ServerFolder
    from onefold.federated.flower.registry import Site
    from onefold.federated.messages import Lock

BITS = 8
LOCK_SUFFIX, SEALED_SUFFIX = ".lock", ".sealed"
MEBIBYTE = 2**20
# Of one site's answers to one query; Flower sends about a megabyte in a second.
MOST_BYTES = 32 * MEBIBYTE
SECONDS_PER_MEBIBYTE = 2.0
# At 16 bits the server keeps the messages of all sites in memory.
MOST_BYTES_TOGETHER = 2**30
ROWS_AT_ONCE = 64  # fewer where one ciphertext holds fewer: 4 at 12 bits
WITH_LOCK = ("bits", "bound", "floor", "power", "keys")


@dataclass(frozen=True, eq=False)
class Opened:
    """The result of one query after decryption, with the names that a result in clear has."""

    labels: NDArray[Any]
    n_ties: int
    answered: tuple[str, ...]
    missing: tuple[str, ...]
    refused: dict[str, str]
    partial: bool
    outliers: dict[str, str] = field(default_factory=dict)


def add_options(parser: Any) -> None:
    """What an encrypted query needs to know."""
    parser.add_argument(
        "--encrypted", action="store_true", help="sites answer under your key; the server adds, unread"
    )
    parser.add_argument("--bits", type=kinds.positive_int, metavar="P", help=f"of a measure ({BITS})")
    parser.add_argument(
        "--bound",
        type=kinds.positive,
        metavar="B",
        help="measures above are taken for B (1; distances: the spread of the rows asked about)",
    )
    add_map_options(parser)
    parser.add_argument("--keys", metavar="DIR", help="your secret keys (~/.local/share/onefold/keys)")
    parser.add_argument(
        "--lock",
        metavar="FILE",
        help=f"ask under the lock of a querier elsewhere; --out must end in {SEALED_SUFFIX}",
    )


def add_map_options(parser: Any) -> None:
    """The rest of the map from measures to whole numbers, for who has fitted one."""
    parser.add_argument(
        "--floor", type=kinds.not_negative, metavar="A", help="measures below are taken for A (0)"
    )
    parser.add_argument(
        "--power", type=kinds.positive, metavar="E", help="of the share a measure has of A to B (1)"
    )


def check_options(args: argparse.Namespace, folder: ServerFolder) -> None:
    """Refuse what does not go together."""
    given = [name for name in (*WITH_LOCK, "lock") if getattr(args, name) is not None]
    if not args.encrypted:
        if given:
            raise InvalidInputError(f"--{given[0]} is for --encrypted")
        return
    if args.lock is not None and given != ["lock"]:
        raise InvalidInputError(f"--{given[0]} is in the lock file already")
    if (args.lock is not None) != (args.out is not None and args.out.endswith(SEALED_SUFFIX)):
        raise InvalidInputError(f"--lock FILE goes with --out FILE{SEALED_SUFFIX}, and only with it")
    if args.lock is not None and args.label is not None:
        raise InvalidInputError("--label is for who opens the result: onefold federate open")
    if folder.settings.mode == "model":
        raise InvalidInputError("--encrypted is for query mode: in model mode no site is asked")
    if (args.rule or folder.settings.rule) != "min":
        raise InvalidInputError("--encrypted can only take the minimum: give --rule min")
    rules.check_rule("min", args.held_out)
    if args.measures:
        raise InvalidInputError("--measures: an encrypted query tells the closest class and nothing else")


class Sealing:
    """Keys and meaning of one encrypted query, and what the server gets of them."""

    def __init__(
        self, lock: Lock, evaluation_keys: Callable[[], bytes], n_sites: int, querier: Querier | None
    ) -> None:
        from onefold.federated.fhe.messages import PublicKey, from_bytes

        self.lock, self.evaluation_keys, self.n_sites, self.querier = lock, evaluation_keys, n_sites, querier
        key = from_bytes(PublicKey, lock.content)
        self.parameters = key.parameters
        if (key.key_id, key.n_classes, key.bits) != (lock.key_id, len(lock.classes), lock.bits):
            raise InvalidInputError("the lock and its public key do not belong together")
        if key.n_clients < n_sites:
            raise InvalidInputError("the lock is made for fewer sites than the federation has")

    @classmethod
    def of(
        cls, args: argparse.Namespace, folder: ServerFolder, members: Mapping[str, Site], rows: NDArray[Any]
    ) -> Sealing:
        """From a lock file, or with the keys of who runs this command."""
        from onefold.federated.fhe.messages import to_bytes

        if args.lock is not None:
            from onefold.cli.federate.sealed_file import load_lock

            lock, keys = load_lock(Path(args.lock))
            return cls(lock, lambda: _keys_of(lock, keys), len(members), None)
        profiles = [site.profile for site in members.values() if site.profile is not None]
        classes = sorted({label for profile in profiles for label in profile.classes})
        bound = args.bound or default_bound(profiles[0].measure, rows)
        keyring = Keyring(Path(args.keys) if args.keys else default_folder(), away_from=folder.root)
        querier = keyring.querier(len(members), len(classes), args.bits or BITS)
        lock = make_lock(querier, classes, (bound, args.power or 1.0, args.floor or 0.0))
        return cls(lock, lambda: to_bytes(querier.evaluation_keys()), len(members), querier)

    def most_rows(self) -> int:
        """Rows of one query, so that neither a site's message nor all of them together become too large."""
        most = MOST_BYTES
        if self.parameters.digits > 1:
            most = min(most, MOST_BYTES_TOGETHER // self.n_sites)
        at_once = min(ROWS_AT_ONCE, self.parameters.degree // self.parameters.n_values)
        return max(1, most // self.bytes_of(at_once)) * at_once

    def bytes_of(self, n_rows: int) -> int:
        """Bytes of a site's answers."""
        return self.parameters.message_size(n_rows)


def make_lock(querier: Querier, classes: list[Any], map_: tuple[float, float, float]) -> Lock:
    """What sites need to answer: the public key, the order of the classes, and the map to whole numbers."""
    from onefold.federated.fhe.messages import to_bytes
    from onefold.federated.messages import Lock

    key = querier.public_key()
    try:
        return Lock(key.key_id, tuple(classes), key.bits, *map_, to_bytes(key))
    except MessageError as error:
        raise InvalidInputError(str(error)) from None


def _keys_of(lock: Lock, keys: bytes) -> bytes:
    """Evaluation keys that belong to a lock: the server keeps them under its name, and for later queries."""
    from onefold.federated.fhe.messages import EvaluationKeys, from_bytes

    if from_bytes(EvaluationKeys, keys).key_id != lock.key_id:
        raise InvalidInputError("the lock and its evaluation keys do not belong together")
    return keys


def default_bound(measure: str, rows: NDArray[Any]) -> float:
    """1 for the folding measures. For distances how far the rows spread: the sites see the rows anyway.

    A row is closer to the rows of its own class than to the middle of all, so few smallest distances are cut
    off; those that are can only tie with each other.
    """
    if measure != "euclidean":
        return 1.0
    values = rows.astype(np.float64)
    spread = float(np.sqrt(np.mean(np.sum((values - values.mean(axis=0)) ** 2, axis=1))))
    if not spread > 0:
        raise InvalidInputError("these rows do not show how large distances are: give --bound B")
    return spread


def ask(
    folder: ServerFolder, rows: NDArray[Any], sealing: Sealing, caller: str, args: argparse.Namespace
) -> list[SealedPart]:
    """Have the sites asked and the answers added; nothing here needs the secret key."""
    from onefold.cli.federate.sealed_file import SealedPart
    from onefold.federated.flower.asking import AskingSealed, new_query_id
    from onefold.federated.messages import Failure, Query

    batch = min(args.batch, sealing.most_rows(), len(rows))
    queries = [Query(new_query_id(), rows[start : start + batch]) for start in range(0, len(rows), batch)]
    mebibytes = sealing.n_sites * sealing.bytes_of(batch) / MEBIBYTE
    timeout = args.timeout + SECONDS_PER_MEBIBYTE * mebibytes
    asking = AskingSealed(folder, caller, timeout, sealing.lock, sealing.evaluation_keys)
    parts = []
    for found in asking.ask(queries):
        refused = {site: m.code.value for site, m in found.messages.items() if isinstance(m, Failure)}
        sites, content = ((), b"") if found.sealed is None else (found.sealed.sites, found.sealed.content)
        parts.append(
            SealedPart(found.query.id, len(found.query.features), found.expected, refused, sites, content)
        )
        if found.sealed is None:
            raise FederationError(_why_nothing(parts[-1]))
    return parts


def opened(querier: Querier, classes: list[Any], part: SealedPart) -> Opened:
    """Decrypt one result: of the classes that attain the minimum the first is taken, as in clear."""
    from onefold.federated.fhe.messages import EncryptedResult, from_bytes

    try:
        result = from_bytes(EncryptedResult, part.content)
        if (result.query_id, result.n_rows, result.n_answered) != (
            part.query_id,
            part.n_rows,
            len(part.sites),
        ):
            raise MessageError("the result belongs to another query")
        wins = querier.decrypt(result)
    except (MessageError, DecryptionError) as error:
        raise FederationError(f"the result cannot be used: {error}") from None
    if wins.shape[1] != len(classes) or not np.all(wins.any(axis=1)):
        raise FederationError("the result cannot be used: no class attains the minimum for some rows")
    return Opened(
        labels=np.asarray(classes)[np.argmax(wins, axis=1)],
        n_ties=int(np.sum(wins.sum(axis=1) > 1)),
        answered=part.sites,
        missing=tuple(site for site in part.expected if site not in part.sites),
        refused=part.refused,
        partial=not set(part.expected) <= set(part.sites),
    )


def remark(results: Sequence[Opened], lock: Lock) -> dict[str, Any]:
    """What is told about an encrypted query beside what is told about any."""
    ties = sum(result.n_ties for result in results)
    map_ = {"bits": lock.bits, "bound": lock.bound, "power": lock.power, "floor": lock.floor}
    return {"key": lock.key_id, **map_, "ties": ties}


def _why_nothing(part: SealedPart) -> str:
    without = [f"{site} {part.refused.get(site, 'answered or absent')}" for site in part.expected]
    if set(part.refused) >= set(part.expected):
        return f"no answer to be used: {', '.join(without)}"
    return (
        "no site answered in time, or the server could not compute on what came (it needs the extra fhe; see "
        f"evaluation.log): {', '.join(without)}"
    )
