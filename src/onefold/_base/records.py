"""The one serialiser: a record is a frozen class with checked fields; its bytes are the file and the message.

A record is declared once, and everything else follows from the declaration::

    @record
    class Answers(Record, kind="answers"):
        site: str
        values: Floats

Its bytes are a safetensors buffer: the arrays by name, and one metadata text with the kind, the format
version and all other fields as JSON, after the SHA-256 sum of all of it. The sum shows damage and careless
edits. It is no signature: take files from people you trust.

Bytes of strangers are bounded before anything is allocated: the whole by ``most_bytes``, the header by
``LARGEST_HEADER``, every side of an array by the bytes present. What is then read is checked field by field,
strictly, and no error quotes a value. Nothing is ever unpickled.

``version`` is the format of one kind. Raise it when a program of the last version would misread a new file;
a newer version than the program knows is refused by name.
"""

import dataclasses
import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
import pydantic
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError, ValidationInfo
from pydantic_core import core_schema

from onefold._base.arrays import ARRAY_KEY, AnyArray, Arrays, stored_array
from onefold._base.arrays import ArrayField as ArrayField
from onefold._base.files import read_saved, write_whole
from onefold._base.foreign import NOT_READABLE, TOO_LARGE, parse_json
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError

LARGEST_HEADER = 2**26
LARGEST_FILE = 2**40
SUM_LENGTH = 64
METADATA = "onefold"
LENGTH = struct.Struct("<Q")
DTYPES: dict[str, str] = {
    "F64": "f8",
    "F32": "f4",
    "I64": "i8",
    "I32": "i4",
    "I16": "i2",
    "I8": "i1",
    "U64": "u8",
    "U32": "u4",
    "U16": "u2",
    "U8": "u1",
    "BOOL": "?",
}
CONFIG = ConfigDict(
    strict=True,
    extra="forbid",
    allow_inf_nan=False,
    hide_input_in_errors=True,
    arbitrary_types_allowed=True,
    val_json_bytes="utf8",
)

# The length of a file must not tell what a number is: one with a point takes the room of the longest.
TEXT_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"?|-?\d++(?P<broken>(?:\.\d++)?(?:e[+-]\d++)?)')
WIDTH = 24

T = TypeVar("T")


# --- fields that are arrays or bytes ------------------------------------------------------------------------


class _BytesField:
    """Bytes, which lie in the file as an array."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.with_info_plain_validator_function(self._checked)

    def _checked(self, value: Any, info: ValidationInfo) -> bytes:
        content = named_content(value, info)
        if not isinstance(content, bytes):
            raise InvalidInputError("must be bytes")
        return content


def named_content(value: Any, info: ValidationInfo) -> Any:
    """The bytes that a header names, where the record is read; in Python the value itself."""
    named = getattr(info.context, "named", ())
    if info.mode == "json" and isinstance(value, dict) and value.get(ARRAY_KEY) in named:
        raise InvalidInputError("is in two places")  # a copy for each would take more than the file
    content = stored_array(value, info)
    if isinstance(content, np.ndarray) and content.dtype == np.uint8 and content.ndim == 1:
        return content.tobytes()
    return content


WholeArray = Annotated[NDArray[np.int64], ArrayField("iu")]
NumberArray = Annotated[NDArray[Any], ArrayField("fiub")]
Content = Annotated[bytes, _BytesField()]


# --- records ------------------------------------------------------------------------------------------------


class Record:
    """Base of what is kept in files and sent in messages: see :func:`record`.

    Attributes
    ----------
    kind : str
        What a file of it holds, as errors name it.
    version : int
        Format of this kind.
    error : type of exception
        What wrong fields raise.
    apart : bool
        Whether it stays bytes of its own, with its kind, inside another record.
    most_bytes : int
        Bytes beyond which it is not read.
    owner_only : bool
        Whether a file of it that another account may read is refused.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    error: ClassVar[type[OnefoldError]] = InvalidInputError
    apart: ClassVar[bool] = False
    most_bytes: ClassVar[int] = LARGEST_FILE
    owner_only: ClassVar[bool] = False

    def __init_subclass__(cls, kind: str | None = None, version: int | None = None, **rest: Any) -> None:
        """Give the class its kind and the version of its format."""
        super().__init_subclass__(**rest)
        if kind is not None:
            cls.kind = kind
        if version is not None:
            cls.version = version

    def to_bytes(self, *, compact: bool = False) -> bytes:
        """Return the bytes of a file: what :meth:`save` writes and what a message carries.

        Parameters
        ----------
        compact : bool, default=False
            Leave out what can be computed again from the samples of a model: a small file that loads slowly.

        Returns
        -------
        bytes
            Equal records, and equal models, give equal bytes.
        """
        return pack(self.kind, self.version, self._content(), compact=compact)

    def _content(self) -> Any:
        """What the bytes hold."""
        return self

    @classmethod
    def _made_of(cls, text: str, arrays: Arrays) -> Self:
        """The record of such fields and arrays, checked."""
        return checked(_adapter(cls), text, arrays, cls.kind)

    @classmethod
    def from_bytes(
        cls,
        content: bytes,
        most_bytes: int | None = None,
        check: Callable[[Any, Arrays], None] | None = None,
    ) -> Self:
        """Read what :meth:`to_bytes` wrote; whatever is damaged, foreign or newer is refused in one line.

        Parameters
        ----------
        content : bytes
            The bytes.
        most_bytes : int or None, default=None
            Bytes beyond which nothing is read; None takes what the kind allows.
        check : callable or None, default=None
            Sees the JSON values and the arrays before any field is looked at, as limits of sizes do.

        Returns
        -------
        Record
            The record, or the fitted model.
        """
        try:
            most = cls.most_bytes if most_bytes is None else most_bytes
            text, arrays = unpack(content, cls.kind, cls.version, most, check)
            return cls._made_of(text, arrays)
        except OnefoldError as error:
            # Files are refused as files unless the kind has an error of its own, as messages have.
            if not isinstance(error, FileFormatError) or issubclass(cls.error, FileFormatError):
                raise
            kind = FileFormatError if cls.error is InvalidInputError else cls.error
            raise kind(str(error)) from None

    def save(self, path: str | os.PathLike[str], *, public: bool = False, compact: bool = False) -> None:
        """Write the file, all of it or nothing.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        public : bool, default=False
            Whether other accounts may read it.
        compact : bool, default=False
            Write a small file that loads slowly; see :meth:`to_bytes`.
        """
        write_whole(path, self.to_bytes(compact=compact), public=public)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the file that :meth:`save` wrote; a damaged, foreign or newer one is refused.

        Parameters
        ----------
        path : str or os.PathLike
            The file.

        Returns
        -------
        Record
            The record, or the fitted model.
        """
        return read_saved(path, f"there is no {cls.kind} file", cls.from_bytes, secret=cls.owner_only)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def record(cls: type[T]) -> type[T]:
    """Make a class of annotated fields a frozen, checked one; wrong fields raise the class's ``error``."""
    made = pydantic.dataclasses.dataclass(cls, frozen=True, eq=False, config=CONFIG)
    checked, names = made.__init__, [field.name for field in dataclasses.fields(made) if field.init]

    def __init__(self: Any, *args: Any, **values: Any) -> None:
        if len(args) > len(names) or set(names[: len(args)]) & set(values):
            raise TypeError(f"{cls.__name__} takes {len(names)} fields, each once")
        try:
            checked(self, **dict(zip(names, args, strict=False)), **values)
        except ValidationError as error:
            raise _raised(error, getattr(cls, "error", InvalidInputError)) from None

    made.__init__ = __init__  # type: ignore[method-assign]
    return made  # type: ignore[return-value]


def _raised(error: ValidationError, kind: type[OnefoldError]) -> OnefoldError:
    """What a wrong field raises: the error of its own check, where that is no general one."""
    cause = error.errors(include_url=False, include_input=False)[0].get("ctx", {}).get("error")
    special = isinstance(cause, OnefoldError) and type(cause) is not InvalidInputError
    return (type(cause) if special else kind)(first_fault(error))  # type: ignore[misc]


class _Named(dict[str, AnyArray]):
    """The arrays of a file, and the names of those that a field has named."""

    def __init__(self, arrays: Arrays, kind: str) -> None:
        super().__init__(arrays)
        self.named: set[str] = set()
        self.kind = kind


def checked(reader: TypeAdapter[T], text: str, arrays: Arrays, kind: str) -> T:
    """Check every field; an array that no field names is foreign."""
    context = _Named(arrays, kind)
    try:
        result = reader.validate_json(text, context=context)
    except ValidationError as error:
        raise FileFormatError(f"damaged: {first_fault(error)}") from None
    except MemoryError:
        raise FileFormatError(TOO_LARGE) from None
    except OnefoldError:
        raise
    except NOT_READABLE:
        raise FileFormatError(f"the contents are not those of a {kind}") from None
    if context.named != set(arrays):
        raise FileFormatError("damaged: it has arrays that belong to nothing")
    return result


def _adapter(cls: type[T]) -> TypeAdapter[T]:
    """The reader of a class, made once."""
    if "_reader" not in vars(cls):
        cls._reader = TypeAdapter(cls)  # type: ignore[attr-defined]
    return cls._reader  # type: ignore[attr-defined,no-any-return]


def first_fault(error: ValidationError) -> str:
    """Say which field is wrong and why, without its value."""
    fault = error.errors(include_url=False, include_input=False)[0]
    cause = fault.get("ctx", {}).get("error")
    reason = str(cause) if isinstance(cause, OnefoldError) else fault["msg"]
    names = [str(part) for part in fault["loc"] if isinstance(part, str)]
    return f"{'.'.join(names)}: {reason}" if names else reason


def plain_of(value: Any, arrays: Arrays, name: str = "", *, compact: bool = False) -> Any:
    """JSON values of a record's fields; arrays and bytes are put into ``arrays`` under their path.

    What has ``_kept_parts`` says itself what is kept of it; ``compact`` is for those.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
        return _texts(value)  # they live in the header
    if name and _is_apart(value):
        value = value.to_bytes()
    if isinstance(value, np.ndarray | bytes):
        return _place(value, arrays, name or "array")
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "_kept_parts"):
        value = value._kept_parts(compact)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.init}
    if isinstance(value, Mapping):
        items = {str(key): inner for key, inner in value.items()}.items()
        return {key: plain_of(inner, arrays, _below(name, key), compact=compact) for key, inner in items}
    if isinstance(value, list | tuple):
        places = enumerate(value)
        return [plain_of(each, arrays, _below(name, str(place)), compact=compact) for place, each in places]
    return value.item() if isinstance(value, np.generic) else value


def _is_apart(value: Any) -> bool:
    """Whether a value stays bytes of its own, with its kind, inside a record."""
    if isinstance(value, Record):
        return value.apart
    return hasattr(value, "to_bytes") and not isinstance(value, int) and not hasattr(value, "_kept_parts")


def _texts(array: AnyArray) -> list[str]:
    """Texts of an array, which may be that of a frame."""
    texts: list[str] = array.tolist()
    if array.ndim != 1 or not all(isinstance(text, str) for text in texts):
        raise InvalidInputError("class labels must be all strings or all numbers to be saved")
    return texts


def _below(name: str, inner: str) -> str:
    return f"{name}/{inner}" if name else inner


class _Places(dict[str, AnyArray]):
    """Arrays by their names; one that is a part of several things is kept once."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[tuple[Any, ...], str] = {}


def _place(value: AnyArray | bytes, arrays: Arrays, name: str) -> dict[str, str]:
    array = np.frombuffer(value, dtype=np.uint8) if isinstance(value, bytes) else value
    in_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    if isinstance(arrays, _Places) and array is value:
        # Whatever is in ``arrays`` stays in memory: nothing else can have its address.
        key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        name = arrays.names.setdefault(key, name)
    arrays[name] = array.T if in_columns else array
    return {ARRAY_KEY: name, **({"order": "F"} if in_columns else {})}


# --- bytes --------------------------------------------------------------------------------------------------


def pack(
    kind: str,
    version: int,
    fields: Any,
    arrays: Mapping[str, AnyArray] | None = None,
    *,
    compact: bool = False,
) -> bytes:
    """Bytes of fields, or of their JSON values and named arrays; equal contents give equal bytes."""
    from safetensors.numpy import save

    if arrays is None:
        arrays = _Places()
        fields = plain_of(fields, arrays, compact=compact)
    text = json.dumps({"kind": kind, "version": version, "fields": fields}, allow_nan=False)
    text = TEXT_OR_NUMBER.sub(lambda part: part[0].ljust(WIDTH) if part["broken"] else part[0], text)
    little = {name: _little(array) for name, array in arrays.items()}
    return bytes(save(little, metadata={METADATA: _sum(text, little) + text}))


def _little(array: AnyArray) -> AnyArray:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InvalidInputError(f"an array of {array.dtype} cannot be saved")
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(array.shape)


def _sum(text: str, arrays: Mapping[str, AnyArray]) -> str:
    total = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        total.update(f"{name}\0{arrays[name].dtype.str}\0{arrays[name].shape}".encode())
        total.update(arrays[name].reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def unpack(
    content: bytes,
    kind: str,
    version: int,
    most_bytes: int = LARGEST_FILE,
    check: Callable[[Any, Arrays], None] | None = None,
) -> tuple[str, Arrays]:
    """The JSON text of the fields, unchecked, and the arrays of a file of ``kind``."""
    from safetensors import SafetensorError, deserialize

    if not isinstance(content, bytes | bytearray | memoryview):
        raise FileFormatError("a record must be bytes")
    if len(content) > most_bytes:
        raise FileFormatError("larger than allowed")
    text = _header_text(content)
    total, text = text[:SUM_LENGTH], text[SUM_LENGTH:]
    try:
        arrays = {name: _array(about, len(content)) for name, about in deserialize(bytes(content))}  # type: ignore[no-untyped-call]
    except SafetensorError:
        raise FileFormatError("damaged: its arrays do not fit") from None
    except MemoryError:
        raise FileFormatError(TOO_LARGE) from None
    if total != _sum(text, arrays):
        raise FileFormatError("damaged: its contents do not match their checksum")
    header = _header(text)
    if header["kind"] != kind:
        raise FileFormatError(f"it holds a {header['kind'][:40]}, not a {kind}")
    if header["version"] > version:
        raise FileFormatError(
            f"it is a {kind} of format {header['version']}, this version of onefold reads up to {version}: "
            "install a newer onefold"
        )
    if check is not None:
        check(header["fields"], arrays)
    return json.dumps(header["fields"]), arrays


def kind_of(source: str | os.PathLike[str] | bytes) -> str | None:
    """Return the kind of record that a file or its content holds; None if it is no record."""
    try:
        if isinstance(source, bytes):
            return str(_header(_header_text(source)[SUM_LENGTH:])["kind"])
        with open(source, "rb") as file:
            start = file.read(LENGTH.size)
            size = os.fstat(file.fileno()).st_size  # so much would be set aside
            rest = file.read(min(LENGTH.unpack(start)[0], size, LARGEST_HEADER))
        return kind_of(start + rest)
    except (InvalidInputError, OSError, struct.error):
        return None


def _header_text(content: bytes) -> str:
    """The metadata text that safetensors carries, bounded before it is parsed."""
    head = bytes(content[: LENGTH.size])
    if len(head) < LENGTH.size:
        raise FileFormatError("not a file of onefold, or cut off")
    length = LENGTH.unpack(head)[0]
    if length > min(LARGEST_HEADER, len(content) - LENGTH.size):
        raise FileFormatError("not a file of onefold, or damaged")
    header = parse_json(bytes(content[LENGTH.size : LENGTH.size + length]))
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    text = metadata.get(METADATA) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise FileFormatError("not a file of onefold")
    return text


def _header(text: str) -> dict[str, Any]:
    header = parse_json(text)
    if not isinstance(header, dict) or set(header) != {"kind", "version", "fields"}:
        raise FileFormatError("damaged: its header cannot be read")
    version = header["version"]
    if not isinstance(header["kind"], str) or type(version) is not int or not 0 < version < LARGEST_HEADER:
        raise FileFormatError("damaged: its header cannot be read")
    return header


def _array(about: Mapping[str, Any], most: int) -> AnyArray:
    """An array in memory of its own; no side is longer than the bytes that were there."""
    code, shape = DTYPES.get(about["dtype"]), about["shape"]
    if code is None or any(side > most for side in shape):
        raise FileFormatError("damaged: its arrays do not fit")
    array: AnyArray = np.frombuffer(about["data"], dtype=np.dtype(code).newbyteorder("<")).reshape(shape)
    if code == "?" and array.view(np.uint8).max(initial=0) > 1:
        raise FileFormatError("damaged: it holds what is no truth value")
    return array.astype(array.dtype.newbyteorder("="), copy=False)
