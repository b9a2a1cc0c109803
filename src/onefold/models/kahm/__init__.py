"""Kernel affine hull machines (000 Sec. 3-4, 004 App. A)."""

from onefold.models.kahm.core import Smoothing, smooth
from onefold.models.kahm.estimator import KAHM, DeepKAHM, WideKAHM

__all__ = ["KAHM", "DeepKAHM", "Smoothing", "WideKAHM", "smooth"]
