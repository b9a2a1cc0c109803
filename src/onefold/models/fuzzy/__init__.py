"""Deep Takagi-Sugeno fuzzy models and the autoencoders made of them (003 Sec. 2.2)."""

from onefold.models.fuzzy.estimator import (
    DeepFuzzyAutoencoder,
    DeepFuzzyModel,
    Explanation,
    FuzzyRules,
    WideFuzzyAutoencoder,
)

__all__ = [
    "DeepFuzzyAutoencoder",
    "DeepFuzzyModel",
    "Explanation",
    "FuzzyRules",
    "WideFuzzyAutoencoder",
]
