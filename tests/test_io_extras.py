"""What a file holds besides a model: a guarantee, and arrays that came with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onefold import FoldingClassifier, io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import Laplace


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    return FoldingClassifier(n_components=2).fit(rng.random((20, 3)), np.arange(20) % 2)


def test_extras_go_and_come_and_the_model_does_not_mind(model, tmp_path: Path) -> None:
    path = tmp_path / "model"
    extras = {"rows": np.arange(6.0).reshape(2, 3), "labels": np.array(["a", "b"])}
    io.save(model, path, extras)
    found = io.load_extras(path)
    assert found.keys() == extras.keys()
    for name, array in extras.items():
        np.testing.assert_array_equal(found[name], array)
    queries = np.random.default_rng(1).random((5, 3))
    plain = tmp_path / "plain"
    io.save(model, plain)
    np.testing.assert_array_equal(io.load(path).distances(queries), io.load(plain).distances(queries))
    assert io.load_extras(plain) == {}
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(np.float64(5.0).tobytes())] ^= 1
    path.write_bytes(damaged)
    io.load(path)  # the model is whole
    with pytest.raises(FileFormatError):
        io.load_extras(path)


def test_a_guarantee_is_kept(model, tmp_path: Path) -> None:
    assert not hasattr(io.from_bytes(io.to_bytes(model)), "guarantee_")
    private = FoldingClassifier(n_components=2).fit(
        np.random.default_rng(0).random((20, 3)), np.arange(20) % 2
    )
    private.guarantee_ = Laplace(2.0).guarantee(3, 20).voided("a reason")
    io.save(private, tmp_path / "model")
    assert io.load(tmp_path / "model").guarantee_ == private.guarantee_


def test_bytes_are_those_of_the_file(model, tmp_path: Path) -> None:
    io.save(model, tmp_path / "model")
    assert io.to_bytes(model) == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("content", [b"", b"PK", b"anything", bytes(1000)])
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(FileFormatError) as caught:
        io.from_bytes(content)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no model file"):
        io.load_extras(tmp_path / "nothing")
