"""Windows of R-R intervals: artefacts are found, windows that hold one are left out, nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.datasets import artefacts, rr_windows
from onefold.exceptions import InvalidInputError


def heart(n_beats: int, seed: int = 0, drift: float = 0.0) -> np.ndarray:
    """Intervals of 0.8 s with breathing, jitter and a slow drift of the heart rate."""
    rng = np.random.default_rng(seed)
    beats = np.arange(n_beats)
    breathing = 0.03 * np.sin(2 * np.pi * beats / 5)
    return 0.8 + breathing + drift * beats / n_beats + 0.01 * rng.normal(size=n_beats)


def test_missed_and_extra_beats_are_marked_and_no_others() -> None:
    series = heart(600)
    missed, extra = [50, 300, 599], [0, 120, 121]
    series[missed] *= 2
    series[extra] /= 2
    assert artefacts(series).nonzero()[0].tolist() == sorted(missed + extra)
    assert not artefacts(heart(600)).any()


def test_the_measure_is_the_printed_one() -> None:
    """|x - median| over 1.4826 times the median of |x - median|, value by value."""
    series = np.random.default_rng(1).exponential(size=201)
    middle = np.median(series)
    spread = 1.4826 * np.median(np.abs(series - middle))
    for threshold in (0.5, 2.0, 4.0):
        expected = [abs(value - middle) > threshold * spread for value in series]
        assert artefacts(series, threshold=threshold).tolist() == expected


def test_a_running_median_does_not_mark_a_drift() -> None:
    series = heart(2000, drift=0.0)
    series[:200] += 0.4  # a slower heart for a tenth of the time
    assert artefacts(series)[:200].all()
    assert artefacts(series, around=20)[:180].sum() == 0
    series[1000] *= 2
    assert artefacts(series, around=20)[1000]


def test_the_running_median_is_that_of_the_neighbours() -> None:
    series = heart(40, seed=3, drift=0.5)
    middle = [np.median(series[i - 3 : i + 4]) for i in range(3, 37)]
    deviation = np.abs(series[3:37] - middle)
    marked = artefacts(series, threshold=1.0, around=3)[3:37]
    assert deviation[marked].min() > deviation[~marked].max()


def test_equal_values_are_no_artefacts_and_a_rare_other_one_is() -> None:
    series = np.full(100, 0.8)
    assert not artefacts(series).any()
    series[7] = 1.6
    assert artefacts(series).nonzero()[0].tolist() == [7]


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -0.8])
def test_what_is_not_an_interval_is_always_marked(value: float) -> None:
    series = heart(100)
    series[40] = value
    assert artefacts(series, threshold=1e9).nonzero()[0].tolist() == [40]
    assert artefacts([value, value]).all()


@given(
    n_beats=st.integers(0, 60),
    history=st.integers(0, 12),
    step=st.integers(1, 5),
    bad=st.lists(st.integers(0, 59), max_size=4),
)
def test_windows_are_those_without_artefacts(n_beats, history, step, bad) -> None:
    series = heart(n_beats)
    series[[place for place in bad if place < n_beats]] = np.nan
    X, last = rr_windows(series, history, step=step, threshold=1e9)
    expected = [i for i in range(history, n_beats, step) if np.isfinite(series[i - history : i + 1]).all()]
    assert last.tolist() == expected
    assert X.shape == (len(expected), history + 1)
    for row, i in zip(X, last, strict=True):
        np.testing.assert_array_equal(row, series[i - history : i + 1][::-1])


def test_the_default_is_three_minutes_and_one_artefact_costs_as_many_windows() -> None:
    X, last = rr_windows(heart(1000))
    assert X.shape == (1000 - 216, 217)
    assert last[0] == 216
    series = heart(1000)
    series[500] *= 2
    assert len(rr_windows(series)[0]) == 1000 - 216 - 217
    assert len(rr_windows(series, step=217)[0]) == 3


def test_an_empty_series_gives_no_windows() -> None:
    assert artefacts([]).shape == (0,)
    X, last = rr_windows([], 4)
    assert X.shape == (0, 5)
    assert last.shape == (0,)


@pytest.mark.parametrize(
    "bad",
    [
        {"intervals": [[0.8, 0.8]]},
        {"intervals": ["a"]},
        {"threshold": 0.0},
        {"threshold": np.nan},
        {"around": 0},
        {"history": -1},
        {"step": 0},
    ],
)
def test_bad_input_is_refused_in_one_line_without_values(bad: dict) -> None:
    arguments = {"intervals": heart(20), "history": 2, **bad}
    with pytest.raises(InvalidInputError) as problem:
        rr_windows(**arguments)
    assert "\n" not in str(problem.value)
    assert "'a'" not in str(problem.value)
