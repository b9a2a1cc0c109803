"""The server's arithmetic on plain slots modulo t: what mode ``simulate`` runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onefold.federated.fhe._circuit import PLAIN_MODULUS, hidden, pick
from onefold.federated.fhe._encoding import check_marks, encode
from onefold.federated.fhe._engine import PlainSlots
from onefold.federated.fhe._layout import Layout, Slots
from onefold.federated.fhe._parameters import Parameters
from onefold.federated.fhe._two_digits import race
from onefold.federated.fhe._zero_test import ZeroTest

__all__ = ["simulate"]


def simulate(numbers: NDArray[np.int64], layout: Layout, parameters: Parameters) -> Slots:
    """The slots of the result for rows (clients, n, C), with everything hidden that a result hides."""
    engine = PlainSlots(PLAIN_MODULUS)
    sent = (encode(each, layout, parameters.digits) for each in numbers)
    n_rows = numbers.shape[1]
    if parameters.digits == 1:
        first = next(sent)
        counts, planes = first.thermometer, first.marks
        for each in sent:
            counts += each.thermometer
            planes += each.marks
        below = ZeroTest(parameters.n_clients, PLAIN_MODULUS).evaluate(engine, counts)
    else:
        every = list(sent)
        counts = np.sum([each.thermometer for each in every], axis=0)
        runners = [(each.hot, each.low, list(each.marks)) for each in every]
        below, weighed = race(engine, layout, parameters.n_clients, counts, runners)
        planes = np.stack(weighed) + check_marks(layout, n_rows, len(numbers))
    picked = pick(engine, layout, below, list(planes))
    return engine.shift_slots(picked, hidden(layout, n_rows))
