"""Tables of the comparison: accuracy, paired differences to the best peer, bytes and seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.harness import Table

# The recommended federation is judged against the best of these (by its mean over the splits).
RIVALS = ("ridge (AFL)", "LDA (FedCGS)", "random-feature ridge", "folding")
OURS = "recommended"
METHODS = (
    "ridge (AFL)",
    "LDA (FedCGS)",
    "random-feature ridge",
    "FedPFT",
    "FedAvg, 50 rounds",
    "folding, documented",
    "folding",
    "moments",
    "joined",
    OURS,
    "boosting, rows pooled",
)

Cells = Mapping[str, Sequence[Mapping[str, Any]]]  # method -> one cell per split


def mean(cells: Cells, method: str, what: str) -> float:
    """Mean over splits; NaN where the method was not run."""
    return (
        float(np.mean([cell.get(what, 0.0) for cell in cells[method]])) if method in cells else float("nan")
    )


def paired(cells: Cells, ours: str, rival: str) -> tuple[float, float]:
    """Mean difference in points over the same splits, and its standard error."""
    a, b = (np.array([cell["accuracy"] for cell in cells[name]]) for name in (ours, rival))
    n = min(len(a), len(b))
    difference = 100.0 * (a[:n] - b[:n])
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def best_rival(cells: Cells) -> str:
    """The strongest of the methods that the recommended federation is judged against."""
    return max((name for name in RIVALS if name in cells), key=lambda name: mean(cells, name, "accuracy"))


def verdict(cells: Cells, ours: str = OURS) -> tuple[str, float, float]:
    """Best rival, difference to it in points, standard error."""
    rival = best_rival(cells)
    return (rival, *paired(cells, ours, rival))


def accuracy_table(found: Mapping[tuple[str, int], Cells], splits: int) -> Table:
    """One line per data and number of sites."""
    shown = [name for name in METHODS if any(name in cells for cells in found.values())]
    lines = []
    for (name, n_sites), cells in found.items():
        numbers = [_percent(mean(cells, method, "accuracy")) for method in shown]
        line = [name, n_sites, *numbers]
        judged = OURS in cells and any(rival in cells for rival in RIVALS)
        rival, gap, error = verdict(cells) if judged else ("", 0.0, 0.0)
        lines.append([*line, f"{gap:+.1f} ± {error:.1f}" if judged else "", rival])
    title = f"Accuracy in percent, mean of {splits} splits; difference of '{OURS}' to the best rival ± one SE"
    return Table(title, ["data", "sites", *shown, "difference", "best rival"], lines)


def cost_table(found: Mapping[tuple[str, int], Cells]) -> Table:
    """What a site sends once and per query, and processor time, by data."""
    lines = []
    for (name, n_sites), cells in found.items():
        for method in METHODS:
            if method in cells:
                up, query = mean(cells, method, "bytes"), mean(cells, method, "query_bytes")
                fit, each = mean(cells, method, "fit"), mean(cells, method, "query_ms")
                lines.append(
                    [name, n_sites, method, f"{up / 1e6:.3f}", f"{query:.0f}", f"{fit:.2f}", f"{each:.3f}"]
                )
    headers = ["data", "sites", "method", "MB per site once", "bytes per query and site", "fit s", "query ms"]
    return Table("Cost: sent by a site, and processor time of all sites and the server", headers, lines)


def values(found: Mapping[tuple[str, int], Cells]) -> dict[str, float]:
    """Named numbers for the comparison with a recorded run."""
    named: dict[str, float] = {}
    for (name, n_sites), cells in found.items():
        named |= {f"{name}, {n_sites} sites: {m}": mean(cells, m, "accuracy") for m in METHODS if m in cells}
    gaps = [verdict(cells) for cells in found.values() if OURS in cells]
    if gaps:
        named["above the best rival"] = float(np.mean([gap > 0 for _, gap, _ in gaps]))
        named["worse by two standard errors"] = float(sum(gap < -2 * error for _, gap, error in gaps))
    return named


def markdown(table: Table) -> str:
    """The table as it stands in the documentation, best number of a line in bold."""
    lines = [f"| {' | '.join(map(str, table.headers))} |", "|" + "---|" * len(table.headers)]
    for row in table.rows:
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.1f}"
