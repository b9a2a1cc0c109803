"""What belongs to one fit of a site, and how it is replaced by that of the next one.

What a site says about itself, its profile, is in its store, and names the model and the sums that it speaks
of by their digests, as their files are named. New files are written beside the old ones. Writing the new
profile is the one step that counts: before it the old files belong to the site, after it the new ones. Files
that the profile does not name are deleted.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onefold._base.files import remove_file, write_whole
from onefold.exceptions import FederationError, OnefoldError
from onefold.federated.access.store import put_value, value_of
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.life import LifeSign
from onefold.federated.messages import Profile, SiteFacts, digest_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import Ledger, has_ledger

Content = bytes | Callable[[Path], None]


class Changed(FederationError):
    """The site was fitted anew between reading its profile and reading a file."""


def find_profile(folder: SiteFolder) -> Profile | None:
    """What the site says about its model; None before the first fit."""
    with folder.store.reading() as db:
        content = value_of(db, "profile", None)
    return None if content is None else Profile.from_bytes(content)


def read_profile(folder: SiteFolder) -> Profile:
    """What the site says about its model."""
    try:
        profile = find_profile(folder)
    except (OSError, OnefoldError):
        profile = None
    if profile is None:
        raise FederationError("this site has no model yet: fit one, with DATA and --label or --schema")
    return profile


def write_profile(folder: SiteFolder, profile: Profile) -> None:
    """Write what the site says about its model: from now on it speaks of other files."""
    with folder.store.transaction() as db:
        put_value(db, "profile", profile.to_bytes())


def model_of(folder: SiteFolder, profile: Profile) -> Path:
    """Where the model is that a profile speaks of."""
    return folder.state / f"{profile.model_digest}.onefold"


def sums_of(folder: SiteFolder, profile: Profile) -> Path:
    """Where the sums are that a profile speaks of."""
    return folder.state / f"{profile.sums}.sums"


def state_of(folder: SiteFolder) -> str:
    """What the site does now, by what is there: its files, and a process that gives signs of life.

    It is "empty" without a model, sums or a part in encrypted sums; "stopped" if no process runs it;
    "connecting" until the server has let it in; then "paused", "sums" if it is not asked, or "answers".
    """
    profile = find_profile(folder)
    if profile is None:
        ready = folder.settings.takes_part_in_sums
    else:
        ready = (sums_of if profile.sends_only_sums else model_of)(folder, profile).exists()
    sign = LifeSign.last(folder.alive)
    if not ready:
        return "empty"
    if sign is None or not (sign.is_fresh and sign.is_there):
        return "stopped"
    if not sign.online:
        return "connecting"
    if folder.paused.exists():
        return "paused"
    return "sums" if profile is None or profile.sends_only_sums else "answers"


def keep(
    folder: SiteFolder,
    profile: Profile,
    files: Mapping[Path, Content],
    recipe: Mapping[str, Any] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Profile:
    """Put a fit in the place of the one before: its profile, its files and how it was made, or nothing.

    A file is its content, or a function that writes it to the path it is given. ``check`` is called when no
    other fit can come between any more; what it raises leaves everything as it was.
    """
    folder.prepare()
    with folder.store.transaction() as db:
        check()
        for path, content in files.items():
            if callable(content):
                content(path)
            else:
                write_whole(path, content)
        put_value(db, "profile", profile.to_bytes())
        put_value(db, "recipe", json.dumps({} if recipe is None else dict(recipe), allow_nan=False))
    settle(folder)
    return profile


def settle(folder: SiteFolder) -> None:
    """Delete the files of earlier fits, and of one that was stopped."""
    with folder.store.transaction():  # nobody keeps a fit meanwhile
        profile = find_profile(folder)
        named = () if profile is None else (model_of(folder, profile), sums_of(folder, profile))
        for path in (*folder.state.glob("*.onefold"), *folder.state.glob("*.sums")):
            if path not in named:
                remove_file(path)


@contextmanager
def served_model(folder: SiteFolder, digest: str) -> Iterator[Path]:
    """Where the model with this digest is; no fit can replace it while the block runs."""
    with folder.store.transaction():
        profile = read_profile(folder)
        if profile.model_digest != digest:
            raise Changed("the model is not the one the profile speaks of")
        path = model_of(folder, profile)
        if not path.is_file() or digest_of(path.read_bytes()) != digest:
            raise FederationError(f"{path.name} is not the model that the profile speaks of")
        yield path


def recipe_of(folder: SiteFolder) -> dict[str, Any]:
    """How the last fit was made, as it was told; empty if it was not."""
    with folder.store.reading() as db:
        return dict(json.loads(value_of(db, "recipe", "{}")))


# --- what a fit spends, and what is told of it --------------------------------------------------------------


def begin_ledger(folder: SiteFolder, promise: Guarantee) -> None:
    """Make the folder's ledger, if there is none, for releases like this one and the model that is there."""
    if has_ledger(folder.ledger):
        return
    earlier = promised(folder)
    persons = promise.person is not None and (earlier is None or earlier.person is not None)
    epsilon, delta = promise.person if persons and promise.person is not None else promise.record
    # A row of very many entries may be promised nothing as a whole.
    unit = "entry" if not math.isfinite(epsilon) or delta >= 1.0 else "person" if persons else "record"
    relation = promise.neighbours if earlier is None and unit != "entry" else "replace"
    ledger = Ledger(unit=unit, neighbours=relation)  # type: ignore[arg-type]
    if earlier is not None and earlier.holds:
        ledger.spend_guarantee(earlier, "model fitted before there was a ledger")
    ledger.save(folder.ledger)


def promised(folder: SiteFolder) -> Guarantee | None:
    """What the model that is there promises; None if there is none, or one of raw rows."""
    profile = find_profile(folder)
    return None if profile is None or profile.guarantee is None else Guarantee.from_dict(profile.guarantee)


def facts_of(folder: SiteFolder) -> SiteFacts:
    """What a site tells about itself besides its profile."""
    settings = folder.settings
    budget = None
    if settings.tells_epsilon and folder.ledger.is_file():
        with suppress(OnefoldError):
            ledger = Ledger.load(folder.ledger)
            limit = ledger.limit_epsilon
            of = "no limit" if limit is None else f"limit {limit:g}"
            budget = f"spent {ledger.spent}; {of}"
    return SiteFacts(settings.name, _version("onefold"), _version("flwr"), settings.declared_rows, budget)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
