"""Per-class moments of a set of records, released once, private for whole records and their labels."""

from onefold.privacy.moments._estimator import PrivateMoments
from onefold.privacy.moments._release import noise_drowns_classes

__all__ = ["PrivateMoments", "noise_drowns_classes"]
