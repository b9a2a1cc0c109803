"""Verdicts over simulated truths: useless predictions are seldom called better, and good ones are found.

A statistical assertion here fails for a correct program with a probability below 1e-6; the seeds are fixed.
"""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, hypergeom
from tests.tiers import later

from onefold.audit.intervals import area_interval, gain_interval, mean_share_interval, r2_interval
from onefold.report.builders import HeldOutAccuracy
from onefold.report.evaluation import Evaluation, evaluate, evaluate_numbers, numbers_of

FALSE_ALARM = 1e-6


def most(runs: int, share: float) -> int:
    """The number that is exceeded with a probability of at most FALSE_ALARM if the share is true."""
    return int(binom.isf(FALSE_ALARM, runs, share))


def least(runs: int, share: float) -> int:
    """The number that is not reached with a probability of at most FALSE_ALARM if the share is true."""
    return int(binom.ppf(FALSE_ALARM, runs, share))


# --- classes ------------------------------------------------------------------------------------------------


def test_model_that_orders_rows_is_better_than_guessing_and_told_what_to_do() -> None:
    """Every answer is the most frequent class, and the order of the rows is clearly better than chance."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [150, 25])
    scores = rng.normal(size=175) + 0.85 * labels
    found = evaluate(np.zeros(175, dtype=np.int64), labels, scores=scores)
    assert found.auc is not None
    assert 0.65 < found.auc < 0.8
    assert "better than guessing; choose a threshold with --probabilities" in found.verdict
    assert "no use" not in " ".join(found.words("175 rows"))


@pytest.mark.parametrize(
    ("kind", "rows", "share"),
    later(
        [
            (kind, *size)
            for kind in ("coin", "skewed coin", "constant")
            for size in ((12, 0.5), (60, 0.5), (60, 0.85), (400, 0.7))
        ],
        [("coin", 12, 0.5), ("coin", 60, 0.5), ("skewed coin", 60, 0.85), ("constant", 400, 0.7)],
    ),
)
def test_useless_classes_are_called_better_in_at_most_the_stated_share(
    rows: int, share: float, kind: str
) -> None:
    rng, runs = np.random.default_rng(1), 400
    called = {"gain in accuracy": 0, "balanced accuracy": 0, "AUC": 0, "verdict": 0}
    for _ in range(runs):
        labels = (rng.random(rows) < share).astype(np.int64)
        scores = rng.normal(size=rows)
        shift = {"coin": 0.0, "skewed coin": 1.0, "constant": 10.0}[kind]
        found = evaluate((scores + shift > 0.0).astype(np.int64), labels, scores=scores)
        for each in found.measures:
            called[each.name] += each.outcome == "better"
        called["verdict"] += ": better than" in found.verdict
    assert max(called["gain in accuracy"], called["AUC"]) <= most(runs, 0.025)
    assert called["balanced accuracy"] <= most(runs, 0.025)
    assert called["verdict"] <= most(runs, 0.05)


@pytest.mark.parametrize(("rows", "power"), [(300, 0.8), (1000, 0.95)])
def test_good_classes_are_found(rows: int, power: float) -> None:
    """A shift of one deviation: AUC 0.76 and accuracy 0.69 where guessing has 0.5."""
    rng, runs, by_gain, by_order = np.random.default_rng(2), 200, 0, 0
    for _ in range(runs):
        labels = rng.integers(0, 2, rows)
        scores = rng.normal(size=rows) + labels - 0.5
        good = evaluate((scores > 0.0).astype(np.int64), labels, scores=scores)
        lazy = evaluate(np.zeros(rows, dtype=np.int64), labels, scores=scores, common=0)
        by_gain += "better than always answering the most frequent class" in good.verdict
        by_order += "better than guessing" in lazy.verdict
    assert min(by_gain, by_order) >= least(runs, power)


def test_wrong_labels_are_called_worse_and_persons_have_no_verdict() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 300)
    scores = rng.normal(size=300) - 2.0 * labels
    swapped = evaluate((scores > -1.0).astype(np.int64), labels, scores=scores)
    assert "worse than guessing" in swapped.verdict
    assert evaluate(labels, labels, scores=scores, bounded=False).measures == []
    assert "not known" in evaluate(labels, labels, bounded=False).verdict


def test_verdict_is_written_where_the_measures_are() -> None:
    labels = np.arange(60) % 3
    found = evaluate(labels, labels)
    assert found.verdict in found.words("60 rows")
    told = numbers_of(found)
    assert told["verdict"] == found.verdict
    assert told["outcomes"] == {"gain in accuracy": "better", "balanced accuracy": "better"}
    assert Evaluation(3, 1.0, 1.0, 0.5, [0], [[3]]).measures == []  # nothing is judged without an interval


# --- the intervals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 9), (2, 2), (3, 3), (4, 4), (2, 9), (5, 6)])
def test_area_of_few_numbers_is_above_half_no_more_often_than_stated(sizes: tuple[int, int]) -> None:
    """Exactly, over all orders of numbers of one law: perfect order by chance is no proof."""
    first, size = sizes[0], sum(sizes)
    orders = list(itertools.combinations(range(size), first))
    above = 0
    for chosen in orders:
        rest = [place for place in range(size) if place not in chosen]
        above += area_interval(chosen, rest)[1][0] > 0.5
    assert above / len(orders) <= 0.025


@pytest.mark.parametrize(
    "sizes", [(5, 95, 2), (6, 54, 6), (3, 40, 3), (10, 10, 3), (2, 30, 10), (30, 30, 30)]
)
def test_area_of_two_scores_is_above_half_no_more_often_than_stated(sizes: tuple[int, int, int]) -> None:
    """Exactly, over all ways in which so many rows with the higher score fall among the classes."""
    first, second, high = sizes
    above = 0.0
    for hits in range(max(0, high - second), min(first, high) + 1):
        scores = np.arange(first) < hits, np.arange(second) < high - hits
        above += hypergeom.pmf(hits, first + second, high, first) * (area_interval(*scores)[1][0] > 0.5)
    assert above <= 0.025


@pytest.mark.parametrize(
    ("rows", "classes", "common"), later([(80, 10, 0.3), (80, 10, 0.1), (60, 20, 0.2)], [(60, 20, 0.2)])
)
def test_many_useless_classes_are_called_better_in_at_most_the_stated_share(
    rows: int, classes: int, common: float
) -> None:
    rng, runs = np.random.default_rng(11), 1000
    shares = [common, *[(1.0 - common) / (classes - 1)] * (classes - 1)]
    called = 0
    for _ in range(runs):
        found = evaluate(rng.integers(0, classes, rows), rng.choice(classes, rows, p=shares))
        called += ": better than" in found.verdict
    assert called <= most(runs, 0.025)


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_area_interval_holds_the_truth_about_as_often_as_it_says(shift: float, step: float) -> None:
    """Continuous scores, and such with ties."""
    rng, runs, inside, width = np.random.default_rng(4), 600, 0, []
    first, second = rng.normal(shift, 1.0, (runs, 60)), rng.normal(0.0, 1.0, (runs, 90))
    true = float(ndtr(shift / np.sqrt(2.0)))
    if step:
        first, second = np.floor(first / step), np.floor(second / step)
        cells = np.arange(-12.0, 13.0)
        one, other = (np.diff(ndtr(np.append(cells, 13.0) - middle)) for middle in (shift, 0.0))
        true = float(one @ (np.cumsum(other) - other / 2.0))
    for one_run, other_run in zip(first, second, strict=True):
        low, high = area_interval(one_run, other_run)[1]
        inside += low <= true <= high
        width.append(high - low)
    assert least(runs, 0.93) <= inside <= most(runs, 0.985)
    assert np.mean(width) < 0.22  # of at most 1


def test_gain_and_mean_share_intervals_hold_the_truth_and_have_a_width() -> None:
    rng, runs = np.random.default_rng(5), 600
    inside, shares, widths = 0, 0, []
    for _ in range(runs):
        won, lost, _ = rng.multinomial(120, [0.2, 0.1, 0.7])
        low, high = gain_interval(int(won), int(lost), 120)
        inside += low <= 0.1 <= high
        widths.append(high - low)
        low, high = mean_share_interval(rng.binomial([80, 25], [0.9, 0.6]), [80, 25])
        shares += low <= 0.75 <= high
        widths.append(high - low)
    assert least(runs, 0.93) <= min(inside, shares)
    assert max(inside, shares) <= most(runs, 0.99)
    assert np.mean(widths) < 0.25
    assert gain_interval(0, 0, 50) == (0.0, 0.0)


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [8, 30, 200])
@pytest.mark.parametrize("law", ["normal", "lognormal"])
def test_useless_numbers_are_called_better_in_at_most_the_stated_share(rows: int, law: str) -> None:
    rng, runs, called, absolute = np.random.default_rng(6), 400, 0, 0
    for _ in range(runs):
        truth = rng.normal(size=rows) if law == "normal" else rng.lognormal(size=rows)
        middle = 0.0 if law == "normal" else float(np.exp(0.5))
        found = evaluate_numbers(middle + 0.3 * rng.normal(size=rows), truth, mean=middle)
        called += found.measures[0].outcome == "better"
        absolute += found.measures[1].outcome == "better"
    assert max(called, absolute) <= most(runs, 0.025)


@pytest.mark.parametrize("law", ["lognormal", "exponential", "mostly zero", "heavy tails"])
@pytest.mark.parametrize("factor", [0.6, 0.9, 1.0, 1.1])
def test_no_constant_is_called_better_whatever_the_law(law: str, factor: float) -> None:
    """Below the mean of a skewed law absolute errors are smaller, and nothing was learned."""
    rng, runs, rows = np.random.default_rng(9), 150, 200
    draw = {
        "lognormal": lambda n: rng.lognormal(0.0, 1.5, n),
        "exponential": lambda n: rng.exponential(size=n),
        "mostly zero": lambda n: (rng.random(n) < 0.1) * rng.lognormal(2.0, 1.0, n),
        "heavy tails": lambda n: 1.0 + rng.standard_t(3, n),
    }[law]
    called = 0
    for _ in range(runs):
        mean, truth = draw(500).mean(), draw(rows)
        guess = factor * mean + 0.05 * rng.normal(size=rows)
        called += ": better than" in evaluate_numbers(guess, truth).verdict
    assert called <= most(runs, 0.05)


def test_numbers_that_few_rows_spoil_are_called_better_for_the_others() -> None:
    rng = np.random.default_rng(10)
    truth = rng.normal(size=400)
    guess = truth + 0.1 * rng.normal(size=400)
    guess[:3] += 40.0
    assert (
        "better than always predicting the median, except for few rows"
        in evaluate_numbers(guess, truth).verdict
    )


def test_good_numbers_are_found_and_bad_ones_are_called_worse() -> None:
    rng, runs, good, bad = np.random.default_rng(7), 200, 0, 0
    for _ in range(runs):
        truth = rng.normal(size=150)
        good += "better than always predicting the mean" in evaluate_numbers(
            0.5 * truth + 0.5 * rng.normal(size=150), truth
        ).verdict.replace("not shown to be better", "")
        bad += ": worse than" in evaluate_numbers(3.0 * rng.normal(size=150), truth).verdict
    assert good >= least(runs, 0.95)
    assert bad >= least(runs, 0.95)


def test_r2_interval_holds_the_truth_and_has_a_width() -> None:
    rng, runs, inside, widths = np.random.default_rng(8), 600, 0, []
    for _ in range(runs):
        truth = rng.normal(size=200)
        interval = r2_interval(truth + 0.5 * rng.normal(size=200), truth)  # R2 is 0.75
        assert interval is not None
        inside += interval[0] <= 0.75 <= interval[1]
        widths.append(interval[1] - interval[0])
    assert least(runs, 0.92) <= inside <= most(runs, 0.98)
    assert np.mean(widths) < 0.2
    assert r2_interval([1.0, 1.0], [1.0, 2.0]) is None
    assert r2_interval([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) is None


# --- sources ------------------------------------------------------------------------------------------------


def test_source_is_said_to_help_only_if_it_does_whatever_rows_differ() -> None:
    """Without the single answers the widest interval is taken: it is never narrower than that of the rows."""
    rng = np.random.default_rng(9)
    for _ in range(300):
        rows = int(rng.integers(10, 200))
        first, second = (rng.random(rows) < share for share in rng.random(2))
        held = HeldOutAccuracy(rows, float(first.mean()), 0.5, float(second.mean()))
        won, lost = int(np.sum(first & ~second)), int(np.sum(second & ~first))
        low, high = gain_interval(won, lost, rows)
        widest = held.source_gain.interval
        assert (widest[0] > 0.0) <= (low > 0.0)
        assert (widest[1] < 0.0) <= (high < 0.0)
