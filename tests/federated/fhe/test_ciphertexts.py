"""The engine on ciphertexts against the engine on plain slots, operation by operation."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.federated.fhe._circuit import Combination
from onefold.federated.fhe._hiding import pads
from onefold.federated.fhe._layout import PLAIN_MODULUS, Layout
from onefold.federated.fhe._seal import Cipher
from onefold.federated.fhe._wire import PlaneSums, pack_planes, packed_size, read_ciphertext
from onefold.federated.fhe.argmin import PlainSlots

PLAIN = PlainSlots()


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
        return self.engine.load_sum(read_ciphertext(inner.to_string()), 1)

    def decrypt(self, cipher: Cipher) -> np.ndarray:
        number = self.contexts.chain_number(cipher.n_primes)
        chain, secret = self.contexts.chains[number], self.querier._secrets[number]
        plain = self.contexts.seal.Decryptor(chain.context, secret).decrypt(cipher.inner)
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


def test_what_is_cut_to_fewer_primes_keeps_message_and_noise(bench: Bench) -> None:
    a, b = bench.slots(), bench.slots()
    product = bench.engine.settle(bench.engine.multiply(bench.encrypt(a), bench.encrypt(b)))
    for n_primes in range(product.n_primes, 0, -1):
        low = bench.engine.truncate(product, n_primes)
        assert low.n_primes == n_primes
        assert bench.engine.truncate(product, n_primes) is low
        if sum(bench.contexts.parameters.prime_bits[:n_primes]) > 40:  # room for the noise
            assert np.array_equal(bench.decrypt(low), PLAIN.multiply(a, b))


def test_shares_add_up_to_the_sum_and_tell_nothing_else() -> None:
    for spread in (1, 2, 8):
        layout = Layout(16, 4, 128, spread)
        summands = layout.summands(2)
        assert summands.shape == (2, 4, 4 * spread)
        assert len(np.unique(summands)) == summands.size  # no slot is a summand of two answers
        drawn = np.stack([pads(layout, 2) for _ in range(4000)])
        assert not np.any(drawn[:, summands].sum(axis=-1) % PLAIN_MODULUS)
        # Each slot is uniform, and any one summand may be left out: the others are independent of each other.
        middle = (PLAIN_MODULUS - 1) / 2
        assert np.abs(drawn.mean(axis=0) - middle).max() < 6 * PLAIN_MODULUS / np.sqrt(12 * len(drawn))
        shares = drawn[:, summands[1, 2]]
        assert np.abs(np.corrcoef(shares.T) - np.eye(shares.shape[1])).max() < 0.1


def test_packed_ciphertexts_add_up() -> None:
    primes = [2**40 - 87, 2**24 - 3, 2**31 - 1, 2**36 - 5, 2**44 - 17, 2**53 - 111, 2**60 - 93]
    rng = np.random.default_rng(0)
    many = [
        np.stack([rng.integers(0, p, (2, 64), dtype=np.uint64) for p in primes], axis=1) for _ in range(9)
    ]
    sums = PlaneSums(primes, 64)
    for each in many:
        packed = pack_planes(each, primes)
        assert len(packed) == packed_size(primes, 64)
        sums.add(memoryview(packed))
    expected = sum(each.astype(object) for each in many) % np.array(primes, dtype=object)[None, :, None]
    assert np.array_equal(sums.total(), expected)
