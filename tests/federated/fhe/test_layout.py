"""The layout: every mark has a place of its own, where the rotated thermometer is about its value."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.tiers import later

from onefold.federated.fhe.circuit import layouts

PAIRS = [(16, 2, 1), (16, 16, 40), (256, 5, 2), (256, 11, 5), (1024, 16, 1), (1024, 2, 5)]
ALL = product((16, 256, 1024), (2, 5, 11, 16), (1, 2, 5, 40))


@pytest.mark.parametrize(("n_values", "n_columns", "n_queries"), later(ALL, PAIRS))
def test_every_class_meets_every_value_once(n_values: int, n_columns: int, n_queries: int) -> None:
    for layout, rows in layouts(n_values, n_columns, 4096, n_queries):
        n_rows = rows.stop - rows.start
        query, column, value = np.mgrid[:n_rows, :n_columns, :n_values].reshape(3, -1)
        plane, slot = layout.places(query, column, value)
        assert len(set(zip(plane.tolist(), slot.tolist(), strict=True))) == len(plane)
        assert plane.max() < layout.planes
        for k in range(layout.planes):  # after k rotations the thermometer's value is that of the mark
            here = plane == k
            values = np.roll(layout.values().reshape(2, -1), -k * layout.plane_step, axis=1).ravel()
            assert np.array_equal(values[slot[here]], value[here])
            assert np.array_equal(layout.queries()[slot[here]], query[here])
