"""Where the files of a site's last fit are, whether they are there or not, and signs of life of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.keeping import find_profile, model_of, sums_of
from onefold.federated.flower.spool import Spool

__all__ = ["give_sign", "model_file", "profile_bytes", "sums_file"]


def model_file(folder: SiteFolder) -> Path:
    """The model of the last fit."""
    profile = find_profile(folder)
    return folder.state / "none.onefold" if profile is None else model_of(folder, profile)


def sums_file(folder: SiteFolder) -> Path:
    """The sums of the last fit."""
    profile = find_profile(folder)
    return folder.state / "none.sums" if profile is None else sums_of(folder, profile)


def profile_bytes(folder: SiteFolder) -> bytes:
    """What the site says about its last fit; empty before the first one."""
    profile = find_profile(folder)
    return b"" if profile is None else profile.to_bytes()


def give_sign(spool: Spool, online: Iterable[str]) -> None:
    """One sign of life of a run in this process, with the sites it sees."""
    pulse = spool.pulse()
    pulse.seen(online)
    pulse.beat()
