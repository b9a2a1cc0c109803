"""The querier: results that it refuses, and its key file."""

from __future__ import annotations

import stat

import numpy as np
import pytest

from onefold._base.records import pack, plain_of
from onefold.exceptions import DecryptionError, FileFormatError, InvalidInputError, MessageError
from onefold.federated.fhe import Client, Querier
from onefold.federated.fhe.messages import EncryptedResult
from onefold.federated.fhe.roles import SecretKey


def test_result_and_answers_of_another_key_are_refused(small) -> None:
    stranger = Querier(3, 4)
    result = small.server.aggregate(small.messages(np.zeros((3, 1, 4), dtype=int)))
    with pytest.raises(MessageError, match="another key"):
        stranger.decrypt(result)
    forged = EncryptedResult(**{**result.__dict__, "key_id": stranger.key_id})
    with pytest.raises(DecryptionError, match="noise"):
        stranger.decrypt(forged)
    with pytest.raises(MessageError, match="another key"):
        small.server.aggregate([Client(stranger.public_key(), "x").encrypt([[1, 2, 3, 4]], "q1")])


def test_result_that_miscounts_the_sites_is_refused(small) -> None:
    result = small.server.aggregate(small.messages(np.zeros((2, 1, 4), dtype=int)))
    with pytest.raises(DecryptionError, match="check"):
        small.querier.decrypt(EncryptedResult(**{**result.__dict__, "n_answered": 3}))


def test_key_file_is_private_and_gives_the_same_querier(small, tmp_path) -> None:
    path = tmp_path / "secret.key"
    small.querier.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    result = small.server.aggregate(small.messages(np.eye(3, 4, dtype=int)[:, None]))
    again = Querier.load(path)
    assert again.key_id == small.querier.key_id
    assert np.array_equal(again.decrypt(result), small.querier.decrypt(result))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FileFormatError):
        Querier.load(path)


def test_key_file_without_a_whole_setting_is_refused(small, tmp_path) -> None:
    path = tmp_path / "secret.key"
    small.querier.save(path)
    kept, arrays = SecretKey.load(path), {}
    fields = plain_of(kept, arrays)
    for wrong in ({"bits": None}, {"n_clients": 0}, {"key_id": "0" * 64}, {"more": 1}, {"n_classes": "4"}):
        path.write_bytes(pack("secret key", 1, {**fields, **wrong}, arrays))
        with pytest.raises(FileFormatError):
            Querier.load(path)
    for name in arrays:
        for wrong in ({}, {name: arrays[name][:100]}, {name: arrays[name][::-1]}):
            others = {key: array for key, array in arrays.items() if key != name}
            path.write_bytes(pack("secret key", 1, fields, {**others, **wrong}))
            with pytest.raises(FileFormatError):
                Querier.load(path)


def test_missing_key_file_is_refused_with_its_path(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match=r"there is no secret key file at .*none\.key"):
        Querier.load(tmp_path / "none.key")
