"""The documents' theorems as pure functions: one per statement, numbers in, a number out.

:mod:`onefold.bounds.geometry` holds the bounds on images and distances (document 000) and
:mod:`onefold.bounds.learning` the error bounds of the learning problem (document 004), with functions that
tell when a bound is informative, and the bound from rows held out that is informative at any size;
:mod:`onefold.bounds.solution` holds the kernel and the solution that they are about;
:mod:`onefold.bounds.utility` bounds how far a model moves with released noise (document 002).
Some of the documents' statements need conditions they do not name: each docstring gives the condition in a
*Holds* line, and the tests show the failure without it.
"""

from onefold.bounds.geometry import (
    distance_ratio_bound,
    image_norm_bound,
    loose_distance_ratio_bound,
    loose_image_norm_bound,
    wide_distance_ratio_bound,
)
from onefold.bounds.learning import (
    direct_risk_bound,
    folding_posterior_error_bound,
    held_out_error_bound,
    hypothesis_posterior_error_bound,
    hypothesis_prediction_error_bound,
    is_informative,
    posterior_error_bound,
    prediction_error_bound,
    rademacher_bound,
    risk_bound,
    rkhs_risk_bound,
    smallest_informative_sample,
)
from onefold.bounds.solution import feature_kernel, learned_solution, rkhs_solution
from onefold.bounds.utility import loss_utility_bound, ridge_lipschitz_constant, svm_utility_bound

__all__ = [
    "direct_risk_bound",
    "distance_ratio_bound",
    "feature_kernel",
    "folding_posterior_error_bound",
    "held_out_error_bound",
    "hypothesis_posterior_error_bound",
    "hypothesis_prediction_error_bound",
    "image_norm_bound",
    "is_informative",
    "learned_solution",
    "loose_distance_ratio_bound",
    "loose_image_norm_bound",
    "loss_utility_bound",
    "posterior_error_bound",
    "prediction_error_bound",
    "rademacher_bound",
    "ridge_lipschitz_constant",
    "risk_bound",
    "rkhs_risk_bound",
    "rkhs_solution",
    "smallest_informative_sample",
    "svm_utility_bound",
    "wide_distance_ratio_bound",
]
