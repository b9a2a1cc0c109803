"""Public, fixed feature maps: they learn nothing from data, so they cost no privacy budget.

Every encoder maps each record by itself to a row of Euclidean norm one (a record without any content stays
zero) or at most one, which is the domain that :class:`onefold.privacy.PrivateMoments` expects.
"""

from onefold.encoders._encoder import Encoder, description, learns
from onefold.encoders.cosine import LowFrequencyDCT
from onefold.encoders.gradients import GradientHistograms, WhitenedHistograms
from onefold.encoders.projections import FourierLift, RandomFeatures

__all__ = [
    "Encoder",
    "FourierLift",
    "GradientHistograms",
    "LowFrequencyDCT",
    "RandomFeatures",
    "WhitenedHistograms",
    "description",
    "learns",
]
