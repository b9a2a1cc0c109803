"""A querier's keys on disk: files that only their owner can read, where nobody else can write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from onefold.exceptions import FederationError, FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.fhe import Querier

SUFFIX = ".key"


def default_folder() -> Path:
    """Where keys are unless told otherwise: beside the user's other data, never in a server's folder."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "onefold" / "keys"


class Keyring:
    """The keys of one querier, one file for each number of clients, classes and bits."""

    def __init__(self, folder: Path, away_from: Path | None = None) -> None:
        if away_from is not None and folder.resolve().is_relative_to(away_from.resolve()):
            raise InvalidInputError(f"{folder}: secret keys must not be in the server's folder")
        self.folder = folder

    def querier(self, n_sites: int, n_classes: int, bits: int) -> Querier:
        """The keys for a federation of that size: those that are there, or new ones."""
        from onefold._base.files import file_lock
        from onefold.federated.fhe import Querier

        n_clients = _rounded(n_sites)
        path = self.folder / f"{n_clients}-{n_classes}-{bits}{SUFFIX}"
        try:
            self._prepare()
            with file_lock(path):
                if path.exists():
                    return self._load(path)
                made = Querier(n_clients, n_classes, bits)
                made.save(path)
        except OSError as error:
            raise InvalidInputError(f"{path}: {error.strerror or 'I/O error'}") from None
        return made

    def _prepare(self) -> None:
        """Make the folder, for its owner only. One that is there is left as it is, or refused.

        Others may look into it, for the keys themselves are readable by their owner only. But whoever may
        write into it could put a key of their own in the place of one, and read what comes under it.
        """
        if not self.folder.exists():
            self.folder.mkdir(mode=0o700, parents=True)
        if os.name != "nt" and self.folder.stat().st_mode & 0o022:
            raise InvalidInputError(f"{self.folder}: others can write here: chmod go-w it, or other --keys")

    def find(self, key_id: str) -> Querier:
        """The keys of that name."""
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            querier = self._load(path)
            if querier.key_id == key_id:
                return querier
        raise FederationError(f"{self.folder}: the key this was made for is not here")

    @staticmethod
    def _load(path: Path) -> Querier:
        from onefold.federated.fhe import Querier
        from onefold.federated.flower.folders import owner_only

        if not owner_only(path):
            raise InvalidInputError(f"{path}: others can read this key; chmod 600 it")
        try:
            return Querier.load(path)
        except FileFormatError as error:
            raise FileFormatError(f"{path}: {error}") from None


def _rounded(n_sites: int) -> int:
    """Room for some more sites than there are, so that one who joins does not make new keys necessary."""
    from onefold.federated.fhe.parameters import MOST_CLIENTS

    if n_sites > MOST_CLIENTS:
        raise InvalidInputError(f"at most {MOST_CLIENTS} sites can answer an encrypted query")
    return min(MOST_CLIENTS, max(2, 1 << (n_sites - 1).bit_length()))
