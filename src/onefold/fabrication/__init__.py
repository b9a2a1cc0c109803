"""Private synthetic data and classifiers fitted to it: noise, then smoothing; or noisy moments."""

from onefold.fabrication.fabricator import Fabricator, PrivateClassifier
from onefold.fabrication.moments import MomentClassifier, MomentFabricator
from onefold.fabrication.smoother import Smoother

__all__ = ["Fabricator", "MomentClassifier", "MomentFabricator", "PrivateClassifier", "Smoother"]
