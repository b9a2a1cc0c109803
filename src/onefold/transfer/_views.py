"""Ways to ask a source about rows of a target; which one serves is found on labelled rows.

A view gives scores to target rows that were brought to the source space, or to rows of another width.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index
from onefold.transfer._description import Description, MomentDescription
from onefold.transfer._mixture import Projection
from onefold.transfer.alignment import Affine, coral, procrustes, shift

__all__ = ["DescriptionView", "MeansView", "View", "views_of_placed", "views_of_strangers"]

Floats = NDArray[np.float64]
SMALLEST = 0.05  # least variance that is divided by, in units of the mean one


@dataclass(frozen=True)
class DescriptionView:
    """The source's own scores, after an alignment."""

    name: str
    description: Description
    alignment: Affine | None

    def scores(self, rows: Array) -> Floats:
        """How well each class of the source explains each row, (n, C)."""
        return self.description.scores(rows if self.alignment is None else self.alignment(rows))


@dataclass(frozen=True)
class MeansView:
    """The source's class means, with distances in the target's own principal directions.

    Means are what survives noise on every entry: it averages out over the records of a class. What is left
    of it is public and counts as variance.
    """

    name: str
    projection: Projection
    centres: Floats  # (C, k)
    variances: Floats  # (k,)

    def scores(self, rows: Array) -> Floats:
        """Minus half the squared distance to each mean, (n, C)."""
        coordinates = self.projection(rows) / np.sqrt(self.variances)
        centres = self.centres / np.sqrt(self.variances)
        squares = np.sum(coordinates**2, axis=1)[:, None] - 2.0 * coordinates @ centres.T
        return np.asarray(-0.5 * (squares + np.sum(centres**2, axis=1)))


View = DescriptionView | MeansView


def views_of_placed(description: Description, rows: Array, projection: Projection) -> Iterator[View]:
    """Views of rows that are in the source space already; none of them looks at a label."""
    moved = shift(description, rows)
    yield DescriptionView("as it is", description, None)
    yield DescriptionView("shifted", description, moved)
    if isinstance(description, MomentDescription):
        yield DescriptionView("correlations aligned", description, coral(description, rows))
    coordinates = projection(rows)
    excess = float(description.mean_variances.mean())
    spread = coordinates.var(axis=0)
    variances = np.maximum(spread, SMALLEST * spread.mean()) + excess + np.finfo(float).tiny
    for name, offset in (("means", np.zeros(rows.shape[1])), ("means, shifted", moved.after - moved.before)):
        yield MeansView(name, projection, projection(description.means - offset), variances)


def views_of_strangers(
    description: Description, rows: Array, codes: Index, projection: Projection
) -> Iterator[View]:
    """Views of rows of another width: the classes' means are turned onto those of the labelled rows.

    The shape that the source's means form is rigid, so that few labels can place it. ``codes`` of -1 have no
    label; only labelled rows decide.
    """
    labelled = codes >= 0
    coordinates = projection(rows)
    centres = procrustes(description, coordinates[labelled], codes[labelled])
    spread = coordinates.var(axis=0)
    variances = np.maximum(spread, SMALLEST * spread.mean()) + np.finfo(float).tiny
    yield MeansView("means, turned", projection, centres, variances)
