"""Whole pipelines on trial: what they claim stands, and what voids a claim is seen in the output."""

from typing import Any

import numpy as np
import pytest
from tests.tiers import later

from onefold import KAHM, AutoencoderClassifier
from onefold.audit import EpsilonAudit, audit_epsilon, audit_epsilon_one_run
from onefold.audit.epsilon import release_of
from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator, PrivateClassifier, smoother
from onefold.privacy import AnalyticGaussian, Laplace, OptimalNoise
from onefold.privacy.guarantee import SEEDED
from onefold.privacy.moments import PrivateMoments

CONFIDENCE = 0.999
EPSILON = 2.0
NOISE = OptimalNoise(EPSILON, sensitivity=10.0)
# Equal rows have no modelling error, so no noisy data are ever good enough for the documents' rule. One entry
# changed by the sensitivity, and the raw error is so large that they often pass unsmoothed.
EQUAL = np.zeros((3, 1))
CHANGED = np.array([[0.0], [10.0], [0.0]])

pytestmark = pytest.mark.filterwarnings(
    "ignore::onefold.exceptions.PrivacyLeakWarning", "ignore::onefold.exceptions.DataScaleWarning"
)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> int:
    """At most three steps instead of a hundred: the rules stay as they are, the trials become affordable."""
    monkeypatch.setattr(smoother, "MAXIMUM_STEPS", 3)
    return 3


NEIGHBOURS = [
    pytest.param("add-remove", marks=pytest.mark.merge),
    pytest.param("replace", marks=pytest.mark.nightly),
]


# --- fabricated rows --------------------------------------------------------------------------------------


@pytest.mark.merge
def test_documented_stopping_is_contradicted_by_its_output(few_steps: int) -> None:
    fabricator = Fabricator(NOISE, 1, "documented", n_jobs=1)
    audit = audit_epsilon(fabricator, EQUAL, CHANGED, 1e-5, 400, 0.95, random_state=0)
    assert audit.contradicts(EPSILON)
    assert not fabricator.guarantee_.holds  # and it never claimed otherwise


@pytest.mark.parametrize("form", later(["image", "smoothed"], ["smoothed"]))
def test_documented_stopping_is_contradicted_by_its_number_of_steps(few_steps: int, form: str) -> None:
    # 000 eq. 92 and 004 eq. 145. Of equal rows it takes all steps there are.
    fabricator = Fabricator(NOISE, 1, "documented", form=form, n_jobs=1)

    def steps(data: np.ndarray, rng: Any) -> int:
        fabricator.fabricate(data, random_state=rng)
        return fabricator.n_steps_[0]

    audit = audit_epsilon(steps, EQUAL, CHANGED, 1e-5, 120, 0.95, random_state=0)
    assert audit.contradicts(EPSILON)
    assert {steps(EQUAL, seed) for seed in range(10)} == {few_steps}


@pytest.mark.parametrize(
    ("stopping", "form"),
    [
        pytest.param("honest", "image", marks=pytest.mark.merge),
        pytest.param("honest", "smoothed", marks=pytest.mark.merge),
        (1, "image"),
        (1, "smoothed"),
    ],
)
def test_honest_and_fixed_stopping_are_accepted(few_steps: int, stopping: str | int, form: str) -> None:
    fabricator = Fabricator(NOISE, 1, stopping, form=form, n_jobs=1)

    def with_steps(data: np.ndarray, rng: Any) -> np.ndarray:
        rows = fabricator.fabricate(data, random_state=rng)
        return np.append(rows.ravel(), fabricator.n_steps_)

    audit = audit_epsilon(with_steps, EQUAL, CHANGED, 1e-5, 200, CONFIDENCE, random_state=0)
    assert not audit.contradicts(EPSILON)
    assert fabricator.guarantee_.voided_by == (SEEDED,)  # by this test, and by nothing else


def test_audit_of_a_fabricator_audits_fabricate() -> None:
    fabricator = Fabricator(NOISE, 1, 2, n_jobs=1)
    seeds = [np.random.default_rng(0) for _ in range(3)]
    audited = release_of(fabricator)(CHANGED, seeds[0])
    np.testing.assert_array_equal(audited, fabricator.fabricate(CHANGED, random_state=seeds[1]))
    assert not np.allclose(audited, fabricator.randomise(CHANGED, random_state=seeds[2]))
    assert audit_epsilon(fabricator, EQUAL, CHANGED, 1e-5, 16).unit == "entry"
    with pytest.raises(InvalidInputError, match="sensitivity"):
        audit_epsilon(Fabricator(NOISE, 1, 2), EQUAL, 2 * CHANGED, 1e-5, 16)


@pytest.mark.parametrize("stopping", ["honest", 0, 1])
@pytest.mark.parametrize(
    "noise", [kind(1.0, sensitivity=1.0) for kind in (OptimalNoise, Laplace, AnalyticGaussian)], ids=repr
)
def test_fabricated_tables_are_accepted_in_one_run(noise: Any, stopping: str | int) -> None:
    low, high = np.zeros((150, 6)), np.ones((150, 6))
    fabricator = Fabricator(noise, 3, stopping, branch_size=50, n_jobs=1)
    audit = audit_epsilon_one_run(fabricator, low, high, noise.delta, CONFIDENCE, random_state=0)
    assert audit.counts["canaries"] == 900
    assert not audit.contradicts(1.0)


@pytest.mark.nightly
@pytest.mark.parametrize("fabricate", [False, True])
def test_private_classifier_is_accepted_and_a_raw_one_contradicted(fabricate: bool) -> None:
    # The machine is asked about the two values themselves; labels are public here.
    labels, queries = np.repeat([0, 1], 4), np.linspace(-1, 2, 7)[:, None]
    x = np.repeat([[0.0], [1.0]], 4, axis=0)
    other = x.copy()
    other[0, 0] = 1.0

    def answers(data: np.ndarray, rng: Any) -> np.ndarray:
        model = PrivateClassifier(
            AutoencoderClassifier(KAHM(1)),
            Laplace(3.0, sensitivity=1.0),
            fabricate,
            1,
            n_components=1,
            random_state=rng,
        )
        return model.fit(data, labels).distances(queries)

    audit = audit_epsilon(answers, x, other, 0.0, 400, CONFIDENCE, random_state=0)
    assert not audit.contradicts(3.0)

    def careless(data: np.ndarray, rng: Any) -> np.ndarray:  # the same classifier on the raw rows
        return AutoencoderClassifier(KAHM(1)).fit(data, labels).distances(queries)

    assert audit_epsilon(careless, x, other, 0.0, 400, CONFIDENCE, random_state=0).contradicts(3.0)


# --- moments of whole records -----------------------------------------------------------------------------

OTHERS = np.random.default_rng(0).uniform(-0.3, 0.3, size=(12, 2))
LABELS = np.repeat([0, 1], 6)


def released(moments: PrivateMoments) -> np.ndarray:
    parts = moments.counts_, moments.sums_, moments.second_moments_, moments.centre_
    return np.concatenate([np.ravel(part) for part in parts])


def audit_moments(epsilon: float, neighbours: str, n_trials: int) -> EpsilonAudit:
    """The datasets are named by a flag: a record at the edge of the ball is added, or replaced by another."""

    def release(flag: np.ndarray, rng: Any) -> np.ndarray:
        record, label = np.array([[1.0, 0.0]]), 0
        if neighbours == "replace" and flag[0]:
            record, label = np.array([[-1.0, 0.0]]), 1
        keep = 1 if neighbours == "replace" or flag[0] else 0
        X, y = np.concatenate([OTHERS, record[:keep]]), np.append(LABELS, [label] * keep)
        model = PrivateMoments(
            epsilon, 1e-5, classes=[0, 1], centre=None, neighbours=neighbours, random_state=rng
        )
        return released(model.fit(X, y))

    return audit_epsilon(release, [0.0], [1.0], 1e-5, n_trials, CONFIDENCE, unit="unchecked", random_state=0)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_moments_are_accepted_for_a_record(neighbours: str) -> None:
    # Gaussian noise shows its epsilon only in the tails: a few thousand releases see a fraction of it.
    assert 0.3 < audit_moments(4.0, neighbours, 3000).epsilon_lower <= 4.0


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_moments_with_too_little_noise_are_contradicted(neighbours: str) -> None:
    assert audit_moments(12.0, neighbours, 2000).contradicts(1.5)
