"""What members of a federation say to each other: a few frozen messages, one version, no pickle.

Every message checks itself when it is made, on both sides. It travels as *parts* (a header of JSON values and
named arrays, for runtimes with records of their own) or as *bytes* (one checksummed blob). Reading either
refuses whatever is malformed, of another version, or larger than the :class:`Limits`, with a
:class:`~onefold.exceptions.MessageError` that quotes nothing of what was received.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import MessageError
from onefold.federated._blob import pack, unpack
from onefold.federated._fields import (
    Labels,
    check_digest,
    check_guarantee,
    check_labels,
    check_measure_and_scale,
    check_name,
    check_table,
    check_values,
    frozen_copy,
    plain_labels,
)
from onefold.federated._sealed import Lock, SealedAnswers, SealedResult

__all__ = [
    "VERSION",
    "Answers",
    "Failure",
    "FailureCode",
    "Limits",
    "Lock",
    "Message",
    "ModelParcel",
    "Profile",
    "Query",
    "SealedAnswers",
    "SealedResult",
    "from_bytes",
    "from_parts",
    "plain_labels",
    "to_bytes",
    "to_parts",
]

VERSION = 1
Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class FailureCode(StrEnum):
    """Why a site did not answer: fixed words, so that no error text can carry a row of data."""

    MALFORMED = "malformed"  # the query could not be read
    TOO_LARGE = "too-large"  # more rows, features or bytes than the site takes
    WRONG_FEATURES = "wrong-features"  # another number of features than the site's model has
    RATE_LIMITED = "rate-limited"  # too many rows in the last minute: ask later
    BUDGET_SPENT = "budget-spent"  # this caller has had all the answers it will get
    UNKNOWN_CALLER = "unknown-caller"  # the site does not know who asks, or knows too many already
    NOT_READY = "not-ready"  # there is no fitted model yet
    NOT_PRIVATE = "not-private"  # a model was asked for that holds raw rows
    NO_ENCRYPTION = "no-encryption"  # encrypted answers were asked for, and the extra fhe is not installed
    SEALED_ONLY = "sealed-only"  # the site gives encrypted answers only
    UNTRUSTED_KEY = "untrusted-key"  # the owner has not allowed this querier's key
    OTHER_CLASSES = "other-classes"  # the site has a class that is not among those asked for
    INTERNAL = "internal"  # anything else; the site's own log knows more


@dataclass(frozen=True)
class Limits:
    """How large a message may be that is still read.

    The defaults let 100 000 rows or 100 000 features through, though never both: 256 MiB in all is what a
    hospital server can hold a few of, and about half of what gRPC runtimes carry in one message.
    """

    max_rows: int = 100_000
    max_features: int = 100_000
    max_classes: int = 10_000
    max_bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        for limit in fields(self):
            check_whole_number(limit.name, getattr(self, limit.name))


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked: rows of features (n, p), under an id that the answers repeat."""

    id: str
    features: NDArray[np.floating] = field(repr=False)  # a log must not show rows

    def __post_init__(self) -> None:
        _set(self, id=check_name("a query id", self.id), features=check_table("features", self.features))
        if not np.all(np.isfinite(self.features)):
            raise MessageError("features must be finite numbers")


@dataclass(frozen=True, eq=False)
class Answers:
    """What a site answers: one number per row and class it has, (n, C), in a named measure.

    ``scale`` is the factor at which a folding measure sees the data; None for the distance.
    """

    query_id: str
    site: str
    classes: Labels
    measure: str
    scale: float | None
    values: NDArray[np.floating] = field(repr=False)

    def __post_init__(self) -> None:
        _set(self, query_id=check_name("a query id", self.query_id), site=check_name("a site", self.site))
        measure, scale = check_measure_and_scale(self.measure, self.scale)
        _set(self, classes=check_labels(self.classes), measure=measure, scale=scale)
        _set(self, values=check_values(self.values, measure, len(self.classes)))


@dataclass(frozen=True, eq=False)
class Profile:
    """What a site says about itself at joining.

    ``guarantee`` is what its model promises about the rows it was fitted on (``Guarantee.to_dict``), or
    None: the answers are then functions of raw rows. ``model_digest`` is the SHA-256 sum of the model,
    ``columns`` that of the names of its columns, None where they have none.
    """

    site: str
    classes: Labels
    measure: str
    scale: float | None
    n_features: int
    guarantee: dict[str, Any] | None
    model_digest: str
    columns: str | None = None

    def __post_init__(self) -> None:
        measure, scale = check_measure_and_scale(self.measure, self.scale)
        _set(self, site=check_name("a site", self.site), classes=check_labels(self.classes))
        _set(self, measure=measure, scale=scale, guarantee=check_guarantee(self.guarantee))
        _set(self, model_digest=check_digest(self.model_digest))
        _set(self, columns=None if self.columns is None else check_digest(self.columns))
        if type(self.n_features) is not int or not 0 < self.n_features < 2**63:
            raise MessageError("n_features must be a whole number of at least 1")


@dataclass(frozen=True, eq=False)
class ModelParcel:
    """A model that travels: the bytes of an :mod:`onefold.io` file of a *private* model.

    The bytes are checked by their sum when read. Whether the model in them really is private is checked
    where it is opened, see :meth:`onefold.federated.LocalModel.from_parcel`.
    """

    site: str
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _set(self, site=check_name("a site", self.site))
        if not isinstance(self.content, bytes) or not self.content:
            raise MessageError("the content of a parcel must be bytes, at least one")


@dataclass(frozen=True, eq=False)
class Failure:
    """That a site did not answer, and why, in one of the fixed words."""

    query_id: str
    site: str
    code: FailureCode

    def __post_init__(self) -> None:
        _set(self, query_id=check_name("a query id", self.query_id), site=check_name("a site", self.site))
        try:
            _set(self, code=FailureCode(self.code))
        except ValueError:
            raise MessageError("the code of a failure is not one of the known words") from None


Message = Query | Answers | Profile | ModelParcel | Failure | Lock | SealedAnswers | SealedResult
KINDS: dict[str, type[Message]] = {
    "query": Query,
    "answers": Answers,
    "profile": Profile,
    "model": ModelParcel,
    "failure": Failure,
    "lock": Lock,
    "sealed-answers": SealedAnswers,
    "sealed-result": SealedResult,
}
NAMES = {kind: name for name, kind in KINDS.items()}
ARRAY_FIELDS = ("features", "values", "content")


def to_parts(message: Message) -> tuple[Header, Arrays]:
    """A message as a header of JSON values and named arrays."""
    if type(message) not in NAMES:
        raise MessageError("this is no message of a federation")
    header: Header = {"version": VERSION, "kind": NAMES[type(message)]}
    arrays: Arrays = {}
    for each in fields(message):
        value = getattr(message, each.name)
        if each.name == "content":
            header["sha256"] = hashlib.sha256(value).hexdigest()
            arrays["content"] = np.frombuffer(value, dtype=np.uint8)
        elif each.name in ARRAY_FIELDS:
            arrays[each.name] = value
        else:
            header[each.name] = _plain(value)
    return header, arrays


def from_parts(header: Mapping[str, Any], arrays: Mapping[str, Any], limits: Limits | None = None) -> Message:
    """The message that :func:`to_parts` took apart; every field is checked again."""
    limits = Limits() if limits is None else limits
    if not isinstance(header, Mapping) or not isinstance(arrays, Mapping):
        raise MessageError("a message must have a header and arrays")
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise MessageError(f"the message is not of version {VERSION}, the only one this program reads")
    name = header.get("kind")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise MessageError("the message is of an unknown kind")
    names = {each.name for each in fields(kind)}
    expected = {"version", "kind", *(names - set(ARRAY_FIELDS))}
    expected |= {"sha256"} if "content" in names else set()
    optional = {each.name for each in fields(kind) if each.default is not MISSING}
    if set(header) | optional != expected or set(arrays) != names & set(ARRAY_FIELDS):
        raise MessageError("the message has missing or unknown fields")
    _check_sizes(header, arrays, limits)
    values = {name: header[name] for name in names & set(header)}
    values |= {name: array for name, array in arrays.items() if name != "content"}
    if "content" in names:
        values["content"] = _content(arrays["content"], header["sha256"])
    return kind(**values)


def to_bytes(message: Message) -> bytes:
    """A message as one checksummed run of bytes.

    Examples
    --------
    >>> failure = Failure("q1", "north", FailureCode.RATE_LIMITED)
    >>> from_bytes(to_bytes(failure)).code
    <FailureCode.RATE_LIMITED: 'rate-limited'>
    """
    return pack(*to_parts(message))


def from_bytes(data: bytes, limits: Limits | None = None) -> Message:
    """The message that :func:`to_bytes` wrote; nothing in it is executed, and every field is checked."""
    limits = Limits() if limits is None else limits
    return from_parts(*unpack(data, limits.max_bytes), limits)


def _set(message: Any, **values: Any) -> None:
    """Store checked values in a frozen message while it is being made."""
    for name, value in values.items():
        object.__setattr__(message, name, value)


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _check_sizes(header: Mapping[str, Any], arrays: Mapping[str, Any], limits: Limits) -> None:
    """Refuse by size first: nothing else is looked at, and nothing copied, before that."""
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise MessageError("the arrays of a message must be numpy arrays")
    classes, n_features = header.get("classes"), header.get("n_features")
    too_large = sum(array.nbytes for array in arrays.values()) > limits.max_bytes
    too_large |= isinstance(classes, (list, tuple)) and len(classes) > limits.max_classes
    too_large |= type(n_features) is int and n_features > limits.max_features
    for name, most in (("features", limits.max_features), ("values", limits.max_classes)):
        shape: tuple[int, ...] = arrays[name].shape if name in arrays else ()
        too_large |= len(shape) == 2 and (shape[0] > limits.max_rows or shape[1] > most)
    if too_large:
        raise MessageError("the message is larger than allowed")


def _content(array: NDArray[Any], total: Any) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise MessageError("the content of a parcel must be bytes")
    content = frozen_copy(array).tobytes()
    if hashlib.sha256(content).hexdigest() != check_digest(total):
        raise MessageError("the parcel is damaged: its checksum does not match")
    return content
