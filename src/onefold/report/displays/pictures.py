"""What a model does to space, to points and to images, and how numbers change along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold.exceptions import InvalidInputError
from onefold.report.displays._display import (
    AMBER,
    INK,
    PAGE_WIDTH,
    SLATE,
    TEAL,
    VIOLET,
    Display,
    bare,
    shortened,
)

__all__ = ["CurvesDisplay", "FieldDisplay", "ImagesDisplay", "PointsDisplay"]

STYLES = ((AMBER, "+"), (TEAL, "."), (VIOLET, "x"), (SLATE, "1"), (INK, "2"))
LINES = ((TEAL, "o", "-"), (AMBER, "s", "--"), (VIOLET, "D", ":"), (SLATE, "^", "-."), (INK, "v", "-"))
FEW_PLACES = 10  # up to this number every place of a logarithmic axis gets its number
MARGIN = 0.15  # of the width of the points, around them


@dataclass(frozen=True)
class FieldDisplay(Display):
    """A number at every point of a plane, as colours, with the points that it comes from.

    The number is usually a distance or a folding measure: dark where a model folds little, light where it
    folds much. Where it is the number of a class, colours show the regions of the classes.

    Parameters
    ----------
    x : sequence of float
        First coordinates of the grid, rising.
    y : sequence of float
        Second coordinates of the grid, rising.
    values : sequence of sequences of float
        The number at each point of the grid, one row for each entry of ``y``.
    points : mapping of str to sequence of (float, float), default={}
        Groups of points to draw on top.
    label : str, default="distance"
        What the number is.
    regions : sequence of str or None, default=None
        Names of the regions, where values are their numbers from 0 on.

    See Also
    --------
    PointsDisplay : Points alone.
    FoldingDisplay : Distances of rows of any number of features.

    Examples
    --------
    >>> display = FieldDisplay.from_function(lambda rows: rows[:, 0], {"a": [[0, 0], [1, 2]]}, n_steps=5)
    >>> len(display.values), display.describe()
    (5, 'Map of the distance: from -0.15 to 1.15, with 2 points of a.')
    """

    x: Sequence[float]
    y: Sequence[float]
    values: Sequence[Sequence[float]]
    points: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    label: str = "distance"
    regions: Sequence[str] | None = None

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.shape != (len(self.y), len(self.x)) or not np.isfinite(values).all():
            raise InvalidInputError(
                "values must be finite numbers, one row for each y and one column for each x"
            )

    @classmethod
    def from_function(
        cls,
        function: Any,
        points: Mapping[str, ArrayLike],
        n_steps: int = 80,
        label: str = "distance",
        regions: Sequence[str] | None = None,
    ) -> Self:
        """Ask a function on a grid around some points.

        Parameters
        ----------
        function : callable
            Takes rows of two numbers and returns one number for each, such as ``KAHM().fit(X).distance``.
        points : mapping of str to array-like of shape (n, 2)
            Groups of points, which the grid surrounds.
        n_steps : int, default=80
            Steps of the grid along each axis.
        label : str, default="distance"
            What the number is.
        regions : sequence of str or None, default=None
            Names of the regions, where the function returns their numbers.

        Returns
        -------
        FieldDisplay
            The display.
        """
        known = _checked(points)
        low, high = (end(np.vstack(list(known.values())), axis=0) for end in (np.min, np.max))
        around = MARGIN * np.where(high > low, high - low, 1.0)
        x, y = (np.linspace(low[i] - around[i], high[i] + around[i], n_steps) for i in (0, 1))
        rows = np.column_stack([grid.ravel() for grid in np.meshgrid(x, y)])
        values = np.asarray(function(rows), dtype=np.float64).reshape(len(y), len(x))
        told = {name: group.tolist() for name, group in known.items()}
        return cls(x.tolist(), y.tolist(), values.tolist(), told, label, regions)

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            The range of the number, or the share of each region, and how many points there are.
        """
        values = np.asarray(self.values)
        groups = ", ".join(f"{len(group)} points of {name}" for name, group in self.points.items())
        beside = f", with {groups}" if groups else ""
        if self.regions is None:
            return f"Map of the {self.label}: from {values.min():.3g} to {values.max():.3g}{beside}."
        shares = [
            f"{name} {100 * np.mean(values == number):.0f} %" for number, name in enumerate(self.regions)
        ]
        return f"Regions by {self.label}: {', '.join(shares)} of the picture{beside}."

    def _size(self) -> tuple[float, float]:
        return PAGE_WIDTH, 4.0

    def _draw(self, axes: Any) -> None:
        values = np.asarray(self.values)
        if self.regions is None:
            drawn = axes.contourf(self.x, self.y, values, levels=24, cmap="GnBu_r")
            axes.figure.colorbar(drawn, ax=axes, label=self.label, shrink=0.85)
        else:
            # Colours that belong to numbers, so that nothing lies between two regions.
            axes.pcolormesh(self.x, self.y, values, cmap="Pastel2", vmin=0, vmax=7, rasterized=True)
        _scatter(axes, self.points)


@dataclass(frozen=True)
class PointsDisplay(Display):
    """Groups of points in a plane, such as samples and their images.

    Parameters
    ----------
    points : mapping of str to sequence of (float, float)
        The groups, from the bottom to the top.

    See Also
    --------
    FieldDisplay : Points, and a number at every point of the plane.

    Examples
    --------
    >>> PointsDisplay({"samples": [[0, 0], [1, 1]], "images": [[0, 1]]}).describe()
    'Points in a plane: 2 of samples, 1 of images.'
    """

    points: Mapping[str, Sequence[Sequence[float]]]

    @classmethod
    def from_rows(cls, groups: Mapping[str, ArrayLike]) -> Self:
        """Take rows of two numbers.

        Parameters
        ----------
        groups : mapping of str to array-like of shape (n, 2)
            The groups.

        Returns
        -------
        PointsDisplay
            The display.
        """
        return cls({name: group.tolist() for name, group in _checked(groups).items()})

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            The number of points of each group.
        """
        told = ", ".join(f"{len(group)} of {name}" for name, group in self.points.items())
        return f"Points in a plane: {told}."

    def _size(self) -> tuple[float, float]:
        return PAGE_WIDTH, 4.0

    def _draw(self, axes: Any) -> None:
        _scatter(axes, self.points)


@dataclass(frozen=True)
class ImagesDisplay(Display):
    """Small grey images in rows, such as a digit and what each layer makes of it.

    Parameters
    ----------
    images : sequence of sequences of images
        Rows of images; an image is a sequence of rows of numbers. The smallest and the largest number of the
        first image are white and black.
    rows : sequence of str
        A name for each row.
    columns : sequence of str, default=()
        A name for each column; empty for none.

    See Also
    --------
    onefold.DeepKAHM.layers : The image of a row by every layer.

    Examples
    --------
    >>> ImagesDisplay.from_rows({"digits": [[0, 1, 1, 0], [1, 0, 0, 1]]}).describe()
    'Images of 2 x 2 pixels: 2 in the row digits.'
    """

    images: Sequence[Sequence[Sequence[Sequence[float]]]]
    rows: Sequence[str]
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.images) != len(self.rows) or not all(len(row) for row in self.images):
            raise InvalidInputError("every row of images needs a name and at least one image")

    @classmethod
    def from_rows(cls, groups: Mapping[str, ArrayLike], columns: Sequence[str] = ()) -> Self:
        """Take square images that are given as rows of pixels.

        Parameters
        ----------
        groups : mapping of str to array-like of shape (n, p)
            Images of each row of the picture; p is the square of a whole number.
        columns : sequence of str, default=()
            A name for each column.

        Returns
        -------
        ImagesDisplay
            The display.
        """
        found = []
        for pixels in (np.atleast_2d(np.asarray(group, dtype=np.float64)) for group in groups.values()):
            side = round(pixels.shape[1] ** 0.5)
            if side * side != pixels.shape[1]:
                raise InvalidInputError("images must be square: the number of pixels is no square number")
            found.append(pixels.reshape(len(pixels), side, side).tolist())
        return cls(found, list(groups), list(columns))

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            The size of the images, and how many there are in each row.
        """
        height, width = np.shape(self.images[0][0])
        told = ", ".join(
            f"{len(row)} in the row {name}" for name, row in zip(self.rows, self.images, strict=True)
        )
        return f"Images of {height} x {width} pixels: {told}."

    def _size(self) -> tuple[float, float]:
        most = max(len(row) for row in self.images)
        cell = PAGE_WIDTH / (most + 2)
        return PAGE_WIDTH, 0.5 + cell * len(self.images)

    def _draw(self, axes: Any) -> None:
        height, width = np.shape(self.images[0][0])
        most = max(len(row) for row in self.images)
        canvas = np.full((len(self.images) * (height + 1), most * (width + 1)), np.nan)
        for i, row in enumerate(self.images):
            for j, image in enumerate(row):
                top, left = i * (height + 1), j * (width + 1)
                canvas[top : top + height, left : left + width] = image
        # Grey means the same everywhere, whatever a few noisy pixels are.
        low, high = np.min(self.images[0][0]), np.max(self.images[0][0])
        axes.imshow(canvas, cmap="gray_r", interpolation="nearest", vmin=low, vmax=high)
        middle = np.arange(len(self.images)) * (height + 1) + height / 2 - 0.5
        axes.set_yticks(middle, [shortened(name) for name in self.rows], fontsize=8)
        places = np.arange(len(self.columns)) * (width + 1) + width / 2 - 0.5
        axes.set_xticks(places, [shortened(name, 8) for name in self.columns], fontsize=7)
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        bare(axes, "top", "right", "left", "bottom")


@dataclass(frozen=True)
class CurvesDisplay(Display):
    """Numbers along an axis, one line for each group.

    Parameters
    ----------
    x : sequence of float
        Places along the axis.
    curves : mapping of str to sequence of float
        The number at each place, for every line.
    x_label : str, default="x"
        What the axis is.
    y_label : str, default="value"
        What the numbers are.
    logarithmic : {"", "x", "y", "xy"}, default=""
        Axes with a logarithmic scale.

    See Also
    --------
    PrivacyUtilityDisplay : Scores against epsilon, with their spread.

    Examples
    --------
    >>> CurvesDisplay([1, 2], {"a": [0.5, 0.25]}, "rows", "error").describe()
    'error against rows: a from 0.5 at 1 to 0.25 at 2.'
    """

    x: Sequence[float]
    curves: Mapping[str, Sequence[float]]
    x_label: str = "x"
    y_label: str = "value"
    logarithmic: str = ""

    def __post_init__(self) -> None:
        if not len(self.x) or {len(values) for values in self.curves.values()} != {len(self.x)}:
            raise InvalidInputError("every curve needs one number for each place along the axis")
        if self.logarithmic not in ("", "x", "y", "xy"):
            raise InvalidInputError('logarithmic must be one of "", "x", "y" and "xy"')

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            Where each line begins and ends.
        """
        told = ", ".join(
            f"{name} from {values[0]:.3g} at {self.x[0]:.3g} to {values[-1]:.3g} at {self.x[-1]:.3g}"
            for name, values in self.curves.items()
        )
        return f"{self.y_label} against {self.x_label}: {told}."

    def _draw(self, axes: Any) -> None:
        marks = len(self.x) <= 25
        for (name, values), (colour, mark, line) in zip(self.curves.items(), LINES, strict=False):
            mark = mark if marks else ""
            axes.plot(
                self.x,
                values,
                color=colour,
                marker=mark,
                markersize=4,
                linestyle=line,
                label=shortened(name, 40),
            )
        if "x" in self.logarithmic:
            axes.set_xscale("log")
            if len(self.x) <= FEW_PLACES:
                axes.set_xticks(self.x, [f"{place:.3g}" for place in self.x], fontsize=8)
                axes.minorticks_off()
        if "y" in self.logarithmic:
            axes.set_yscale("log")
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.legend(fontsize=8, frameon=False)
        bare(axes)


def _checked(groups: Mapping[str, ArrayLike]) -> dict[str, Any]:
    """Groups of finite points of a plane, at least one of each."""
    known = {name: np.asarray(group, dtype=np.float64) for name, group in groups.items()}
    for group in known.values():
        if group.ndim != 2 or group.shape[1] != 2 or not len(group) or not np.isfinite(group).all():
            raise InvalidInputError("every group needs at least one point of two finite numbers")
    if not known:
        raise InvalidInputError("at least one group of points is needed")
    return known


def _scatter(axes: Any, points: Mapping[str, Sequence[Sequence[float]]]) -> None:
    for (name, group), (colour, mark) in zip(points.items(), STYLES, strict=False):
        x, y = np.asarray(group).T
        axes.scatter(x, y, s=22, color=colour, marker=mark, linewidths=0.9, label=shortened(name, 32))
    if points:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.08), "ncol": 3}
        axes.legend(fontsize=8, frameon=False, handletextpad=0.2, columnspacing=0.8, **below)
    axes.set_aspect("equal", adjustable="box")
    bare(axes)
