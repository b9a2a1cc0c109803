"""What the tests of transfer share: the path to the literal versions, and small domains."""

import sys
from pathlib import Path

import numpy as np
import pytest

_TESTS = str(Path(__file__).resolve().parents[1])
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
