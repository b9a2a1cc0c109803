"""Autoencoders of one set of samples, and the classifiers made of them."""

from onefold.models._autoencoder import Autoencoder
from onefold.models._folding import MEASURES, check_measure, maximum_of
from onefold.models._memory import StackMemory
from onefold.models._partition import branch_count, consecutive, split
from onefold.models.classify import AutoencoderClassifier, ClassModels, FoldingClassifier
from onefold.models.fuzzy import DeepFuzzyAutoencoder, DeepFuzzyModel, WideFuzzyAutoencoder
from onefold.models.kahm import KAHM, DeepKAHM, WideKAHM
from onefold.models.membership import (
    DeepMembershipAutoencoder,
    MembershipMapping,
    WideMembershipAutoencoder,
)

__all__ = [
    "KAHM",
    "MEASURES",
    "Autoencoder",
    "AutoencoderClassifier",
    "ClassModels",
    "DeepFuzzyAutoencoder",
    "DeepFuzzyModel",
    "DeepKAHM",
    "DeepMembershipAutoencoder",
    "FoldingClassifier",
    "MembershipMapping",
    "StackMemory",
    "WideFuzzyAutoencoder",
    "WideKAHM",
    "WideMembershipAutoencoder",
    "branch_count",
    "check_measure",
    "consecutive",
    "maximum_of",
    "split",
]
