"""Deep Takagi-Sugeno fuzzy models and the autoencoders made of them (003 Sec. 2.2)."""

from onefold.models.fuzzy._estimator import DeepFuzzyAutoencoder, DeepFuzzyModel, WideFuzzyAutoencoder
from onefold.models.fuzzy._rules import Explanation, FuzzyRules

__all__ = [
    "DeepFuzzyAutoencoder",
    "DeepFuzzyModel",
    "Explanation",
    "FuzzyRules",
    "WideFuzzyAutoencoder",
]
