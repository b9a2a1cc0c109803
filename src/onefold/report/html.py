"""One-file HTML pages: no script, no network, everything inside (extra ``report``)."""

from __future__ import annotations

import base64
from importlib.resources import files
from pathlib import Path

from onefold._base.files import atomic_write
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.report import figures
from onefold.report.comparison import Comparison, package_versions

__all__ = ["comparison_page", "require_page_tools", "write_page"]


def require_page_tools() -> None:
    """Raise MissingDependencyError now rather than after a long run."""
    for module in ("jinja2", "matplotlib", "matplotlib.figure"):
        require(module, "report")


def comparison_page(comparison: Comparison) -> str:
    """A page with the accuracies, the class counts, the settings and the versions.

    Every text is escaped; both figures carry a description for readers who cannot see them.
    """
    require_page_tools()
    jinja2 = require("jinja2", "report")
    source = files("onefold.report").joinpath("templates/comparison.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page: str = environment.from_string(source).render(
        study=comparison,
        bars=_data_uri(figures.accuracy_bars(comparison)),
        bars_text=_describe_bars(comparison),
        heat=_data_uri(figures.class_counts(comparison)),
        heat_text=_describe_counts(comparison),
        versions=package_versions(),
    )
    return page


def write_page(path: str | Path, page: str) -> None:
    """Write a page; the file appears whole or not at all."""
    try:
        with atomic_write(path) as file:
            file.write(page.encode())
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written ({error.strerror or 'I/O error'})") from error


def _data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _describe_bars(comparison: Comparison) -> str:
    values = ", ".join(f"{entry.name} {entry.accuracy:.3f}" for entry in comparison.entries)
    return f"Bar chart of accuracies: {values}."


def _describe_counts(comparison: Comparison) -> str:
    owners = ", ".join(
        f"{name} holds {owner.samples} samples of {owner.classes} classes"
        for name, owner in zip(comparison.owner_names, comparison.owners, strict=True)
    )
    return f"Heat map of samples per owner and class: {owners}."
