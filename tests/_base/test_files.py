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


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
def test_file_is_closed_from_its_first_byte_unless_it_is_public(tmp_path, umask):
    before = os.umask(umask)
    try:
        for name, public in (("open", True), ("closed", False)):
            with atomic_write(tmp_path / name, public=public) as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                file.write(b"x")
            assert (
                mode
                == stat.S_IMODE(os.stat(tmp_path / name).st_mode)
                == (0o666 & ~umask if public else 0o600)
            )
    finally:
        os.umask(before)


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
