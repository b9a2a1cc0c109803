"""Files of the documents that have rules of their own."""

from pathlib import Path

import numpy as np
import pytest

from experiments.data import named
from onefold.exceptions import InvalidInputError


def test_usps_is_divided_by_its_scale(tmp_path: Path) -> None:
    y = np.zeros(2, dtype=np.uint8)
    stored = np.array([[-1000, 500], [250, 1000]], dtype=np.int16)
    np.savez(tmp_path / "usps.npz", X_train=stored, y_train=y, X_test=stored, y_test=y, scale=np.int32(1000))
    np.testing.assert_array_equal(named.load("usps", tmp_path).X_train, [[-1.0, 0.5], [0.25, 1.0]])
    with pytest.raises(InvalidInputError, match="no parts"):
        named.load("usps:left", tmp_path)


def test_grocery_has_fine_and_coarse_labels(tmp_path: Path) -> None:
    X = np.ones((2, 3), dtype=np.float16)
    fine, coarse = np.array([7, 8], dtype=np.uint8), np.array([1, 1], dtype=np.uint8)
    np.savez(
        tmp_path / "grocery_store_effnetlite0.npz",
        X_train=X,
        X_test=X,
        y_fine_train=fine,
        y_fine_test=fine,
        y_coarse_train=coarse,
        y_coarse_test=coarse,
    )
    assert named.load("grocery_store_effnetlite0", tmp_path).y_train.tolist() == [7, 8]
    assert named.load("grocery_store_effnetlite0:coarse", tmp_path).y_train.tolist() == [1, 1]
    with pytest.raises(InvalidInputError, match="fine, coarse"):
        named.load("grocery_store_effnetlite0:medium", tmp_path)


def test_adult_has_numbers_then_one_column_per_category(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "adult.npz",
        num_cols=np.array(["age"]),
        cat_cols=np.array(["sex"]),
        levels_sex=np.array(["?", "f", "m"]),
        num_train=np.array([[30], [40]], dtype=np.int32),
        num_test=np.array([[50]], dtype=np.int32),
        cat_train=np.array([[2], [0]], dtype=np.uint8),
        cat_test=np.array([[1]], dtype=np.uint8),
        y_train=np.array([0, 1], dtype=np.uint8),
        y_test=np.array([1], dtype=np.uint8),
    )
    data = named.load("adult", tmp_path)
    assert data.feature_names == ("age", "sex=?", "sex=f", "sex=m")
    assert data.X_train.tolist() == [[30, 0, 0, 1], [40, 1, 0, 0]]
    assert data.X_test.tolist() == [[50, 0, 1, 0]]


def test_a_signal_is_divided_and_an_ordinary_file_is_read_as_onefold_does(tmp_path: Path) -> None:
    X, y = np.arange(16.0).reshape(8, 2), np.repeat([0, 1], 4)
    np.savez(tmp_path / "cogload_rr.npz", hr_train=X, y_train=y)
    assert named.load("cogload_rr:hr", tmp_path).X_train.shape == (6, 2)
    np.savez(tmp_path / "own.npz", X=X, y=y)
    assert named.load("own", tmp_path).X_train.shape == (6, 2)
    with pytest.raises(InvalidInputError, match=r"no adult\.npz.*ONEFOLD_DATA"):
        named.load("adult", tmp_path)
