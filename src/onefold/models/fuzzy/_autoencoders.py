"""Deep and wide fuzzy autoencoders as scikit-learn estimators (003 Alg. 2, Def. 9 and 10)."""

import math
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array
from onefold._base.parallel import one_blas_thread
from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.models._scale import ScaleOption
from onefold.models._shapes import DeepAutoencoder, LayeredAutoencoder, WideAutoencoder
from onefold.models.compose import Stack
from onefold.models.fuzzy._rules import Explanation, FuzzyRules, checked_row, explain_query, rules_of
from onefold.models.fuzzy._stack import FuzzyStack, fit_stack, rebuild_stack, stack_state

__all__ = ["DeepFuzzyAutoencoder", "WideFuzzyAutoencoder", "check_positive", "check_rule_ratio", "rule_limit"]


def check_rule_ratio(value: Any) -> None:
    """Refuse a ratio outside (0, 1]."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0.0 < value <= 1.0:
        raise InvalidInputError("rule_ratio must be a number above 0 and at most 1")


def check_positive(name: str, value: Any, alternative: str = "") -> None:
    """Refuse what is not a positive finite number."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0.0 < value < math.inf:
        raise InvalidInputError(f"{name} must be a positive finite number{alternative}")


def rule_limit(n_samples: int, ratio: float, at_most: int) -> int:
    """Rules M: this part of the samples (003 Sec. 4.1), at least one and not more than ``at_most``."""
    return max(1, min(math.ceil(ratio * n_samples), at_most))


class _FuzzyFamily(LayeredAutoencoder):
    """What both share: how a machine is fitted, saved and restored; the fuzzy set it induces."""

    rule_ratio: float
    max_rules: int
    width: float

    def membership(self, X: ArrayLike) -> Array:
        """Membership of each row in the fuzzy set of the samples, in [0, 1] (003 eq. 2.162).

        Of several branches, the largest. Distances are seen ``scale_`` times as large.
        """
        with np.errstate(over="ignore"):
            seen = self.distance(X).astype(np.float64) * self.scale_
            return np.asarray(np.exp(-(seen**2) / (2.0 * self.n_features_in_)))

    def check_parameters(self) -> None:
        super().check_parameters()
        check_rule_ratio(self.rule_ratio)
        check_whole_number("max_rules", self.max_rules)
        check_positive("width", self.width)

    @property
    def _largest_stacked(self) -> int:
        return 0  # the number of rules and layers differs from machine to machine

    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        at_most = rule_limit(samples.shape[1], self.rule_ratio, self.max_rules)
        return fit_stack(samples, self.n_components, self.n_layers, at_most, float(self.width), factor)

    def stack_state(self, stack: Stack) -> dict[str, NDArray[Any]]:
        return stack_state(cast(FuzzyStack, stack))

    def stack_from_state(self, state: dict[str, NDArray[Any]], factor: float) -> Stack:
        return rebuild_stack(state, self.n_components, self.n_layers)


class DeepFuzzyAutoencoder(_FuzzyFamily, DeepAutoencoder):
    """Deep fuzzy autoencoder: rules over an encoding give the samples back (003 Alg. 2, Def. 9).

    A sample is encoded by the leading eigenvectors of the second moment. Each of M rules says: if the
    encoding is about a_m, then the image is c_m; the image of a point is the average of the c_m, weighted by
    how much it fulfils each rule. Layers that do the same with what the one before returned are added while
    the precision of the fit grows.

    Parameters
    ----------
    n_components : int, default=20
        Dimension n of the encoding; at most the rank of the samples is used.
    n_layers : int, default=5
        Layers, at most. Most data gets one or two.
    rule_ratio : float, default=0.5
        Rules per sample (003 Sec. 4.1).
    max_rules : int, default=500
        Rules, at most.
    width : float, default=1.0
        Width of the fuzzy sets in ranges of the encodings. 1 is the document's: so wide that hundreds of
        rules act on every point, and consequents make sense only together. With 0.1 to 0.3 few rules act, and
        a consequent looks like a sample.
    scale : None, "auto" or float, default=None
        Factor at which the data is seen. It decides how much the fit is smoothed, and enters memberships.
    n_jobs : int or None, default=None
        Worker threads for blocks of queries; None uses as many as BLAS may use.
    random_state : ignored
        There is nothing random in one machine; accepted so that all autoencoders take it.

    Attributes
    ----------
    rules_ : list of FuzzyRules
        Centres, widths and consequents of every layer.
    n_rules_, n_layers_, n_components_ : int
        Rules, layers and components in use.
    precisions_ : list of float
        Expected precision of the disturbances of every layer, at the scale the data is seen (003 eq. 2.154).

    Notes
    -----
    Where the document is changed: the prior mean of a consequent is the mean of the samples instead of zero,
    so that data far from the origin is modelled as well as any; no image is farther from the mean than the
    farthest image of a sample, since the image of an unlike point may otherwise be anywhere; layers are added
    while precision grows (the document's text; its algorithm prints the opposite). Many smooth images can
    look alike: a rule explains what this model does, not why a class is what it is.

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

    def __init__(
        self,
        n_components: int = 20,
        n_layers: int = 5,
        *,
        rule_ratio: float = 0.5,
        max_rules: int = 500,
        width: float = 1.0,
        scale: ScaleOption = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.rule_ratio = rule_ratio
        self.max_rules = max_rules
        self.width = width
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _rule_base(self) -> FuzzyStack:
        return cast(FuzzyStack, self._machine)

    @property
    def n_rules_(self) -> int:
        return len(self._rule_base.sets.centres)

    @property
    def n_layers_(self) -> int:
        return len(self._rule_base.layers)

    @property
    def n_components_(self) -> int:
        return int(self._rule_base.encoder.shape[1])

    @property
    def rules_(self) -> list[FuzzyRules]:
        base, unit = self._rule_base, self.pool_.unit
        return rules_of(base.sets, base.layers, base.mean, base.mean @ base.encoder, unit, unit)

    @one_blas_thread()
    def explain(self, x: ArrayLike, n_rules: int = 3) -> Explanation:
        """The rules that act most on one row ``x``; the result can be printed and drawn.

        Rules speak of components: encodings by V (003 eq. 2.149), not of features.
        """
        base, unit = self._rule_base, self.pool_.unit
        queries, _ = self.pool_.to_unit(checked_row(x, self._queries))
        offset = base.mean @ base.encoder

        def answer(points: Array) -> Array:
            return (base.conclude(points / unit - offset)[-1] + base.mean) * unit

        encoded = (queries.astype(np.float64) - base.mean) @ base.encoder
        given = getattr(self, "feature_names_in_", None)
        outputs = [f"x{j}" for j in range(len(base.mean))] if given is None else [str(name) for name in given]
        inputs = [f"component {k + 1}" for k in range(self.n_components_)]
        return explain_query(
            self.rules_,
            (encoded[0] + offset) * unit,
            base.sets.shares(encoded)[0],
            answer,
            (inputs, outputs),
            base.mean * unit,
            n_rules,
        )

    @property
    def precisions_(self) -> list[float]:
        return [layer.precision for layer in self._rule_base.layers]


class WideFuzzyAutoencoder(_FuzzyFamily, WideAutoencoder):
    """Deep fuzzy autoencoders side by side, one for every branch of the samples (003 Remark 7, eq. 2.165).

    A point's image is that of the branch nearest to it, so its membership is the largest one, and cost grows
    linearly with the number of samples.

    Parameters
    ----------
    n_components, n_layers, rule_ratio, max_rules, width, scale, n_jobs : as in :class:`DeepFuzzyAutoencoder`
    branch_size : int, default=1000
        About how many samples a branch holds; there are N / branch_size branches, rounded, at least one.
    partition : {"kmeans", "contiguous"}, default="kmeans"
        Branches are clusters, or batches of consecutive rows.
    n_probe : int or None, default=None
        Fold a point only by this many branches, those with the nearest centres. None folds by all: exact.
    random_state : int, RandomState or None, default=None
        Seeds the k-means of the branches.

    Attributes
    ----------
    branches_ : list of DeepFuzzyAutoencoder
        The fitted branches, each with rules of its own.
    """

    def __init__(
        self,
        n_components: int = 20,
        n_layers: int = 5,
        branch_size: int = 1000,
        partition: str = "kmeans",
        *,
        rule_ratio: float = 0.5,
        max_rules: int = 500,
        width: float = 1.0,
        n_probe: int | None = None,
        scale: ScaleOption = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.branch_size = branch_size
        self.partition = partition
        self.rule_ratio = rule_ratio
        self.max_rules = max_rules
        self.width = width
        self.n_probe = n_probe
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def branches_(self) -> list[DeepFuzzyAutoencoder]:
        return self._fitted_branches()

    def explain(self, x: ArrayLike, n_rules: int = 3) -> Explanation:
        """The rules that act most on one row ``x``, of the branch nearest to it."""
        check_is_fitted(self)
        row = checked_row(x, self._queries)
        nearest = min(self.branches_, key=lambda branch: float(branch.distance(row)[0]))
        if hasattr(self, "feature_names_in_"):
            nearest.feature_names_in_ = self.feature_names_in_
        return nearest.explain(row, n_rules)

    def _branch(self) -> DeepFuzzyAutoencoder:
        return DeepFuzzyAutoencoder(
            self.n_components,
            self.n_layers,
            rule_ratio=self.rule_ratio,
            max_rules=self.max_rules,
            width=self.width,
            scale=self.scale_,
            n_jobs=self.n_jobs,
        )
