"""Write docs/sbom.cdx.json (CycloneDX) and docs/licences.md: what the lock file installs, and its licences.

Run through `make sbom`, inside the environment with everything in it: licences are read from the packages
that are installed. `--check` writes nothing and leaves with code 1 when a file differs.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
LOCK = TOP / "requirements" / "all.lock"
SBOM, LICENCES = TOP / "docs" / "sbom.cdx.json", TOP / "docs" / "licences.md"
PIN = re.compile(r"([a-z0-9][a-z0-9._-]*)==(\S+)")
ROOT = "onefold"
ADVICE = "run make sbom"
# Classifiers that say which licence; "OSI Approved" alone does not.
CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")


def locked() -> dict[str, tuple[str, set[str]]]:
    """Version of each package in the lock file, and the packages that need it."""
    found: dict[str, tuple[str, set[str]]] = {}
    name = ""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        pin, via = PIN.match(line), re.match(r"\s+#(?: via)?\s+(\S+)", line)
        if pin:
            name = pin[1]
            found[name] = (pin[2], set())
        elif via and via[1] != "via" and name:
            found[name][1].add(via[1].partition("[")[0])
    return found


def groups() -> dict[str, list[str]]:
    """What onefold itself asks for: without extras, and by extra."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {"": project["dependencies"], **project["optional-dependencies"]}
    names = {key: [_name(text) for text in texts] for key, texts in asked.items()}
    return {key: [name for name in found if name != ROOT] for key, found in names.items()}


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def needed_by() -> dict[str, list[str]]:
    """Extras that bring each package: "" for onefold itself, "dev" for the tools of its developers."""
    children: dict[str, set[str]] = {}
    for name, (_, parents) in locked().items():
        for parent in parents:
            children.setdefault(parent, set()).add(name)
    found: dict[str, list[str]] = {name: [] for name in locked()}
    for extra, direct in groups().items():
        reached, todo = set(), list(direct)
        while todo:
            name = todo.pop()
            if name in found and name not in reached:
                reached.add(name)
                todo += children.get(name, ())
        for name in reached:
            found[name].append(extra)
    return {name: sorted(extras) for name, extras in found.items()}


def licence(name: str, version: str) -> str:
    """What a package says about its licence; the installed version must be the locked one."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        raise SystemExit(f"{name} is not installed: run make setup first") from None
    if told["Version"] != version:
        raise SystemExit(f"{name} {told['Version']} is installed, {version} is locked: run make setup first")
    if told["License-Expression"]:
        return str(told["License-Expression"])
    short = (told["License"] or "").strip()
    classes = [found[1] for text in told.get_all("Classifier") or [] if (found := CLASSIFIER.match(text))]
    if classes:
        return "; ".join(sorted(set(classes)))
    if short and "\n" not in short and len(short) <= 60:
        return short
    return "not declared in the package's metadata"


def bill(licences: dict[str, str]) -> dict[str, Any]:
    """The bill of materials; it has no time and no number of its own, so that it can be compared."""
    pins, extras = locked(), needed_by()
    version = re.search(r'__version__ = "(.+)"', (TOP / "src/onefold/__init__.py").read_text("utf-8"))
    assert version is not None
    refs = {name: f"pkg:pypi/{name}@{pinned}" for name, (pinned, _) in pins.items()}
    root = f"pkg:pypi/{ROOT}@{version[1]}"

    def scope(name: str) -> str:
        if "" in extras[name]:
            return "required"
        return "optional" if set(extras[name]) - {"dev"} else "excluded"

    direct = sorted(refs[name] for name, (_, parents) in pins.items() if ROOT in parents)
    edges = [{"ref": root, "dependsOn": direct}]
    for name in pins:
        below = sorted(refs[other] for other, (_, parents) in pins.items() if name in parents)
        edges.append({"ref": refs[name], "dependsOn": below} if below else {"ref": refs[name]})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": ROOT,
                "version": version[1],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": root,
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": refs[name],
                "name": name,
                "version": pinned,
                "scope": scope(name),
                "licenses": [{"license": {"name": licences[name]}}],
                "purl": refs[name],
            }
            for name, (pinned, _) in sorted(pins.items())
        ],
        "dependencies": edges,
    }


def page(licences: dict[str, str]) -> str:
    """The list of licences for people."""
    lines = [
        "# Licences of what onefold installs",
        "",
        "Written by `make sbom` from `requirements/all.lock` and from what packages say about themselves,",
        "unchecked against their source code. onefold itself is under the Apache License 2.0. The same as a",
        "CycloneDX bill of materials: [sbom.cdx.json](sbom.cdx.json). *core* is needed always, other words",
        "are extras, and *dev* alone is needed by developers only.",
        "",
        "| package | version | licence | needed by |",
        "|---|---|---|---|",
    ]
    extras = needed_by()
    for name, (version, _) in sorted(locked().items()):
        needed = ", ".join(extra or "core" for extra in extras[name]) or "dev"
        lines.append(f"| {name} | {version} | {licences[name].replace('|', '/')} | {needed} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Write both files, or compare them."""
    licences = {name: licence(name, version) for name, (version, _) in locked().items()}
    made = {SBOM: json.dumps(bill(licences), indent=1) + "\n", LICENCES: page(licences)}
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(TOP)} is stale: {ADVICE}")
        return int(bool(stale))
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
