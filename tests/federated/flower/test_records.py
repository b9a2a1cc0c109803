"""Our messages in Flower's records: there and back, and nothing else gets through."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from onefold.exceptions import MessageError
from onefold.federated.flower.records import MOST_MESSAGES, caller_of, from_records, to_records
from onefold.federated.messages import Answers, Failure, FailureCode, Limits, ModelParcel, Query

ROWS = np.array([[0.25, 1e-300], [np.pi, -7.0]])


def test_messages_come_back_as_they_were() -> None:
    answers = Answers("q", "north", ("a", "b"), "euclidean", None, np.array([[0.5, np.inf]]))
    sent = [
        Query("q", ROWS),
        Query("r", ROWS.astype(np.float32)),
        answers,
        ModelParcel("north", b"\x00bytes"),
    ]
    content = to_records([*sent, Failure("q", "s", FailureCode.INTERNAL)], caller="someone")
    query, single, back, parcel, failure = from_records(content)
    np.testing.assert_array_equal(query.features, ROWS)
    assert single.features.dtype == np.float32
    np.testing.assert_array_equal(back.values, answers.values)
    assert parcel.content == b"\x00bytes"
    assert failure.code is FailureCode.INTERNAL
    assert caller_of(content) == "someone"


def broken(change: Callable[[Any], Any]) -> RecordDict:
    content = to_records([Query("q", ROWS)], caller="someone")
    change(content)
    return content


GARBAGE: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda c: c.clear(),
    "no arrays": lambda c: c.pop("arrays-0"),
    "no header": lambda c: c.pop("header-0"),
    "another record": lambda c: c.update({"more": MetricRecord({"x": 1})}),
    "a gap in the numbers": lambda c: c.update({"header-2": c["header-0"], "arrays-2": c["arrays-0"]}),
    "records swapped": lambda c: c.update({"header-0": c["arrays-0"], "arrays-0": c["header-0"]}),
    "no JSON": lambda c: c.update({"header-0": ConfigRecord({"json": "{nonsense"})}),
    "JSON of a list": lambda c: c.update({"header-0": ConfigRecord({"json": "[]"})}),
    "deep JSON": lambda c: c.update({"header-0": ConfigRecord({"json": "[" * 100_000})}),
    "bytes for JSON": lambda c: c.update({"header-0": ConfigRecord({"json": b"{}"})}),
    "another field": lambda c: c["header-0"].update({"more": "x"}),
    "NaN": lambda c: c.update({"arrays-0": ArrayRecord({"features": Array(np.full((2, 2), np.nan))})}),
    "integers": lambda c: c.update({"arrays-0": ArrayRecord({"features": Array(np.ones((2, 2), int))})}),
    "three dimensions": lambda c: c.update(
        {"arrays-0": ArrayRecord({"features": Array(np.ones((2, 2, 2)))})}
    ),
    "no array inside": lambda c: c.update(
        {"arrays-0": ArrayRecord({"features": Array("float64", (2, 2), "numpy.ndarray", b"junk")})}
    ),
    "another way of writing": lambda c: c.update(
        {"arrays-0": ArrayRecord({"features": Array("float64", (2, 2), "pickle", b"junk")})}
    ),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_refused_in_one_line(kind: str) -> None:
    with pytest.raises(MessageError) as caught:
        from_records(broken(GARBAGE[kind]))
    assert "\n" not in str(caught.value)


def test_an_array_of_objects_is_not_unpickled() -> None:
    import io

    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    array = Array("object", (1,), "numpy.ndarray", file.getvalue())
    content = broken(lambda c: c.update({"arrays-0": ArrayRecord({"features": array})}))
    with pytest.raises(MessageError):
        from_records(content)


def test_too_much_is_refused_before_it_is_read() -> None:
    content = to_records([Query("q", np.zeros((10, 10)))])
    with pytest.raises(MessageError, match="larger"):
        from_records(content, Limits(max_rows=9))
    with pytest.raises(MessageError, match="larger"):
        from_records(content, Limits(max_bytes=799))
    header = json.dumps({"x": "y"})
    many = {f"header-{i}": ConfigRecord({"json": header}) for i in range(MOST_MESSAGES + 1)}
    many |= {f"arrays-{i}": ArrayRecord({}) for i in range(MOST_MESSAGES + 1)}
    with pytest.raises(MessageError, match="more messages"):
        from_records(RecordDict(many))


@pytest.mark.parametrize("name", [None, 7, b"someone"])
def test_who_asks_is_a_text(name: Any) -> None:
    content = to_records([Query("q", ROWS)])
    if name is not None:
        content["caller"] = ConfigRecord({"name": name})
    with pytest.raises(MessageError):
        caller_of(content)
