"""The engine on ciphertexts against the engine on plain slots, operation by operation."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.federated.fhe.argmin import PlainSlots
from onefold.federated.fhe.circuit import PLAIN_MODULUS, Combination
from onefold.federated.fhe.seal import Cipher, read_ciphertext

PLAIN = PlainSlots()


class Bench:
    """Encrypts and decrypts slots with the keys of the small setting."""

    def __init__(self, roles) -> None:
        self.querier, self.engine = roles.querier, roles.server.engine
        self.contexts = self.engine.contexts
        full = self.contexts.full.context
        key = full.from_public_str(roles.public.key)
        self.encryptor = self.contexts.seal.Encryptor(full, key)
        self.size = self.contexts.parameters.degree
        self.rng = np.random.default_rng(0)

    def slots(self) -> np.ndarray:
        return self.rng.integers(0, PLAIN_MODULUS, self.size)

    def encrypt(self, slots: np.ndarray) -> Cipher:
        inner = self.encryptor.encrypt(self.contexts.encoder.encode(slots.astype(np.uint64)))
        return self.engine.fresh_sum(read_ciphertext(inner.to_string()), 1)

    def decrypt(self, cipher: Cipher) -> np.ndarray:
        number = self.contexts.chain_number(cipher.n_primes)
        chain, secret = self.contexts.chains[number], self.querier._secrets[number]
        plain = self.contexts.seal.Decryptor(chain.context, secret).decrypt(cipher.inner)
        return self.contexts.encoder.decode_uint64(plain).astype(np.int64) * cipher.factor % PLAIN_MODULUS


@pytest.fixture(scope="module")
def bench(small) -> Bench:
    return Bench(small)


def test_sums_with_coefficients_and_products_equal_those_of_plain_slots(bench: Bench) -> None:
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


def test_scaled_shifted_and_rotated_slots_equal_plain_ones(bench: Bench) -> None:
    a, b = bench.slots(), bench.slots()
    low = bench.engine.drop(bench.encrypt(a), bench.contexts.parameters.pick_primes)
    assert np.array_equal(bench.decrypt(bench.engine.scale_slots(low, b)), PLAIN.scale_slots(a, b))
    assert np.array_equal(bench.decrypt(bench.engine.shift_slots(low, b)), PLAIN.shift_slots(a, b))
    (*_, steps) = bench.contexts.parameters.rotations
    for step in steps[:3]:
        assert np.array_equal(bench.decrypt(bench.engine.rotate(low, step)), PLAIN.rotate(a, step))


def test_ciphertext_cut_to_fewer_primes_keeps_message_and_noise(bench: Bench) -> None:
    a, b = bench.slots(), bench.slots()
    product = bench.engine.settle(bench.engine.multiply(bench.encrypt(a), bench.encrypt(b)))
    for n_primes in range(product.n_primes, 0, -1):
        low = bench.engine.truncate(product, n_primes)
        assert low.n_primes == n_primes
        assert bench.engine.truncate(product, n_primes) is low
        if sum(bench.contexts.parameters.prime_bits[:n_primes]) > 40:  # room for the noise
            assert np.array_equal(bench.decrypt(low), PLAIN.multiply(a, b))
