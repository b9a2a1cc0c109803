"""Write the tables of the demonstration: north.csv, south.csv and new.csv, from data of scikit-learn.

Run as ``python demo_tables.py FOLDER``. All columns are scaled to 0 to 1 by ranges of the whole set, which is
public; sites with private rows declare their ranges instead (docs/tables.md).
"""

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_breast_cancer


def main() -> None:
    """Spread the rows over two sites and the querier."""
    folder = Path(sys.argv[1])
    data = load_breast_cancer()
    low, high = data.data.min(axis=0), data.data.max(axis=0)
    rows = (data.data - low) / (high - low)
    header = [*(name.replace(" ", "_") for name in data.feature_names), "diagnosis"]
    for place, name in enumerate(("north", "south", "new")):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row, label in zip(rows[place::3], data.target[place::3], strict=True):
                writer.writerow([*(f"{value:.6f}" for value in row), data.target_names[label]])


if __name__ == "__main__":
    main()
