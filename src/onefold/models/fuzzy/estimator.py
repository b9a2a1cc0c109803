"""Fuzzy autoencoders (003 Alg. 2, Def. 9, 10), regression (003 Alg. 1), and rules as people read them."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Index
from onefold._base.parallel import one_blas_thread
from onefold._base.validation import Entry, Number, Whole, check_parameter
from onefold.models.compose import DeepAutoencoder, LayeredAutoencoder, Regression, WideAutoencoder
from onefold.models.folding import SCALES, ScaleOption
from onefold.models.fuzzy.core import (
    LARGEST_INPUT,
    NARROW,
    WIDTHS,
    FuzzyStack,
    RuleLayer,
    Sets,
    fit_layers,
    fit_stack,
    leading_directions,
    make_sets,
    most_evident,
)
from onefold.models.pool import Stack

# --- rules as people read them ---------------------------------------------------------------------------


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


# --- autoencoders --------------------------------------------------------------------------------------


RULE_LIMITS: dict[str, Entry] = {"rule_ratio": Number(above=0, at_most=1), "max_rules": Whole(1)}


def rule_limit(n_samples: int, ratio: float, at_most: int) -> int:
    """Rules M: this part of the samples (003 Sec. 4.1), at least one and not more than ``at_most``."""
    return max(1, min(math.ceil(ratio * n_samples), at_most))


@dataclass(eq=False, repr=False)
class _FuzzyFamily(LayeredAutoencoder):
    """What both share: how a machine is fitted, and the fuzzy set it induces."""

    _: KW_ONLY
    rule_ratio: float = 0.5
    max_rules: int = 500
    width: float = 1.0

    constraints: ClassVar[dict[str, Entry]] = {**RULE_LIMITS, "width": Number(above=0)}
    stack_types = FuzzyStack, None

    def membership(self, X: ArrayLike) -> Array:
        """Compute the membership of each row in the fuzzy set of the samples (003 eq. 2.162).

        Of several branches, the largest counts. Distances are multiplied by ``scale_``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to compare with the samples.

        Returns
        -------
        ndarray of shape (n_rows,)
            Memberships in [0, 1].
        """
        with np.errstate(over="ignore"):
            seen = self.distance(X).astype(np.float64) * self.scale_
            return np.asarray(np.exp(-(seen**2) / (2.0 * self.n_features_in_)))

    @property
    def _largest_stacked(self) -> int:
        return 0  # the number of rules and layers differs from machine to machine

    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        at_most = rule_limit(samples.shape[1], self.rule_ratio, self.max_rules)
        return fit_stack(samples, self.n_components, self.n_layers, at_most, float(self.width), factor)


@dataclass(eq=False, repr=False)
class DeepFuzzyAutoencoder(_FuzzyFamily, DeepAutoencoder):
    """Deep fuzzy autoencoder: rules over an encoding give the samples back.

    A sample is encoded by the leading eigenvectors of the second moment. Each of M rules says: if the
    encoding is about a_m, then the image is c_m. The image of a point is the average of the c_m, weighted by
    how much the point fulfils each rule. A further layer does the same with what the one before returned;
    layers are added while the precision of the fit grows.

    Parameters
    ----------
    n_components : int, default=20
        Dimension n of the encoding; at most the rank of the samples is used.
    n_layers : int, default=5
        Largest number of layers. Most data gets one or two.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data. It decides how much the fit is smoothed, and it
        enters memberships.
    random_state : ignored
        One machine draws no random numbers; the parameter exists because all autoencoders have it.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    rule_ratio : float, default=0.5
        Rules per sample (003 Sec. 4.1).
    max_rules : int, default=500
        Largest number of rules.
    width : float, default=1.0
        Width of the fuzzy sets as a part of the range of the encodings. The document uses 1: hundreds of
        rules act on every point, and consequents make sense only together. With 0.1 to 0.3 few rules act, and
        a consequent looks like a sample.

    Attributes
    ----------
    rules_ : list of FuzzyRules
        Centres, widths and consequents of every layer.
    n_rules_ : int
        Number of rules.
    n_layers_ : int
        Number of layers.
    n_components_ : int
        Number of components.
    precisions_ : list of float
        Expected precision of the disturbances of every layer, for data multiplied by ``scale_`` (003
        eq. 2.154).
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    WideFuzzyAutoencoder : Many samples, divided into branches.
    DeepFuzzyModel : Regression by fuzzy rules.

    Notes
    -----
    Where the document is changed: the prior mean of a consequent is the mean of the samples instead of zero,
    so that data far from the origin is modelled as well as any; no image is farther from the mean than the
    farthest image of a sample, since the image of an unlike point may otherwise be anywhere; layers are added
    while precision grows (the document's text; its algorithm prints the opposite). Many smooth images can
    look alike: a rule explains what this model does, not why a class is what it is.

    References
    ----------
    Document 003, Definition 9, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepFuzzyAutoencoder
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> machine = DeepFuzzyAutoencoder(n_components=5).fit(X)
    >>> near, far = machine.membership([X[0], X[0] + 100.0])
    >>> bool(near > far)
    True
    """

    @property
    def _rule_base(self) -> FuzzyStack:
        return cast(FuzzyStack, self._machine)

    @property
    def n_rules_(self) -> int:
        """Number of rules."""
        return len(self._rule_base.sets.centres)

    @property
    def n_layers_(self) -> int:
        """Number of layers."""
        return len(self._rule_base.layers)

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return int(self._rule_base.encoder.shape[1])

    @property
    def rules_(self) -> list[FuzzyRules]:
        """Rules of every layer, in the units of the data."""
        base, unit = self._rule_base, self.pool_.unit
        return rules_of(base.sets, base.layers, base.mean, base.mean @ base.encoder, unit, unit)

    @one_blas_thread()
    def explain(self, x: ArrayLike, n_rules: int = 3) -> Explanation:
        """Find the rules that act most on one row.

        A rule is about an encoding by V (003 eq. 2.149). It is told in the columns of the samples: by the
        row that its centre stands for, which is what the machine makes of it.

        Parameters
        ----------
        x : array-like of shape (n_features,)
            The row.
        n_rules : int, default=3
            Number of rules to show.

        Returns
        -------
        Explanation
            The rules, which can be printed and drawn.
        """
        base, unit = self._rule_base, self.pool_.unit
        queries, _ = self.pool_.to_unit(checked_row(x, self._queries))

        def answer(points: Array) -> Array:
            encoded = (points / unit - base.mean) @ base.encoder
            return (base.conclude(encoded)[-1] + base.mean) * unit

        encoded = (queries.astype(np.float64) - base.mean) @ base.encoder
        centres = base.sets.centres * base.sets.widths + base.sets.shift
        rows = (base.conclude(centres)[-1] + base.mean) * unit
        spread = np.std(rows, axis=0)
        spoken = FuzzyRules(rows, np.where(spread > 0.0, spread, np.inf), self.rules_[0].consequents)
        given = getattr(self, "feature_names_in_", None)
        names = [f"x{j}" for j in range(len(base.mean))] if given is None else [str(name) for name in given]
        return explain_query(
            [spoken] * self.n_layers_,
            queries[0].astype(np.float64) * unit,
            base.sets.shares(encoded)[0],
            answer,
            (names, names),
            base.mean * unit,
            n_rules,
        )

    @property
    def precisions_(self) -> list[float]:
        """Expected precision of the disturbances of every layer (003 eq. 2.154)."""
        return [layer.precision for layer in self._rule_base.layers]


@dataclass(eq=False, repr=False)
class WideFuzzyAutoencoder(_FuzzyFamily, WideAutoencoder):
    """Deep fuzzy autoencoders side by side, one for every branch of the samples.

    A point's image is that of the branch whose image is nearest to it, so its membership is the largest one,
    and cost grows linearly with the number of samples.

    Parameters
    ----------
    n_components : int, default=20
        Dimension n of the encoding; at most the rank of the samples is used.
    n_layers : int, default=5
        Largest number of layers. Most data gets one or two.
    branch_size : int, default=1000
        Number of samples that a branch should hold. There are N / branch_size branches, rounded, at least
        one.
    partition : {"kmeans", "contiguous"}, default="kmeans"
        How samples are divided: "kmeans" makes clusters and divides a cluster of more than twice
        ``branch_size`` again, "contiguous" takes batches of consecutive rows.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data. It decides how much the fit is smoothed, and it
        enters memberships.
    random_state : int, RandomState or None, default=None
        Seed of the k-means that divides the samples.
    n_probe : int or None, default=None
        Compare a row only with this many branches, those with the nearest centres. None compares it with all
        branches, which is exact.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    rule_ratio : float, default=0.5
        Rules per sample (003 Sec. 4.1).
    max_rules : int, default=500
        Largest number of rules.
    width : float, default=1.0
        Width of the fuzzy sets as a part of the range of the encodings. The document uses 1: hundreds of
        rules act on every point, and consequents make sense only together. With 0.1 to 0.3 few rules act, and
        a consequent looks like a sample.

    Attributes
    ----------
    branches_ : list of DeepFuzzyAutoencoder
        The fitted branches, each with rules of its own.
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    DeepFuzzyAutoencoder : One branch.
    AutoencoderClassifier : One autoencoder per class.

    References
    ----------
    Document 003, Definition 10, Remark 7, eq. 2.165.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import WideFuzzyAutoencoder
    >>> X = np.random.default_rng(0).normal(size=(300, 10))
    >>> machine = WideFuzzyAutoencoder(5, 1, branch_size=100, partition="contiguous").fit(X)
    >>> len(machine.branches_)
    3
    """

    _branch_kind = DeepFuzzyAutoencoder

    def explain(self, x: ArrayLike, n_rules: int = 3) -> Explanation:
        """Find the rules that act most on one row, of the branch whose image is nearest to it.

        Parameters
        ----------
        x : array-like of shape (n_features,)
            The row.
        n_rules : int, default=3
            Number of rules to show.

        Returns
        -------
        Explanation
            The rules, which can be printed and drawn.
        """
        check_is_fitted(self)
        row = checked_row(x, self._queries)
        nearest: DeepFuzzyAutoencoder = min(self.branches_, key=lambda branch: float(branch.distance(row)[0]))
        if hasattr(self, "feature_names_in_"):
            nearest.feature_names_in_ = self.feature_names_in_
        return nearest.explain(row, n_rules)


# --- regression ----------------------------------------------------------------------------------------


SAME_ENCODING = 1e-6  # of the range of an input


@dataclass(eq=False, repr=False)
class DeepFuzzyModel(Regression):
    """Regression by fuzzy rules, any number of outputs at once.

    Each of M rules says: if the inputs are about a_m, then the outputs are c_m. The output is the average of
    the c_m, weighted by how much the inputs fulfil each rule. Consequents c_m and the precision of the data
    come from variational Bayes.

    Parameters
    ----------
    rule_ratio : float, default=0.5
        Rules per sample (003 Sec. 4.1).
    max_rules : int, default=500
        Largest number of rules.
    n_layers : int, default=5
        Largest number of layers. There is one unless the inputs are encodings of the outputs (003 Alg. 2): a
        further layer feeds encodings of outputs to the same fuzzy sets, which means nothing for other inputs.
    width : float or "auto", default="auto"
        Width of the fuzzy sets as a part of the range of the inputs. "auto" tries seven from 2 to 0.03 and
        takes the one with the largest negative free energy (003 eq. 2.139), a bound on the evidence. The
        document uses 1, which is too wide for anything but smooth curves where there are one or two inputs.
        The narrower the sets, the fewer rules act on a point, and the better they can be read one by one:
        "narrow" tries 0.25, 0.18 and 0.12. With ``max_rules=7`` there are rules to read, see
        :meth:`describe`, at some loss of accuracy.
    scale : None, "auto" or float, default="auto"
        Factor by which the outputs are multiplied. It decides how much the fit is smoothed: the prior has the
        precision 1e-6. "auto" makes their standard deviation one, None takes them as they are.

    Attributes
    ----------
    rules_ : list of FuzzyRules
        Centres, widths and consequents of every layer.
    width_ : float
        Width in use.
    n_rules_ : int
        Number of rules.
    n_layers_ : int
        Number of layers.
    precisions_ : list of float
        Expected precision of the disturbances of every layer, of the multiplied outputs (003 eq. 2.154).
    n_features_in_ : int
        Number of inputs.

    See Also
    --------
    DeepFuzzyAutoencoder : Rules that give samples back.
    MembershipMapping : Regression by membership-mappings.

    Notes
    -----
    The prior mean of a consequent is the mean of the outputs; in the document it is zero. No output is
    farther from the mean than the farthest one for a sample. An input that does not vary is ignored.

    References
    ----------
    Document 003, Definition 7, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepFuzzyModel
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> Y = np.column_stack([X[:, 0] + X[:, 1], np.sin(X[:, 2])])
    >>> DeepFuzzyModel().fit(X[:200], Y[:200]).score(X[200:], Y[200:]) > 0.9
    True
    """

    rule_ratio: float = 0.5
    max_rules: int = 500
    n_layers: int = 5
    _: KW_ONLY
    width: float | str = "auto"
    scale: ScaleOption = "auto"

    constraints: ClassVar[dict[str, Entry]] = {
        **RULE_LIMITS,
        "n_layers": Whole(1),
        "width": ("auto", "narrow", Number(above=0)),
        "scale": SCALES,
    }

    def _learn(self, rows: Array, targets: Array) -> None:
        at_most = rule_limit(len(rows), self.rule_ratio, self.max_rules)
        self._encoder = self._directions(rows, targets)
        targets = targets - self._mean
        factor = self._factor(targets)
        if isinstance(self.width, str):
            widths = WIDTHS if self.width == "auto" else NARROW
            self._sets, self.width_ = most_evident(rows, targets, at_most, factor, widths)
        else:
            self._sets, self.width_ = make_sets(rows, at_most, float(self.width)), float(self.width)
        encode = None if self._encoder is None else self._encode
        self._layers = fit_layers(self._sets, rows, targets, encode, self.n_layers, factor)
        self._count()

    def _count(self) -> None:
        self.n_rules_, self.n_layers_ = len(self._sets.centres), len(self._layers)
        self.precisions_ = [layer.precision for layer in self._layers]

    def _deviations(self, rows: Array) -> Array:
        deviations = self._layers[0].outputs(self._sets.shares(rows))
        for layer in self._layers[1:]:
            deviations = layer.outputs(self._sets.shares(self._encode(deviations)))
        return deviations

    @property
    def rules_(self) -> list[FuzzyRules]:
        """Rules of every layer, in the units of the data."""
        check_is_fitted(self)
        nothing = np.zeros_like(self._sets.shift)
        return rules_of(self._sets, self._layers, self._mean, nothing, self._input_unit, self._unit)

    @one_blas_thread()
    def explain(self, x: ArrayLike, n_rules: int = 3) -> Explanation:
        """Find the rules that act most on one row.

        Parameters
        ----------
        x : array-like of shape (n_features,)
            The row.
        n_rules : int, default=3
            Number of rules to show.

        Returns
        -------
        Explanation
            The rules, which can be printed and drawn.
        """
        rows = checked_row(x, self._inputs)
        shares = self._sets.shares(rows)[0]
        query, mean = rows[0] * self._input_unit, self._mean * self._unit
        return explain_query(self.rules_, query, shares, self._answer, self._names, mean, n_rules)

    @one_blas_thread()
    def describe(self, n_terms: int = 3) -> str:
        """Tell every rule of the first layer in words, with what the model answers at its centre.

        For models with few rules: ``DeepFuzzyModel(max_rules=7, width="narrow")``.

        Parameters
        ----------
        n_terms : int, default=3
            Number of inputs that a line names: those in which the rule differs most from the others.

        Returns
        -------
        str
            One line per rule.

        Examples
        --------
        >>> import numpy as np
        >>> from onefold import DeepFuzzyModel
        >>> X = np.linspace(0.0, 1.0, 21)[:, None]
        >>> model = DeepFuzzyModel(max_rules=3, width="narrow").fit(X, 5 * X[:, 0])
        >>> len(model.describe().splitlines()), "x0 is high" in model.describe()
        (3, True)
        """
        check_parameter("n_terms", n_terms, Whole(1))
        first = self.rules_[0]
        inputs, outputs = self._names
        return described(first, inputs, self._answer(first.centres), outputs, n_terms)

    def _answer(self, points: Array) -> Array:
        """Outputs for inputs in the units of the data."""
        return np.asarray((self._deviations(points / self._input_unit) + self._mean) * self._unit)

    @property
    def _names(self) -> tuple[list[str], list[str]]:
        """Of inputs and outputs."""
        given = getattr(self, "feature_names_in_", None)
        inputs = [f"x{k}" for k in range(self.n_features_in_)] if given is None else list(map(str, given))
        return inputs, ["y"] if self._one_output else [f"y{j}" for j in range(len(self._mean))]

    def _encode(self, deviations: Array) -> Array:
        """Inputs of a further layer (003 eq. 2.118)."""
        assert self._encoder is not None  # there is no further layer without it
        return np.asarray(deviations @ self._encoder + self._sets.shift)

    def _directions(self, rows: Array, targets: Array) -> Array | None:
        """V of 003 eq. 2.148 if the inputs are encodings of the outputs by it, up to signs and a constant."""
        n_inputs = rows.shape[1]
        if n_inputs > min(targets.shape):
            return None
        encoder = leading_directions(targets, n_inputs)[0] * (self._unit / self._input_unit)
        encoded, places = targets @ encoder, rows - rows.mean(axis=0)
        encoded -= encoded.mean(axis=0)
        signs = np.where(np.einsum("nk,nk->k", places, encoded) < 0.0, -1.0, 1.0)
        gaps = np.abs(places - signs * encoded).max(axis=0)
        return signs * encoder if (gaps <= SAME_ENCODING * np.ptp(places, axis=0)).all() else None

    def _factor(self, targets: Array) -> float:
        if self.scale == "auto":
            spread = math.sqrt(float(np.mean(np.square(targets))))
            return 1.0 / spread if spread > 0.0 else 1.0
        return self._unit * (1.0 if self.scale is None else float(self.scale))

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept."""
        rules = {"_sets": Sets, "_layers": list[RuleLayer], "_encoder": Array | None, "width_": float}
        return super()._kept() | rules

    def _fits(self, n_features: int, n_outputs: int) -> bool:
        n_rules, n_inputs = self._sets.centres.shape
        shapes = {layer.consequents.shape for layer in self._layers}
        fitting = n_inputs == n_features and shapes == {(n_rules, n_outputs)} and self.width_ > 0.0
        if self._encoder is None:
            fitting = fitting and len(self._layers) == 1
        else:
            fitting = fitting and self._encoder.shape == (n_outputs, n_features)
        self._count()
        return fitting
