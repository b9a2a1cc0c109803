"""Messages: what goes in comes out, and nothing else gets in."""

import hashlib
import json
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from onefold._base.records import Record, pack, plain_of, record
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated import messages
from onefold.federated.contract import schema_fields
from onefold.federated.messages import (
    CARRIED,
    Answers,
    Bundle,
    Failure,
    FailureCode,
    Limits,
    ModelParcel,
    Profile,
    Query,
    QueryKey,
    Refusal,
    SealedAnswers,
    SealedResult,
    from_bytes,
    plain_labels,
)
from onefold.privacy import OptimalNoise
from onefold.tables import Field, Schema

ROWS = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
GUARANTEE = OptimalNoise(1.0, delta=1e-3, sensitivity=1.0).guarantee(3, 100).to_dict()
DIGEST = hashlib.sha256(b"model").hexdigest()
SCHEMA = Schema([Field("age", low=0, high=100), Field("ward", "string", levels=("a", "b"))])


def examples() -> list[messages.Message]:
    return [
        Query("q-1", ROWS),
        Query("q-1", ROWS.astype(np.float32)),
        Answers("q-1", "north", (3, -7), "rms", 0.5, np.array([[0.0, 1.0], [0.25, 0.5]])),
        Answers(
            "q-1", "north", ("ja", "nein"), "euclidean", None, np.array([[0.0, np.inf]], dtype=np.float32)
        ),
        Profile("north", (1, 2), "max", 2.0, 3, GUARANTEE, DIGEST),
        Profile("north", ("é",), "euclidean", None, 3, None, DIGEST),
        ModelParcel("north", b"any bytes \x00\xff"),
        Failure("q-1", "north", FailureCode.INTERNAL),
        with_schema(),
        Refusal("north", "other-schema: field 'age'"),
        QueryKey(DIGEST, ("ja", "nein"), 8, 2.5, 1.0, 0.5, b"a key"),
        QueryKey(DIGEST, (1, 2), 8, 2.5, 1.0, 0.5, b"a key", looks=4, knots=(0.5, 0.75, 2.5)),
        SealedAnswers("q-1", "north", b"\x00\xff"),
        SealedResult("q-1", ("north", "south"), b"\x00\xff"),
    ]


def with_schema(**changes) -> Profile:
    given = {"schema": SCHEMA.digest, "schema_fields": schema_fields(SCHEMA.field_digests)} | changes
    return Profile("north", (1, 2), "rms", 1.0, 3, None, DIGEST, **given)


def taken_apart(message: messages.Message) -> tuple[dict, dict]:
    """The JSON values of a message and its arrays."""
    arrays: dict = {}
    return plain_of(message, arrays), arrays


def put_together(
    fields, arrays, kind: str = "query", version: int = 1, limits: Limits | None = None
) -> messages.Message:
    """Read a message of any fields and arrays, with a checksum that is right."""
    return from_bytes(pack(kind, version, fields, arrays), limits)


def same(one: messages.Message, other: messages.Message) -> bool:
    return type(one) is type(other) and one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("message", examples(), ids=lambda message: type(message).__name__)
def test_messages_come_back_unchanged(message) -> None:
    assert same(from_bytes(message.to_bytes()), message)
    fields, arrays = taken_apart(message)
    assert same(put_together(json.loads(json.dumps(fields)), arrays, message.kind), message)


def test_a_message_cannot_be_changed_and_shows_no_rows() -> None:
    rows = ROWS.copy()
    query = Query("q", rows)
    rows[0, 0] = 99.0
    assert query.features[0, 0] == 0.1  # a copy
    for array in (query.features, from_bytes(query.to_bytes()).features):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0
    with pytest.raises(AttributeError):
        query.id = "other"
    assert "0.1" not in repr(query)
    assert "0.25" not in repr(examples()[2])
    assert "any" not in repr(ModelParcel("north", b"any bytes"))


@pytest.mark.parametrize("message", examples(), ids=lambda message: type(message).__name__)
def test_any_flipped_bit_and_any_cut_is_found(message) -> None:
    data = message.to_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(data), size=min(len(data), 200), replace=False):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(MessageError):
            from_bytes(bytes(damaged))
    for length in range(len(data)):
        with pytest.raises(MessageError):
            from_bytes(data[:length])
    with pytest.raises(MessageError):
        from_bytes(data + b"\0")


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    for candidate in (data, len(data).to_bytes(8, "little") + data):
        with pytest.raises(MessageError) as caught:
            from_bytes(candidate)
        assert "\n" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50)
@given(json_values, st.sampled_from(sorted(messages.KINDS)), st.binary(max_size=40))
def test_garbage_with_a_right_checksum_is_refused(fields, kind, content) -> None:
    array = np.frombuffer(content, dtype=np.uint8)
    for arrays in ({}, {"content": array}, {"features": array.reshape(1, -1).astype(float)}):
        with pytest.raises(MessageError):
            put_together(fields, arrays, kind)


@settings(max_examples=200)
@given(st.sampled_from(range(len(examples()))), st.data())
def test_any_field_replaced_by_garbage_is_refused_or_valid(number: int, data) -> None:
    """One field becomes anything: the outcome is a MessageError or a message that holds together."""
    example = examples()[number]
    fields, arrays = taken_apart(example)
    shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    kinds = st.sampled_from([np.float32, np.float64, np.int64, np.bool_, np.uint8])
    field = data.draw(st.sampled_from(sorted({*fields, "further"})))
    if field in arrays:
        arrays[field] = data.draw(npst.arrays(kinds, shapes))
    else:
        fields[field] = data.draw(json_values)
    try:
        message = put_together(fields, arrays, example.kind)
    except MessageError:
        return
    assert same(from_bytes(message.to_bytes()), message)


def raw(header: bytes, rest: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + rest


@pytest.mark.parametrize("text", [b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b"1" * 5000, b"null"])
def test_malformed_headers_are_refused(text: bytes) -> None:
    inner = json.dumps({"__metadata__": {"onefold": "0" * 64 + text.decode("latin-1")}}).encode()
    for data in (raw(text), raw(inner)):
        with pytest.raises(MessageError):
            from_bytes(data)


@pytest.mark.parametrize(
    "about",
    [
        {"dtype": "F64", "shape": [2**47, 2**47], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [-1, -1], "data_offsets": [0, 8]},
        {"dtype": "BF16", "shape": [1, 4], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [True, 1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1, 1], "data_offsets": [0, 2**60]},
        {"dtype": "F64", "shape": [0, 2**40], "data_offsets": [0, 0]},
        {"dtype": "F64", "shape": [1, 1]},
        [],
        None,
    ],
)
def test_headers_that_misdescribe_arrays_are_refused(about) -> None:
    data = Query("q", np.ones((1, 1))).to_bytes()
    length = int.from_bytes(data[:8], "little")
    plain = json.loads(data[8 : 8 + length])
    plain["features"] = about
    with pytest.raises(MessageError):
        from_bytes(raw(json.dumps(plain).encode(), data[8 + length :]))


@pytest.mark.parametrize(
    "name", ["", "a" * 65, "../x", "a/b", "a\nb", ".hidden", "-rf", "é", "a b", 3, None, "a\x1b[0m"]
)
def test_invalid_names_are_refused(name) -> None:
    for make in (
        lambda: Query(name, ROWS),
        lambda: Answers("q", name, (1,), "rms", 1.0, np.zeros((1, 1))),
        lambda: Answers(name, "s", (1,), "rms", 1.0, np.zeros((1, 1))),
        lambda: Profile(name, (1,), "rms", 1.0, 3, None, DIGEST),
        lambda: ModelParcel(name, b"x"),
        lambda: Failure("q", name, FailureCode.INTERNAL),
    ):
        with pytest.raises(MessageError):
            make()


@pytest.mark.parametrize(
    "features",
    [
        ROWS.tolist(),
        ROWS.astype(int),
        ROWS[0],
        ROWS[:0],
        ROWS[:, :0],
        np.full((1, 1), np.nan),
        np.full((1, 1), np.inf),
        ROWS.astype(np.float16),
        ROWS.astype(np.longdouble) if np.longdouble != np.float64 else None,
        ROWS.astype(object),
        None,
    ],
)
def test_invalid_features_are_refused(features) -> None:
    with pytest.raises(MessageError):
        Query("q", features)


@pytest.mark.parametrize(
    "measure, scale, values",
    [
        ("rms", 1.0, [[0.0, np.nan]]),
        ("rms", 1.0, [[0.0, 1.0000001]]),
        ("rms", 1.0, [[0.0, -1e-9]]),
        ("rms", 1.0, [[0.0, np.inf]]),
        ("euclidean", None, [[0.0, np.nan]]),
        ("euclidean", None, [[0.0, -1.0]]),
        ("rms", 1.0, [[0.0]]),
        ("rms", 1.0, [[0.0, 0.0, 0.0]]),
        ("rms", None, [[0.0, 0.0]]),
        ("rms", 0.0, [[0.0, 0.0]]),
        ("rms", np.nan, [[0.0, 0.0]]),
        ("rms", np.inf, [[0.0, 0.0]]),
        ("rms", True, [[0.0, 0.0]]),
        ("rms", "1", [[0.0, 0.0]]),
        ("euclidean", 1.0, [[0.0, 0.0]]),
        ("cosine", 1.0, [[0.0, 0.0]]),
        (["rms"], 1.0, [[0.0, 0.0]]),
    ],
)
def test_answers_out_of_range_are_refused(measure, scale, values) -> None:
    with pytest.raises(MessageError):
        Answers("q", "s", (1, 2), measure, scale, np.array(values))


@pytest.mark.parametrize(
    "classes",
    [
        (),
        (1, 1),
        (1, "a"),
        (1, True),
        (1.0,),
        ("",),
        ("a\nb",),
        ("x" * 201,),
        (2**63,),
        "ab",
        None,
        3,
        ([1],),
        {1: 2},
    ],
)
def test_invalid_classes_are_refused(classes) -> None:
    with pytest.raises(MessageError):
        Profile("s", classes, "rms", 1.0, 3, None, DIGEST)


def test_labels_of_arrays_become_plain() -> None:
    assert plain_labels(np.array([2, 1], dtype=np.uint8)) == (2, 1)
    assert plain_labels(np.array(["b", "a"])) == ("b", "a")
    assert all(type(label) is int for label in plain_labels(np.arange(3)))
    with pytest.raises(MessageError):
        plain_labels(np.array([0.5]))


@pytest.mark.parametrize(
    "change",
    [
        {"entry": {"epsilon": -1, "delta": 0}},
        {"record": None},
        {"unit": "nothing"},
        {"n_features": 0},
        {"n_features": "3"},
        {"mechanism": "a\nb"},
        {"mechanism": 3},
        {"voided_by": [3]},
        {"voided_by": ["x"] * 101},
        {"sensitivity": "1"},
        {"untouched_entries": -1},
        {"labels": {"epsilon": "one", "delta": 0}},
    ],
)
def test_invalid_guarantees_are_refused(change) -> None:
    with pytest.raises(MessageError):
        Profile("s", (1,), "rms", 1.0, 3, {**GUARANTEE, **change}, DIGEST)


def test_the_words_of_a_guarantee_are_made_from_its_numbers() -> None:
    """A sender cannot have a guarantee say in words what its numbers do not."""
    forged = {**GUARANTEE, "text": "perfectly private", "holds": False, "voided_by": ["looked"], "more": 1}
    guarantee = Profile("s", (1,), "rms", 1.0, 3, forged, DIGEST).guarantee
    assert guarantee is not None
    assert not guarantee["holds"]
    assert guarantee["text"].startswith("VOID: looked")
    assert "more" not in guarantee
    with pytest.raises(MessageError):
        Profile("s", (1,), "rms", 1.0, 3, {**forged, "holds": True}, DIGEST)


@pytest.mark.parametrize("digest", ["", "0" * 63, "G" * 64, "A" * 64, 5, None])
def test_invalid_digests_are_refused(digest) -> None:
    with pytest.raises(MessageError):
        Profile("s", (1,), "rms", 1.0, 3, None, digest)


@pytest.mark.parametrize("content", [b"", "text", bytearray(b"x"), None])
def test_invalid_parcels_are_refused(content) -> None:
    with pytest.raises(MessageError):
        ModelParcel("s", content)


def test_free_text_is_no_failure_code() -> None:
    with pytest.raises(MessageError) as caught:
        Failure("q", "s", "row 17 was 0.3, 0.5")
    assert "0.3" not in str(caught.value)
    assert Failure("q", "s", "internal").code is FailureCode.INTERNAL


@pytest.mark.parametrize(
    "limits, message",
    [
        (Limits(max_rows=1), examples()[0]),
        (Limits(max_features=2), examples()[0]),
        (Limits(max_features=2), examples()[4]),
        (Limits(max_rows=1), examples()[2]),
        (Limits(max_classes=1), examples()[2]),
        (Limits(max_classes=1), examples()[4]),
        (Limits(max_bytes=40), examples()[0]),
        (Limits(max_bytes=5), examples()[6]),
    ],
)
def test_what_is_too_large_is_refused(limits, message) -> None:
    with pytest.raises(MessageError, match="larger"):
        from_bytes(message.to_bytes(), limits)


@pytest.mark.parametrize("bad", [0, -1, 1.5, np.nan, None, True])
def test_limits_must_be_whole_numbers(bad) -> None:
    with pytest.raises(InvalidInputError):
        Limits(max_rows=bad)


def test_another_version_or_kind_is_refused() -> None:
    fields, arrays = taken_apart(examples()[0])
    with pytest.raises(MessageError, match=r"query of format 2.*install a newer onefold"):
        put_together(fields, arrays, version=2)
    for version, kind in ((True, "query"), ("1", "query"), (1, "order"), (1, ["query"]), (1, "model")):
        with pytest.raises(MessageError) as caught:
            put_together(fields, arrays, kind, version)
        assert "order" not in str(caught.value)
    with pytest.raises(MessageError):
        from_bytes("hello")


def test_the_bytes_of_a_message_are_fixed() -> None:
    """The format is public: a change of these bytes is a change of version."""
    data = Failure("q1", "north", FailureCode.INTERNAL).to_bytes()
    text = (
        '{"kind": "failure", "version": 1, "fields": {"query_id": "q1", "site": "north", "code": "internal"}}'
    )
    total = hashlib.sha256(text.encode()).hexdigest()
    length = int.from_bytes(data[:8], "little")
    assert json.loads(data[8:]) == {"__metadata__": {"onefold": total + text}}
    assert len(data) == 8 + length
    floats = Query("q", np.array([[1.0]])).to_bytes()
    assert floats[-8:] == b"\x00\x00\x00\x00\x00\x00\xf0\x3f"  # little endian


@pytest.mark.parametrize(
    "make",
    [
        lambda: QueryKey("short", (1, 2), 8, 1.0, 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 1), 8, 1.0, 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 0, 1.0, 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), True, 1.0, 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, 0.0, 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, float("nan"), 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, float("inf"), 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, "1", 1.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", looks=0),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", looks=65),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", looks=True),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", knots=(0.0,)),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", knots=(0.0, 0.5)),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 2.0, 0.0, b"k", knots=(0.0, 1.0)),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", knots=(0.0, 0.5, 0.5, 1.0)),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", knots=(0.0, float("nan"), 1.0)),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", knots="01"),
        lambda: QueryKey(
            DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b"k", knots=tuple(np.linspace(0, 1, 258).tolist())
        ),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 0.0, b""),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 0.0, 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, float("nan"), 0.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, 1.0, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, -0.1, b"k"),
        lambda: QueryKey(DIGEST, (1, 2), 8, 1.0, 1.0, False, b"k"),
        lambda: SealedAnswers("q", "../x", b"k"),
        lambda: SealedAnswers("q", "north", "text"),
        lambda: SealedResult("q", (), b"k"),
        lambda: SealedResult("q", ("north", "north"), b"k"),
        lambda: SealedResult("q", "north", b"k"),
    ],
)
def test_malformed_encrypted_message_is_refused(make) -> None:
    with pytest.raises(MessageError):
        make()


# --- the contract of a table ------------------------------------------------------------------------------

SUM = "0123456789abcdef"


def test_every_field_of_a_message_without_a_default_is_told() -> None:
    fields, _ = taken_apart(Profile("north", (1, 2), "rms", 1.0, 3, None, DIGEST))
    assert put_together(fields, {}, "profile").schema is None
    for name in ("site", "classes", "measure", "scale", "n_features", "guarantee", "model_digest"):
        with pytest.raises(MessageError):
            put_together({key: value for key, value in fields.items() if key != name}, {}, "profile")


@settings(max_examples=200)
@given(
    st.none()
    | st.lists(st.tuples(st.text(max_size=300), st.from_regex(r"[0-9a-f]{16}", fullmatch=True)), min_size=1)
)
def test_profile_with_any_names_of_fields_comes_back_unchanged(sums) -> None:
    """Names are printable and short on the way, whatever they are in the schema."""
    given = {} if sums is None else {"schema": DIGEST, "schema_fields": schema_fields(sums)}
    profile = Profile("north", (1,), "rms", 1.0, 3, None, DIGEST, **given)
    assert same(from_bytes(profile.to_bytes()), profile)
    assert all(name.isprintable() and len(name) <= 200 for name, _ in profile.schema_fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": None},
        {"schema_fields": ()},
        {"schema": "short"},
        {"schema": 3},
        {"schema_fields": "ab"},
        {"schema_fields": {"age": SUM}},
        {"schema_fields": [["age"]]},
        {"schema_fields": [["age", SUM, SUM]]},
        {"schema_fields": ["ab"]},
        {"schema_fields": [[3, SUM]]},
        {"schema_fields": [["age", 3]]},
        {"schema_fields": [["age", SUM.upper()]]},
        {"schema_fields": [["age", SUM + "0"]]},
        {"schema_fields": [["a\nb", SUM]]},
        {"schema_fields": [["a\x1b[2J", SUM]]},
        {"schema_fields": [["a" * 201, SUM]]},
        {"schema_fields": [[["age"], SUM]]},
    ],
)
def test_invalid_schemas_of_profiles_are_refused(changes) -> None:
    with pytest.raises(MessageError) as caught:
        with_schema(**changes)
    assert "age" not in str(caught.value)
    fields, arrays = taken_apart(with_schema())
    with pytest.raises(MessageError):
        put_together({**fields, **changes}, arrays, "profile")


def test_profile_with_a_million_fields_is_refused_by_its_size() -> None:
    fields, arrays = taken_apart(with_schema())
    fields["schema_fields"] = [None] * 1_000_000  # nothing of it is looked at
    with pytest.raises(MessageError, match="larger"):
        put_together(fields, arrays, "profile")
    with pytest.raises(MessageError, match="larger"):
        from_bytes(with_schema().to_bytes(), Limits(max_features=2))  # two fields, and what holds for all


def test_messages_inside_a_record_keep_their_kind() -> None:
    @record
    class Letter(Record, kind="letter"):
        query: Annotated[Query, CARRIED]
        rest: tuple[Annotated[messages.Message, CARRIED], ...]

    letter = Letter(examples()[0], tuple(examples()[1:5]))
    read = Letter.from_bytes(letter.to_bytes())
    assert [type(message) for message in read.rest] == [type(message) for message in letter.rest]
    assert same(read.query, letter.query)
    with pytest.raises(InvalidInputError):
        Letter(examples()[2], ())
    assert Bundle.from_bytes(Bundle((b"a", b"")).to_bytes()).parts == (b"a", b"")


@pytest.mark.parametrize("reason", ["", "a\nb", "x" * 501, None, 3])
def test_reason_of_a_refusal_must_be_a_printable_line(reason) -> None:
    with pytest.raises(MessageError):
        Refusal("north", reason)
