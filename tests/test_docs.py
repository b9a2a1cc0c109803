"""The documents say what the code does: generated parts are fresh, and every option explains itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(not (TOP / "docs").is_dir(), reason="the documents are not in this copy")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", TOP / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_of_the_documents_are_fresh(generate: ModuleType) -> None:
    assert generate.stale() == [], generate.ADVICE


def test_every_argument_and_option_has_a_help_line(generate: ModuleType) -> None:
    assert generate.options_without_help() == []


def test_a_changed_table_makes_a_document_stale(generate: ModuleType) -> None:
    text = "a\n<!-- generated: layers -->\nold\n<!-- end -->\nb\n"
    assert generate.with_part(text, "layers", "new") == text.replace("old", "new")


def test_missing_marks_are_an_error(generate: ModuleType) -> None:
    with pytest.raises(SystemExit, match="marks of the generated part 'layers' are missing"):
        generate.with_part("no marks", "layers", "new")
