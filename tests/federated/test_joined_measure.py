"""The joined measure: a squared distance plus a public offset that is the same at every site."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from onefold import FoldingClassifier
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated import GlobalClassifier, QueryGuard
from onefold.federated.messages import Answers, Profile, Query, from_bytes
from onefold.federated.rules import combine, decide, disagreeing, minimum, trimmed
from onefold.models import JOINED, MAXIMA, MEASURES, maximum_of

SQUARES = npst.arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4)),
    elements=st.floats(0, 1e6) | st.just(np.inf),
)


def _squares(n_sites: int = 7, n_rows: int = 60, n_classes: int = 4, seed: int = 0) -> np.ndarray:
    """Squared distances at sites, some of which lack a class, all following the truth."""
    rng = np.random.default_rng(seed)
    near = rng.random((n_rows, n_classes))
    found = near * (1.0 + 0.2 * rng.random((n_sites, n_rows, n_classes)))
    found[0, :, 1] = np.inf
    return found


def _offsets(n_rows: int = 60, n_classes: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((n_rows, n_classes))


def test_joined_is_a_measure_of_federations_and_not_of_machines() -> None:
    assert JOINED not in MEASURES
    assert maximum_of(JOINED) == MAXIMA[JOINED] == np.inf
    with pytest.raises(InvalidInputError, match="measure must be"):
        FoldingClassifier(measure=JOINED).fit(np.eye(4), [0, 0, 1, 1])


@given(SQUARES, st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_minimum_of_joined_answers_is_that_of_the_squares_plus_one_offset(squares, seed, n_liars) -> None:
    # Rounding is monotone: adding the same number keeps the order, so every order statistic moves with it.
    offset = 1e3 * np.random.default_rng(seed).random(squares.shape[1:])
    np.testing.assert_array_equal(minimum(squares + offset), minimum(squares) + offset)
    owned = np.isfinite(squares).any(axis=1)
    np.testing.assert_array_equal(
        trimmed(squares + offset, n_liars, owned), trimmed(squares, n_liars, owned) + offset
    )


def test_checked_rule_finds_a_site_that_swaps_classes_of_joined_answers() -> None:
    answers = _squares() + _offsets()
    honest = combine(answers, "checked", 1)
    answers[3] = answers[3][:, [1, 2, 3, 0]]
    assert disagreeing(answers).tolist() == [3]
    assert np.mean(decide(combine(answers, "checked", 1)) == decide(honest)) > 0.9


def test_weighted_rule_leaves_out_a_site_without_trust_and_no_offset() -> None:
    squares, offset = _squares(3), _offsets()
    answers = squares + offset
    found = combine(answers, "weighted", weights=[0.0, 1.0, 1.0])
    np.testing.assert_array_equal(found, squares[1:].min(axis=0) + offset)


def _answers(name: str, values: np.ndarray, scale: float | None = 0.5) -> Answers:
    return Answers("q", name, (0, 1, 2, 3), JOINED, scale, values)


def test_joined_answers_travel_with_the_weight_of_their_offset() -> None:
    sent = _answers("north", _squares()[1] + _offsets())
    found = from_bytes(sent.to_bytes())
    assert isinstance(found, Answers)
    assert (found.measure, found.scale, found.largest) == (JOINED, 0.5, np.inf)
    np.testing.assert_array_equal(found.values, sent.values)
    profile = Profile("north", (0, 1, 2, 3), JOINED, 0.5, 8, None, "0" * 64)
    assert from_bytes(profile.to_bytes()) is not None
    with pytest.raises(MessageError, match="scale must be a positive"):
        _answers("north", _squares()[1], None)
    with pytest.raises(MessageError, match="range of the measure"):
        _answers("north", _squares()[1] - 1.0)


def test_server_combines_joined_answers_and_refuses_another_weight() -> None:
    squares, offset = _squares(3), _offsets()
    server = GlobalClassifier(measure=JOINED, classes=[0, 1, 2, 3])
    sent = {f"site-{i}": _answers(f"site-{i}", squares[i] + offset) for i in range(3)}
    query = Query("q", np.zeros((60, 8)))
    result = server.combine(sent, sent, query=query)
    np.testing.assert_array_equal(result.measures, squares.min(axis=0) + offset)
    sent["site-2"] = _answers("site-2", squares[2] + offset, 0.7)
    assert set(server.combine(sent, sent, query=query).refused) == {"site-2"}
    for name, each in sent.items():
        server.add(name, each)
    np.testing.assert_array_equal(server.measures(), squares.min(axis=0) + offset)


def test_guard_counts_rows_whatever_the_measure_is() -> None:
    guard = QueryGuard(per_minute=100, total=100)
    guard.admit("querier", len(_answers("north", _squares()[1]).values))
    assert guard.remaining("querier") == 40
