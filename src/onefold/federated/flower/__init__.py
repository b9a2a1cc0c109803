"""A federation of real machines on Flower's message layer: no strategy and no rounds.

Two deployments behind one interface. In *query mode* the queries go to the sites and one number per row and
class returns; in *model mode* private local models travel once and the server answers alone. What a site
keeps (its model, its settings, its counters) is on its disk, because every message may be answered by a new
process. Needs the extra ``federated``.
"""

__all__: list[str] = []
