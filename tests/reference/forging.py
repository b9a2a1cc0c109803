"""Archives as a forger would change them: members and manifest at will, with every checksum made right."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["forged", "npy"]


def forged(content: bytes, change: Callable[[dict[str, bytes], dict[str, Any]], Any]) -> bytes:
    """The archive after ``change(members, manifest)``, members without the manifest and as bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "manifest.json"}
        manifest = json.loads(archive.read("manifest.json"))
    change(members, manifest)
    if isinstance(manifest.get("sums"), dict):
        right = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
        manifest["sums"] |= {name: right[name] for name in manifest["sums"] if name in right}
    text = json.dumps(manifest).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {**members, "manifest.json": text}.items():
            archive.writestr(name, data)
        archive.comment = hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def npy(array: Any) -> bytes:
    """The bytes of a ``.npy`` file."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=True)
    return out.getvalue()
