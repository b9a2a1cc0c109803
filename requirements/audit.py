"""Ask whether versions in all.lock have published weaknesses, and say plainly when nobody could answer.

Run through `make audit`, inside an environment that has pip-audit. Exit codes: 0, every package was looked up
and none has a known weakness; 1, some have; 3, some or all could not be looked up.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_name("all.lock")
CLEAN, WEAK, NOT_AUDITED = 0, 1, 3


def verdict(dependencies: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Return the exit code and what to say about a report of pip-audit."""
    skipped = [found["name"] for found in dependencies if "skip_reason" in found]
    lines = []
    for found in dependencies:
        for weakness in found.get("vulns", []):
            fixed = ", ".join(weakness.get("fix_versions", [])) or "none yet"
            lines.append(f"{found['name']} {found['version']}: {weakness['id']}, fixed in {fixed}")
    looked_up = len(dependencies) - len(skipped)
    summary = f"{looked_up} of {len(dependencies)} packages looked up, {len(lines)} known weaknesses."
    if lines:
        return WEAK, [*lines, summary]
    if skipped or not dependencies:
        return NOT_AUDITED, [
            f"NOT AUDITED: {summary} The database of weaknesses cannot be reached from here."
        ]
    return CLEAN, [summary]


def main() -> int:
    """Run pip-audit on the lock file and tell."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format=json"]
    command += ["--progress-spinner=off", f"--requirement={LOCK}"]
    run = subprocess.run(command, capture_output=True, text=True)
    try:
        dependencies = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        dependencies = []  # it got no answer at all
    code, lines = verdict(dependencies)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
