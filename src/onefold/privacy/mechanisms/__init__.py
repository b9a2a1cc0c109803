"""Noise on entries, on rows and on labels."""

from onefold.privacy.mechanisms.entries import AnalyticGaussian, Gaussian, Laplace, OptimalNoise
from onefold.privacy.mechanisms.fisher import BoundedFisherNoise, FisherGaussian
from onefold.privacy.mechanisms.labels import RandomisedLabels
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
