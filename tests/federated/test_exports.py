"""The names that the room exports."""

from __future__ import annotations

import importlib

from onefold import federated


def test_simulate_is_the_function_and_not_its_module() -> None:
    assert callable(federated.simulate)
    assert federated.simulate is importlib.import_module("onefold.federated.simulate").simulate
