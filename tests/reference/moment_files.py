"""Files of private moments as a forger would change them: fields and arrays at will, with right checksums."""

import json
from typing import Any

import numpy as np

from onefold._base.records import pack, unpack

__all__ = ["changed_moments", "parts_of_moments"]

KIND = "private moments"
PLACE = "model/fitted/"  # of an array in the file


def parts_of_moments(packed: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Fields and arrays of a file, by short names: half of the second moments are ``triangles``."""
    about, arrays = _parts(packed)
    fields = {_short(name): value for name, value in about["model"]["fitted"].items()}
    fields["guarantee"] = fields["guarantee"]["parameters"]
    return fields, {_short(name.removeprefix(PLACE)): array for name, array in arrays.items()}


def changed_moments(packed: bytes, fields: Any = None, kind: str = KIND, **arrays: np.ndarray) -> bytes:
    """The file with some of its fields and arrays replaced."""
    about, contents = _parts(packed)
    fitted = about["model"]["fitted"]
    names = {_short(name): name for name in fitted}
    for name, value in (fields or {}).items():
        if name == "guarantee" and isinstance(value, dict):
            fitted["guarantee_"]["parameters"] |= value
        else:
            fitted[names.get(name, name)] = value
    return pack(kind, 1, about, contents | {PLACE + names.get(name, name): arrays[name] for name in arrays})


def _parts(packed: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    text, arrays = unpack(packed, KIND, 1)
    return json.loads(text), arrays


def _short(name: str) -> str:
    return "triangles" if name == "second_moments_" else name.rstrip("_")
