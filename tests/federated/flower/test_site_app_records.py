"""Our messages in Flower's records: there and back, and nothing else gets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from onefold.exceptions import MessageError
from onefold.federated.flower.site_app import MOST_MESSAGES, caller_of, from_records, to_records
from onefold.federated.messages import Answers, Bundle, Failure, FailureCode, Limits, ModelParcel, Query

ROWS = np.array([[0.25, 1e-300], [np.pi, -7.0]])


def test_records_give_back_the_same_messages() -> None:
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


def with_array(array: Any) -> Callable[[Any], Any]:
    return lambda content: content.update({"messages": ArrayRecord({"bundle": array})})


def with_bytes(content: bytes) -> Callable[[Any], Any]:
    return with_array(Array(np.frombuffer(content, dtype=np.uint8)))


GOOD = Query("q", ROWS).to_bytes()
GARBAGE: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda c: c.clear(),
    "no messages": lambda c: c.pop("messages"),
    "another record": lambda c: c.update({"more": MetricRecord({"x": 1})}),
    "no arrays": lambda c: c.update({"messages": ConfigRecord({"bundle": 1})}),
    "two arrays": lambda c: c["messages"].update({"more": Array(np.zeros(3))}),
    "an empty bundle": with_bytes(Bundle(()).to_bytes()),
    "a bundle of nonsense": with_bytes(Bundle((b"nonsense",)).to_bytes()),
    "a damaged message": with_bytes(Bundle((GOOD, GOOD[:-1])).to_bytes()),
    "no bundle": with_bytes(GOOD),
    "a bundle in a bundle": with_bytes(Bundle((Bundle((GOOD,)).to_bytes(),)).to_bytes()),
    "numbers": with_array(Array(np.full((2, 2), np.nan))),
    "a number": with_array(Array(np.array(1.0))),
    "no array inside": with_array(Array("float64", (2, 2), "numpy.ndarray", b"junk")),
    "another way of writing": with_array(Array("float64", (2, 2), "pickle", b"junk")),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_malformed_records_are_refused_with_one_line(kind: str) -> None:
    with pytest.raises(MessageError) as caught:
        from_records(broken(GARBAGE[kind]))
    assert "\n" not in str(caught.value)


def test_array_of_objects_is_not_unpickled() -> None:
    import io

    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    array = Array("object", (1,), "numpy.ndarray", file.getvalue())
    with pytest.raises(MessageError):
        from_records(broken(with_array(array)))


def test_records_that_are_too_large_are_refused_unread() -> None:
    content = to_records([Query("q", np.zeros((10, 10)))])
    with pytest.raises(MessageError, match="larger"):
        from_records(content, Limits(max_rows=9))
    with pytest.raises(MessageError, match="larger"):
        from_records(content, Limits(max_bytes=799))
    with pytest.raises(MessageError, match="not too many"):
        from_records(to_records([Failure("q", "s", FailureCode.INTERNAL)] * (MOST_MESSAGES + 1)))


def test_many_messages_become_few_records() -> None:
    """Flower stores every record and array by itself: a thousand small ones would take minutes."""
    queries = [Query(f"q{i}", np.full((1 + i % 3, 2), float(i))) for i in range(100)]
    content = to_records(queries)
    assert sum(len(record) for record in content.values()) == 1
    for sent, found in zip(queries, from_records(content), strict=True):
        np.testing.assert_array_equal(sent.features, found.features)


@pytest.mark.parametrize("name", [None, 7, b"someone"])
def test_name_of_the_querier_must_be_a_text(name: Any) -> None:
    content = to_records([Query("q", ROWS)])
    if name is not None:
        content["caller"] = ConfigRecord({"name": name})
    with pytest.raises(MessageError):
        caller_of(content)
