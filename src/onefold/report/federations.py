"""Reports of several sites: a comparison, a simulated federation, a real one, the log of a site."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from onefold.exceptions import OnefoldError
from onefold.privacy import Guarantee
from onefold.report.builders import (
    accuracy_ends,
    accuracy_section,
    files_section,
    outward,
    privacy_sections,
    privacy_verdict,
)
from onefold.report.displays import ClassCountsDisplay
from onefold.report.document import Report, Section
from onefold.report.evaluation import class_verdict, measures_of, number_verdict
from onefold.report.html import format_table, report_page

if TYPE_CHECKING:
    from onefold.federated import RegressionSimulation

Kind = Literal["alone", "pooled", "federated", "private"]
INTERVALS = (
    "Measured on {rows} rows that no site had; the intervals hold for 95 % of such sets of independent rows."
)
NO_NOISE = "No noise was added: this says nothing about privacy."
FEDERATION_GAPS = (
    "Sites that are asked see the queries; a server that holds models sees the models.",
    "Under the rule min one site that lies decides every answer.",
    "onefold cannot check that all sites use the same units, or that a row is of one person only.",
)
SIMULATED = (
    "The errors come from raw rows, those of one model without any noise, and no epsilon covers them: keep "
    "them to yourself. The promise is about what each site would send, and about nothing else here."
)
LOG_COLUMNS = ("no.", "time", "what", "querier", "purpose", "rows", "more", "sum")


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
    onefold.report.report_page : Show what :func:`of_comparison` makes of it.

    Examples
    --------
    >>> entries = [Entry("north alone", "alone", 50, 2, 0.8), Entry("together", "federated", 90, 2, 0.9)]
    >>> comparison = Comparison("Digits", "Two classifiers.", entries, ["0", "1"], [[20, 30]])
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

    def table(self) -> str:
        """Return the entries as a plain-text table.

        Returns
        -------
        str
            One line per classifier under a heading.
        """
        rows = [(e.name, e.samples, e.classes, e.accuracy) for e in self.entries]
        return format_table(["classifier", "samples", "classes", "accuracy"], rows)


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

    See Also
    --------
    onefold.report.report_page : Makes a page of it.

    Examples
    --------
    >>> entries = [Entry("north alone", "alone", 50, 2, 0.8), Entry("together", "federated", 50, 2, 0.9)]
    >>> report = of_comparison(Comparison("Digits", "Two classifiers.", entries, ["0", "1"], [[20, 30]]))
    >>> report.verdict[0]
    'Together the sites predict 90 of 100 rows right in one round; alone they predict 80 to 80.'
    """
    entries = comparison.entries
    n_test = comparison.facts.get("test_samples")
    values = {entry.name: entry.accuracy for entry in entries}
    sites = [entry.name.removesuffix(" alone") for entry in entries if entry.kind == "alone"]
    counts = ClassCountsDisplay(sites, list(comparison.class_names), comparison.counts)
    headers = ["classifier", "samples", "classes", "accuracy"]
    rows: list[list[Any]] = [[entry.name, entry.samples, entry.classes, entry.accuracy] for entry in entries]
    measured = []
    if n_test:
        measured = [INTERVALS.format(rows=n_test)]
        headers, rows = [*headers, "95 % interval"], [[*row, _interval(row[-1], n_test)] for row in rows]
    sections = [
        accuracy_section(values, n_test, measured, kinds=[entry.kind for entry in entries]),
        Section("Samples of each class at each site", display=counts),
        Section("The numbers", headers=headers, rows=rows),
        *([Section("How to read this", notes=comparison.notes)] if comparison.notes else []),
        *(Section(f"What is promised: {name}", notes=told) for name, told in comparison.promises.items()),
        *([Section("Settings", facts=comparison.settings)] if comparison.settings else []),
    ]
    lead = [comparison.lead] if comparison.lead else []
    return Report("comparison", comparison.title, [*_gains(comparison), *lead], sections)


def _interval(value: float, rows: int) -> str:
    low, high = outward(accuracy_ends(value, rows), 3)
    return f"{low:.3f} to {high:.3f}"


def _gains(comparison: Comparison) -> list[str]:
    """What the sites gain by joining, and what privacy costs."""
    alone, together, private = (
        [entry for entry in comparison.entries if entry.kind == kind]
        for kind in ("alone", "federated", "private")
    )
    if not alone or not together:
        return []
    shares = [100 * entry.accuracy for entry in alone]
    costs = ", ".join(f"{100 * entry.accuracy:.0f} ({entry.name})" for entry in private)
    cost = [f"With noise for privacy they predict {costs}."] if costs else []
    joined = (
        f"Together the sites predict {100 * together[0].accuracy:.0f} of 100 rows right in one round; alone "
        f"they predict {min(shares):.0f} to {max(shares):.0f}."
    )
    return [joined, *cost]


def of_simulation(title: str, result: Any, settings: Mapping[str, Any], told: Sequence[str]) -> Report:
    """Report on a federation for classes or numbers that was simulated in one process.

    Parameters
    ----------
    title : str
        Heading of the page.
    result : Simulation or RegressionSimulation
        What :func:`onefold.federated.simulate` or :func:`onefold.federated.simulate_regression` returned.
    settings : mapping of str to Any
        Parameters of the run.
    told : sequence of str
        What a reader has to know to judge the result.

    Returns
    -------
    Report
        The report.
    """
    if hasattr(result, "rmse"):
        return _of_errors(title, result, settings, told)
    counts = result.class_counts
    total, present = int(counts.sum()), (counts > 0).sum(axis=1)
    entries = [
        Entry(f"site {place + 1} alone", "alone", int(counts[place].sum()), int(present[place]), float(alone))
        for place, alone in enumerate(result.alone)
    ]
    others: list[tuple[str, Kind, float]] = [("together, one round", "federated", result.federated)]
    if result.honest != result.federated:
        others.append(("together, if no site lied", "pooled", result.honest))
    if math.isfinite(result.pooled):
        others.append(("all rows in one place", "pooled", result.pooled))
    entries += [Entry(name, kind, total, len(result.classes), float(value)) for name, kind, value in others]
    names, facts = [str(name) for name in result.classes], {"test_samples": result.n_test}
    lead = f"{simulated_verdict(result)}."
    page = of_comparison(
        Comparison(title, lead, entries, names, counts.tolist(), told, dict(settings), facts)
    )
    return replace(page, verdict=[*page.verdict, NO_NOISE])


def _of_errors(
    title: str, result: RegressionSimulation, settings: Mapping[str, Any], told: Sequence[str]
) -> Report:
    alone = zip(result.rmse_alone, result.r2_alone.tolist(), strict=True)
    rows = [
        ["always the mean", result.rmse_mean, None],
        *([f"site {place} alone", *pair] for place, pair in enumerate(alone, 1)),
        ["together, one round", result.rmse, result.r2],
        ["all rows in one place, without noise", result.rmse_pooled, result.r2_pooled],
    ]
    lead = (
        f"Together the sites are off by {result.rmse:.4g} (root mean square) in one round; alone by "
        f"{min(result.rmse_alone):.4g} to {max(result.rmse_alone):.4g}, and always predicting the mean by "
        f"{result.rmse_mean:.4g}. {simulated_verdict(result)}."
    )
    kept = result.guarantee.holds
    verdict = [lead, SIMULATED, *privacy_verdict(result.guarantee)] if kept else [lead, NO_NOISE]
    promise = privacy_sections(result.guarantee) if kept else []
    sections = [
        Section("The numbers", headers=["model", "root mean square error", "R2"], rows=rows),
        Section("In words", notes=[line for line in told if line.strip()]),
        Section("Settings", facts=settings),
        *promise,
    ]
    return Report("comparison", title, verdict, sections)


def simulated_verdict(result: Any) -> str:
    """What the classes or numbers that a simulated federation predicts are worth."""
    if hasattr(result, "rmse"):
        return number_verdict(measures_of(("R2", result.r2, result.r2_interval, 0.0)))
    gain = result.federated - result.majority
    return class_verdict(measures_of(("gain in accuracy", gain, result.gain_interval, 0.0)))


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
            *(str(site.get(name)) for name in ("name", "status")),
            "yes" if site.get("online") else "no",
            _moment(site.get("last_seen")),
            *(site.get(name, 0) for name in ("queries", "rows_answered")),
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
        kept_by = f"{len(kept)} of them answer with a promise of privacy that holds"
        return [f"{kept_by}; the others answer without any."]
    verdict = ["All of them answer with a promise of privacy that holds."]
    with suppress(OnefoldError):  # of another version of onefold: its text is shown below
        told = {" ".join(privacy_verdict(Guarantee.from_dict(site["guarantee"]))) for site in kept}
        verdict += [f"About the rows of each: {lines}" for lines in told if len(told) == 1]
    return verdict


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


def site_log_page(exported: Mapping[str, Any]) -> str:
    """Make a page of the decisions and answers that a site has noted.

    Every text is escaped. The page repeats the sums of the chain, so that it can be compared with the log.

    Parameters
    ----------
    exported : mapping of str to Any
        What ``onefold federate log export --json`` writes.

    Returns
    -------
    str
        The page; :func:`onefold.report.write_page` writes it to a file.

    See Also
    --------
    onefold.report.write_page : Write the page to a file.

    Examples
    --------
    >>> page = site_log_page({"site": "north", "entries": [], "count": 0, "head": "0" * 64,
    ...                       "signatures": 0, "unsigned": 0, "exported": "2027-01-31T12:00:00+00:00"})
    >>> "<h1>Log of site north</h1>" in page
    True
    """
    facts = (
        f"Exported {exported['exported']}, {exported['count']} entries, each with the sum of the one before.",
        f"Sum of the last entry: {exported['head']}",
        f"Signatures of queriers that were checked: {exported['signatures']}. "
        f"Answers to queries without a signature: {exported['unsigned']}; who asked these is the server's "
        "word.",
        "Whoever can write the site's files could have left out entries and written all later ones anew: "
        "compare number and sum with those noted elsewhere.",
    )
    entries = Section("Entries", headers=LOG_COLUMNS, rows=[_log_row(entry) for entry in exported["entries"]])
    return report_page(Report("log", f"Log of site {exported['site']}", facts, [entries]))


def _log_row(entry: Mapping[str, Any]) -> list[str]:
    facts, asked = entry["facts"], asked_in(entry)
    key = f" (key {facts['id']})" if facts.get("id") else ""
    who, rows = f"{asked['querier']}{key}", "" if asked["rows"] is None else str(asked["rows"])
    cells = [str(entry["number"]), _moment(entry["time"]), entry["event"], who, asked["purpose"], rows]
    return [*cells, _more(entry["event"], facts), str(entry["sum"])]


def asked_in(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Who asked, for which purpose and about how many rows, by an entry of the log of a site."""
    facts = entry["facts"]
    purpose = str(facts.get("purpose") or facts.get("stated") or "")
    rows = facts.get("rows", facts.get("asked", facts.get("allowed")))
    return {"querier": str(facts.get("querier", "")), "purpose": purpose, "rows": rows}


def _more(event: str, facts: Mapping[str, Any]) -> str:
    if event == "answered":
        how = "encrypted" if facts.get("encrypted_answers") else "in clear"
        return f"{how}, {'signed' if facts.get('signed') else 'NOT signed'}, query {facts.get('query')}"
    if event in ("approved", "denied"):
        return "every purpose" if facts.get("purpose") is None else "this purpose"
    if event == "sum-step":
        spent = f", epsilon {facts['epsilon']:g} per {facts.get('unit')}" if "epsilon" in facts else ""
        about = f"round {facts.get('round')}, contract {facts.get('contract')}"
        return f"encrypted sum: {facts.get('step')}, {about}{spent}"
    if event == "model-sent":
        return f"model {facts.get('model')}"
    return ""
