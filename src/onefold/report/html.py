"""One-file HTML pages: no script, no network, everything inside.

The comparison page needs the extra ``report``; the page of a membership audit needs nothing beyond numpy.
"""

from __future__ import annotations

import base64
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onefold._base.arrays import Floats
from onefold._base.files import output_file
from onefold._base.optional import require
from onefold.report.comparison import Comparison, package_versions
from onefold.report.figures import INK, SLATE, TEAL, accuracy_bars, class_counts

if TYPE_CHECKING:  # a page needs no attack to be loaded
    from onefold.audit import AttackResult, MembershipAudit

__all__ = ["comparison_page", "membership_page", "require_page_tools", "write_page"]

SIZE, MARGIN = 320, 44  # of the ROC curve, in pixels
SMALLEST_RATE = 1e-4
STYLE = f"""
body {{ margin: 0 auto; max-width: 52rem; padding: 2rem 1rem; color: {INK}; line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .35rem .8rem; border-bottom: 1px solid #dde3ea; text-align: left; }}
td.number {{ text-align: right; }} .scroll {{ overflow-x: auto; }} svg {{ max-width: 100%; height: auto; }}
"""


def write_page(path: str | Path, page: str) -> None:
    """Write a page to a file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file.
    page : str
        The page, from :func:`comparison_page` or :func:`membership_page`.

    Raises
    ------
    InvalidInputError
        If the file cannot be written.

    See Also
    --------
    comparison_page : A page on classifiers of several sites.
    membership_page : A page on a membership audit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(pathlib.Path(folder, "page.html"), "<p>north</p>")
    ...     pathlib.Path(folder, "page.html").read_text()
    '<p>north</p>'
    """
    with output_file(path) as file:
        file.write(page.encode())


# --- comparisons ------------------------------------------------------------------------------------------


def require_page_tools() -> None:
    """Raise MissingDependencyError now rather than after a long run."""
    for module in ("jinja2", "matplotlib", "matplotlib.figure"):
        require(module, "report")


def comparison_page(comparison: Comparison) -> str:
    """Make a page with the accuracies, the class counts, the settings and the versions of a comparison.

    Every text is escaped; both figures carry a description for readers who cannot see them.

    Parameters
    ----------
    comparison : Comparison
        What the page shows.

    Returns
    -------
    str
        The page; :func:`write_page` writes it to a file.

    Raises
    ------
    MissingDependencyError
        If jinja2 or matplotlib (extra ``report``) is not installed.

    See Also
    --------
    Comparison.table : The same numbers as plain text.
    write_page : Write the page to a file.

    Examples
    --------
    >>> from onefold.report import Comparison, Entry
    >>> entries = [Entry("north alone", "alone", 50, 2, 0.8), Entry("together", "federated", 50, 2, 0.9)]
    >>> page = comparison_page(Comparison("Digits", "Two classifiers.", entries, ["0", "1"], [[20, 30]]))
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'
    """
    require_page_tools()
    jinja2 = require("jinja2", "report")
    source = files("onefold.report").joinpath("templates/comparison.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page: str = environment.from_string(source).render(
        study=comparison,
        bars=_data_uri(accuracy_bars(comparison)),
        bars_text=_describe_bars(comparison),
        heat=_data_uri(class_counts(comparison)),
        heat_text=_describe_counts(comparison),
        versions=package_versions(),
    )
    return page


def _data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _describe_bars(comparison: Comparison) -> str:
    values = ", ".join(f"{entry.name} {entry.accuracy:.3f}" for entry in comparison.entries)
    return f"Bar chart of accuracies: {values}."


def _describe_counts(comparison: Comparison) -> str:
    sites = ", ".join(
        f"{name} holds {site.samples} samples of {site.classes} classes"
        for name, site in zip(comparison.owner_names, comparison.owners, strict=True)
    )
    return f"Heat map of samples per site and class: {sites}."


# --- membership audits ------------------------------------------------------------------------------------


def membership_page(audit: MembershipAudit, title: str, facts: dict[str, str]) -> str:
    """Make a page with the numbers, the ROC curve and the notes of a membership audit.

    Every text is escaped, and the figure carries a description.

    Parameters
    ----------
    audit : MembershipAudit
        What :func:`onefold.audit.audit_membership` returned.
    title : str
        Heading of the page.
    facts : dict of str to str
        What the reader should know about the audit, such as the names of the files; listed under the heading.

    Returns
    -------
    str
        The page; :func:`write_page` writes it to a file.

    See Also
    --------
    onefold.audit.audit_membership : Make the audit.
    write_page : Write the page to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import AutoencoderClassifier
    >>> from onefold.audit import audit_membership
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> audit = audit_membership(AutoencoderClassifier().fit(X[:20], y[:20]), X[:20], X[20:])
    >>> "<h1>Who was in?</h1>" in membership_page(audit, "Who was in?", {"model": "north.model"})
    True
    """
    rows = "\n".join(_row(*row) for row in audit.rows())
    level = 100 * audit.attack.confidence
    notes = "\n".join(f"<li>{escape(note)}</li>" for note in audit.notes())
    told = "\n".join(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in facts.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<ul>
{told}
</ul>
<h2>The numbers</h2>
<div class="scroll"><table>
<thead><tr>
<th scope="col">what</th><th scope="col">value</th><th scope="col">{level:g} % interval</th>
</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<h2>Members found against outsiders accused</h2>
{_curve(audit.attack)}
<h2>What this means, and what it does not</h2>
<ul>
{notes}
</ul>
</body>
</html>
"""


def _row(name: str, value: float, interval: str) -> str:
    cells = f'<td class="number">{value:.4f}</td><td>{escape(interval)}</td>'
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def _curve(attack: AttackResult) -> str:
    """Draw the ROC curve on logarithmic axes, where small rates of false accusation can be seen."""
    corners = _steps(attack.fpr, attack.tpr)
    points = " ".join(f"{_across(x):.1f},{_down(y):.1f}" for x, y in corners)
    ticks = "".join(_tick(10.0**power) for power in range(-4, 1))
    found = [100 * point.tpr for point in attack.points]
    text = (
        f"ROC curve on logarithmic axes: {found[0]:.2f} % of members found at 0.1 % false positives, "
        f"{found[1]:.2f} % at 1 %, AUC {attack.auc:.3f}. The dashed line is guessing."
    )
    low, high = SMALLEST_RATE, 1.0
    return f"""<svg viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" role="img" aria-label="{escape(text)}">
<title>{escape(text)}</title>
<line x1="{_across(low)}" y1="{_down(low)}" x2="{_across(high)}" y2="{_down(high)}" stroke="{SLATE}" \
stroke-dasharray="4 4"/>
<polyline points="{points}" fill="none" stroke="{TEAL}" stroke-width="2"/>
<g font-size="11" fill="{SLATE}" stroke="none">{ticks}
<text x="{SIZE / 2}" y="{SIZE - 6}" text-anchor="middle">outsiders accused</text>
<text x="12" y="{SIZE / 2}" text-anchor="middle" transform="rotate(-90 12 {SIZE / 2})">members found</text>
</g>
</svg>"""


def _steps(fpr: Floats, tpr: Floats, most: int = 400) -> Floats:
    """Return the visible corners, thinned evenly on the logarithmic axis."""
    grid = np.geomspace(SMALLEST_RATE, 1.0, most)
    found = tpr[np.searchsorted(fpr, grid, side="right") - 1]
    return np.column_stack([grid, found])


def _tick(rate: float) -> str:
    label = f"{100 * rate:g} %"
    return (
        f'<text x="{_across(rate):.1f}" y="{SIZE - 24}" text-anchor="middle">{label}</text>'
        f'<text x="{MARGIN + 2}" y="{_down(rate) + 4:.1f}" text-anchor="end">{label}</text>'
    )


def _place(rate: float) -> float:
    return float(1 - np.log10(max(rate, SMALLEST_RATE)) / np.log10(SMALLEST_RATE))


def _across(rate: float) -> float:
    return MARGIN + 8 + _place(rate) * (SIZE - MARGIN - 28)


def _down(rate: float) -> float:
    return SIZE - MARGIN - _place(rate) * (SIZE - MARGIN - 16)
