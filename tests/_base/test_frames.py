"""The wire frame: what is packed comes back, and whatever is not a whole frame is refused with one line."""

import hashlib
import json

import numpy as np
import pytest

from onefold._base.frames import LARGEST_HEADER, MAGIC, join_frames, pack_frame, split_frames, unpack_frame
from onefold.exceptions import MessageError

HEADER = {"kind": "test", "names": ["ä", "b"], "number": 1.5, "nothing": None}
ARRAYS = {
    "float64": np.linspace(0.0, 1.0, 6).reshape(2, 3),
    "float32": np.arange(4, dtype=np.float32),
    "int64": np.array([[-(2**63), 2**63 - 1]], dtype=np.int64),
    "uint64": np.array([0, 2**64 - 1], dtype=np.uint64),
    "bytes": np.frombuffer(b"content", dtype=np.uint8),
}


def forged(plain: object, data: bytes = b"") -> bytes:
    """A frame with this header and data, and a right checksum."""
    text = plain if isinstance(plain, bytes) else json.dumps(plain).encode()
    content = MAGIC + len(text).to_bytes(4, "little") + text + data
    return content + hashlib.sha256(content).digest()


def listed(*entries: object, data: bytes = b"") -> bytes:
    return forged({"header": {}, "arrays": list(entries)}, data)


def refused(data: bytes) -> None:
    with pytest.raises(MessageError) as caught:
        unpack_frame(data, 10**6)
    assert "\n" not in str(caught.value)


def test_header_and_arrays_come_back_unchanged():
    header, arrays = unpack_frame(pack_frame(HEADER, ARRAYS), 10**6)
    assert header == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_big_endian_and_fortran_ordered_arrays_come_back_with_equal_values():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    frame = pack_frame({}, {"fortran": array, "big": array.astype(">f8")})
    found = unpack_frame(frame, 10**6)[1]
    np.testing.assert_array_equal(found["fortran"], array)
    np.testing.assert_array_equal(found["big"], array)


def test_every_truncation_is_refused():
    frame = pack_frame(HEADER, ARRAYS)
    for length in range(len(frame)):
        refused(frame[:length])
    refused(frame + b"\0")


def test_every_flipped_byte_is_refused():
    frame = pack_frame(HEADER, ARRAYS)
    for place in range(len(frame)):
        damaged = bytearray(frame)
        damaged[place] ^= 1
        refused(bytes(damaged))


def test_frames_larger_than_allowed_are_refused():
    frame = pack_frame(HEADER, ARRAYS)
    assert unpack_frame(frame, len(frame))[0] == HEADER
    with pytest.raises(MessageError, match="larger than allowed"):
        unpack_frame(frame, len(frame) - 1)


@pytest.mark.parametrize("data", [None, "text", 5, [1]])
def test_what_is_not_bytes_is_refused(data):
    refused(data)


@pytest.mark.parametrize(
    "frame",
    [
        forged(b""),
        forged(b"\xff"),
        forged(b"[" * 10_000),
        forged([]),
        forged({}),
        forged({"header": {}, "arrays": [], "more": 1}),
        forged({"header": [], "arrays": []}),
        forged({"header": {}, "arrays": {}}),
        forged(b'{"header": {"x": NaN}, "arrays": []}'),
        forged({"header": {}, "arrays": [["x", "|u1", [0]]] * 17}),
        listed("x"),
        listed(["x", "|u1"]),
        listed([1, "|u1", [0]]),
        listed(["x", "|O", [0]]),
        listed(["x", "<c16", [0]]),
        listed(["x", [], [0]]),
        listed(["x", "|u1", [1, 1, 1]], data=b"a"),
        listed(["x", "|u1", [-1]]),
        listed(["x", "|u1", [True]], data=b"a"),
        listed(["x", "|u1", [1.0]], data=b"a"),
        listed(["x", "|u1", [2**48]]),
        listed(["x", "<f8", [2**47, 2**47]]),
        listed(["x", "|u1", [1]], ["x", "|u1", [1]], data=b"ab"),
        listed(["x", "|u1", [2]], data=b"a"),
        listed(["x", "|u1", [1]], data=b"ab"),
    ],
)
def test_forged_headers_are_refused(frame):
    refused(frame)


def test_header_longer_than_the_frame_is_refused():
    content = MAGIC + (LARGEST_HEADER + 1).to_bytes(4, "little") + b"{}"
    refused(content + hashlib.sha256(content).digest())


def test_joined_frames_are_split_again():
    frames = [pack_frame(HEADER, ARRAYS), b"", b"plain"]
    assert split_frames(join_frames(frames)) == frames
    assert split_frames(b"") == []


def test_joined_frames_that_were_cut_off_are_refused():
    joined = join_frames([b"one", b"three"])
    whole = {0, len(join_frames([b"one"])), len(joined)}
    for length in set(range(len(joined))) - whole:
        with pytest.raises(MessageError, match="cut off"):
            split_frames(joined[:length])
