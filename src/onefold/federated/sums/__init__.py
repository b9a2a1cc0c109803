"""Encrypted sums: t of n key holders open the sum of all sites' numbers, and nobody sees a single site's.

``encrypted`` has the steps of a round and ``holder`` those of a key holder; ``contract``, ``keys``,
``messages`` and ``noise`` are what they rest on. ``schemes`` has the two ways to hide numbers, shares of
several holders (``sharing``) and one key (``bfv``, which alone needs SEAL). ``statistics`` and ``schema`` sum
moments and tables.
"""

from onefold.federated.sums.contract import SumContract
from onefold.federated.sums.encrypted import EncryptedSum, OpenedSum
from onefold.federated.sums.holder import SumHolder
from onefold.federated.sums.keys import HolderGroup, HolderKey, PublicHolder
from onefold.federated.sums.noise import SumBlock
from onefold.federated.sums.schema import SchemaSum
from onefold.federated.sums.statistics import MomentSum, SumParties, TableSum

__all__ = [
    "EncryptedSum",
    "HolderGroup",
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
