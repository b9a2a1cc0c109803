"""One machine in few dimensions is folded some samples at a time, with the answer of all at once."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import KAHM
from onefold.models.kahm import core


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_queries_of_a_thin_machine_get_the_distances_of_few(dtype: type) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(901, 5)).astype(dtype)
    queries = (2 * rng.normal(size=(400, 5))).astype(dtype)
    machine = KAHM(scale="auto").fit(X)
    few = np.concatenate([machine.distance(part) for part in np.split(queries, 40)])
    assert 901 * 10 <= core.CACHED_VALUES < 901 * 100  # only the blocks of many queries are made in parts
    # Sums of another order have other last digits.
    np.testing.assert_allclose(machine.distance(queries), few, rtol=1e-9 if dtype is np.float64 else 2e-3)
