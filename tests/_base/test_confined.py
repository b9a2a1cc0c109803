"""Files of strangers are opened in a child first: what it cannot afford, the parent never tries."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from onefold import KAHM, FoldingClassifier, io
from onefold._base import confined
from onefold._base.confined import try_confined
from onefold.exceptions import FileFormatError
from onefold.federated import LocalModel
from onefold.privacy import Laplace
from reference.forging import with_array

X = np.random.default_rng(0).random((30, 2))
Y = np.arange(30) % 2


def many_samples(path: Path, count: int) -> Path:
    """A compact file of honest size, whose machine takes the square of its samples."""
    small = io.to_bytes(KAHM(1, scale=1.0).fit(X.astype(np.float32)), compact=True)
    rows = np.random.default_rng(0).random((count, 2)).astype(np.float32)
    path.write_bytes(with_array(small, "/centred", lambda _: (rows - rows.mean(axis=0))[None]))
    return path


@pytest.mark.merge
def test_file_that_takes_too_much_memory_is_refused_without_taking_it_here(tmp_path):
    path = many_samples(tmp_path / "large", 20_000)
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"takes more (memory|than 300 MB)"):
            io.load_untrusted(path, megabytes=300)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.merge
def test_file_that_takes_too_much_time_is_refused(tmp_path):
    path = many_samples(tmp_path / "slow", 9000)
    with pytest.raises(FileFormatError, match=r"or 1 s|takes more than 5 s"):
        io.load_untrusted(path, megabytes=8000, seconds=1)


def test_child_that_waits_for_ever_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(confined, "PATIENCE", 0.02)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileFormatError, match="takes more than"):
        try_confined("onefold.io:load", tmp_path / "file")


@pytest.mark.merge
def test_good_file_is_opened_and_answers_as_before(tmp_path):
    model = FoldingClassifier(batch_size=5).fit(X, Y)
    io.save(model, tmp_path / "model")
    np.testing.assert_array_equal(io.load_untrusted(tmp_path / "model").distances(X), model.distances(X))
    local = LocalModel(FoldingClassifier(batch_size=5), Laplace(4.0, sensitivity=1.0), fabricate=False)
    local.fit(X, Y).save(tmp_path / "local")
    assert LocalModel.load_untrusted(tmp_path / "local").digest() == local.digest()


@pytest.mark.merge
@pytest.mark.parametrize("content", [b"PK\x03\x04", b"", b"not a model"])
def test_reason_of_the_child_is_passed_on(content, tmp_path):
    (tmp_path / "file\x1b[2J").write_bytes(content)
    with pytest.raises(FileFormatError, match="not a model file, or damaged") as caught:
        LocalModel.load_untrusted(tmp_path / "file\x1b[2J")
    assert str(caught.value).isprintable()


def test_child_that_dies_is_a_refusal_and_writes_nothing(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileFormatError, match="or fails"):
        try_confined("os:abort_there_is_no_such_name", tmp_path / "file")
    with pytest.raises(FileFormatError, match="or fails"):
        try_confined("shutil:rmtree", tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]
