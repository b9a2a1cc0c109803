"""Noise: estimated figures against measured noise, and the two guards against exhausted noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from onefold.exceptions import DecryptionError
from onefold.federated.fhe import Client, Querier, Server, parameters
from onefold.federated.fhe.circuit import PLAIN_MODULUS, Combination, zero_test
from onefold.federated.fhe.messages import EncryptedAnswers
from onefold.federated.fhe.parameters import BASE_PRIMES, FLOOD_SECURITY
from onefold.federated.fhe.seal import contexts_for


def _noise(querier: Querier, cipher) -> float:
    room = math.log2(math.prod(querier._contexts.primes[: cipher.n_primes])) - 1
    return room - querier._decryptor.invariant_noise_budget(cipher.inner)


def test_measured_noise_is_below_its_figure_by_less_than_9_bits(small) -> None:
    rng = np.random.default_rng(0)
    for n_rows in (1, 5, 64):
        values = rng.integers(0, 256, (3, n_rows, 4))
        tally = small.server.tally("q1", n_rows)
        for message in small.messages(values):
            tally.add(message)
        bare = tally.bare(0)
        bound = small.querier.parameters.noise_bits
        assert bound - 9 < _noise(small.querier, bare) <= bound


@pytest.mark.merge
def test_noise_of_powers_of_powers_stays_at_the_floor(seal) -> None:
    """Squares of squares have heavy tails: with primes slightly too small the noise doubles each time."""
    querier = Querier(100, 2)
    tally = Server(querier.evaluation_keys(check=False)).tally("q1", 1)
    for i in range(3):
        tally.add(Client(querier.public_key(), f"c{i}").encrypt([[i, 9]], "q1"))
    part, chosen = tally._parts[0], querier.parameters
    counts = part.engine.fresh_sum(part._sums[0].total(), 3)
    power = counts
    while power.n_primes > chosen.pick_primes:
        power = part.engine.settle(part.engine.multiply(power, power))
    assert _noise(querier, power) < 28
    below = zero_test(part.engine, 100, counts)
    assert below.n_primes == chosen.pick_primes
    assert _noise(querier, below) < 28 + 15  # coefficients of the last sums are up to t / 2 in size


def test_adding_a_constant_changes_neither_noise_nor_factor(small) -> None:
    """A settled cipher has a factor; to take it away would multiply the noise by about t."""
    tally = small.server.tally("q1", 1)
    for message in small.messages(np.zeros((3, 1, 4), dtype=int)):
        tally.add(message)
    engine = tally._parts[0].engine
    counts = engine.fresh_sum(tally._parts[0]._sums[0].total(), 3)
    settled = engine.settle(engine.multiply(counts, counts))
    shifted = engine.combine(Combination([(1, settled)], -7))
    assert settled.factor != 1
    assert shifted.factor == settled.factor
    level = small.querier.parameters.pick_primes  # that the querier can read
    before, after = (_noise(small.querier, engine.truncate(each, level)) for each in (settled, shifted))
    assert after == pytest.approx(before, abs=1.1)


@pytest.mark.merge
def test_noise_of_two_digits_is_below_its_figure(seal) -> None:
    """Keys for measures of 16 bits pass the trial, which compares noise and answer."""
    querier = Querier(4, 3, 16)
    tally, _ = querier._trial(querier.evaluation_keys())
    bound = querier.parameters.noise_bits
    assert bound - 9 < _noise(querier, tally.bare(0)) <= bound


def test_flood_exceeds_measured_noise_by_the_promised_bits(small) -> None:
    chosen = small.querier.parameters
    tally = small.server.tally("q1", 1)
    for message in small.messages(np.zeros((3, 1, 4), dtype=int)):
        tally.add(message)
    bare = tally.bare(0)
    measured = _noise(small.querier, bare)
    # Deviation of the sum of four uniform numbers, times t, against the measured noise of all coefficients.
    deviation = math.log2(PLAIN_MODULUS) + chosen.flood_bits + 0.5 * math.log2(4 / 12)
    assert deviation - measured >= FLOOD_SECURITY + 0.5 * math.log2(chosen.degree) - 1
    first, second = (tally.finish(0, bare) for _ in range(2))
    assert np.mean(np.frombuffer(first, np.uint8) != np.frombuffer(second, np.uint8)) > 0.9


@pytest.fixture
def starved(seal, monkeypatch):
    """Parameters whose primes are too small for the noise, as if the figures were wrong."""
    right = parameters._with_noise

    def blind(blank, most):
        small = (*blank.prime_bits[: BASE_PRIMES + 1], *(23 for _ in blank.prime_bits[BASE_PRIMES + 1 :]))
        return replace(right(blank, most), prime_bits=small)

    monkeypatch.setattr(parameters, "_with_noise", blind)
    parameters._chosen.cache_clear()
    contexts_for.cache_clear()
    yield
    monkeypatch.undo()
    parameters._chosen.cache_clear()
    contexts_for.cache_clear()


def test_keys_with_too_much_noise_are_refused_at_set_up(starved) -> None:
    with pytest.raises(DecryptionError, match="keys are refused"):
        Querier(16, 2).evaluation_keys()


@pytest.mark.merge
def test_result_with_exhausted_noise_is_refused(starved) -> None:
    querier = Querier(16, 2)
    server = Server(querier.evaluation_keys(check=False))
    messages = [Client(querier.public_key(), f"c{i}").encrypt([[i, 200]], "q1") for i in range(16)]
    with pytest.raises(DecryptionError, match="noise"):
        querier.decrypt(server.aggregate(messages))


@pytest.mark.merge
def test_copies_of_one_message_give_the_right_answer_or_a_refusal(seal) -> None:
    """Colluding sites that send the same ciphertext: their errors are not independent."""
    querier = Querier(200, 2)
    server = Server(querier.evaluation_keys(check=False))
    one = Client(querier.public_key(), "c0").encrypt([[3, 200]], "q1")
    copies = [EncryptedAnswers(**{**one.__dict__, "client": f"c{i}"}) for i in range(200)]
    try:
        found = querier.decrypt(server.aggregate(copies))
    except DecryptionError:
        return
    assert found.tolist() == [[True, False]]  # never garbage
