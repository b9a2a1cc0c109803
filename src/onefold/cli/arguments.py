"""Types of command-line values: each refuses what no command could use."""

from __future__ import annotations

import argparse
import math
import re


def positive_int(text: str) -> int:
    """A whole number from 1 on."""
    value = _whole(text)
    if not value >= 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1 on")
    return value


def seed(text: str) -> int:
    """A whole number from 0 to 2**32 - 1."""
    value = _whole(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError("must be a whole number from 0 to 4294967295")
    return value


def jobs(text: str) -> int:
    """A number of workers, as in scikit-learn: -1 means all processors."""
    value = _whole(text)
    if value != -1 and not value >= 1:
        raise argparse.ArgumentTypeError("must be -1 or a whole number from 1 on")
    return value


def fraction(text: str) -> float:
    """A number strictly between 0 and 1."""
    value = _real(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError("must lie between 0 and 1")
    return value


def positive(text: str) -> float:
    """A positive finite number."""
    value = _real(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must be a positive number")
    return value


def not_negative(text: str) -> float:
    """A finite number from 0 on."""
    value = _real(text)
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must be a number from 0 on")
    return value


def scale(text: str) -> float | str | None:
    """``none``, ``auto`` or a positive number."""
    if text in ("none", "auto"):
        return None if text == "none" else text
    value = _real(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must be none, auto or a positive number")
    return value


def key_id(text: str) -> str:
    """The name of a key: 64 hexadecimal digits."""
    if re.fullmatch(r"[0-9a-f]{64}", text, re.ASCII) is None:
        raise argparse.ArgumentTypeError("must be the name of a key, 64 hexadecimal digits")
    return text


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a whole number") from None


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a number") from None
