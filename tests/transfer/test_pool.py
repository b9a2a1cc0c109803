"""A source counts where held-out rows say so, and only there."""

import numpy as np
import pytest

from onefold.transfer._pool import TARGET_ALONE, HeldOut, weigh


def said(truth, n_classes, sure, rng):
    """Scores of an expert: the right class is ahead by ``sure``, give or take."""
    return sure * np.eye(n_classes)[truth] + rng.normal(size=(len(truth), n_classes))


def held_out(n_rows, target, others, *, n_classes=3, fair=1.0):
    rng = np.random.default_rng(0)
    truth = np.arange(n_rows) % n_classes
    experts = [said(truth, n_classes, sure, rng) for sure in (target, others, others)]
    return HeldOut(experts, truth, np.arange(n_rows) < fair * n_rows)


def test_source_that_knows_more_gets_weight() -> None:
    held = held_out(60, 0.5, 4.0)
    weights, gain = weigh(held, np.arange(3), 3)
    assert weights[1] > 0.0
    assert weights[2] > 0.0
    alone = np.mean(held.experts[0].argmax(axis=1) == held.truth)
    assert gain == pytest.approx(1.0 - alone, abs=0.05)


def test_source_that_knows_nothing_gets_no_weight() -> None:
    weights, gain = weigh(held_out(60, 3.0, 0.0), np.arange(3), 3)
    assert (tuple(weights), gain) == (TARGET_ALONE, 0.0)


def test_rows_of_a_class_the_target_has_not_seen_are_not_compared() -> None:
    held = held_out(60, 0.5, 4.0, fair=0.8)
    found = weigh(held, np.arange(3), 3)
    unfair = ~held.fair
    for scores in held.experts:  # nothing that is said about the other rows matters
        scores[unfair] = scores[unfair][:, ::-1]
    again = weigh(held, np.arange(3), 3)
    assert found[0].tolist() == again[0].tolist()
    assert found[1] == again[1]


def test_source_must_beat_guessing_where_hardly_any_row_can_be_compared() -> None:
    lonely = held_out(60, 0.0, 4.0, fair=0.2)
    _, gain = weigh(lonely, np.arange(3), 3)
    assert gain > 0.3
    # Very sure where it is right and hardly wrong elsewhere: it explains much, yet guessing does as well.
    truth, lead = np.arange(18) % 2, np.where(np.arange(18) < 11, 5.0, -0.1)
    sure = lead[:, None] * np.eye(2)[truth]
    lucky = HeldOut([np.zeros((18, 2)), sure, sure], truth, np.arange(18) < 4)
    assert tuple(weigh(lucky, np.arange(2), 2)[0]) == TARGET_ALONE
    lead[:15] = 5.0
    lucid = HeldOut([np.zeros((18, 2))] + [lead[:, None] * np.eye(2)[truth]] * 2, truth, lucky.fair)
    weights, gain = weigh(lucid, np.arange(2), 2)
    assert weights[1] > 0.0
    assert gain == pytest.approx(15 / 18 - 1 / 2)  # of a class it was not shown the target can only guess


def test_source_that_makes_more_rows_wrong_gets_no_weight() -> None:
    truth, rows = np.arange(18) % 2, np.arange(18)
    own, other = np.where(rows < 12, 0.05, -5.0), np.where(rows < 10, 5.0, -0.1)
    experts = [lead[:, None] * np.eye(2)[truth] for lead in (own, other, other)]
    assert tuple(weigh(HeldOut(experts, truth, rows >= 0), np.arange(2), 2)[0]) == TARGET_ALONE


def test_target_has_no_say_where_classes_are_missing() -> None:
    held = held_out(40, 3.0, 3.0, n_classes=2)
    three = HeldOut(
        [np.pad(s, ((0, 0), (0, 1)), constant_values=-9.0) for s in held.experts], held.truth, held.fair
    )
    weights, _ = weigh(three, np.arange(2), 3)
    assert weights[1:].sum() > 0.0
    spoilt = HeldOut([three.experts[0], *(-scores for scores in three.experts[1:])], held.truth, held.fair)
    assert tuple(weigh(spoilt, np.arange(2), 3)[0]) == TARGET_ALONE
