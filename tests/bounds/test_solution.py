"""Kernel and solution of document 004, compared with its equations written out term by term."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold import bounds
from onefold.exceptions import InvalidInputError

SHARES = st.floats(0.0, 1.0)
ROWS = st.lists(st.tuples(SHARES, st.booleans()), min_size=1, max_size=8)


@given(ROWS, st.lists(SHARES, min_size=1, max_size=5), st.floats(1e-3, 1.0))
def test_solutions_equal_the_documents_sums(rows, queries, norm) -> None:
    features, labels = [phi for phi, _ in rows], [int(label) for _, label in rows]
    # 004 eq. 29, 58 and 60, 81, one term after the other
    for place, query in enumerate(queries):
        inside = sum(label * (phi * query) for phi, label in zip(features, labels, strict=True)) / len(rows)
        assert bounds.rkhs_solution(features, labels, queries)[place] == pytest.approx(inside, abs=1e-14)
        found = bounds.learned_solution(features, labels, queries, norm)[place]
        assert found == pytest.approx(inside / norm, rel=1e-12, abs=1e-14)


@given(ROWS, SHARES, st.lists(SHARES, min_size=1, max_size=5))
def test_with_the_class_frequency_as_norm_it_is_equation_88(others, one, queries) -> None:
    rows = [*others, (one, True)]  # at least one row has the class
    own = [phi for phi, label in rows if label]
    found = bounds.learned_solution([phi for phi, _ in rows], [label for _, label in rows], queries)
    np.testing.assert_allclose(found, [query * sum(own) / len(own) for query in queries], atol=1e-14)
    assert np.all((found >= 0) & (found <= 1 + 1e-12))  # eq. 86


def test_the_kernel_is_symmetric_and_positive_semidefinite() -> None:
    phi = np.array([0.2, 1.0, 0.0, 0.7])
    kernel = bounds.feature_kernel(phi, phi)
    np.testing.assert_allclose(kernel, [[a * b for b in phi] for a in phi])
    assert np.linalg.eigvalsh(kernel).min() > -1e-12


def test_the_inverse_adjoint_undoes_the_adjoint() -> None:
    """004 eq. 37 and 45 on five places of known probability: J* of f over the norm is f."""
    places, phi = np.array([0.1, 0.3, 0.2, 0.25, 0.15]), np.array([0.05, 0.2, 0.5, 0.8, 0.95])
    function = 0.4 * phi
    adjoint = bounds.feature_kernel(phi, phi) @ (places * function)
    np.testing.assert_allclose(adjoint / (places @ phi**2), function, rtol=1e-12)


@pytest.mark.parametrize(
    "arguments",
    [
        ([0.5, 1.2], [0, 1], [0.5]),
        ([0.5, math.nan], [0, 1], [0.5]),
        ([0.5, 0.5], [0, 2], [0.5]),
        ([0.5, 0.5], [0, 1, 1], [0.5]),
        ([[0.5], [0.5]], [[0], [1]], [0.5]),
        ([], [], [0.5]),
        ([0.5], [1], [-0.1]),
        ([0.5], [0], [0.5]),
        ([0.5], [1], [0.5], 0.0),
        ([0.5], [1], [0.5], math.nan),
        (["much"], [1], [0.5]),
    ],
)
def test_bad_arguments_of_the_solution_are_refused_in_one_line(arguments: tuple) -> None:
    with pytest.raises(InvalidInputError) as caught:
        bounds.learned_solution(*arguments)
    assert "\n" not in str(caught.value)
