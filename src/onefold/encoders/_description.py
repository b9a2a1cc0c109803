"""Encoders in words, so that a release can say what its records went through."""

from typing import Any

__all__ = ["description"]


def description(encoder: Any) -> str:
    """An encoder in words that are the same for every owner with the same parameters; none is ``""``.

    Examples
    --------
    >>> from onefold.encoders import RandomFeatures
    >>> description(RandomFeatures(64)) == description(RandomFeatures(64, random_state=1))
    False
    """
    if encoder is None:
        return ""
    kind, given = type(encoder), sorted(encoder.get_params().items())
    return f"{kind.__module__}.{kind.__qualname__}({', '.join(f'{name}={value!r}' for name, value in given)})"
