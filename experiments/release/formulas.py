"""002 Fig. 1 and 2: (epsilon, delta) of the optimal noise, and the adversary's error they stand for.

Fig. 1: noise with lam^(1/4) ||Pi^(1/4)|| = 0.1. Fig. 2: Tr(Pi^(1/2)) ||Pi^(1/4)||^2 = 1. Both by 002 Thm 2.5
and by the exact formula for Gaussian noise: Thm 2.5 exceeds it for strong noise and is too small for weak.
``--figure FILE`` draws them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import numpy as np

from experiments import harness
from experiments.harness import Outcome, Table, parser
from onefold._base.optional import require
from onefold.privacy import FisherGaussian
from onefold.privacy.calibration import mu_of
from onefold.report.displays import figure_format

DELTAS = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)
EPSILONS = (0.1, 1.0, 10.0, 30.0)
LAM = 0.1**4  # with Pi = 1 and one column this is lam^(1/4) ||Pi^(1/4)|| = 0.1
Formula = Callable[[float, float], float]


def least_epsilon(delta: float) -> tuple[float, float]:
    """Fig. 1: the border of the region, by Thm 2.5 and exactly."""
    noise = FisherGaussian(LAM, delta=delta, sensitivity=1.0, sampler="float")  # the formulas as they are
    return noise.documented_epsilon(1), noise.guarantee(1).record[0]


def documented_bound(epsilon: float, delta: float) -> float:
    """Fig. 2 as printed: (1 + sqrt(2 ln(1/delta)))^2 / epsilon^2."""
    return (1 + math.sqrt(2 * math.log(1 / delta))) ** 2 / epsilon**2


def exact_bound(epsilon: float, delta: float) -> float:
    """The error under the weakest noise that really has (epsilon, delta)."""
    return mu_of(epsilon, delta) ** -2


def draw(path: str) -> None:
    """Both figures side by side."""
    figure = require("matplotlib.figure", "report").Figure(figsize=(9.6, 4.0), layout="constrained")
    region, bounds = figure.subplots(1, 2)
    deltas = np.logspace(-10, -0.5, 60)
    documented, exact = np.array([least_epsilon(float(delta)) for delta in deltas]).T
    region.fill_betweenx(deltas, documented, 1.0, color="0.85", label="Thm 2.5 holds (Fig. 1)")
    region.plot(exact, deltas, color="#0b7a75", label="exact")
    region.set(xlabel="epsilon per record", ylabel="delta", yscale="log", xlim=(0, 1))
    epsilons = np.logspace(-2, 2, 60)
    formulas: tuple[tuple[str, Formula, str], ...] = (
        ("Thm 2.5 (Fig. 2)", documented_bound, "0.6"),
        ("exact", exact_bound, "#0b7a75"),
    )
    for delta, line in ((1e-2, ":"), (1e-5, "-"), (1e-9, "--")):
        for name, formula, colour in formulas:
            values = [formula(float(epsilon), delta) for epsilon in epsilons]
            bounds.loglog(epsilons, values, line, color=colour, label=f"{name}, delta {delta:g}")
    bounds.set(xlabel="epsilon per record", ylabel="least squared error of a record")
    for axes in (region, bounds):
        axes.legend(fontsize=7)
    figure.savefig(path)


def experiment(args: argparse.Namespace) -> Outcome:
    if args.figure:
        figure_format(args.figure)
        draw(args.figure)
    values = {}
    first: list[tuple[object, ...]] = []
    for delta in DELTAS:
        documented, exact = least_epsilon(delta)
        first.append((f"{delta:g}", documented, exact))
        values |= {f"Thm 2.5, delta {delta:g}": documented, f"exact, delta {delta:g}": exact}
    second: list[tuple[object, ...]] = []
    for epsilon in EPSILONS:
        documented, exact = documented_bound(epsilon, 1e-5), exact_bound(epsilon, 1e-5)
        second.append((f"{epsilon:g}", f"{documented:.4g}", f"{exact:.4g}"))
        values |= {f"bound of Thm 2.5, epsilon {epsilon:g}": documented}
        values |= {f"exact bound, epsilon {epsilon:g}": exact}
    one = Table("Fig. 1: least epsilon per record, mu = 0.1", ("delta", "Thm 2.5", "exact"), first)
    two = Table(
        "Fig. 2: least squared error of a record, delta 1e-5", ("epsilon", "Thm 2.5", "exact"), second
    )
    return Outcome(values, [one, two])


def main(arguments: list[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--figure", metavar="FILE", help="draw both figures: .png, .svg or .pdf")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
