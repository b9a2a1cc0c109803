"""Neighbouring tables, and the outline of what leaves: what an observer sees without reading a number."""

import numpy as np

from reference.forging import opened

# What a single record may hold: outside of every domain, whole, fractional, tiny, without a sign.
RECORDS = ([1e6, -1e6, 7.0], [0.5, 2.0 / 3.0, 1e-300], [0.0, -0.0, 1.0], [3.0, 4.0, 5.0])


def replaced(X, place, record):
    """The table with one record replaced by another."""
    other = np.array(X, dtype=np.float64)
    other[place] = record
    return other


def in_containers(X):
    """The table as an array, and as frames of which the types follow from the values."""
    import pandas as pd

    whole = bool(np.all(np.rint(X) == X))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    mixed = frame.astype({"b": np.float32, "c": np.float32})
    narrow = mixed.astype({"a": np.int16 if whole and np.abs(X).max() < 2**15 else np.float64})
    return {"array": np.array(X), "list": X.tolist(), "frame": frame, "mixed frame": narrow}


def outline(packed):
    """Length, names, types and shapes of everything in a file, and its texts and whole numbers."""
    header, arrays = opened(packed)
    shapes = {name: (each.dtype.str, each.shape) for name, each in arrays.items()}
    return len(packed), shapes, texts(without_entropy(header))


def without_entropy(plain):
    """Plain values with the length in the place of what a ledger drew: its identity, and marks of charges."""
    if isinstance(plain, dict):
        drawn = {name: len(plain[name]) for name in ("ledger", "mark", "previous") if "mark" in plain}
        return {name: without_entropy(inner) for name, inner in plain.items()} | drawn
    return [without_entropy(inner) for inner in plain] if isinstance(plain, list) else plain


def texts(plain):
    """Plain values with a word in the place of every number that has a point."""
    if isinstance(plain, dict):
        return {name: texts(inner) for name, inner in plain.items()}
    if isinstance(plain, list):
        return [texts(inner) for inner in plain]
    return "number" if isinstance(plain, float) else plain
