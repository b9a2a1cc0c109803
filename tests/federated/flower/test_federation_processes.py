"""The Python interface with Flower's real processes on this machine, over TLS with node keys."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.exceptions import FederationError
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.flower import Federation, Site
from onefold.federated.flower.processes import free_port
from reference.site_files import model_file

pytestmark = pytest.mark.nightly

NAMES = ("north", "south")
PATIENCE = 400.0


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n_rows) % 2
    return np.random.default_rng(seed).random((n_rows, 3)) * 0.3 + 0.6 * y[:, None], y


X, Y = make_rows(20, 9)


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, processes_below: Any, wait_for: Any
) -> Iterator[tuple[Federation, dict[str, Site]]]:
    """A server and two sites in the background of this process."""
    root = tmp_path_factory.mktemp("python") / "f"
    with Federation.create(root, NAMES, port=free_port(), approval="anyone") as federation:
        federation.start()
        sites = {name: Site(root / "sites" / name) for name in NAMES}
        try:
            for number, site in enumerate(sites.values()):
                site.fit(*make_rows(60, number)).configure(per_minute=10**6).start()
            federation.wait_for(NAMES, PATIENCE)
            yield federation, sites
        finally:
            for site in sites.values():
                site.stop()
    wait_for(lambda: not processes_below(root), "all processes to end")
    with pytest.raises(FederationError, match="not running"):
        federation.query(X)


def in_one_process(sites: dict[str, Site], *names: str) -> GlobalClassifier:
    classifier = GlobalClassifier()
    for name in names:
        classifier.add(name, LocalModel.load(model_file(sites[name].folder)))
    return classifier


def test_query_of_running_sites_is_what_one_process_would_predict(
    running: tuple[Federation, dict[str, Site]],
) -> None:
    federation, sites = running
    result = federation.query(X, timeout=PATIENCE)
    expected = in_one_process(sites, *NAMES)
    np.testing.assert_array_equal(result.predictions, expected.predict(X))
    np.testing.assert_allclose(result.measures, expected.measures(X), rtol=1e-9)
    assert (result.answered, result.partial) == (NAMES, False)
    assert all(site.is_running for site in sites.values())
    assert [site.online for site in federation.status().sites] == [True, True]


def test_two_queries_at_once_from_threads(running: tuple[Federation, dict[str, Site]]) -> None:
    federation, sites = running
    expected = in_one_process(sites, *NAMES)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda rows: federation.query(rows, timeout=PATIENCE), (X[:7], X[7:])))
    np.testing.assert_array_equal(np.concatenate([r.predictions for r in found]), expected.predict(X))


def test_another_process_asks_the_running_server(running: tuple[Federation, dict[str, Site]]) -> None:
    federation, _ = running
    script = (
        "import sys, numpy as np\n"
        "from onefold.federated.flower import Federation\n"
        "with Federation(sys.argv[1]) as fed:\n"
        "    result = fed.query(np.full((2, 3), 0.7), timeout=400)\n"
        "    print(result.predictions.tolist(), result.partial)\n"
    )
    command = [sys.executable, "-c", script, str(federation.folder.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 1] False\n"
    assert federation.is_running


def test_encrypted_query_of_running_sites(
    running: tuple[Federation, dict[str, Site]], tmp_path: Path
) -> None:
    pytest.importorskip("seal")
    federation, _ = running
    result = federation.query(X[:4], encrypted=True, keys=tmp_path / "keys", timeout=PATIENCE)
    assert result.predictions.tolist() == Y[:4].tolist()
    assert (result.answered, result.partial) == (NAMES, False)


def test_stopped_site_is_missing_and_a_started_one_is_back(
    running: tuple[Federation, dict[str, Site]], wait_for: Any
) -> None:
    federation, sites = running
    sites["south"].stop()
    wait_for(lambda: not federation.status().sites[1].online, "south to be offline")
    result = federation.query(X, timeout=300.0)
    assert (result.partial, result.missing, result.answered) == (True, ("south",), ("north",))
    sites["south"].start()
    federation.wait_for(NAMES, PATIENCE)
    assert federation.query(X, timeout=PATIENCE).partial is False


def test_second_server_on_the_same_port_does_not_start(running: tuple[Federation, dict[str, Site]]) -> None:
    federation, _ = running
    with pytest.raises(FederationError, match="already"):
        federation.start()
    with pytest.raises(FederationError, match=r"port \d+ is in use"):
        Federation(federation.folder.root).start()
