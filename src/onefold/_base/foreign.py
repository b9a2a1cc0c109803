"""What is believed of bytes that others wrote: nothing that the bytes themselves do not show.

The three rules of every reader are here. A number that says how much there is may not be larger than what
the bytes can hold (:func:`claimed`). JSON may be nested only a little (:func:`parse_json`). Whatever numpy,
zipfile, json and the like raise at damaged bytes (:data:`NOT_READABLE`) becomes one of onefold's own errors.

How names in error lines are shown is in ``onefold.exceptions``. For files of strangers that a server opens
there is a child process with limits as well: ``onefold._base.confined``.
"""

import json
import struct
import tokenize
import zipfile
import zlib
from typing import Any

from onefold.exceptions import FileFormatError

# What a damaged or hostile file makes zipfile, zlib, json, numpy and struct raise.
NOT_READABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,  # RecursionError is one
    SyntaxError,
    TypeError,
    ValueError,
)
TOO_LARGE = "opening it takes more memory than there is"
# Features that rows may have which are in no file, because an encoder makes short rows of them.
MOST_WITHOUT_BYTES = 2**20
DEEPEST = 64  # lists in lists: no description of ours has more than a dozen


def claimed(value: Any, most: int, least: int = 0) -> int:
    """Return a whole number that a file states, if it is no larger than what the file can hold.

    Parameters
    ----------
    value : object
        What the file says.
    most : int
        What there can be at most, from the bytes present.
    least : int, default=0
        What there must be at least.

    Returns
    -------
    int
        The number.

    Raises
    ------
    FileFormatError
        It is no whole number, or there cannot be so many.

    Examples
    --------
    >>> claimed(10**9, most=3500)
    Traceback (most recent call last):
    onefold.exceptions.FileFormatError: damaged: it claims to hold more than its bytes can
    """
    if type(value) is not int or value < least:
        raise FileFormatError("damaged: a count in it is none")
    if value > most:
        raise FileFormatError("damaged: it claims to hold more than its bytes can")
    return value


def parse_json(content: bytes | str) -> Any:
    """Return what a JSON text says; one that is damaged or deeply nested is refused.

    Parameters
    ----------
    content : bytes or str
        The text; bytes are in UTF-8.

    Returns
    -------
    object
        Plain values, not checked any further.

    Raises
    ------
    FileFormatError
        It is not JSON, or nested more deeply than anything onefold writes.

    Examples
    --------
    >>> parse_json(b'{"a": [1]}')
    {'a': [1]}
    """
    try:
        plain = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError, MemoryError):
        raise FileFormatError("not a JSON file, or damaged") from None
    level = [plain]
    for _ in range(DEEPEST):
        nested = [each for each in level if isinstance(each, dict | list)]
        level = [value for each in nested for value in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return plain
    raise FileFormatError("damaged: its JSON is nested too deeply")


def _no_constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are no JSON")
