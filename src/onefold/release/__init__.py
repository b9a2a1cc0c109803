"""Releasing a whole dataset with the least informative noise, so that others can learn from the rows."""

from onefold.release.choosing import (
    NOISES,
    Curve,
    Strength,
    bounded_lam,
    bounded_lam_of_epsilon,
    choose,
    sweep,
)
from onefold.release.releases import (
    Release,
    noise_bounds,
    release_bounded,
    release_iid,
    release_utility_preserving,
    weights_for,
)
from onefold.release.svm import RobustSVM
from onefold.release.tables import TableRelease, release_table

__all__ = [
    "NOISES",
    "Curve",
    "Release",
    "RobustSVM",
    "Strength",
    "TableRelease",
    "bounded_lam",
    "bounded_lam_of_epsilon",
    "choose",
    "noise_bounds",
    "release_bounded",
    "release_iid",
    "release_table",
    "release_utility_preserving",
    "sweep",
    "weights_for",
]
