"""What all displays share: numbers that are computed once, then drawn, described, stored and read again."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from textwrap import wrap
from typing import Any, ClassVar, Self

import numpy as np

from onefold._base.optional import require
from onefold.exceptions import InvalidInputError

__all__ = [
    "AMBER",
    "INK",
    "PALE",
    "SLATE",
    "TEAL",
    "VIOLET",
    "Display",
    "in_lines",
    "new_figure",
    "read_display",
    "shortened",
]

# Readable for colour-blind eyes: the colours differ in lightness too.
INK, TEAL, AMBER, SLATE, VIOLET, PALE = "#1f2933", "#0b7a75", "#d08c00", "#5b6b7f", "#3d348b", "#a9b4c2"
PAGE_WIDTH = 5.2  # inches, of a figure on a page


class Display(ABC):
    """Numbers of a picture, computed once and drawn as often as wanted, as in scikit-learn.

    A class method such as ``from_estimator`` computes the numbers, :meth:`plot` draws them into given axes
    or a figure of their own, :meth:`describe` says them in words, and :meth:`to_dict` gives them as plain
    values, from which :meth:`from_dict` makes the same display again.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where the display was drawn last.
    figure_ : matplotlib.figure.Figure
        The figure of these axes.

    See Also
    --------
    ConfusionDisplay : True against predicted classes.
    FoldingDisplay : Distances of groups of rows.

    Examples
    --------
    >>> from onefold.report import ConfusionDisplay
    >>> display = ConfusionDisplay.from_predictions(["a", "a", "b"], ["a", "b", "b"])
    >>> ConfusionDisplay.from_dict(display.to_dict()) == display
    True
    """

    _known: ClassVar[dict[str, type[Display]]] = {}

    ax_: Any
    figure_: Any

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        Display._known[cls.__name__] = cls

    @abstractmethod
    def _draw(self, axes: Any) -> None:
        """Draw into axes."""

    @abstractmethod
    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            One or a few sentences with the numbers.
        """

    def _size(self) -> tuple[float, float]:
        """Width and height of a figure of its own, in inches."""
        return PAGE_WIDTH, 3.4

    def plot(self, ax: Any = None) -> Self:
        """Draw the numbers.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw. None makes a figure that matplotlib's global state does not know.

        Returns
        -------
        Display
            This object, with ``ax_`` and ``figure_``.
        """
        axes = new_figure(*self._size()).add_subplot() if ax is None else ax
        self._draw(axes)
        # The pictures are not part of the numbers: a frozen display may be drawn too.
        object.__setattr__(self, "ax_", axes)
        object.__setattr__(self, "figure_", axes.figure)
        return self

    def to_svg(self) -> str:
        """Draw the numbers into a figure of their own.

        Returns
        -------
        str
            The figure as SVG text; the same numbers give the same text with the same matplotlib.
        """
        return svg(self.plot().figure_)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values for JSON.

        Returns
        -------
        dict
            The fields by name, and "display" with the name of the class.
        """
        found = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]
        return {"display": type(self).__name__, **found}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Make the display again from what :meth:`to_dict` returned.

        Parameters
        ----------
        plain : mapping
            The fields by name.

        Returns
        -------
        Display
            The display.
        """
        names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        try:
            return cls(**{name: plain[name] for name in names if name in plain})
        except (KeyError, TypeError, ValueError):
            raise InvalidInputError(f"this does not describe a {cls.__name__}") from None


def read_display(plain: Mapping[str, Any]) -> Display:
    """Make a display from plain values that name its class."""
    known = Display._known.get(str(plain.get("display")))
    if known is None:
        raise InvalidInputError("this describes no display that onefold knows")
    return known.from_dict(plain)


def new_figure(width: float, height: float) -> Any:
    """A figure of its own, which matplotlib's global state does not know."""
    return require("matplotlib.figure", "report").Figure(figsize=(width, height), layout="constrained")


def svg(figure: Any) -> str:
    """The figure as SVG; the same figure gives the same bytes."""
    matplotlib = require("matplotlib", "report")
    target = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "onefold", "svg.fonttype": "path", "font.size": 10}):
        figure.savefig(target, format="svg", metadata={"Date": None}, transparent=True)
    return target.getvalue()


def shortened(name: str, most: int = 22) -> str:
    """A name of limited length, with the dollar signs escaped that matplotlib would read as a formula."""
    text = name if len(name) <= most else name[: most - 1] + "…"
    return text.replace("$", r"\$")


def in_lines(name: str, width: int = 12, most: int = 3) -> str:
    """A name in a few short lines, for an axis."""
    return shortened(
        "\n".join(wrap(name, width, max_lines=most, placeholder="…")) or name, width * most + most
    )


def bare(axes: Any, *sides: str) -> None:
    """Take away some of the four lines around axes, by default those above and on the right."""
    for side in sides or ("top", "right"):
        axes.spines[side].set_visible(False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
