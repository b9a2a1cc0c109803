"""Prediction works in blocks: its memory does not grow with the number of rows."""

import tracemalloc

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold._base.parallel import worker_count
from onefold.models.pool import BLOCK_BYTES, CACHED_BYTES


@pytest.mark.parametrize(
    ("model", "n_features"),
    [
        (AutoencoderClassifier(WideKAHM(10, 2, branch_size=400, random_state=0)), 30),
        (FoldingClassifier(batch_size=20), 30),
        pytest.param(
            AutoencoderClassifier(WideKAHM(10, 2, branch_size=400, random_state=0)),
            600,
            marks=pytest.mark.merge,
        ),
        pytest.param(FoldingClassifier(batch_size=20), 600, marks=pytest.mark.merge),
    ],
    ids=["wide-30", "folding-30", "wide-600", "folding-600"],
)
def test_peak_memory_is_a_fixed_block_per_worker(model, n_features):
    rng = np.random.default_rng(0)
    y = np.arange(1600) % 2
    X = rng.normal(size=(1600, n_features)) + y[:, None]
    queries = rng.normal(size=(10000, n_features))
    model.fit(X, y)
    tracemalloc.start()
    distances = model.distances(queries)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert distances.shape == (10000, 2)
    assert peak <= worker_count(None) * BLOCK_BYTES + 3 * distances.nbytes
    assert peak > CACHED_BYTES / 8  # the measurement sees the blocks at all
