"""How ``make docs`` builds the site: Markdown pages, docstrings and a gallery of pictures; no network."""

from __future__ import annotations

import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "src"), str(TOP), str(TOP / "docs")]  # the package, and what the gallery uses

from sphinx_gallery.scrapers import figure_rst  # noqa: E402

import onefold  # noqa: E402

project = "onefold"
version = release = onefold.__version__
copyright = "the authors of onefold"  # noqa: A001 -- Sphinx wants this name
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery_src/*"]
myst_heading_anchors = 4
# Pages link to files of the checkout, such as experiments/kahm/README.md; these are no pages of the site.
# Attributes such as n_components_ belong to several classes, and are meant to be the nearest.
suppress_warnings = ["myst.xref_missing", "config.cache", "ref.python"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_default_options = {"members": True, "member-order": "bysource", "inherited-members": False}
autodoc_typehints = "none"
nitpicky = False
html_theme = "furo"
html_title = "onefold"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b7a75", "color-brand-content": "#0b7a75"},
    "dark_css_variables": {"color-brand-primary": "#4fd1c5", "color-brand-content": "#4fd1c5"},
}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True


def picture_of(_block: object, block_vars: dict, gallery_conf: dict) -> str:
    """Show what a block of the gallery named ``figure``; displays draw figures that pyplot does not know."""
    figure = block_vars["example_globals"].pop("figure", None)
    if figure is None:
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=150)
    told = block_vars["example_globals"].pop("words", "")
    return figure_rst([path], gallery_conf["src_dir"], told)


sphinx_gallery_conf = {
    "image_scrapers": (picture_of,),
    "capture_repr": (),
    "within_subsection_order": "FileNameSortKey",
    "examples_dirs": "gallery_src",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "plot_gallery": "True",
    "abort_on_example_error": True,
}


def setup(app: object) -> None:
    """Leave out what scikit-learn adds to every estimator for its routing of metadata."""

    def skip(_app: object, _kind: str, name: str, _thing: object, skipped: bool, _options: object) -> bool:
        return skipped or (name.startswith("set_") and name.endswith("_request"))

    app.connect("autodoc-skip-member", skip)  # type: ignore[attr-defined]
