"""Per-class moments of a set of records, released once, private for whole records and their labels."""

from onefold.privacy.moments._denoise import noise_drowns_classes
from onefold.privacy.moments._estimator import PrivateMoments
from onefold.privacy.moments._rounds import MomentPart, MomentRounds

__all__ = ["MomentPart", "MomentRounds", "PrivateMoments", "noise_drowns_classes"]
