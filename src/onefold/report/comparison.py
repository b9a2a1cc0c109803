"""The numbers of a study with several sites, from which text, JSON and HTML are made."""

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

    Parameters
    ----------
    name : str
        Name of the classifier; that of a single site ends in " alone".
    kind : {"alone", "pooled", "federated", "private"}
        "alone" learns from the data of one site, "pooled" from all data in one place, "federated" from all
        sites without noise, "private" from all sites with differential privacy.
    samples : int
        Samples the classifier learned from.
    classes : int
        Classes among these samples.
    accuracy : float
        Share of the test samples it classified correctly.

    See Also
    --------
    Comparison : Several entries on the same test samples.

    Examples
    --------
    >>> Entry("north alone", "alone", samples=50, classes=2, accuracy=0.8).accuracy
    0.8
    """

    name: str
    kind: Kind
    samples: int
    classes: int
    accuracy: float


@dataclass(frozen=True)
class Comparison:
    """Classifiers on the same test samples, with the class counts of each site.

    Parameters
    ----------
    title : str
        Heading.
    lead : str
        The sentence under the heading.
    entries : sequence of Entry
        The classifiers in the order in which they are shown.
    class_names : sequence of str
        Names of the columns of ``counts``.
    counts : sequence of sequences of int
        Samples of each class (columns) at each site (rows), sites in the order of their entries.
    notes : sequence of str, default=()
        What a reader has to know to judge the numbers.
    settings : dict, default={}
        Parameters of the run.
    facts : dict, default={}
        Further numbers, written to the JSON and not shown to people; "test_samples" gives accuracies their
        intervals.
    promises : dict of str to list of str, default={}
        What is promised, in sentences, by the name of the classifier.

    See Also
    --------
    comparison_page : Show a comparison as an HTML page.

    Examples
    --------
    >>> entries = [Entry("north alone", "alone", 50, 2, 0.8), Entry("together", "federated", 90, 2, 0.9)]
    >>> comparison = Comparison("Digits", "Two classifiers.", entries, ["0", "1"], [[20, 30]])
    >>> comparison.owner_names
    ['north']
    >>> print(comparison.table())
    classifier   samples  classes  accuracy
    -----------  -------  -------  --------
    north alone       50        2    0.8000
    together          90        2    0.9000
    """

    title: str
    lead: str
    entries: Sequence[Entry]
    class_names: Sequence[str]
    counts: Sequence[Sequence[int]]
    notes: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    promises: dict[str, list[str]] = field(default_factory=dict)

    @property
    def owners(self) -> list[Entry]:
        """Entries of single sites."""
        return [entry for entry in self.entries if entry.kind == "alone"]

    @property
    def owner_names(self) -> list[str]:
        """Names of the sites, without the ending " alone" of their entries."""
        return [owner.name.removesuffix(" alone") for owner in self.owners]

    def table(self) -> str:
        """Return the entries as a plain-text table.

        Returns
        -------
        str
            One line per classifier under a heading.
        """
        rows = [(e.name, e.samples, e.classes, e.accuracy) for e in self.entries]
        return format_table(["classifier", "samples", "classes", "accuracy"], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON, with the versions of the packages.

        Returns
        -------
        dict
            The fields by name, and "versions".
        """
        return {**asdict(self), "versions": package_versions()}


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers."""
    packages = {name: version(name) for name in PACKAGES}
    return {"Python": platform.python_version(), "onefold": onefold.__version__, **packages}
