"""Records as a forger would change them: header and arrays at will, with the checksum made right."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load

from onefold._base.records import METADATA, SUM_LENGTH
from reference.hostile import record_of

__all__ = ["forged", "opened", "with_array"]


def opened(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a record."""
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8:end])["__metadata__"][METADATA][SUM_LENGTH:]), load(content)


def forged(content: bytes, change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> bytes:
    """The record after ``change(header, arrays)``; the fields of the record are in the header."""
    header, arrays = opened(content)
    change(header, arrays)
    return record_of(json.dumps(header), {name: np.ascontiguousarray(each) for name, each in arrays.items()})


def with_array(content: bytes, ending: str, change: Callable[[np.ndarray], Any]) -> bytes:
    """The record with the array changed whose name ends so; there is one, or the first is taken."""

    def change_one(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        name = sorted(name for name in arrays if name.endswith(ending))[0]
        arrays[name] = np.asarray(change(arrays[name]))

    return forged(content, change_one)
