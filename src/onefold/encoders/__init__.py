"""Public, fixed feature maps: they learn nothing from data, so they cost no privacy budget.

Every encoder maps each record by itself to a row of Euclidean norm one (a record without any content stays
zero) or at most one, which is the domain that :class:`onefold.privacy.PrivateMoments` expects. Encoders that
users bring were trained somewhere: they cost no budget only if that was not on the protected records.
"""

from onefold.encoders.base import Encoder, condition, description, learns
from onefold.encoders.images import (
    ContrastHistograms,
    GradientHistograms,
    LowFrequencyDCT,
    WhitenedHistograms,
)
from onefold.encoders.onnx import OnnxEncoder, SentenceEncoder
from onefold.encoders.projections import FourierLift, RandomFeatures

__all__ = [
    "ContrastHistograms",
    "Encoder",
    "FourierLift",
    "GradientHistograms",
    "LowFrequencyDCT",
    "OnnxEncoder",
    "RandomFeatures",
    "SentenceEncoder",
    "WhitenedHistograms",
    "condition",
    "description",
    "learns",
]
