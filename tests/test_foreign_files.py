"""Every reader, given what no program of ours wrote: a usable thing or an error of ours, in little memory."""

from __future__ import annotations

import io as streams
import itertools
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from onefold import KAHM, FoldingClassifier, io
from onefold._base.foreign import claimed, parse_json
from onefold._base.records import kind_of, pack
from onefold.exceptions import (
    FileFormatError,
    InvalidInputError,
    MessageError,
    OnefoldError,
    OnefoldWarning,
    QueryRefused,
)
from onefold.federated.messages import from_bytes
from onefold.io import _OTHERS, HOMES
from onefold.privacy import Event, Guarantee
from onefold.tables import Schema, read_table
from onefold.tables.reading import READERS
from reference.foreign import Format, formats
from reference.forging import forged, with_array
from reference.hostile import damaged, deep, forgeries, record_of, zipped

ESCAPE = "\x1b[31mred\x1b[0m\u202e\n"
X = np.random.default_rng(0).random((20, 3))
Y = np.arange(20) % 2
# A reader may take this much for what it found, beyond what any call takes.
BYTES_PER_BYTE, CONSTANT = 60, 2**24


def peak_of(call: Callable[[], object]) -> int:
    """Most memory that numpy and Python took at once during the call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused_in_little_memory(content: bytes, read: Callable[[bytes], object] = io.from_bytes) -> str:
    def call() -> None:
        with pytest.raises(OnefoldError) as caught:
            read(content)
        said.append(str(caught.value))

    said: list[str] = []
    assert peak_of(call) < CONSTANT + BYTES_PER_BYTE * len(content)
    assert said[0].isprintable()
    return said[0]


# --- faults that were found by attack -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(10**9, 0), (1, 10**9, 0), (0, 10**9)])
@pytest.mark.parametrize("name", ["/owners/0", "/centred"])
def test_model_of_a_thousand_million_empty_machines_is_refused(shape, name):
    content = with_array(io.to_bytes(KAHM(2).fit(X)), name, lambda array: np.empty(shape, array.dtype))
    assert len(content) < 10_000
    assert "do not fit" in refused_in_little_memory(content)


def test_array_that_a_thousand_fields_name_takes_no_more_memory():
    """A hull on the same arrays is a view; bytes, which would be copied, belong to one field."""
    content = io.to_bytes(KAHM(2).fit(np.random.default_rng(0).random((300, 50))))

    def change(header, arrays):
        pool = header["fields"]["model"]["fitted"]["pool_"]
        for name in ("stacks", "owners", "positions"):
            pool[name] *= 1000

    forgery = forged(content, change)
    assert peak_of(lambda: io.from_bytes(forgery)) < CONSTANT + BYTES_PER_BYTE * len(forgery)


@pytest.mark.parametrize("padding", [0, 40_000])
def test_samples_without_features_are_refused(padding):
    """30 000 of them take no byte, and the matrix of all pairs 7 GB."""
    extras = {"padding": np.zeros(padding, dtype=np.uint8)}
    content = io.to_bytes(KAHM(2).fit(X), extras, compact=True)

    def change(header, arrays):
        header["fields"]["model"]["fitted"]["n_features_in_"] = 0
        names = [next(name for name in arrays if name.endswith(end)) for end in ("/centred", "/mean")]
        arrays.update(zip(names, (np.empty((1, 30_000, 0)), np.empty((1, 0))), strict=True))

    content = forged(content, change)
    refused_in_little_memory(content)


@pytest.mark.parametrize("depth", [70, 900, 20_000])
def test_deep_json_is_refused_by_every_reader(depth, tmp_path):
    nested = b"[" * depth + b"]" * depth
    with pytest.raises(FileFormatError):
        parse_json(nested)
    text = json.dumps({"fields": "a text that becomes a list in a list in a list"}).encode()
    (tmp_path / "schema.json").write_bytes(deep(text, depth))
    with pytest.raises(InvalidInputError):
        Schema.load(tmp_path / "schema.json")
    header = f'{{"kind": "query", "version": 1, "fields": {nested.decode()}}}'
    with pytest.raises(MessageError):
        from_bytes(record_of(header, {}))


def test_json_of_the_depth_that_is_written_is_read():
    assert parse_json(b"[" * 20 + b"]" * 20)
    for constant in (b"NaN", b"Infinity", b"[-Infinity]"):
        with pytest.raises(FileFormatError):
            parse_json(constant)


@pytest.mark.parametrize(
    "classes", [None, np.array([[0, 1]]), np.array([0, 0]), np.array([0.0, np.nan, 1.0]), np.array(0)]
)
def test_classifier_without_its_classes_is_refused(classes):
    content = io.to_bytes(FoldingClassifier(batch_size=5).fit(X, Y))

    def change(header, arrays):
        if classes is None:
            del header["fields"]["model"]["fitted"]["classes_"], arrays["model/fitted/classes_"]
        else:
            arrays["model/fitted/classes_"] = classes

    refused_in_little_memory(forged(content, change))


@pytest.mark.parametrize("claim", [(10**9,), (10**6, 10**6), (10**12, 0), (10**15,)])
def test_npz_that_claims_more_than_it_holds_is_refused_before_memory_is_set_aside(claim, tmp_path):
    header, labels = streams.BytesIO(), streams.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": claim})
    np.save(labels, np.zeros(3))
    path = tmp_path / "table.npz"
    path.write_bytes(zipped({"X.npy": header.getvalue(), "y.npy": labels.getvalue()}))
    said = refused_in_little_memory(path.read_bytes(), lambda _: read_table(path))
    assert str(path) in said


def test_compressed_npz_is_read_up_to_what_deflate_can_do(tmp_path):
    path = tmp_path / "table.npz"
    np.savez_compressed(path, a=np.zeros(10**6), b=np.zeros(10**6, dtype=np.int8))
    assert len(read_table(path).columns["a"]) == 10**6
    with zipfile.ZipFile(path) as archive:
        sizes = [(member.file_size, member.compress_size) for member in archive.infolist()]
    assert all(size > 900 * packed for size, packed in sizes)  # the bound is near


def test_whatever_a_table_reader_raises_becomes_one_line_with_the_path(tmp_path, monkeypatch):
    kinds = RuntimeError("password required"), NotImplementedError(), zlib.error(), RecursionError()
    for found, raised in itertools.product(formats_of("npz", "csv", "parquet"), (*kinds, SyntaxError())):
        path = tmp_path / f"table{found.suffix}"
        path.write_bytes(found.sample)
        monkeypatch.setattr(READERS[found.suffix], "_blocks", failing(raised))
        with pytest.raises(FileFormatError, match="table"):
            read_table(path)


def failing(error: Exception) -> Callable[..., Iterator[object]]:
    def blocks(*_: object) -> Iterator[object]:
        raise error
        yield

    return blocks


def formats_of(*names: str) -> list[Format]:
    return [each for each in formats() if each.name in names]


def test_messages_show_control_characters_escaped(tmp_path):
    for error in (InvalidInputError(ESCAPE), OnefoldWarning(ESCAPE), QueryRefused(ESCAPE)):
        assert str(error).isprintable()
        assert "\\x1b[31mred" in str(error)
    (tmp_path / "schema.json").write_text(json.dumps({"fields": [{"name": ESCAPE, "type": ESCAPE}]}))
    with pytest.raises(InvalidInputError) as caught:
        Schema.load(tmp_path / "schema.json")
    assert str(caught.value).isprintable()
    event = Event(f"survey {ESCAPE}", "record", 1.0, mechanism=ESCAPE)
    assert str(event).isprintable()
    guarantee = Guarantee("record", (0.5, 0.0), (0.5, 0.0), 4, mechanism=ESCAPE, conditions=(ESCAPE,))
    assert str(guarantee).replace("\n", "").isprintable()


@pytest.mark.merge
def test_commands_show_control_characters_of_names_escaped(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,\x1b[31mb\x07\n1,2\n3,4\n")
    command = [sys.executable, "-m", "onefold", "fit", str(table), "--label", "c\x1b[2J", "--out", "model"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "\\x1b[2J" in done.stderr
    assert (done.stdout + done.stderr).replace("\n", "").isprintable()


def test_kind_and_format_of_a_foreign_file_are_not_repeated_at_length():
    content = io.to_bytes(KAHM(2).fit(X))
    for change in ({"kind": ESCAPE * 1000}, {"version": "x" * 10_000}, {"version": 10**4000}):
        changed = forged(content, lambda header, arrays, given=change: header.update(given))
        said = refused_in_little_memory(changed)
        assert len(said) < 300


def test_message_of_rows_without_columns_is_refused():
    message = pack(
        "query", 1, {"id": "q", "features": {"array": "features"}}, {"features": np.empty((2**40, 0))}
    )
    with pytest.raises(MessageError, match="do not fit"):
        from_bytes(message)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 6, 10**30])
def test_counts_are_whole_numbers_within_what_is_there(value):
    assert claimed(5, most=5) == 5
    with pytest.raises(FileFormatError):
        claimed(value, most=5)


# --- every format: damage and forgeries ---------------------------------------------------------------------

# Of how many parts of all formats, the share of all forgeries (all of them take an hour), and damages.
FEW, MORE = (4, 0.003, 4), (6, 0.02, 15)
PARTS = [
    *((part, *FEW) for part in range(FEW[0])),
    *(pytest.param(part, *MORE, marks=pytest.mark.merge) for part in range(MORE[0])),
]


@pytest.fixture(scope="module")
def samples() -> list[Format]:
    return formats()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("part", "n_parts", "share", "damages"), PARTS)
def test_changed_files_load_to_something_usable_or_raise_our_error(
    samples, part, n_parts, share, damages, tmp_path
):
    rng = np.random.default_rng(part)
    faults = []
    for each in samples[part::n_parts]:
        path = tmp_path / f"file{each.suffix}"
        forgery = forgeries(each.sample, lambda _: rng.random() < share)
        for what, content in [*damaged(each.sample, part, damages), *forgery]:
            path.write_bytes(content)
            fault = fault_of(each, path, len(content))
            if fault is not None:
                faults.append(f"{each.name}, {what}: {fault}")
    assert not faults, "\n".join(faults)


def fault_of(each: Format, path: Path, size: int) -> str | None:
    tracemalloc.start()
    try:
        with np.errstate(all="ignore"):
            each.read(path)
    except OnefoldError as error:
        if not str(error).isprintable() or len(str(error)) > 1000 + len(os.fspath(path)):
            return "an error line that is long or could steer a terminal"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return None if peak < CONSTANT + BYTES_PER_BYTE * size else f"{peak >> 20} MB for {size} bytes"


def test_there_is_a_sample_of_every_kind_that_can_be_loaded(samples):
    kinds = {kind_of(each.sample) for each in samples}
    assert {"model", *_OTHERS, *HOMES} <= kinds
