"""Shares against a literal version with Python's whole numbers, and what fewer than t of them show."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from onefold.federated.secret import shares
from onefold.federated.secret.shares import (
    MODULUS,
    add_shares,
    combine_shares,
    expand_seed,
    new_seed,
    split_secret,
)
from reference import shamir

pytest.importorskip("cryptography")

EDGES = [0, 1, 2, 2**30, 2**31 - 1, 2**31, 2**60, MODULUS - 2**31, MODULUS - 2, MODULUS - 1]


def _shares(secret: np.ndarray, threshold: int, n: int, seed: int = 0) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, MODULUS, len(secret), dtype=np.uint64) for _ in range(threshold - 1)]
    return dict(enumerate([*drawn, *split_secret(secret, drawn, n)], 1))


@pytest.mark.parametrize("factor", EDGES)
def test_products_are_those_of_whole_numbers(factor: int) -> None:
    rng = np.random.default_rng(0)
    values = np.array([*EDGES, *rng.integers(0, MODULUS, 1000)], dtype=np.uint64)
    expected = [int(value) * factor % MODULUS for value in values]
    assert shares._times(values, factor).tolist() == expected


@pytest.mark.parametrize("threshold, n", [(1, 1), (1, 3), (2, 3), (3, 5), (7, 12)])
def test_shares_are_those_of_the_literal_version(threshold: int, n: int) -> None:
    secret = np.array([0, 1, -1, 2**60 - 1, -(2**60) + 1, 12345], dtype=np.int64)
    shares = _shares(secret, threshold, n)
    for place, number in enumerate(secret.tolist()):
        drawn = [int(shares[i][place]) for i in range(1, threshold)]
        coefficients = shamir.coefficients_from(drawn, number)
        for i in range(1, n + 1):
            assert int(shares[i][place]) == shamir.share(number, coefficients, i)
        some = {i: int(shares[i][place]) for i in range(n - threshold + 1, n + 1)}
        assert shamir.open_shares(some) == number


def test_any_t_shares_open_and_sums_of_shares_are_shares_of_sums() -> None:
    rng = np.random.default_rng(1)
    one, two = (rng.integers(-(2**59), 2**59, 40_000) for _ in range(2))
    first, second = _shares(one, 3, 5, 1), _shares(two, 3, 5, 2)
    both = {i: add_shares(first[i], second[i]) for i in first}
    for some in itertools.combinations(range(1, 6), 3):
        assert np.array_equal(combine_shares({i: both[i] for i in some}), one + two)
    known = {i: both[i] for i in (1, 2, 3)}
    assert np.array_equal(combine_shares(known, at=5), both[5].astype(np.int64))


def test_fewer_than_t_shares_fit_every_secret() -> None:
    # Whatever two of three-of-five shares say, each secret has exactly one polynomial through them.
    secret = np.array([7], dtype=np.int64)
    shares = _shares(secret, 3, 5)
    for some in itertools.combinations(range(1, 6), 2):
        for other in (0, 1, -5, 2**60 - 1):
            through = {0: other, **{i: int(shares[i][0]) for i in some}}
            drawn = [np.array([shamir.open_shares(through, at=i)], dtype=np.uint64) for i in (1, 2)]
            again = dict(enumerate([*drawn, *split_secret(np.array([other]), drawn, 5)], 1))
            assert all(again[i] == shares[i] for i in some)
            assert combine_shares({i: again[i] for i in (3, 4, 5)}).tolist() == [other]


@pytest.mark.parametrize("some", [(1, 2), (1, 4), (4, 5)])
def test_two_of_five_shares_have_the_same_law_for_every_secret(some: tuple[int, int]) -> None:
    # Remainders of shares and of a combination of them, in 16 cells each: chi-squared with 255 degrees of
    # freedom.
    size = 200_000
    for number in (0, 2**59):
        drawn = [expand_seed(new_seed(), size) for _ in range(2)]
        all_shares = [*drawn, *split_secret(np.full(size, number), drawn, 5)]
        a, b = (all_shares[i - 1] for i in some)
        cells = np.bincount(
            ((a >> np.uint64(57)) * np.uint64(16) + (b >> np.uint64(57))).astype(np.int64), minlength=256
        )
        expected = size / 256
        assert ((cells - expected) ** 2 / expected).sum() < 255 + 8 * np.sqrt(2 * 255)


def test_a_seed_always_gives_the_same_residues_and_none_is_outside_the_field() -> None:
    seed = new_seed()
    assert np.array_equal(expand_seed(seed, 1000), expand_seed(seed, 1000))
    assert not np.array_equal(expand_seed(seed, 1000), expand_seed(new_seed(), 1000))
    assert int(expand_seed(seed, 100_000).max()) < MODULUS


def test_a_value_outside_the_field_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [np.array([1, 2**64 - 1, 3], dtype="<u8"), np.array([2**61 + 5], dtype="<u8")]

    class Stream:
        def update(self, content: bytes) -> bytes:
            found = blocks.pop(0).tobytes()
            assert len(found) == len(content)
            return found

    class Ciphers:
        algorithms = modes = type("Any", (), {"AES": lambda seed: seed, "CTR": lambda nonce: nonce})
        Cipher = staticmethod(lambda *_: type("Any", (), {"encryptor": lambda self: Stream()})())

    monkeypatch.setattr(shares, "require", lambda *_: Ciphers)
    assert expand_seed(b"", 3).tolist() == [1, 5, 3]
