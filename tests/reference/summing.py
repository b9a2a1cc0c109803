"""A small encrypted sum with all its participants, for tests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.records import kind_of, pack, unpack
from onefold.federated import EncryptedSum, HolderKey, SumBlock, SumContract, SumHolder
from onefold.privacy import Guarantee
from onefold.privacy.calibration import mu_of

DELTA = 1e-5


def promise(epsilon: float = 1.0) -> Guarantee:
    """What one Gaussian release promises for records more or less."""
    pair = (epsilon, DELTA)
    return Guarantee(
        "record",
        entry=(3.0, DELTA),
        record=pair,
        n_features=4,
        neighbours="add-remove",
        replaced=(3.0, DELTA),
        labels=(3.0, DELTA),
        labels_in_record=True,
        clipped=True,
        mu=mu_of(epsilon, DELTA),
    )


@dataclass
class World:
    """Sites with vectors, holders with keys, a folder for each of them, and a sum."""

    n_sites: int = 4
    n_holders: int = 5
    threshold: int = 3
    length: int = 6
    epsilon: float | None = None
    signed: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.keys = [HolderKey.new(f"holder{i}") for i in range(self.n_holders)]
        self.sites = tuple(f"site{i}" for i in range(self.n_sites))
        self.site_keys = {site: HolderKey.new(site) for site in self.sites}
        rng = np.random.default_rng(0)
        self.vectors = {site: rng.integers(-1000, 1001, self.length) for site in self.sites}
        self.contract = self.agree()
        self.sum = EncryptedSum(self.contract)

    def agree(self, **changes: Any) -> SumContract:
        """A contract of this world, with changes."""
        sigma = 0.0 if self.epsilon is None else 16 / mu_of(self.epsilon, DELTA) * (1 + 2e-6)
        given = {
            "round_id": "spring",
            "holders": tuple(key.public for key in self.keys),
            "threshold": self.threshold,
            "sites": self.sites,
            "blocks": (SumBlock("counts", self.length, 1000, sigma, 16.0),),
            "promise": None if self.epsilon is None else promise(self.epsilon),
            "noise": self.epsilon is not None,
            "site_keys": tuple(self.site_keys[s].public for s in self.sites) if self.signed else (),
        }
        return SumContract(**{**given, **self.options, **changes})

    def message(self, site: str, total: EncryptedSum | None = None, where: str = "", **options: Any) -> bytes:
        """A site's message; another ``where`` is a site that has forgotten what it sent."""
        folder = self.folder / f"{site}{where}"
        folder.mkdir(exist_ok=True)
        key = self.site_keys[site] if self.signed else None
        return (total or self.sum).contribute(site, self.vectors[site], folder, key=key, **options)

    def messages(self, sites: Any = None) -> list[bytes]:
        """Messages of some sites, or of all."""
        return [self.message(site) for site in (self.sites if sites is None else sites)]

    def holder(self, number: int, total: EncryptedSum | None = None) -> SumHolder:
        """A holder as it is after a restart: it knows only what is in its folder."""
        folder = self.folder / self.keys[number].name
        folder.mkdir(exist_ok=True)
        return SumHolder(total or self.sum, self.keys[number], folder)

    def holders(self, numbers: Any = None) -> list[SumHolder]:
        """Some holders, or all."""
        return [self.holder(number) for number in (range(self.n_holders) if numbers is None else numbers)]

    def total(self, sites: Any = None) -> np.ndarray:
        """The plain sum."""
        return np.sum([self.vectors[site] for site in (self.sites if sites is None else sites)], axis=0)


def rewritten(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """A record whose fields somebody has changed, with a checksum that fits."""
    kind = kind_of(content)
    assert kind is not None
    text, arrays = unpack(content, kind, 1)
    plain = json.loads(text)
    changed = change(plain)
    return pack(kind, 1, plain if changed is None else changed, arrays)
