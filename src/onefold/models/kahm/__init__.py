"""Kernel affine hull machines (000 Sec. 3-4, 004 App. A)."""

from onefold.models.kahm._estimator import KAHM, DeepKAHM, WideKAHM
from onefold.models.kahm._smoothing import Smoothing, smooth

__all__ = ["KAHM", "DeepKAHM", "Smoothing", "WideKAHM", "smooth"]
