"""Public, fixed feature maps: nothing about them is learned from data, so they cost no privacy budget.

Every encoder maps a record by itself and gives rows of Euclidean norm one (a record without any content stays
zero), which is the domain that :class:`onefold.privacy.PrivateMoments` asks for.
"""

from onefold.encoders._description import description
from onefold.encoders._encoder import Encoder
from onefold.encoders.cosine import LowFrequencyDCT
from onefold.encoders.gradients import GradientHistograms
from onefold.encoders.projections import RandomFeatures

__all__ = ["Encoder", "GradientHistograms", "LowFrequencyDCT", "RandomFeatures", "description"]
