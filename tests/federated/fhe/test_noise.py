"""Noise: the figures against the measured, exhaustion against its two guards, and the flood."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from onefold.exceptions import DecryptionError
from onefold.federated.fhe import Client, Querier, Server, _seal, parameters
from onefold.federated.fhe._circuit import zero_test
from onefold.federated.fhe._hiding import flood
from onefold.federated.fhe._layout import PLAIN_MODULUS
from onefold.federated.fhe.messages import EncryptedAnswers
from onefold.federated.fhe.parameters import BASE_PRIMES, FLOOD_SECURITY, SAFE_BITS, choose


def _noise(querier: Querier, cipher) -> float:
    room = math.log2(math.prod(querier._contexts.primes[: cipher.n_primes])) - 1
    return room - querier._decryptor.invariant_noise_budget(cipher.inner)


@pytest.mark.parametrize("n_clients", [1, 2, 3, 4, 10, 50, 126, 127, 200])
@pytest.mark.parametrize(("n_classes", "bits"), [(1, 4), (20, 8), (100, 8), (100, 10), (10, 12), (10, 16)])
def test_every_setting_has_safe_parameters_with_a_margin(n_clients: int, n_classes: int, bits: int) -> None:
    chosen = choose(n_clients, n_classes, bits)
    assert chosen.modulus_bits <= SAFE_BITS[chosen.degree]
    assert chosen.budget_bits >= 2
    assert chosen.row >= chosen.n_values
    # Chosen without SEAL and known to it: these are its own limits for 128 bits.
    seal = pytest.importorskip("seal")
    assert SAFE_BITS[chosen.degree] == seal.CoeffModulus.MaxBitCount(chosen.degree)


def test_measured_noise_is_below_its_figure_and_not_far(small) -> None:
    rng = np.random.default_rng(0)
    for n_rows in (1, 5, 64):
        values = rng.integers(0, 256, (3, n_rows, 4))
        tally = small.server.tally("q1", n_rows)
        for message in small.messages(values):
            tally.add(message)
        bare = tally.bare(0)
        bound = small.querier.parameters.noise_bits
        assert bound - 9 < _noise(small.querier, bare) <= bound


def test_powers_of_powers_stay_at_the_floor() -> None:
    """Squares of squares have heavy tails: with primes a bit too small their noise doubles each time."""
    querier = Querier(100, 2)
    tally = Server(querier.evaluation_keys(check=False)).tally("q1", 1)
    for i in range(3):
        tally.add(Client(querier.public_key(), f"c{i}").encrypt([[i, 9]], "q1"))
    part, chosen = tally._parts[0], querier.parameters
    counts = part.engine.load_sum(part._sums[0].total(), 3)
    power = counts
    while power.n_primes > chosen.pick_primes:
        power = part.engine.settle(part.engine.multiply(power, power))
    assert _noise(querier, power) < 28
    below = zero_test(part.engine, 100, counts)
    assert below.n_primes == chosen.pick_primes
    assert _noise(querier, below) < 28 + 15  # coefficients of the last sums are up to t / 2 in size


def test_the_flood_covers_the_noise_by_what_it_promises(small) -> None:
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


def test_the_flood_is_centred_bounded_and_a_multiple_of_t() -> None:
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


def test_the_sum_of_four_has_the_fisher_information_that_is_counted_on() -> None:
    x = np.linspace(0, 4, 200_001)[1:-1]
    density = sum((-1) ** k * math.comb(4, k) * np.clip(x - k, 0, None) ** 3 / 6 for k in range(5))
    slope = sum((-1) ** k * math.comb(4, k) * np.clip(x - k, 0, None) ** 2 / 2 for k in range(5))
    inside = density > 1e-9
    information = np.sum(slope[inside] ** 2 / density[inside]) * (x[1] - x[0])
    assert 3 < information <= parameters.FISHER_OF_FOUR


@pytest.fixture
def starved(monkeypatch):
    """Parameters whose primes are too small for the noise, as if the figures were wrong."""
    right = parameters._with_noise

    def blind(blank, most):
        small = (*blank.prime_bits[: BASE_PRIMES + 1], *(23 for _ in blank.prime_bits[BASE_PRIMES + 1 :]))
        return replace(right(blank, most), prime_bits=small)

    monkeypatch.setattr(parameters, "_with_noise", blind)
    parameters._chosen.cache_clear()
    _seal.contexts_for.cache_clear()
    yield
    monkeypatch.undo()
    parameters._chosen.cache_clear()
    _seal.contexts_for.cache_clear()


def test_exhausted_noise_is_found_at_set_up(starved) -> None:
    with pytest.raises(DecryptionError, match="keys are refused"):
        Querier(16, 2).evaluation_keys()


def test_exhausted_noise_is_found_in_a_result(starved) -> None:
    querier = Querier(16, 2)
    server = Server(querier.evaluation_keys(check=False))
    messages = [Client(querier.public_key(), f"c{i}").encrypt([[i, 200]], "q1") for i in range(16)]
    with pytest.raises(DecryptionError, match="noise"):
        querier.decrypt(server.aggregate(messages))


@pytest.mark.slow
def test_copies_of_a_message_make_noise_that_is_found() -> None:
    """Clients in league who send the same ciphertext: their errors add up as they should not."""
    querier = Querier(200, 2)
    server = Server(querier.evaluation_keys(check=False))
    one = Client(querier.public_key(), "c0").encrypt([[3, 200]], "q1")
    copies = [EncryptedAnswers(**{**one.__dict__, "client": f"c{i}"}) for i in range(200)]
    try:
        found = querier.decrypt(server.aggregate(copies))
    except DecryptionError:
        return
    assert found.tolist() == [[True, False]]  # or else it is right: never garbage
