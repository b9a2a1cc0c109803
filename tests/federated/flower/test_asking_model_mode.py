"""Model mode, and plaintext on this machine: private models travel once, the server answers alone."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.flower.registry import Status
from reference.forging import opened
from reference.site_files import model_file

pytestmark = pytest.mark.nightly


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


@pytest.fixture
def copied(gathered: Any, tmp_path: Path) -> Any:
    """The same federation in folders of its own, to be changed."""
    shutil.copytree(gathered.root, tmp_path / "f")
    return replace(gathered, root=tmp_path / "f")


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
    refused = gathered.run("query", gathered.test_file)
    assert refused.returncode == 2
    assert "north answer(s) with noise and west without" in refused.stderr
    told = gathered.query("--out", tmp_path / "out.npz", "--measures", "--mix")
    assert (told["code"], told["answered"], told["partial"]) == (0, ["north", "west"], False)
    expected = GlobalClassifier()
    for name in ("north", "west"):
        expected.add(name, LocalModel.load(model_file(gathered.site(name))))
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["measures"], expected.measures(gathered.X_test))


def rows_within(path: Path) -> np.ndarray:
    """The rows a model file holds: centred ones and their mean, in a unit."""
    header, arrays = opened(path.read_bytes())
    pool = header["fields"]["model"]["fitted"]["pool_"]
    (hull,) = (stack["hull"] for stack in pool["stacks"])
    centred, mean = (arrays[hull[name]["array"]] for name in ("centred", "mean"))
    return (centred + mean[:, np.newaxis]).reshape(-1, 3) * pool["unit"]


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


def test_model_at_the_server_is_the_file_at_the_site(gathered: Any) -> None:
    for name in ("north", "west"):
        content = model_file(gathered.site(name)).read_bytes()
        assert (gathered.server.models / f"{name}.onefold").read_bytes() == content
        assert hashlib.sha256(content).hexdigest() == gathered.registry.sites[name].profile.model_digest


def test_remove_deletes_the_model_of_the_site(copied: Any) -> None:
    assert copied.run("remove", "west").returncode == 0
    assert [path.name for path in copied.server.models.iterdir()] == ["north.onefold"]
    told = copied.query()
    assert told["answered"] == ["north"]
    alone = LocalModel.load(model_file(copied.site("north")))
    best = alone.classes_[alone.answers(copied.X_test).argmin(axis=1)]
    assert told["labels"] == best.tolist()


def test_damaged_model_makes_the_result_partial(copied: Any) -> None:
    path = copied.server.models / "north.onefold"
    path.write_bytes(path.read_bytes()[:-100])
    told = copied.query("--mix")
    assert (told["code"], told["partial"], told["refused"]) == (3, True, {"north": "not-ready"})
    assert copied.run("remove", "west").returncode == 0
    done = copied.run("query", copied.test_file, "--label", "y", "--json")
    assert done.returncode == 1
    assert "north not-ready" in done.stderr
