"""Classifiers for the grocery tables, and the choice of options by cross-validation on training rows only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from onefold import AutoencoderClassifier, WideFuzzyAutoencoder, WideKAHM, WideMembershipAutoencoder

Rows = NDArray[Any]
SVM_C = {"linear": (0.1, 1.0, 10.0), "RBF": (1.0, 10.0, 100.0)}
AUTO_MEAN_SQUARE = 0.1  # what scale="auto" aims at

SCALINGS: dict[str, Callable[[], Any]] = {
    "[-1, 1]": lambda: MinMaxScaler((-1.0, 1.0)),
    "none": FunctionTransformer,
    "unit length": Normalizer,
}


class Contender(Protocol):
    """A classifier that gives every row a score for every class."""

    classes_: Rows

    def fit(self, X: Rows, y: Rows) -> Any: ...

    def scores(self, X: Rows) -> Rows: ...


def folds() -> StratifiedKFold:
    return StratifiedKFold(3, shuffle=True, random_state=0)


def mean_auc(truth: Rows, scores: Rows, classes: Rows) -> float:
    """Area under the ROC curve of each class against the rest, averaged over the classes tested."""
    present = [j for j, label in enumerate(classes) if 0 < np.sum(truth == label) < len(truth)]
    return float(np.mean([roc_auc_score(truth == classes[j], scores[:, j]) for j in present]))


@dataclass
class Plain:
    """A scikit-learn or onefold classifier and the method that gives its scores."""

    model: Any
    method: str = "predict_proba"

    def fit(self, X: Rows, y: Rows) -> Plain:
        self.model.fit(X, y)
        self.classes_ = self.model.classes_
        return self

    def scores(self, X: Rows) -> Rows:
        return np.asarray(getattr(self.model, self.method)(X))


@dataclass
class SVM:
    """Support vectors with C chosen by cross-validation; the kernel matrix is computed only once."""

    kernel: str

    def fit(self, X: Rows, y: Rows) -> SVM:
        self.samples = X
        self.gamma = 1.0 / (X.shape[1] * float(X.var()))  # scikit-learn's "scale"
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": SVM_C[self.kernel]}, cv=folds())
        self.search = search.fit(self._products(X), y)
        self.classes_ = self.search.classes_
        return self

    def scores(self, X: Rows) -> Rows:
        return np.asarray(self.search.decision_function(self._products(X)))

    def _products(self, X: Rows) -> Rows:
        if self.kernel == "linear":
            return np.asarray(linear_kernel(X, self.samples))
        return np.asarray(rbf_kernel(X, self.samples, self.gamma))


@dataclass
class ChosenSVM:
    """Scaling, kernel and C by cross-validation; machines already fitted on the same rows are reused."""

    fitted: dict[tuple[str, str], SVM]

    def fit(self, X: Rows, y: Rows) -> ChosenSVM:
        machines = dict(self.fitted)
        for scaling, kernel in product(SCALINGS, SVM_C):
            if (scaling, kernel) not in machines:
                machines[scaling, kernel] = SVM(kernel).fit(SCALINGS[scaling]().fit_transform(X), y)
        scaling, kernel = max(machines, key=lambda key: float(machines[key].search.best_score_))
        self.machine = machines[scaling, kernel]
        self.scaler = SCALINGS[scaling]().fit(X)
        self.choice = f"{kernel}, C={self.machine.search.best_params_['C']:g}, scaling {scaling}"
        self.classes_ = self.machine.classes_
        return self

    def scores(self, X: Rows) -> Rows:
        return self.machine.scores(self.scaler.transform(X))


@dataclass(frozen=True)
class Setting:
    """Options of the KAHM classifier; the defaults are the document's (Def. 7 with n = 20 and L = 5)."""

    scaling: str = "[-1, 1]"
    level: float | None = None  # size of the entries as seen, in units of scale="auto"; None: as they are
    branch_size: int = 1000
    partition: str = "kmeans"
    n_components: int = 20
    n_layers: int = 5
    measure: str = "euclidean"

    def model(self, X: Rows) -> Any:
        """Unfitted pipeline of scaling and classifier for training rows ``X``."""
        scale = None
        if self.level is not None:
            seen = SCALINGS[self.scaling]().fit_transform(X)
            scale = self.level * float(np.sqrt(AUTO_MEAN_SQUARE / np.mean(np.square(seen))))
        machine = WideKAHM(
            self.n_components,
            self.n_layers,
            self.branch_size,
            self.partition,
            scale=scale,
            random_state=0,
            regularisation="documented",
        )
        return make_pipeline(SCALINGS[self.scaling](), AutoencoderClassifier(machine, self.measure))

    def __str__(self) -> str:
        level = "as it is" if self.level is None else f"{self.level:g} x auto"
        return (
            f"scaling {self.scaling}, scale {level}, branches of {self.branch_size} ({self.partition}), "
            f"n={self.n_components}, L={self.n_layers}, {self.measure}"
        )


SEARCH: dict[str, tuple[Any, ...]] = {
    "n_layers": (1,),
    "level": (1.0, 0.2, 0.05),
    "scaling": ("none", "unit length"),
    "branch_size": (50, 20),
    "partition": ("contiguous",),
    "n_components": (10, 40),
    "measure": ("rms", "product"),
}
SMALL_SEARCH: dict[str, tuple[Any, ...]] = {"level": (1.0, 0.1), "branch_size": (20,)}


@dataclass
class ChosenKAHM:
    """One option after the other, beginning with the document's setting, by accuracy on training rows.

    A change must raise the cross-validated accuracy; one layer is taken if it is as good as five.
    """

    search: dict[str, tuple[Any, ...]]

    def fit(self, X: Rows, y: Rows) -> ChosenKAHM:
        self.setting = Setting()
        best = self._accuracy(self.setting, X, y)
        for option, options in self.search.items():
            for choice in options:
                candidate = replace(self.setting, **{option: choice})
                accuracy = self._accuracy(candidate, X, y)
                if accuracy > best or (accuracy == best and option == "n_layers"):
                    self.setting, best = candidate, accuracy
        self.choice = str(self.setting)
        self.pipeline = self.setting.model(X).fit(X, y)
        self.classes_ = self.pipeline.classes_
        return self

    def scores(self, X: Rows) -> Rows:
        scaler, classifier = self.pipeline[0], self.pipeline[-1]
        return np.asarray(classifier.matching_score(scaler.transform(X)))

    @staticmethod
    def _accuracy(setting: Setting, X: Rows, y: Rows) -> float:
        return float(cross_val_score(setting.model(X), X, y, cv=folds()).mean())


def contenders(scaling: str) -> dict[str, Contender]:
    """Classifiers without options to choose (but C), for rows already scaled."""
    machine = WideKAHM(20, 5, random_state=0, regularisation="documented")
    adapted = WideKAHM(20, 5, scale="auto", random_state=0, regularisation="documented")
    found: dict[str, Contender] = {
        "KAHM": Plain(AutoencoderClassifier(machine), "matching_score"),
        'KAHM, scale="auto"': Plain(AutoencoderClassifier(adapted), "matching_score"),
        "SVM, linear": SVM("linear"),
        "SVM, RBF": SVM("RBF"),
        **{f"{k}-NN": Plain(KNeighborsClassifier(k)) for k in (1, 2, 4)},
        "naive Bayes": Plain(GaussianNB(), "predict_log_proba"),
    }
    if scaling != "none":  # the document's scaling; trees do not notice the scale of a feature
        found["random forest"] = Plain(RandomForestClassifier(random_state=0, n_jobs=2))
        found["decision tree"] = Plain(DecisionTreeClassifier(random_state=0))
        found |= others()
    return found


def others() -> dict[str, Contender]:
    """The other models of this house, a network by gradients, and boosted trees, with their usual options.

    The trees of the ensemble are small and see 36 of the features at each node: with all of them it would
    take longer than everything else together.
    """
    membership = WideMembershipAutoencoder(20, 5, random_state=0)
    fuzzy = WideFuzzyAutoencoder(20, 5, max_rules=1000, random_state=0)
    tree = DecisionTreeClassifier(max_depth=4, max_features="sqrt", random_state=0)
    return {
        "membership-mappings": Plain(AutoencoderClassifier(membership), "matching_score"),
        "deep fuzzy model": Plain(AutoencoderClassifier(fuzzy, "fuzzy"), "matching_score"),
        "deep network": Plain(MLPClassifier((256, 256), random_state=0, early_stopping=True)),
        "ensemble": Plain(AdaBoostClassifier(tree, n_estimators=100, random_state=0)),
    }
