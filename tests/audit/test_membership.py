"""The score and the distance attack: against counting by hand, scikit-learn, and known distributions."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from onefold.audit import density_difference, distance_attack, membership_inference_score
from onefold.exceptions import InvalidInputError
from reference.density_difference import gaussian_l2

RNG = np.random.default_rng(0)
TRAIN, TEST = RNG.gamma(4.0, 0.2, size=1500), RNG.gamma(6.0, 0.2, size=1200)


def test_score_is_the_l2_distance_of_the_densities() -> None:
    rng = np.random.default_rng(1)
    score = membership_inference_score(rng.normal(5, 0.5, size=5000), rng.normal(6, 0.7, size=5000))
    assert score / gaussian_l2(5, 0.5, 6, 0.7) == pytest.approx(1.0, abs=0.1)
    assert membership_inference_score(TRAIN, TEST) == density_difference(TRAIN, TEST).l2


def test_score_grows_with_the_difference() -> None:
    rng = np.random.default_rng(2)
    base = rng.normal(size=3000)
    scores = [membership_inference_score(base, rng.normal(shift, 1, size=3000)) for shift in (0, 0.5, 1, 2)]
    assert scores == sorted(scores)
    assert scores[0] < 0.01 < scores[1]


def test_score_scales_with_the_unit_of_the_distances() -> None:
    base = membership_inference_score(TRAIN, TEST)
    assert membership_inference_score(10 * TRAIN, 10 * TEST) == pytest.approx(base / 10, rel=1e-9)
    assert membership_inference_score(TEST[::-1], TRAIN) == pytest.approx(base, rel=1e-9)
    assert membership_inference_score(TRAIN, TEST, random_state=0) == base


def test_attack_matches_a_computation_by_hand() -> None:
    # Others farther than each member, the tie at 2 counted half: 3 for 1, 2.5 for 2, 1 for 4.
    found = distance_attack([1.0, 2.0, 4.0], [2.0, 3.0, 5.0])
    assert found.auc == pytest.approx((3 + 2.5 + 1) / 9)
    np.testing.assert_allclose(found.thresholds, [-np.inf, 1, 2, 3, 4, 5])
    np.testing.assert_allclose(found.tpr, [0, 1 / 3, 2 / 3, 2 / 3, 1, 1])
    np.testing.assert_allclose(found.fpr, [0, 0, 1 / 3, 2 / 3, 2 / 3, 1])
    point = found.points[1]
    assert (point.fpr_limit, point.fpr, point.tpr, point.threshold) == (0.01, 0.0, 1 / 3, 1.0)
    assert not point.resolved


@pytest.mark.parametrize("larger", [False, True])
def test_auc_matches_scikit_learn(larger: bool) -> None:
    found = distance_attack(TRAIN, TEST, larger_is_member=larger)
    truth = np.repeat([1, 0], [len(TRAIN), len(TEST)])
    scores = np.concatenate([TRAIN, TEST]) * (1 if larger else -1)
    assert found.auc == pytest.approx(roc_auc_score(truth, scores))
    assert found.auc == pytest.approx(np.trapezoid(found.tpr, found.fpr))


def test_operating_points_keep_their_false_positive_rates() -> None:
    members, others = TRAIN, np.random.default_rng(5).gamma(6.0, 0.2, size=5000)
    found = distance_attack(members, others)
    for point, limit in zip(found.points, (0.001, 0.01), strict=True):
        best = max(np.mean(members <= t) for t in others if np.mean(others <= t) <= limit)
        # The next corner before one more outsider is accused.
        accused = sorted(others)[round(limit * 5000)]
        assert point.tpr == np.mean(members < accused) >= best
        assert point.tpr == np.mean(members <= point.threshold)
        assert point.fpr == np.mean(others <= point.threshold) <= limit
        exact = binomtest(round(point.tpr * len(members)), len(members)).proportion_ci(0.95, method="exact")
        assert point.tpr_interval == pytest.approx((exact.low, exact.high))
        assert point.resolved


def test_tied_scores_are_not_split() -> None:
    # Everybody looks the same: nobody can be called a member without calling everybody one.
    found = distance_attack(np.ones(2000), np.ones(3000))
    assert (found.auc, found.points[1].tpr) == (0.5, 0.0)
    assert found.points[0].threshold == -np.inf


def test_attack_depends_on_the_order_of_scores_only() -> None:
    base, other = distance_attack(TRAIN, TEST), distance_attack(np.log(TRAIN), np.log(TEST))
    assert (base.auc, base.points[1].tpr) == (other.auc, other.points[1].tpr)
    assert distance_attack(-TRAIN, -TEST, larger_is_member=True).auc == base.auc
    assert distance_attack(TEST, TRAIN).auc == pytest.approx(1 - base.auc)
    assert distance_attack(np.random.default_rng(5).permutation(TRAIN), TEST).auc == pytest.approx(
        base.auc, rel=1e-12
    )


def test_auc_interval_covers_as_often_as_its_confidence_says() -> None:
    rng = np.random.default_rng(3)
    true = float(ndtr(1 / np.sqrt(2)))  # P(N(0, 1) < N(1, 1))
    held = []
    for _ in range(400):
        found = distance_attack(rng.normal(0, 1, size=60), rng.normal(1, 1, size=90), confidence=0.9)
        held.append(found.auc_interval[0] <= true <= found.auc_interval[1])
    assert 0.85 < np.mean(held) < 0.95


def test_attack_counts_who_was_scored() -> None:
    found = distance_attack(TRAIN, TEST)
    assert [point.fpr_limit for point in found.points] == [0.001, 0.01]
    assert (found.n_members, found.n_nonmembers) == (1500, 1200)


@pytest.mark.parametrize("bad", [[], [np.nan], np.zeros((3, 2)), ["near"]])
def test_attack_refuses_bad_scores_in_one_line(bad: object) -> None:
    for function in (distance_attack, membership_inference_score):
        for arguments in ((bad, TEST), (TRAIN, bad)):
            with pytest.raises(InvalidInputError) as caught:
                function(*arguments)
            assert "\n" not in str(caught.value)
