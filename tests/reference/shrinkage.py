"""Empirical Bayes class means and the objective of the pool, sum by sum, as slowly as they are written."""

from __future__ import annotations

from math import exp, log

import numpy as np

Array = np.ndarray


def literal_objective(
    weights: Array, experts: list[Array], codes: Array, prior: Array, strength: float
) -> float:
    """Sum of held-out log losses plus strength times the squared distance of the weights from the prior."""
    total = 0.0
    for i, code in enumerate(codes):
        scores = [
            sum(w * expert[i, c] for w, expert in zip(weights, experts, strict=True))
            for c in range(experts[0].shape[1])
        ]
        total -= scores[code] - log(sum(exp(score) for score in scores))
    return total + strength * sum((w - w0) ** 2 for w, w0 in zip(weights, prior, strict=True))


def squared_length(difference: Array, covariance: Array) -> float:
    """Squared Mahalanobis length."""
    return float(difference @ np.linalg.inv(covariance) @ difference)


def distance_of_domains(
    source_means: Array, shift: Array, rows: Array, codes: Array, covariance: Array
) -> tuple[float, Array]:
    """t, and the source's means with or without the shift: whichever has more evidence."""
    k, best = rows.shape[1], None
    for moved in (source_means, source_means + shift):
        labelled = [c for c in range(len(moved)) if np.any(codes == c)]
        counts = {c: int(np.sum(codes == c)) for c in labelled}
        squares = {
            c: squared_length(sum(rows[codes == c]) / counts[c] - moved[c], covariance) for c in labelled
        }
        total = sum(counts.values())
        t = max(0.02, sum(counts[c] / total * (squares[c] / k - 1 / counts[c]) for c in labelled))
        evidence = sum(
            -k / 2 * log(t + 1 / counts[c]) - squares[c] / (2 * (t + 1 / counts[c])) for c in labelled
        )
        if best is None or evidence > best[0]:
            best = (evidence, t, moved)
    return best[1], best[2]


def shrunk(
    source_means: Array, within: Array, shift: Array, rows: Array, codes: Array, refine: bool
) -> tuple[Array, Array]:
    """Class means and their common covariance; codes are -1 where a row has no label."""
    (n_classes, k), rounds, per_direction = source_means.shape, 8 if refine else 2, 2 if refine else 10
    certain = {i: np.eye(n_classes)[code] for i, code in enumerate(codes) if code >= 0}
    beliefs = [certain.get(i, np.zeros(n_classes)) for i in range(len(rows))]
    covariance, nu = within, per_direction * k
    for step in range(rounds):
        t, moved = distance_of_domains(source_means, shift, rows, codes, covariance)
        means = []
        for c in range(n_classes):
            size = sum(b[c] for b in beliefs)
            total = sum(b[c] * y for b, y in zip(beliefs, rows, strict=True))
            means.append((total + moved[c] / t) / (size + 1 / t))
        scatter, size = np.zeros((k, k)), 0.0
        for b, y in zip(beliefs, rows, strict=True):
            for c in range(n_classes):
                scatter = scatter + b[c] * np.outer(y - means[c], y - means[c])
                size += b[c]
        covariance = (scatter + nu * within) / (size + nu)
        if refine and step < rounds - 1:
            for i, y in enumerate(rows):
                if i not in certain:
                    likely = np.array([exp(-squared_length(y - m, covariance) / 2) for m in means])
                    beliefs[i] = likely / likely.sum()
    return np.array(means), covariance
