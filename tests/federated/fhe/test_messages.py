"""Messages as bytes: they come back unchanged, and whatever is damaged or forged is refused with one line."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from onefold._base.frames import pack_frame, unpack_frame
from onefold.exceptions import DecryptionError, MessageError
from onefold.federated.fhe import Client, Querier, Server
from onefold.federated.fhe.messages import EncryptedResult, PublicKey, from_bytes, key_digest, to_bytes


def test_roles_take_bytes_and_refuse_damaged_ones(small) -> None:
    messages = [to_bytes(each) for each in small.messages(np.full((3, 1, 4), 9))]
    server = Server(to_bytes(small.keys))
    data = to_bytes(server.aggregate(messages))
    assert small.querier.decrypt(data).all()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(data), 40):
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.integers(0, 8)
        with pytest.raises(MessageError):
            small.querier.decrypt(bytes(flipped))
    for length in (0, 10, 100, len(data) - 1):
        with pytest.raises(MessageError):
            small.querier.decrypt(data[:length])
    with pytest.raises(MessageError, match="kind"):
        from_bytes(PublicKey, data)
    with pytest.raises(MessageError, match="larger"):
        from_bytes(EncryptedResult, data, max_bytes=100)


def test_evaluation_keys_without_rotation_keys_are_refused(small) -> None:
    relinearise = [part for part, _ in small.keys.sections()]
    sizes = [size for part in relinearise for size in (len(part), 0)]
    with pytest.raises(MessageError, match="rotate"):
        replace(small.keys, sizes=tuple(sizes), content=b"".join(relinearise))


def test_evaluation_keys_for_other_rotations_are_refused_by_the_server(small) -> None:
    """Otherwise SEAL would fail in the middle of a query."""
    querier = small.querier
    chain, secret = querier._contexts.low, querier._secrets[-1]
    rotations = querier._contexts.seal.GaloisKeys()
    step = querier.parameters.rotations[-1][0] + 1
    querier._contexts.seal.KeyGenerator(chain.context, secret).create_galois_keys([step], rotations)
    parts = [*[part for section in small.keys.sections() for part in section][:-1], rotations.to_string()]
    keys = replace(small.keys, sizes=tuple(map(len, parts)), content=b"".join(parts))
    with pytest.raises(MessageError, match="rotation"):
        Server(keys)


# --- forged messages --------------------------------------------------------------------------------------

JUNK = [None, -1, 0, 2**70, 1.5, True, "", "x" * 100, "a b\n", [], {}, [1, 2], {"a": 1}]


@pytest.fixture(scope="module")
def one_of_each(seal) -> list:
    """The four messages of the smallest setting, since each of them is read many times."""
    querier = Querier(1, 1, 4)
    keys, public = querier.evaluation_keys(), querier.public_key()
    answers = Client(public, "north").encrypt([[9]], "q1")
    return [public, keys, answers, Server(keys).aggregate([answers])]


def _refused(kind: type, header: dict, arrays: dict) -> None:
    """Reading a frame with a right checksum raises one line, without any value of the frame."""
    with pytest.raises(MessageError) as caught:
        from_bytes(kind, pack_frame(header, arrays))
    text = str(caught.value)
    assert "\n" not in text
    assert "x" * 100 not in text


def test_messages_come_back_unchanged(one_of_each) -> None:
    for message in one_of_each:
        data = to_bytes(message)
        assert from_bytes(type(message), data) == message
        for other in one_of_each:
            if other is not message:
                with pytest.raises(MessageError, match="kind"):
                    from_bytes(type(other), data)


@pytest.mark.merge
def test_forged_header_fields_are_refused(one_of_each) -> None:
    for message in one_of_each:
        header, arrays = unpack_frame(to_bytes(message), 2**31)
        for name, value in header.items():
            for junk in JUNK:
                if junk != value or type(junk) is not type(value):
                    _refused(type(message), {**header, name: junk}, arrays)
            _refused(type(message), {key: header[key] for key in header if key != name}, arrays)
        _refused(type(message), {**header, "more": 1}, arrays)
        _refused(type(message), {**header, "key_id": "0" * 63 + "g"}, arrays)


def test_forged_contents_are_refused(one_of_each) -> None:
    for message in one_of_each:
        header, arrays = unpack_frame(to_bytes(message), 2**31)
        for name in arrays:
            for wrong in (
                np.zeros(0, np.uint8),
                np.zeros((2, 2), np.uint8),
                np.zeros(4),
                np.zeros(4, np.int64),
            ):
                _refused(type(message), header, {**arrays, name: wrong})
            _refused(type(message), header, {key: arrays[key] for key in arrays if key != name})
            _refused(type(message), {**header, name: "text"}, arrays)
        _refused(type(message), header, {**arrays, "more": np.zeros(1, np.uint8)})


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_as_keys_are_refused_or_unusable(small, seed: int) -> None:
    """SEAL reads keys that others sent: damage in them must raise MessageError, whatever it hits."""
    rng = np.random.default_rng(seed)
    public, content = bytearray(small.public.key), bytearray(small.keys.content)
    for data in (public, content):
        near = [0] if data is public else np.cumsum([0, *small.keys.sizes])[:-1]
        for _ in range(rng.integers(1, 6)):  # most of it in the headers that SEAL parses
            start = int(rng.choice(near))
            place = start + rng.integers(0, 200) if rng.random() < 0.8 else rng.integers(0, len(data))
            data[min(int(place), len(data) - 1)] = int(rng.integers(256))
    key = bytes(public) if seed % 2 else bytes(public[: rng.integers(1, len(public))])
    with contextlib.suppress(MessageError):
        Client(replace(small.public, key=key, key_id=key_digest(key)), "c0").encrypt([[1, 2, 3, 4]], "q1")
    with contextlib.suppress(MessageError):
        Server(replace(small.keys, content=bytes(content)))


@pytest.mark.parametrize("fill", [b"\x00", b"\xff", None])
def test_random_bytes_as_answers_or_result_never_give_an_answer(small, fill: bytes | None) -> None:
    first, second = small.messages(np.full((2, 1, 4), 9))
    size = len(first.content)
    noise = np.random.default_rng(0).bytes(size) if fill is None else fill * size
    result = small.server.aggregate([replace(first, content=noise), second])
    if fill != b"\x00":  # a site may encrypt zeros without a key: it says nothing, and the check fails
        with pytest.raises(DecryptionError, match="noise"):
            small.querier.decrypt(result)
    else:
        with pytest.raises(DecryptionError, match="check"):
            small.querier.decrypt(result)
    for n_bytes in (len(result.content) - 1, len(result.content) + 1):
        with pytest.raises(MessageError, match="size"):
            small.querier.decrypt(replace(result, content=b"\1" * n_bytes))
    forged = noise[: len(result.content)]
    with pytest.raises((MessageError, DecryptionError)):
        small.querier.decrypt(replace(result, content=forged))
