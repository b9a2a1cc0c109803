"""How much memory is free, so that work which does not fit is refused before it begins."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["free_bytes"]

MEMINFO = Path("/proc/meminfo")


def free_bytes() -> int | None:
    """Bytes that can be had without swapping, or those the machine has; None where nothing tells."""
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
