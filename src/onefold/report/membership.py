"""A membership audit as one HTML file: no script, no network, nothing but the standard library."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # a page needs no attack to be loaded
    from onefold.audit import AttackResult, MembershipAudit

__all__ = ["membership_page"]

Floats = NDArray[np.float64]
SIZE, MARGIN = 320, 44
SMALLEST_RATE = 1e-4
INK, SOFT, ACCENT = "#1f2933", "#5b6b7f", "#0b7a75"
STYLE = f"""
body {{ margin: 0 auto; max-width: 52rem; padding: 2rem 1rem; color: {INK}; line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .35rem .8rem; border-bottom: 1px solid #dde3ea; text-align: left; }}
td.number {{ text-align: right; }} .scroll {{ overflow-x: auto; }} svg {{ max-width: 100%; height: auto; }}
"""


def membership_page(audit: MembershipAudit, title: str, facts: dict[str, str]) -> str:
    """The page; every text is escaped, and the figure has a description."""
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
    """The ROC curve on logarithmic axes, where small rates of false accusation can be seen."""
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
<line x1="{_across(low)}" y1="{_down(low)}" x2="{_across(high)}" y2="{_down(high)}" stroke="{SOFT}" \
stroke-dasharray="4 4"/>
<polyline points="{points}" fill="none" stroke="{ACCENT}" stroke-width="2"/>
<g font-size="11" fill="{SOFT}" stroke="none">{ticks}
<text x="{SIZE / 2}" y="{SIZE - 6}" text-anchor="middle">outsiders accused</text>
<text x="12" y="{SIZE / 2}" text-anchor="middle" transform="rotate(-90 12 {SIZE / 2})">members found</text>
</g>
</svg>"""


def _steps(fpr: Floats, tpr: Floats, most: int = 400) -> Floats:
    """The visible corners, thinned evenly on the logarithmic axis."""
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
