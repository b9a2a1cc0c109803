"""Datasets that come with the package or lie in a local folder, and ways to spread rows over owners."""

from onefold.datasets._dataset import Dataset
from onefold.datasets._load import load, names
from onefold.datasets._partition import long_tail, partition
from onefold.datasets._split import train_test_split

__all__ = ["Dataset", "load", "long_tail", "names", "partition", "train_test_split"]
