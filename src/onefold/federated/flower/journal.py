"""Decisions of a site or a server, one line each, in a file that only its owner can read."""

from __future__ import annotations

import logging
import os
from pathlib import Path

__all__ = ["log_to"]


def log_to(path: Path) -> None:
    """Send what the package logs in this process to a file, and nowhere else."""
    logger = logging.getLogger("onefold")
    if logger.handlers:
        return
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
