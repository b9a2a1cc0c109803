"""Pictures of the register and the gallery: space, points, images, numbers along an axis, fuzzy rules.

All but the rules are displays of :mod:`onefold.report`: computed once, drawn, described, stored, read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onefold.exceptions import InvalidInputError
from onefold.models.fuzzy import Explanation
from onefold.report import Display
from onefold.report.displays import (
    AMBER,
    INK,
    PAGE_WIDTH,
    SLATE,
    TEAL,
    VIOLET,
    bare,
    new_figure,
    shortened,
    write_figure,
)

STYLES = ((AMBER, "+"), (TEAL, "."), (VIOLET, "x"), (SLATE, "1"), (INK, "2"))
LINES = ((TEAL, "o", "-"), (AMBER, "s", "--"), (VIOLET, "D", ":"), (SLATE, "^", "-."), (INK, "v", "-"))
FEW_PLACES = 10  # up to this number every place of a logarithmic axis gets its number
MARGIN = 0.15  # of the width of the points, around them
MOST_BARS = 12


@dataclass(frozen=True)
class FieldDisplay(Display):
    """A number at every point of a plane, as colours, with the points that it comes from."""

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
        """Ask a function on a grid around some points."""
        known = _checked(points)
        low, high = (end(np.vstack(list(known.values())), axis=0) for end in (np.min, np.max))
        around = MARGIN * np.where(high > low, high - low, 1.0)
        x, y = (np.linspace(low[i] - around[i], high[i] + around[i], n_steps) for i in (0, 1))
        rows = np.column_stack([grid.ravel() for grid in np.meshgrid(x, y)])
        values = np.asarray(function(rows), dtype=np.float64).reshape(len(y), len(x))
        told = {name: group.tolist() for name, group in known.items()}
        return cls(x.tolist(), y.tolist(), values.tolist(), told, label, regions)

    def _words(self) -> str:
        values = np.asarray(self.values)
        groups = ", ".join(f"{len(group)} points of {name}" for name, group in self.points.items())
        beside = f", with {groups}" if groups else ""
        if self.regions is None:
            return f"Map of the {self.label}: from {values.min():.3g} to {values.max():.3g}{beside}."
        shares = [
            f"{name} {100 * np.mean(values == number):.0f} %" for number, name in enumerate(self.regions)
        ]
        return f"Regions by {self.label}: {', '.join(shares)} of the picture{beside}."

    def _height(self) -> float:
        return 4.0

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
    """Groups of points in a plane, such as samples and their images."""

    points: Mapping[str, Sequence[Sequence[float]]]

    @classmethod
    def from_rows(cls, groups: Mapping[str, ArrayLike]) -> Self:
        """Take rows of two numbers."""
        return cls({name: group.tolist() for name, group in _checked(groups).items()})

    def _words(self) -> str:
        told = ", ".join(f"{len(group)} of {name}" for name, group in self.points.items())
        return f"Points in a plane: {told}."

    def _height(self) -> float:
        return 4.0

    def _draw(self, axes: Any) -> None:
        _scatter(axes, self.points)


@dataclass(frozen=True)
class ImagesDisplay(Display):
    """Small grey images in rows, such as a digit and what each layer makes of it."""

    images: Sequence[Sequence[Sequence[Sequence[float]]]]
    rows: Sequence[str]
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.images) != len(self.rows) or not all(len(row) for row in self.images):
            raise InvalidInputError("every row of images needs a name and at least one image")

    @classmethod
    def from_rows(cls, groups: Mapping[str, ArrayLike], columns: Sequence[str] = ()) -> Self:
        """Take square images that are given as rows of pixels."""
        found = []
        for pixels in (np.atleast_2d(np.asarray(group, dtype=np.float64)) for group in groups.values()):
            side = round(pixels.shape[1] ** 0.5)
            if side * side != pixels.shape[1]:
                raise InvalidInputError("images must be square: the number of pixels is no square number")
            found.append(pixels.reshape(len(pixels), side, side).tolist())
        return cls(found, list(groups), list(columns))

    def _words(self) -> str:
        height, width = np.shape(self.images[0][0])
        told = ", ".join(
            f"{len(row)} in the row {name}" for name, row in zip(self.rows, self.images, strict=True)
        )
        return f"Images of {height} x {width} pixels: {told}."

    def _height(self) -> float:
        most = max(len(row) for row in self.images)
        return 0.5 + PAGE_WIDTH / (most + 2) * len(self.images)

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
    """Numbers along an axis, one line for each group."""

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

    def _words(self) -> str:
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


# --- fuzzy rules ------------------------------------------------------------------------------------------


def rules_figure(explanation: Explanation, shape: tuple[int, int] | None = None) -> Any:
    """Draw the fuzzy rules that acted on one query, one line of panels per rule."""
    if shape is not None and (len(shape) != 2 or min(shape) < 1 or np.prod(shape) != len(explanation.output)):
        raise InvalidInputError(f"shape must be a height and a width of {len(explanation.output)} outputs")
    n_rules = len(explanation.rules)
    figure = new_figure(8.0, 0.6 + 1.6 * (n_rules + 1))
    grid = figure.subplots(n_rules + 1, 2, squeeze=False, width_ratios=(3, 2))
    grid[0, 0].axis("off")
    grid[0, 0].text(0.0, 0.5, _summary(explanation), va="center", color=INK, fontsize=10)
    _output(grid[0, 1], explanation, explanation.output, shape, AMBER)
    grid[0, 1].set_title("the answer" if shape else "the answer; dashes: the mean", fontsize=9)
    for place, (axes, panel) in enumerate(grid[1:]):
        _reasons(axes, explanation, place)
        _output(panel, explanation, explanation.answers[place], shape, TEAL)
        panel.set_title("the answer at its centre", fontsize=9)
    return figure


def write_rules(path: str, explanation: Explanation, shape: tuple[int, int] | None = None) -> None:
    """Draw fuzzy rules as :func:`rules_figure` does and write them to a file, whole or not at all."""
    write_figure(path, rules_figure(explanation, shape))


def _summary(explanation: Explanation) -> str:
    layers = f"\nin the first of {explanation.n_layers} layers" * (explanation.n_layers > 1)
    return (
        f"{len(explanation.rules)} of {explanation.n_rules} rules have\n"
        f"{explanation.shares.sum():.1%} of the say{layers}"
    )


def _reasons(axes: Any, explanation: Explanation, place: int) -> None:
    """Draw bars for the inputs that speak most for a rule, or against it."""
    reasons = explanation.reasons[place]
    chosen = np.argsort(-np.abs(reasons), kind="stable")[: MOST_BARS // 2]
    names = [
        f"{shortened(explanation.input_names[k], 16)} ~ {explanation.centres[place, k]:.3g}" for k in chosen
    ]
    axes.barh(range(len(chosen)), reasons[chosen], color=TEAL, height=0.7)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(chosen)), names, fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=7)
    title = f"rule {explanation.rules[place]}: {explanation.shares[place]:.1%}; what speaks for it"
    axes.set_title(title, fontsize=9)


def _output(
    axes: Any, explanation: Explanation, values: Any, shape: tuple[int, int] | None, colour: str
) -> None:
    if shape is not None:
        axes.imshow(np.reshape(values, shape), cmap="Greys")
        axes.axis("off")
        return
    chosen = np.argsort(-np.abs(explanation.output - explanation.mean), kind="stable")[:MOST_BARS]
    places = range(len(chosen))
    axes.bar(places, values[chosen], color=colour, width=0.7)
    axes.plot(places, explanation.mean[chosen], "_", color=INK, markersize=8)
    axes.set_xticks(
        places, [shortened(explanation.output_names[j], 16) for j in chosen], fontsize=7, rotation=60
    )
    axes.tick_params(axis="y", labelsize=7)
