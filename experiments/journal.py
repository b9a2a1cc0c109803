"""Long experiments that can be interrupted: a finished piece is a line in a file and is not done again."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.harness import note
from onefold.exceptions import InvalidInputError

_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage counts kibibytes, except there


class Journal:
    """Results by key. A key names everything that decides a result: data, sizes, options and seed.

    Parameters
    ----------
    path : file of JSON lines that is read at the start and appended to; None keeps nothing.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.entries: dict[str, dict[str, Any]] = {}
        if self.path is not None and (self.path.is_dir() or not self.path.absolute().parent.is_dir()):
            raise InvalidInputError("--resume needs a file in a folder that exists")
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def run(self, key: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of ``work``, from the file if it is there; with its seconds and the process's peak."""
        if key in self.entries:
            return dict(self.entries[key])
        start, processor = time.perf_counter(), time.process_time()
        result = work()
        entry = {
            **result,
            "seconds": round(time.perf_counter() - start, 3),
            "cpu_seconds": round(time.process_time() - processor, 3),
            "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 2**20, 1),
        }
        self.entries[key] = entry
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, **entry}) + "\n")
        accuracy = f"accuracy {entry['accuracy']:.4f}, " if "accuracy" in entry else ""
        note(f"{key}: {accuracy}{entry['cpu_seconds']:.1f} s of computing, peak {entry['peak_mib']:.0f} MiB")
        return entry

    def _read(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for number, line in enumerate(lines):
            try:
                entry = json.loads(line)
                self.entries[entry.pop("key")] = entry
            except (ValueError, KeyError, AttributeError, TypeError):
                if number < len(lines) - 1:
                    raise InvalidInputError(f"{path.name} is not a journal of results") from None
                # The last line of an interrupted run: cut it off, its piece is done again.
                path.write_text("".join(lines[:-1]), encoding="utf-8")


def positive(text: str) -> int:
    """A whole number of at least one, for an option."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return int(text)


def add_resume(options: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The option that names the file."""
    options.add_argument(
        "--resume", metavar="FILE", help="file that keeps finished pieces; a later run continues from it"
    )
    return options
