"""The ledger of a site's folder: what everything that left the site with noise has spent on its rows."""

import math

from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.keeping import find_profile
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import Ledger, has_ledger


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
