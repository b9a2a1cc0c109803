"""Shares of noise: how far sums of them are from ideal, how large they are, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from onefold.exceptions import InvalidInputError
from onefold.federated.secret.noise import SHIFT, SumBlock, aliasing, draw_shares, largest_sum, mu_of_blocks
from reference import shamir


@pytest.mark.parametrize("share", [0.5, 0.6, 0.7])
@pytest.mark.parametrize("n_shares", [2, 3])
def test_bound_of_aliasing_holds_where_aliasing_can_be_seen(share: float, n_shares: int) -> None:
    reach = 14
    found = shamir.rounded_gaussian_sum(share, n_shares, reach)
    differences = [
        abs(math.log(found[reach + k] / shamir.ideal_sum(share, n_shares, k, 4000))) for k in range(4)
    ]
    assert 1e-4 < max(differences) <= aliasing(share, n_shares)


def test_aliasing_is_nothing_for_one_share_and_tiny_from_two_steps_on() -> None:
    assert aliasing(0.01, 1) == 0.0
    assert aliasing(0.3, 2) == math.inf
    assert 1e-17 < aliasing(2.0, 1000) < 1.5e-17
    assert aliasing(4.0, 1000) < 1e-60


def test_factors_near_one_cost_as_little_gaussian_privacy_as_is_charged() -> None:
    # Probabilities that are right up to exp(+-k), on both sides, against a shift by SHIFT k.
    t = np.linspace(-8, 8, 20_001)
    for k in (1e-6, 1e-4, 0.005):
        alpha = norm.cdf(-t)
        grown = np.minimum(np.exp(k) * alpha, 1 - np.exp(-k) * norm.cdf(t))
        assert (grown <= norm.cdf(-t + SHIFT / 2 * k) * (1 + 1e-12)).all()
        assert not (grown <= norm.cdf(-t + 0.5 * k)).all()


def test_sum_of_the_shares_that_are_left_has_the_promised_variance() -> None:
    block = SumBlock("counts", 40_000, 10, sigma=12.0, change=1.0)
    total = sum(draw_shares([block], 4, seed) for seed in range(4))
    expected = 12.0**2 + 4 / 12
    error = expected * math.sqrt(2 / block.length)
    assert abs(np.var(total) - expected) < 5 * error
    for factor in (2 / 3, 3 / 2):  # the test can tell
        assert abs(np.var(total) - factor * expected) > 5 * error


def test_noise_of_matrices_is_smaller_beside_the_diagonal() -> None:
    block = SumBlock("moments", 6 * 8000, 10, sigma=100.0, change=1.0, triangle=3)
    noise = draw_shares([block], 1, 0).reshape(-1, 6)
    assert np.allclose(noise.std(axis=0) / 100, [1, 0.5**0.5, 0.5**0.5, 1, 0.5**0.5, 1], atol=0.03)


def test_blocks_keep_their_places() -> None:
    blocks = [SumBlock("quiet", 50, 1, 2.0), SumBlock("loud", 50, 1, 2.0**30), SumBlock("none", 5, 1)]
    noise = np.abs(draw_shares(blocks, 1, 0))
    assert noise[:50].max() < 20
    assert noise[50:100].min() > 100
    assert not noise[100:].any()


def test_privacy_of_blocks_adds_up_in_squares_with_a_spare_part() -> None:
    blocks = [SumBlock("a", 3, 1, 30.0, 3.0), SumBlock("b", 3, 1, 40.0, 8.0)]
    exact = math.hypot(0.1, 0.2)
    assert exact * (1 + 1e-7) < mu_of_blocks(blocks, 10, 9) < exact * (1 + 1e-5)


@pytest.mark.parametrize(
    "block, words",
    [
        (SumBlock("fine", 10, 1, 5.9, 1.0), "share of the noise on 'fine' must be from 2 to"),
        (SumBlock("pairs", 3, 1, 8.0, 1.0, triangle=2), "share of the noise on 'pairs'"),
        (SumBlock("silent", 10, 1, 0.0, 1.0), "'silent' has no noise"),
        (SumBlock("many", 2**26, 1, 6.0, 1e-3), "too small for so many entries"),
    ],
)
def test_shares_whose_rounding_cannot_be_neglected_are_refused(block: SumBlock, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        mu_of_blocks([block], 10, 9)


def test_half_a_matrix_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="whole matrices"):
        SumBlock("moments", 7, 1, triangle=3)


def test_room_for_the_largest_sum_counts_all_sites_and_their_noise() -> None:
    block = SumBlock("a", 1, 100, 30.0, 1.0)
    assert largest_sum(block, 10, 9) > 10 * 100 + 16 * 30
