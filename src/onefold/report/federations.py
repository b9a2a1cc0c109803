"""Reports of several sites: a comparison, a simulated federation, a real one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onefold.exceptions import OnefoldError
from onefold.privacy import Guarantee
from onefold.report.builders import accuracy_ends, files_section, privacy_verdict
from onefold.report.comparison import Comparison
from onefold.report.displays import AccuracyDisplay, ClassCountsDisplay
from onefold.report.document import Report, Section
from onefold.report.verdicts import Measure, class_verdict, rounded_down, rounded_up

if TYPE_CHECKING:
    from onefold.federated import Simulation

__all__ = ["of_comparison", "of_federation", "of_simulation"]

INTERVALS = (
    "Measured on {rows} rows that no site had; the intervals hold for 95 % of such sets of independent rows."
)
NO_NOISE = "No noise was added: this says nothing about privacy."
FEDERATION_GAPS = (
    "Sites that are asked see the queries; a server that holds models sees the models.",
    "Under the rule min one site that lies decides every answer.",
    "onefold cannot check that all sites use the same units, or that a row is of one person only.",
)


def of_comparison(comparison: Comparison) -> Report:
    """Report on classifiers of several sites, alone and together.

    Parameters
    ----------
    comparison : Comparison
        The classifiers and the class counts of the sites.

    Returns
    -------
    Report
        The report.
    """
    entries = comparison.entries
    n_test = comparison.facts.get("test_samples")
    values = {entry.name: entry.accuracy for entry in entries}
    counts = ClassCountsDisplay(comparison.owner_names, list(comparison.class_names), comparison.counts)
    about = [[entry.samples, entry.classes] for entry in entries]
    sections = [
        _bars(values, [entry.kind for entry in entries], n_test, "accuracy on the test samples"),
        Section("Samples of each class at each site", display=counts),
        _numbers(values, n_test, ["samples", "classes"], about),
    ]
    if comparison.notes:
        sections.append(Section("How to read this", notes=comparison.notes))
    sections += [
        Section(f"What is promised: {name}", notes=lines) for name, lines in comparison.promises.items()
    ]
    if comparison.settings:
        sections.append(Section("Settings", facts=comparison.settings))
    return Report("comparison", comparison.title, [*_gains(comparison), comparison.lead], sections)


def _gains(comparison: Comparison) -> list[str]:
    """What the sites gain by joining, and what privacy costs."""
    alone = [entry.accuracy for entry in comparison.owners]
    together = [entry.accuracy for entry in comparison.entries if entry.kind == "federated"]
    if not alone or not together:
        return []
    private = [
        f"{100 * entry.accuracy:.0f} ({entry.name})"
        for entry in comparison.entries
        if entry.kind == "private"
    ]
    cost = [f"With noise for privacy they predict {', '.join(private)}."] if private else []
    return [_joined(together[0], alone), *cost]


def _joined(together: float, alone: Sequence[float]) -> str:
    return (
        f"Together the sites predict {100 * together:.0f} of 100 rows right in one round; alone they "
        f"predict {100 * min(alone):.0f} to {100 * max(alone):.0f}."
    )


def _bars(values: Mapping[str, float], kinds: Sequence[str], n_test: int | None, label: str) -> Section:
    """Accuracies with their intervals, if the number of test rows is known."""
    ends = None if not n_test else [accuracy_ends(value, n_test) for value in values.values()]
    told = [] if not n_test else [INTERVALS.format(rows=n_test)]
    return Section(
        "Accuracy", told, display=AccuracyDisplay(list(values), list(values.values()), kinds, ends, label)
    )


def _numbers(
    values: Mapping[str, float],
    n_test: int | None,
    headers: Sequence[str] = (),
    about: Sequence[Sequence[Any]] = (),
) -> Section:
    shown = ["classifier", *headers, "accuracy"] + ["95 % interval"] * bool(n_test)
    rows = [
        [name, *(about[place] if about else ()), value, *([_interval(value, n_test)] if n_test else [])]
        for place, (name, value) in enumerate(values.items())
    ]
    return Section("The numbers", headers=shown, rows=rows)


def _interval(value: float, rows: int) -> str:
    low, high = accuracy_ends(value, rows)
    return f"{rounded_down(low, 3):.3f} to {rounded_up(high, 3):.3f}"


def of_simulation(title: str, result: Simulation, settings: Mapping[str, Any], told: Sequence[str]) -> Report:
    """Report on a federation that was simulated in one process.

    Parameters
    ----------
    title : str
        Heading of the page.
    result : Simulation
        What :func:`onefold.federated.simulate` returned.
    settings : mapping of str to Any
        Parameters of the run.
    told : sequence of str
        What a reader has to know to judge the result.

    Returns
    -------
    Report
        The report.
    """
    sizes = result.class_counts.sum(axis=1)
    sites = [f"site {place + 1}" for place in range(len(sizes))]
    values = dict(zip((f"{name} alone" for name in sites), map(float, result.alone), strict=True))
    kinds = ["alone"] * len(sites) + ["federated"]
    values["together, one round"] = float(result.federated)
    if result.honest != result.federated:
        values["together, if no site lied"] = float(result.honest)
        kinds.append("pooled")
    if math.isfinite(result.pooled):
        values["all rows in one place"] = float(result.pooled)
        kinds.append("pooled")
    counts = ClassCountsDisplay(sites, [str(name) for name in result.classes], result.class_counts.tolist())
    sections = [
        _bars(values, kinds, result.n_test, "accuracy on the test rows"),
        Section("Rows of each class at each site", display=counts),
        _numbers(values, result.n_test),
        Section("Settings", facts=settings, notes=told),
    ]
    verdict = [_joined(result.federated, result.alone), f"{simulated_verdict(result)}.", NO_NOISE]
    return Report("comparison", title, verdict, sections)


def simulated_verdict(result: Simulation) -> str:
    """What the classes that a simulated federation predicts are worth."""
    if result.gain_interval is None:
        return class_verdict([])
    gain = result.federated - result.majority
    return class_verdict([Measure("gain in accuracy", gain, result.gain_interval, 0.0)])


def of_federation(name: str, status: Mapping[str, Any], told: Sequence[str]) -> Report:
    """Report on a federation: who takes part, under which promise, and what has been asked.

    Parameters
    ----------
    name : str
        Name of the federation, or of its folder.
    status : mapping of str to Any
        What ``onefold federate status --json`` prints.
    told : sequence of str
        The same in words, line by line.

    Returns
    -------
    Report
        The report.
    """
    sites = status.get("sites", [])
    members = [site for site in sites if site.get("status") == "member"]
    kept = [site for site in members if (site.get("guarantee") or {}).get("holds", False) is True]
    verdict = [f"{len(members)} of {len(sites)} sites take part.", *_promised(kept, len(members))]
    rows = [
        [
            str(site.get("name")),
            str(site.get("status")),
            "yes" if site.get("online") else "no",
            _moment(site.get("last_seen")),
            site.get("queries", 0),
            site.get("rows_answered", 0),
            str(site.get("reason") or ""),
        ]
        for site in sites
    ]
    headers = ["site", "status", "there now", "last seen", "queries", "rows answered", "reason"]
    if not any(row[-1] for row in rows):
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    sections = [
        Section("The sites", headers=headers, rows=rows),
        Section("What was agreed", facts=_agreed(status, members)),
        Section("In words", notes=_whole_lines(told)),
    ]
    by_text: dict[str, list[str]] = {}
    for site in members:
        if site.get("guarantee"):
            by_text.setdefault(str(site["guarantee"].get("text", "")), []).append(str(site["name"]))
    for text, names in by_text.items():
        whose = f"{names[0]} promises" if len(names) == 1 else f"{', '.join(names)} promise, each"
        sections.append(Section(f"What {whose}", notes=text.split("\n")))
    sections.append(Section("What is not covered", notes=FEDERATION_GAPS))
    digests = {
        f"digest of the model of {site['name']}": site["model"] for site in members if site.get("model")
    }
    sections.append(files_section(digests))
    return Report("federation", f"Federation {name}", verdict, sections)


def _promised(kept: Sequence[Mapping[str, Any]], n_members: int) -> list[str]:
    """What members promise about their records: in full where all promise the same."""
    if not n_members:
        return ["Nobody can be asked."]
    if len(kept) < n_members:
        return [
            f"{len(kept)} of them answer with a promise of privacy that holds; the others answer without any."
        ]
    try:
        told = [privacy_verdict(Guarantee.from_dict(site["guarantee"])) for site in kept]
    except OnefoldError:  # of another version of onefold: its text is shown below
        told = [[]]
    same = (
        [f"About the rows of each: {' '.join(told[0])}"]
        if told[0] and all(lines == told[0] for lines in told)
        else []
    )
    return ["All of them answer with a promise of privacy that holds.", *same]


def _moment(stamp: Any) -> str:
    """A time of the log as people write it."""
    return "never" if not stamp else str(stamp).replace("T", " ").replace("+00:00", " UTC")


def _whole_lines(told: Sequence[str]) -> list[str]:
    """Lines of a status, each with the ones that go on below it."""
    found: list[str] = []
    for line in filter(str.strip, told):
        if line[0].isspace() and found:
            found[-1] += f"; {line.strip()}"
        else:
            found.append(" ".join(line.split()))
    return found


def _agreed(status: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How answers are combined, and what all members have in common."""
    facts = {name: status[name] for name in ("mode", "rule") if status.get(name) is not None}
    for name in ("measure", "features", "classes", "schema"):
        found = [site.get(name) for site in members]
        if found and found[0] is not None and all(each == found[0] for each in found):
            facts["digest of the schema" if name == "schema" else name] = found[0]
    return facts
