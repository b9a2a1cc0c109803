"""``python tests/warm.py PAGE``: the blocks of a page, each in a fork of one process that has loaded onefold.

They run in the current folder, as ``docs/run_tutorial.py`` runs them, but for most of the time of a short
block, which is that of loading. What is more than a command with its arguments is left to the shell; a page
that leaves a command running needs a shell of its own.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "docs"))

import run_tutorial  # noqa: E402

SHELL = set("|&;<>$`*{}")


def in_a_fork(work: Callable[[], Any]) -> int:
    """The exit code of a fork that does this work."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work() or 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def program(text: str) -> Callable[[], None]:
    """A block of Python."""

    def work() -> None:
        sys.path.insert(0, "")  # as for a program from standard input
        exec(compile(text, "<stdin>", "exec"), {"__name__": "__main__"})

    return work


def ends_well(line: str) -> bool:
    """Whether a line of a console ends as its author meant: ``!`` stands before what must fail."""
    from onefold.cli.app import main

    words = line.removeprefix("! ")
    if not words.startswith("onefold ") or SHELL & set(words):
        return subprocess.run(["bash", "-c", f"set -euo pipefail\n{line}"], check=False).returncode == 0
    return (in_a_fork(lambda: main(shlex.split(words)[1:])) == 0) is not line.startswith("! ")


def run(page: str) -> int:
    """Run the blocks of a page until one fails."""
    for kind, title, content in run_tutorial.BLOCK.findall(page):
        good = True
        if title:
            Path(title).write_text(content, encoding="utf-8")
        elif kind == "python":
            good = in_a_fork(program(content)) == 0
        elif kind == "console":
            good = all(ends_well(line[2:]) for line in content.splitlines() if line.startswith("$ "))
        if not good:
            return 1
    return 0


if __name__ == "__main__":
    import sklearn.datasets
    import sklearn.model_selection  # noqa: F401

    import onefold

    for name in onefold.__all__:
        getattr(onefold, name)
    sys.exit(run(Path(sys.argv[1]).read_text(encoding="utf-8")))
