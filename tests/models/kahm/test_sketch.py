"""Bounds of a sketch in single precision: they hold for any data, and leave few machines to ask in full."""

from functools import cache

import numpy as np
import pytest

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.models.folding import MEASURES
from onefold.models.kahm import _few
from onefold.models.kahm._few import GatheredMachines, OneQuery, Part
from onefold.models.kahm._sketch import Sketch

COLUMNS = {"fewer columns than samples": 6, "as many": 30, "more columns": 90}
N_FITTED = 300


@pytest.fixture(autouse=True)
def _sketch_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_few, "SKETCHED", 0)


def ordinary(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n_rows)
    mixing = rng.normal(size=(3, n_features, n_features)) / np.sqrt(n_features)
    return np.einsum("np,npq->nq", rng.normal(size=(n_rows, n_features)), mixing[y]) + y[:, None], y


def kinds_of_data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rows of three classes, the last 20 of them queries."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, n_features in COLUMNS.items():
        X, y = ordinary(N_FITTED + 20, n_features)
        found |= {
            name: (X, y),
            f"{name}, a large offset": (X + 1e6, y),
            f"{name}, classes far apart": (X + 1e4 * y[:, None], y),
            f"{name}, classes of all sizes": (X * np.array([1e-29, 1e-8, 1e12])[y, None], y),
            f"{name}, columns of all sizes": (X * np.logspace(0, -5, n_features), y),
            f"{name}, tiny spreads": (1.0 + 1e-9 * X, y),
            f"{name}, tiny": (1e-25 * X, y),
            f"{name}, huge": (1e25 * X, y),
            f"{name}, mostly zeros": (np.where(X > 1.5, X, 0.0), y),
            f"{name}, equal rows": (np.repeat(X[::16], 16, axis=0), np.repeat(y[::16], 16)),
            f"{name}, classes of one row each": (X[y] + (np.arange(len(X)) >= N_FITTED)[:, None], y),
        }
    return found


KINDS = kinds_of_data()


@cache
def fitted(kind: str, dtype: type = np.float64) -> tuple[AutoencoderClassifier, np.ndarray]:
    """A classifier, and rows within the data and ever farther away."""
    X, y = KINDS[kind]
    machine = WideKAHM(n_components=10, n_layers=1, branch_size=30, partition="contiguous", scale="auto")
    model = AutoencoderClassifier(machine).fit(X[:N_FITTED].astype(dtype), y[:N_FITTED])
    away = X[-1] + (X[-1] - X[0]) * np.logspace(0, 11, 23)[:, None]
    return model, np.concatenate([X[N_FITTED + 8 :], X[:3], away]).astype(dtype)


def gathered(model: AutoencoderClassifier) -> GatheredMachines:
    found = model.pool_._gathered
    assert isinstance(found, GatheredMachines)
    return found


def queries_of(model: AutoencoderClassifier, rows: np.ndarray) -> list[OneQuery]:
    units, divisor = model.pool_.to_unit(rows)
    seen, origin = model.pool_.seen(divisor), gathered(model).origin
    columns = zip(units, divisor[:, None], seen[:, None], strict=True)
    return [OneQuery(row, origin, *constants) for row, *constants in columns]


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold(kind: str) -> None:
    model, rows = fitted(kind)
    for query in queries_of(model, rows):
        for part in gathered(model).parts:
            assert part.sketch is not None
            for measure in MEASURES:
                least, largest = part.sketch.bounds(query, measure)
                values = part.measures(query, measure, slice(None))
                assert (least <= values * (1.0 + 1e-7)).all()
                assert (values * (1.0 - 1e-7) <= largest).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_nearest_class_is_that_of_a_block(kind: str, dtype: type) -> None:
    model, rows = fitted(kind, dtype)
    single = np.concatenate([model.predict(row[None]) for row in rows])
    block = model.distances(rows)
    chosen = block[np.arange(len(rows)), np.searchsorted(model.classes_, single)]
    # Another class only where rounding decides.
    single_precision, size = dtype == np.float32, np.ptp(KINDS[kind][0], axis=0).max()
    atol = (3e-3 if single_precision else 1e-7) * size  # distances come from squares around a common origin
    np.testing.assert_allclose(chosen, block.min(axis=1), rtol=1e-2 if single_precision else 1e-7, atol=atol)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("n_features", COLUMNS.values(), ids=COLUMNS.keys())
def test_first_of_equal_classes_is_the_nearest(n_features: int, measure: str) -> None:
    X, y = ordinary(200, n_features)
    model = FoldingClassifier(batch_size=25, measure=measure)
    model.fit(np.concatenate([X[:150], X[:150]]), np.concatenate([y[:150], y[:150] + 3]))
    single = np.concatenate([model.predict(row[None]) for row in X[150:]])
    assert single.max() < 3
    assert np.array_equal(single, model.predict(X[150:]))


def count_asked(model: AutoencoderClassifier, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Machines that each row asks in full."""
    asked: list[int] = []
    in_full = Part.measures

    def noted(self: Part, query: OneQuery, name: str, machines: np.ndarray | slice) -> np.ndarray:
        asked[-1] += len(self.owners[machines])
        return in_full(self, query, name, machines)

    monkeypatch.setattr(Part, "measures", noted)
    for row in rows:
        asked.append(0)
        model.predict(row[None])
    return asked


@pytest.mark.parametrize("measure", ["euclidean", "rms"])
@pytest.mark.parametrize("n_features", [20, 200])
def test_rows_of_distinct_classes_ask_no_machine_in_full(
    n_features: int, measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=840)
    directions = rng.normal(size=(4, 10, n_features)) / np.sqrt(10)
    X = np.einsum("nk,nkp->np", rng.normal(size=(840, 10)), directions[y]) + 0.01
    model = FoldingClassifier(measure=measure).fit(X[:800], y[:800])
    asked = count_asked(model, X[800:], monkeypatch)
    assert np.mean(np.array(asked) == 0) > 0.9


def test_a_sketch_that_is_of_no_use_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(616, 90))
    model = FoldingClassifier().fit(X[:600], np.arange(600) % 2)
    bounds, used = Sketch.bounds, []

    def noted(*arguments: object) -> tuple[np.ndarray, np.ndarray]:
        used.append(arguments)
        return bounds(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Sketch, "bounds", noted)
    asked = count_asked(model, X[600:], monkeypatch)
    assert asked == [12] * 16
    assert len(used) == 2
