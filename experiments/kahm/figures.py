"""Figures from the JSON that the other scripts print: ``mnist.json``, ``grocery.json``, ``timing.json``.

Whatever is found in the folder is drawn, as SVG and PNG into the same folder (extra ``report``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.harness import BAD_INPUT
from onefold._base.optional import require
from onefold.exceptions import MissingDependencyError

OURS, THEIRS, INK = "#0b7a75", "#a9b4c2", "#1f2933"
Result = dict[str, Any]


def mnist(result: Result, axes: Any) -> None:
    """Accuracy over n: without noise here, at the weakest noise in the document."""
    rows = [
        dict(zip(result["tables"][0]["headers"], row, strict=True)) for row in result["tables"][0]["rows"]
    ]
    chosen = [row for row in rows if row["variant"].startswith(("document", "components"))]
    exact = sorted((row for row in chosen if row["n_probe"] == "all"), key=lambda row: row["n"])
    n = [row["n"] for row in exact]
    axes.plot(n, [row["accuracy"] for row in exact], "o-", color=OURS, label="measured, no noise")
    label = "document, weakest noise"
    axes.plot(n, [row[label] for row in exact], "s--", color=THEIRS, label=label)
    axes.set_xticks(n)
    axes.set_xlabel("components n")
    axes.set_ylabel("accuracy on the test digits")
    axes.legend()


def grocery(result: Result, axes: Any) -> None:
    """Accuracy of every method on the coarse classes, given division and random ones."""
    rows = sorted(result["tables"][0]["rows"], key=lambda row: row[4])
    places = range(len(rows))
    axes.barh(places, [row[4] for row in rows], color=THEIRS, height=0.7, label="random divisions")
    axes.plot([row[2] for row in rows], places, "o", color=OURS, label="given division")
    axes.set_yticks(places, [f"{row[0]} ({row[1]})" for row in rows], fontsize=8)
    axes.set_xlim(0.3, 1.0)
    axes.set_xlabel("accuracy, coarse classes")
    axes.legend(loc="lower right")


def timing(result: Result, axes: Any) -> None:
    """Seconds over entries, both axes logarithmic."""
    rows = result["tables"][0]["rows"]
    entries = [row[0] for row in rows]
    axes.loglog(entries, [row[2] for row in rows], "o-", color=OURS, label="measured")
    axes.loglog(entries, [row[3] for row in rows], "s--", color=THEIRS, label="document (another machine)")
    axes.set_xlabel("entries N x p")
    axes.set_ylabel("seconds to fit one machine")
    axes.legend()


FIGURES: dict[str, tuple[Callable[[Result, Any], None], float]] = {
    "grocery": (grocery, 5.2),
    "mnist": (mnist, 3.4),
    "timing": (timing, 3.4),
}


def draw(name: str, folder: Path) -> list[Path]:
    """One figure, without matplotlib's global state."""
    function, height = FIGURES[name]
    result = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    figure = require("matplotlib.figure", "report").Figure(figsize=(6.4, height), layout="constrained")
    axes = figure.add_subplot()
    function(result, axes)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    paths = [folder / f"{name}.{suffix}" for suffix in ("svg", "png")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def main(arguments: list[str] | None = None) -> int:
    """Draw what the folder holds."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "folder",
        nargs="?",
        default="build/kahm",
        type=Path,
        help="folder to write the figures to (default: build/kahm)",
    )
    folder = options.parse_args(arguments).folder
    found = [name for name in FIGURES if (folder / f"{name}.json").is_file()]
    if not found:
        print(f"{options.prog}: error: no {', '.join(FIGURES)}.json in that folder", file=sys.stderr)
        return BAD_INPUT
    try:
        for name in found:
            print("\n".join(str(path) for path in draw(name, folder)))
    except (MissingDependencyError, ValueError, KeyError, IndexError) as error:
        print(f"{options.prog}: error: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
