"""Exact integer noise: digits of probabilities, ties, the top of a geometric variable, rounded Gaussians."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri

from onefold.privacy import samplers
from onefold.privacy.samplers import (
    ByteStream,
    Probability,
    bernoulli,
    byte_stream,
    discrete_laplace,
    exponential,
    gaussian_magnitude,
    gaussian_tail,
    keep_probability,
    laplace_table,
    logistic,
    rounded_gaussian,
    tanh_half,
)
from reference import mechanisms as literal

PROBABILITIES: list[tuple[Probability, float]] = [
    (logistic(Fraction(1, 3)), 1 / (1 + math.exp(1 / 3))),
    (exponential(Fraction(9, 4)), math.exp(-2.25)),
    (tanh_half(Fraction(1, 2), Fraction(1, 5)), 0.2 + 0.8 * math.tanh(0.25)),
    (tanh_half(Fraction(1, 2**30), Fraction(0)), 2.0**-31),
    (keep_probability(Fraction(2), 4), math.exp(2) / (math.exp(2) + 3)),
    (keep_probability(Fraction(60), 2), 1.0),
]


@pytest.mark.parametrize("probability, value", PROBABILITIES)
def test_digits_of_probabilities(probability: Probability, value: float) -> None:
    assert float(probability) == pytest.approx(value, rel=1e-12)
    assert probability.digits(0, 40) / 2**40 == pytest.approx(value, abs=2.0**-40)
    joined = (probability.digits(0, 8) << 64 | probability.digits(8, 64)) << 64 | probability.digits(72, 64)
    assert joined == probability.digits(0, 136)


def test_a_large_epsilon_still_switches_labels() -> None:
    """A random float could not: exp(-60) is less than the smallest step of random()."""
    almost_one = keep_probability(Fraction(60), 2)
    wrong = 2**200 - almost_one.digits(0, 200)
    assert wrong / 2**200 == pytest.approx(math.exp(-60), rel=1e-9)


def script(*words: bytes) -> tuple[ByteStream, Callable[[], int]]:
    """A stream that answers with the given bytes in turn, and a count of what is left."""
    waiting = list(words)

    def source(size: int) -> bytes:
        word = waiting.pop(0)
        assert len(word) == size
        return word

    return ByteStream(source), lambda: len(waiting)


def test_ties_are_decided_by_further_digits() -> None:
    p = exponential(Fraction(1))
    first, second = p.digits(0, 8), p.digits(8, 64)
    third = p.digits(72, 64)
    octets = bytes([first - 1, first + 1, first, first, first, first])
    words = [second - 1, second + 1, second, second]
    last = [third - 1, third + 1]
    stream, left = script(
        octets, np.array(words, dtype="<u8").tobytes(), np.array(last, dtype="<u8").tobytes()
    )
    assert bernoulli(stream, p, 6).tolist() == [True, False, True, False, True, False]
    assert left() == 0


@pytest.mark.parametrize("probability, value", PROBABILITIES[:3])
def test_coins_have_their_probability(probability: Probability, value: float) -> None:
    n = 200_000
    heads = bernoulli(byte_stream(1), probability, n).sum()
    assert abs(heads - n * value) < 4.5 * math.sqrt(n * value * (1 - value))


def test_dropping_ties_would_be_noticed() -> None:
    """Without further digits a coin of probability 1/512 would never, or far too often, come up."""
    n, p = 400_000, exponential(Fraction(math.log(512)))
    heads = bernoulli(byte_stream(2), p, n).sum()
    assert abs(heads - n / 512) < 4.5 * math.sqrt(n / 512)


@pytest.mark.parametrize("t", [Fraction(1, 50), Fraction(1, 3), Fraction(9, 4), Fraction(12)])
def test_digits_make_a_geometric_variable(t: Fraction) -> None:
    table = laplace_table(t)
    n = 1 << len(table.digits)
    a = math.exp(-t)
    expected = (1 - a) * a ** np.arange(n)
    low = literal.geometric_pmf_from_digits([float(p) for p in table.digits], n)
    np.testing.assert_allclose(low * (1 - float(table.above)), expected, rtol=1e-9, atol=1e-200)
    assert float(table.above) == pytest.approx(a**n, rel=1e-9)


def chi_square(sample: np.ndarray, pmf: np.ndarray) -> float:
    """Standardised chi-square statistic over the values expected at least 10 times, the rest as one."""
    reach = len(pmf) // 2
    inside = np.clip(sample, -reach, reach) + reach
    counts, expected = np.bincount(inside, minlength=len(pmf)), pmf * len(sample)
    common = expected >= 10
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], max(expected[~common].sum(), 1e-9))
    if wanted[-1] < 10:
        observed, wanted = observed[:-1], wanted[:-1]
    freedom = len(wanted) - 1
    return float((np.sum((observed - wanted) ** 2 / wanted) - freedom) / math.sqrt(2 * max(freedom, 1)))


@pytest.mark.parametrize("t, atom", [(0.05, 0.0), (0.4, 0.0), (0.4, 0.3), (3.0, 0.0), (9.0, 0.1)])
def test_discrete_laplace_has_its_probabilities(t: float, atom: float) -> None:
    sample = discrete_laplace(byte_stream(3), laplace_table(Fraction(t), Fraction(atom)), 200_000)
    pmf = literal.discrete_laplace_pmf(t, atom, 2000)
    assert chi_square(sample, pmf) < 5
    if t > 1:
        assert abs(np.mean(sample == 0) - pmf[2000]) < 0.005
    if t == 9.0:
        return  # hardly anything but zero is drawn: it only shows that no digit at all is needed
    for wrong in (2 / 3, 3 / 2):
        assert chi_square(sample, literal.discrete_laplace_pmf(t * wrong, atom, 2000)) > 20
    if t < 3:
        assert chi_square(sample, literal.discrete_laplace_pmf(t, atom + 0.05, 2000)) > 20
        assert chi_square(np.abs(sample), pmf) > 20
        assert chi_square(sample + 1, pmf) > 20


def test_geometric_variable_without_digits_has_the_same_probabilities() -> None:
    """Without any digits everything comes from the coin above them, and nothing may change."""
    full = laplace_table(Fraction(1, 10))
    short = samplers.LaplaceTable(full.t, full.zero, (), exponential(full.t))
    sample = discrete_laplace(byte_stream(4), short, 200_000)
    assert chi_square(sample, literal.discrete_laplace_pmf(0.1, 0.0, 2000)) < 5


@pytest.mark.parametrize("sigma", [0.4, 1.0, 7.3, 60.0])
def test_rounded_gaussian_has_its_probabilities(sigma: float) -> None:
    sample = rounded_gaussian(byte_stream(5), sigma, 200_000)
    assert chi_square(sample, literal.rounded_gaussian_pmf(sigma, 1000)) < 5
    for wrong in (2 / 3, 3 / 2):
        assert chi_square(sample, literal.rounded_gaussian_pmf(sigma * wrong, 1000)) > 20
    assert chi_square(np.abs(sample), literal.rounded_gaussian_pmf(sigma, 1000)) > 20


def test_the_exact_path_agrees_with_the_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = rounded_gaussian(byte_stream(6), 2.0**20, 3000)
    monkeypatch.setattr(samplers, "DOUBT", 1.0)  # nothing is sure any more
    assert np.array_equal(rounded_gaussian(byte_stream(6), 2.0**20, 300), fast[:300])


def test_gaussian_tails_are_exact() -> None:
    # erfc(1 / sqrt 2) to forty places, from a table
    assert gaussian_tail(Fraction(1), 100) / 2**100 == pytest.approx(0.31731050786291410282853508, rel=1e-15)
    assert gaussian_tail(Fraction(6), 200) / 2**200 == pytest.approx(math.erfc(6 / math.sqrt(2)), rel=1e-12)
    assert gaussian_tail(Fraction(1, 10**9), 60) / 2**60 == pytest.approx(
        1 - 7.978845608028654e-10, abs=1e-17
    )


def test_the_error_of_ndtri_is_far_within_the_doubt() -> None:
    rng = np.random.default_rng(7)
    tails = [*(10 ** rng.uniform(-4.5, 0, 200)), *(1 - 2.0 ** -np.arange(2, 45))]
    for tail in tails:
        z = -float(ndtri(tail / 2))
        error = Fraction(gaussian_tail(Fraction(z), 200), 2**200) - Fraction(tail)
        slope = 2 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        assert abs(float(error)) / slope < samplers.DOUBT * (1 + z) / 16


@pytest.mark.parametrize("k", [0, 1, 5])
def test_a_gaussian_next_to_a_boundary_needs_more_digits(k: int) -> None:
    """A tail whose 63 digits are those of the boundary itself: the digits that follow decide, both ways."""
    sigma = 2.0
    boundary = gaussian_tail(Fraction(2 * k + 1, 2) / Fraction(sigma), 127)
    tail, following = boundary >> 64, boundary % 2**64
    for step, answer in ((2**40, k), (-(2**40), k + 1)):
        stream, left = script((following + step).to_bytes(8, "little"))
        assert gaussian_magnitude(stream, sigma, tail, 63) == answer
        assert left() == 0


def test_the_far_tail_is_reached() -> None:
    stream, _ = script((2**63).to_bytes(8, "little"))
    k = gaussian_magnitude(stream, 1000.0, 0, 63)  # a tail of about 2**-64
    assert math.erfc((k - 0.5) / 1000 / math.sqrt(2)) == pytest.approx(2.0**-64, rel=0.02)


def test_small_tail_word_is_extended_by_further_digits() -> None:
    """63 digits 00...01 leave the tail between 2**-63 and 2**-62: thousands of steps at this sigma."""
    found = []
    for following in (1, 2**64 - 1):
        stream, left = script((0b10).to_bytes(8, "little"), following.to_bytes(8, "little"))
        found.append(int(rounded_gaussian(stream, 2.0**20, 1)[0]))
        assert left() == 0
    tails = [math.erfc(k / 2**20 / math.sqrt(2)) for k in found]
    assert tails == pytest.approx([2.0**-63, 2.0**-62], rel=1e-4)


def test_draws_beyond_one_block_are_independent() -> None:
    n = samplers.BLOCK + 5
    table = laplace_table(Fraction(1, 1000))
    sample = discrete_laplace(byte_stream(8), table, 2 * n)
    assert len(sample) == 2 * n
    assert np.unique(sample[: samplers.BLOCK][:100]).size > 50
    assert not np.array_equal(sample[:1000], sample[samplers.BLOCK : samplers.BLOCK + 1000])
    assert discrete_laplace(byte_stream(8), table, 0).shape == (0,)
    assert rounded_gaussian(byte_stream(8), 5.0, 0).shape == (0,)
