"""Smoothing noisy rows: against the documents' step with whole matrices as written, one branch of digits.

The opponent forms the p x p covariance and an inverse in every fixed-point step (``literal.fit``), and for
the honest rule smooths the rows and their disturbed copy apart, with all features, in every step.
"""

import numpy as np

from benchmarks import literal
from benchmarks.data import Sizes, digits
from benchmarks.timing import Row, best
from onefold.fabrication import Fabricator, Smoother
from onefold.privacy import OptimalNoise

EPSILON, N_COMPONENTS = 1.0, 20


def literal_step(rows: np.ndarray) -> np.ndarray:
    """H Y of 000 Def. 13: memberships of the samples in their own machine, times the samples."""
    machine = literal.fit(rows, N_COMPONENTS)
    encoded = rows @ machine.P.T
    inner = encoded @ machine.theta_inverse @ encoded.T
    squares = np.diag(inner)
    kernel = np.exp(-(squares[:, None] + squares[None, :] - 2 * inner) / (2 * N_COMPONENTS))
    return np.asarray(kernel @ machine.inverse @ rows)


def rows(sizes: Sizes) -> list[Row]:
    """One step, and a whole fabrication with honest stopping."""
    raw, what = digits(sizes.machine)
    noise = OptimalNoise(EPSILON, sensitivity=1.0)
    noisy = noise.randomise(raw, 0)
    smoother = Smoother(N_COMPONENTS)
    np.testing.assert_allclose(smoother.smooth(noisy), literal_step(noisy), atol=1e-6)
    theirs, ours = best(lambda: literal_step(noisy)), best(lambda: smoother.smooth(noisy))
    found = [
        Row(
            f"Smoother, one step, {len(raw)} {what}, float64: literal step / ours",
            theirs / ours,
            ">= 3",
            {"literal_seconds": theirs, "seconds": ours},
        )
    ]
    for dtype in (np.float64, np.float32):
        maker, kept = Fabricator(noise, N_COMPONENTS, branch_size=len(raw)), raw.astype(dtype)
        ours = best(lambda maker=maker, kept=kept: maker.fabricate(kept, random_state=0), 1)  # type: ignore[misc]
        steps = 2 * (maker.n_steps_[0] + 1)
        found.append(
            Row(
                f"Fabricator, honest, epsilon {EPSILON:g}, {len(raw)} {what}, {np.dtype(dtype)}: "
                f"literal step times {steps} / ours",
                steps * theirs / ours,
                ">= 3",
                {"literal_seconds": steps * theirs, "seconds": ours, "n_steps": maker.n_steps_[0]},
            )
        )
    return found
