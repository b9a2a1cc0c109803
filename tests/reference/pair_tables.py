"""Counts of cells and pairs of cells, their repair and the best tree, cell by cell and by brute force."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def counts(
    rows: list[tuple[int, ...]], classes: list[int], sizes: tuple[int, ...], n_classes: int, pairs: Any
) -> list[int]:
    """Single columns first, then pairs; for each of them class after class; rows of class -1 do not count."""
    found = []
    for column, size in enumerate(sizes):
        for own in range(n_classes):
            for cell in range(size):
                found.append(
                    sum(c == own and row[column] == cell for row, c in zip(rows, classes, strict=True))
                )
    for i, j in pairs:
        for own in range(n_classes):
            for a in range(sizes[i]):
                for b in range(sizes[j]):
                    hits = (
                        c == own and row[i] == a and row[j] == b for row, c in zip(rows, classes, strict=True)
                    )
                    found.append(sum(hits))
    return found


def on_simplex(values: list[float], total: float) -> list[float]:
    """Nearest point with non-negative entries and the given sum, by bisection of the common shift."""
    low, high = min(values) - total - 1.0, max(values) + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(value - middle, 0.0) for value in values) > total:
            low = middle
        else:
            high = middle
    return [max(value - high, 0.0) for value in values]


def class_size(singles: list[list[float]], doubles: list[Any], s1: float, s2: float) -> float:
    """Mean of the totals of all tables, weighted by one over their variance."""
    top = bottom = 0.0
    for table in singles:
        variance = len(table) * s1**2
        top, bottom = top + sum(table) / variance, bottom + 1 / variance
    for table in doubles:
        variance = table.size * s2**2
        top, bottom = top + table.sum() / variance, bottom + 1 / variance
    return max(top / bottom, 0.0)


def margin(
    column: int, singles: list[list[float]], doubles: list[Any], pairs: Any, s1: float, s2: float
) -> Any:
    """Weighted mean of a column's own table and of the margins of the pair tables it is in."""
    top, bottom = np.array(singles[column]) / s1**2, 1 / s1**2
    for (i, j), table in zip(pairs, doubles, strict=True):
        if column == i:
            variance = table.shape[1] * s2**2
            top, bottom = top + table.sum(axis=1) / variance, bottom + 1 / variance
        if column == j:
            variance = table.shape[0] * s2**2
            top, bottom = top + table.sum(axis=0) / variance, bottom + 1 / variance
    return top / bottom


def pair(table: Any, rows: Any, columns: Any, size: float, s2: float) -> Any:
    """Least squares to the margins, Stein's factor, simplex, proportional fitting."""
    a, b = table.shape
    moved = np.empty((a, b))
    for x in range(a):
        for y in range(b):
            moved[x, y] = (
                table[x, y]
                + (rows[x] - table[x].sum()) / b
                + (columns[y] - table[:, y].sum()) / a
                - (size - table.sum()) / (a * b)
            )
    independent = np.outer(rows, columns) / size
    gap = moved - independent
    square = float((gap**2).sum())
    factor = max(0.0, 1 - (a - 1) * (b - 1) * s2**2 / square) if square > 0 else 0.0
    found = np.array(on_simplex((independent + factor * gap).ravel().tolist(), size)).reshape(a, b)
    found += (
        1e-9 * independent
    )  # a trace, so that no row or column of the table is empty where its margin is not
    for _ in range(30):
        for x in range(a):
            if found[x].sum() > 0:
                found[x] *= rows[x] / found[x].sum()
        for y in range(b):
            if found[:, y].sum() > 0:
                found[:, y] *= columns[y] / found[:, y].sum()
    return found


def information(table: Any) -> float:
    """Mutual information of a table, times its sum."""
    total, found = float(table.sum()), 0.0
    for x, y in itertools.product(*map(range, table.shape)):
        if table[x, y] > 0:
            found += table[x, y] * math.log(table[x, y] * total / (table[x].sum() * table[:, y].sum()))
    return found


def best_tree(gains: dict[tuple[int, int], float], n: int) -> float:
    """Largest sum of gains of n - 1 pairs that connect all columns, among all choices."""
    best = -math.inf
    for edges in itertools.combinations(gains, n - 1):
        reached, grown = {0}, True
        while grown:
            grown = False
            for i, j in edges:
                if (i in reached) != (j in reached):
                    reached |= {i, j}
                    grown = True
        if len(reached) == n:
            best = max(best, sum(gains[edge] for edge in edges))
    return best
