"""Keys that several tests use: made once, since that is most of the time a small test takes."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from onefold.federated.fhe import Client, Querier, Server


class Roles:
    """The three roles of one small setting."""

    def __init__(self, n_clients: int, n_classes: int, bits: int = 8) -> None:
        self.querier = Querier(n_clients, n_classes, bits)
        self.keys = self.querier.evaluation_keys()
        self.server = Server(self.keys)
        self.public = self.querier.public_key()

    def messages(self, values: np.ndarray, query_id: str = "q1") -> list:
        return [Client(self.public, f"c{i}").encrypt(each, query_id) for i, each in enumerate(values)]


@pytest.fixture(scope="session")
def seal() -> ModuleType:
    """The binding of SEAL; tests that need it are skipped where it is not installed."""
    return pytest.importorskip("seal")


@pytest.fixture(scope="session")
def small(seal) -> Roles:
    return Roles(3, 4)
