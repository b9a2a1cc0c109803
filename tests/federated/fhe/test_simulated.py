"""The same arithmetic without encryption: fast enough for all sizes; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.federated.fhe import EncryptedArgmin
from onefold.federated.fhe._circuit import zero_test
from onefold.federated.fhe._layout import layouts
from onefold.federated.fhe.argmin import PlainSlots, clear_argmin
from onefold.federated.fhe.parameters import choose


@pytest.mark.parametrize("n_clients", [1, 2, 3, 4, 5, 7, 8, 10, 16, 33, 64, 100, 127, 128, 199, 200])
def test_the_zero_test_knows_zero_from_every_count(n_clients: int) -> None:
    counts = np.arange(n_clients + 1)
    found = zero_test(PlainSlots(), n_clients, counts)
    assert found.tolist() == [1] + [0] * n_clients


@pytest.mark.parametrize(
    ("n_clients", "n_classes", "bits"),
    [
        (1, 1, 4),
        (4, 10, 8),
        (3, 16, 8),
        (100, 20, 8),
        (200, 100, 8),
        (5, 100, 10),
        (5, 20, 12),
        (6, 7, 6),
        (6, 9, 16),
    ],
)
def test_slots_give_the_plain_answer(n_clients: int, n_classes: int, bits: int) -> None:
    rng = np.random.default_rng(n_clients)
    for n_rows in (1, 3, 70) if n_clients < 200 else (2, 40):
        values = rng.integers(0, 2**bits, (n_clients, n_rows, n_classes))
        values[:, ::3] //= 2 ** (bits - 2)  # many ties
        values[:, 1::3] %= 300 if bits == 16 else 2**bits  # ties of the high digit only
        values[rng.random(values.shape) < 0.2] = -1
        simulated = EncryptedArgmin(n_clients, n_classes, bits, mode="simulate")
        assert np.array_equal(simulated.run_quantised(values), clear_argmin(values))


def test_modes_agree_on_measures() -> None:
    answers = np.random.default_rng(0).random((3, 5, 4))
    runs = [EncryptedArgmin(3, 4, mode=mode).run(answers) for mode in ("simulate", "clear")]
    quantised = np.rint(255 * answers)
    best = quantised.min(axis=0)
    assert np.array_equal(runs[0], best == best.min(axis=1, keepdims=True))
    assert np.array_equal(runs[0], runs[1])


@pytest.mark.parametrize("n_values", [16, 256, 1024])
@pytest.mark.parametrize("n_columns", [2, 5, 11, 16])
@pytest.mark.parametrize("n_queries", [1, 2, 5, 40])
def test_every_class_meets_every_value_once(n_values: int, n_columns: int, n_queries: int) -> None:
    for layout, rows in layouts(n_values, n_columns, 4096, n_queries):
        n_rows = rows.stop - rows.start
        query, column, value = np.mgrid[:n_rows, :n_columns, :n_values].reshape(3, -1)
        plane, slot = layout.places(query, column, value)
        assert len(set(zip(plane.tolist(), slot.tolist(), strict=True))) == len(plane)
        assert plane.max() < layout.planes
        for k in range(layout.planes):  # where the thermometer stands after k rotations is where the mark is
            here = plane == k
            spoken = np.roll(layout.values().reshape(2, -1), -k * layout.plane_step, axis=1).ravel()
            assert np.array_equal(spoken[slot[here]], value[here])
            assert np.array_equal(layout.queries()[slot[here]], query[here])


def test_bad_settings_and_tables_get_one_line() -> None:
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
def test_numbers_that_encryption_would_refuse_are_refused_without_it_too(mode: str) -> None:
    argmin = EncryptedArgmin(2, 2, 4, mode=mode)
    for wrong in ([[[16, 3]]], [[[3, -2]]], [[[0.0, 1.0]]], [[[1, 2]], [[1]]], "x"):
        with pytest.raises(InvalidInputError):
            argmin.run_quantised(wrong)


def test_numbers_of_numpy_are_as_good_as_plain_ones_and_leave_no_trace() -> None:
    setting = (np.int64(5), np.int32(6), np.uint8(5))
    assert choose(*setting) == choose(5, 6, 5)
    for wrong in ((5, 6, 5.0), (5.0, 6, 5), (True, 6, 5)):
        with pytest.raises(InvalidInputError):
            choose(*wrong)
    for found in (choose(*setting), choose(5, 6, 5)):
        assert {type(number) for number in (found.n_clients, found.n_classes, found.bits)} == {int}


def test_without_seal_a_message_says_what_to_install(block_import) -> None:
    block_import("seal")
    from onefold.federated.fhe._seal import contexts_for

    contexts_for.cache_clear()
    with pytest.raises(MissingDependencyError, match="fhe"):
        EncryptedArgmin(2, 2).run(np.zeros((2, 1, 2)))
    assert EncryptedArgmin(2, 2, mode="simulate").run(np.zeros((2, 1, 2))).all()
