"""What a study of several owners found: the numbers every view (text, JSON, HTML) is made from."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Literal

import onefold
from onefold.report.tables import format_table

__all__ = ["Comparison", "Entry", "package_versions"]

Kind = Literal["alone", "pooled", "federated", "private"]
PACKAGES = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Entry:
    """One classifier and how well it did.

    ``kind`` is "alone" (one owner's data), "pooled" (all data in one place), "federated" (without noise) or
    "private" (federated, with differential privacy).
    """

    name: str
    kind: Kind
    samples: int
    classes: int
    accuracy: float


@dataclass(frozen=True)
class Comparison:
    """Classifiers on the same test samples, with the class counts of each owner.

    Attributes
    ----------
    title, lead : str
        Heading and the sentence under it.
    entries : sequence of Entry
        In the order in which they are shown.
    class_names : sequence of str
        Names of the columns of ``counts``.
    counts : sequence of sequences of int
        Samples of each class (columns) at each owner (rows), owners in the order of their entries.
    notes : sequence of str
        What a reader has to know to judge the numbers.
    settings : dict
        Parameters of the run.
    facts : dict
        Further numbers for machines; they are part of the JSON and not shown to people.
    """

    title: str
    lead: str
    entries: Sequence[Entry]
    class_names: Sequence[str]
    counts: Sequence[Sequence[int]]
    notes: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def owners(self) -> list[Entry]:
        """The entries of single owners."""
        return [entry for entry in self.entries if entry.kind == "alone"]

    @property
    def owner_names(self) -> list[str]:
        """The owners' names, without the word that tells their classifier from the others."""
        return [owner.name.removesuffix(" alone") for owner in self.owners]

    def table(self) -> str:
        """The entries as plain text."""
        rows = [(e.name, e.samples, e.classes, e.accuracy) for e in self.entries]
        return format_table(["classifier", "samples", "classes", "accuracy"], rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**asdict(self), "versions": package_versions()}


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    packages = {name: version(name) for name in PACKAGES}
    return {"Python": platform.python_version(), "onefold": onefold.__version__, **packages}
