"""Where a server and a site keep their things: two folders, each readable by its owner only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from onefold.exceptions import InvalidInputError
from onefold.federated.flower.settings import ServerSettings, SiteSettings, is_loopback, write_private

__all__ = ["ServerFolder", "ServerSettings", "SiteFolder", "SiteSettings", "is_loopback", "write_private"]


def private_folder(path: Path) -> Path:
    """A folder that only its owner can enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


@dataclass(frozen=True)
class _Folder:
    """A folder of a federation with its running parts."""

    root: Path

    @property
    def ca(self) -> Path:
        """Certificate of the authority that signed the server's."""
        return self.root / "ca.crt"

    @property
    def state(self) -> Path:
        """Everything that running writes."""
        return self.root / "state"

    @property
    def flower_home(self) -> Path:
        """Flower's own folder, so that nothing is read from or written to the user's."""
        return self.state / "flower"

    @property
    def commands(self) -> Path:
        """The only programs Flower may start."""
        return self.state / "commands"

    @property
    def secret(self) -> Path:
        """What this machine's own processes show each other."""
        return self.state / "secret"

    @property
    def process_log(self) -> Path:
        """What Flower's processes print."""
        return self.state / "flower.log"

    def prepare(self) -> None:
        """Make the folders that running needs."""
        if not self.root.is_dir():
            raise InvalidInputError(f"{self.root}: no such folder; start with onefold federate init")
        for path in (self.state, self.flower_home, self.commands):
            private_folder(path)


@dataclass(frozen=True)
class ServerFolder(_Folder):
    """The folder of a server."""

    @property
    def settings_file(self) -> Path:
        """The settings as JSON."""
        return self.root / "server.json"

    @property
    def settings(self) -> ServerSettings:
        """The settings, read now."""
        return ServerSettings.load(self.settings_file)

    @property
    def ca_key(self) -> Path:
        """Private key of the authority; only needed to sign another server certificate."""
        return self.root / "ca.key"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.root / "server.crt"

    @property
    def key(self) -> Path:
        """The server's private key."""
        return self.root / "server.key"

    @property
    def held_out(self) -> Path:
        """Rows with known classes, by which the weighted rule judges the sites."""
        return self.root / "held_out.npz"

    @property
    def registry(self) -> Path:
        """Who is a member."""
        return self.state / "registry.json"

    @property
    def log(self) -> Path:
        """Who came and went, hash-chained."""
        return self.state / "membership.log"

    @property
    def run_log(self) -> Path:
        """What the run at the server noted."""
        return self.state / "run.log"

    @property
    def spool(self) -> Path:
        """Queries on their way to the sites, and what came back."""
        return self.state / "spool"

    @property
    def models(self) -> Path:
        """Models that sites sent (model mode)."""
        return self.state / "models"

    @property
    def app(self) -> Path:
        """What Flower runs."""
        return self.state / "app"

    def prepare(self) -> None:
        """Make the folders that running needs."""
        super().prepare()
        for path in (self.spool, self.spool / "requests", self.spool / "replies", self.models, self.app):
            private_folder(path)


@dataclass(frozen=True)
class SiteFolder(_Folder):
    """The folder of a site."""

    @property
    def settings_file(self) -> Path:
        """The settings as JSON."""
        return self.root / "site.json"

    @property
    def settings(self) -> SiteSettings:
        """The settings, read now."""
        return SiteSettings.load(self.settings_file)

    @property
    def key(self) -> Path:
        """The site's private key, by which the server knows it."""
        return self.root / "node.key"

    @property
    def public_key(self) -> Path:
        """What the server must know to let the site in."""
        return self.root / "node.pub"

    @property
    def model(self) -> Path:
        """The local model."""
        return self.state / "model.onefold"

    @property
    def profile(self) -> Path:
        """What the site says about its model."""
        return self.state / "profile.json"

    @property
    def trusted_keys(self) -> Path:
        """Names of the keys under which this site gives encrypted answers, one per line."""
        return self.root / "trusted_keys"

    @property
    def trusted_key_ids(self) -> frozenset[str] | None:
        """What is in that file; None if there is none, and any key will do."""
        if not self.trusted_keys.exists():
            return None
        return frozenset(self.trusted_keys.read_text(encoding="ascii").split())

    @property
    def kept_out(self) -> Path:
        """There if the server has said that it does not take this site."""
        return self.state / "kept_out"

    @property
    def guard(self) -> Path:
        """Counters of rows answered."""
        return self.state / "guard.json"

    @property
    def log(self) -> Path:
        """Which queries were answered and which were refused."""
        return self.state / "queries.log"


def owner_only(path: Path) -> bool:
    """Whether nobody but the owner may read a file (always true where permissions do not exist)."""
    return os.name == "nt" or not path.stat().st_mode & 0o077
