"""The log of a site as a page for an auditor: one file, no script, made for paper as well."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from onefold.report.html import style

__all__ = ["site_log_page"]

PAPER = """
main { max-width: none; } td { overflow-wrap: anywhere; } code { font-size: .8rem; }
@page { size: A4 landscape; margin: 14mm; }
@media print { body { font-size: 9pt; } }
"""
COLUMNS = ("no.", "time (UTC)", "what", "querier", "purpose", "rows", "more", "sum")


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
    title = f"Log of site {exported['site']}"
    facts = (
        f"Exported {exported['exported']}, {exported['count']} entries, each with the sum of the one before.",
        f"Sum of the last entry: {exported['head']}",
        f"Signatures of queriers that were checked: {exported['signatures']}. "
        f"Answers to queries without a signature: {exported['unsigned']}; who asked these is the server's "
        "word.",
        "Whoever can write the site's files could have left out entries and written all later ones anew: "
        "compare number and sum with those noted elsewhere.",
    )
    told = "\n".join(f"<li>{escape(text)}</li>" for text in facts)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in COLUMNS)
    rows = "\n".join(_row(entry) for entry in exported["entries"])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{style()}{PAPER}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<ul>
{told}
</ul>
<div class="scroll"><table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
</main>
</body>
</html>
"""


def _row(entry: Mapping[str, Any]) -> str:
    facts = entry["facts"]
    querier = str(facts.get("querier", ""))
    if facts.get("id"):
        querier += f" (key {facts['id']})"
    rows = facts.get("rows", facts.get("asked", facts.get("allowed")))
    cells = (
        str(entry["number"]),
        str(entry["time"]),
        str(entry["event"]),
        querier,
        str(facts.get("purpose") or facts.get("stated") or ""),
        "" if rows is None else str(rows),
        _more(entry["event"], facts),
    )
    plain = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f"<tr>{plain}<td><code>{escape(str(entry['sum']))}</code></td></tr>"


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
