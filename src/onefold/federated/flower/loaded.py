"""What a federation object keeps in memory between queries: models, and the models that sums make.

Reading a model takes longer than asking it. What was read stays while the site that it belongs to takes part,
speaks of the same digest, and its file is the same; anything else is read again or forgotten.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from onefold._base.arrays import Floats, Labels
from onefold.exceptions import OnefoldError
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.registry import RegistryEntry
from onefold.federated.flower.sums import KeptSums
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import MOMENTS, NUMBERS, Profile, digest_of
from onefold.federated.number_sums import Regressor, regressor_of
from onefold.tables import Schema

# Digest of what a site speaks of, then inode, size and time of change of its file.
Stamp = tuple[str, int, int, int]
# Takes rows, returns classes and one measure per row and class.
Answering = Callable[[ArrayLike], tuple[Labels, Floats]]


class Loaded:
    """Models of the sites that take part, read once and again when they have changed; threads may share it.

    Parameters
    ----------
    folder : the server's.
    """

    def __init__(self, folder: ServerFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._models: dict[str, tuple[Stamp, LocalModel | None]] = {}
        self._moments: tuple[dict[str, Stamp], Answering] | None = None
        self._numbers: tuple[str, dict[str, Stamp], Regressor] | None = None

    def models(self, profiles: Mapping[str, Profile]) -> dict[str, LocalModel | None]:
        """The model of each site that sent one; None where the file is gone, damaged or another."""
        found: dict[str, tuple[Stamp, LocalModel | None]] = {}
        with self._lock:
            for name, profile in profiles.items():
                path = self._folder.models / f"{name}.onefold"
                stamp = _stamp(profile.model_digest, path)
                known = self._models.get(name)
                is_same = known is not None and known[0] == stamp
                found[name] = known if known is not None and is_same else (stamp, _load(path, profile))
            self._models = found  # nothing stays of a site that has left
        return {name: model for name, (_, model) in found.items()}

    def moments(self, members: Mapping[str, RegistryEntry]) -> Answering | None:
        """What answers from the sum of private moments; None if the sites send none."""
        stamps = self._stamps(members, MOMENTS)
        with self._lock:
            if self._moments is not None and self._moments[0] == stamps:
                return self._moments[1]
            self._moments = None
            made = KeptSums(self._folder).moments(members)
            if made is None:
                return None
            self._moments = stamps, made.answering()
            return self._moments[1]

    def numbers(self, members: Mapping[str, RegistryEntry], schema: Schema) -> Regressor | None:
        """The regression from the sum of moments of numbers to predict; None if the sites send none."""
        stamps = self._stamps(members, NUMBERS)
        with self._lock:
            if self._numbers is not None and self._numbers[:2] == (schema.digest, stamps):
                return self._numbers[2]
            self._numbers = None
            made = KeptSums(self._folder).numbers(members, schema)
            if made is None:
                return None
            self._numbers = schema.digest, stamps, regressor_of(made)
            return self._numbers[2]

    def _stamps(self, members: Mapping[str, RegistryEntry], measure: str) -> dict[str, Stamp]:
        return {
            name: _stamp(str(site.profile.sums), self._folder.sums_of(name))
            for name, site in members.items()
            if site.profile is not None and site.profile.measure == measure
        }

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._models, self._moments, self._numbers = {}, None, None


def _stamp(digest: str, path: Path) -> Stamp:
    try:
        about = path.stat()
    except OSError:
        return digest, 0, 0, 0
    return digest, about.st_ino, about.st_size, about.st_mtime_ns


def _load(path: Path, profile: Profile) -> LocalModel | None:
    """The model of a site with this profile; None if the file is damaged or holds another model."""
    try:
        if digest_of(path.read_bytes()) != profile.model_digest:
            return None
        return LocalModel.load(path)
    except (OSError, OnefoldError):
        return None
