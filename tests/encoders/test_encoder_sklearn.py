"""scikit-learn's own conformance checks on every encoder."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold.encoders import (
    ContrastHistograms,
    GradientHistograms,
    LowFrequencyDCT,
    RandomFeatures,
    WhitenedHistograms,
)

# Without an image shape a row is an image one pixel high, so rows of any length are accepted.
ESTIMATORS = [
    GradientHistograms(),
    ContrastHistograms(),
    WhitenedHistograms(),
    LowFrequencyDCT(n_coefficients=5),
    RandomFeatures(20),
    RandomFeatures(20, kind="fourier"),
    RandomFeatures(20, kind="projection"),
]


def expected_failures(estimator: Any) -> dict[str, str]:
    """Check name to reason; empty because none is needed."""
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
