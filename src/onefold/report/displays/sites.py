"""Which site has how many samples of which class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.report.displays._display import INK, PAGE_WIDTH, SLATE, Display, bare, in_lines, shortened

__all__ = ["ClassCountsDisplay"]

MANY_CLASSES = 20
FEW_CLASSES = 4


@dataclass(frozen=True)
class ClassCountsDisplay(Display):
    """Samples of each class (columns) at each site (rows), as a heat map.

    Parameters
    ----------
    sites : sequence of str
        Names of the sites.
    classes : sequence of str
        Names of the classes.
    counts : sequence of sequences of int
        Number of samples by site and class.

    See Also
    --------
    AccuracyDisplay : How good each site is alone, and all together.

    Examples
    --------
    >>> ClassCountsDisplay(["north"], ["a", "b"], [[3, 0]]).describe()
    'Heat map of samples per site and class: north holds 3 samples of 1 classes.'
    """

    sites: Sequence[str]
    classes: Sequence[str]
    counts: Sequence[Sequence[int]]

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            Samples and classes of each site.
        """
        told = ", ".join(
            f"{name} holds {sum(row)} samples of {sum(count > 0 for count in row)} classes"
            for name, row in zip(self.sites, self.counts, strict=True)
        )
        return f"Heat map of samples per site and class: {told}."

    def _size(self) -> tuple[float, float]:
        return PAGE_WIDTH, 1.3 + 0.34 * len(self.counts)

    def _draw(self, axes: Any) -> None:
        counts = np.asarray(self.counts)
        top = int(counts.max(initial=0))
        axes.imshow(counts, cmap="GnBu", aspect="auto", vmin=0, vmax=max(top, 1))
        if len(self.classes) <= MANY_CLASSES:
            for (row, column), count in np.ndenumerate(counts):
                colour = "white" if count > 0.6 * top else INK if count else SLATE
                size = 8 if count < 1000 else 6
                axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=size)
            if len(self.classes) <= FEW_CLASSES:  # the cells are wide enough for a few words
                axes.set_xticks(range(len(self.classes)), [in_lines(name) for name in self.classes])
            else:
                axes.set_xticks(range(len(self.classes)), [shortened(name, 9) for name in self.classes])
                if max(map(len, self.classes)) > 2:
                    axes.tick_params(axis="x", labelrotation=60)
        axes.set_yticks(range(len(counts)), [shortened(name) for name in self.sites])
        axes.set_xlabel("class")
        axes.tick_params(length=0)
        bare(axes, "top", "right", "left", "bottom")
