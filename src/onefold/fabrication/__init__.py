"""Private synthetic data and models fitted to it: noise, then smoothing; noisy moments; noisy tables."""

from onefold import io
from onefold.fabrication.counts import TableCounts
from onefold.fabrication.fabricator import Fabricator, PrivateClassifier
from onefold.fabrication.moment_regressor import MomentRegressor
from onefold.fabrication.moments import MomentClassifier, MomentFabricator
from onefold.fabrication.smoother import Smoother
from onefold.fabrication.synthesizer import TableSynthesizer
from onefold.fabrication.synthetic_rows import TableQuality, mock_table

__all__ = [
    "Fabricator",
    "MomentClassifier",
    "MomentFabricator",
    "MomentRegressor",
    "PrivateClassifier",
    "Smoother",
    "TableCounts",
    "TableQuality",
    "TableSynthesizer",
    "mock_table",
]

for kind in (MomentClassifier, MomentRegressor, TableCounts, TableSynthesizer):
    io.register(kind.__name__, kind)
