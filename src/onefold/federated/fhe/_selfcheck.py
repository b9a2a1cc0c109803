"""A trial of new keys: does a query come out right, and is the noise what it was taken to be?

Too much noise gives wrong answers without any sign in the ciphertexts. So keys are tried out before they
are handed out, with as many clients as there are (up to a limit, as that is what takes the time), and the
noise of the result before flooding is compared with the bound on which parameters and flooding rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onefold.federated.fhe.client import Client
from onefold.federated.fhe.messages import EvaluationKeys, PublicKey
from onefold.federated.fhe.server import Server, Tally

__all__ = ["trial"]

MOST_TRIAL_CLIENTS = {1: 64, 2: 4}  # by the number of digits


def trial(public: PublicKey, keys: EvaluationKeys) -> tuple[Tally, NDArray[np.bool_]]:
    """The tally of a made-up query of one row, and its answer."""
    n_clients = min(keys.n_clients, MOST_TRIAL_CLIENTS[keys.parameters.digits])
    values = 1 + np.arange(n_clients * keys.n_classes).reshape(n_clients, 1, -1) * 37 % (2**keys.bits - 1)
    values[-1, 0, :: max(1, keys.n_classes // 3)] = 0  # the classes that are to win, with ties
    tally = Server(keys).tally("trial", 1)
    for index, each in enumerate(values):
        tally.add(Client(public, f"trial-{index}").encrypt(each, "trial"))
    return tally, np.asarray(values.min(axis=0) == 0)
