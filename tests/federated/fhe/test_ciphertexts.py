"""The engine on ciphertexts against the engine on plain slots, operation by operation."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.federated.fhe._ciphertexts import Cipher
from onefold.federated.fhe._circuit import PLAIN_MODULUS, window_sum
from onefold.federated.fhe._engine import Combination, PlainSlots
from onefold.federated.fhe._wire import PlaneSums, pack_planes, packed_size, read_ciphertext

PLAIN = PlainSlots(PLAIN_MODULUS)


class Bench:
    """Encrypts and decrypts slots with the keys of a small federation."""

    def __init__(self, federation) -> None:
        self.querier, self.engine = federation.querier, federation.server.engine
        self.contexts = self.engine.contexts
        full = self.contexts.full.context
        key = full.from_public_str(federation.public.key)
        self.encryptor = self.contexts.seal.Encryptor(full, key)
        self.size = self.contexts.parameters.degree
        self.rng = np.random.default_rng(0)

    def slots(self) -> np.ndarray:
        return self.rng.integers(0, PLAIN_MODULUS, self.size)

    def encrypt(self, slots: np.ndarray) -> Cipher:
        inner = self.encryptor.encrypt(self.contexts.encoder.encode(slots.astype(np.uint64)))
        return self.engine.load_sum(read_ciphertext(inner.to_string()).polynomials, 1)

    def decrypt(self, cipher: Cipher) -> np.ndarray:
        number = self.contexts.room_number(cipher.n_primes)
        room, secret = self.contexts.rooms[number], self.querier._secrets[number]
        plain = self.contexts.seal.Decryptor(room.context, secret).decrypt(cipher.inner)
        return self.contexts.encoder.decode_uint64(plain).astype(np.int64) * cipher.factor % PLAIN_MODULUS


@pytest.fixture(scope="module")
def bench(small) -> Bench:
    return Bench(small)


def test_sums_with_coefficients_and_products(bench: Bench) -> None:
    a, b, c = (bench.slots() for _ in range(3))
    x, y, z = (bench.encrypt(each) for each in (a, b, c))
    for terms, constant in (([(3, x), (-1, y)], 5), ([(0, x), (65530, y)], 0), ([(1, x)], -7)):
        plain = [(k, {id(x): a, id(y): b}[id(v)]) for k, v in terms]
        found = bench.decrypt(bench.engine.combine(Combination(terms, constant)))
        assert np.array_equal(found, PLAIN.combine(Combination(plain, constant)))
    # Operands with different histories: factors and levels differ, sums must not.
    low = bench.engine.settle(bench.engine.multiply(x, y))
    first, second = Combination([(9, x), (4, z)], 1), Combination([(2, z)], 3)
    found = bench.engine.sum_of_products([(first, low), (second, None)], bench.engine.multiply(low, z))
    plain_low = PLAIN.multiply(a, b)
    expected = PLAIN.sum_of_products(
        [(Combination([(9, a), (4, c)], 1), plain_low), (Combination([(2, c)], 3), None)],
        PLAIN.multiply(plain_low, c),
    )
    assert np.array_equal(bench.decrypt(bench.engine.settle(found)), expected)


def test_slots_scaled_shifted_rotated_and_summed(bench: Bench) -> None:
    a, b = bench.slots(), bench.slots()
    low = bench.engine.drop(bench.encrypt(a), bench.contexts.parameters.pick_primes)
    assert np.array_equal(bench.decrypt(bench.engine.scale_slots(low, b)), PLAIN.scale_slots(a, b))
    assert np.array_equal(bench.decrypt(bench.engine.shift_slots(low, b)), PLAIN.shift_slots(a, b))
    (*_, steps) = bench.contexts.parameters.rotations
    for step in steps[:3]:
        assert np.array_equal(bench.decrypt(bench.engine.rotate(low, step)), PLAIN.rotate(a, step))


@pytest.mark.parametrize("window", [1, 2, 3, 5, 12, 23, 64])
def test_a_window_sum_is_a_sum_over_a_window(window: int) -> None:
    slots = np.random.default_rng(0).integers(0, PLAIN_MODULUS, 512)
    rows = slots.reshape(2, -1)
    expected = sum(np.roll(rows, -2 * i, axis=1) for i in range(window)).ravel() % PLAIN_MODULUS
    assert np.array_equal(window_sum(PLAIN, slots, window, 2), expected)


def test_packed_ciphertexts_add_up() -> None:
    primes = [2**40 - 87, 2**24 - 3, 2**31 - 1, 2**36 - 5, 2**44 - 17, 2**53 - 111]
    rng = np.random.default_rng(0)
    many = [
        np.stack([rng.integers(0, p, (2, 64), dtype=np.uint64) for p in primes], axis=1) for _ in range(9)
    ]
    sums = PlaneSums(primes, 64)
    for each in many:
        packed = pack_planes(each, primes)
        assert len(packed) == packed_size(primes, 64)
        sums.add(memoryview(packed))
    expected = sum(many) % np.array(primes, dtype=np.uint64)[None, :, None]
    assert np.array_equal(sums.total(), expected)
