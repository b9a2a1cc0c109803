"""What a file holds besides a model: a guarantee, and arrays that came with it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from io import BytesIO
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


def _rewritten(content: bytes, change) -> bytes:
    """The same archive with members changed and every sum made right again: what a forger would send."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "manifest.json"}
        manifest = json.loads(archive.read("manifest.json"))
    change(members, manifest)
    manifest["sums"] = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        text = json.dumps(manifest).encode()
        archive.writestr("manifest.json", text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def test_an_array_that_claims_to_be_huge_is_refused_before_memory_is_set_aside(model) -> None:
    def claim(members, manifest) -> None:
        header = BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f8", "fortran_order": False, "shape": (1, 10**7, 10**7)}
        )
        members["stack0/centred.npy"] = header.getvalue()

    content = io.to_bytes(model)
    assert (
        io.from_bytes(_rewritten(content, lambda members, manifest: None)) is not None
    )  # the forger's tools work
    with pytest.raises(FileFormatError, match="size it claims"):
        io.from_bytes(_rewritten(content, claim))


def test_parts_that_share_their_bytes_are_refused(model) -> None:
    """A small file whose directory names the same megabytes over and over."""
    content = bytearray(io.to_bytes(model))
    with zipfile.ZipFile(BytesIO(content)) as archive:
        sizes = sum(entry.file_size for entry in archive.infolist())
    assert sizes < len(content)
    directory = content.index(b"PK\x01\x02")
    end = content.index(b"PK\x05\x06")
    entries = bytes(content[directory:end]) * 200
    count = int.from_bytes(content[end + 10 : end + 12], "little") * 200
    tail = bytearray(content[end:])
    tail[8:12] = count.to_bytes(2, "little") * 2
    tail[12:16] = len(entries).to_bytes(4, "little")
    with pytest.raises(FileFormatError, match="larger than the whole"):
        io.from_bytes(bytes(content[:directory]) + entries + bytes(tail))


def test_a_machine_too_large_to_rebuild_is_refused(model) -> None:
    content = io.to_bytes(model)
    with pytest.raises(FileFormatError, match="more than 5 samples"):
        io.from_bytes(content, largest_machine=5)
    assert io.from_bytes(content, largest_machine=10) is not None
