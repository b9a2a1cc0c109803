"""Packed ciphertexts."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import MessageError
from onefold.federated.fhe.parameters import ciphertext_size
from onefold.federated.fhe.seal import PlaneSums, pack_planes

PRIMES = [2**40 - 87, 2**24 - 3, 2**31 - 1, 2**36 - 5, 2**44 - 17, 2**53 - 111, 2**60 - 93]
SIZE = ciphertext_size([prime.bit_length() for prime in PRIMES], 64)


def _polynomials(rng: np.random.Generator) -> np.ndarray:
    return np.stack([rng.integers(0, p, (2, 64), dtype=np.uint64) for p in PRIMES], axis=1)


def test_packed_ciphertexts_come_back_and_add_up() -> None:
    rng = np.random.default_rng(0)
    many = [_polynomials(rng) for _ in range(9)]
    sums = PlaneSums(PRIMES, 64)
    for each in many:
        packed = pack_planes(each, PRIMES)
        assert len(packed) == SIZE
        assert np.array_equal(PlaneSums(PRIMES, 64).add(memoryview(packed)).total(), each)
        sums.add(memoryview(packed))
    expected = sum(each.astype(object) for each in many) % np.array(PRIMES, dtype=object)[None, :, None]
    assert np.array_equal(sums.total(), expected)


def test_packed_ciphertext_of_another_size_is_refused() -> None:
    packed = pack_planes(_polynomials(np.random.default_rng(0)), PRIMES)
    for wrong in (packed[:-1], packed + b"\0", b""):
        with pytest.raises(MessageError, match="size"):
            PlaneSums(PRIMES, 64).add(memoryview(wrong)).total()


def test_largest_bytes_are_reduced_modulo_each_prime() -> None:
    """A hostile site may send coefficients that are not below their prime."""
    packed = b"\xff" * SIZE
    found = PlaneSums(PRIMES, 64).add(memoryview(packed)).total()
    for index, prime in enumerate(PRIMES):
        largest = 2 ** (8 * ((prime.bit_length() + 7) // 8)) - 1
        assert np.all(found[:, index] == largest % prime)
