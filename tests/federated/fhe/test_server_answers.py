"""Encrypted answers against plain minima: extremes, ties, missing classes, sites that do not answer."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.federated.fhe import EncryptedArgmin, Server
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.parameters import choose


def _literal(values: np.ndarray) -> np.ndarray:
    """The classes at the minimum, number by number (Document 004, eq. 106)."""
    n_clients, n_rows, n_classes = values.shape
    wins = np.zeros((n_rows, n_classes), dtype=bool)
    for row in range(n_rows):
        found = [(values[q, row, c], c) for q in range(n_clients) for c in range(n_classes)]
        found = [(value, c) for value, c in found if value >= 0]
        for value, c in found:
            wins[row, c] |= value == min(found)[0]
    return wins


def _hard_rows(n_clients: int, n_classes: int, largest: int, n_random: int = 10) -> np.ndarray:
    """All equal at both ends and in between, one winner, ties of sites and classes, missing classes."""
    rng = np.random.default_rng(7)
    rows = [np.full((n_clients, n_classes), value) for value in (0, 1, largest // 2, largest)]
    one = np.full((n_clients, n_classes), largest)
    one[-1, -1] = largest - 1
    nobody = np.full((n_clients, n_classes), -1)
    lone = nobody.copy()
    lone[0, 0] = largest
    rows += [one, nobody, lone]
    rows += [rng.integers(0, largest + 1, (n_clients, n_classes)) for _ in range(n_random)]
    tied = rng.integers(0, 3, (n_random, n_clients, n_classes))
    absent = np.where(rng.random(tied.shape) < 0.4, -1, tied + 5)
    return np.concatenate([np.stack(rows), tied, absent]).transpose(1, 0, 2)


def test_encrypted_answers_equal_literal_minima_for_every_kind_of_row(small) -> None:
    values = _hard_rows(3, 4, 255)
    result = small.server.aggregate(small.messages(values))
    assert np.array_equal(small.querier.decrypt(result), _literal(values))


def test_queries_of_one_to_three_rows_equal_literal_minima(small) -> None:
    values = _hard_rows(3, 4, 255)
    for n_rows in (1, 2, 3):
        result = small.server.aggregate(small.messages(values[:, 6 : 6 + n_rows]))
        assert np.array_equal(small.querier.decrypt(result), _literal(values[:, 6 : 6 + n_rows]))


def test_two_processes_give_the_same_answer(small) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 256, (2, 70, 4))  # two ciphertexts
    server = Server(small.keys, n_jobs=2)
    assert np.array_equal(small.querier.decrypt(server.aggregate(small.messages(values))), _literal(values))


def test_sites_that_do_not_answer_are_not_counted(small) -> None:
    values = _hard_rows(3, 4, 255, 4)
    messages = small.messages(values)
    result = small.server.aggregate([messages[2], messages[0]])
    assert result.n_answered == 2
    assert np.array_equal(small.querier.decrypt(result), _literal(values[[0, 2]]))


@pytest.mark.parametrize(("n_clients", "n_classes", "bits"), [(1, 1, 8), (1, 3, 4), (2, 1, 8), (2, 15, 4)])
def test_smallest_settings_equal_literal_minima(seal, n_clients: int, n_classes: int, bits: int) -> None:
    values = _hard_rows(n_clients, n_classes, 2**bits - 1)
    argmin = EncryptedArgmin(n_clients, n_classes, bits)
    assert np.array_equal(argmin.run_quantised(values), _literal(values))


def test_rows_beyond_one_message_are_asked_in_parts(seal, monkeypatch) -> None:
    monkeypatch.setattr("onefold.federated.fhe.server.MAX_BYTES", choose(2, 2, 12).message_size(4))
    values = np.random.default_rng(5).integers(0, 4096, (2, 6, 2))  # four rows fill a ciphertext
    values[:, ::2] //= 1000
    assert np.array_equal(EncryptedArgmin(2, 2, 12).run_quantised(values), _literal(values))


@pytest.mark.merge
@pytest.mark.parametrize(
    ("n_clients", "n_classes", "bits"),
    [
        (10, 10, 8),
        (5, 7, 10),
        (4, 3, 12),
        pytest.param(200, 3, 8, marks=pytest.mark.nightly),
        (3, 100, 8),
        (2, 3, 16),
    ],
)
def test_larger_settings_equal_plain_minima(seal, n_clients: int, n_classes: int, bits: int) -> None:
    values = _hard_rows(n_clients, n_classes, 2**bits - 1, 3)
    argmin = EncryptedArgmin(n_clients, n_classes, bits)
    assert np.array_equal(argmin.run_quantised(values), clear_argmin(values))


@pytest.mark.merge
def test_two_digits_equal_literal_minima_with_and_without_ties(seal) -> None:
    """The high digits decide, or tie; the smallest low digit must not win on its own."""
    rng = np.random.default_rng(1)
    high, low = rng.integers(0, 3, (2, 3, 12, 4))
    values = 256 * high + low + np.array([0, 253])[rng.integers(0, 2, (3, 12, 4))]
    values[rng.random(values.shape) < 0.2] = -1
    found = EncryptedArgmin(3, 4, 16).run_quantised(values)
    assert np.array_equal(found, _literal(values))


@pytest.mark.merge
def test_largest_setting_with_four_of_200_sites_equals_plain_minima(seal) -> None:
    """The keys, polynomial and layout of 200 sites and 100 classes."""
    values = _hard_rows(4, 100, 255, 3)[:, -3:]
    assert np.array_equal(EncryptedArgmin(200, 100).run_quantised(values), clear_argmin(values))
