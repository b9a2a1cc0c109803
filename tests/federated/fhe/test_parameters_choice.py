"""The choice of parameters: safe, with a margin, and from any whole numbers."""

from __future__ import annotations

from itertools import cycle, product

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.federated.fhe.parameters import SAFE_BITS, choose

SITES = (1, 2, 3, 4, 10, 50, 126, 127, 200)
MEASURES = ((1, 4), (20, 8), (100, 8), (100, 10), (10, 12), (10, 16))


def check_setting(n_clients: int, n_classes: int, bits: int) -> None:
    chosen, setting = choose(n_clients, n_classes, bits), (n_clients, n_classes, bits)
    assert chosen.modulus_bits <= SAFE_BITS[chosen.degree], setting
    assert chosen.budget_bits >= 2, setting
    assert chosen.row >= chosen.n_values, setting


def test_settings_have_safe_parameters_with_a_margin() -> None:
    for n_clients, measures in zip(SITES, cycle(MEASURES), strict=False):
        check_setting(n_clients, *measures)
    check_setting(200, 100, 10)


@pytest.mark.nightly
def test_every_setting_has_safe_parameters_with_a_margin() -> None:
    for n_clients, measures in product(SITES, MEASURES):
        check_setting(n_clients, *measures)


def test_safe_bits_are_those_of_seal(seal) -> None:
    for degree, bits in SAFE_BITS.items():
        assert bits == seal.CoeffModulus.MaxBitCount(degree)


def test_numpy_numbers_give_the_same_parameters_with_plain_numbers() -> None:
    setting = (np.int64(5), np.int32(6), np.uint8(5))
    assert choose(*setting) == choose(5, 6, 5)
    for wrong in ((5, 6, 5.0), (5.0, 6, 5), (True, 6, 5)):
        with pytest.raises(InvalidInputError):
            choose(*wrong)
    for found in (choose(*setting), choose(5, 6, 5)):
        assert {type(number) for number in (found.n_clients, found.n_classes, found.bits)} == {int}


def test_message_size_counts_every_ciphertext_of_a_message() -> None:
    for setting in ((3, 4, 8), (2, 2, 12), (2, 3, 16)):
        chosen = choose(*setting)
        full = 2 * chosen.row // chosen.n_values
        assert chosen.message_size(3 * full) == 3 * chosen.message_size(full)
        assert chosen.message_size(1) <= chosen.message_size(2) <= chosen.message_size(full)
