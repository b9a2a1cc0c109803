"""The privacy-utility curve as a figure (extra ``report``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.files import atomic_write
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.release import Curve

__all__ = ["FIGURE_FORMATS", "check_figure_format", "curve_figure", "write_curve"]

FIGURE_FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#0b7a75", "#d08c00", "#5b6b7f")
MARKS = ("o", "s", "^")
INK = "#1f2933"


def check_figure_format(path: str) -> str:
    """The format a name stands for; raises now what would fail after a long run."""
    suffix = Path(path).suffix.lower()
    if suffix not in FIGURE_FORMATS:
        raise InvalidInputError(f"{path}: the name of a figure must end in {', '.join(FIGURE_FORMATS)}")
    require("matplotlib.figure", "report")
    return suffix[1:]


def curve_figure(curve: Curve, title: str, errors: dict[str, Any] | None = None, void: bool = False) -> Any:
    """Scores over lam above, what an adversary is left with below; both against the same axis.

    ``errors`` holds a name for the lower axis and one least error per lam; the bound on a record if None.
    ``void`` says on the figure that its epsilons do not hold.
    """
    figure = require("matplotlib.figure", "report").Figure(figsize=(6.4, 6.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    above.axhline(curve.baseline, color=INK, linewidth=1, label="raw rows")
    for (noise, _), colour, mark in zip(curve.scores.items(), COLOURS, MARKS, strict=False):
        spread = np.nan_to_num(2 * curve.standard_error(noise))
        above.errorbar(
            curve.lams, curve.mean(noise), spread, color=colour, marker=mark, markersize=4, label=noise
        )
    above.set_xscale("log")
    above.set_ylabel(curve.measure)
    above.set_title(title.replace("$", r"\$"), fontsize=11)
    above.legend(fontsize=8, title="fitted on, ± 2 standard errors", title_fontsize=8)
    name, values = (
        errors or {"least squared error of a record": [s.bound for s in curve.strengths]}
    ).popitem()
    below.loglog(curve.lams, values, color=COLOURS[0], marker=MARKS[0], markersize=4)
    below.set_ylabel(name.replace("$", r"\$"), fontsize=9)
    below.set_xlabel("lam: left private, right useful")
    _label_epsilons(below, curve, void)
    return figure


def _label_epsilons(axes: Any, curve: Curve, void: bool) -> None:
    """A second axis on top of the lower part: epsilon per record."""
    top = axes.secondary_xaxis("top")
    shown = curve.strengths[:: max(1, len(curve.strengths) // 6)]
    top.set_xticks([strength.lam for strength in shown], [f"{strength.epsilon:.2g}" for strength in shown])
    top.minorticks_off()
    top.tick_params(labelsize=8)
    text = "VOID, ranges were taken from the data: " * void
    top.set_xlabel(f"{text}epsilon per record at delta {shown[0].delta:g}; labels not covered", fontsize=8)


def write_curve(
    path: str, curve: Curve, title: str, errors: dict[str, Any] | None = None, void: bool = False
) -> None:
    """Write the figure; the file appears whole or not at all."""
    kind = check_figure_format(path)
    figure = curve_figure(curve, title, errors, void)
    try:
        with atomic_write(path) as file:
            figure.savefig(file, format=kind, dpi=150)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written ({error.strerror or 'I/O error'})") from error
