"""What privacy costs, and what an attacker finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from onefold.exceptions import InvalidInputError
from onefold.privacy.terms import shown
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

if TYPE_CHECKING:
    from onefold.audit import AttackResult
    from onefold.release import Curve

__all__ = ["MembershipDisplay", "PrivacyUtilityDisplay"]

STYLES = ((TEAL, "o"), (AMBER, "s"), (SLATE, "^"), (VIOLET, "D"))
SMALLEST_RATE = 1e-4
MOST_CORNERS = 400
HIGH = 0.85  # a score below which its number is written, so that nothing is cut


@dataclass(frozen=True)
class PrivacyUtilityDisplay(Display):
    """Utility against epsilon: how much is lost for which promise.

    Parameters
    ----------
    epsilons : sequence of float
        Epsilons in rising order.
    scores : mapping of str to sequence of float
        Mean score at each epsilon, for every kind of noise or method.
    spreads : mapping of str to sequence of float, default={}
        Standard error of each mean; groups that are missing have none.
    references : mapping of str to float, default={}
        Scores to compare with, such as that without noise and that of guessing.
    marked : float or None, default=None
        Epsilon of the release that the picture is about.
    measure : str, default="accuracy"
        What the scores are.
    unit : str, default="record"
        What epsilon protects.
    whole : bool, default=False
        Whether the axis of the scores reaches from 0 to 1, so that small differences look small.

    See Also
    --------
    MembershipDisplay : What an attacker finds.

    Examples
    --------
    >>> display = PrivacyUtilityDisplay([0.5, 1.0], {"moments": [0.8, 0.9]}, marked=1.0)
    >>> display.describe()
    'Accuracy against epsilon per record: moments 0.800 at 0.5, 0.900 at 1. This release is at epsilon 1.'
    """

    epsilons: Sequence[float]
    scores: Mapping[str, Sequence[float]]
    spreads: Mapping[str, Sequence[float]] = field(default_factory=dict)
    references: Mapping[str, float] = field(default_factory=dict)
    marked: float | None = None
    measure: str = "accuracy"
    unit: str = "record"
    whole: bool = False

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (*self.scores.values(), *self.spreads.values())}
        if not self.scores or lengths != {len(self.epsilons)}:
            raise InvalidInputError("every method needs one score for each epsilon")

    @classmethod
    def from_curve(cls, curve: Curve, marked: float | None = None) -> Self:
        """Take the scores of a sweep over strengths of noise.

        Parameters
        ----------
        curve : Curve
            What :func:`onefold.release.sweep` returned.
        marked : float or None, default=None
            Epsilon of the release that the picture is about.

        Returns
        -------
        PrivacyUtilityDisplay
            The display.
        """
        order = np.argsort([strength.epsilon for strength in curve.strengths], kind="stable")
        return cls(
            [float(curve.strengths[place].epsilon) for place in order],
            {name: curve.mean(name)[order].tolist() for name in curve.scores},
            {name: np.nan_to_num(curve.standard_error(name))[order].tolist() for name in curve.scores},
            {"raw rows": float(curve.baseline)},
            marked,
            curve.measure,
        )

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            Every score with its epsilon.
        """
        told = [
            f"{name} "
            + ", ".join(
                f"{score:.3f} at {shown(e, 3)}" for e, score in zip(self.epsilons, scores, strict=True)
            )
            for name, scores in self.scores.items()
        ]
        told += [f"{name} {score:.3f}" for name, score in self.references.items()]
        here = "" if self.marked is None else f" This release is at epsilon {shown(self.marked)}."
        return f"{self.measure.capitalize()} against epsilon per {self.unit}: {'; '.join(told)}.{here}"

    def _draw(self, axes: Any) -> None:
        for (name, score), line in zip(self.references.items(), ("-", "--", ":", "-."), strict=False):
            axes.axhline(score, color=INK, linewidth=1, linestyle=line, label=shortened(name, 32))
        for (name, scores), (colour, mark) in zip(self.scores.items(), STYLES, strict=False):
            spread = 2 * np.asarray(self.spreads.get(name, np.zeros(len(scores))))
            axes.errorbar(
                self.epsilons,
                scores,
                spread,
                color=colour,
                marker=mark,
                markersize=4,
                capsize=2,
                label=shortened(name, 32),
            )
        if self.whole and len(self.scores) == 1:  # there is room for the numbers themselves
            for epsilon, score in zip(self.epsilons, next(iter(self.scores.values())), strict=True):
                axes.annotate(
                    f"{score:.2f}",
                    (epsilon, score),
                    (0, -14 if score > HIGH else 7),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8},
                )
        if self.marked is not None:
            axes.axvline(self.marked, color=AMBER, linewidth=2, alpha=0.6, label="this release", zorder=1)
        axes.set_xscale("log")
        axes.set_xticks(self.epsilons, [shown(epsilon, 3) for epsilon in self.epsilons])
        axes.minorticks_off()
        axes.set_xlabel(f"epsilon per {self.unit}: left private, right useful")
        axes.set_ylabel(self.measure)
        if self.whole:
            axes.set_ylim(0.0, 1.02)
        axes.legend(fontsize=9, frameon=False)
        bare(axes)


@dataclass(frozen=True)
class MembershipDisplay(Display):
    """Members that an attacker finds against outsiders whom he accuses, on logarithmic axes.

    Small rates matter most: an attacker who is sure about a few members has hurt these.

    Parameters
    ----------
    accused : sequence of float
        Shares of outsiders that are taken for members.
    found : sequence of float
        Shares of members that are found at each of them.
    auc : float
        Area under the curve; 0.5 is guessing.
    interval : (float, float) or None, default=None
        Confidence interval of the area.

    See Also
    --------
    onefold.audit.audit_membership : Attack a classifier.

    Examples
    --------
    >>> from onefold.audit import distance_attack
    >>> round(MembershipDisplay.from_attack(distance_attack([1.0, 2.0], [3.0, 4.0])).auc, 3)
    1.0
    """

    accused: Sequence[float]
    found: Sequence[float]
    auc: float
    interval: Sequence[float] | None = None

    @classmethod
    def from_attack(cls, attack: AttackResult) -> Self:
        """Take the curve of an attack, thinned evenly on the logarithmic axis.

        Parameters
        ----------
        attack : AttackResult
            What :func:`onefold.audit.distance_attack` returned.

        Returns
        -------
        MembershipDisplay
            The display.
        """
        grid = np.geomspace(SMALLEST_RATE, 1.0, MOST_CORNERS)
        found = attack.tpr[np.searchsorted(attack.fpr, grid, side="right") - 1]
        return cls(
            grid.tolist(), found.tolist(), float(attack.auc), [float(end) for end in attack.auc_interval]
        )

    def describe(self) -> str:
        """Say what the picture shows, for those who cannot see it.

        Returns
        -------
        str
            The area, and members found at 0.1 and 1 % false accusations.
        """
        small, large = (
            100 * self.found[max(0, int(np.searchsorted(self.accused, rate, side="right")) - 1)]
            for rate in (1e-3, 1e-2)
        )
        return (
            f"ROC curve on logarithmic axes: {small:.2f} % of members found at 0.1 % false positives, "
            f"{large:.2f} % at 1 %, AUC {self.auc:.3f}. The dashed line is guessing."
        )

    def _size(self) -> tuple[float, float]:
        return PAGE_WIDTH, 3.6

    def _draw(self, axes: Any) -> None:
        ends = (SMALLEST_RATE, 1.0)
        axes.loglog(ends, ends, color=SLATE, linestyle="--", linewidth=1, label="guessing")
        axes.loglog(
            self.accused,
            np.maximum(self.found, SMALLEST_RATE),
            color=TEAL,
            linewidth=2,
            drawstyle="steps-post",
            label=f"attack, AUC {self.auc:.3f}",
        )
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        axes.set_xlabel("share of outsiders accused")
        axes.set_ylabel("share of members found")
        axes.legend(fontsize=9, frameon=False, loc="lower right")
        bare(axes)
