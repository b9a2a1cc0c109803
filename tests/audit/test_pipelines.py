"""Whole pipelines on trial: what they claim stands, and what voids a claim is seen in the output."""

from typing import Any

import numpy as np
import pytest

from onefold.audit import EpsilonAudit, audit_epsilon
from onefold.privacy.moments import PrivateMoments

CONFIDENCE = 0.999


# --- moments of whole records -----------------------------------------------------------------------------

OTHERS = np.random.default_rng(0).uniform(-0.3, 0.3, size=(12, 2))
LABELS = np.repeat([0, 1], 6)


def released(moments: PrivateMoments) -> np.ndarray:
    parts = moments.counts_, moments.sums_, moments.second_moments_, moments.centre_
    return np.concatenate([np.ravel(part) for part in parts])


def audit_moments(epsilon: float, neighbours: str, n_trials: int) -> EpsilonAudit:
    """The datasets are named by a flag: a record at the edge of the ball is added, or replaced by another."""

    def release(flag: np.ndarray, rng: Any) -> np.ndarray:
        record, label = np.array([[1.0, 0.0]]), 0
        if neighbours == "replace" and flag[0]:
            record, label = np.array([[-1.0, 0.0]]), 1
        keep = 1 if neighbours == "replace" or flag[0] else 0
        X, y = np.concatenate([OTHERS, record[:keep]]), np.append(LABELS, [label] * keep)
        model = PrivateMoments(
            epsilon, 1e-5, classes=[0, 1], centre=None, neighbours=neighbours, random_state=rng
        )
        return released(model.fit(X, y))

    return audit_epsilon(release, [0.0], [1.0], 1e-5, n_trials, CONFIDENCE, unit="unchecked", random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_moments_keep_their_promise_for_a_record(neighbours: str) -> None:
    # Gaussian noise shows its epsilon only in the tails: a few thousand releases see a fraction of it.
    assert 0.3 < audit_moments(4.0, neighbours, 3000).epsilon_lower <= 4.0


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_moments_with_too_little_noise_are_caught(neighbours: str) -> None:
    assert audit_moments(12.0, neighbours, 2000).contradicts(1.5)
