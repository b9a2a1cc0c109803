"""What all seeds share: the patched modules, the models, and the files of a new federation."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from onefold.federated import LocalModel, joined_server
from onefold.federated.flower import Federation, keeping, site_app
from onefold.federated.flower.folders import SITE_VARIABLE, ServerFolder
from onefold.federated.flower.registry import Registry

from . import fitted
from .clock import Clock, begin, simulated

NAMES = ("north", "south", "west")


@contextmanager
def ready() -> Iterator[None]:
    """Everything that seeds share: the patched modules, and the models."""
    old = joined_server.N_DIRECTIONS, site_app._model, LocalModel.load, LocalModel.load_untrusted
    version = keeping._version
    joined_server.N_DIRECTIONS = 4
    variable = os.environ.get(SITE_VARIABLE)
    with simulated():
        begin(Clock(), random.Random(0), lambda seconds: None)
        fitted.prepare()
        templates()
        # What a file holds is decided by its bytes: each content is read once. The process of its own, in
        # which the server tries a model, is not simulated.
        LocalModel.load = LocalModel.load_untrusted = staticmethod(_load)  # type: ignore[assignment,method-assign]
        site_app._model = lru_cache(maxsize=8)(old[1].__wrapped__)
        keeping._version = lru_cache(version)
        try:
            yield
        finally:
            joined_server.N_DIRECTIONS, site_app._model = old[:2]
            keeping._version = version
            LocalModel.load, LocalModel.load_untrusted = old[2:]  # type: ignore[method-assign]
            os.environ.pop(SITE_VARIABLE, None)
            if variable is not None:
                os.environ[SITE_VARIABLE] = variable


REAL_LOAD = LocalModel.load
_LOADED: dict[bytes, LocalModel] = {}


def _load(path: Any) -> LocalModel:
    content = Path(path).read_bytes() if Path(path).is_file() else b""
    if content not in _LOADED:
        _LOADED[content] = REAL_LOAD(path)
    return _LOADED[content]


@lru_cache(maxsize=1)
def templates() -> dict[tuple[str, bool], dict[str, bytes]]:
    """Files of a new federation, by mode and by whether it is a plaintext one."""
    made = {}
    for mode in ("query", "model"):
        for insecure in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder) / "f"
                Federation.create(root, NAMES, host="127.0.0.1", insecure=insecure, mode=mode)
                registry = Registry(ServerFolder(root / "server"))
                keys = {name: entry.public_key for name, entry in registry.sites.items()}
                registry.store.path.unlink()
                found = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"]
                files = {str(path.relative_to(root)): path.read_bytes() for path in found}
                made[mode, insecure] = files | {f"keys/{name}": key.encode() for name, key in keys.items()}
    return made
