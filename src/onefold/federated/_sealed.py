"""Messages of encrypted queries, as a runtime carries them: what is inside stays closed to it.

A :class:`Lock` goes with queries to the sites; each answers with :class:`SealedAnswers`; the server makes one
:class:`SealedResult` of them. Their contents are messages of :mod:`onefold.federated.fhe`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from onefold.exceptions import MessageError
from onefold.federated._fields import Labels, check_digest, check_labels, check_name

__all__ = ["Lock", "SealedAnswers", "SealedResult"]


@dataclass(frozen=True, eq=False)
class Lock:
    """Under what to answer: a querier's public key, and what its numbers mean, the same for all sites.

    Parameters
    ----------
    key_id : the name of the key. classes : the columns of answers.
    bits, bound, power, floor : a measure d becomes rint((2^bits - 1) s^power), where s, from 0 to 1, is the
        share (d - floor) / (bound - floor).
    content : the public key.
    """

    key_id: str
    classes: Labels
    bits: int
    bound: float
    power: float
    floor: float
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_digest(self.key_id)
        object.__setattr__(self, "classes", check_labels(self.classes))
        if type(self.bits) is not int or not 1 <= self.bits <= 32:
            raise MessageError("bits must be a whole number from 1 to 32")
        for name in ("bound", "power", "floor"):
            object.__setattr__(self, name, _number(getattr(self, name)))
        if not (0 <= self.floor < self.bound and self.power > 0):
            raise MessageError("the map of a lock must have 0 <= floor < bound and a positive power")
        _check_bytes(self.content)


@dataclass(frozen=True, eq=False)
class SealedAnswers:
    """What a site answers to one query under a lock."""

    query_id: str
    site: str
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_name("a query id", self.query_id)
        check_name("a site", self.site)
        _check_bytes(self.content)


@dataclass(frozen=True, eq=False)
class SealedResult:
    """What the server computed from the answers of ``sites``; only the holder of the key can read it."""

    query_id: str
    sites: tuple[str, ...]
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_name("a query id", self.query_id)
        if not isinstance(self.sites, (list, tuple)) or not self.sites:
            raise MessageError("a result must name the sites it is made of")
        names = tuple(check_name("a site", name) for name in self.sites)
        if len(set(names)) < len(names):
            raise MessageError("a result must name every site once")
        object.__setattr__(self, "sites", names)
        _check_bytes(self.content)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise MessageError("the map of a lock must be given by finite numbers")
    return float(value)


def _check_bytes(content: Any) -> None:
    if not isinstance(content, bytes) or not content:
        raise MessageError("sealed content must be bytes, at least one")
