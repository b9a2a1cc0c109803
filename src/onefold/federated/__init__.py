"""One global classifier from models that were fitted where the data is, in one round.

Each site fits a :class:`LocalModel`; the server combines their answers, class by class, by a minimum (000 eq.
104, 004 eq. 105) or by a rule that withstands liars. The models are independent of each other, so joining and
leaving are exact: no other site has to do anything, and a site that has left leaves no trace. A joined
federation (:class:`JoinedFederation`) adds scores from exact sums of all sites' rows, which are not private.
"""

from onefold.federated._rows import Forgotten
from onefold.federated.access.guard import QueryGuard
from onefold.federated.access.log import MembershipLog
from onefold.federated.joined import Agreement, JoinedSums, Offset
from onefold.federated.joined_server import JoinedFederation
from onefold.federated.local_model import LocalModel
from onefold.federated.moments import MomentFederation, release_moments
from onefold.federated.number_sums import NumberRelease, NumberResult
from onefold.federated.regression import RegressionSimulation, simulate_regression
from onefold.federated.secret import (
    EncryptedSum,
    HolderKey,
    MomentSum,
    OpenedSum,
    PublicHolder,
    SchemaSum,
    SumBlock,
    SumContract,
    SumHolder,
    SumParties,
    TableSum,
)
from onefold.federated.server import GlobalClassifier, Result
from onefold.federated.simulate import Simulation, simulate
from onefold.federated.uncertainty import LabelUncertainty, Uncertainty

__all__ = [
    "Agreement",
    "EncryptedSum",
    "Forgotten",
    "GlobalClassifier",
    "HolderKey",
    "JoinedFederation",
    "JoinedSums",
    "LabelUncertainty",
    "LocalModel",
    "MembershipLog",
    "MomentFederation",
    "MomentSum",
    "NumberRelease",
    "NumberResult",
    "Offset",
    "OpenedSum",
    "PublicHolder",
    "QueryGuard",
    "RegressionSimulation",
    "Result",
    "SchemaSum",
    "Simulation",
    "SumBlock",
    "SumContract",
    "SumHolder",
    "SumParties",
    "TableSum",
    "Uncertainty",
    "release_moments",
    "simulate",
    "simulate_regression",
]
