"""Kernel affine hull machines (000 Sec. 3-4, 004 App. A)."""

from onefold.models.kahm._core import Smoothing, smooth
from onefold.models.kahm._estimator import KAHM, DeepKAHM, WideKAHM

__all__ = ["KAHM", "DeepKAHM", "Smoothing", "WideKAHM", "smooth"]
