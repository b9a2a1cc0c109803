"""One federation object for many queries: what it keeps in memory, and when it reads or forgets it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from onefold.exceptions import FederationError
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.flower import Federation, asking
from onefold.federated.flower.registry import Registry

NAMES = ("north", "south")


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n_rows) % 2
    return np.random.default_rng(seed).random((n_rows, 3)) * 0.3 + 0.6 * y[:, None], y


X = make_rows(20, 9)[0]


def send(federation: Federation, name: str, seed: int) -> LocalModel:
    """What the server does when a site sends its model."""
    model = LocalModel().fit(*make_rows(40, seed))
    model.save(federation.folder.models / f"{name}.onefold", with_rows=False)
    Registry(federation.folder).admit(name, model.profile(name))
    return model


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read."""
    found: list[str] = []
    original = LocalModel.load

    def load(path: Path) -> LocalModel:
        found.append(path.stem)
        return original(path)

    monkeypatch.setattr(asking.LocalModel, "load", load)
    return found


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    made = Federation.create(tmp_path / "f", NAMES, mode="model", insecure=True)
    made.folder.prepare()
    return made


def in_one_process(models: dict[str, LocalModel]) -> Any:
    classifier = GlobalClassifier()
    for name, model in models.items():
        classifier.add(name, model)
    return classifier.measures(X)


def test_models_are_read_once_for_many_queries_from_many_threads(
    federation: Federation, read: list[str]
) -> None:
    models = {name: send(federation, name, number) for number, name in enumerate(NAMES)}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: federation.query(X).measures, range(12)))
    for measures in found:
        np.testing.assert_array_equal(measures, in_one_process(models))
    assert sorted(read) == list(NAMES)


def test_model_that_was_sent_again_is_read_again(federation: Federation, read: list[str]) -> None:
    models = {name: send(federation, name, number) for number, name in enumerate(NAMES)}
    federation.query(X)
    models["south"] = send(federation, "south", 7)
    np.testing.assert_array_equal(federation.query(X).measures, in_one_process(models))
    assert sorted(read) == ["north", "south", "south"]


def test_nothing_stays_of_a_removed_site_or_after_the_with_block(
    federation: Federation, read: list[str]
) -> None:
    models = {name: send(federation, name, number) for number, name in enumerate(NAMES)}
    with federation:
        federation.query(X)
        federation.remove("south")
        result = federation.query(X)
        assert (result.answered, list(federation._loaded._kept["models"][1])) == (("north",), ["north"])
        np.testing.assert_array_equal(result.measures, in_one_process({"north": models["north"]}))
    assert federation._loaded._kept == {}
    federation.query(X)
    assert read.count("north") == 2


def test_damaged_file_is_noticed_though_the_model_is_in_memory(federation: Federation) -> None:
    for number, name in enumerate(NAMES):
        send(federation, name, number)
    federation.query(X)
    for name in NAMES:
        (federation.folder.models / f"{name}.onefold").write_bytes(b"no model")
    with pytest.raises(FederationError, match="north not-ready, south not-ready"):
        federation.query(X)
