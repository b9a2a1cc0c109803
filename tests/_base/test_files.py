"""Atomic writing."""

import os
import stat

import pytest

from onefold._base.files import atomic_write, read_saved, write_whole
from onefold.exceptions import FileFormatError, InvalidInputError


def test_file_is_replaced_only_when_written_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failed_write_leaves_no_file(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail():
        with atomic_write(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_file_is_private_only_when_asked(tmp_path):
    before = os.umask(0o022)
    try:
        for name, private in (("open", False), ("closed", True)):
            with atomic_write(tmp_path / name, private=private) as file:
                file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "open").st_mode) == 0o644
    assert stat.S_IMODE(os.stat(tmp_path / "closed").st_mode) == 0o600


def test_file_is_read_back_and_errors_name_it(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(InvalidInputError, match=r"^there is no list at .*file$"):
        read_saved(path, "there is no list", list)
    write_whole(path, b"ab")
    assert read_saved(path, "there is no list", list) == [97, 98]

    def refuse(content):
        raise FileFormatError(f"{len(content)} bytes are too few")

    with pytest.raises(FileFormatError, match=r"file: 2 bytes are too few$"):
        read_saved(path, "there is no list", refuse)
