"""Curves of utility over lam in pieces that survive an interruption, and what is said about them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.harness import Outcome, Table, parser
from experiments.journal import Journal, add_resume
from onefold.release import NOISES, Curve, Strength

OPTIMAL, BOUND, VARIANCE = NOISES
HEADERS = (
    "lam",
    "epsilon per record*",
    "error bound",
    OPTIMAL,
    BOUND,
    VARIANCE,
    "gain at equal bound",
    "± se",
    "gain at equal variance",
    "± se",
)


def options(description: str | None) -> argparse.ArgumentParser:
    """What all curves take."""
    chosen = add_resume(parser(description))
    chosen.add_argument(
        "--repetitions", type=int, default=100, help="number of fits per noise and lam (default: 100)"
    )
    chosen.add_argument(
        "--piece", type=int, default=5, help="number of repetitions per line of the journal (default: 5)"
    )
    return chosen


def in_pieces(args: argparse.Namespace, name: str, one_piece: Callable[[int, int], Curve]) -> Curve:
    """All repetitions; ``one_piece`` gets their number and a seed."""
    repetitions = 4 if args.quick else args.repetitions
    piece = min(args.piece, repetitions)
    journal, whole = Journal(args.resume), None
    for seed in range(repetitions // piece):
        plain = journal.run(
            f"{name} quick={args.quick} piece={piece} seed={seed}",
            lambda seed=seed: fields_of(one_piece(piece, seed)),
        )
        part = from_plain(plain)
        whole = part if whole is None else whole.joined(part)
    assert whole is not None
    return whole


def fields_of(curve: Curve) -> dict[str, Any]:
    """The fields of a curve as JSON has them."""
    return {**asdict(curve), "scores": {name: values.tolist() for name, values in curve.scores.items()}}


def from_plain(plain: dict[str, Any]) -> Curve:
    """A curve read back from JSON."""
    strengths = tuple(
        Strength(**{**values, "standard_errors": tuple(values["standard_errors"])})
        for values in plain["strengths"]
    )
    scores = {name: np.asarray(values) for name, values in plain["scores"].items()}
    return Curve(strengths, scores, plain["baseline"], plain["measure"])


def outcome(title: str, curve: Curve) -> Outcome:
    """The table, the values to compare, and at how many lams a difference exceeds two standard errors."""
    gains = {other: curve.difference(OPTIMAL, other) for other in (BOUND, VARIANCE)}
    rows: list[tuple[object, ...]] = [("no noise", "", "", curve.baseline, *[""] * (len(HEADERS) - 4))]
    for i, strength in enumerate(curve.strengths):
        means = [float(curve.mean(noise)[i]) for noise in NOISES]
        differences = [float(part[i]) for other in (BOUND, VARIANCE) for part in gains[other]]
        rows.append(
            (f"{strength.lam:g}", f"{strength.epsilon:.3g}", f"{strength.bound:.4g}", *means, *differences)
        )
    values = {"baseline": curve.baseline}
    for other, (mean, error) in gains.items():
        clear = np.abs(mean) > 2 * error
        label = "bound" if other == BOUND else "variance"
        values[f"clearly better at equal {label}"] = float(np.sum(clear & (mean > 0)))
        values[f"clearly worse at equal {label}"] = float(np.sum(clear & (mean < 0)))
    for strength, mean in zip(curve.strengths, curve.mean(OPTIMAL), strict=True):
        values[f"optimal, lam {strength.lam:g}"] = float(mean)
    repetitions = curve.scores[OPTIMAL].shape[1]
    heading = f"{title}; {repetitions} repetitions"
    heading += " (* records that differ by at most 1 per entry, delta 1e-5; labels not covered)"
    return Outcome(values, [Table(heading, HEADERS, rows)], fields_of(curve))
