"""Noise with a stated guarantee, what it takes, what it promises, and a ledger of what was spent."""

from onefold.privacy import calibration, domains
from onefold.privacy.composition import Event
from onefold.privacy.contract import domain_of
from onefold.privacy.domains import Ball, Box
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import Ledger, charge
from onefold.privacy.mechanisms import (
    AnalyticGaussian,
    BoundedFisherNoise,
    FisherGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    OptimalNoise,
    RandomisedLabels,
)
from onefold.privacy.moments import PrivateMoments

__all__ = [
    "AnalyticGaussian",
    "Ball",
    "BoundedFisherNoise",
    "Box",
    "Event",
    "FisherGaussian",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "Ledger",
    "Mechanism",
    "OptimalNoise",
    "PrivateMoments",
    "RandomisedLabels",
    "calibration",
    "charge",
    "domain_of",
    "domains",
]
