"""The circuit on plain slots."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.federated.fhe.argmin import PlainSlots
from onefold.federated.fhe.circuit import zero_test


@pytest.mark.parametrize("n_clients", [1, 2, 3, 4, 5, 7, 8, 10, 16, 33, 64, 100, 127, 128, 199, 200])
def test_zero_test_is_1_at_zero_and_0_at_every_other_count(n_clients: int) -> None:
    counts = np.arange(n_clients + 1)
    found = zero_test(PlainSlots(), n_clients, counts)
    assert found.tolist() == [1] + [0] * n_clients
