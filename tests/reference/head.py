"""The head for tables, row by row: kernels by loops over the columns, ridge and leave-one-out by solving."""

import numpy as np


def ranks(values, known):
    """Share of the known values below each value, an equal one counting half; between known values a line."""
    places = sorted(set(known))
    middles = [(sum(k < v for k in known) + 0.5 * sum(k == v for k in known)) / len(known) for v in places]
    return np.interp(values, places, middles)


def weights(columns, labels, floor=0.3, bins=12):
    """``floor`` plus the rest times the adjusted share of the label's variance that the cells explain."""
    n, classes = len(labels), sorted(set(labels))
    shares = []
    for kind, cells in columns:
        if kind == "number":
            seen = cells[~np.isnan(cells)]
            groups = [
                "missing" if np.isnan(c) else min(int(ranks([c], seen)[0] * bins), bins - 1) for c in cells
            ]
        else:
            groups = list(cells)
        within = total = 0.0
        for c in classes:
            target = np.array([float(label == c) for label in labels])
            total += ((target - target.mean()) ** 2).sum()
            for g in set(groups):
                own = target[[group == g for group in groups]]
                within += ((own - own.mean()) ** 2).sum()
        shares.append(max(1 - within / total - (len(set(groups)) - 1) / (n - 1), 0.0))
    return floor + (1 - floor) * np.array(shares) / np.mean(shares)


def kernels(columns, others, weight, length, sharpness):
    """The three similarities between the rows of two tables; ranks and moments are those of the second."""
    n, m, p = len(columns[0][1]), len(others[0][1]), len(columns)
    apart, squares = np.zeros((n, m)), np.zeros((n, m))
    widest = 0.0
    for (kind, cells), (_, known), w in zip(columns, others, weight, strict=True):
        widest += w
        if kind == "category":
            differs = np.array([[a != b for b in known] for a in cells], dtype=float)
            apart += w * differs
            squares += w * differs  # two encoded columns differ, each has half the weight
            continue
        seen = known[~np.isnan(known)]
        has_gap = len(seen) < len(known)
        widest += w * has_gap

        def view(values, seen=seen):
            gap = np.isnan(values)
            filled = np.where(gap, seen[0], values)
            rank = np.where(gap, 0.5, ranks(filled, seen))
            standard = np.clip((filled - seen.mean()) / seen.std(), -4, 4)
            return rank, np.where(gap, 0.0, standard), gap.astype(float)

        for a, b, power in zip(view(cells), view(known), ("rank", "square", "both"), strict=True):
            difference = np.abs(a[:, None] - b[None])
            if power != "square":
                apart += w * difference
            if power != "rank":
                squares += w * difference**2
    return np.exp(-apart / (length * p**0.5)), np.exp(-sharpness * squares / p), 1 - apart / widest


def shares(parts):
    """Factors that give each kernel a third of the spread."""
    return [1 / (np.diag(part).mean() - part.mean()) / 3 for part in parts]


def ridge(similarities, targets, penalty):
    """Coefficients and intercept that minimise squared errors plus the penalised norm, by its conditions."""
    n = len(similarities)
    system = np.block(
        [[similarities + penalty * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]
    )
    solution = np.linalg.lstsq(system, np.vstack([targets, np.zeros((1, targets.shape[1]))]), rcond=None)[0]
    return solution[:n], solution[n]


def left_out(similarities, targets, penalty):
    """Score of every row by a ridge that is fitted again without it."""
    found = []
    for i in range(len(targets)):
        rest = np.arange(len(targets)) != i
        coefficients, intercept = ridge(similarities[np.ix_(rest, rest)], targets[rest], penalty)
        found.append(similarities[i, rest] @ coefficients + intercept)
    return np.array(found)
