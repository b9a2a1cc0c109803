"""Timings of onefold as ratios within one run: against literal versions, plain matrix products, and peers."""
