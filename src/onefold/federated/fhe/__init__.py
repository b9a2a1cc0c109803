"""Encrypted queries: nobody but the querier learns the answer (extra ``fhe``).

Three roles share no secrets. Every message between them has ``to_bytes`` / ``from_bytes`` in
:mod:`onefold.federated.fhe.messages`, and the roles take a message or its bytes::

    querier = Querier(n_clients=10, n_classes=5, bits=8)      # makes keys; save(path), load(path)
    public, evaluation = querier.public_key(), querier.evaluation_keys()

    site = Client(public, name="north")                       # has the public key only
    answers = site.encrypt(MeasureMap(8).numbers(measures), query_id="q1")     # (n, C) in [0, 1]

    server = Server(evaluation)                               # has the evaluation keys only
    tally = server.tally("q1", n_rows=len(measures))          # or server.aggregate([answers, ...])
    tally.add(answers)                                        # once per site, as they come
    result = tally.result()                                   # a site that did not answer is not counted

    querier.decrypt(result)                                   # bool (n, C): classes attaining the minimum

:class:`EncryptedArgmin` plays all three roles in one process. ``docs/encrypted.md`` says what is protected
from whom.
"""

from onefold.federated.fhe.argmin import EncryptedArgmin
from onefold.federated.fhe.quantiser import MeasureMap
from onefold.federated.fhe.roles import Client, Querier
from onefold.federated.fhe.server import Server, Tally

__all__ = ["Client", "EncryptedArgmin", "MeasureMap", "Querier", "Server", "Tally"]
