"""The files that belong to one fit of a site, and how they are replaced by those of the next one.

What a site says about itself, its profile, names the model and the sums that it speaks of by their digests.
New files are first written beside the old ones. Writing the new profile is the one step that counts: before
it the old files belong to the site, after it the new ones, and a site that stops anywhere has all files of
one fit. Only then do the new files take the names of the old ones.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onefold._base.files import file_lock, remove_file, replace_file, write_whole
from onefold.exceptions import FederationError, MessageError, OnefoldError
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.life import read_sign
from onefold.federated.messages import (
    PlainSums,
    PrivateSums,
    Profile,
    digest_of,
    from_bytes,
)

Content = bytes | Callable[[Path], None]


class Changed(FederationError):
    """The site was fitted anew between reading its profile and reading a file."""


def read_profile(folder: SiteFolder) -> Profile:
    """What the site says about its model."""
    try:
        return Profile.load(folder.profile)
    except (OSError, OnefoldError):
        raise FederationError(
            "this site has no model yet: fit one, with DATA and --label or --schema"
        ) from None


def state_of(folder: SiteFolder) -> str:
    """What the site does now, by what is there: its files, and a process that gives signs of life.

    It is "empty" without a model, sums or a part in encrypted sums; "stopped" if no process runs it;
    "connecting" until the server has let it in; then "paused", "sums" if it is not asked, or "answers".
    """
    profile = read_profile(folder) if folder.profile.exists() else None
    if profile is None:
        ready = folder.settings.takes_part_in_sums
    else:
        path = folder.sums if profile.sends_only_sums else folder.model
        ready = path.exists() or _beside(path).exists()
    sign = read_sign(folder.alive)
    if not ready:
        return "empty"
    if sign is None or not (sign.is_fresh and sign.is_there):
        return "stopped"
    if not sign.online:
        return "connecting"
    if folder.paused.exists():
        return "paused"
    return "sums" if profile is None or profile.sends_only_sums else "answers"


def write_profile(folder: SiteFolder, profile: Profile) -> None:
    """Write what the site says about its model: from now on it speaks of other files."""
    profile.save(folder.profile)


def keep(
    folder: SiteFolder,
    profile: Profile,
    files: Mapping[Path, Content],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Put the files of a fit in the place of those of the fit before: all of them or none.

    A file is its content, or a function that writes it to the path it is given. Files of the fit before that
    the new one does not have are deleted. ``check`` is called when no other fit can come between any more;
    what it raises leaves everything as it was.
    """
    folder.prepare()
    with file_lock(folder.profile):
        check()
        _settle(folder)
        for path, content in files.items():
            if callable(content):
                content(_beside(path))
            else:
                write_whole(_beside(path), content)
        write_profile(folder, profile)
        _settle(folder)


def settle(folder: SiteFolder) -> None:
    """Delete what does not belong to the profile, if a program stopped while it replaced the files."""
    if folder.state.is_dir():
        with file_lock(folder.profile):
            _settle(folder)


@contextmanager
def served_model(folder: SiteFolder, digest: str) -> Iterator[Path]:
    """Where the model with this digest is; no fit can replace it while the block runs."""
    with file_lock(folder.profile):
        profile = read_profile(folder)
        if profile.model_digest != digest:
            raise Changed("the model is not the one the profile speaks of")
        yield _place(folder, folder.model, profile)


def sums_place(folder: SiteFolder, profile: Profile) -> Path:
    """Where the sums are that a profile speaks of."""
    with file_lock(folder.profile):
        return _place(folder, folder.sums, profile)


def notes_of(folder: SiteFolder, path: Path, profile: Profile) -> dict[str, Any]:
    """What a file of notes says about the model of a profile; nothing if it is about another one."""
    for place in (path, _beside(path)):
        if _belongs(folder, path, place, profile):
            return _notes(place)
    return {}


def _place(folder: SiteFolder, path: Path, profile: Profile) -> Path:
    for place in (path, _beside(path)):
        if _belongs(folder, path, place, profile):
            return place
    raise FederationError(f"{path.name} is not the one the profile speaks of")


def _settle(folder: SiteFolder) -> None:
    try:
        profile = read_profile(folder)
    except FederationError:
        profile = None
    for path in folder.fitted:
        beside = _beside(path)
        if profile is not None and _belongs(folder, path, beside, profile):
            replace_file(beside, path)
        elif profile is not None and path.exists() and not _belongs(folder, path, path, profile):
            remove_file(path)
        if beside.exists():
            remove_file(beside)


def _beside(path: Path) -> Path:
    return path.with_name(f"next-{path.name}")


def _belongs(folder: SiteFolder, path: Path, place: Path, profile: Profile) -> bool:
    """Whether what is at a place is the file ``path`` of the fit that a profile speaks of."""
    try:
        if path == folder.model:
            content = place.read_bytes()
            return not profile.sends_only_sums and digest_of(content) == profile.model_digest
        if path == folder.sums:
            found = from_bytes(place.read_bytes()) if profile.sums is not None else None
            return isinstance(found, PlainSums | PrivateSums) and digest_of(found.content) == profile.sums
        return bool(_notes(place).get("model") == profile.model_digest)
    except (OSError, MessageError):
        return False


def _notes(place: Path) -> dict[str, Any]:
    try:
        plain = json.loads(place.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}
