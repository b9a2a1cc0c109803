"""The modes without encryption give the plain answer; wrong settings and tables are refused."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.federated.fhe import EncryptedArgmin
from onefold.federated.fhe.argmin import clear_argmin


@pytest.mark.parametrize(
    ("n_clients", "n_classes", "bits"),
    [
        (1, 1, 4),
        (4, 10, 8),
        (3, 16, 8),
        (100, 20, 8),
        pytest.param(200, 100, 8, marks=pytest.mark.merge),
        (5, 100, 10),
        (5, 20, 12),
        (6, 7, 6),
        (6, 9, 16),
    ],
)
def test_simulated_slots_give_the_plain_answer(n_clients: int, n_classes: int, bits: int) -> None:
    rng = np.random.default_rng(n_clients)
    for n_rows in (1, 3, 70) if n_clients < 200 else (2, 40):
        values = rng.integers(0, 2**bits, (n_clients, n_rows, n_classes))
        values[:, ::3] //= 2 ** (bits - 2)  # many ties
        values[:, 1::3] %= 300 if bits == 16 else 2**bits  # ties of the high digit only
        values[rng.random(values.shape) < 0.2] = -1
        simulated = EncryptedArgmin(n_clients, n_classes, bits, mode="simulate")
        assert np.array_equal(simulated.run_quantised(values), clear_argmin(values))


def test_simulate_and_clear_agree_with_plain_minima() -> None:
    answers = np.random.default_rng(0).random((3, 5, 4))
    runs = [EncryptedArgmin(3, 4, mode=mode).run(answers) for mode in ("simulate", "clear")]
    quantised = np.rint(255 * answers)
    best = quantised.min(axis=0)
    assert np.array_equal(runs[0], best == best.min(axis=1, keepdims=True))
    assert np.array_equal(runs[0], runs[1])


def test_wrong_settings_and_tables_are_refused() -> None:
    for wrong in ({"n_clients": 201}, {"n_classes": 101}, {"bits": 7}, {"bits": 4, "n_classes": 16}):
        with pytest.raises(InvalidInputError):
            EncryptedArgmin(**{"n_clients": 3, "n_classes": 4, **wrong})
    with pytest.raises(InvalidInputError, match="mode"):
        EncryptedArgmin(3, 4, mode="fast")
    argmin = EncryptedArgmin(3, 4, mode="simulate")
    for table in (np.zeros((4, 1, 4)), np.zeros((3, 1, 5)), np.full((3, 1, 4), 1.5), np.zeros((3, 4)), "x"):
        with pytest.raises(InvalidInputError):
            argmin.run(table)
    assert argmin.run(np.zeros((3, 0, 4))).shape == (0, 4)


@pytest.mark.parametrize("mode", ["simulate", "clear"])
def test_numbers_out_of_range_are_refused_without_encryption_too(mode: str) -> None:
    argmin = EncryptedArgmin(2, 2, 4, mode=mode)
    for wrong in ([[[16, 3]]], [[[3, -2]]], [[[0.0, 1.0]]], [[[1, 2]], [[1]]], "x"):
        with pytest.raises(InvalidInputError):
            argmin.run_quantised(wrong)


def test_without_seal_the_error_says_what_to_install(block_import) -> None:
    block_import("seal")
    from onefold.federated.fhe.seal import contexts_for

    contexts_for.cache_clear()
    with pytest.raises(MissingDependencyError, match="fhe"):
        EncryptedArgmin(2, 2).run(np.zeros((2, 1, 2)))
    assert EncryptedArgmin(2, 2, mode="simulate").run(np.zeros((2, 1, 2))).all()
