"""Records: what is declared is what is read; foreign bytes are bounded, checked and refused in one line."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from onefold._base import records
from onefold._base.arrays import Floats, Labels
from onefold._base.records import Content, Record, WholeArray, kind_of, record
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError, OnefoldError


class Colour(StrEnum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Part:
    size: int
    values: Floats


@record
class Sample(Record, kind="sample"):
    name: str
    values: Floats
    counts: WholeArray
    labels: Labels
    parts: tuple[Part, ...] = ()
    about: dict[str, float] = dataclasses.field(default_factory=dict)
    colour: Colour = Colour.RED
    content: Content = b""

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.counts):
            raise InvalidInputError("a sample needs one label per count")


def sample(**changes: object) -> Sample:
    values = {
        "name": "north",
        "values": np.asfortranarray(np.arange(6.0).reshape(3, 2)),
        "counts": np.array([1, 2]),
        "labels": np.array(["a", "\u00e9"]),
        "parts": (Part(1, np.ones(2)), Part(2, np.zeros((0, 3)))),
        "about": {"x": 0.1},
        "content": b"bytes",
    }
    return Sample(**{**values, **changes})  # type: ignore[arg-type]


def same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))  # type: ignore[arg-type]
    return type(one) is type(other) and one == other


def test_record_is_the_same_after_its_bytes() -> None:
    before = sample()
    after = Sample.from_bytes(before.to_bytes())
    assert same(before, after)
    assert after.values.flags.f_contiguous
    assert not after.values.flags.writeable
    assert after.to_bytes() == before.to_bytes()
    assert kind_of(before.to_bytes()) == "sample"


def test_record_is_the_same_after_its_file(tmp_path) -> None:
    sample().save(tmp_path / "s")
    assert same(Sample.load(tmp_path / "s"), sample())
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    assert kind_of(tmp_path / "s") == "sample"
    with pytest.raises(InvalidInputError, match="there is no sample file at"):
        Sample.load(tmp_path / "none")


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"name": 3}, "name: "),
        ({"values": [1.0]}, "values: must be an array"),
        ({"values": np.array([1])}, "values: must be an array of the right kind"),
        ({"values": np.zeros((1, 1, 1, 1))}, "values: .*dimensions"),
        ({"values": np.array([np.nan])}, "values: must hold finite numbers"),
        ({"counts": np.array([1.0, 2.0])}, "counts: "),
        ({"labels": np.array(["a"])}, "one label per count"),
        ({"parts": (Part(1, np.ones(2)), 3)}, "parts"),
        ({"about": {"x": float("inf")}}, "about"),
        ({"colour": "green"}, "colour"),
        ({"content": "text"}, "content: must be bytes"),
        ({"more": 1}, "more"),
    ],
)
def test_wrong_field_is_named_without_its_value(changes, said) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        sample(**changes)
    assert "\n" not in str(caught.value)


def test_values_are_never_quoted() -> None:
    with pytest.raises(InvalidInputError) as caught:
        sample(name={"secret": 4711})
    assert "4711" not in str(caught.value)
    text = json.dumps({"kind": "sample", "version": 1, "fields": {"name": 4711}})
    with pytest.raises(FileFormatError) as caught:
        Sample.from_bytes(records.pack("sample", 1, {"name": 4711}, {}))
    assert "4711" not in str(caught.value)
    assert text


def test_other_kind_and_newer_version_are_refused_by_name() -> None:
    with pytest.raises(FileFormatError, match="it holds a letter, not a sample"):
        Sample.from_bytes(records.pack("letter", 1, {}, {}))
    with pytest.raises(FileFormatError, match="a sample of format 2, this version of onefold reads up to 1"):
        Sample.from_bytes(records.pack("sample", 2, {}, {}))


def test_every_changed_byte_is_refused() -> None:
    content = sample().to_bytes()
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(OnefoldError):
            Sample.from_bytes(changed)


@given(st.integers(0, 600))
def test_every_cut_is_refused(length) -> None:
    content = sample().to_bytes()
    with pytest.raises(FileFormatError):
        Sample.from_bytes(content[: min(length, len(content) - 1)])


def test_sizes_are_bounded_before_anything_is_read() -> None:
    with pytest.raises(FileFormatError, match="larger than allowed"):
        Sample.from_bytes(sample().to_bytes(), most_bytes=100)
    with pytest.raises(FileFormatError, match="damaged"):
        Sample.from_bytes((2**40).to_bytes(8, "little") + b"{}")
    deep = b'{"__metadata__": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    with pytest.raises(FileFormatError):
        Sample.from_bytes(len(deep).to_bytes(8, "little") + deep)
    empty = {"values": np.zeros((10**9, 0))}
    fields = {"values": {"array": "values"}}
    with pytest.raises(FileFormatError, match="arrays do not fit"):
        Sample.from_bytes(records.pack("sample", 1, fields, empty))


def test_arrays_that_no_field_names_are_refused() -> None:
    arrays: dict[str, np.ndarray] = {}
    fields = records.plain_of(sample(), arrays)
    arrays["more"] = np.ones(1)
    with pytest.raises(FileFormatError, match="belong to nothing"):
        Sample.from_bytes(records.pack("sample", 1, fields, arrays))
    del arrays["more"], arrays["counts"]
    with pytest.raises(FileFormatError, match="counts: is an array that is not there"):
        Sample.from_bytes(records.pack("sample", 1, fields, arrays))


def test_files_of_others_are_refused() -> None:
    for content in (b"", b"PK\x03\x04", save({"x": np.ones(3)}), save({"x": np.ones(3)}, {"onefold": "x"})):
        with pytest.raises(FileFormatError):
            Sample.from_bytes(content)
        assert kind_of(content) is None


def test_kind_may_have_an_error_of_its_own() -> None:
    @record
    class Letter(Record, kind="letter"):
        error = MessageError
        name: str

    with pytest.raises(MessageError):
        Letter(3)  # type: ignore[arg-type]
    with pytest.raises(MessageError):
        Letter.from_bytes(b"nonsense")
    with pytest.raises(TypeError):
        Letter("a", name="b")  # type: ignore[misc]


def test_arrays_of_objects_are_not_saved() -> None:
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        records.pack("sample", 1, {}, {"x": np.array([object()])})
