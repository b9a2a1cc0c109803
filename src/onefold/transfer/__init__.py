"""Learning with few labels from a source that stays private (001 Sec. 4.2, 003 Sec. 3)."""

from onefold import io
from onefold.transfer.classifier import TransferClassifier
from onefold.transfer.source import PrivateSource

__all__ = ["PrivateSource", "TransferClassifier"]

for kind in (PrivateSource, TransferClassifier):
    io.register(kind.__name__, kind)
