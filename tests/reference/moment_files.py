"""Files of private moments as a forger would change them: fields and arrays at will, with right checksums."""

import json
from typing import Any

import numpy as np

from onefold._base.records import pack, unpack

__all__ = ["changed_moments", "parts_of_moments"]

KIND = "private moments"


def parts_of_moments(packed: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Fields and arrays of a file."""
    text, arrays = unpack(packed, KIND, 1)
    return json.loads(text), arrays


def changed_moments(packed: bytes, fields: Any = None, kind: str = KIND, **arrays: np.ndarray) -> bytes:
    """The file with some of its fields and arrays replaced."""
    about, contents = parts_of_moments(packed)
    for name, value in (fields or {}).items():
        about[name] = {**about[name], **value} if isinstance(value, dict) else value
    return pack(kind, 1, about, {**contents, **arrays})
