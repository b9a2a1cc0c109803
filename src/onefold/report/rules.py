"""The fuzzy rules that acted on one query, as a figure (extra ``report``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.files import atomic_write
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.report.tradeoff import check_figure_format

if TYPE_CHECKING:
    from onefold.models.fuzzy import Explanation

__all__ = ["rules_figure", "write_rules"]

COLOUR, QUERY, INK = "#0b7a75", "#d08c00", "#1f2933"
MOST_BARS = 12


def rules_figure(explanation: Explanation, shape: tuple[int, int] | None = None) -> Any:
    """One line of panels for every rule: its share, why it acts, what the model answers at its centre.

    Parameters
    ----------
    explanation : what ``explain`` of a fuzzy model or autoencoder returned.
    shape : height and width, for outputs that are images; None draws those that differ most from their mean.
    """
    _check_shape(explanation, shape)
    n_rules = len(explanation.rules)
    figure = require("matplotlib.figure", "report").Figure(
        figsize=(8.0, 0.6 + 1.6 * (n_rules + 1)), layout="constrained"
    )
    grid = figure.subplots(n_rules + 1, 2, squeeze=False, width_ratios=(3, 2))
    grid[0, 0].axis("off")
    grid[0, 0].text(0.0, 0.5, _summary(explanation), va="center", color=INK, fontsize=10)
    _output(grid[0, 1], explanation, explanation.output, shape, QUERY)
    grid[0, 1].set_title("the answer" if shape else "the answer; dashes: the mean", fontsize=9)
    for place, (axes, panel) in enumerate(grid[1:]):
        _reasons(axes, explanation, place)
        _output(panel, explanation, explanation.answers[place], shape, COLOUR)
        panel.set_title("the answer at its centre", fontsize=9)
    return figure


def write_rules(path: str, explanation: Explanation, shape: tuple[int, int] | None = None) -> None:
    """Write the figure; the file appears whole or not at all."""
    kind = check_figure_format(path)
    figure = rules_figure(explanation, shape)
    try:
        with atomic_write(path) as file:
            figure.savefig(file, format=kind, dpi=150)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written ({error.strerror or 'I/O error'})") from error


def _check_shape(explanation: Explanation, shape: tuple[int, int] | None) -> None:
    if shape is not None and (len(shape) != 2 or min(shape) < 1 or np.prod(shape) != len(explanation.output)):
        raise InvalidInputError(f"shape must be a height and a width of {len(explanation.output)} outputs")


def _summary(explanation: Explanation) -> str:
    layers = f"\nin the first of {explanation.n_layers} layers" * (explanation.n_layers > 1)
    return (
        f"{len(explanation.rules)} of {explanation.n_rules} rules have\n"
        f"{explanation.shares.sum():.1%} of the say{layers}"
    )


def _reasons(axes: Any, explanation: Explanation, place: int) -> None:
    """Bars for the inputs that speak most for a rule, or against it."""
    reasons = explanation.reasons[place]
    chosen = np.argsort(-np.abs(reasons), kind="stable")[: MOST_BARS // 2]
    names = [f"{_plain(explanation.input_names[k])} ~ {explanation.centres[place, k]:.3g}" for k in chosen]
    axes.barh(range(len(chosen)), reasons[chosen], color=COLOUR, height=0.7)
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
    axes.set_xticks(places, [_plain(explanation.output_names[j]) for j in chosen], fontsize=7, rotation=60)
    axes.tick_params(axis="y", labelsize=7)


def _plain(name: str) -> str:
    # A lone $ pair would be read as a formula.
    return (name if len(name) <= 16 else name[:15] + "…").replace("$", r"\$")
