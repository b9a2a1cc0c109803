"""Encrypted sums: t of n key holders open the sum of all sites' numbers, and nobody sees a single site's.

``rounds`` has the steps of a round, also those of a key holder; ``contract``, ``keys``, ``noise``
and ``shares`` are what they rest on. ``statistics`` and ``schema`` sum moments and tables.
"""

from onefold.federated.secret.contract import SumContract, SumParties
from onefold.federated.secret.keys import HolderKey, PublicHolder
from onefold.federated.secret.noise import SumBlock
from onefold.federated.secret.rounds import EncryptedSum, OpenedSum, SumHolder
from onefold.federated.secret.schema import SchemaSum
from onefold.federated.secret.statistics import MomentSum, TableSum

__all__ = [
    "EncryptedSum",
    "HolderKey",
    "MomentSum",
    "OpenedSum",
    "PublicHolder",
    "SchemaSum",
    "SumBlock",
    "SumContract",
    "SumHolder",
    "SumParties",
    "TableSum",
]
