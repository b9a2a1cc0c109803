"""Pads and flood: what they hide, and that they have the distribution that the guarantee counts on."""

from __future__ import annotations

import math

import numpy as np

from onefold.federated.fhe.circuit import PLAIN_MODULUS, Layout, factors, pads
from onefold.federated.fhe.parameters import FISHER_OF_FOUR
from onefold.federated.fhe.seal import flood


def test_pads_add_up_to_zero_per_answer_and_are_uniform_otherwise() -> None:
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


def test_factors_are_never_zero_and_one_in_the_check_column() -> None:
    layout = Layout(16, 4, 128, 1)
    check = layout.summands(layout.capacity)[:, -1].ravel()
    drawn = np.stack([factors(layout) for _ in range(2000)])
    assert drawn.min() == 1
    assert drawn.max() < PLAIN_MODULUS
    assert np.all(drawn[:, check] == 1)
    others = np.delete(drawn, check, axis=1)
    deviation = PLAIN_MODULUS / np.sqrt(12 * len(drawn))
    assert np.abs(others.mean(axis=0) - PLAIN_MODULUS / 2).max() < 6 * deviation


def test_flood_is_centred_bounded_and_a_multiple_of_t() -> None:
    primes = [2**60 - 93, 2**56 - 5]
    bits, degree = 90, 4096
    rows = flood(bits, degree, primes)
    assert not rows[1].any()
    modulus = math.prod(primes)
    weights = [modulus // p * pow(modulus // p, -1, p) for p in primes]
    whole = [sum(int(r) * w for r, w in zip(column, weights, strict=True)) % modulus for column in rows[0].T]
    centred = [each - modulus if each > modulus // 2 else each for each in whole]
    assert all(each % PLAIN_MODULUS == 0 for each in centred)
    units = np.array([each // PLAIN_MODULUS / 2**bits for each in centred])
    assert np.abs(units).max() <= 2
    assert abs(units.mean()) < 6 * math.sqrt(1 / 3 / degree)
    assert 0.9 < units.var() / (1 / 3) < 1.1


def test_sum_of_four_uniform_numbers_has_the_stated_fisher_information() -> None:
    x = np.linspace(0, 4, 200_001)[1:-1]
    density = sum((-1) ** k * math.comb(4, k) * np.clip(x - k, 0, None) ** 3 / 6 for k in range(5))
    slope = sum((-1) ** k * math.comb(4, k) * np.clip(x - k, 0, None) ** 2 / 2 for k in range(5))
    inside = density > 1e-9
    information = np.sum(slope[inside] ** 2 / density[inside]) * (x[1] - x[0])
    assert 3 < information <= FISHER_OF_FOUR
