"""Loading by name: bundled sets, local files, and one clear line when something is missing."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

from onefold import datasets
from onefold.exceptions import FileFormatError, InvalidInputError

BUNDLED = {
    "blobs": (800, 10, 4),
    "breast_cancer": (569, 30, 2),
    "digits": (1797, 64, 10),
    "iris": (150, 4, 3),
    "moons": (600, 2, 2),
    "wine": (178, 13, 3),
}


@pytest.fixture(autouse=True)
def _no_local_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEFOLD_DATA", raising=False)


@pytest.mark.parametrize(("name", "shape"), BUNDLED.items())
def test_bundled_sets_are_complete_and_the_same_every_time(name: str, shape: tuple[int, int, int]) -> None:
    data, again = datasets.load(name), datasets.load(name)
    n_rows, n_features, n_classes = shape
    assert len(data.y_train) + len(data.y_test) == n_rows
    assert data.X_train.shape[1] == data.X_test.shape[1] == len(data.feature_names) == n_features
    assert len(np.unique(data.y_train)) == len(np.unique(data.y_test)) == n_classes
    assert abs(len(data.y_test) / n_rows - 0.25) < 0.02
    assert np.all(np.isfinite(data.X_train))
    for field in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(data, field), getattr(again, field))


def test_names_are_sorted_and_include_local_files(tmp_path: Path) -> None:
    assert datasets.names() == sorted(BUNDLED)
    np.savez(tmp_path / "mine.npz", X=np.zeros((2, 1)), y=np.zeros(2))
    assert datasets.names(tmp_path) == sorted([*BUNDLED, "mine"])


def test_a_dataset_cannot_be_changed_and_its_parts_must_fit() -> None:
    data = datasets.load("iris")
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    with pytest.raises(InvalidInputError, match="training part needs"):
        dataclasses.replace(data, y_train=data.y_train[:-1])
    with pytest.raises(InvalidInputError, match="number of features"):
        dataclasses.replace(data, X_test=data.X_test[:, :2])


def test_digits_lie_in_the_unit_interval_in_the_type_asked_for() -> None:
    data = datasets.load("digits", dtype=np.float32)
    assert data.X_train.dtype == data.X_test.dtype == np.float32
    assert data.X_train.min() == 0.0
    assert data.X_train.max() == 1.0


def _save(folder: Path, name: str, **arrays: np.ndarray) -> None:
    np.savez(folder / f"{name}.npz", **arrays)


def test_mnist_is_flattened_and_divided_by_255(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.arange(3 * 28 * 28, dtype=np.uint64).reshape(3, 28, 28).astype(np.uint8)
    labels = np.array([3, 1, 2], dtype=np.uint8)
    _save(tmp_path, "mnist", X_train=images, y_train=labels, X_test=images[:1], y_test=labels[:1])
    monkeypatch.setenv("ONEFOLD_DATA", str(tmp_path))
    data = datasets.load("mnist")
    assert data.X_train.shape == (3, 784)
    np.testing.assert_array_equal(data.X_train, images.reshape(3, 784) / 255)
    assert data.y_train.dtype == np.int64
    assert (data.y_train[1] - data.y_train[0]) == -2  # bytes would say 254


def test_bytes_are_multiplied_by_their_scale(tmp_path: Path) -> None:
    y = np.zeros(2, dtype=np.uint8)
    bytes_ = np.array([[0, 255], [10, 20]], dtype=np.uint8)
    _save(tmp_path, "features", X_train=bytes_, y_train=y, X_test=bytes_, y_test=y, scale=np.float32(0.5))
    np.testing.assert_array_equal(datasets.load("features", tmp_path).X_test, bytes_ * 0.5)


def test_files_without_official_parts_are_divided(tmp_path: Path) -> None:
    X, y = np.arange(16.0).reshape(8, 2), np.repeat(["a", "b"], 4)
    _save(tmp_path, "own", X=X, y=y, X_east=X[:4], y_east=y[::2])
    data = datasets.load("own", tmp_path)
    assert sorted(data.y_test) == ["a", "b"]
    assert len(data.X_train) == 6
    assert datasets.load("own:east", tmp_path).X_train.shape == (2, 2)


def test_a_missing_dataset_says_which_variable_and_which_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"ONEFOLD_DATA.*mnist\.npz"):
        datasets.load("mnist")
    with pytest.raises(InvalidInputError, match=r"no mnist\.npz.*ONEFOLD_DATA"):
        datasets.load("mnist", tmp_path)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", "a b", "x:", "a\nb", "..", ".hidden"])
def test_a_name_is_never_a_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="dataset name"):
        datasets.load(name, tmp_path)


class _Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("a pickle was loaded",))


def test_pickles_and_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", X=np.array([_Bomb()], dtype=object), y=np.zeros(1))
    (tmp_path / "pickled.npz").write_bytes(pickle.dumps(_Bomb()))
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "single", np.zeros(3))
    (tmp_path / "single.npy").rename(tmp_path / "single.npz")
    np.savez(tmp_path / "whole.npz", X=np.zeros((50, 50)), y=np.zeros(50))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:2000])
    np.savez(tmp_path / "other.npz", Z=np.zeros(3))
    for name in ("objects", "pickled", "empty", "single", "cut", "other"):
        with pytest.raises(FileFormatError) as caught:
            datasets.load(name, tmp_path)
        assert f"{name}.npz" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_invalid_types_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="floating"):
        datasets.load("digits", dtype=np.int32)
