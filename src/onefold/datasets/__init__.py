"""Datasets that come with the package or lie in a local folder, and ways to spread rows over sites."""

from onefold.datasets.loading import Dataset, load, names
from onefold.datasets.splitting import long_tail, partition, train_test_split
from onefold.datasets.windows import artefacts, rr_windows

__all__ = [
    "Dataset",
    "artefacts",
    "load",
    "long_tail",
    "names",
    "partition",
    "rr_windows",
    "train_test_split",
]
