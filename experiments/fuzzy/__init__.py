"""Deep fuzzy models on handwritten digits (003 Sec. 4.1.1)."""
