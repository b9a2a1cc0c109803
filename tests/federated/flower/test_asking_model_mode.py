"""Model mode, and plaintext on this machine: private models travel once, the server answers alone."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.flower.registry import Status

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gathered(
    tmp_path_factory: pytest.TempPathFactory, make_federation: Callable[..., Any], wait_for: Any
) -> Any:
    """A federation that has collected its models and then stopped for good."""
    made = make_federation(tmp_path_factory.mktemp("model") / "f", "--mode", "model", "--insecure")
    options = {
        "north": ("--epsilon", 8, "--range", -1, 2, "--send-model"),
        "south": ("--send-model",),  # raw rows: not to be sent
        "west": ("--send-raw-model",),
    }
    try:
        made.start("server")
        for name, own in options.items():
            made.start(name, "--data", made.root / f"{name}.npz", "--label", "y", *own)
        wait_for(lambda: set(made.registry.members) == {"north", "west"}, "two models")
        wait_for(lambda: made.registry.sites["south"].status is Status.REFUSED, "south to be kept out")
    finally:
        made.close()
    return made


def test_only_models_that_may_leave_are_at_the_server(gathered: Any) -> None:
    assert gathered.registry.sites["south"].reason == "not-private"
    assert sorted(path.name for path in gathered.server.models.iterdir()) == ["north.onefold", "west.onefold"]
    assert "The model stays here: it has no guarantee that holds" in gathered.output("south")
    assert "RAW ROWS INCLUDED" in gathered.output("west")
    north = gathered.output("north")
    assert "epsilon 8 per entry" in north
    assert "NOT covered" in north
    assert north.index("epsilon 8 per entry") < north.index("connected")


def test_server_in_model_mode_answers_without_the_sites(gathered: Any, tmp_path: Any) -> None:
    told = gathered.query("--out", tmp_path / "out.npz", "--measures")
    assert (told["code"], told["answered"], told["partial"]) == (0, ["north", "west"], False)
    expected = GlobalClassifier()
    for name in ("north", "west"):
        expected.add(name, LocalModel.load(gathered.site(name).model))
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["measures"], expected.measures(gathered.X_test))


def rows_within(path: Path) -> np.ndarray:
    """The rows a model file holds: centred ones and their mean, in a unit."""
    with zipfile.ZipFile(path) as archive:
        pool = json.loads(archive.read("manifest.json"))["pool"]
        parts = [np.load(io.BytesIO(archive.read(f"stack0/{name}.npy"))) for name in ("centred", "mean")]
    centred, mean = parts
    return (centred + mean[:, None, :]).reshape(-1, 3) * pool["unit"]


def test_private_model_holds_no_raw_row(gathered: Any) -> None:
    def n_close(name: str) -> int:
        with np.load(gathered.root / f"{name}.npz") as own:
            within = rows_within(gathered.server.models / f"{name}.onefold")
            return sum(bool(np.isclose(within, row, atol=1e-6).all(axis=1).any()) for row in own["X"])

    assert n_close("north") == 0
    assert n_close("west") == 80  # the search finds raw rows where they are


def test_status_shows_which_models_are_private(gathered: Any) -> None:
    sites = {site["name"]: site for site in json.loads(gathered.run("status", "--json").stdout)["sites"]}
    assert sites["north"]["guarantee"]["unit"] == "entry"
    assert sites["west"]["guarantee"] is None
    text = gathered.run("status").stdout
    assert "epsilon 8 per entry, delta 1e-05, labels not covered" in text
    assert "NOT private" in text


def test_remove_deletes_the_model_of_the_site(gathered: Any) -> None:
    assert gathered.run("remove", "west").returncode == 0
    assert [path.name for path in gathered.server.models.iterdir()] == ["north.onefold"]
    told = gathered.query()
    assert told["answered"] == ["north"]
    alone = LocalModel.load(gathered.site("north").model)
    best = alone.classes_[alone.answers(gathered.X_test).argmin(axis=1)]
    assert told["labels"] == best.tolist()


def test_damaged_model_makes_the_result_partial(gathered: Any) -> None:
    path = gathered.server.models / "north.onefold"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    done = gathered.run("query", gathered.test_file, "--label", "y", "--json")
    path.write_bytes(whole)
    assert done.returncode == 1
    assert "north not-ready" in done.stderr
