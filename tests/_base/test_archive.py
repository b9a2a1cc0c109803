"""The file format: what is written comes back, and hostile files are refused with one line."""

import hashlib
import io
import json
import threading
import zipfile

import numpy as np
import pytest

from onefold._base import archive
from onefold._base.archive import (
    FORMAT,
    archive_bytes,
    kind_of,
    nest,
    part,
    read_archive,
    save_archive,
)
from onefold.exceptions import FileFormatError, InvalidInputError

ABOUT = {"text": "ä", "numbers": [1, 2.5, None, True], "nested": {"a": {}}}
ARRAYS = {
    "float64": np.linspace(0.0, 1.0, 6).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "one in columns": np.asfortranarray(np.arange(6.0).reshape(2, 3))[None],
    "float32": np.array(1.5, dtype=np.float32),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "uint8": np.arange(5, dtype=np.uint8),
    "bool": np.array([True, False]),
    "text": np.array(["ä", "longer"]),
    "deep/er": np.empty((0, 3)),
}
SMALL = archive_bytes("thing", {"a": 1}, {"x": np.arange(3.0), "y": np.array(["b"])})


def refused(content: bytes, match: str | None = None) -> None:
    with pytest.raises(FileFormatError, match=match) as caught:
        read_archive(content, "thing")
    assert "\n" not in str(caught.value)


def forged(change) -> bytes:
    """The small archive with members or manifest changed, and every checksum made right."""
    with zipfile.ZipFile(io.BytesIO(SMALL)) as zipped:
        members = {name: zipped.read(name) for name in zipped.namelist() if name != "manifest.json"}
        manifest = json.loads(zipped.read("manifest.json"))
    change(members, manifest)
    if isinstance(manifest.get("sums"), dict):
        manifest["sums"] |= {
            name: hashlib.sha256(members[name]).hexdigest() for name in manifest["sums"] if name in members
        }
    return zipped_bytes(members, json.dumps(manifest).encode())


def zipped_bytes(members: dict[str, bytes], text: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
        zipped.writestr("manifest.json", text)
        zipped.comment = hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def npy(array: np.ndarray | None = None, **header) -> bytes:
    """A ``.npy`` file of an array, or one with just this header."""
    out = io.BytesIO()
    if array is None:
        np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, **header})
    else:
        np.lib.format.write_array(out, array, allow_pickle=True)
    return out.getvalue()


@pytest.mark.parametrize("as_file", [True, False])
def test_description_and_arrays_come_back_unchanged(as_file, tmp_path):
    source = tmp_path / "file"
    save_archive(source, "thing", ABOUT, ARRAYS)
    content = archive_bytes("thing", ABOUT, ARRAYS)
    assert source.read_bytes() == content
    about, arrays = read_archive(source if as_file else content, "thing")
    assert about == ABOUT
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].flags.f_contiguous == array.flags.f_contiguous
        assert arrays[name].flags.writeable
        assert arrays[name].flags.aligned
        np.testing.assert_array_equal(arrays[name], array)


def test_big_endian_arrays_are_written_in_little_endian():
    content = archive_bytes(
        "thing", {}, {"x": np.arange(3.0).astype(">f8"), "t": np.array(["ä"]).astype(">U1")}
    )
    arrays = read_archive(content, "thing")[1]
    assert arrays["x"].dtype.str == "<f8"
    assert (arrays["x"].tolist(), arrays["t"].tolist()) == ([0.0, 1.0, 2.0], ["ä"])


def test_numpy_scalars_in_the_description_become_plain():
    about = {"n": np.int64(3), "x": np.float32(0.5), "flag": np.bool_(True)}
    assert read_archive(archive_bytes("thing", about, {}), "thing")[0] == {"n": 3, "x": 0.5, "flag": True}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
def test_description_that_is_no_json_is_not_written(value, tmp_path):
    with pytest.raises((TypeError, ValueError)):
        save_archive(tmp_path / "file", "thing", {"value": value}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("array", [np.array([{}]), np.array([1j]), np.array([b"x"]), np.zeros(1, "f8,i4")])
def test_arrays_of_other_types_are_not_written(array):
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        archive_bytes("thing", {}, {"x": array})


def test_numpy_can_look_into_a_file():
    with np.load(io.BytesIO(archive_bytes("thing", ABOUT, ARRAYS))) as found:
        np.testing.assert_array_equal(found["fortran"], ARRAYS["fortran"])


def test_only_wanted_arrays_are_read():
    """Damage elsewhere is then not noticed, and does not matter."""
    damaged = bytearray(archive_bytes("thing", {}, {"x": np.arange(3.0), "extra/rows": np.full(3, 7.0)}))
    damaged[damaged.index(np.float64(7.0).tobytes())] ^= 1
    refused(bytes(damaged), "checksum")
    _, arrays = read_archive(bytes(damaged), "thing", lambda name: not name.startswith("extra/"))
    assert list(arrays) == ["x"]


def test_many_large_arrays_are_each_checked():
    arrays = {f"{i}": np.full(2**14, float(i)) for i in range(12)}
    content = archive_bytes("thing", {}, arrays)
    found = read_archive(content, "thing")[1]
    assert all((found[name] == array).all() for name, array in arrays.items())
    damaged = bytearray(content)
    damaged[content.index(np.float64(11.0).tobytes()) + 2**15] ^= 1
    refused(bytes(damaged), "11.npy does not match its checksum")


def test_kind_is_read_and_another_kind_is_refused(tmp_path):
    assert kind_of(SMALL) == "thing"
    with pytest.raises(FileFormatError, match="holds a thing, not a model"):
        read_archive(SMALL, "model")
    (tmp_path / "file").write_bytes(SMALL)
    assert kind_of(tmp_path / "file") == "thing"
    with pytest.raises(FileFormatError, match=str(tmp_path / "file")):
        read_archive(tmp_path / "file", "model")


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04", b"{", b"{}", b"[" * 10**5, b"\x80\x04\x95"]
)
def test_kind_of_foreign_content_is_none(content, tmp_path):
    assert kind_of(content) is None
    assert kind_of(tmp_path / "absent") is None
    refused(content)


def test_missing_file_is_named_with_its_kind(tmp_path):
    with pytest.raises(InvalidInputError, match="no thing file at"):
        read_archive(tmp_path / "absent", "thing")


def test_newer_format_is_refused_and_named():
    newer = forged(lambda members, manifest: manifest.update(format=FORMAT + 1))
    refused(newer, f"has format {FORMAT + 1}, this version of onefold reads format {FORMAT}")


def test_every_truncation_is_refused():
    for length in range(len(SMALL)):
        refused(SMALL[:length])


def test_every_flipped_bit_is_refused_or_changes_nothing():
    about, arrays = read_archive(SMALL, "thing")
    for place in range(len(SMALL)):
        for bit in (0, 3, 7):
            damaged = bytearray(SMALL)
            damaged[place] ^= 1 << bit
            try:
                found_about, found = read_archive(bytes(damaged), "thing")
            except FileFormatError:
                continue
            assert found_about == about
            assert all(np.array_equal(found[name], array) for name, array in arrays.items())


@pytest.mark.parametrize(
    "change",
    [
        lambda members, manifest: manifest.pop("kind"),
        lambda members, manifest: manifest.pop("format"),
        lambda members, manifest: manifest.pop("sums"),
        lambda members, manifest: manifest.update(format=True),
        lambda members, manifest: manifest.update(format="2"),
        lambda members, manifest: manifest.update(about=[]),
        lambda members, manifest: manifest.update(sums=[]),
        lambda members, manifest: manifest.update(kind=["thing"]),
        lambda members, manifest: members.update({"more.npy": npy(np.eye(1))}),
        lambda members, manifest: manifest["sums"].update({"absent.npy": "0" * 64}),
        lambda members, manifest: manifest["sums"].update({"x.npy": 3}) or members.pop("x.npy"),
        lambda members, manifest: members.update({"x.npy": b""}),
        lambda members, manifest: members.update({"x.npy": b"not an array"}),
        lambda members, manifest: members.update({"x.npy": npy(shape=(10**7, 10**7))}),
        lambda members, manifest: members.update({"x.npy": npy(shape=(-1, -1)) + bytes(8)}),
        lambda members, manifest: members.update({"x.npy": npy(np.eye(2))[:-1]}),
        lambda members, manifest: members.update({"x.npy": npy(np.eye(2)) + b"\0"}),
        lambda members, manifest: members.update({"x.npy": npy(np.array([threading.Thread]))}),
        lambda members, manifest: members.update({"x.npy": npy(descr="|O", shape=())}),
        lambda members, manifest: members.update({"x.npy": npy(descr="<U0", shape=(10**9,))}),
        lambda members, manifest: members.update({"x.npy": npy(shape=(1,)).replace(b"f8", b"V8")}),
        lambda members, manifest: members.update({"x.npy": npy(descr="<c16", shape=(1,)) + bytes(16)}),
        lambda members, manifest: members.update({"x.npy": npy(descr="<U1", shape=(1,)) + b"\xff" * 4}),
        lambda members, manifest: members.update({"x.npy": npy(descr="|b1", shape=(1,)) + b"\x02"}),
    ],
)
def test_forged_contents_with_right_checksums_are_refused(change):
    assert read_archive(forged(lambda members, manifest: None), "thing")  # the forger's tools work
    refused(forged(change))


def test_huge_claim_is_refused_before_memory_is_set_aside():
    claim = forged(lambda members, manifest: members.update({"x.npy": npy(shape=(10**7, 10**7))}))
    refused(claim, "size it claims")


def test_compressed_members_are_refused():
    """A file of a few kilobytes could otherwise unpack to gigabytes."""
    members = {"x.npy": npy(np.zeros(10**6))}
    text = json.dumps(
        {
            "format": FORMAT,
            "kind": "thing",
            "about": {},
            "sums": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
        }
    ).encode()
    content = zipped_bytes(members, text, zipfile.ZIP_DEFLATED)
    assert len(content) < 50_000
    refused(content, "compressed")


def with_directory(content: bytes, change) -> bytes:
    """The same zip file with another directory."""
    start, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entries, count = change(content[start:end], int.from_bytes(content[end + 10 : end + 12], "little"))
    tail = bytearray(content[end:])
    tail[8:12] = count.to_bytes(2, "little") * 2
    tail[12:16] = len(entries).to_bytes(4, "little")
    return content[:start] + entries + bytes(tail)


def test_members_that_share_bytes_are_refused():
    """A small file whose directory names the same bytes over and over."""
    refused(
        with_directory(SMALL, lambda entries, count: (entries * 200, count * 200)), "larger than the whole"
    )
    room = archive_bytes("thing", {}, {"x": np.zeros(1000), "y": np.zeros(2)})

    def twice(entries: bytes, count: int) -> tuple[bytes, int]:
        second = entries.index(b"PK\x01\x02", 1)
        return entries + entries[second : entries.index(b"PK\x01\x02", second + 1)], count + 1

    refused(with_directory(room, twice))


def test_huge_directory_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr("onefold._base.archive.LARGEST_DIRECTORY", 100)
    refused(SMALL, "too many parts")


def test_second_end_record_of_a_small_file_is_refused():
    end = SMALL.index(b"PK\x05\x06")
    refused(SMALL[:end] + b"PK\x06\x07" + bytes(16) + SMALL[end:], "too many parts")


def test_huge_manifest_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(archive, "LARGEST_MANIFEST", 10)
    refused(SMALL, "manifest is too large")


def test_deeply_nested_manifest_is_refused():
    refused(zipped_bytes({}, b'{"format": ' + b"[" * 10**5))


def test_foreign_zip_is_refused():
    out = io.BytesIO()
    np.savez(out, X=np.eye(3))
    refused(out.getvalue())


def test_too_many_arrays_for_one_file_are_not_written(monkeypatch):
    monkeypatch.setattr(archive, "MOST_ARRAYS", 1)
    with pytest.raises(InvalidInputError, match="at most 1 arrays"):
        archive_bytes("thing", {}, {"a": np.eye(1), "b": np.eye(1)})


def test_nested_thing_is_taken_out_as_it_was_put_in():
    inner_about, inner_arrays = nest("inner", {"b": 2}, {"y": np.eye(2)})
    middle = nest("middle", {"a": 1, **inner_about}, {"x": np.eye(1), **inner_arrays})
    content = archive_bytes("thing", middle[0] | {"z": 0}, middle[1] | {"own": np.eye(3)})
    about, arrays = part("middle", *read_archive(content, "thing"))
    assert (about, list(arrays)) == ({"a": 1, "inner": {"b": 2}}, ["x", "inner/y"])
    assert part("inner", about, arrays)[0] == {"b": 2}
    with pytest.raises(FileFormatError, match="does not describe its other"):
        part("other", about, arrays)
