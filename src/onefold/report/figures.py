"""Figures (extra ``report``): accuracies and class counts, the privacy-utility curve, fuzzy rules.

Every figure is a matplotlib ``Figure`` of its own; matplotlib's global state is not touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.files import output_file
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.privacy.terms import shown
from onefold.report.displays._display import AMBER, INK, SLATE, TEAL, new_figure, shortened

if TYPE_CHECKING:
    from onefold.models.fuzzy import Explanation
    from onefold.release import Curve
    from onefold.report.comparison import Comparison

__all__ = [
    "FIGURE_FORMATS",
    "accuracy_bars",
    "check_figure_format",
    "class_counts",
    "curve_figure",
    "rules_figure",
    "write_curve",
    "write_rules",
]

FIGURE_FORMATS = (".png", ".svg", ".pdf")
CURVE_STYLES = ((TEAL, "o"), (AMBER, "s"), (SLATE, "^"))
MOST_BARS = 12


# --- files ------------------------------------------------------------------------------------------------


def check_figure_format(path: str) -> str:
    """Return the format that the name of a figure asks for.

    Call it before a long run: a wrong name or a missing matplotlib fails here.

    Parameters
    ----------
    path : str
        Where the figure will be written; ends in .png, .svg or .pdf.

    Returns
    -------
    str
        The format as matplotlib names it, such as "png".
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FIGURE_FORMATS:
        raise InvalidInputError(f"{path}: the name of a figure must end in {', '.join(FIGURE_FORMATS)}")
    require("matplotlib.figure", "report")
    return suffix[1:]


def _write_figure(path: str, figure: Any, kind: str) -> None:
    """Write a figure; the file appears whole or not at all."""
    with output_file(path, public=True) as file:
        figure.savefig(file, format=kind, dpi=150)


# --- comparisons ------------------------------------------------------------------------------------------


def accuracy_bars(comparison: Comparison) -> str:
    """Draw one horizontal bar per classifier.

    Parameters
    ----------
    comparison : Comparison
        The classifiers and their accuracies.

    Returns
    -------
    str
        The figure as SVG text.
    """
    return _shown(comparison, "Accuracy")


def class_counts(comparison: Comparison) -> str:
    """Draw the samples of each class (columns) at each site (rows) as a heat map.

    Up to 20 classes the number of samples is written into each cell.

    Parameters
    ----------
    comparison : Comparison
        The class counts and the names of sites and classes.

    Returns
    -------
    str
        The figure as SVG text.
    """
    return _shown(comparison, "Samples of each class at each site")


def _shown(comparison: Comparison, title: str) -> str:
    from onefold.report.federations import of_comparison

    (display,) = [part.display for part in of_comparison(comparison).sections if part.title == title]
    assert display is not None
    return display.to_svg()


# --- the privacy-utility curve ----------------------------------------------------------------------------


def curve_figure(curve: Curve, title: str, errors: dict[str, Any] | None = None, void: bool = False) -> Any:
    """Draw scores over lam, and below them the error that an adversary is left with.

    Parameters
    ----------
    curve : Curve
        What :func:`onefold.release.sweep` returned.
    title : str
        Title of the figure.
    errors : dict, default=None
        One item: the label of the lower axis and one least error per lam. None draws the bound on the squared
        error of a record.
    void : bool, default=False
        Write on the figure that its epsilons do not hold because ranges were taken from the data.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; :func:`write_curve` writes it to a file.
    """
    figure = new_figure(6.4, 6.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    above.axhline(curve.baseline, color=INK, linewidth=1, label="raw rows")
    for noise, (colour, mark) in zip(curve.scores, CURVE_STYLES, strict=False):
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
    below.loglog(curve.lams, values, color=TEAL, marker="o", markersize=4)
    below.set_ylabel(name.replace("$", r"\$"), fontsize=9)
    below.set_xlabel("lam: left private, right useful")
    _label_epsilons(below, curve, void)
    return figure


def _label_epsilons(axes: Any, curve: Curve, void: bool) -> None:
    """Add a second axis on top of the lower part: epsilon per record."""
    top = axes.secondary_xaxis("top")
    some = curve.strengths[:: max(1, len(curve.strengths) // 6)]
    top.set_xticks([strength.lam for strength in some], [shown(strength.epsilon, 2) for strength in some])
    top.minorticks_off()
    top.tick_params(labelsize=8)
    text = "VOID, ranges were taken from the data: " * void
    top.set_xlabel(f"{text}epsilon per record at delta {some[0].delta:g}; labels not covered", fontsize=8)


def write_curve(
    path: str, curve: Curve, title: str, errors: dict[str, Any] | None = None, void: bool = False
) -> None:
    """Draw a curve as :func:`curve_figure` does and write it to a file, whole or not at all.

    Parameters
    ----------
    path : str
        The file; its name ends in .png, .svg or .pdf.
    curve : Curve
        What :func:`onefold.release.sweep` returned.
    title : str
        Title of the figure.
    errors : dict, default=None
        Label and values of the lower axis; see :func:`curve_figure`.
    void : bool, default=False
        Write on the figure that its epsilons do not hold.
    """
    kind = check_figure_format(path)
    _write_figure(path, curve_figure(curve, title, errors, void), kind)


# --- fuzzy rules ------------------------------------------------------------------------------------------


def rules_figure(explanation: Explanation, shape: tuple[int, int] | None = None) -> Any:
    """Draw the fuzzy rules that acted on one query, one line of panels per rule.

    A line shows the share of the rule, the inputs that speak for it, and the model's answer at its centre.

    Parameters
    ----------
    explanation : Explanation
        What ``explain`` of a fuzzy model or autoencoder returned.
    shape : tuple of (int, int), default=None
        Height and width of outputs that are images. None draws the outputs that differ most from their mean
        as bars.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; :func:`write_rules` writes it to a file.

    See Also
    --------
    write_rules : Draw the figure and write it to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepFuzzyModel
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = DeepFuzzyModel().fit(X, X.sum(axis=1))
    >>> figure = rules_figure(model.explain(X[0]))
    >>> len(figure.axes) % 2  # two panels per rule, and two for the answer
    0
    """
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
    """Draw fuzzy rules as :func:`rules_figure` does and write them to a file, whole or not at all.

    Parameters
    ----------
    path : str
        The file; its name ends in .png, .svg or .pdf.
    explanation : Explanation
        What ``explain`` of a fuzzy model or autoencoder returned.
    shape : tuple of (int, int), default=None
        Height and width of outputs that are images.

    See Also
    --------
    rules_figure : Draw the figure without writing it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from onefold import DeepFuzzyModel
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> explanation = DeepFuzzyModel().fit(X, X.sum(axis=1)).explain(X[0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rules.svg")
    ...     write_rules(str(path), explanation)
    ...     path.exists()
    True
    """
    kind = check_figure_format(path)
    _write_figure(path, rules_figure(explanation, shape), kind)


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
