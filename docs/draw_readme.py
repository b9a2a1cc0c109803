"""``python docs/draw_readme.py``: the picture of the README, from the demo on bundled data."""

from __future__ import annotations

from pathlib import Path

from onefold.cli.demo import RANGES, Plan, compare
from onefold.datasets import load
from onefold.report.federations import of_comparison

if __name__ == "__main__":
    study = compare(Plan(load("digits"), 5, 0, None, 4.0, 8.0, RANGES["digits"]))
    bars = next(part.display for part in of_comparison(study).sections if part.title == "Accuracy")
    assert bars is not None
    target = Path(__file__).parent / "images" / "demo.svg"
    target.write_text(bars.to_svg(), encoding="utf-8")
