"""Private synthetic data and classifiers fitted to it: noise, then smoothing; noisy moments; noisy tables."""

from onefold import io
from onefold.fabrication.fabricator import Fabricator, PrivateClassifier
from onefold.fabrication.moment_fabricator import MomentFabricator
from onefold.fabrication.moments import CLASSIFIER, MomentClassifier
from onefold.fabrication.pair_tables import KIND, TableCounts
from onefold.fabrication.plan import mock_table
from onefold.fabrication.quality import TableQuality
from onefold.fabrication.smoother import Smoother
from onefold.fabrication.synthesizer import SYNTHESIZER, TableSynthesizer

__all__ = [
    "Fabricator",
    "MomentClassifier",
    "MomentFabricator",
    "PrivateClassifier",
    "Smoother",
    "TableCounts",
    "TableQuality",
    "TableSynthesizer",
    "mock_table",
]

io.register(CLASSIFIER, MomentClassifier)
io.register(KIND, TableCounts)
io.register(SYNTHESIZER, TableSynthesizer)
