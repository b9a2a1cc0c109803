"""Ledgers as JSON with a digest, so that damage and careless edits show."""

import hashlib
import json
from typing import Any

from onefold.exceptions import FileFormatError

__all__ = ["digest_of", "pack_ledger", "unpack_ledger"]

FORMAT = 2  # 1 did not say which neighbouring relation it was about


def digest_of(written: bytes) -> str:
    """What tells one file from another."""
    return hashlib.sha256(written).hexdigest()


def _digest(plain: dict[str, Any]) -> str:
    return digest_of(json.dumps(plain, sort_keys=True, allow_nan=False).encode())


def pack_ledger(plain: dict[str, Any]) -> bytes:
    """The bytes of a file."""
    content = {"format": FORMAT, **plain}
    return json.dumps({**content, "digest": _digest(content)}, indent=1, allow_nan=False).encode()


def unpack_ledger(written: bytes) -> dict[str, Any]:
    """What ``pack_ledger`` was given, if it has not been changed since."""
    try:
        plain = json.loads(written)
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise FileFormatError(f"this file is not a ledger of format {FORMAT}")
        told = plain.pop("digest", None)
        if told != _digest(plain):
            raise FileFormatError("this ledger was changed by something other than onefold")
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError("this file is not a ledger") from None
    return plain
