"""One global classifier from models that were fitted where the data is, in one round.

Owners fit a :class:`LocalModel` each; the server combines their answers, class by class, by a minimum
(000 eq. 104, 004 eq. 105). The minimum over independent models makes joining and leaving exact:
no other owner has to do anything.
"""

from onefold.federated.client import LocalModel
from onefold.federated.moments import MomentFederation, release_moments
from onefold.federated.server import GlobalClassifier
from onefold.federated.simulate import Simulation, simulate

__all__ = ["GlobalClassifier", "LocalModel", "MomentFederation", "Simulation", "release_moments", "simulate"]
