"""
Releasing rows (document 002, Fig. 1-7)
=======================================

Noise with the least Fisher information for its size: how private it is, what it hides, and what it leaves
of a classifier or a regression.
"""

import math
import warnings

import numpy as np
from gallery_data import stored
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LinearRegression

from experiments.pictures import CurvesDisplay, PointsDisplay
from onefold.exceptions import PrivacyLeakWarning
from onefold.privacy import Box, FisherGaussian
from onefold.privacy.calibration import mu_of
from onefold.release import RobustSVM, release_iid, release_utility_preserving, sweep
from onefold.report import PrivacyUtilityDisplay

# %%
# **Fig. 1 and 2.** On the left the least epsilon for every delta, by the document's theorem and exactly:
# the theorem states more than is needed where noise is strong, and too little where it is weak. On the
# right how large the squared error of anybody who estimates a record without bias must be.
deltas = np.logspace(-9, -1, 40)
noises = [FisherGaussian(1e-4, delta=float(delta), sensitivity=1.0, sampler="float") for delta in deltas]
figure = Figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
region = {
    "document, Theorem 2.5": [noise.documented_epsilon(1) for noise in noises],
    "exact": [noise.guarantee(1).record[0] for noise in noises],
}
CurvesDisplay(deltas.tolist(), region, "delta", "least epsilon per record", "x").plot(left)
epsilons = np.logspace(-2, 2, 40)
errors = {
    "document, delta 1e-5": [(1 + math.sqrt(2 * math.log(1e5))) ** 2 / e**2 for e in epsilons],
    "exact, delta 1e-5": [mu_of(float(e), 1e-5) ** -2 for e in epsilons],
    "exact, delta 1e-9": [mu_of(float(e), 1e-9) ** -2 for e in epsilons],
}
display = CurvesDisplay(epsilons.tolist(), errors, "epsilon per record", "least squared error", "xy")
display.plot(right)
words = display.describe()

# %%
# **Fig. 3: two clouds with noise of three strengths.** The line is that of a support vector machine fitted
# to the released rows. The larger lam, the more utility counts and the less noise there is.
rng = np.random.default_rng(0)
X = np.vstack([rng.normal(size=(50, 2)), rng.normal((0, 5), size=(50, 2))])
y = np.repeat([1, -1], 50)
svm = RobustSVM(rho=1e-2, theta=1.0).fit(X, y)


def line(axes, model, colour):
    """Where a linear classifier changes its mind."""
    ends, height = np.array(axes.get_xlim()), axes.get_ylim()
    (a, b), c = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    axes.plot(ends, -(a * ends + c) / b, color=colour, linewidth=1.2)
    axes.set(xlim=ends, ylim=height)


figure = Figure(figsize=(10, 4), layout="constrained")
domain = Box([-4, -4], [4, 9])
for axes, lam in zip(figure.subplots(1, 3), (1e-4, 1e-2, 1.0), strict=True):
    released = release_iid(X, lam, sensitivity=domain)
    PointsDisplay.from_rows({"released": np.asarray(released), "original": X}).plot(axes)
    line(axes, svm, "#0b7a75")
    line(axes, RobustSVM().fit(released, y), "#d08c00")
    axes.set_title(f"lam {lam:g}, squared error at least {released.bound:.3g}", fontsize=8)
words = "Two clouds of points, released with noise of three strengths, and the lines that separate them."

# %%
# **Fig. 4: noise that keeps the classifier.** It moves rows only where the classifier does not feel it. The
# line stays the same; the decision value of every record leaves exactly, so there is no epsilon.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    kept = release_utility_preserving(X, y, svm, 100.0)
display = PointsDisplay.from_rows({"released": np.asarray(kept), "original": X})
display.plot()
line(display.ax_, svm, "#0b7a75")
line(display.ax_, RobustSVM().fit(kept, y), "#d08c00")
figure, words = display.figure_, display.describe()

# %%
# **A classifier on released rows**, beside Laplace noise of the same bound, for tumours (ten columns,
# scaled by ranges that were declared). Released rows cost far more than released sums: the epsilons at
# which the classifier is useful promise nothing.
table = load_breast_cancer()
columns = np.array(
    [
        [6, 30],
        [9, 40],
        [40, 190],
        [140, 2600],
        [0.05, 0.17],
        [0, 0.35],
        [0, 0.43],
        [0, 0.21],
        [0.1, 0.31],
        [0.04, 0.1],
    ]
)
rows = (table.data[:, :10] - columns[:, 0]) / (columns[:, 1] - columns[:, 0])
curve = sweep(
    rows,
    2 * table.target - 1,
    [1e-2, 1.0, 100.0, 1e4],
    sensitivity=Box(0, 1),
    repetitions=3,
    noises=("optimal", "Laplace, equal bound"),
    random_state=0,
)
display = PrivacyUtilityDisplay.from_curve(curve)
figure, words = display.plot().figure_, display.describe()

# %%
# **A regression on released rows**: the diabetes data of scikit-learn, in declared ranges.
X, y = load_diabetes(return_X_y=True)
curve = sweep(
    (X + 0.2) / 0.4,
    y,
    [1.0, 100.0, 1e4, 1e6],
    LinearRegression(),
    sensitivity=Box(0, 1),
    repetitions=5,
    noises=("optimal", "Laplace, equal bound"),
    random_state=0,
)
display = PrivacyUtilityDisplay.from_curve(curve)
figure, words = display.plot().figure_, display.describe()

# %%
# **Fig. 5 to 7: what lam costs**, for tumours, incomes and loans, as the experiments measured it; the
# README beside them says where their data differ from the document's. The line "raw rows" is the same
# learner without noise: with growing lam there is less noise, and the learner comes near it. The document
# prints curves without numbers.
tables = {"wisconsin": "accuracy, tumours", "adult": "accuracy, incomes", "lending": "loss, loans"}
figure = Figure(figsize=(10, 3.4), layout="constrained")
told = []
for axes, (name, label) in zip(figure.subplots(1, 3), tables.items(), strict=True):
    kept = stored(f"release/{name}")
    found = {
        float(key.removeprefix("optimal, lam ")): value
        for key, value in kept.items()
        if key.startswith("optimal, lam ")
    }
    lams, sign = sorted(found), -1 if name == "lending" else 1  # its score is minus the loss
    curves = {
        "optimal noise": [sign * found[lam] for lam in lams],
        "raw rows": [sign * kept["baseline"]] * len(lams),
    }
    display = CurvesDisplay(lams, curves, "lam", label, "xy" if name == "lending" else "x")
    display.plot(axes)
    axes.tick_params(axis="x", labelrotation=60)
    told.append(display.describe())
words = " ".join(told)
