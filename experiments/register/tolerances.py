"""How far a run may be from the stored result: ``tolerances.toml``, one table for every experiment.

.. code-block:: toml

    ["kahm/mnist"]
    "accuracy document" = { tolerance = 0.0015, at_least = 0.985 }
    "accuracy *" = 0.002

The first pattern that fits a value's name decides; ``*`` stands for any text. ``needs`` names an option
without which a value is not measured, such as the environment of another program.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from onefold.exceptions import InvalidInputError

FILE = "tolerances.toml"
Rules = Mapping[str, dict[str, Any]]  # pattern -> tolerance, at_least, needs


@cache
def read(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The rules of every experiment; nothing if the folder has no such file."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{FILE} is not TOML: {error}") from None
    return {
        experiment: {pattern: _checked(experiment, pattern, given) for pattern, given in patterns.items()}
        for experiment, patterns in content.items()
    }


def _checked(experiment: str, pattern: str, given: Any) -> dict[str, Any]:
    found = {"tolerance": given} if isinstance(given, int | float) else given
    if not isinstance(found, dict) or set(found) - {"tolerance", "at_least", "needs"}:
        raise InvalidInputError(
            f"{FILE}, {experiment}, {pattern}: only tolerance, at_least and needs are known"
        )
    if not found.get("tolerance", -1.0) >= 0:
        raise InvalidInputError(f"{FILE}, {experiment}, {pattern}: there must be a tolerance of 0 or more")
    return found


def rule(rules: Rules, name: str) -> dict[str, Any]:
    """What the first fitting pattern says about a value; empty if none fits."""
    return next((found for pattern, found in rules.items() if fits(pattern, name)), {})


def fits(pattern: str, name: str) -> bool:
    """Whether a name is of the pattern, in which only ``*`` is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
