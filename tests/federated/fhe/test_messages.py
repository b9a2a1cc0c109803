"""Messages as bytes: they come back unchanged, and whatever is damaged or forged is refused with one line."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from onefold._base.records import pack, plain_of
from onefold.exceptions import DecryptionError, MessageError
from onefold.federated.fhe import Client, Querier, Server
from onefold.federated.fhe.messages import EncryptedResult, PublicKey
from onefold.federated.messages import digest_of


def test_roles_take_bytes_and_refuse_damaged_ones(small) -> None:
    messages = [each.to_bytes() for each in small.messages(np.full((3, 1, 4), 9))]
    server = Server(small.keys.to_bytes())
    data = server.aggregate(messages).to_bytes()
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
    with pytest.raises(MessageError, match="not a public key"):
        PublicKey.from_bytes(data)
    with pytest.raises(MessageError, match="larger"):
        EncryptedResult.from_bytes(data, 100)


def test_evaluation_keys_without_rotation_keys_are_refused(small) -> None:
    with pytest.raises(MessageError, match="rotate"):
        replace(small.keys, sections=tuple((part, b"") for part, _ in small.keys.sections))
    with pytest.raises(MessageError, match="too few"):
        replace(small.keys, sections=small.keys.sections[:-1])


def test_evaluation_keys_for_other_rotations_are_refused_by_the_server(small) -> None:
    """Otherwise SEAL would fail in the middle of a query."""
    querier = small.querier
    chain, secret = querier._contexts.low, querier._secrets[-1]
    rotations = querier._contexts.seal.GaloisKeys()
    step = querier.parameters.rotations[-1][0] + 1
    querier._contexts.seal.KeyGenerator(chain.context, secret).create_galois_keys([step], rotations)
    *others, (last, _) = small.keys.sections
    keys = replace(small.keys, sections=(*others, (last, rotations.to_string())))
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


def taken_apart(message) -> tuple[dict, dict]:
    arrays: dict = {}
    return plain_of(message, arrays), arrays


def _refused(kind: type, header: dict, arrays: dict) -> None:
    """Reading a record with a right checksum raises one line, without any value of it."""
    with pytest.raises(MessageError) as caught:
        kind.from_bytes(pack(kind.kind, kind.version, header, arrays))
    text = str(caught.value)
    assert "\n" not in text
    assert "x" * 100 not in text


def test_messages_come_back_unchanged(one_of_each) -> None:
    for message in one_of_each:
        data = message.to_bytes()
        assert type(message).from_bytes(data).to_bytes() == data
        for other in one_of_each:
            if other is not message:
                with pytest.raises(MessageError, match="not a"):
                    type(other).from_bytes(data)


@pytest.mark.merge
def test_forged_header_fields_are_refused(one_of_each) -> None:
    for message in one_of_each:
        header, arrays = taken_apart(message)
        for name, value in header.items():
            for junk in JUNK:
                if junk != value or type(junk) is not type(value):
                    _refused(type(message), {**header, name: junk}, arrays)
            _refused(type(message), {key: header[key] for key in header if key != name}, arrays)
        _refused(type(message), {**header, "more": 1}, arrays)
        _refused(type(message), {**header, "key_id": "0" * 63 + "g"}, arrays)


def test_forged_contents_are_refused(one_of_each) -> None:
    for message in one_of_each:
        header, arrays = taken_apart(message)
        for name in arrays:
            empty = [np.zeros(0, np.uint8)] if arrays[name].size else []
            for wrong in (*empty, np.zeros((2, 2), np.uint8), np.zeros(4), np.zeros(4, np.int64)):
                _refused(type(message), header, {**arrays, name: wrong})
            _refused(type(message), header, {key: arrays[key] for key in arrays if key != name})
            _refused(type(message), {**header, name.partition("/")[0]: "text"}, arrays)
        _refused(type(message), header, {**arrays, "more": np.zeros(1, np.uint8)})


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_as_keys_are_refused_or_unusable(small, seed: int) -> None:
    """SEAL reads keys that others sent: damage in them must raise MessageError, whatever it hits."""
    rng = np.random.default_rng(seed)
    public = bytearray(small.public.key)
    sections = [tuple(map(bytearray, section)) for section in small.keys.sections]
    parts = [part for section in sections for part in section if part]
    for data in (public, *(parts[place] for place in rng.integers(0, len(parts), 2))):
        for _ in range(rng.integers(1, 6)):  # most of it in the headers that SEAL parses
            place = rng.integers(0, 200 if rng.random() < 0.8 else len(data))
            data[min(int(place), len(data) - 1)] = int(rng.integers(256))
    key = bytes(public) if seed % 2 else bytes(public[: rng.integers(1, len(public))])
    with contextlib.suppress(MessageError):
        Client(replace(small.public, key=key, key_id=digest_of(key)), "c0").encrypt([[1, 2, 3, 4]], "q1")
    with contextlib.suppress(MessageError):
        Server(replace(small.keys, sections=tuple((bytes(a), bytes(b)) for a, b in sections)))


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
