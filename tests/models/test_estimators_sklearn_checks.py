"""scikit-learn's own conformance checks on every estimator."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import (
    KAHM,
    AutoencoderClassifier,
    DeepFuzzyAutoencoder,
    DeepFuzzyModel,
    DeepKAHM,
    DeepMembershipAutoencoder,
    FoldingClassifier,
    MembershipMapping,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
)

ESTIMATORS = [
    KAHM(),
    DeepKAHM(),
    WideKAHM(),
    MembershipMapping(),
    DeepMembershipAutoencoder(),
    WideMembershipAutoencoder(),
    DeepFuzzyModel(),
    DeepFuzzyAutoencoder(),
    WideFuzzyAutoencoder(),
    AutoencoderClassifier(),
    FoldingClassifier(),
]
VARIANTS = [
    WideKAHM(n_components=2, n_layers=2, branch_size=10, random_state=0),
    DeepKAHM(scale="auto"),
    AutoencoderClassifier(KAHM(n_components=3), measure="rms"),
    FoldingClassifier(n_components=2, batch_size=5, measure="max"),
    WideMembershipAutoencoder(n_components=2, n_layers=2, branch_size=10, random_state=0),
    AutoencoderClassifier(DeepMembershipAutoencoder(n_components=3, n_layers=2), measure="rms"),
    WideFuzzyAutoencoder(n_components=2, n_layers=2, branch_size=10, random_state=0),
    DeepFuzzyModel(width=0.2, scale=None),
    AutoencoderClassifier(DeepFuzzyAutoencoder(n_components=3), measure="fuzzy"),
]


def expected_failures(estimator: Any) -> dict[str, str]:
    """Check name to reason; empty because none is needed."""
    return {}


@pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_estimator_passes_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")
@parametrize_with_checks(VARIANTS, expected_failed_checks=expected_failures)
def test_variants_pass_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
