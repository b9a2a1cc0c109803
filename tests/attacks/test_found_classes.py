"""Classes that were not declared: how often one person's own ones are named, however many they are.

The assertions fail for a correct program with a probability below 1e-6.
"""

import numpy as np
import pytest
from scipy.stats import binom

from onefold.privacy.moments import PrivateMoments
from onefold.privacy.moments._release import CLASSES_SHARE

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("most, n_rare, runs", [(20, 20, 400), (2, 60, 200)], ids=["all rows", "limited"])
def test_classes_of_one_person_are_named_as_seldom_as_delta_says(most: int, n_rare: int, runs: int) -> None:
    """Whoever is alone in many classes has as many chances to be named, and the same delta for all.

    Rows beyond the limit would be further chances. It is here that the limit matters: sums weigh the rows of
    a person so that all of them together count as one.
    """
    epsilon, delta, n_common = 0.02, 0.6, 400
    person = np.concatenate([np.arange(n_common), np.full(n_rare, n_common)])
    labels = np.array(["common"] * n_common + [f"rare {number}" for number in range(n_rare)])
    rows = np.ones((len(labels), 1))
    named = 0
    for _ in range(runs):
        release = PrivateMoments(epsilon, delta, centre=None, rows_per_person=most).fit(rows, labels, person)
        named += len(release.classes_) > 1
    share = CLASSES_SHARE * delta
    assert named <= binom.isf(FALSE_ALARM, runs, share)
    assert named >= binom.ppf(FALSE_ALARM, runs, share / 4)
