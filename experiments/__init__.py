"""Experiments of the documents, one folder each; run with ``python -m experiments.<folder>.<name>``."""
