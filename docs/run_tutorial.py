"""``python docs/run_tutorial.py PAGE...``: run every block of a tutorial in an empty folder.

The blocks of a page become one shell script, from top to bottom: ``$`` lines of ``console`` blocks are
commands, ``python`` blocks are programs, and blocks with a title are written to the file that it names.
The first command that fails ends the page with its exit code.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "ONEFOLD_END_OF_BLOCK"


def script_of(page: str) -> str:
    """The shell script that does what a page says."""
    return "\n".join(["set -euo pipefail", *_steps(page)]) + "\n"


def _steps(page: str) -> Iterator[str]:
    for kind, title, content in BLOCK.findall(page):
        if title:
            yield f"cat > {title} <<'{END}'\n{content}{END}"
        elif kind == "python":
            yield f"python - <<'{END}'\n{content}{END}"
        elif kind == "console":
            yield from (line[2:] for line in content.splitlines() if line.startswith("$ "))


def run(page: Path, folder: Path) -> int:
    """Run a page in a folder; what it started is ended with it."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONSTARTUP"}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
    own["XDG_DATA_HOME"] = str(folder / ".data")  # keys that commands make stay out of the user's own
    running = subprocess.Popen(
        ["bash", "-c", script_of(page.read_text(encoding="utf-8"))],
        cwd=folder,
        env=own,
        start_new_session=True,
    )
    try:
        return running.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGTERM)


def main() -> int:
    """Run the pages that are named, each in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("pages", metavar="PAGE", nargs="+", type=Path)
    pages = parser.parse_args().pages
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            print(f"== {page}", flush=True)
            code = run(page, Path(folder))
            if code:
                print(f"{page}: exit code {code}")
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
