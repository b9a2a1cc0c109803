"""Autoencoders of one set of samples, and the classifiers made of them."""

from onefold.models.classify import AutoencoderClassifier, ClassModels, FoldingClassifier
from onefold.models.clusters import branch_count, consecutive, split
from onefold.models.compose import Autoencoder
from onefold.models.folding import JOINED, MAXIMA, MEASURES, check_measure, maximum_of
from onefold.models.fuzzy import DeepFuzzyAutoencoder, DeepFuzzyModel, WideFuzzyAutoencoder
from onefold.models.kahm import KAHM, DeepKAHM, WideKAHM
from onefold.models.membership import (
    DeepMembershipAutoencoder,
    MembershipMapping,
    WideMembershipAutoencoder,
)
from onefold.models.pool import StackMemory
from onefold.models.preparation import ColumnSpread, Preparation, find_preparation
from onefold.models.reasons import ClassReasons, ColumnReason, NumberReasons, explain, explain_numbers
from onefold.models.regress import FoldingRegressor

__all__ = [
    "JOINED",
    "KAHM",
    "MAXIMA",
    "MEASURES",
    "Autoencoder",
    "AutoencoderClassifier",
    "ClassModels",
    "ClassReasons",
    "ColumnReason",
    "ColumnSpread",
    "DeepFuzzyAutoencoder",
    "DeepFuzzyModel",
    "DeepKAHM",
    "DeepMembershipAutoencoder",
    "FoldingClassifier",
    "FoldingRegressor",
    "MembershipMapping",
    "NumberReasons",
    "Preparation",
    "StackMemory",
    "WideFuzzyAutoencoder",
    "WideKAHM",
    "WideMembershipAutoencoder",
    "branch_count",
    "check_measure",
    "consecutive",
    "explain",
    "explain_numbers",
    "find_preparation",
    "maximum_of",
    "split",
]
