"""Every block of tutorials, how-to pages and the page about all of onefold runs in an empty folder."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests import warm

TOP = Path(__file__).resolve().parents[1]
DOCS = TOP / "docs"
HOWTO = [page for page in sorted(DOCS.glob("howto/*.md")) if "```" in page.read_text(encoding="utf-8")]
PAGES = [*sorted(DOCS.glob("tutorials/*.md")), *HOWTO, DOCS / "all-of-onefold.md"]
# Pages that start servers, and what they need.
FEDERATIONS = {"federation": ("flwr",), "encrypted": ("flwr", "seal")}
ENCODERS = {"encoder": ("onnx", "onnxruntime", "PIL", "tokenizers")}


def _runner() -> ModuleType:
    path = DOCS / "run_tutorial.py"
    spec = importlib.util.spec_from_file_location("run_tutorial", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = _runner()


def _need(page: Path) -> None:
    for module in ("matplotlib", "jinja2", "pandas", *(FEDERATIONS | ENCODERS).get(page.stem, ())):
        pytest.importorskip(module)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.merge if page.stem in FEDERATIONS else pytest.mark.nightly)
        for page in PAGES
    ],
    ids=lambda page: page.stem,
)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    _need(page)
    assert RUNNER.run(page, tmp_path) == 0


@pytest.mark.merge
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in FEDERATIONS], ids=lambda page: page.stem
)
def test_every_block_of_a_page_runs_in_a_loaded_process(page: Path, tmp_path: Path) -> None:
    _need(page)
    own = os.environ | {"XDG_DATA_HOME": str(tmp_path / ".data")}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
    command = [sys.executable, str(TOP / "tests" / "warm.py"), str(page)]
    assert subprocess.run(command, cwd=tmp_path, env=own, check=False).returncode == 0


def test_pages_end_with_what_can_go_wrong_and_hide_no_command() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "## When something goes wrong\n\n| it says | because | do this |" in text, page.stem
        script = RUNNER.script_of(text)
        assert len(re.findall(r"\bonefold[ .]", script)) >= 2, page.stem
        # A block of another kind would be read by people and run by nobody.
        kinds = set(re.findall(r"^```(\w+)", text, re.MULTILINE))
        assert kinds <= {"python", "console", "json"}, page.stem
        for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            assert all(line.startswith("$ ") for line in block.splitlines()), page.stem


def test_a_page_runs_its_blocks_in_one_folder(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ echo 3 > number\n```\n```python\nassert int(open('number').read()) == 3\n```\n"
    )
    assert RUNNER.run(page, tmp_path) == 0


def test_a_failing_command_fails_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ false\n$ true\n```\n")
    assert RUNNER.run(page, tmp_path) == 1


@pytest.mark.parametrize("line", ["false", "onefold fit no-such-file", "! onefold --version"])
def test_a_line_that_does_not_end_as_it_says_is_seen_in_a_loaded_process(line: str) -> None:
    assert not warm.ends_well(line)


def test_a_line_that_ends_as_it_says_is_seen_in_a_loaded_process() -> None:
    assert all(map(warm.ends_well, ["true", "onefold --version", "! onefold fit no-such-file", "! false"]))
    assert warm.in_a_fork(warm.program("raise SystemExit(3)")) == 3
    assert warm.in_a_fork(warm.program("1 / 0")) == 1
