"""Scripts that come with the source and not with the installed package: experiments and benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from onefold.exceptions import InvalidInputError


def checkout_with(folder: str) -> Path:
    """The source checkout around the package, or around the working directory, that holds ``folder``."""
    for start in (Path(__file__).resolve().parent, Path.cwd().resolve()):
        for root in (start, *start.parents):
            if (root / "src" / "onefold" / "cli").is_dir() and (root / folder).is_dir():
                return root
    raise InvalidInputError(f"no folder {folder}/ found: this command runs from a source checkout of onefold")


def scripts(root: Path, folder: str) -> list[str]:
    """Runnable scripts in ``folder``: ``kahm/table_1`` for ``kahm/table_1.py``; a leading ``_`` hides."""
    names = []
    for path in sorted((root / folder).rglob("*.py")):
        parts = path.relative_to(root / folder).with_suffix("").parts
        if not any(part.startswith(("_", ".")) for part in parts) and _is_runnable(path):
            names.append("/".join(parts))
    return names


def _is_runnable(path: Path) -> bool:
    return '__name__ == "__main__"' in path.read_text(encoding="utf-8", errors="replace")


def run_module(root: Path, module: str, arguments: list[str]) -> int:
    """Run ``python -m module`` on the checkout in its own process and pass on its exit code."""
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    sys.stdout.flush()
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environment, check=False).returncode
