"""What is installed is what was locked, and nothing speaks to the network on its own."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).resolve().parents[1]
LOCKS = ("all.lock", "dev.lock")
SEAL_USERS = {"federated/fhe/seal.py"}

checkout = pytest.mark.skipif(not (TOP / "requirements").is_dir(), reason="no lock files in this copy")


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"requirements_{name}", TOP / "requirements" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _locked(name: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Version and hashes of each package."""
    text = (TOP / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            pin = re.match(r"([a-z0-9._-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)\s*$", line)
            assert pin is not None, line[:60]
            found[pin[1]] = (pin[2], tuple(pin[3].split()))
    return found


# --- lock files -------------------------------------------------------------------------------------------


@checkout
@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_locked_by_version_and_hash_without_an_index(name: str) -> None:
    assert len(_locked(name)) > 50
    text = (TOP / "requirements" / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


@checkout
def test_the_light_environment_is_a_part_of_the_full_one() -> None:
    full, light = (_locked(name) for name in LOCKS)
    assert {name: pin for name, pin in full.items() if name in light} == light


@checkout
def test_everything_that_the_project_asks_for_is_locked() -> None:
    locked = _locked("all.lock")
    assert {name for names in _script("sbom").groups().values() for name in names} <= set(locked)


@checkout
def test_make_and_the_recipes_install_with_hashes() -> None:
    for name in ("Makefile", "deploy/Dockerfile", "deploy/try.sh"):
        text = (TOP / name).read_text(encoding="utf-8").replace("\\\n", " ")
        installs = [
            line for line in text.splitlines() if re.search(r"--requirement\s+\S*(all|dev)\.lock", line)
        ]
        assert installs
        assert all("--require-hashes" in line for line in installs)


# --- the binary that encrypts -----------------------------------------------------------------------------


@checkout
def test_threats_name_the_publisher_of_the_binary_that_encrypts() -> None:
    pytest.importorskip("seal")
    known = metadata("seal-python")
    (row,) = [
        line
        for line in (TOP / "docs" / "threats.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| **a bad binary of SEAL**")
    ]
    version, hashes = _locked("all.lock")["seal-python"]
    assert f"`seal-python` {version}" in row
    assert len(hashes) > 1
    assert f"one author, {known['Author']} (`{known['Home-page'].removeprefix('https://')}`)" in row
    assert any("Beta" in each for each in known.get_all("Classifier"))


@checkout
def test_seal_is_used_by_encrypted_queries_alone() -> None:
    source = TOP / "src" / "onefold"
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"import seal\b|from seal\b|\"seal\"", path.read_text(encoding="utf-8"))
    }
    assert users == SEAL_USERS


# --- bill of materials ------------------------------------------------------------------------------------


@checkout
def test_the_bill_of_materials_matches_the_lock_file() -> None:
    bill = json.loads((TOP / "docs/sbom.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {part["name"]: part["version"] for part in bill["components"]}
    assert listed == {name: version for name, (version, _) in _locked("all.lock").items()}
    assert bill == _script("sbom").bill(
        {part["name"]: part["licenses"][0]["license"]["name"] for part in bill["components"]}
    )
    scopes = {part["name"]: part["scope"] for part in bill["components"]}
    expected = {"numpy": "required", "flwr": "optional", "psycopg": "optional", "mypy": "excluded"}
    assert {name: scopes[name] for name in expected} == expected


@checkout
def test_the_list_of_licences_matches_the_lock_file() -> None:
    rows = re.findall(
        r"^\| (\S+) \| (\S+) \| (.+?) \| .+ \|$", (TOP / "docs/licences.md").read_text("utf-8"), re.MULTILINE
    )
    listed = {name: version for name, version, _ in rows if name not in ("package", "---")}
    assert listed == {name: version for name, (version, _) in _locked("all.lock").items()}


# --- known weaknesses -------------------------------------------------------------------------------------


@checkout
def test_an_audit_without_answers_is_no_clean_audit() -> None:
    audit = _script("audit")
    clean = {"name": "a", "version": "1", "vulns": []}
    skipped = {"name": "b", "skip_reason": "not found"}
    weak = {"name": "c", "version": "2", "vulns": [{"id": "X-1", "fix_versions": ["3"]}]}
    assert audit.verdict([clean])[0] == audit.CLEAN
    for report in ([], [skipped], [clean, skipped]):
        code, lines = audit.verdict(report)
        assert code == audit.NOT_AUDITED
        assert lines[0].startswith("NOT AUDITED")
    code, lines = audit.verdict([skipped, weak])
    assert code == audit.WEAK
    assert lines[0] == "c 2: X-1, fixed in 3"


# --- no network -------------------------------------------------------------------------------------------

# Python reports every connection and look-up of a host to such a hook. Compiled code that opens sockets by
# itself is not seen: gRPC does, in processes of a federation only, and is told where to connect.
WATCHED = """
import sys
LOOPBACK = ("127.", "::1", "localhost")
def watch(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        outside = isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK)
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        outside = args[0] is not None and not str(args[0]).startswith(LOOPBACK)
    else:
        return
    if outside:
        print("NETWORK", event, file=sys.stderr, flush=True)
        raise ConnectionError("no network in this test")
sys.addaudithook(watch)
"""
IMPORT_ALL = """
import importlib, pkgutil, onefold
for module in pkgutil.walk_packages(onefold.__path__, "onefold.", onerror=lambda name: None):
    if not module.name.endswith("__main__") and "plain_app" not in module.name:
        try:
            importlib.import_module(module.name)
        except ImportError:
            pass  # an extra that is not installed
"""
FIT_AND_USE = """
from onefold.cli.app import main
assert main(["fit", "t.csv", "--label", "y", "--out", "m.onefold", "--quiet"]) == 0
assert main(["predict", "m.onefold", "t.csv", "--out", "p.csv", "--quiet"]) == 0
assert main(["federate", "simulate", "t.csv", "--label", "y", "--sites", "2", "--json"]) == 0
"""


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WATCHED + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.merge
def test_neither_import_nor_use_reaches_for_the_network(tmp_path: Path) -> None:
    rows = "".join(f"{n % 7},{n % 2 + n / 100},{'ab'[n % 2]}\n" for n in range(60))
    (tmp_path / "t.csv").write_text(f"u,v,y\n{rows}")
    run = _run(IMPORT_ALL + FIT_AND_USE, tmp_path)
    assert "NETWORK" not in run.stderr
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize(
    "code",
    [
        "import socket\ntry: socket.create_connection(('192.0.2.1', 9), timeout=0.1)\nexcept OSError: pass",
        "import urllib.request\ntry: urllib.request.urlopen('http://example.org')\nexcept OSError: pass",
    ],
)
def test_the_watch_sees_a_connection_that_is_hidden_by_the_program(code: str, tmp_path: Path) -> None:
    run = _run(code, tmp_path)
    assert run.returncode == 0
    assert "NETWORK" in run.stderr
