"""Releasing datasets with optimal noise (document 002)."""
