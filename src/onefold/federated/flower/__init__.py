"""A federation of real machines on Flower's message layer: no strategy and no rounds.

:class:`Federation` is the server's end and :class:`Site` the end of each site; the command line
``onefold federate`` calls them. In *query mode* the queries go to the sites and one number per row and class
returns; in *model mode* private local models travel once and the server answers alone. What a site keeps (its
model, its settings, its counters) is on its disk, because every message may be answered by a new process.
Needs the extra ``federated``; encrypted queries need the extra ``fhe`` too.
"""

from onefold.federated.flower.asking import Collected, QueryResult
from onefold.federated.flower.encrypted import QueryKeyFile, decrypt, make_query_key
from onefold.federated.flower.federation import Federation
from onefold.federated.flower.plain_app import write_plain_app
from onefold.federated.flower.site import Site
from onefold.federated.flower.status import FederationStatus, SiteStatus
from onefold.federated.flower.sum_rounds import SumRound

__all__ = [
    "Collected",
    "Federation",
    "FederationStatus",
    "QueryKeyFile",
    "QueryResult",
    "Site",
    "SiteStatus",
    "SumRound",
    "decrypt",
    "make_query_key",
    "write_plain_app",
]
