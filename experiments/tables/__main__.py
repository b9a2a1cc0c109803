"""``python -m experiments.tables``: accuracy on ordinary tables, then private synthetic tables."""

import sys

from experiments.tables import accuracy, synthesis

if __name__ == "__main__":
    sys.exit(max(accuracy.main(), synthesis.main()))
