"""BFV for sums: exact whole numbers modulo 2**59, errors that stay small, and bytes of others."""

from __future__ import annotations

import base64
import math

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.sums import bfv
from onefold.federated.sums.bfv import BfvKey, CiphertextSum, check_public, decrypt, encrypt
from reference import bfv as literal

seal = pytest.importorskip("seal")

T = 2**59
Q = math.prod(bfv.PRIMES[:2])
SOME = (0, 1, 4095, 8191)  # coefficients that are computed from the definition


@pytest.fixture(scope="module")
def key() -> BfvKey:
    return BfvKey.new()


def test_primes_are_those_that_seal_finds_and_few_enough_to_be_safe() -> None:
    found = seal.CoeffModulus.Create(bfv.DEGREE, [60, 60, 60])
    assert tuple(prime.value() for prime in found) == bfv.PRIMES
    assert sum(prime.bit_length() for prime in bfv.PRIMES) <= seal.CoeffModulus.MaxBitCount(bfv.DEGREE)


@pytest.mark.exact
def test_sum_of_a_hundred_vectors_of_extreme_numbers_is_exact(key: BfvKey) -> None:
    numbers = np.array([0, 1, T // 2 - 1, T // 2, T - 1, 7], dtype=np.uint64)
    total = CiphertextSum(len(numbers))
    for _ in range(5):
        sent = encrypt(key.public, numbers)
        for _ in range(20):  # errors that are the same add up more than others do
            total.add(sent)
    assert decrypt(key.secret, total.flooded(), len(numbers)).tolist() == [
        100 * int(number) % T for number in numbers
    ]


@pytest.mark.exact
@pytest.mark.parametrize("length", [1, 8191, 8192, 8193])
def test_vectors_of_any_length_come_back(key: BfvKey, length: int) -> None:
    numbers = np.random.default_rng(0).integers(0, T, length, dtype=np.uint64)
    sent = encrypt(key.public, numbers)
    assert len(sent) == bfv.ciphertext_size(length)
    assert np.array_equal(decrypt(key.secret, sent, length), numbers)


def _secret(key: BfvKey) -> list[int]:
    """The secret polynomial, by decrypting a ciphertext that was made for it: (0, q/t)."""
    made = np.zeros(bfv.SHAPE, dtype=np.uint64)
    made[1, :, 0] = [Q // T % prime for prime in bfv.PRIMES[:2]]
    found = decrypt(key.secret, made.astype("<u8").tobytes(), bfv.DEGREE).astype(np.int64)
    return [int(number) - T if number > T // 2 else int(number) for number in found]


def _phases(content: bytes, secret: list[int]) -> list[int]:
    polynomials = np.frombuffer(content, dtype="<u8").reshape(bfv.SHAPE)
    first, second = (
        [literal.whole(pair, bfv.PRIMES[:2]) for pair in each.T.tolist()] for each in polynomials
    )
    return [literal.phase(first, second, secret, at, Q) for at in SOME]


def test_one_decryption_of_a_made_ciphertext_gives_the_secret_key_away(key: BfvKey) -> None:
    # Why a total is never opened without the pads of its sites.
    assert set(_secret(key)) == {-1, 0, 1}


def test_decryption_is_that_of_the_definition_and_errors_leave_room(key: BfvKey) -> None:
    secret = _secret(key)
    rng = np.random.default_rng(1)
    total, plain = CiphertextSum(bfv.DEGREE), np.zeros(bfv.DEGREE, dtype=np.uint64)
    for _ in range(5):
        numbers = rng.integers(0, T, bfv.DEGREE, dtype=np.uint64)
        sent = encrypt(key.public, numbers)
        for _ in range(20):
            total.add(sent)
            plain = plain + numbers
    single = [literal.opened(phase, Q, T) for phase in _phases(sent, secret)]
    assert [number for number, _ in single] == numbers[list(SOME)].tolist()
    # Fresh errors are of about 100 here; the bound by which 10 000 sites are allowed for is 13 000 each.
    assert all(abs(error) < 2**27 / 10_000 for _, error in single)
    opened = [literal.opened(phase, Q, T) for phase in _phases(total.flooded(), secret)]
    assert [number for number, _ in opened] == (plain % T)[list(SOME)].tolist()
    assert all(abs(error) < 2**58 + 2**27 < Q / (2 * T) for _, error in opened)
    # The flood is there: without it the errors would be below 2**20.
    assert max(abs(error) for _, error in opened) > 2**50


def test_flood_is_the_sum_of_four_uniform_numbers() -> None:
    drawn = np.concatenate([bfv.flood() for _ in range(20)]).astype(float)
    # Standard deviation 2**57 / sqrt 3; that of 160 000 draws is within 1 %, and so is the mean.
    assert abs(drawn.std() / (2.0**57 / math.sqrt(3)) - 1) < 0.01
    assert abs(drawn.mean()) < 0.01 * 2.0**57
    assert np.abs(drawn).max() <= 2.0**58
    assert not np.array_equal(bfv.flood(), bfv.flood())
    # What a shift by 1 of all of 2**26 entries shows: half the root of (entries times Fisher information).
    assert 0.5 * math.sqrt(2**26 * 3.2) / 2**57 < 2**-44


def test_total_of_the_same_ciphertexts_is_another_each_time(key: BfvKey) -> None:
    total = CiphertextSum(2)
    total.add(encrypt(key.public, np.array([3, 4], dtype=np.uint64)))
    assert total.flooded() != total.flooded()
    assert decrypt(key.secret, total.flooded(), 2).tolist() == [3, 4]


# --- bytes of others ----------------------------------------------------------------------------------------


def test_ciphertexts_of_others_are_measured_before_seal_sees_them(key: BfvKey, monkeypatch) -> None:
    sent = encrypt(key.public, np.array([1], dtype=np.uint64))
    large = bytearray(sent)
    large[8:16] = (bfv.PRIMES[0]).to_bytes(8, "little")
    monkeypatch.setattr(bfv, "_ring", lambda: pytest.fail("SEAL was asked"))
    for wrong, words in (
        (b"", "wrong length"),
        (sent[:-8], "wrong length"),
        (sent + sent, "wrong length"),
        (bytes(large), "too large"),
        (b"\xff" * len(sent), "too large"),
    ):
        with pytest.raises(MessageError, match=words):
            CiphertextSum(1).add(wrong)
        with pytest.raises(MessageError, match=words):
            decrypt(key.secret, wrong, 1)


def test_keys_that_are_none_are_refused(key: BfvKey) -> None:
    content = bytearray(base64.b64decode(key.public))
    content[:8] = b"\xff" * 8
    for wrong in ("", "0", "*" + key.public[1:], key.secret, base64.b64encode(content).decode(), 3):
        with pytest.raises(InvalidInputError, match="a key of BFV"):
            check_public(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a key of BFV"):
        BfvKey(key.public, key.public)
    assert key.secret not in repr(key)


def test_any_coefficients_can_be_decrypted_to_something(key: BfvKey) -> None:
    rng = np.random.default_rng(2)
    for low in (0, 1):
        drawn = rng.integers(0, 1 + low * (2**59), bfv.SHAPE, dtype=np.uint64)
        assert len(decrypt(key.secret, drawn.astype("<u8").tobytes(), 5)) == 5


def test_adding_needs_no_seal(key: BfvKey, block_import) -> None:
    sent = encrypt(key.public, np.array([1, 2], dtype=np.uint64))
    bfv._ring.cache_clear()
    block_import("seal")
    total = CiphertextSum(2)
    total.add(sent)
    assert len(total.flooded()) == len(sent)
