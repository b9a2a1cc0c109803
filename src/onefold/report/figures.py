"""Figures for pages: matplotlib without its global state, handed back as SVG text (extra ``report``)."""

from __future__ import annotations

import io
from typing import Any

from onefold._base.optional import require
from onefold.report.comparison import Comparison

__all__ = ["accuracy_bars", "class_counts"]

# Readable for colour-blind eyes, and each kind differs in lightness too.
COLOURS = {"alone": "#a9b4c2", "pooled": "#5b6b7f", "federated": "#0b7a75", "private": "#3d348b"}
INK = "#1f2933"
WIDTH_INCHES = 5.2
MANY_CLASSES = 20


def accuracy_bars(comparison: Comparison) -> str:
    """One horizontal bar for each classifier."""
    entries = comparison.entries
    figure, axes = _figure(0.9 + 0.34 * len(entries))
    places = range(len(entries))
    axes.barh(places, [e.accuracy for e in entries], color=[COLOURS[e.kind] for e in entries], height=0.7)
    for place, entry in zip(places, entries, strict=True):
        inside = entry.accuracy > 0.15
        axes.text(
            entry.accuracy + (-0.012 if inside else 0.012),
            place,
            f"{entry.accuracy:.3f}",
            ha="right" if inside else "left",
            va="center",
            color="white" if inside and entry.kind != "alone" else INK,
            fontweight="bold" if entry.kind == "federated" else "normal",
        )
    axes.set_yticks(places, [_shortened(e.name, 32) for e in entries])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("accuracy on the test samples")
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return _svg(figure)


def class_counts(comparison: Comparison) -> str:
    """A heat map: owners down, classes across; with the number of samples in each cell if there is room."""
    counts = comparison.counts
    figure, axes = _figure(1.3 + 0.34 * len(counts))
    top = max((max(row, default=0) for row in counts), default=0)
    axes.imshow(counts, cmap="GnBu", aspect="auto", vmin=0, vmax=max(top, 1))
    if len(comparison.class_names) <= MANY_CLASSES:
        _write_counts(axes, counts, top)
        axes.set_xticks(
            range(len(comparison.class_names)), [_shortened(n, 9) for n in comparison.class_names]
        )
        if max(map(len, comparison.class_names), default=0) > 2:
            axes.tick_params(axis="x", labelrotation=60)
    axes.set_yticks(range(len(counts)), [_shortened(name) for name in comparison.owner_names])
    axes.set_xlabel("class")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return _svg(figure)


def _write_counts(axes: Any, counts: Any, top: int) -> None:
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            colour = "white" if count > 0.6 * top else INK if count else "#9aa5b1"
            size = 8 if count < 1000 else 6
            axes.text(j, i, str(count), ha="center", va="center", color=colour, fontsize=size)


def _shortened(name: str, most: int = 22) -> str:
    # A lone $ pair would be read as a formula.
    text = name if len(name) <= most else name[: most - 1] + "…"
    return text.replace("$", r"\$")


def _figure(height: float) -> tuple[Any, Any]:
    figure = require("matplotlib.figure", "report").Figure(
        figsize=(WIDTH_INCHES, height), layout="constrained"
    )
    return figure, figure.add_subplot()


def _svg(figure: Any) -> str:
    """The figure as SVG; the same figure gives the same bytes."""
    matplotlib = require("matplotlib", "report")
    target = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "onefold", "svg.fonttype": "path", "font.size": 10}):
        figure.savefig(target, format="svg", metadata={"Date": None}, transparent=True)
    return target.getvalue()
