"""How a server and a site run: plain values in a file each, checked when they are made and read."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from onefold._base.files import atomic_write
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.rules import RULES

__all__ = ["ServerSettings", "SiteSettings", "is_loopback", "write_private"]

FORMAT = 1
MODES = ("query", "model")
SENDS = ("answers", "sealed-answers", "private-model", "raw-model")


def is_loopback(host: str) -> bool:
    """Whether a host is this very machine: ``localhost`` or an address that never leaves it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    with atomic_write(path, private=True) as file:
        file.write(content)


@dataclass(frozen=True)
class _Settings:
    """Plain values in a JSON file with a format number; every value is checked when it is made."""

    def save(self, path: Path) -> None:
        """Write the settings."""
        plain = {"format": FORMAT, **asdict(self)}
        write_private(path, (json.dumps(plain, indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the settings; anything but what :meth:`save` writes is refused."""
        try:
            plain = json.loads(path.read_bytes())
            if plain.pop("format") != FORMAT or set(plain) != {field.name for field in fields(cls)}:
                raise FileFormatError(f"{path}: these are not the settings this version writes")
            return cls(**plain)
        except FileNotFoundError:
            raise InvalidInputError(f"{path}: no such file; start with onefold federate init") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise FileFormatError(f"{path}: the settings cannot be read") from None


@dataclass(frozen=True)
class ServerSettings(_Settings):
    """How the server of a federation runs.

    Parameters
    ----------
    host, port : where the sites find it. mode : "query" or "model". rule : how answers are combined.
    n_liars : how many lying sites the trimmed and the checked rule are to withstand.
    insecure : plaintext without node keys, for tests on the loopback address only.
    """

    host: str
    port: int
    mode: str = "query"
    rule: str = "min"
    n_liars: int = 1
    insecure: bool = False

    def __post_init__(self) -> None:
        _check_address(self.host, self.port, self.insecure)
        if type(self.n_liars) is not int or not self.n_liars >= 0:
            raise InvalidInputError("n_liars must be a whole number from 0 on")
        if self.mode not in MODES:
            raise InvalidInputError("mode must be query or model")
        if self.rule not in RULES:
            raise InvalidInputError(f"rule must be one of {', '.join(RULES)}")


@dataclass(frozen=True)
class SiteSettings(_Settings):
    """How a site of a federation runs.

    Parameters
    ----------
    name : what the others call it. host, port : where its server is.
    insecure : as in :class:`ServerSettings`.
    per_minute, total : rows answered to all callers together, per minute and for ever.
    caller_total : rows answered to each caller the server names, for ever.
    sends : "answers", "sealed-answers" (encrypted ones only), "private-model" (a model with a standing
        guarantee may leave) or "raw-model".
    """

    name: str
    host: str
    port: int
    insecure: bool = False
    per_minute: int = 10_000
    total: int = 1_000_000
    caller_total: int = 1_000_000
    sends: str = "answers"

    def __post_init__(self) -> None:
        _check_address(self.host, self.port, self.insecure)
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInputError("a site needs a name")
        for number in (self.per_minute, self.total, self.caller_total):
            if type(number) is not int or not number >= 1:
                raise InvalidInputError("limits of a site must be whole numbers from 1 on")
        if self.sends not in SENDS:
            raise InvalidInputError(f"a site sends one of {', '.join(SENDS)}")


def _check_address(host: Any, port: Any, insecure: Any) -> None:
    if not isinstance(host, str) or not host or any(sign.isspace() or sign in "/\\\"'" for sign in host):
        raise InvalidInputError("host must be a name or an address")
    if type(port) is not int or not 1 <= port <= 65535:
        raise InvalidInputError("port must be a whole number from 1 to 65535")
    if type(insecure) is not bool:
        raise InvalidInputError("insecure must be true or false")
    if insecure and not is_loopback(host):
        raise InvalidInputError("plaintext is for tests on this machine: use --insecure with 127.0.0.1 only")
