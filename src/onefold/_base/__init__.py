"""Foundations without any model in them: validation, linear algebra, threads, optional imports."""
