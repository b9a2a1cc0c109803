"""Fixed encoders in files: their name and parameters, never their state."""

from typing import Any, cast

import numpy as np
from sklearn.base import clone

from onefold import encoders
from onefold.encoders import Encoder
from onefold.exceptions import FileFormatError, InvalidInputError

__all__ = ["describe_encoder", "fitted_encoder", "restore_encoder"]

KNOWN: dict[str, type[Encoder]] = {
    kind.__name__: kind
    for kind in (encoders.GradientHistograms, encoders.LowFrequencyDCT, encoders.RandomFeatures)
}


def describe_encoder(encoder: Any) -> dict[str, Any] | None:
    """Name, parameters and width of a fitted encoder, as JSON; None for none."""
    if encoder is None:
        return None
    if KNOWN.get(type(encoder).__name__) is not type(encoder):
        known = ", ".join(sorted(KNOWN))
        raise InvalidInputError(f"only an encoder that is fixed can be saved: one of {known}")
    return {
        "class": type(encoder).__name__,
        "parameters": encoder.get_params(deep=False),
        "n_features": int(encoder.n_features_in_),
    }


def restore_encoder(description: Any) -> Encoder | None:
    """The encoder that was described, ready for use."""
    if description is None:
        return None
    try:
        kind, given = KNOWN[description["class"]], description["parameters"]
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return fitted_encoder(kind(**plain), int(description["n_features"]))
    except (KeyError, TypeError, ValueError, AttributeError, MemoryError):
        raise FileFormatError("it names an encoder this version does not know") from None


def fitted_encoder(encoder: Any, n_features: int) -> Encoder:
    """A fixed encoder prepared for rows of this length; it looks at no values."""
    return cast(Encoder, clone(encoder).fit(np.zeros((1, n_features))))
