"""Noise, one family per file."""

from onefold.privacy.mechanisms.bounded_fisher import BoundedFisherNoise
from onefold.privacy.mechanisms.fisher import FisherGaussian
from onefold.privacy.mechanisms.gaussian import AnalyticGaussian, Gaussian
from onefold.privacy.mechanisms.labels import RandomisedLabels
from onefold.privacy.mechanisms.laplace import Laplace, OptimalNoise
from onefold.privacy.mechanisms.mechanism import Mechanism

__all__ = [
    "AnalyticGaussian",
    "BoundedFisherNoise",
    "FisherGaussian",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "OptimalNoise",
    "RandomisedLabels",
]
