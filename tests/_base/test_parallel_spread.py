"""Fitting on other processes and on a cluster gives the numbers of a fit in this process, to the last bit."""

import os
from collections.abc import Iterator

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold._base.parallel import run_spread

X, y = load_digits(return_X_y=True)
X = X / 16.0
MODELS = {
    "large machines": AutoencoderClassifier(WideKAHM(n_layers=3, branch_size=150, random_state=0)),
    "stacks of small machines": FoldingClassifier(batch_size=20, measure="rms"),
}


def where(samples: np.ndarray) -> tuple[int, float]:
    return os.getpid(), float(samples.sum())


@pytest.mark.exact
@pytest.mark.merge
@pytest.mark.parametrize("name", MODELS)
def test_processes_give_the_same_model(name: str) -> None:
    here = MODELS[name].fit(X, y).distances(X[:200])
    with joblib.parallel_config(backend="loky", n_jobs=2):
        spread = MODELS[name].fit(X, y)
    np.testing.assert_array_equal(spread.distances(X[:200]), here)


@pytest.fixture(scope="module")
def dask() -> Iterator[None]:
    """A cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        yield


@pytest.mark.exact
@pytest.mark.merge
@pytest.mark.parametrize("name", MODELS)
def test_a_dask_cluster_gives_the_same_model(name: str, dask: None) -> None:
    here = MODELS[name].fit(X, y).distances(X[:200])
    with joblib.parallel_config(backend="dask"):
        spread = MODELS[name].fit(X, y)
    np.testing.assert_array_equal(spread.distances(X[:200]), here)


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_ray_workers_give_the_same_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else Ray writes a token into the home directory
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.util.joblib").register_ray()
    here = MODELS[name].fit(X, y).distances(X[:200])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with joblib.parallel_config(backend="ray", n_jobs=2):
            spread = MODELS[name].fit(X, y)
    finally:
        ray.shutdown()
    np.testing.assert_array_equal(spread.distances(X[:200]), here)


def test_work_leaves_this_process_only_when_asked_to() -> None:
    items = [np.full(3, value) for value in range(4)]
    at_home = run_spread(where, np.asarray, items, 2)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        away = run_spread(where, np.asarray, items)
    assert {pid for pid, _ in at_home} == {os.getpid()}
    assert os.getpid() not in {pid for pid, _ in away}
    assert [total for _, total in at_home] == [total for _, total in away] == [0.0, 3.0, 6.0, 9.0]
