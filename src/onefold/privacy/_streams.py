"""Where random bits come from: the operating system unless a test asks for a seed."""

import numbers
import os
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError

try:  # an interpreter may be built without it
    # Five times the speed of os.urandom; seeded from the system, and reseeded by itself after a fork.
    from ssl import RAND_bytes as _system_bytes
except ImportError:  # pragma: no cover
    _system_bytes = os.urandom

__all__ = ["ByteStream", "RandomState", "byte_stream", "generator"]

RandomState: TypeAlias = int | np.random.Generator | None


def _is_seed(random_state: object) -> bool:
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, (bool, np.bool_))
    return whole and random_state >= 0  # type: ignore[operator]


def generator(random_state: RandomState) -> np.random.Generator:
    """Generator of the ordinary samplers: fresh entropy of the system for ``None``."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or _is_seed(random_state):
        return np.random.default_rng(random_state)
    raise InvalidInputError("random_state must be None, a whole number of at least 0, or a numpy Generator")


class ByteStream:
    """Independent uniform words from a source of random bytes."""

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source = source

    def octets(self, size: int) -> NDArray[np.uint8]:
        """Words of 8 bits."""
        return np.frombuffer(self._source(size), dtype=np.uint8)

    def words(self, size: int) -> NDArray[np.uint64]:
        """Words of 64 bits; the byte order is fixed so that a seed means the same everywhere."""
        return np.frombuffer(self._source(8 * size), dtype="<u8").astype(np.uint64, copy=False)

    def integer(self, bits: int) -> int:
        """A uniform Python integer below ``2**bits``, for a whole number of bytes."""
        return int.from_bytes(self._source(bits // 8), "little")


def byte_stream(random_state: RandomState) -> ByteStream:
    """Stream of the hardened samplers: the system's cryptographic generator for ``None``.

    With a seed the bytes come from numpy's generator: reproducible, for tests, and not secret.
    """
    if random_state is None:
        return ByteStream(_system_bytes)
    return ByteStream(generator(random_state).bytes)
