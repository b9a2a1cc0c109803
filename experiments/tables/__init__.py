"""Ordinary tables: accuracy beside peers, and private synthetic tables."""
