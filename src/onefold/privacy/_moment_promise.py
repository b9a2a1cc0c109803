"""What a release of moments promises: to a record and its label, more or less, or replaced by any other."""

import math
from typing import TYPE_CHECKING

from onefold.privacy._moment_release import SENSITIVITIES, Blocks
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.guarantee import NOTHING, Guarantee, two_steps

if TYPE_CHECKING:
    from onefold.privacy.moments import PrivateMoments

__all__ = ["promise"]

Pair = tuple[float, float]


def promise(moments: "PrivateMoments", sigma: Blocks) -> Guarantee:
    """The guarantee of a release with noise of these standard deviations; without noise there is none."""
    record = replaced = NOTHING
    if moments.epsilon is not None:
        record = float(moments.epsilon), float(moments.delta)
        replaced = _replaced(moments, record, sigma)
    return Guarantee(
        unit="record",
        entry=replaced,  # a changed entry or label replaces the record
        record=record,
        replaced=replaced,
        labels=replaced,
        labels_in_record=True,
        n_features=moments.n_features_in_,
        untouched_entries=0.0,
        mechanism="Gaussian on counts, sums and second moments" + ", hardened" * bool(moments.hardened),
        sensitivity=1.0,
        neighbours=moments.neighbours,
    )


def _replaced(moments: "PrivateMoments", record: Pair, sigma: Blocks) -> Pair:
    """(epsilon, delta) when a record and its label are replaced."""
    delta = record[1]
    if moments.neighbours == "replace":
        return record
    if moments.classes is None:
        return two_steps(record)
    pairs = zip(SENSITIVITIES["replace"], sigma, strict=True)
    mu = math.sqrt(sum((bound / level) ** 2 for bound, level in pairs if level > 0.0))
    return epsilon_of(mu, delta), delta
