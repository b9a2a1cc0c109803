"""Where a server and a site keep their things: two folders, each readable by its user's account only."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import AfterValidator, Field

from onefold._base.files import make_folder, open_file, read_saved, sweep_parts, write_whole
from onefold._base.foreign import parse_json
from onefold._base.optional import require
from onefold._base.records import plain_of, record
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.access.approvals import MODES
from onefold.federated.access.store import Store
from onefold.federated.rules import RULES

# --- settings: plain values in a file each, checked when they are made and read -----------------------------


FORMAT = 1
QUEUE = 256  # queries that may wait or be on their way, unless the server's operator says otherwise


def is_loopback(host: str) -> bool:
    """Whether a host is this very machine: ``localhost`` or an address that never leaves it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def address(host: str, port: int) -> str:
    """A host and a port in one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _checked_host(host: str) -> str:
    if not host or any(sign.isspace() or sign in "/\\\"'" for sign in host):
        raise InvalidInputError("must be a name or an address")
    return host


def _one_of(*choices: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in choices:
            raise InvalidInputError(f"must be one of {', '.join(choices)}")
        return value

    return AfterValidator(check)


Host = Annotated[str, AfterValidator(_checked_host)]
Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1)]
FromZero = Annotated[int, Field(ge=0)]


class _Settings:
    """Plain values in a JSON file that people may edit, with a format number; every value is checked."""

    host: Host
    insecure: bool

    def __post_init__(self) -> None:
        if self.insecure and not is_loopback(self.host):
            raise InvalidInputError(
                "plaintext is for tests on this machine: use --insecure with 127.0.0.1 only"
            )

    @property
    def plain(self) -> dict[str, Any]:
        """The values for JSON."""
        return {"format": FORMAT, **plain_of(self, {})}

    def save(self, path: Path) -> None:
        """Write the settings."""
        write_whole(path, (json.dumps(self.plain, indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the settings; anything but what :meth:`save` writes is refused."""
        try:
            plain = parse_json(path.read_bytes())
            if plain.pop("format") != FORMAT:
                raise InvalidInputError("this version does not read them")
            return cls(**plain)
        except FileNotFoundError:
            raise InvalidInputError(f"{path}: no such file; start with onefold federate init") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            why = f": {error}" if isinstance(error, InvalidInputError) else ""
            raise FileFormatError(f"{path}: the settings cannot be read{why}") from None


@record
class ServerSettings(_Settings):
    """How the server of a federation runs.

    Parameters
    ----------
    host, port : where the sites find it. mode : "query" or "model". rule : how answers are combined.
    n_liars : how many lying sites the trimmed and the checked rule are to withstand.
    insecure : plaintext without node keys, for tests on the loopback address only.
    most_rows : most rows that one site may contribute to sums; None for any number.
    queue : how many queries may wait or be on their way before more are refused for a while.
    """

    host: Host
    port: Port
    mode: Annotated[str, _one_of("query", "model")] = "query"
    rule: Annotated[str, _one_of(*RULES)] = "min"
    n_liars: FromZero = 1
    insecure: bool = False
    most_rows: Count | None = None
    queue: Count = QUEUE


@record
class SiteSettings(_Settings):
    """How a site of a federation runs.

    Parameters
    ----------
    name : what the others call it. host, port : where its server is.
    insecure : as in :class:`ServerSettings`.
    per_minute, total : rows answered to all queriers together, per minute and for ever.
    caller_total : rows answered to each querier the server names, for ever.
    sends : "answers", "sealed-answers" (encrypted ones only), "private-model" (a model with a standing
        guarantee may leave) or "raw-model".
    approval : whom it answers: "anyone", "queriers" (each once its data owner has approved it) or "purposes"
        (each for every purpose and number of rows that was approved).
    declared_rows : number of rows to tell the server's operator; None tells none.
    tells_epsilon : whether the server's operator is told what the site's ledger has spent.
    sum_table : table whose rows the site adds to encrypted sums; None adds nothing.
    sum_key : file of the site's key for encrypted sums, as key holder or to sign; None if it has none.
    sum_encoders : by column, the encoder of a column of that table; None if it has none.
    """

    name: Annotated[str, Field(min_length=1)]
    host: Host
    port: Port
    insecure: bool = False
    per_minute: Count = 10_000
    total: Count = 1_000_000
    caller_total: Count = 1_000_000
    sends: Annotated[str, _one_of("answers", "sealed-answers", "private-model", "raw-model")] = "answers"
    approval: Annotated[str, _one_of(*MODES)] = "anyone"
    declared_rows: FromZero | None = None
    tells_epsilon: bool = False
    sum_table: str | None = None
    sum_key: str | None = None
    sum_encoders: dict[str, str] | None = None

    @property
    def takes_part_in_sums(self) -> bool:
        """Whether the site has something to add to encrypted sums, or a key for them."""
        return self.sum_table is not None or self.sum_key is not None


# How Flower's processes learn whose they are.
SERVER_VARIABLE, SITE_VARIABLE = "ONEFOLD_SERVER", "ONEFOLD_SITE"

AnySettings = TypeVar("AnySettings", ServerSettings, SiteSettings)

# --- folders ------------------------------------------------------------------------------------------------


def private_folder(path: Path) -> Path:
    """A folder that only the user's account can enter."""
    make_folder(path).chmod(0o700)  # one that is there is closed too
    return path


class _Folder(Generic[AnySettings]):
    """A folder of a federation: the paths in it, and those that running writes."""

    key: Path  # the private key
    settings_file: Path
    _kind: type[AnySettings]

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ca = root / "ca.crt"  # certificate of the authority that signed the server's
        self.state = root / "state"  # everything that running writes
        # Flower's own folder, so that nothing is read from or written to the user's.
        self.flower_home = self.state / "flower"
        self.commands = self.state / "commands"  # the only programs Flower may start
        self.secret = self.state / "secret"  # what this machine's own processes show each other
        self.process_log = self.state / "flower.log"  # what Flower's processes print
        self._store = Store(self.state / "state.db")

    @property
    def store(self) -> Store:
        """What is decided, counted and noted here: who takes part or may ask, limits, the log."""
        private_folder(self.state)
        return self._store

    @property
    def settings(self) -> AnySettings:
        """The settings, read now."""
        return self._kind.load(self.settings_file)

    @property
    def authority(self) -> Path | None:
        """Certificate by which the server is recognised; None in a plaintext federation."""
        return None if self.settings.insecure else self.ca

    @property
    def federation_id(self) -> str:
        """What queriers sign for: the sum of the authority's public key, or of the address in plaintext.

        A renewed certificate of the same key is the same federation.
        """
        if self.settings.insecure:
            plain = f"onefold plaintext {address(self.settings.host, self.settings.port)}".encode()
            return hashlib.sha256(plain).hexdigest()
        serialization = require("cryptography.hazmat.primitives.serialization", "federated")
        found = require("cryptography.x509", "federated").load_pem_x509_certificate(self.ca.read_bytes())
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return hashlib.sha256(found.public_key().public_bytes(serialization.Encoding.DER, form)).hexdigest()

    def require_files(self, files: Mapping[Path, str]) -> None:
        """Refuse to run without some files, saying what to do, or with a private key that others can read."""
        if self.settings.insecure:
            return
        for path, else_do in files.items():
            if not path.is_file():
                raise InvalidInputError(f"{path}: no such file; {else_do}")
        read_saved(self.key, "there is no private key", len, secret=True)  # Flower reads it itself

    def prepare(self) -> None:
        """Make the folders and the store that running needs."""
        if not self.root.is_dir():
            raise InvalidInputError(f"{self.root}: no such folder; start with onefold federate init")
        for path in (self.state, self.flower_home, self.commands):
            sweep_parts(private_folder(path))
        self.store.create()


PLACES = (".", "server", "federation/server")  # of a server's folder, unless one is named


class ServerFolder(_Folder[ServerSettings]):
    """The folder of a server."""

    _kind = ServerSettings

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.settings_file = root / "server.json"
        self.ca_key = root / "ca.key"  # only needed to sign another server certificate
        self.certificate = root / "server.crt"
        self.key = root / "server.key"
        self.held_out = root / "held_out.npz"  # rows by which the weighted rule tests the sites
        self.run_log = self.state / "run.log"  # what the run at the server noted
        self.run_numbers = self.state / "run.prom"  # what the run counted, for a monitoring program
        self.spool = self.state / "spool"  # queries on their way to the sites, and what came back
        self.models = self.state / "models"  # models that sites sent (model mode)
        self.sums = self.state / "sums"  # sums without noise that sites sent
        self.app = self.state / "app"  # what Flower runs

    @classmethod
    def find(cls, folder: str | os.PathLike[str] | None = None) -> ServerFolder:
        """The server's folder: the one named, or in it; without a name, in or below this folder."""
        places = PLACES if folder is None else (folder, Path(folder) / "server")
        for place in places:
            found = cls(Path(place))
            if found.settings_file.is_file():
                return found
        where = "this folder" if folder is None else os.fspath(folder)
        advice = "name the server's folder with --folder, or make one with onefold federate init"
        raise InvalidInputError(f"no federation in {where}: {advice}")

    def sums_of(self, site: str) -> Path:
        """Where the sums that a site sent are, if it sends any."""
        return self.sums / f"{site}.sums"

    def prepare(self) -> None:
        """Make the folders that running needs."""
        super().prepare()
        spool = (self.spool, *(self.spool / name for name in ("requests", "replies", "parcels")))
        for path in (*spool, self.models, self.sums, self.app):
            sweep_parts(private_folder(path))


class SiteFolder(_Folder[SiteSettings]):
    """The folder of a site."""

    _kind = SiteSettings

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.settings_file = root / "site.json"
        self.key = root / "node.key"  # the private key by which the server knows the site
        self.public_key = root / "node.pub"
        self.ledger = root / "ledger.db"  # what fits with noise have spent on this site's rows
        self.trusted_keys = root / "trusted_keys"  # ids of keys to answer encrypted under, one per line
        self.alive = self.state / "alive"  # sign of life of the process that runs the site
        self.paused = self.state / "paused"  # while this file is there, nobody is answered
        self.kept_out = self.state / "kept_out"  # there if the server has said that it takes no such site
        self.log = self.state / "queries.log"  # which queries were answered and which were refused
        self.rounds = self.state / "rounds"  # encrypted sums: contracts, what was sent, what was signed

    @property
    def trusted_key_ids(self) -> frozenset[str] | None:
        """Ids of the keys to answer under; None if there is no such file, and any key will do."""
        if not self.trusted_keys.exists():
            return None
        return frozenset(self.trusted_keys.read_text(encoding="ascii").split())


# --- the log of a process -----------------------------------------------------------------------------------


def log_to(path: Path) -> None:
    """Send what the package logs in this process to a file, and nowhere else."""
    logger = logging.getLogger("onefold")
    if logger.handlers:
        return
    handler = logging.StreamHandler(open_file(path, "a"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
