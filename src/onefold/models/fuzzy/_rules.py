"""Fuzzy rules as people read them: in the units of the data, and those that acted on one query."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Array, Index
from onefold._base.validation import Whole, check_parameter
from onefold.models.fuzzy._core import LARGEST_INPUT, RuleLayer, Sets


@dataclass(frozen=True)
class FuzzyRules:
    """Rules of one layer: if inputs are about ``centres[m]``, then outputs are ``consequents[m]``.

    Parameters
    ----------
    centres : ndarray of shape (M, n)
        Means of the fuzzy sets (003 eq. 2.107).
    widths : ndarray of shape (n,)
        Standard deviation of the sets along every input; infinite for an input that does not count.
    consequents : ndarray of shape (M, p)
        What each rule concludes (003 eq. 2.109). With wide sets many rules act at once and partly cancel,
        so a single consequent may be far from any output.

    See Also
    --------
    DeepFuzzyModel : Has such rules.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepFuzzyModel
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> rules = DeepFuzzyModel(max_rules=5).fit(X, X[:, 0]).rules_[0]
    >>> len(rules), rules.centres.shape
    (5, (5, 1))
    """

    centres: Array
    widths: Array
    consequents: Array

    def __len__(self) -> int:
        return len(self.centres)


def rules_of(
    sets: Sets, layers: Sequence[RuleLayer], mean: Array, offset: Array, input_unit: float, unit: float
) -> list[FuzzyRules]:
    """The rules of every layer in units of the data; ``offset`` is what was subtracted from the inputs."""
    centres = (sets.centres * sets.widths + sets.shift + offset) * input_unit
    widths = np.where(sets.widths > 0.0, sets.widths * input_unit, np.inf)
    return [FuzzyRules(centres, widths, (layer.consequents + mean) * unit) for layer in layers]


@dataclass(frozen=True)
class Explanation:
    """Rules of the first layer that acted most on one query.

    ``print`` shows them as text, :mod:`onefold.report` draws them.

    Parameters
    ----------
    rules : ndarray of shape (K,)
        Numbers of the rules, the most active first.
    shares : ndarray of shape (K,)
        Their shares in the answer; those of all rules add up to one.
    n_rules : int
        Number of all rules.
    inputs : ndarray of shape (n,)
        The query as the rules see it.
    output : ndarray of shape (p,)
        The model's answer.
    centres : ndarray of shape (K, n)
        Centres of these rules.
    consequents : ndarray of shape (K, p)
        Consequents of these rules.
    answers : ndarray of shape (K, p)
        What the whole model answers at the centre of each rule: unlike a consequent, a sensible output.
    reasons : ndarray of shape (K, n)
        How much every input speaks for the rule: by how much the query is nearer to this rule's centre along
        it than to centres on average, in squared widths.
    mean : ndarray of shape (p,)
        Mean output.
    input_names : tuple of str
        Names of the inputs.
    output_names : tuple of str
        Names of the outputs.
    n_layers : int, default=1
        Number of layers of the model.
    n_terms : int, default=3
        Number of inputs and outputs that the text mentions per rule.
    quarters : ndarray of shape (2, n) or None, default=None
        Lower and upper quartile of the centres of all rules along every input: below or above these the text
        calls a centre low or high.

    See Also
    --------
    DeepFuzzyModel : Explains its answers.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepFuzzyModel
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> explanation = DeepFuzzyModel(max_rules=5).fit(X, X[:, 0]).explain(X[0], n_rules=2)
    >>> len(explanation.rules), explanation.n_rules
    (2, 5)
    """

    rules: Index
    shares: Array
    n_rules: int
    inputs: Array
    output: Array
    centres: Array
    consequents: Array
    answers: Array
    reasons: Array
    mean: Array
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    n_layers: int = 1
    n_terms: int = 3
    quarters: Array | None = None

    def __str__(self) -> str:
        one = len(self.rules) == 1
        layers = f" in the first of {self.n_layers} layers" if self.n_layers > 1 else ""
        lines = [
            f"{len(self.rules)} of {self.n_rules} rules {'has' if one else 'have'} "
            f"{self.shares.sum():.1%} of the say{layers}; the answer: {self._conclusion(self.output)}"
        ]
        for place, number in enumerate(self.rules):
            said = self._condition(place)
            if self.input_names != self.output_names:  # else the rule gives back what it speaks of
                said = f"if {said}, then about {self._conclusion(self.answers[place])}"
            lines.append(f"rule {number} ({self.shares[place]:.1%}): {said}")
        return "\n".join(lines)

    def _condition(self, place: int) -> str:
        chosen = np.argsort(-self.reasons[place], kind="stable")[: self.n_terms]
        parts = conditions(self.input_names, self.centres[place], chosen, self.quarters)
        others = len(self.input_names) - len(chosen)
        if others:
            parts.append(f"{others} more like it")
        return " and ".join(parts) if parts else "anything"

    def _conclusion(self, values: Array) -> str:
        """The outputs that differ most from their mean."""
        chosen = np.argsort(-np.abs(values - self.mean), kind="stable")[: self.n_terms]
        parts = [f"{self.output_names[j]} = {values[j]:.4g}" for j in chosen]
        others = len(self.output_names) - len(chosen)
        return ", ".join(parts) + (f" and {others} more" if others else "")


def conditions(names: Sequence[str], centre: Array, chosen: Index, quarters: Array | None) -> list[str]:
    """What a rule asks of some inputs, in words: ``bmi is high (34)``, or ``bmi is about 25`` in between."""
    said = []
    for k in chosen:
        value = f"{centre[k]:.4g}"
        level = ""
        if quarters is not None and quarters[0, k] < quarters[1, k]:
            level = "low" if centre[k] <= quarters[0, k] else "high" if centre[k] >= quarters[1, k] else ""
        said.append(f"{names[k]} is {level} ({value})" if level else f"{names[k]} is about {value}")
    return said


def described(
    rules: FuzzyRules, names: Sequence[str], answers: Array, outputs: Sequence[str], n_terms: int
) -> str:
    """All rules of a layer in words, one a line, with what the model answers at each centre."""
    quarters, middle = quarters_of(rules.centres), np.median(rules.centres, axis=0)
    spread = np.ptp(rules.centres, axis=0)
    telling = np.abs(rules.centres - middle) / np.where(spread > 0.0, spread, np.inf)
    lines = []
    for number, centre in enumerate(rules.centres):
        chosen = np.argsort(-telling[number], kind="stable")[:n_terms]
        asked = " and ".join(conditions(names, centre, chosen, quarters))
        told = ", ".join(
            f"{name} is about {value:.4g}" for name, value in zip(outputs, answers[number], strict=True)
        )
        lines.append(f"rule {number}: if {asked}, then {told}")
    return "\n".join(lines)


def quarters_of(centres: Array) -> Array:
    """Lower and upper quartile along every input, (2, n)."""
    return np.asarray(np.quantile(centres, (0.25, 0.75), axis=0))


def checked_row(x: ArrayLike, check: Callable[[Array], Array]) -> Array:
    """One row as a table of one; that it comes without names of columns is no reason to warn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return check(np.reshape(np.asarray(x), (1, -1)))


def explain_query(
    rules: list[FuzzyRules],
    inputs: Array,
    shares: Array,
    answer: Callable[[Array], Array],
    names: tuple[Sequence[str], Sequence[str]],
    mean: Array,
    n_rules: int,
) -> Explanation:
    """The ``n_rules`` rules with the largest of ``shares`` (M,) in the answer to ``inputs`` (n,).

    ``answer`` gives the model's outputs for rows of inputs; ``names`` are those of inputs and outputs.
    """
    check_parameter("n_rules", n_rules, Whole(1))
    first = rules[0]
    chosen = np.argsort(-shares, kind="stable")[:n_rules]
    return Explanation(
        chosen,
        shares[chosen],
        len(first),
        inputs,
        answer(inputs[None])[0],
        first.centres[chosen],
        first.consequents[chosen],
        answer(first.centres[chosen]),
        _reasons(first, inputs)[chosen],
        mean,
        tuple(names[0]),
        tuple(names[1]),
        len(rules),
        quarters=quarters_of(first.centres),
    )


def _reasons(rules: FuzzyRules, inputs: Array) -> Array:
    """Mean of half the squared gaps over all rules less that of each rule, (M, n); the inputs' squares
    cancel."""
    middle = rules.centres.mean(axis=0)
    places = (rules.centres - middle) / rules.widths
    query = np.clip((inputs - middle) / rules.widths, -LARGEST_INPUT, LARGEST_INPUT)
    return np.asarray(query * places - 0.5 * (places**2 - np.mean(places**2, axis=0)))
