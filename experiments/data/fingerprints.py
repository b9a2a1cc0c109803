"""Which data the stored results were measured on: shape, type, SHA-256, mean and deviation of every array.

Archives of equal arrays may differ in their bytes, so the arrays are compared and not the files.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent
FILE = FOLDER / "fingerprints.json"
_CLOSE = 0.02  # of the deviation: features of another processor or version of the encoder

Fingerprint = dict[str, Any]


def sources() -> dict[str, dict[str, Any]]:
    """What can be fetched, by name of the file."""
    return tomllib.loads((FOLDER / "sources.toml").read_text(encoding="utf-8"))


def stored() -> dict[str, dict[str, Fingerprint]]:
    """File -> array -> fingerprint."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def of_array(values: NDArray[Any]) -> Fingerprint:
    """Everything that is kept about an array."""
    values = np.ascontiguousarray(values)
    # Text arrays of equal words may be of different width: the words count.
    content = "\n".join(map(str, values.ravel())).encode() if values.dtype.kind == "U" else values.tobytes()
    found: Fingerprint = {
        "dtype": "text" if values.dtype.kind == "U" else str(values.dtype),
        "shape": list(values.shape),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if values.dtype.kind in "fiu":
        numbers = values.astype(np.float64)
        found |= {"mean": float(f"{np.nanmean(numbers):.6g}"), "std": float(f"{np.nanstd(numbers):.6g}")}
    return found


def of_file(path: Path) -> dict[str, Fingerprint]:
    """Of every array of a .npz file, or of the text of a .json.gz file."""
    if path.name.endswith(".json.gz"):
        content = json.loads(gzip.decompress(path.read_bytes()))
        text = json.dumps(content, sort_keys=True).encode()
        return {"content": {"dtype": "json", "shape": [], "sha256": hashlib.sha256(text).hexdigest()}}
    with np.load(path, allow_pickle=False) as arrays:
        return {name: of_array(arrays[name]) for name in sorted(arrays.files)}


def verdict(folder: Path, name: str) -> str:
    """One line about a file: identical, close, different, or not there."""
    path = next((p for p in (folder / f"{name}.npz", folder / f"{name}.json.gz") if p.is_file()), None)
    if path is None:
        return f"{name}: not there"
    known = stored().get(name)
    if known is None:
        return f"{name}: nothing is known to compare it with"
    found = of_file(path)
    if set(found) != set(known):
        return f"{name}: differs, it has other arrays"
    changed = [key for key in known if found[key]["sha256"] != known[key]["sha256"]]
    if not changed:
        return f"{name}: identical to what was measured on"
    far = [key for key in changed if not _is_close(found[key], known[key])]
    if far:
        return f"{name}: differs in {', '.join(far)}"
    return f"{name}: close to what was measured on, in {', '.join(changed)} not to the last digit"


def _is_close(one: Fingerprint, other: Fingerprint) -> bool:
    if one["shape"] != other["shape"] or "mean" not in one or "mean" not in other:
        return False
    unit = _CLOSE * max(other["std"], 1e-12)
    return abs(one["mean"] - other["mean"]) <= unit and abs(one["std"] - other["std"]) <= unit
